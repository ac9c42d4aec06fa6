//! A table cell: one figure over the runs of one point.

use fabricmark_plan::{Figure, Limit as Allows, Pattern, Point};
use fabricmark_record::{Bottleneck, Drops, Provenance, Record};
use fabricmark_stats::{Estimate, StopRule, median};
use fabricmark_wire::{Ceiling, Kind, exceeds};

use crate::number;
use crate::runs::{Runs, failure};

/// A figure of a point and its context.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    pub point: &'a Point,
    /// Estimate in base units; `None` without valid runs.
    pub estimate: Option<Estimate>,
    /// Median of the runs with its order-statistic interval.
    pub median: Option<Estimate>,
    /// Why there is no figure.
    pub missing: Option<String>,
    /// Number of invalid runs, which no figure includes.
    pub invalid: usize,
    pub provenance: Option<Provenance>,
    /// The hard limit: the bound of goodput, or the floor of RTT.
    pub limit: Option<Limit>,
    /// TCP's limit if each write is sent in segments of its own.
    pub message_limit: Option<Limit>,
    /// Whether the kernel merged writes in any run.
    pub is_merged: bool,
    pub writes_per_segment: Option<f64>,
    pub retransmitted: Option<u64>,
    /// Packets lost by QUIC.
    pub lost_packets: Option<u64>,
    /// Datagrams lost in a stream.
    pub loss: Option<Loss>,
    /// What limited the runs.
    pub bottleneck: Option<&'a Bottleneck>,
}

/// A ceiling or floor, and the ratio of the figure to it.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub kind: Kind,
    /// Value in the base unit of the figure.
    pub value: f64,
    /// Figure divided by the limit: 0.94 is 94 % of a ceiling, 3 is three times a floor.
    pub share: f64,
    pub formula: String,
}

/// Datagrams lost over all runs of a point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    pub sent: u64,
    pub drops: Drops,
}

impl Loss {
    /// Lost datagrams as a share of those sent.
    pub(crate) fn share(self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.drops.lost as f64 / self.sent as f64 }
    }

    pub(crate) fn sum(losses: impl Iterator<Item = Self>) -> Self {
        losses.fold(Self::default(), |mut sum, Self { sent, drops }| {
            sum.sent += sent;
            sum.drops.lost += drops.lost;
            sum.drops.socket += drops.socket;
            sum.drops.link += drops.link;
            sum.drops.reassembly += drops.reassembly;
            sum.drops.unexplained += drops.unexplained;
            sum
        })
    }

    /// Where they were lost: `on the link 12, at the socket 3`.
    pub(crate) fn places(self) -> String {
        let Drops { socket, link, reassembly, unexplained, .. } = self.drops;
        let places = [
            ("on the link", link),
            ("at the socket", socket),
            ("in reassembly", reassembly),
            ("unexplained", unexplained),
        ];
        let words: Vec<String> = places
            .into_iter()
            .filter(|&(_, count)| count > 0)
            .map(|(place, count)| format!("{place} {}", number::fixed(count as f64, 0)))
            .collect();
        words.join(", ")
    }
}

