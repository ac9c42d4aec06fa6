//! P2: verbs, SDP, IPoIB and 10-gigabit Ethernet on one adapter.

use fabricmark_plan::{Factor, Point};
use fabricmark_wire::Family;

use super::Judge::{Both, Networks, Print};
use super::figures::{Column, Figures, Load, Origin, Quantity};
use super::limit::{send_mbps, tcp_stream_mbps, write_floor_us};
use super::outcome::Missing;
use super::tally::{Relation, Scale, Tally};
use super::value::{Value, rounds_to};
use super::{Claim, claim};
use crate::cell::value;

/// The claims of P2. 01, 11 and 12 check its numbers against the wire.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P2-01",
        "10GigE with jumbo frames reaches up to 9,900 Mb/s.",
        "9,900 Mb/s, or the highest goodput, <= the ceiling of a TCP stream over 10GbE, MTU 9000 (a bound)",
        Both(jumbo_frames_are_within_the_wire, new_jumbo_frames_are_within_the_wire),
    ),
    claim(
        "P2-02",
        "SDP comes closest to the bandwidth of verbs.",
        "peak(SDP) / peak(verbs) exceeds that ratio of 10GigE and of IPoIB",
        Print(sdp_is_closest_to_verbs),
    ),
    claim(
        "P2-03",
        "IPoIB with several streams reaches 85.4 % of the verbs' bandwidth.",
        "10,800 / 12,650 rounds to 85.4 %",
        Print(ipoib_share_of_verbs),
    ),
    claim(
        "P2-04",
        "Several streams of IPoIB improve on one by 30.1 %.",
        "10,800 / 8,415 - 1 rounds to 30.1 %; in new runs peak(2 to 8 streams) > peak(1 stream)",
        Both(several_streams_gain, new_streams_gain),
    ),
    claim(
        "P2-05",
        "Several streams of IPoIB and SDP gain 9.6 % and 26.2 % over 10GigE.",
        "peak / 9,900 - 1 rounds to 9.6 % (IPoIB) and 26.2 % (SDP); in new runs peak(IPoIB, several \
         streams) > peak(10GigE)",
        Both(gains_over_ethernet, new_gains_over_ethernet),
    ),
    claim(
        "P2-06a",
        "10GigE and IPoIB together are 10.7 % below verbs.",
        "1 - 11,300 / 12,650 rounds to 10.7 %",
        Print(both_below_verbs),
    ),
    claim(
        "P2-06b",
        "10GigE and IPoIB together are 12.3 % above 10GigE.",
        "11,300 / 9,900 - 1 rounds to 12.3 %; in new runs the sum of both > 10GigE alone",
        Both(both_above_ethernet, new_both_above_ethernet),
    ),
    claim(
        "P2-07a",
        "10GigE and SDP together are within 1.2 % of verbs.",
        "9,900 * 1.267 >= (1 - 0.012) * 12,650: the aggregate itself is not printed",
        Print(sdp_and_ethernet_near_verbs),
    ),
    claim(
        "P2-07b",
        "10GigE and SDP together are 1.2 % below verbs and 26.7 % above 10GigE.",
        "(1 - 0.012) * 12,650 / 9,900 - 1 rounds to 26.7 %",
        Print(both_statements_of_the_aggregate),
    ),
    claim(
        "P2-08",
        "Latency is reduced by 54.5 %, or by 54.4 %.",
        "the abstract, the introduction and the conclusion print one figure",
        Print(one_latency_figure),
    ),
    claim(
        "P2-09",
        "A data center with IPoIB serves 5 % more than one with 10GigE.",
        "87.15 / 83.06 - 1 rounds to 5 %; in new runs of the bookstore IPoIB > 10GigE between the tiers",
        Both(data_center_gain, new_data_center_gain),
    ),
    claim(
        "P2-10",
        "IPoIB outperforms 10GigE with normal frames.",
        "7,715 > (1 - 0.283) * 9,900; in new runs IPoIB > 10GigE with MTU 1500, one stream from 64 KiB",
        Both(ipoib_exceeds_normal_frames, new_ipoib_exceeds_normal_frames),
    ),
    claim(
        "P2-11",
        "Verbs reach 12,650 Mb/s, limited by the PCIe bus.",
        "12,650 <= the ceiling of RC over 4X DDR and <= PCIe's raw rate; IPoIB's 10,800 <= its ceiling",
        Print(verbs_are_within_wire_and_bus),
    ),
    claim(
        "P2-12",
        "The lowest latency of an RDMA Write is 1.22 us.",
        "1.22 us >= the floor of a write of 0 bytes over 4X DDR without a switch (a bound)",
        Print(write_is_above_its_floor),
    ),
    claim(
        "P2-13",
        "With one stream and large messages verbs are fastest, then SDP, 10GigE and IPoIB.",
        "peak(verbs) > peak(SDP) > peak(10GigE) > average of IPoIB at large messages; in new runs 10GigE \
         with MTU 9000 > IPoIB from 64 KiB",
        Both(order_of_one_stream, new_order_of_one_stream),
    ),
    claim(
        "P2-14",
        "SDP's latency is 65.4 % below 10GigE's; its bandwidth dips at 4 KiB and 64 KiB; shares are even.",
        "latencies up to 1 KiB, bandwidths around the dips, and shares of each pairing",
        Print(only_in_figures),
    ),
    claim(
        "P2-15",
        "10GigE and IPoIB share the bus unevenly, the more streams the more.",
        "larger goodput / smaller goodput of the two, with most streams > with fewest",
        Networks(sharing_becomes_uneven),
    ),
];

