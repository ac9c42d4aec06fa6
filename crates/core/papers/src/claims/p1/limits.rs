//! Figures beside what the wire allows.

use super::at;
use crate::claims::figures::{Column, Figures, Load, Origin, Quantity};
use crate::claims::limit::limit;
use crate::claims::outcome::Outcome;
use crate::claims::tally::Tally;
use crate::claims::value::Value;
use Quantity::{GoodputMbps, LatencyUs};

/// How near the ratio of two figures has to be to that of their ceilings.
const DUE_TO_HEADERS: f64 = 0.03;

const NO_WIRE: &str = "no link with a wire: a veth pair has neither ceiling nor floor";

pub fn differences_are_those_of_headers(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    for load in [Load::Udp, Load::Tcp] {
        for (v4, v6) in figures.families(GoodputMbps, load) {
            let name = format!("{} {}", load.word(), v4.network);
            tally.part(&name);
            for (payload, a, b) in v4.with(v6) {
                let limits = v4.limits.get(&payload).zip(v6.limits.get(&payload));
                let Some((a_limit, b_limit)) = limits else { continue };
                let expected = Value::exact(b_limit.alone / a_limit.alone);
                tally.within(at(&name, payload), b.over(a), expected, DUE_TO_HEADERS, "");
            }
        }
    }
    tally.outcome(NO_WIRE)
}

pub fn goodput_is_within_its_ceiling(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    let mut highest: Option<(f64, f64, String)> = None;
    for column in figures.columns.iter().filter(|c| is_judged(figures, c, GoodputMbps)) {
        let name = column.name();
        tally.part(&name);
        for (&payload, &cell) in &column.cells {
            let Some(limit) = column.limits.get(&payload) else { continue };
            let allowed = allowed_mbps(figures, limit.bound);
            tally.not_beyond(at(&name, payload), cell, allowed, 1.0, "Mb/s");
            let share = cell.value / limit.alone;
            if highest.as_ref().is_none_or(|(most, ..)| share > *most) {
                highest = Some((share, cell.value / limit.bound, at(&name, payload)));
            }
        }
    }
    if let (Some((alone, bound, what)), Origin::Published) = (highest, figures.origin) {
        tally.note(format!(
            "highest: {what}, {:.2} % of the ceiling of messages that travel alone, {:.2} % of the bound",
            alone * 100.0,
            bound * 100.0
        ));
    }
    tally.outcome(NO_WIRE)
}

/// A published figure is a mean by an unknown clock and is judged by the bound alone; a measured one
/// may be beyond it by what two clocks explain.
fn allowed_mbps(figures: &Figures, bound: f64) -> f64 {
    match figures.origin {
        Origin::Published => bound,
        Origin::Measured => fabricmark_wire::allowed(bound, 0, 1.0),
    }
}

/// Each published run once: the datagram columns of tables II and III show the runs of tables IV and V
/// again.
fn is_judged(figures: &Figures, column: &Column, quantity: Quantity) -> bool {
    let again = figures.origin == Origin::Published && column.network == "IPoIB datagram";
    column.quantity == quantity && !again
}

pub fn latency_is_above_its_floor(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    for column in figures.columns.iter().filter(|c| is_judged(figures, c, LatencyUs)) {
        let name = column.name();
        tally.part(&name);
        for (&payload, &cell) in &column.cells {
            let Some(limit) = column.limits.get(&payload) else { continue };
            tally.not_beyond(at(&name, payload), cell, limit.bound, -1.0, "µs");
        }
    }
    tally.outcome("no floor: no link with a wire, or a token bucket stands for it")
}

/// What the ceilings say of P1's figure 10, whose numbers are not printed.
pub fn note_ceilings_by_speed(outcome: Outcome) -> Outcome {
    let ceiling = |speed: &str| {
        let link = format!("ipoib:4X-{speed}");
        let limit = limit(GoodputMbps, Load::Udp, &link, fabricmark_wire::Family::V4, 32_768)?;
        Some(format!("{speed} {:.0}", limit.bound))
    };
    let words: Option<Vec<String>> =
        ["SDR", "DDR", "QDR", "FDR"].into_iter().map(ceiling).collect();
    match words {
        Some(words) => outcome.noting(format!(
            "the ceilings are in that order: {} Mb/s of UDP/IPv4 at 32,768 B",
            words.join(", ")
        )),
        None => outcome,
    }
}
