//! The intended departures of a pace, in virtual time.

use std::ops::Range;

use fabricmark_units::{BitRate, Bytes, Nanos, Stream};

use super::{Lengths, Pace, Rate, Trace};
use crate::invalid::Invalid;

const NS_PER_S: u128 = 1_000_000_000;

/// Intended departures of a flow's payloads in order, in nanoseconds since the start of the run.
///
/// Departures of `fixed` are computed from their index, so that rounding errors do not accumulate.
pub struct Schedule {
    rule: Rule,
    /// Index of the next departure, from 0.
    next: u64,
    turns: Turns,
}

/// The departures of a schedule that belong to some of the flows that take turns.
struct Turns {
    /// Places of these flows among all.
    own: Range<u64>,
    /// Number of flows.
    of: u64,
}

enum Rule {
    /// One departure every `numerator / denominator` nanoseconds.
    Fixed { numerator: u128, denominator: u128 },
    /// Exponential gaps; `at` is the last departure.
    Poisson { mean_ns: f64, stream: Stream, at: Split },
    /// One departure every `gap_ns` of the periods. The current period lasts for `left_ns` after the last departure, `at`.
    OnOff {
        gap_ns: f64,
        lengths: Lengths,
        on_ns: f64,
        off_ns: f64,
        stream: Stream,
        at: Split,
        left_ns: f64,
    },
    /// Payloads of `payload` bytes, `burst` bytes per period; the last burst had number `number` and began at `at_ns`.
    Burst { payload: u128, burst: u128, period_ns: u64, number: u128, at_ns: u64 },
    /// Departures listed in a file.
    Trace(Trace),
}

/// A time in whole nanoseconds plus a fraction: the sum of a billion gaps is as precise as a single gap.
#[derive(Default)]
struct Split {
    whole_ns: u64,
    fraction_ns: f64,
}

impl Split {
    /// Adds a gap; `None` beyond 584 years.
    fn after(&mut self, gap_ns: f64) -> Option<u64> {
        let sum_ns = self.fraction_ns + gap_ns;
        // The conversion saturates: a longer gap counts as 584 years.
        self.whole_ns = self.whole_ns.checked_add(sum_ns as u64)?;
        self.fraction_ns = sum_ns.fract();
        Some(self.whole_ns)
    }
}

/// Most mean periods that a gap may take: each costs a random number.
const PERIODS_MAX: f64 = 100.0;

/// Shape of the Pareto distribution.
const SHAPE: f64 = 1.5;

impl Lengths {
    /// A number with mean 1.
    fn draw(self, stream: &mut Stream) -> f64 {
        match self {
            Self::Exponential => stream.exponential(),
            // The logarithm of a Pareto number over its minimum is exponential.
            Self::Pareto => (SHAPE - 1.0) / SHAPE * (stream.exponential() / SHAPE).exp(),
        }
    }
}

impl Pace {
    /// Whether the pace states the rate at which payloads depart.
    pub fn states_rate(&self) -> bool {
        matches!(self, Self::Fixed(_) | Self::Poisson(_) | Self::OnOff { .. } | Self::Burst { .. })
    }

    /// The intended departures of payloads of one size; `None` for a closed loop, which has none.
    ///
    /// `stream` is the random stream of this flow; equal streams give equal departures. `trace` holds the
    /// departures of a trace file; other paces ignore it.
    pub fn schedule(
        &self,
        payload: Bytes,
        stream: Stream,
        trace: Option<Trace>,
    ) -> Result<Option<Schedule>, Invalid> {
        if payload.0 == 0 {
            return Err(zero());
        }
        let rule = match *self {
            Self::Closed => return Ok(None),
            Self::Fixed(rate) => {
                let (numerator, denominator) = interval(rate, payload)?;
                Rule::Fixed { numerator, denominator }
            }
            Self::Poisson(rate) => {
                let (numerator, denominator) = interval(rate, payload)?;
                let mean_ns = numerator as f64 / denominator as f64;
                Rule::Poisson { mean_ns, stream, at: Split::default() }
            }
            Self::OnOff { rate, on, off, lengths } => {
                let (numerator, denominator) = interval(rate, payload)?;
                if on.0 == 0 || off.0 == 0 {
                    return Err(zero());
                }
                let gap_ns = numerator as f64 / denominator as f64;
                if gap_ns > PERIODS_MAX * on.0 as f64 {
                    return Err(Invalid(format!(
                        "periods of {on} are too short for a departure every {gap_ns:.0} ns"
                    )));
                }
                let (on_ns, off_ns, at) = (on.0 as f64, off.0 as f64, Split::default());
                // A source is found in a period or a pause by their shares of the time. What is left of either has the
                // distribution of the whole if that is exponential; a Pareto one begins with a whole one.
                let mut stream = stream;
                let is_on = stream.unit() < on_ns / (on_ns + off_ns);
                let left_ns = if is_on { on_ns * lengths.draw(&mut stream) } else { 0.0 };
                Rule::OnOff { gap_ns, lengths, on_ns, off_ns, stream, at, left_ns }
            }
            Self::Burst { bytes, period } | Self::Follow { bytes, period, .. } => {
                if bytes.0 == 0 || period.0 == 0 {
                    return Err(zero());
                }
                Rule::Burst {
                    payload: payload.0.into(),
                    burst: bytes.0.into(),
                    period_ns: period.0,
                    number: 0,
                    at_ns: 0,
                }
            }
            Self::Trace(_) => Rule::Trace(
                trace
                    .ok_or_else(|| Invalid("the departures of the trace are missing".to_owned()))?,
            ),
        };
        Ok(Some(Schedule { rule, next: 0, turns: Turns { own: 0..1, of: 1 } }))
    }
}

