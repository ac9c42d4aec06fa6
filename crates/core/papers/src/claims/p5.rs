//! P5: a process that relays TCP, and a protocol that measures RTTs.

use fabricmark_wire::{Family, ethernet_wire_bytes, frame};

use super::Judge::{Both, Print};
use super::figures::{Column, Figures, Load, Quantity};
use super::limit::tcp_stream_mbps;
use super::outcome::Missing;
use super::tally::{Relation, Tally};
use super::value::{Value, between, thousands, truncates_to};
use super::{Claim, claim};
use crate::cell::{cells, value};

/// The claims of P5. 09 and 10 check its numbers against the medium, a 100 Mb/s hub.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P5-01",
        "The switching speeds of a file of 7,990 bytes match its times.",
        "speed = 63,920 bit / time, truncated to 2 decimals (tables 1 and 2)",
        Print(speeds_follow_from_times),
    ),
    claim(
        "P5-02",
        "The speed advantage is greater than 1 for buffers of at least 1500 bytes.",
        "speed / 100 Mb/s > 1 exactly where the buffer is at least 1500 bytes (tables 1 and 2)",
        Both(advantage_begins_at_1500, new_advantage_begins_at_1500),
    ),
    claim(
        "P5-03",
        "The smaller the buffer, the lower the speed.",
        "speed falls from each buffer size to the next smaller one (tables 1 and 2)",
        Both(smaller_buffers_are_slower, new_smaller_buffers_are_slower),
    ),
    claim(
        "P5-04",
        "There are no relevant differences between IPv6 and IPv4.",
        "time(IPv6) / time(IPv4) is within 10 % of 1 at each buffer size of both tables",
        Both(v6_is_like_v4, new_v6_is_like_v4),
    ),
    claim(
        "P5-05",
        "The rates of a file of 240,118 bytes match its times.",
        "rate = 1,920,944 bit / time, truncated to 2 decimals (table 3)",
        Print(rates_follow_from_times),
    ),
    claim(
        "P5-06",
        "The planned sending times are 100 Mb/s and 86.52 Mb/s.",
        "1,920,944 bit / 19,209 us and / 22,202 us truncate to 100 and 86.52 Mb/s",
        Print(plans_follow_from_times),
    ),
    claim(
        "P5-06b",
        "Model 2 is planned as 100 Mb/s.",
        "209 bytes in 16 us are 100 Mb/s",
        Print(model_2_is_100_mbps),
    ),
    claim(
        "P5-07",
        "RTTs of 1437 us and 466 us correspond to rates of 11.4 and 35.15 Mb/s.",
        "2 * 8 * 1024 bit / RTT truncates to them",
        Print(rates_follow_from_round_trips),
    ),
    claim(
        "P5-08",
        "The transmission delay of an APDU is 13.6 us over IPv4 and 16.8 us over IPv6.",
        "25 bytes over TCP in one frame take this time at 100 Mb/s, with or without preamble and \
         gap",
        Print(delays_follow_from_the_apdu),
    ),
    claim(
        "P5-09",
        "The highest overall throughput is 31 to 32 Mb/s.",
        "32 Mb/s <= half the ceiling of a TCP stream: a relay's bytes cross the shared medium twice (a \
         bound)",
        Print(overall_is_within_the_medium),
    ),
    claim(
        "P5-10",
        "Files are sent, switched and received at the rates of tables 1 to 3.",
        "each rate <= the ceiling of a TCP stream over 100 Mb/s (a bound)",
        Print(rates_are_within_the_medium),
    ),
    claim(
        "P5-11",
        "An APDU has 25 bytes, or 1024 with 7992 bits of padding.",
        "25 + 999 = 1024; 8 * 999 = 7992; the padding is bytes 25 to 1023",
        Print(apdu_adds_up),
    ),
];

fn text(place: &str, row: &str) -> Option<f64> {
    value("P5", place, row, "")
}

const TABLES: [(&str, Family); 2] = [("table 1", Family::V4), ("table 2", Family::V6)];

