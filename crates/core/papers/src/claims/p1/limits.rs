//! Claims that compare figures with what the wire allows.

use fabricmark_wire::Family;

use super::at;
use crate::claims::figures::{Figures, LOADS, Load, Origin, Quantity};
use crate::claims::limit::{Limit, limit};
use crate::claims::tally::Tally;
use crate::claims::value::Value;
use Quantity::{GoodputMbps, LatencyUs};

/// Maximum relative deviation of the ratio of two figures from the ratio of their ceilings.
const DUE_TO_HEADERS: f64 = 0.03;

const NO_WIRE: &str = "no link with a line rate: a veth pair has neither ceiling nor floor";

pub fn differences_are_those_of_headers(figures: &Figures, tally: &mut Tally) {
    for (v4, v6) in LOADS.into_iter().flat_map(|load| figures.families(GoodputMbps, load)) {
        let name = format!("{} {}", v4.load.word(), v4.network);
        tally.part(&name);
        for (payload, a, b) in v4.with(v6) {
            let limits = v4.limits.get(&payload).zip(v6.limits.get(&payload));
            let Some((a_limit, b_limit)) = limits else { continue };
            let expected = Value::exact(b_limit.alone / a_limit.alone);
            tally.within(at(&name, payload), b.over(a), expected, DUE_TO_HEADERS, "");
        }
    }
    tally.otherwise(NO_WIRE);
}

/// Calls `judge` for each cell of `quantity` that has a limit, with a part per column.
///
/// Skips the published datagram columns of tables II and III, which repeat runs of tables IV and V.
fn limited(
    figures: &Figures,
    tally: &mut Tally,
    quantity: Quantity,
    mut judge: impl FnMut(&mut Tally, String, Value, Limit),
) {
    for column in figures.columns.iter().filter(|column| column.quantity == quantity) {
        if figures.origin == Origin::Published && column.network == "IPoIB datagram" {
            continue;
        }
        let name = column.name();
        tally.part(&name);
        for (payload, &cell) in &column.cells {
            if let Some(&limit) = column.limits.get(payload) {
                judge(tally, at(&name, *payload), cell, limit);
            }
        }
    }
}

pub fn goodput_is_within_its_ceiling(figures: &Figures, tally: &mut Tally) {
    let mut highest: Option<(f64, f64, String)> = None;
    limited(figures, tally, GoodputMbps, |tally, what, cell, limit| {
        let share = cell.value / limit.alone;
        if highest.as_ref().is_none_or(|(most, ..)| share > *most) {
            highest = Some((share, cell.value / limit.bound, what.clone()));
        }
        // Published figures are means by an unknown clock and are compared with the bound alone; measured figures may
        // exceed it by the error of two clocks.
        let allowed = match figures.origin {
            Origin::Published => limit.bound,
            Origin::Measured => fabricmark_wire::allowed(limit.bound, 0, 1.0),
        };
        tally.not_beyond(what, cell, allowed, 1.0, "Mb/s");
    });
    if let (Some((alone, bound, what)), Origin::Published) = (highest, figures.origin) {
        tally.note(format!(
            "highest: {what}, {:.2} % of the ceiling of separate messages, {:.2} % of the bound",
            alone * 100.0,
            bound * 100.0
        ));
    }
    tally.otherwise(NO_WIRE);
}

pub fn latency_is_above_its_floor(figures: &Figures, tally: &mut Tally) {
    limited(figures, tally, LatencyUs, |tally, what, cell, limit| {
        tally.not_beyond(what, cell, limit.bound, -1.0, "µs");
    });
    tally.otherwise("no floor: no link with a line rate, or a token bucket emulates it");
}

/// Notes the ceilings behind P1's figure 10, which has no printed numbers.
pub fn note_ceilings_by_speed(tally: &mut Tally) {
    let ceiling = |speed: &str| {
        let link = format!("ipoib:4X-{speed}");
        let limit = limit(GoodputMbps, Load::Udp, &link, Family::V4, 32_768)?;
        Some(format!("{speed} {:.0}", limit.bound))
    };
    let words: Option<Vec<String>> =
        ["SDR", "DDR", "QDR", "FDR"].into_iter().map(ceiling).collect();
    if let Some(words) = words {
        let words = words.join(", ");
        tally.note(format!("the ceilings are in this order: {words} Mb/s of UDP/IPv4 at 32,768 B"));
    }
}