// Rows of the peak bandwidths, and of one average, in the data of the text.
const VERBS: &str = "verbs: bandwidth: most";
const SDP: &str = "SDP: bandwidth: most";
const ETHERNET: &str = "10GigE: bandwidth: most";
const IPOIB: &str = "IPoIB: bandwidth of one stream: most";
const IPOIB_LARGE: &str = "IPoIB: bandwidth of one stream: average of large messages";
const IPOIB_STREAMS: &str = "IPoIB, several streams: bandwidth: most";
const ETHERNET_AND_IPOIB: &str = "10GigE and IPoIB: aggregate bandwidth: most";

fn text(row: &str) -> Option<f64> {
    ["section V.A", "section V.B", "section V.C"]
        .iter()
        .find_map(|place| value("P2", place, row, ""))
}

/// Ratio of two printed numbers.
fn ratio(row: &str, base: &str) -> Option<f64> {
    Some(text(row)? / text(base)?)
}

/// Compares a printed percentage of one decimal with the one computed from other printed numbers.
fn percent(tally: &mut Tally, what: &str, computed: f64, printed: f64) {
    let is_true = rounds_to(computed * 100.0, printed, 1);
    tally.is(what, is_true, computed * 100.0, printed, "%");
}

fn jumbo_frames_are_within_the_wire(tally: &mut Tally) -> Option<()> {
    const LINK: &str = "ethernet:10G,mtu=9000";
    let peak = text(ETHERNET)?;
    let bound = tcp_stream_mbps(LINK, Family::V4, false)?;
    let v6 = tcp_stream_mbps(LINK, Family::V6, false)?;
    tally.is("TCP/IPv4 stream", peak <= bound, peak, bound, "Mb/s");
    tally.beside("with time stamps", tcp_stream_mbps(LINK, Family::V4, true)?, "Mb/s");
    tally.beside("over IPv6", v6, "Mb/s");
    if peak > v6 {
        let over = (peak / v6 - 1.0) * 100.0;
        tally.note(format!(
            "{over:.2} % above the bound of IPv6, so it was IPv4 if the MTU was 9000"
        ));
    }
    Some(())
}

fn sdp_is_closest_to_verbs(tally: &mut Tally) -> Option<()> {
    let share = ratio(SDP, VERBS)?;
    for (what, other) in [("10GigE", ETHERNET), ("IPoIB, one stream", IPOIB)] {
        let other = ratio(other, VERBS)?;
        tally.is(format!("SDP against {what}, of verbs"), share > other, share, other, "");
    }
    Some(())
}

