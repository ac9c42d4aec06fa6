//! P3: one TCP stream over IPv6 through long delays.

mod measured;

use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{
    Acks, Connection, Fit, Law, WINDOW_MAX, between_losses, fibre_rtt, tolerated_loss, window_limit,
};
use fabricmark_wire::{Bus, Family};

use super::Judge::{Both, Print};
use super::limit::tcp_stream_mbps;
use super::outcome::Missing;
use super::tally::Tally;
use super::value::rounds_to;
use super::{Claim, claim};
use crate::cell::value;

/// The claims of P3. 02b, 04 and 08 check its numbers against physics and the wire.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P3-01",
        "Peak performance does not depend on the RTT.",
        "least / most goodput over RTTs of 0 to 400 ms >= 0.95, with windows of 3 BDP; of new runs goodput at \
         each RTT up to 400 ms >= 0.95 of that at 0, with their windows",
        Both(same_at_every_rtt, measured::same_at_every_rtt),
    ),
    claim(
        "P3-02",
        "Linux needs a window three times as large as RTT * rate.",
        "window >= 3 * RTT * rate on each real path; of new runs goodput(3 BDP) > goodput(2 BDP) and \
         goodput(1 BDP)",
        Both(windows_are_three_products, measured::three_products_are_needed),
    ),
    claim(
        "P3-02b",
        "The windows allow the rates that were reached.",
        "rate <= 8 * window / RTT on each real path (a bound)",
        Print(windows_allow_the_rates),
    ),
    claim(
        "P3-03",
        "The third path is the first path followed by the second.",
        "15,461 + 20,294 = 35,755 km; 178 + 322 = 500 ms",
        Print(third_path_is_the_sum),
    ),
    claim(
        "P3-04",
        "The RTTs of the paths match their distances.",
        "RTT >= 2 * distance * 1.468 / c on each real path (a bound of fibre)",
        Print(light_is_fast_enough),
    ),
    claim(
        "P3-05",
        "The land speed record is 5.6 Gb/s over 30,000 km.",
        "the published record of 167,400 Tb-m/s over 30,000 km rounds to 5.6 Gb/s",
        Print(record_is_the_published_one),
    ),
    claim(
        "P3-06",
        "IPv4 shows the same performance as IPv6.",
        "goodput(IPv4) is within 5 % of goodput(IPv6) at each RTT",
        Both(v4_is_like_v6, measured::v4_is_like_v6),
    ),
    claim(
        "P3-07",
        "The sender was slowed to 6 Gb/s on the real paths.",
        "rate <= 6 Gb/s on each real path",
        Print(rates_are_below_the_cap),
    ),
    claim(
        "P3-08",
        "The bottleneck is the hosts' PCI-X bus.",
        "7 Gb/s <= PCI-X's raw rate <= the ceiling of a TCP/IPv6 stream with frames of 9,198 bytes",
        Print(bus_is_the_bottleneck),
    ),
    claim(
        "P3-09",
        "Real paths could not reach the performance of emulated ones.",
        "rate < 7 Gb/s on each real path",
        Print(real_is_below_pseudo),
    ),
    claim(
        "P3-10",
        "A perfect network is a necessary condition.",
        "the loss rate at which Reno still reaches 7 Gb/s over 400 ms is below the one that the \
         bit error ratio of 10GbE allows",
        Print(reno_needs_a_perfect_network),
    ),
];

/// A real path as printed on its slide.
struct Real {
    name: &'static str,
    rtt_ms: f64,
    distance_km: f64,
    window_mb: f64,
    rate_gbps: f64,
}

fn real_paths() -> Option<Vec<Real>> {
    let path = |(name, place): (&'static str, &str)| {
        let place = format!("slide Tokyo - {place} - Tokyo");
        let number = |row: &str| value("P3", &place, row, "");
        Some(Real {
            name,
            rtt_ms: number("RTT")?,
            distance_km: number("distance")?,
            window_mb: number("window")?,
            rate_gbps: number("rate")?,
        })
    };
    let both = ("Seattle and Chicago", "Seattle - Tokyo - Chicago");
    [("Seattle", "Seattle"), ("Chicago", "Chicago"), both].into_iter().map(path).collect()
}

fn pseudo(row: &str) -> Option<f64> {
    value("P3", "slide IPv6 Performance on Pseudo Network", row, "")
}

fn same_at_every_rtt(tally: &mut Tally) -> Option<()> {
    let reason =
        "“7 Gbps over” and “almost 7Gbps over” are not numbers that can be compared".to_owned();
    tally.missing("", Missing::Unsupported(reason));
    tally.note("the text of the slides supports it");
    Some(())
}

fn windows_are_three_products(tally: &mut Tally) -> Option<()> {
    let wanted = value(
        "P3",
        "slide Window Buffer Size on LFN",
        "window that Linux needs, in products of RTT and rate",
        "",
    )?;
    for path in real_paths()? {
        // MB * 8 / (ms * Gb/s): both sides in 10^6 bits.
        let products = 8.0 * path.window_mb / (path.rtt_ms * path.rate_gbps);
        tally.is(format!("{}, products", path.name), products >= wanted, products, wanted, "");
    }
    tally.note(
        "the third path reached the rate of the second, so at most three products are needed",
    );
    Some(())
}

