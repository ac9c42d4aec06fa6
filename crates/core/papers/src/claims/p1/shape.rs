//! Claims about the dependence on payload, and about the size of the difference between IP versions.

use std::ops::RangeInclusive;

use fabricmark_wire::Family;

use super::at;
use super::order::NO_TECHNOLOGIES;
use crate::claims::figures::{Column, Figures, LOADS, Load, Quantity};
use crate::claims::tally::{Relation, Scale, Tally};
use crate::claims::value::{Value, geometric_mean};
use Quantity::{GoodputMbps, LatencyUs};

const SMALL: RangeInclusive<u64> = 4..=256;
const MEDIUM: RangeInclusive<u64> = 512..=4096;
const LARGE: RangeInclusive<u64> = 8192..=32_768;

/// Payload in bytes from which the advantage of Ethernet is claimed to fall.
const FALLS_FROM: u64 = 1024;

/// Latency ratio below which latencies count as equal: the tie band of latency.
const NO_DIFFERENCE: f64 = 1.03;

/// Goodput ratio from which a difference counts as small.
const SMALL_DIFFERENCE: f64 = 0.95;

fn ratio(figures: &Figures) -> Scale {
    Scale { unit: "", ..figures.scale(GoodputMbps) }
}

/// Ratio of goodput over Ethernet to that over IPoIB, by payload.
fn advantage(ethernet: &Column, ipoib: &Column) -> Vec<(u64, Value)> {
    ethernet.with(ipoib).map(|(payload, a, b)| (payload, a.over(b))).collect()
}

pub fn advantage_is_at_small_and_medium(figures: &Figures, tally: &mut Tally) {
    for (ethernet, ipoib) in figures.technologies(GoodputMbps) {
        let name = format!("{} {}", ethernet.load.word(), ethernet.family);
        let ratios = advantage(ethernet, ipoib);
        let mean = |range: RangeInclusive<u64>| {
            let values: Vec<Value> =
                ratios.iter().filter(|(p, _)| range.contains(p)).map(|(_, v)| *v).collect();
            geometric_mean(&values)
        };
        let (Some(small), Some(medium), Some(large)) = (mean(SMALL), mean(MEDIUM), mean(LARGE))
        else {
            continue;
        };
        tally.part(&name);
        let least = if small.value < medium.value { small } else { medium };
        tally.compare(&name, least, Relation::Above, large, ratio(figures));
        for (size, mean) in [("small", small), ("medium", medium), ("large", large)] {
            tally.beside(format!("{name} {size}"), mean.value, "");
        }
    }
    if tally.has_compared() {
        tally.note("mean ratios by size; the advantage is largest where its mean is largest");
    }
    tally.otherwise(NO_TECHNOLOGIES);
}

pub fn advantage_falls(figures: &Figures, tally: &mut Tally) {
    for (ethernet, ipoib) in figures.technologies(GoodputMbps) {
        let name = format!("{} {}", ethernet.load.word(), ethernet.family);
        let ratios = advantage(ethernet, ipoib);
        let large: Vec<_> = ratios.into_iter().filter(|(p, _)| *p >= FALLS_FROM).collect();
        tally.part(&name);
        for step in large.windows(2) {
            let what = format!("{} against the next smaller payload", at(&name, step[1].0));
            tally.compare(what, step[1].1, Relation::AtMost, step[0].1, ratio(figures));
        }
    }
    tally.otherwise(NO_TECHNOLOGIES);
}

pub fn goodput_rises(figures: &Figures, tally: &mut Tally) {
    for column in LOADS.into_iter().flat_map(|load| figures.columns(GoodputMbps, load)) {
        let name = column.name();
        let cells: Vec<(&u64, &Value)> = column.cells.iter().collect();
        tally.part(&name);
        for step in cells.windows(2) {
            let what = format!("{} against the next smaller payload", at(&name, *step[1].0));
            let scale = figures.scale(GoodputMbps);
            tally.compare(what, *step[1].1, Relation::Above, *step[0].1, scale);
        }
    }
    if tally.has_compared() {
        tally.note(
            "the ceiling itself is not monotone: at MTU 1500 that of UDP/IPv6 is lower at 2,048 bytes \
             than at 1,024",
        );
    }
    tally.otherwise("no goodput at two payloads");
}

pub fn differences_are_small(figures: &Figures, tally: &mut Tally) {
    for (v4, v6) in LOADS.into_iter().flat_map(|load| figures.families(GoodputMbps, load)) {
        let name = format!("{} {}", v4.load.word(), v4.network);
        tally.part(&name);
        for (payload, a, b) in v4.with(v6) {
            let (what, wanted) = (at(&name, payload), Value::exact(SMALL_DIFFERENCE));
            tally.compare(what, b.over(a), Relation::AtLeast, wanted, ratio(figures));
        }
    }
    tally.otherwise("no goodput over both IPv4 and IPv6 in the same network");
}

pub fn latency_steps_at_256(figures: &Figures, tally: &mut Tally) {
    tally.otherwise("no UDP/IPv4 latency at 4, 128 and 256 bytes");
    for column in figures.columns(LatencyUs, Load::Udp) {
        let name = column.name();
        let cell = |payload: u64| column.cells.get(&payload).copied();
        let (Some(least), Some(small), Some(larger)) = (cell(4), cell(128), cell(256)) else {
            continue;
        };
        let (small, larger) = (small.over(least), larger.over(least));
        let what = |payload| format!("{}, as a multiple of 4 B", at(&name, payload));
        if column.family == Family::V6 {
            // The paper shows figure 11 for UDP/IPv4 only.
            tally.beside(what(128), small.value, "");
            continue;
        }
        tally.part(&name);
        // The claim itself is about a threshold of 3 %, so no tie band is added.
        let scale = Scale { tie: 0.0, unit: "" };
        let limit = Value::exact(NO_DIFFERENCE);
        tally.compare(what(128), small, Relation::Below, limit, scale);
        tally.compare(what(256), larger, Relation::AtLeast, limit, scale);
        if let (Some(before), Some(after)) = (cell(1024), cell(2048)) {
            let what = format!("{}, as a multiple of 1,024 B", at(&name, 2048));
            tally.beside(what, after.over(before).value, "");
        }
    }
}