/// Rows of a table, largest buffer first: buffer size in bytes and the cell of `column`.
fn rows(table: &str, column: &str) -> Vec<(f64, f64)> {
    cells("P5")
        .iter()
        .filter(|cell| cell.place == table && cell.column == column)
        .filter_map(|cell| Some((cell.row.parse().ok()?, cell.value)))
        .collect()
}

fn speeds(table: &str, family: Family) -> Vec<(f64, f64)> {
    rows(table, &format!("switching speed {family}"))
}

fn times(table: &str, family: Family) -> Vec<(f64, f64)> {
    rows(table, &format!("switching time {family}"))
}

fn speeds_follow_from_times(tally: &mut Tally) -> Option<()> {
    let bits = 8.0 * text("section II", "Testfile1")?;
    for (table, family) in TABLES {
        tally.part(family.to_string());
        for ((buffer, time), (_, speed)) in
            times(table, family).into_iter().zip(speeds(table, family))
        {
            let computed = bits / time;
            let what = format!("{family}, {buffer} B, printed against computed");
            tally.holds_or(what, truncates_to(computed, speed, 2), speed, computed, "Mb/s");
        }
    }
    Some(())
}

fn advantage_begins_at_1500(tally: &mut Tally) -> Option<()> {
    let rate = text("section IV", "rate of Fast Ethernet")?;
    let threshold = text("section IV", "buffer of that advantage: at least")?;
    for (table, family) in TABLES {
        let speeds = speeds(table, family);
        tally.part(family.to_string());
        for &(buffer, speed) in &speeds {
            let is_true = (speed > rate) == (buffer >= threshold);
            tally.holds_or(format!("{family}, {buffer} B"), is_true, speed, rate, "Mb/s");
        }
        let above = speeds.iter().copied().rfind(|(buffer, _)| *buffer > threshold)?;
        let below = speeds.iter().copied().find(|(buffer, _)| *buffer < threshold)?;
        let expected = between(below, above, threshold);
        match speeds.iter().find(|(buffer, _)| *buffer == threshold) {
            Some(&(_, speed)) => {
                tally.beside(format!("{family}, {threshold} B"), speed, "Mb/s");
                let off = (expected / speed - 1.0) * 100.0;
                tally.note(format!(
                    "{family}: log interpolation between the neighbouring rows is {off:.0} % too \
                     high"
                ));
            }
            None => {
                let reason = format!(
                    "table 2 has no row of {threshold} bytes; log interpolation gives {expected:.0} Mb/s, \
                     below {rate}"
                );
                tally.missing(format!("{family} at {threshold} B"), Missing::Unsupported(reason));
            }
        }
    }
    Some(())
}

fn smaller_buffers_are_slower(tally: &mut Tally) -> Option<()> {
    for (table, family) in TABLES {
        tally.part(family.to_string());
        for step in speeds(table, family).windows(2) {
            let [(_, larger), (buffer, smaller)] = [step[0], step[1]];
            let what = format!("{family}, {buffer} B against the next larger");
            tally.holds_or(what, smaller < larger, smaller, larger, "Mb/s");
        }
    }
    Some(())
}

/// Maximum relative difference of “no relevant difference”.
const ALIKE: f64 = 0.1;

fn v6_is_like_v4(tally: &mut Tally) -> Option<()> {
    let v4 = times("table 1", Family::V4);
    for (buffer, v6_us) in times("table 2", Family::V6) {
        let Some(&(_, v4_us)) = v4.iter().find(|(other, _)| *other == buffer) else { continue };
        let ratio = v6_us / v4_us;
        let what = format!("{buffer} B, time over IPv6 / IPv4");
        tally.is(what, (ratio - 1.0).abs() <= ALIKE, ratio, 1.0, "");
    }
    Some(())
}

/// Columns of switching speeds by buffer.
fn relays(figures: &Figures) -> impl Iterator<Item = &Column> {
    figures.columns(Quantity::SwitchingMbps, Load::Tcp)
}

/// Reason of a claim about buffers that new figures do not decide.
const NO_RELAY: &str = "no transfers through a relay with different buffers";

