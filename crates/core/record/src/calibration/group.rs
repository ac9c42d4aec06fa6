//! The runs of a calibration, point by point.

use fabricmark_plan::{Offload, Pattern, Point};

use crate::emulation::THE_EMULATOR;
use crate::record::{Outcome, Record};

/// What a point of a calibration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Delay,
    Loaded,
    Rate,
    Loss,
    Jitter,
    Highest,
}

/// The runs of a point that count.
pub(super) struct Group<'a> {
    pub(super) kind: Kind,
    pub(super) point: &'a Point,
    pub(super) words: String,
    pub(super) runs: Vec<&'a Record>,
}

impl Group<'_> {
    /// What each run gives, of those that give it.
    pub(super) fn values(&self, value: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| value(run)).collect()
    }

    /// Rate of the wire in bit/s.
    pub(super) fn rate_bps(&self) -> Option<f64> {
        self.point.words()?.rate_bps()
    }

    pub(super) fn is_offloaded(&self) -> bool {
        self.point.offload == Some(Offload::On)
    }
}

/// The points in the order of their plans.
pub(super) fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut plans: Vec<&str> = Vec::new();
    let mut groups: Vec<((usize, u32), Group<'_>)> = Vec::new();
    for record in records.iter().filter(|record| counts(record)) {
        let Some(kind) = kind(&record.point) else { continue };
        let digest = record.place.plan_digest.as_str();
        if !plans.contains(&digest) {
            plans.push(digest);
        }
        match groups.iter_mut().find(|(_, group)| *group.point == record.point) {
            Some((_, group)) => group.runs.push(record),
            None => {
                let plan = plans.iter().position(|plan| *plan == digest).unwrap_or_default();
                let words = record.point.words().map(|words| words.to_string()).unwrap_or_default();
                let group = Group { kind, point: &record.point, words, runs: vec![record] };
                groups.push(((plan, record.place.point), group));
            }
        }
    }
    groups.sort_by_key(|(place, _)| *place);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A run for which the emulator was too late is what a calibration looks for, though it counts nowhere else.
fn counts(record: &Record) -> bool {
    let is_measured = match &record.outcome {
        Outcome::Completed => true,
        Outcome::Invalid(reason) => reason.starts_with(THE_EMULATOR),
        Outcome::Skipped(_) => false,
    };
    record.emulation.is_some() && !record.place.warm_up && is_measured
}

fn kind(point: &Point) -> Option<Kind> {
    let words = point.words()?;
    Some(match point.pattern {
        _ if words.losses().is_some() => Kind::Loss,
        _ if words.jitter().is_some() => Kind::Jitter,
        Pattern::Stream if point.probe.is_some() => Kind::Loaded,
        Pattern::Stream if words.rate_bps().is_some() => Kind::Rate,
        Pattern::Stream => Kind::Highest,
        Pattern::Rr | Pattern::PingPong => Kind::Delay,
        Pattern::PingPing | Pattern::Crr | Pattern::Burst => return None,
    })
}