fn ipoib_share_of_verbs(tally: &mut Tally) -> Option<()> {
    let printed = text("IPoIB, several streams: share of verbs")?;
    percent(tally, "IPoIB, of verbs", ratio(IPOIB_STREAMS, VERBS)?, printed);
    Some(())
}

fn several_streams_gain(tally: &mut Tally) -> Option<()> {
    let printed = text("IPoIB, several streams: gain over one stream")?;
    percent(tally, "several streams over one", ratio(IPOIB_STREAMS, IPOIB)? - 1.0, printed);
    let base = text(IPOIB_STREAMS)? / (1.0 + printed / 100.0);
    let average = (ratio(IPOIB_STREAMS, IPOIB_LARGE)? - 1.0) * 100.0;
    tally.note(format!(
        "it needs a base of {base:.0} Mb/s; over the average of large messages it is {average:.1} %"
    ));
    Some(())
}

fn gains_over_ethernet(tally: &mut Tally) -> Option<()> {
    tally.part("IPoIB");
    let printed = text("IPoIB, several streams: gain over 10GigE")?;
    percent(tally, "IPoIB over 10GigE", ratio(IPOIB_STREAMS, ETHERNET)? - 1.0, printed);
    let gain = text("SDP, several streams: gain over 10GigE")?;
    let needed = text(ETHERNET)? * (1.0 + gain / 100.0);
    let reason = format!("SDP needs a peak of {needed:.0} Mb/s, but the paper prints none");
    tally.missing("SDP", Missing::Unsupported(reason));
    Some(())
}

fn both_below_verbs(tally: &mut Tally) -> Option<()> {
    let printed = text("10GigE and IPoIB: aggregate below verbs")?;
    percent(tally, "below verbs", 1.0 - ratio(ETHERNET_AND_IPOIB, VERBS)?, printed);
    Some(())
}

fn both_above_ethernet(tally: &mut Tally) -> Option<()> {
    let printed = text("10GigE and IPoIB: gain over 10GigE")?;
    let base = text(ETHERNET_AND_IPOIB)? / (1.0 + printed / 100.0);
    percent(tally, "above 10GigE", ratio(ETHERNET_AND_IPOIB, ETHERNET)? - 1.0, printed);
    tally.note(format!("it needs a base of {base:.0} Mb/s, above the line rate"));
    Some(())
}

/// The aggregate of 10GigE and SDP in Mb/s, computed from each of the two statements about it.
fn aggregates() -> Option<(f64, f64)> {
    let from_ethernet = text(ETHERNET)? * (1.0 + text("10GigE and SDP: gain over 10GigE")? / 100.0);
    let from_verbs = text(VERBS)? * (1.0 - text("10GigE and SDP: aggregate below verbs")? / 100.0);
    Some((from_ethernet, from_verbs))
}

fn sdp_and_ethernet_near_verbs(tally: &mut Tally) -> Option<()> {
    let (aggregate, wanted) = aggregates()?;
    tally.is("aggregate from +26.7 %", aggregate >= wanted, aggregate, wanted, "Mb/s");
    Some(())
}

fn both_statements_of_the_aggregate(tally: &mut Tally) -> Option<()> {
    let (from_ethernet, from_verbs) = aggregates()?;
    let printed = text("10GigE and SDP: gain over 10GigE")?;
    let gain = from_verbs / text(ETHERNET)? - 1.0;
    let below = (1.0 - from_ethernet / text(VERBS)?) * 100.0;
    percent(tally, "gain over 10GigE from 1.2 % below verbs", gain, printed);
    tally.note(format!("+{printed} % is {from_ethernet:.0} Mb/s, {below:.2} % below verbs"));
    Some(())
}

fn one_latency_figure(tally: &mut Tally) -> Option<()> {
    let first = value("P2", "abstract", "reduction in latency", "")?;
    for place in ["section I", "section VI"] {
        let other = value("P2", place, "reduction in latency: average", "")?;
        tally.is(format!("{place} against the abstract"), other == first, other, first, "%");
    }
    Some(())
}

