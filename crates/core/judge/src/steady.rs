//! Whether the rate of a run was steady, by a line fitted to its intervals.

use std::cmp::Ordering;

use fabricmark_plan::{Pattern, RAMP_SHARE, STEADY_INTERVALS_MIN};
use fabricmark_record::{Counts, Flow, Interval, Record, Steady};
use fabricmark_units::Nanos;

/// Compares the change of a run's rate with the largest share that is allowed; `None` for a run without intervals.
pub fn steady(record: &Record, most: f64) -> Option<Steady> {
    let flows = record.load().filter_map(|flow| of_flow(record, flow, most));
    flows.max_by(|one, other| {
        // A flow that cannot be judged decides.
        let size = |steady: &Steady| steady.drift.map_or(f64::INFINITY, f64::abs);
        size(one).partial_cmp(&size(other)).unwrap_or(Ordering::Equal)
    })
}

/// Why a run that was to be steady does not count.
pub(crate) fn violation(record: &Record) -> Option<String> {
    let Steady { most, drift, since_ns } = record.steady?;
    let Some(drift) = drift else {
        return Some(format!(
            "fewer than {STEADY_INTERVALS_MIN} intervals count, too few for a steady state; use a longer duration or \
             a shorter interval"
        ));
    };
    if drift.abs() <= most {
        return None;
    }
    let remedy = match since_ns {
        // `omit` counts from the start of the last group.
        Some(since) if record.point.group.is_some() => {
            let later = whole_ms(Nanos(since.0.saturating_sub(begins(record).0)));
            format!("it was steady {later} later: omit that much more")
        }
        Some(since) => format!("it was steady after {}: omit that", whole_ms(since)),
        None => "use a longer duration".to_owned(),
    };
    // Rounded, because 0.07 * 100 is 7.000000000000001.
    let most = (1e8 * most).round() / 1e6;
    let (verb, drift) = (if drift > 0.0 { "rose" } else { "fell" }, 100.0 * drift.abs());
    Some(format!(
        "the rate {verb} by {drift:.1} % over the time that counts, more than the {most} % of a steady state; {remedy}"
    ))
}

/// Rounds up to milliseconds, for people.
fn whole_ms(Nanos(ns): Nanos) -> Nanos {
    Nanos::from_millis(ns.div_ceil(1_000_000))
}

fn of_flow(record: &Record, flow: &Flow, most: f64) -> Option<Steady> {
    let is_stream = record.point.pattern == Pattern::Stream;
    let series = if is_stream { &flow.received_series } else { &flow.sent_series };
    let series = series.as_ref()?;
    // A receiver whose ramp ends in a recovery counts from the end of the recovery on (`Counts::elapsed_ns`).
    let (ramp_bytes, counted_to) = match flow.received {
        Counts { bytes, ramp_bytes, tail_bytes, .. } if is_stream => {
            (ramp_bytes, bytes.saturating_sub(tail_bytes))
        }
        _ => (0, u64::MAX),
    };
    let begins = begins(record);
    let mut counted: Vec<&Interval> = Vec::new();
    let mut before = 0_u64;
    for one in &series.intervals {
        let after = before.saturating_add(one.bytes);
        // The last interval is cut short by the end.
        let is_whole = 2 * one.length_ns() > series.interval_ns;
        let is_counted = before >= ramp_bytes && before < counted_to && after <= counted_to;
        if one.start_ns >= begins.0 && is_counted && is_whole {
            counted.push(one);
        }
        before = after;
    }
    let fewest = STEADY_INTERVALS_MIN as usize;
    let is_steady = |from: &usize| drift(&counted[*from..]).abs() <= most;
    let since = (0..(counted.len() + 1).saturating_sub(fewest)).find(is_steady);
    Some(Steady {
        most,
        drift: (counted.len() >= fewest).then(|| drift(&counted)),
        since_ns: since.map(|from| Nanos(counted[from].start_ns)),
    })
}

/// Start of the counted time, relative to the start of the first group, as the times of intervals are.
fn begins(record: &Record) -> Nanos {
    let all = record.omit_ns + record.duration_ns;
    record.start_ns + record.omit_ns.max(Nanos(all.0 / RAMP_SHARE))
}