/// The error for a value that the parsers reject.
fn zero() -> Invalid {
    Invalid("a rate, a burst, a period and a payload must be above 0".to_owned())
}

/// Nanoseconds between two departures, as numerator and denominator.
fn interval(rate: Rate, payload: Bytes) -> Result<(u128, u128), Invalid> {
    match rate {
        Rate::Bits(BitRate(0)) | Rate::PerSecond(0) => Err(zero()),
        Rate::Bits(BitRate(bps)) => Ok((8 * NS_PER_S * u128::from(payload.0), bps.into())),
        Rate::PerSecond(count) => Ok((NS_PER_S, count.into())),
    }
}

impl Schedule {
    /// The departures of some of `of` flows, which take turns from the first departure on: of those with the places
    /// `own`.
    #[must_use]
    pub fn of_turns(self, own: Range<u64>, of: u64) -> Self {
        Self { turns: Turns { own, of }, ..self }
    }

    /// Intended departure of the next payload, never before the previous one; `None` at the end of a trace and
    /// beyond 584 years.
    ///
    /// `fixed`: payload k departs at `floor(k * interval)`. `burst`: at `period * floor(k * payload / burst)`.
    pub fn next_departure_ns(&mut self) -> Option<u64> {
        loop {
            let flow = self.next % self.turns.of.max(1);
            let at = self.next_of_all_ns()?;
            if self.turns.own.contains(&flow) {
                return Some(at);
            }
        }
    }

    /// As [`Self::next_departure_ns`], of all flows.
    fn next_of_all_ns(&mut self) -> Option<u64> {
        let number = u128::from(self.next);
        let at = match &mut self.rule {
            Rule::Fixed { numerator, denominator } => {
                u64::try_from(number.checked_mul(*numerator)? / *denominator).ok()?
            }
            Rule::Poisson { mean_ns, stream, at } => at.after(*mean_ns * stream.exponential())?,
            Rule::OnOff { gap_ns, lengths, on_ns, off_ns, stream, at, left_ns } => {
                // The part of the gap that the period has no time for is left for the next one.
                let (mut gap_ns, mut wait_ns) = (*gap_ns, 0.0);
                while gap_ns > *left_ns {
                    gap_ns -= *left_ns;
                    wait_ns += *left_ns + *off_ns * lengths.draw(stream);
                    *left_ns = *on_ns * lengths.draw(stream);
                }
                *left_ns -= gap_ns;
                at.after(wait_ns + gap_ns)?
            }
            Rule::Burst { payload, burst, period_ns, number: last, at_ns } => {
                let burst = number.checked_mul(*payload)? / *burst;
                let since_ns = (burst - *last).checked_mul(u128::from(*period_ns))?;
                *at_ns = at_ns.checked_add(u64::try_from(since_ns).ok()?)?;
                *last = burst;
                *at_ns
            }
            Rule::Trace(trace) => *trace.departures_ns().get(usize::try_from(self.next).ok()?)?,
        };
        self.next = self.next.checked_add(1)?;
        Some(at)
    }

    /// Changes the period of the bursts after the next departure.
    pub fn set_period(&mut self, Nanos(ns): Nanos) {
        if let Rule::Burst { period_ns, .. } = &mut self.rule {
            *period_ns = ns.max(1);
        }
    }

    /// Delays the bursts after the next departure.
    pub fn postpone(&mut self, Nanos(ns): Nanos) {
        if let Rule::Burst { at_ns, .. } = &mut self.rule {
            *at_ns = at_ns.saturating_add(ns);
        }
    }

    /// Time between departures in nanoseconds, at least 1: the interval of `fixed` and of the periods of `on-off`, the
    /// mean gap of `poisson` and of a trace, or the time between bursts. A schedule of a part of the flows has this
    /// multiplied by the number of all flows and divided by that of its own. A payload with a larger departure lag delays
    /// the next one.
    pub fn interval_ns(&self) -> u64 {
        let own = self.turns.own.end.saturating_sub(self.turns.own.start).max(1);
        let part = |ns: u128| ns.saturating_mul(self.turns.of.into()).div_ceil(own.into());
        let ns = match &self.rule {
            Rule::Fixed { numerator, denominator } => numerator.div_ceil(*denominator),
            Rule::Poisson { mean_ns: gap_ns, .. } | Rule::OnOff { gap_ns, .. } => {
                gap_ns.ceil() as u128
            }
            Rule::Burst { payload, burst, period_ns, .. } => {
                let periods = part(*payload).div_ceil(*burst);
                return at_least_1(periods.saturating_mul(u128::from(*period_ns)));
            }
            Rule::Trace(trace) => match trace.departures_ns() {
                [first, others @ .., last] => {
                    u128::from(last - first).div_ceil(others.len() as u128 + 1)
                }
                _ => 0,
            },
        };
        at_least_1(part(ns))
    }
}

fn at_least_1(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX).max(1)
}