fn data_center_gain(tally: &mut Tally) -> Option<()> {
    let printed = value("P2", "section I", "gain in data center throughput", "")?;
    let rate = |kind: &str| text(&format!("{kind}: web interactions"));
    let gain = |kind: &str| Some((rate(kind)? / rate("10GigE")? - 1.0) * 100.0);
    let ipoib = gain("IPoIB")?;
    tally.is("IPoIB over 10GigE", rounds_to(ipoib, printed, 0), ipoib, printed, "%");
    tally.beside("SDP over 10GigE", gain("SDP")?, "%");
    Some(())
}

fn new_data_center_gain(figures: &Figures, tally: &mut Tally) {
    let shops = || figures.columns(Quantity::InteractionsPerS, Load::Shop);
    let scale = figures.scale(Quantity::InteractionsPerS);
    for ipoib in shops().filter(|column| column.link.starts_with("ipoib:")) {
        let is_alike = |ethernet: &&Column| ethernet.is_ethernet() && are_alike(ipoib, ethernet);
        for ethernet in shops().filter(is_alike) {
            for (_, a, b) in ipoib.with(ethernet) {
                let what = format!("{} against {}", ipoib.network, ethernet.network);
                tally.compare(what, a, Relation::Above, b, scale);
            }
        }
    }
    tally.otherwise("no runs of the bookstore over Ethernet and IPoIB: `papers run P2-shop`");
}

/// Whether two bookstores differ in nothing but the network between their tiers, and labels.
fn are_alike(one: &Column, other: &Column) -> bool {
    let (Some(one), Some(other)) = (&one.point, &other.point) else { return false };
    let label = other.label.clone();
    Point { app_db: other.app_db, label, ..Point::clone(one) } == **other
}

fn ipoib_exceeds_normal_frames(tally: &mut Tally) -> Option<()> {
    let normal = text(ETHERNET)? * (1.0 - text("10GigE: loss with normal frames")? / 100.0);
    let ipoib = text(IPOIB_LARGE)?;
    tally.is("IPoIB against normal frames", ipoib > normal, ipoib, normal, "Mb/s");
    Some(())
}

fn verbs_are_within_wire_and_bus(tally: &mut Tally) -> Option<()> {
    const MESSAGE: u64 = 1 << 20;
    let (verbs, ipoib) = (text(VERBS)?, text(IPOIB_STREAMS)?);
    let wire = send_mbps("ib:4X-DDR,mtu=2048", Family::V4, MESSAGE)?;
    let bus = text("PCIe: theoretical bandwidth")? * 1e3;
    let ipoib_wire = tcp_stream_mbps("ipoib:4X-DDR", Family::V4, false)?;
    tally.is("verbs against RC over 4X DDR, IB MTU 2048", verbs <= wire, verbs, wire, "Mb/s");
    tally.is("verbs against PCIe 1.1 x8, raw", verbs <= bus, verbs, bus, "Mb/s");
    tally.is("IPoIB against a TCP stream", ipoib <= ipoib_wire, ipoib, ipoib_wire, "Mb/s");
    tally.note(
        "packets of 128 bytes leave 13.1 to 13.8 Gb/s of the bus; this is an estimate, not \
                a bound",
    );
    Some(())
}

fn write_is_above_its_floor(tally: &mut Tally) -> Option<()> {
    let least = text("latency of RDMA Write: least")?;
    let floor = write_floor_us("ib:4X-DDR,mtu=2048", 0)?;
    tally.is("RDMA Write of 0 bytes", least >= floor, least, floor, "µs");
    Some(())
}

fn order_of_one_stream(tally: &mut Tally) -> Option<()> {
    let order = [("verbs", VERBS), ("SDP", SDP), ("10GigE", ETHERNET), ("IPoIB", IPOIB_LARGE)];
    tally.part("printed peaks and averages");
    for pair in order.windows(2) {
        let [(left, a), (right, b)] = [pair[0], pair[1]];
        let (a, b) = (text(a)?, text(b)?);
        tally.is(format!("{left} against {right}"), a > b, a, b, "Mb/s");
    }
    tally.missing("by size", Missing::FigureOnly("values by size are in figure 2 only".to_owned()));
    Some(())
}

