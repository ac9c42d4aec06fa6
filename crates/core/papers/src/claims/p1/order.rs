//! Which of two columns is larger, cell by cell.

use super::at;
use crate::claims::figures::{Column, Figures, Load, Origin, Quantity};
use crate::claims::outcome::{Missing, Outcome};
use crate::claims::tally::{Relation, Tally};
use crate::claims::value::crossover;
use Quantity::{GoodputMbps, LatencyUs};
use Relation::{Above, AtLeast, Below};

const LOADS: [Load; 2] = [Load::Udp, Load::Tcp];

/// Payload in bytes up to which 10GbE is claimed to lead, and the next one of the tables.
const LEAD_ENDS: u64 = 16_384;
const LARGEST: u64 = 32_768;

pub fn v4_exceeds_v6_udp(figures: &Figures) -> Outcome {
    by_family(figures, figures.families(GoodputMbps, Load::Udp), AtLeast, GoodputMbps)
}

pub fn v4_exceeds_v6_tcp(figures: &Figures) -> Outcome {
    by_family(figures, figures.families(GoodputMbps, Load::Tcp), AtLeast, GoodputMbps)
}

pub fn v4_is_under_v6_udp(figures: &Figures) -> Outcome {
    let mut pairs = figures.families_of_modes(LatencyUs);
    pairs.extend(figures.families(LatencyUs, Load::Udp));
    by_family(figures, pairs, Below, LatencyUs)
}

pub fn v4_is_under_v6_tcp(figures: &Figures) -> Outcome {
    by_family(figures, figures.families(LatencyUs, Load::Tcp), Below, LatencyUs)
}

fn by_family(
    figures: &Figures,
    pairs: Vec<(&Column, &Column)>,
    relation: Relation,
    quantity: Quantity,
) -> Outcome {
    let mut tally = Tally::default();
    for (v4, v6) in pairs {
        let name = format!("{} {}", v4.load.word(), v4.network);
        cells(&mut tally, figures, &name, (v4, v6), relation, |_| true);
    }
    tally.outcome(&format!("no {} of one network over both IPv4 and IPv6", quantity.word()))
}

/// Compares the cells of two columns in a part of its own.
fn cells(
    tally: &mut Tally,
    figures: &Figures,
    name: &str,
    (left, right): (&Column, &Column),
    relation: Relation,
    is_meant: impl Fn(u64) -> bool,
) {
    let scale = figures.scale(left.quantity);
    tally.part(name);
    for (payload, a, b) in left.with(right).filter(|(payload, ..)| is_meant(*payload)) {
        tally.compare(at(name, payload), a, relation, b, scale);
    }
}

pub fn datagram_exceeds_connected(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    let pairs = figures.modes(GoodputMbps);
    for &(datagram, connected) in &pairs {
        let name = pair_name(figures, datagram);
        cells(&mut tally, figures, &name, (datagram, connected), Above, |_| true);
    }
    let factors: Vec<f64> = pairs
        .iter()
        .flat_map(|(datagram, connected)| datagram.with(connected))
        .map(|(_, datagram, connected)| datagram.value / connected.value)
        .collect();
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = factors.iter().copied().fold(0.0, f64::max);
    if !factors.is_empty() {
        tally.note(format!("by a factor of {least:.3} to {most:.2}"));
    }
    tally.outcome(NO_MODES)
}

pub fn datagram_is_under_connected(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    let pairs = figures.modes(LatencyUs);
    for &(datagram, connected) in &pairs {
        let name = pair_name(figures, datagram);
        cells(&mut tally, figures, &name, (datagram, connected), Below, |_| true);
    }
    let more: Vec<f64> = pairs
        .iter()
        .flat_map(|(datagram, connected)| datagram.with(connected))
        .map(|(_, datagram, connected)| connected.value / datagram.value - 1.0)
        .collect();
    if !more.is_empty() {
        let count = |is: fn(f64) -> bool| more.iter().filter(|&&more| is(more)).count();
        tally.note(format!(
            "{} of {} cells differ by less than 2 %, {} by 5 % or more: of new runs those would be ties",
            count(|more| more < 0.02),
            more.len(),
            count(|more| more >= 0.05)
        ));
    }
    tally.outcome(NO_MODES)
}

const NO_MODES: &str = "no link over IPoIB in both datagram and connected mode";

/// A pair of networks by the one that an experiment may have several of: P1 has one, which needs no
/// name.
fn pair_name(figures: &Figures, column: &Column) -> String {
    let (load, family) = (column.load.word(), column.family_word());
    match figures.origin {
        Origin::Published => format!("{load} {family}"),
        Origin::Measured => format!("{load} {} {family}", column.base_link()),
    }
}