/// Rise of the least-squares line through the rates of the intervals, from the start of the first interval to the end of
/// the last one, as a share of their mean.
fn drift(intervals: &[&Interval]) -> f64 {
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return 0.0 };
    let count = intervals.len() as f64;
    let middle_ns = |one: &Interval| 0.5 * (one.start_ns as f64 + one.end_ns as f64);
    let rate = |one: &Interval| one.rate_bps().unwrap_or(0.0);
    let mean =
        |of: &dyn Fn(&Interval) -> f64| intervals.iter().map(|one| of(one)).sum::<f64>() / count;
    let (mean_ns, mean_bps) = (mean(&middle_ns), mean(&rate));
    let spread = mean(&|one| (middle_ns(one) - mean_ns).powi(2));
    let together = mean(&|one| (middle_ns(one) - mean_ns) * (rate(one) - mean_bps));
    if spread <= 0.0 || mean_bps <= 0.0 {
        return 0.0;
    }
    let length_ns = last.end_ns.saturating_sub(first.start_ns) as f64;
    together / spread * length_ns / mean_bps
}

#[cfg(test)]
mod tests {
    use fabricmark_record::Series;
    use fabricmark_testkit as testkit;

    use super::*;

    const STREAM: &str =
        "pattern=stream,transport=tcp,congestion=cubic,family=4,payload=64,link=loopback";

    /// A stream of a second with an interval of 100 ms for each rate in bytes per interval.
    fn record(rates: &[u64]) -> Record {
        let mut record = testkit::record(testkit::point(STREAM));
        let interval = |(place, &bytes): (usize, &u64)| Interval {
            start_ns: place as u64 * 100_000_000,
            end_ns: (place as u64 + 1) * 100_000_000,
            bytes,
            ..Interval::default()
        };
        let intervals = rates.iter().enumerate().map(interval).collect();
        let series = Series { interval_ns: 100_000_000, intervals };
        let received = Counts { bytes: rates.iter().sum(), ..Counts::default() };
        record.flows.push(Flow { received, received_series: Some(series), ..testkit::flow() });
        record
    }

    fn judged(rates: &[u64], most: f64) -> (Steady, Option<String>) {
        let mut record = record(rates);
        record.steady = steady(&record, most);
        (record.steady.unwrap(), violation(&record))
    }

    #[test]
    fn a_rate_that_rises_is_refused_with_the_time_from_which_it_is_steady() {
        // The first interval is the ramp.
        let rates = [0, 40, 60, 80, 100, 100, 100, 100, 100, 100];
        let (found, violation) = judged(&rates, 0.05);
        assert!((found.drift.unwrap() - 60.0 / (780.0 / 9.0)).abs() < 1e-3, "{found:?}");
        assert_eq!(found.since_ns, Some(Nanos(400_000_000)));
        assert_eq!(
            violation.unwrap(),
            "the rate rose by 69.2 % over the time that counts, more than the 5 % of a steady state; it was steady \
             after 400ms: omit that"
        );
        assert_eq!(judged(&rates, 0.7).1, None);
    }

    #[test]
    fn a_rate_that_never_settles_asks_for_a_longer_run() {
        let (found, violation) = judged(&[9, 100, 90, 80, 70, 60, 50, 40, 30, 20], 0.05);
        assert_eq!(found.since_ns, None);
        assert!(violation.unwrap().starts_with("the rate fell by 150.0 %"), "{found:?}");
    }

    #[test]
    fn a_recovery_before_the_first_counted_byte_and_after_the_last_is_not_judged() {
        // The third interval ends the recovery of a loss: what follows is counted, up to the last arrival in order.
        let mut record = record(&[10, 0, 700, 100, 100, 100, 100, 100, 100, 100, 0, 300]);
        let received = &mut record.flows[0].received;
        (received.ramp_bytes, received.tail_bytes) = (750, 340);
        let found = steady(&record, 0.05).unwrap();
        let expected = (Some(0.0), Some(Nanos(400_000_000)));
        assert_eq!((found.drift, found.since_ns), expected, "the intervals from 0.4 to 0.9 s");
    }

    #[test]
    fn four_intervals_are_too_few() {
        let (found, violation) = judged(&[7, 7, 7, 7, 7], 0.05);
        assert_eq!(found.drift, None);
        assert!(violation.unwrap().contains("fewer than 5 intervals count"));
    }

    #[test]
    fn a_run_without_intervals_is_not_judged() {
        let mut record = record(&[]);
        record.flows[0].received_series = None;
        assert_eq!(steady(&record, 0.05), None);
    }

    #[test]
    fn a_line_drifts_by_its_slope() {
        for (start, step) in [(1_000_000, 0), (1_000_000, 10_000), (2_000_000, 333_333)] {
            let rates: Vec<u64> = (0..11).map(|place| start + place * step).collect();
            // Ten intervals count; the line rises by ten steps from the start of the first to the end of the last.
            let mean = start as f64 + 5.5 * step as f64;
            let (found, _) = judged(&rates, 0.5);
            let drift = found.drift.unwrap();
            assert!((drift - 10.0 * step as f64 / mean).abs() < 1e-9, "{start} {step}: {drift}");
        }
    }
}