fn only_in_figures(tally: &mut Tally) -> Option<()> {
    let reason = "figures 1, 2 and 7 have no numbers".to_owned();
    tally.missing("", Missing::FigureOnly(reason));
    Some(())
}

/// Why new runs have no figures for a claim about single networks, and about both.
const NO_NETWORKS: &str = "no runs over 10GigE and IPoIB by the number of streams: `papers run P2`";
const NO_GROUPS: &str =
    "no runs of groups `ethernet` and `ipoib` alone and together: `papers run P2-together`";

/// From which payload on messages are large, in bytes.
const LARGE: u64 = 64 << 10;

/// Goodput of TCP streams over single networks.
fn streams(figures: &Figures) -> impl Iterator<Item = &Column> {
    let columns = figures.columns(Quantity::GoodputMbps, Load::Tcp);
    columns.filter(|column| column.point.as_ref().is_some_and(|point| point.group.is_none()))
}

fn flows(column: &Column) -> u32 {
    column.point.as_ref().map_or(1, |point| point.flows)
}

/// 10-gigabit Ethernet with this MTU.
fn is_ethernet(column: &Column, mtu: &str) -> bool {
    column.base_link() == "ethernet:10G" && column.link.contains("mtu=9000") == (mtu == "9000")
}

/// The highest cell of columns.
fn peak<'a>(columns: impl Iterator<Item = &'a Column>) -> Option<Value> {
    let cells = columns.flat_map(|column| column.cells.values().copied());
    cells.max_by(|a, b| a.value.total_cmp(&b.value))
}

fn new_jumbo_frames_are_within_the_wire(figures: &Figures, tally: &mut Tally) {
    for column in streams(figures).filter(|column| is_ethernet(column, "9000")) {
        let bounds = column.cells.iter().filter_map(|(payload, &cell)| {
            Some((payload, cell, column.limits.get(payload)?.bound))
        });
        for (payload, cell, bound) in bounds {
            let what = format!("{}, {} B", column.network, super::value::thousands(*payload));
            tally.not_beyond(what, cell, bound, 1.0, "Mb/s");
        }
    }
    tally.otherwise(NO_NETWORKS);
}

fn new_streams_gain(figures: &Figures, tally: &mut Tally) {
    let ipoib = |is_single: bool| {
        peak(streams(figures).filter(|c| c.is_datagram() && (flows(c) == 1) == is_single))
    };
    if let (Some(one), Some(several)) = (ipoib(true), ipoib(false)) {
        let scale = figures.scale(Quantity::GoodputMbps);
        tally.compare("IPoIB, several streams against one", several, Relation::Above, one, scale);
    }
    tally.otherwise(NO_NETWORKS);
}

fn new_gains_over_ethernet(figures: &Figures, tally: &mut Tally) {
    let ipoib = peak(streams(figures).filter(|c| c.is_datagram() && flows(c) > 1));
    let ethernet = peak(streams(figures).filter(|c| is_ethernet(c, "9000")));
    if let (Some(ipoib), Some(ethernet)) = (ipoib, ethernet) {
        let scale = figures.scale(Quantity::GoodputMbps);
        tally.compare("IPoIB over 10GigE", ipoib, Relation::Above, ethernet, scale);
    }
    tally.otherwise(NO_NETWORKS);
}

/// Compares one stream over two networks by payload, from large payloads on.
fn new_one_stream(
    figures: &Figures,
    tally: &mut Tally,
    is_left: impl Fn(&Column) -> bool,
    is_right: impl Fn(&Column) -> bool,
) {
    let scale = figures.scale(Quantity::GoodputMbps);
    let single: Vec<&Column> = streams(figures).filter(|column| flows(column) == 1).collect();
    for left in single.iter().filter(|column| is_left(column)) {
        for right in single.iter().filter(|column| is_right(column)) {
            for (payload, a, b) in left.with(right).filter(|(payload, ..)| *payload >= LARGE) {
                let size = super::value::thousands(payload);
                let what = format!("{} against {}, {size} B", left.network, right.network);
                tally.compare(what, a, Relation::Above, b, scale);
            }
        }
    }
    tally.otherwise(NO_NETWORKS);
}