pub fn ethernet_exceeds_ipoib(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    for load in LOADS {
        for (ethernet, ipoib) in figures.technologies(GoodputMbps, load) {
            let name = pair_name(figures, ipoib);
            cells(&mut tally, figures, &name, (ethernet, ipoib), Above, |p| p <= LEAD_ENDS);
        }
    }
    if let Some(note) = with_table_ii(figures) {
        tally.note(note);
    }
    tally.outcome(NO_TECHNOLOGIES)
}

/// What is missing where no two technologies can be compared.
pub(super) const NO_TECHNOLOGIES: &str =
    "no links of both kinds, Ethernet and a faster IPoIB in datagram mode";

/// What table II, which shows the same runs as table IV, would make of the claim.
fn with_table_ii(figures: &Figures) -> Option<String> {
    if figures.origin != Origin::Published {
        return None;
    }
    let mut fails = Vec::new();
    for (datagram, _) in figures.modes(GoodputMbps) {
        for (ethernet, _) in figures.technologies(GoodputMbps, Load::Udp) {
            if ethernet.family == datagram.family {
                let name = pair_name(figures, ethernet);
                let cells = ethernet.with(datagram).filter(|(p, ..)| *p <= LEAD_ENDS);
                fails.extend(
                    cells.filter(|(_, a, b)| a.value <= b.value).map(|(p, ..)| at(&name, p)),
                );
            }
        }
    }
    let fails_words = fails.join("; ");
    (!fails.is_empty())
        .then(|| format!("FAILS in {} with the values of table II: {fails_words}", fails.len()))
}

pub fn ipoib_exceeds_ethernet(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    let mut crossings = Vec::new();
    for load in LOADS {
        for (ethernet, ipoib) in figures.technologies(GoodputMbps, load) {
            let name = pair_name(figures, ipoib);
            cells(&mut tally, figures, &name, (ipoib, ethernet), Above, |p| p == LARGEST);
            let ratios: Vec<(f64, f64)> =
                ethernet.with(ipoib).map(|(p, a, b)| (p as f64, a.value / b.value)).collect();
            let last = ratios.windows(2).rev().find_map(|w| crossover(w[0], w[1], 1.0));
            crossings.extend(last.map(|at| (format!("{name} crosses at"), at)));
        }
    }
    for (what, bytes) in crossings {
        tally.beside(what, bytes, "B");
    }
    tally.outcome(NO_TECHNOLOGIES)
}

pub fn ipoib_is_under_ethernet(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    for load in LOADS {
        for (ethernet, ipoib) in figures.technologies(LatencyUs, load) {
            let name = pair_name(figures, ipoib);
            cells(&mut tally, figures, &name, (ipoib, ethernet), Below, |_| true);
        }
    }
    tally.outcome(NO_TECHNOLOGIES)
}

pub fn faster_lanes_are_faster(figures: &Figures) -> Outcome {
    if figures.origin == Origin::Published {
        let missing = Missing::FigureOnly("figures 10 and 11 have no numbers".to_owned());
        return super::limits::note_ceilings_by_speed(Outcome::missing(missing));
    }
    let mut tally = Tally::default();
    for (quantity, relation) in [(GoodputMbps, Above), (LatencyUs, Below)] {
        let mut columns: Vec<(&str, &Column)> = figures
            .columns(quantity, Load::Udp)
            .filter(|c| c.is_ipoib() && !c.is_connected())
            .filter_map(|c| Some((c.base_link().split_once('-')?.0, c)))
            .collect();
        // Speeds of one width and one IP version, the fastest first.
        columns.sort_by(|(a_width, a), (b_width, b)| {
            let key = |width, column: &Column| (u8::from(column.family), width);
            key(*a_width, a).cmp(&key(*b_width, b)).then(b.rate_bps().total_cmp(&a.rate_bps()))
        });
        for pair in columns.windows(2) {
            let [(a_width, faster), (b_width, slower)] = *pair else { continue };
            let is_slower = slower.rate_bps() < faster.rate_bps();
            if is_slower && (a_width, faster.family) == (b_width, slower.family) {
                let name = format!("{} against {}", faster.name(), slower.name());
                cells(&mut tally, figures, &name, (faster, slower), relation, |_| true);
            }
        }
    }
    tally.outcome("no two IPoIB links of one width and different speed")
}

pub fn tcp_costs_more_than_udp(figures: &Figures) -> Outcome {
    let mut tally = Tally::default();
    for (quantity, relation) in [(GoodputMbps, Below), (LatencyUs, Above)] {
        for (tcp, udp) in figures.transports(quantity) {
            let name = format!("{} {} {}", quantity.word(), tcp.network, tcp.family_word());
            cells(&mut tally, figures, &name, (tcp, udp), relation, |_| true);
        }
    }
    tally.outcome("no figures of both TCP and UDP over one network")
}