fn windows_allow_the_rates(tally: &mut Tally) -> Option<()> {
    for path in real_paths()? {
        let window = window_limit((path.window_mb * 1e6) as u64, millis(path.rtt_ms))?;
        let limit = window.value.as_f64() / 1e9;
        tally.is(path.name, path.rate_gbps <= limit, path.rate_gbps, limit, "Gb/s");
    }
    Some(())
}

fn millis(ms: f64) -> Nanos {
    Nanos((ms * 1e6) as u64)
}

fn third_path_is_the_sum(tally: &mut Tally) -> Option<()> {
    let paths = real_paths()?;
    let [first, second, both] = paths.as_slice() else { return None };
    for (what, sum, printed, unit) in [
        ("distances", first.distance_km + second.distance_km, both.distance_km, "km"),
        ("round trips", first.rtt_ms + second.rtt_ms, both.rtt_ms, "ms"),
    ] {
        tally.is(what, sum == printed, sum, printed, unit);
    }
    Some(())
}

fn light_is_fast_enough(tally: &mut Tally) -> Option<()> {
    for path in real_paths()? {
        let floor = fibre_rtt((path.distance_km * 1e3) as u64).value.as_f64() / 1e6;
        tally.is(path.name, path.rtt_ms >= floor, path.rtt_ms, floor, "ms");
    }
    Some(())
}

/// The record of 2005-10-29 in 10^12 bit-metres per second, from the announcement of its successor.
const PUBLISHED_RECORD: f64 = 167_400.0;

fn record_is_the_published_one(tally: &mut Tally) -> Option<()> {
    let number = |row: &str| value("P3", "slide Concluding Remarks", row, "");
    let (rate, distance) =
        (number("land speed record: rate")?, number("land speed record: distance")?);
    let published = PUBLISHED_RECORD / distance;
    tally.is("rate of the record", rounds_to(published, rate, 1), published, rate, "Gb/s");
    tally.beside("rate * distance as printed", rate * distance, "Tb-m/s");
    let path = real_paths()?.pop()?;
    tally.beside("over the whole path", path.rate_gbps * path.distance_km, "Tb-m/s");
    Some(())
}

/// Frames of 9,198 bytes, read as an MTU, without header and FCS: the larger of the two readings of the slide.
const JUMBO: &str = "ethernet:10G,mtu=9198";

fn v4_is_like_v6(tally: &mut Tally) -> Option<()> {
    let reason = "“7Gbps over” for both is not a number that can be compared".to_owned();
    tally.missing("", Missing::Unsupported(reason));
    let ratio =
        tcp_stream_mbps(JUMBO, Family::V6, true)? / tcp_stream_mbps(JUMBO, Family::V4, true)?;
    tally.note(format!("the ceilings differ by a factor of {ratio:.4} (MTU 9198, time stamps)"));
    Some(())
}

fn rates_are_below_the_cap(tally: &mut Tally) -> Option<()> {
    let cap = value("P3", "slide Result on Real LFN", "rate that the sender was set to", "")?;
    for path in real_paths()? {
        tally.is(path.name, path.rate_gbps <= cap, path.rate_gbps, cap, "Gb/s");
    }
    Some(())
}

fn bus_is_the_bottleneck(tally: &mut Tally) -> Option<()> {
    let rate = pseudo("rate without delay: more than")?;
    let wire = tcp_stream_mbps(JUMBO, Family::V6, true)? / 1e3;
    let bus = Bus::PciX133.raw_bps()?.as_f64() / 1e9;
    tally.is("rate against PCI-X", rate <= bus, rate, bus, "Gb/s");
    tally.is("PCI-X against the wire", bus <= wire, bus, wire, "Gb/s");
    Some(())
}

fn real_is_below_pseudo(tally: &mut Tally) -> Option<()> {
    let reached = pseudo("rate without delay: more than")?;
    for path in real_paths()? {
        tally.is(path.name, path.rate_gbps < reached, path.rate_gbps, reached, "Gb/s");
    }
    Some(())
}

/// Maximum bit error ratio of 10GBASE-R (IEEE 802.3, clause 52).
const BIT_ERROR_RATIO: f64 = 1e-12;

/// MSS, and frame size in bytes of a full segment: TCP/IPv6 with timestamps, MTU 1500.
const MSS_BYTES: u64 = 1428;
const FRAME_BYTES: f64 = 1518.0;

fn reno_needs_a_perfect_network(tally: &mut Tally) -> Option<()> {
    let rate_bps = pseudo("rate at the highest delay: almost more than")? * 1e9;
    let connection = Connection {
        mss_bytes: MSS_BYTES,
        rtt: millis(pseudo("RTT of the highest delay")?),
        timeout: Nanos::from_secs(1),
        window_bytes: WINDOW_MAX,
        acks: Acks::Each,
        fit: Fit::Periodic,
    };
    let loss = |law| Some(tolerated_loss(law, &connection, rate_bps)?.value.as_f64());
    let (reno, cubic) = (loss(Law::Reno)?, loss(Law::Cubic)?);
    let allowed = FRAME_BYTES * 8.0 * BIT_ERROR_RATIO;
    let hours = between_losses(rate_bps, MSS_BYTES, reno)?.value.as_f64() / 3.6e12;
    tally.is("segment loss rate that Reno tolerates", reno < allowed, reno, allowed, "");
    tally.beside("segment loss rate that CUBIC tolerates", cubic, "");
    tally.note(format!(
        "an estimate: one loss in {hours:.0} hours; CUBIC tolerates {:.0} times as many",
        cubic / reno
    ));
    Some(())
}
