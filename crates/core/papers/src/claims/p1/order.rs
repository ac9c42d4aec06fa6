//! Claims about which of two columns is larger, cell by cell.

use std::ops::RangeBounds;

use super::at;
use crate::claims::figures::{Column, Figures, Load, Origin, Quantity};
use crate::claims::outcome::Missing;
use crate::claims::tally::{Relation, Tally};
use crate::claims::value::crossover;
use Quantity::{GoodputMbps, InteractionsPerS, LatencyUs, SwitchingMbps};
use Relation::{Above, AtLeast, Below};

/// Largest payload in bytes at which 10GbE is claimed to lead, and the next larger one of the tables.
const LEAD_ENDS: u64 = 16_384;
const LARGEST: u64 = 32_768;

/// IPv4 has at least the goodput, and a lower latency, than IPv6.
pub fn by_family(
    figures: &Figures,
    tally: &mut Tally,
    quantity: Quantity,
    pairs: &[(&Column, &Column)],
) {
    let relation = match quantity {
        GoodputMbps | SwitchingMbps | InteractionsPerS => AtLeast,
        LatencyUs => Below,
    };
    for &(v4, v6) in pairs {
        let name = format!("{} {}", v4.load.word(), v4.network);
        cells(figures, tally, &name, (v4, v6), relation, ..);
    }
    tally.otherwise(format!("no {} over both IPv4 and IPv6 in the same network", quantity.word()));
}

/// Compares the cells of two columns as a separate part.
fn cells(
    figures: &Figures,
    tally: &mut Tally,
    name: &str,
    (left, right): (&Column, &Column),
    relation: Relation,
    payloads: impl RangeBounds<u64>,
) {
    let scale = figures.scale(left.quantity);
    tally.part(name);
    for (payload, a, b) in left.with(right).filter(|(payload, ..)| payloads.contains(payload)) {
        tally.compare(at(name, payload), a, relation, b, scale);
    }
}

pub fn datagram_exceeds_connected(figures: &Figures, tally: &mut Tally) {
    let values = modes(figures, tally, GoodputMbps, Above);
    let factors = || values.iter().map(|(datagram, connected)| datagram / connected);
    if !values.is_empty() {
        let (least, most) =
            (factors().fold(f64::INFINITY, f64::min), factors().fold(0.0, f64::max));
        tally.note(format!("by a factor of {least:.3} to {most:.2}"));
    }
}

pub fn datagram_is_under_connected(figures: &Figures, tally: &mut Tally) {
    let values = modes(figures, tally, LatencyUs, Below);
    if !values.is_empty() {
        let more = || values.iter().map(|(datagram, connected)| connected / datagram - 1.0);
        tally.note(format!(
            "{} of {} cells differ by less than 2 %, {} by 5 % or more: in new runs the former \
             would be ties",
            more().filter(|&more| more < 0.02).count(),
            values.len(),
            more().filter(|&more| more >= 0.05).count()
        ));
    }
}

/// Compares IPoIB's datagram and connected modes, and returns the values of both.
fn modes(
    figures: &Figures,
    tally: &mut Tally,
    quantity: Quantity,
    relation: Relation,
) -> Vec<(f64, f64)> {
    tally.otherwise("no link over IPoIB in both datagram and connected mode");
    let pairs = figures.modes(quantity);
    for &(datagram, connected) in &pairs {
        let name = pair_name(figures, datagram);
        cells(figures, tally, &name, (datagram, connected), relation, ..);
    }
    let values = pairs.into_iter().flat_map(|(datagram, connected)| datagram.with(connected));
    values.map(|(_, datagram, connected)| (datagram.value, connected.value)).collect()
}

/// Name of a pair of networks: P1 has only one, an experiment may have several, named after `column`.
fn pair_name(figures: &Figures, column: &Column) -> String {
    let (load, family) = (column.load.word(), column.family);
    match figures.origin {
        Origin::Published => format!("{load} {family}"),
        Origin::Measured => format!("{load} {} {family}", column.base_link()),
    }
}

pub fn ethernet_exceeds_ipoib(figures: &Figures, tally: &mut Tally) {
    for (ethernet, ipoib) in figures.technologies(GoodputMbps) {
        let name = pair_name(figures, ipoib);
        cells(figures, tally, &name, (ethernet, ipoib), Above, ..=LEAD_ENDS);
    }
    with_table_ii(figures, tally);
    tally.otherwise(NO_TECHNOLOGIES);
}