fn new_advantage_begins_at_1500(figures: &Figures, tally: &mut Tally) {
    let number = |row| text("section IV", row);
    let known = number("rate of Fast Ethernet").zip(number("buffer of that advantage: at least"));
    let Some((rate, threshold)) = known else { return };
    for column in relays(figures) {
        tally.part(column.name());
        for (&buffer, &speed) in &column.cells {
            let is_above = buffer as f64 >= threshold;
            let relation = if is_above { Relation::Above } else { Relation::AtMost };
            let what = format!("{}, {} B", column.name(), thousands(buffer));
            let scale = figures.scale(Quantity::SwitchingMbps);
            tally.compare(what, speed, relation, Value::exact(rate), scale);
        }
    }
    tally.otherwise(NO_RELAY);
}

fn new_smaller_buffers_are_slower(figures: &Figures, tally: &mut Tally) {
    for column in relays(figures).filter(|column| column.cells.len() > 1) {
        tally.part(column.name());
        let cells: Vec<(u64, Value)> = column.cells.iter().map(|(&b, &speed)| (b, speed)).collect();
        for step in cells.windows(2) {
            let [(buffer, smaller), (_, larger)] = [step[0], step[1]];
            let what =
                format!("{}, {} B against the next larger", column.name(), thousands(buffer));
            let scale = figures.scale(Quantity::SwitchingMbps);
            tally.compare(what, smaller, Relation::Below, larger, scale);
        }
    }
    tally.otherwise(NO_RELAY);
}

fn new_v6_is_like_v4(figures: &Figures, tally: &mut Tally) {
    for (v4, v6) in figures.families(Quantity::SwitchingMbps, Load::Tcp) {
        tally.part(&v4.network);
        for (buffer, v4_mbps, v6_mbps) in v4.with(v6) {
            let what = format!("{}, {} B, time over IPv6 / IPv4", v4.network, thousands(buffer));
            tally.within(what, v4_mbps.over(v6_mbps), Value::exact(1.0), ALIKE, "");
        }
    }
    tally.otherwise("no transfers through a relay over both families");
}

/// Size of the larger file in bits.
fn testfile2_bits() -> Option<f64> {
    Some(8.0 * text("section II", "Testfile2")?)
}

fn rates_follow_from_times(tally: &mut Tally) -> Option<()> {
    let bits = testfile2_bits()?;
    for row in ["SENDING", "SWITCHING", "RECEIVING"] {
        for (time, rate) in [("least", "most"), ("most", "least")] {
            let computed = bits / value("P5", "table 3", row, &format!("{time} time"))?;
            let printed = value("P5", "table 3", row, &format!("{rate} throughput"))?;
            let what = format!("{row}, {rate} throughput, printed against computed");
            tally.holds_or(what, truncates_to(computed, printed, 2), printed, computed, "Mb/s");
        }
    }
    Some(())
}

const PLAN: &str = "caption of table 3";

fn plans_follow_from_times(tally: &mut Tally) -> Option<()> {
    let bits = testfile2_bits()?;
    for (model, decimals) in [("without model and for Model 2", 0), ("for Model 100", 2)] {
        let computed = bits / text(PLAN, &format!("planned sending time {model}"))?;
        let printed = text(PLAN, &format!("planned throughput {model}"))?;
        let is_true = truncates_to(computed, printed, decimals);
        tally.is(format!("planned {model}"), is_true, computed, printed, "Mb/s");
    }
    let burst = text("section IV", "Model 100: burst")?;
    let period_us = text("section IV", "Model 100: period")? * 1e6;
    let whole = (bits / 8.0 / burst).floor();
    let rest_us = (bits - 8.0 * burst * whole) / text("section IV", "rate of Fast Ethernet")?;
    tally.note(format!(
        "{whole:.0} periods of Model 100 and the rest at 100 Mb/s take {:.2} us",
        whole * period_us + rest_us
    ));
    Some(())
}

fn model_2_is_100_mbps(tally: &mut Tally) -> Option<()> {
    let model = |row: &str| text("section IV", &format!("Model 2: {row}"));
    let computed = 8.0 * model("burst")? / (model("period")? * 1e6);
    let printed = text(PLAN, "planned throughput without model and for Model 2")?;
    tally.is("Model 2", truncates_to(computed, printed, 0), computed, printed, "Mb/s");
    Some(())
}

