//! From levels to points: every combination that no rule excludes, and the groups they form.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fabricmark_units::Bytes;
use fabricmark_wire::Family;

use crate::factor::{Factor, Level};
use crate::plan::{Compare, Where};
use crate::point::{Path, Pattern, Point, Transport};
use crate::reading::Reader;

/// More points than this are refused: at a second each, ten runs take eleven days.
pub(crate) const POINTS_MAX: usize = 100_000;

/// UDP receive buffer asked for where a plan names none: 4 MiB, so that a receiver that is not
/// scheduled for a few milliseconds loses nothing at 1 Gbit/s.
pub(crate) const UDP_RECEIVE_BUFFER: Bytes = Bytes(4 << 20);

/// The levels of each factor, with the place where each is written.
pub(crate) type Levels = BTreeMap<Factor, Vec<(Level, Range<usize>)>>;

impl Reader<'_, '_> {
    /// Every combination of levels that no rule excludes.
    pub(crate) fn matrix(&mut self, levels: &Levels, excludes: &[Where]) -> Option<Vec<Point>> {
        if Factor::REQUIRED.iter().any(|f| levels.get(f).is_none_or(Vec::is_empty)) {
            return None;
        }
        let count: usize = levels.values().map(|l| l.len().max(1)).product();
        if count > POINTS_MAX {
            let message = format!("the plan has {count} points");
            self.source.problem(0..0, message, format!("use at most {POINTS_MAX}"));
            return None;
        }
        let mut combinations: Vec<Where> = vec![Where::new()];
        // The payload varies fastest, so that the points of one table stand together.
        let mut factors: Vec<Factor> =
            Factor::ALL.into_iter().filter(|f| *f != Factor::Payload).collect();
        factors.push(Factor::Payload);
        for factor in factors {
            let Some(choice) = levels.get(&factor) else {
                continue;
            };
            combinations = combinations
                .into_iter()
                .flat_map(|known| {
                    choice.iter().map(move |(level, _)| {
                        let mut next = known.clone();
                        next.insert(factor, level.clone());
                        next
                    })
                })
                .collect();
        }
        let is_excluded = |levels: &Where| {
            excludes
                .iter()
                .any(|rule| !rule.is_empty() && rule.iter().all(|(f, l)| levels.get(f) == Some(l)))
        };
        combinations.retain(|levels| !is_excluded(levels));
        if combinations.is_empty() {
            let help = "drop or narrow an [[exclude]]";
            self.source.problem(0..0, "every point is excluded", help);
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut points = Vec::new();
        for combination in combinations {
            let point = self.point(&combination, levels)?;
            if !seen.insert(point.key()) {
                let message = format!("two combinations give the same point: {}", point.key());
                let help = "a factor has no effect there: [[exclude]] all but one of its levels";
                self.source.problem(0..0, message, help);
                return None;
            }
            points.push(point);
        }
        Some(points)
    }

    pub(crate) fn point(&mut self, combination: &Where, levels: &Levels) -> Option<Point> {
        let place = |factor: Factor| {
            let wanted = combination.get(&factor);
            let found = levels.get(&factor)?.iter().find(|(level, _)| Some(level) == wanted);
            found.map(|(_, span)| span.clone())
        };
        let (payload_span, transport_span) = (place(Factor::Payload)?, place(Factor::Transport)?);
        let word = |factor: Factor| combination.get(&factor);
        // The levels are canonical, so each of them parses.
        let pattern = match word(Factor::Pattern)?.as_str() {
            "stream" => Pattern::Stream,
            _ => Pattern::PingPong,
        };
        let transport = match word(Factor::Transport)?.as_str() {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => Transport::Null,
        };
        let family = if word(Factor::Family)? == "4" { Family::V4 } else { Family::V6 };
        let payload: Bytes = word(Factor::Payload)?.parse().ok()?;
        let is_tcp = transport == Transport::Tcp;
        let congestion = word(Factor::Congestion).filter(|_| is_tcp).cloned();
        if is_tcp && congestion.is_none() {
            let help = "add congestion = \"cubic\" to [settings]: kernels differ in their default";
            self.source.problem(transport_span, "tcp without a congestion control", help);
            return None;
        }
        let largest = family.udp_payload_max();
        if transport == Transport::Udp && payload.0 > largest {
            let message = format!("{} bytes do not fit a UDP datagram over {family}", payload.0);
            let help = format!("use at most {largest}, or [[exclude]] transport = \"udp\" there");
            self.source.problem(payload_span, message, help);
            return None;
        }
        let nodelay = word(Factor::Nodelay).map(|level| level == "true");
        let receive_buffer = match word(Factor::ReceiveBuffer) {
            Some(level) => Some(level.parse().ok()?),
            None => (transport == Transport::Udp).then_some(UDP_RECEIVE_BUFFER),
        };
        Some(Point {
            pattern,
            transport,
            family,
            payload,
            link: word(Factor::Link)?.parse().ok()?,
            path: Path::Copy,
            congestion,
            nodelay: is_tcp.then(|| nodelay.unwrap_or(pattern == Pattern::PingPong)),
            receive_buffer,
            label: word(Factor::Label).cloned(),
        })
    }
}

/// Points that agree in every factor that is not compared form a group.
pub(crate) fn groups(points: &[Point], compare: &[Compare]) -> Vec<Vec<usize>> {
    let compared: BTreeSet<Factor> = compare.iter().map(|c| c.factor).collect();
    let mut groups: Vec<(Vec<Level>, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Vec<Level>, usize> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let rest: Vec<Level> = Factor::ALL
            .into_iter()
            .filter(|factor| !compared.contains(factor))
            .map(|factor| point.level(factor))
            .collect();
        let place = *places.entry(rest.clone()).or_insert_with(|| {
            groups.push((rest, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(index);
    }
    groups.into_iter().map(|(_, members)| members).collect()
}