/// Reason if no two technologies can be compared.
pub(super) const NO_TECHNOLOGIES: &str =
    "no links of both Ethernet and a faster IPoIB in datagram mode";

/// Notes how often the claim fails with table II, which shows the same runs as table IV.
fn with_table_ii(figures: &Figures, tally: &mut Tally) {
    if figures.origin != Origin::Published {
        return;
    }
    let mut fails = Vec::new();
    for (datagram, _) in figures.modes(GoodputMbps) {
        for (ethernet, _) in figures.technologies(GoodputMbps) {
            if (ethernet.load, ethernet.family) == (datagram.load, datagram.family) {
                let name = pair_name(figures, ethernet);
                let cells = ethernet
                    .with(datagram)
                    .filter(|(p, a, b)| *p <= LEAD_ENDS && a.value <= b.value);
                fails.extend(cells.map(|(p, ..)| at(&name, p)));
            }
        }
    }
    if !fails.is_empty() {
        let (count, cells) = (fails.len(), fails.join("; "));
        tally.note(format!("FAILS in {count} with the values of table II: {cells}"));
    }
}

pub fn ipoib_exceeds_ethernet(figures: &Figures, tally: &mut Tally) {
    for (ethernet, ipoib) in figures.technologies(GoodputMbps) {
        let name = pair_name(figures, ipoib);
        cells(figures, tally, &name, (ipoib, ethernet), Above, LARGEST..=LARGEST);
        let ratios: Vec<(f64, f64)> =
            ethernet.with(ipoib).map(|(p, a, b)| (p as f64, a.value / b.value)).collect();
        if let Some(at) = ratios.windows(2).rev().find_map(|w| crossover(w[0], w[1], 1.0)) {
            tally.beside(format!("{name} crosses at"), at, "B");
        }
    }
    tally.otherwise(NO_TECHNOLOGIES);
}

pub fn ipoib_is_under_ethernet(figures: &Figures, tally: &mut Tally) {
    for (ethernet, ipoib) in figures.technologies(LatencyUs) {
        cells(figures, tally, &pair_name(figures, ipoib), (ipoib, ethernet), Below, ..);
    }
    tally.otherwise(NO_TECHNOLOGIES);
}

pub fn faster_lanes_are_faster(figures: &Figures, tally: &mut Tally) {
    if figures.origin == Origin::Published {
        let reason = "figures 10 and 11 have no numbers".to_owned();
        tally.missing("", Missing::FigureOnly(reason));
        return super::limits::note_ceilings_by_speed(tally);
    }
    for (quantity, relation) in [(GoodputMbps, Above), (LatencyUs, Below)] {
        let mut columns: Vec<(&str, &Column)> = figures
            .columns(quantity, Load::Udp)
            .filter(|column| column.is_datagram())
            .filter_map(|column| Some((column.base_link().split_once('-')?.0, column)))
            .collect();
        // Speeds of one width and IP version, fastest first.
        columns.sort_by(|(a_width, a), (b_width, b)| {
            let key = |width, column: &Column| (u8::from(column.family), width);
            key(*a_width, a).cmp(&key(*b_width, b)).then(b.rate_bps().total_cmp(&a.rate_bps()))
        });
        for pair in columns.windows(2) {
            let [(a_width, faster), (b_width, slower)] = [pair[0], pair[1]];
            let is_slower = slower.rate_bps() < faster.rate_bps();
            if is_slower && (a_width, faster.family) == (b_width, slower.family) {
                let name = format!("{} against {}", faster.name(), slower.name());
                cells(figures, tally, &name, (faster, slower), relation, ..);
            }
        }
    }
    tally.otherwise("no two IPoIB links of one width and different speed");
}

pub fn tcp_costs_more_than_udp(figures: &Figures, tally: &mut Tally) {
    for (quantity, relation) in [(GoodputMbps, Below), (LatencyUs, Above)] {
        for (tcp, udp) in figures.transports(quantity) {
            let name = format!("{} {} {}", quantity.word(), tcp.network, tcp.family);
            cells(figures, tally, &name, (tcp, udp), relation, ..);
        }
    }
    tally.otherwise("no figures of both TCP and UDP over one network");
}