fn rates_follow_from_round_trips(tally: &mut Tally) -> Option<()> {
    let bits = 2.0 * 8.0 * text("section IV", "first RTT: message")?;
    for (rtt, decimals) in [("first RTT", 1), ("second RTT", 2)] {
        let computed = bits / text("section IV", rtt)?;
        let printed = text("section IV", &format!("{rtt}: rate of the model"))?;
        let is_true = truncates_to(computed, printed, decimals);
        tally.is(rtt, is_true, computed, printed, "Mb/s");
    }
    Some(())
}

/// Bytes around a frame that may or may not count as its transmission: none, the gap, gap and preamble.
const AROUND: [u64; 3] = [0, frame::GAP, frame::GAP + frame::PREAMBLE];

fn delays_follow_from_the_apdu(tally: &mut Tally) -> Option<()> {
    let apdu = text("section III", "APDU without PAD")? as u64;
    let rate = text("section IV", "rate of that transmission delay")?;
    for family in [Family::V4, Family::V6] {
        let printed = text("section IV", &format!("transmission delay of an APDU over {family}"))?;
        let packet = apdu + frame::TCP_HEADER + family.header_bytes();
        let delays = AROUND.map(|less| 8.0 * (ethernet_wire_bytes(packet, 0) - less) as f64 / rate);
        let nearest = delays
            .into_iter()
            .min_by(|a, b| (a - printed).abs().total_cmp(&(b - printed).abs()))?;
        let is_true = truncates_to(nearest, printed, 1);
        tally.is(format!("{family}, printed against the nearest"), is_true, printed, nearest, "µs");
    }
    Some(())
}

const MEDIUM: &str = "ethernet:100M";

fn overall_is_within_the_medium(tally: &mut Tally) -> Option<()> {
    let overall = text("section V", "overall throughput: to")?;
    for family in [Family::V4, Family::V6] {
        let bound = tcp_stream_mbps(MEDIUM, family, false)? / 2.0;
        tally.is(family.to_string(), overall <= bound, overall, bound, "Mb/s");
    }
    Some(())
}

fn rates_are_within_the_medium(tally: &mut Tally) -> Option<()> {
    let bits = 8.0 * text("section II", "Testfile1")?;
    let bound = |family| tcp_stream_mbps(MEDIUM, family, false);
    for (table, family) in TABLES {
        let bound = bound(family)?;
        let mut judge = |what: String, rate: f64| {
            tally.holds_or(what, rate <= bound, rate, bound, "Mb/s");
        };
        let sending = format!("sending throughput over {family}");
        judge(format!("{family}, sending"), text(&format!("caption of {table}"), &sending)?);
        for (buffer, speed) in speeds(table, family) {
            judge(format!("{family}, switching, {buffer} B"), speed);
        }
        for (buffer, time) in rows(table, &format!("receiving time {family}")) {
            judge(format!("{family}, receiving, {buffer} B"), bits / time);
        }
    }
    for row in ["SENDING", "SWITCHING", "RECEIVING"] {
        let rate = value("P5", "table 3", row, "most throughput")?;
        let bound = bound(Family::V4)?;
        tally.holds_or(format!("IPv4, table 3, {row}"), rate <= bound, rate, bound, "Mb/s");
    }
    tally.note("these rates measure copies into and out of socket buffers, not network throughput");
    Some(())
}

fn apdu_adds_up(tally: &mut Tally) -> Option<()> {
    let figure = |row: &str| text("figure 3", row);
    let (first, last) = (figure("PAD: first byte")?, figure("PAD: last byte")?);
    let padding = last - first + 1.0;
    let (short, long) =
        (text("section III", "APDU without PAD")?, text("section III", "APDU with PAD")?);
    let pad_bits = text("section III", "PAD: size")?;
    tally.is("APDU and padding", short + padding == long, short + padding, long, "B");
    tally.is("padding", 8.0 * padding == pad_bits, 8.0 * padding, pad_bits, "bit");
    tally.is("first byte of the padding", first == short, first, short, "");
    Some(())
}
