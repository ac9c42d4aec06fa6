//! P3's claims evaluated on new runs over emulated RTTs.

use fabricmark_plan::{Point, Window};
use fabricmark_units::Nanos;

use crate::claims::figures::{Column, Figures, Load, Quantity};
use crate::claims::tally::{Relation, Scale, Tally};

/// Highest RTT of P3's emulator.
const LONGEST: Nanos = Nanos::from_millis(400);

/// Relative difference of goodput that the claims allow.
const TOLERANCE: f64 = 0.05;

const NO_ROUND_TRIPS: &str =
    "no TCP streams over an emulated RTT of 0 and over one of up to 400 ms";

/// Columns of TCP goodput over emulated RTTs, with their points.
fn streams(figures: &Figures) -> Vec<(&Column, &Point)> {
    let columns = figures.columns(Quantity::GoodputMbps, Load::Tcp);
    columns
        .filter_map(|column| {
            let point = column.point.as_deref().filter(|point| point.rtt.is_some())?;
            Some((column, point))
        })
        .collect()
}

/// Whether two points are equal apart from the payload and what `same` equalizes.
fn agree(a: &Point, b: &Point, same: impl Fn(&mut Point)) -> bool {
    let levelled = |point: &Point| {
        let mut point = Point { payload: b.payload, ..point.clone() };
        same(&mut point);
        point
    };
    levelled(a) == levelled(b)
}

/// Compares each RTT with an RTT of 0. The claim's tolerance replaces the tie band; only the intervals are added.
pub(super) fn same_at_every_rtt(figures: &Figures, tally: &mut Tally) {
    let streams = streams(figures);
    for (short, at_once) in streams.iter().filter(|(_, point)| point.rtt == Some(Nanos(0))) {
        let others = streams.iter().filter(|(_, point)| {
            point.rtt.is_some_and(|rtt| rtt > Nanos(0) && rtt <= LONGEST)
                && agree(point, at_once, |point| point.rtt = None)
        });
        for (long, _) in others {
            for (_, without, with) in short.with(long) {
                let scale = Scale { tie: 0.0, unit: "Mb/s" };
                let least = without.times(1.0 - TOLERANCE);
                tally.compare(long.name(), with, Relation::AtLeast, least, scale);
            }
        }
    }
    tally.otherwise(NO_ROUND_TRIPS);
}

/// Compares a window of 3 BDP with each smaller one.
pub(super) fn three_products_are_needed(figures: &Figures, tally: &mut Tally) {
    let streams = streams(figures);
    for (wide, three) in streams.iter().filter(|(_, p)| p.window == Some(Window::Bdp(3))) {
        let others = streams.iter().filter(|(_, point)| {
            matches!(point.window, Some(Window::Bdp(1 | 2)))
                && agree(point, three, |point| point.window = None)
        });
        for (narrow, _) in others {
            let scale = figures.scale(Quantity::GoodputMbps);
            for (_, with_three, with_less) in wide.with(narrow) {
                tally.compare(narrow.name(), with_three, Relation::Above, with_less, scale);
            }
        }
    }
    tally.otherwise("no TCP streams over one path with windows of 3 BDP and of fewer");
}

pub(super) fn v4_is_like_v6(figures: &Figures, tally: &mut Tally) {
    for (v4, v6) in figures.families(Quantity::GoodputMbps, Load::Tcp) {
        if v4.point.as_ref().is_none_or(|point| point.rtt.is_none()) {
            continue;
        }
        for (_, a, b) in v4.with(v6) {
            tally.within(v4.name(), a, b, TOLERANCE, "Mb/s");
        }
    }
    tally.otherwise("no TCP streams over both IPv4 and IPv6 at the same emulated RTT");
}