fn new_ipoib_exceeds_normal_frames(figures: &Figures, tally: &mut Tally) {
    new_one_stream(figures, tally, Column::is_datagram, |column| is_ethernet(column, "1500"));
}

fn new_order_of_one_stream(figures: &Figures, tally: &mut Tally) {
    new_one_stream(figures, tally, |column| is_ethernet(column, "9000"), Column::is_datagram);
}

/// Goodputs of the two groups with a number of streams each, by payload.
struct Pairing<'a> {
    flows: u32,
    /// Of both together: Ethernet, IPoIB.
    together: [&'a Column; 2],
    /// Of Ethernet alone.
    alone: &'a Column,
}

/// The pairings of an experiment with the groups `ethernet` and `ipoib`, by the number of streams.
fn pairings(figures: &Figures) -> Vec<Pairing<'_>> {
    let columns: Vec<&Column> = figures.columns(Quantity::GoodputMbps, Load::Tcp).collect();
    let is_at = |column: &Column, group: &str, interference: &str| {
        column.point.as_ref().is_some_and(|point| {
            point.level(Factor::Group) == group && point.level(Factor::Interference) == interference
        })
    };
    let mut found = Vec::new();
    for &ethernet in columns.iter().filter(|column| is_at(column, "ethernet", "together")) {
        let other = |group: &str, interference: &str| {
            let is_like = |column: &&&Column| {
                is_at(column, group, interference) && flows(column) == flows(ethernet)
            };
            columns.iter().find(is_like).copied()
        };
        if let (Some(ipoib), Some(alone)) = (other("ipoib", "together"), other("ethernet", "alone"))
        {
            found.push(Pairing { flows: flows(ethernet), together: [ethernet, ipoib], alone });
        }
    }
    found.sort_by_key(|pairing| pairing.flows);
    found
}

fn new_both_above_ethernet(figures: &Figures, tally: &mut Tally) {
    let scale = figures.scale(Quantity::GoodputMbps);
    for Pairing { flows, together: [ethernet, ipoib], alone } in pairings(figures) {
        for (payload, a, b) in ethernet.with(ipoib) {
            if let Some(&alone) = alone.cells.get(&payload) {
                let size = super::value::thousands(payload);
                let what = format!("{flows} + {flows} streams, {size} B: sum against 10GigE alone");
                tally.compare(what, a.plus(b), Relation::Above, alone, scale);
            }
        }
    }
    tally.otherwise(NO_GROUPS);
}

fn sharing_becomes_uneven(figures: &Figures, tally: &mut Tally) {
    if figures.origin == Origin::Published {
        let reason = "figure 6 has no numbers".to_owned();
        return tally.missing("", Missing::FigureOnly(reason));
    }
    let all = pairings(figures);
    let (Some(one), Some(most)) = (all.first(), all.last()) else {
        return tally.otherwise(NO_GROUPS);
    };
    if one.flows == most.flows {
        return tally.otherwise(NO_GROUPS);
    }
    // Distance from an even share, as a ratio of the larger to the smaller goodput.
    let uneven = |pairing: &Pairing<'_>, payload: u64| {
        let [a, b] = pairing.together.map(|column| column.cells.get(&payload).copied());
        let ratio = a?.over(b?);
        Some(if ratio.value < 1.0 { b?.over(a?) } else { ratio })
    };
    let scale = Scale { unit: "", ..figures.scale(Quantity::GoodputMbps) };
    for &payload in one.together[0].cells.keys() {
        if let (Some(few), Some(many)) = (uneven(one, payload), uneven(most, payload)) {
            let size = super::value::thousands(payload);
            let what = format!(
                "{size} B: larger over smaller, {} against {} streams",
                most.flows, one.flows
            );
            tally.compare(what, many, Relation::Above, few, scale);
        }
    }
    tally.otherwise(NO_GROUPS);
}