impl<'a> Cell<'a> {
    pub(crate) fn of(
        point: &'a Point,
        runs: Option<&Runs<'a>>,
        figure: Figure,
        rule: &StopRule,
    ) -> Self {
        let none = Runs::default();
        let runs = runs.unwrap_or(&none);
        let values = runs.values(figure);
        let middle = median(&values, rule.confidence);
        let estimate =
            if figure.spec().is_median { middle.clone() } else { rule.estimate(&values) };
        let first = runs.counted.first().copied();
        let value = estimate.as_ref().map(|estimate| estimate.value);
        let limit = |limit: Option<OfRecord>| {
            let (kind, limit, formula) = limit?;
            Some(Limit { kind, value: limit, share: value? / limit, formula })
        };
        let flows = || runs.counted.iter().flat_map(|record| record.load());
        let tcp: Vec<_> = flows().filter_map(|flow| flow.tcp.as_ref()).collect();
        let lost_packets = flows().filter_map(|flow| Some(flow.quic?.lost_packets));
        let is_stream = point.pattern == Pattern::Stream;
        // Both patterns send payloads without waiting for responses.
        let is_train = is_stream || point.pattern == Pattern::Burst;
        let has_ceiling = figure.spec().limit == Allows::Ceiling;
        let of_datagrams = flows().filter(|flow| is_stream && flow.tcp.is_none());
        let loss =
            Loss::sum(of_datagrams.map(|flow| Loss { sent: flow.sent.calls, drops: flow.drops }));
        let message_limit = limit(first.filter(|_| has_ceiling).and_then(message_limit));
        // So does a mean above the ceiling of separate writes: full segments hold few payloads that are just shorter.
        let is_above = |limit: &Limit| exceeds(limit.share, 1.0, 0, 1.0);
        let is_merged = tcp.iter().any(|tcp| tcp.is_merged())
            || !tcp.is_empty() && message_limit.as_ref().is_some_and(is_above);
        Self {
            point,
            missing: value.is_none().then(|| why_missing(runs)),
            invalid: runs.invalid().count(),
            median: middle,
            provenance: first
                .and_then(|record| record.figures.get(figure))
                .map(|figure| figure.provenance),
            limit: limit(first.and_then(|record| hard_limit(record, figure))),
            message_limit,
            is_merged: has_ceiling && is_merged,
            writes_per_segment: (is_train && !tcp.is_empty()).then(|| {
                tcp.iter().map(|tcp| tcp.writes_per_segment).sum::<f64>() / tcp.len() as f64
            }),
            retransmitted: (!tcp.is_empty()).then(|| tcp.iter().map(|tcp| tcp.retransmitted).sum()),
            lost_packets: lost_packets.reduce(|sum, lost| sum + lost),
            loss: (loss.drops.lost > 0).then_some(loss),
            bottleneck: runs.bottleneck().filter(|_| figure.spec().limit != Allows::None),
            estimate,
        }
    }
}

impl Cell<'_> {
    /// Marks after the figure, which notes explain: ` † ‡`.
    pub(crate) fn marks(&self) -> String {
        let marks = [(self.is_merged, " †"), (self.invalid > 0, " ‡")];
        marks.into_iter().filter_map(|(holds, mark)| holds.then_some(mark)).collect()
    }
}

fn why_missing(runs: &Runs<'_>) -> String {
    runs.failed.last().and_then(|record| failure(record)).unwrap_or_else(|| {
        if runs.counted.is_empty() { "not run yet" } else { "this figure was not recorded" }
            .to_owned()
    })
}

/// Kind, value and formula of a limit.
pub(crate) type OfRecord = (Kind, f64, String);

pub(crate) fn hard_limit(record: &Record, figure: Figure) -> Option<OfRecord> {
    match figure.spec().limit {
        Allows::Ceiling => ceiling(record, |ceiling| ceiling.kind == Kind::Bound),
        Allows::Floor(part) => {
            let floor = record.limits.rtt_floor.as_ref()?;
            Some((floor.kind, floor.time_ns.as_f64() * part, floor.formula.clone()))
        }
        Allows::None => None,
    }
}

/// The ceiling that depends on the write size has it among its inputs.
fn message_limit(record: &Record) -> Option<OfRecord> {
    ceiling(record, |ceiling| {
        ceiling.kind == Kind::Conditional && ceiling.inputs.contains_key("payload_bytes")
    })
}

fn ceiling(record: &Record, is_it: impl FnMut(&&Ceiling) -> bool) -> Option<OfRecord> {
    let ceiling = record.limits.ceilings.iter().find(is_it)?;
    Some((ceiling.kind, ceiling.goodput_bps.as_f64(), ceiling.formula.clone()))
}
