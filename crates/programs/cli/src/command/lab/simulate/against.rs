//! Compares the model with the measurements of an experiment over emulated links.

mod point;
mod print;

use std::path::Path;

use fabricmark_plan::{Figure, Plan, Point, RAMP_SHARE, Testbed};
use fabricmark_record::{Record, Series};
use fabricmark_stats::Estimate;
use fabricmark_store::Store;
use fabricmark_units::Nanos;

use super::{Stretch, goodput_bps, run};
use crate::exit::Failure;
use crate::options::simulate::Simulate;
use crate::output::Loaded;

pub use print::{as_json, as_text};

/// Share of the steady goodput at which the ramp-up counts as finished.
const ARRIVED: f64 = 0.9;

/// An experiment and its model, point by point.
pub struct Answer {
    experiment: String,
    /// Confidence level of its intervals, as a fraction.
    confidence: f64,
    rows: Vec<Row>,
    /// Points without a model, with the reason.
    left_out: Vec<(String, String)>,
}

/// Results for one point.
struct Row {
    name: String,
    /// Options of the emulated link.
    options: String,
    /// Goodput in bit/s.
    measured: Estimate,
    modelled_bps: f64,
    /// Time until [`ARRIVED`], in seconds; `None` if no intervals were recorded.
    measured_rise_s: Option<Estimate>,
    modelled_rise_s: Option<f64>,
}

impl Row {
    /// Relative error of the model: modelled over measured, minus 1.
    fn error(&self) -> f64 {
        self.modelled_bps / self.measured.value - 1.0
    }
}

impl Answer {
    /// Simulates each point that was measured.
    pub fn of(options: &Simulate, folder: &Path) -> Result<Self, Failure> {
        let store = Store::open_existing(&folder.join("store.sqlite"))?;
        let experiment = store.find(&options.experiment)?;
        let loaded = Loaded::of(&store, &experiment)?;
        let plan = loaded.view().plan;
        let names = point::names(&plan.points);
        let mut answer = Self {
            experiment: experiment.name,
            confidence: loaded.confidence(),
            rows: Vec::new(),
            left_out: Vec::new(),
        };
        for (point, name) in plan.points.iter().zip(names) {
            let records: Vec<&Record> =
                loaded.records.iter().filter(|record| counts(record, point)).collect();
            if let Some(reason) = point::why_not(point) {
                answer.left_out.push((name, reason));
                continue;
            }
            match Row::of(options, plan, point, &name, &records) {
                Ok(Some(row)) => answer.rows.push(row),
                Ok(None) => answer.left_out.push((name, "no valid run".to_owned())),
                // The point uses something that the model of one connection does not have.
                Err(failure) => answer.left_out.push((name, failure.message().to_owned())),
            }
        }
        if answer.rows.is_empty() {
            let reason = answer.left_out.first().map_or("it has no points", |(_, reason)| reason);
            let name = &answer.experiment;
            return Err(Failure::input(format!("nothing in {name} can be modelled: {reason}")));
        }
        Ok(answer)
    }
}

fn counts(record: &Record, point: &Point) -> bool {
    record.point == *point && record.counts() && record.testbed == Testbed::Lab
}

impl Row {
    /// Result for the point; `None` if none of its runs is valid.
    fn of(
        options: &Simulate,
        plan: &Plan,
        point: &Point,
        name: &str,
        records: &[&Record],
    ) -> Result<Option<Self>, Failure> {
        let goodputs: Vec<f64> =
            records.iter().filter_map(|record| record.figures.value(Figure::Goodput)).collect();
        let (Some(record), Some(measured)) = (records.first(), plan.stop.estimate(&goodputs))
        else {
            return Ok(None);
        };
        let series: Vec<&Series> = records.iter().filter_map(|record| series(record)).collect();
        let interval = series.first().map_or(Series::INTERVAL_NS, |series| series.interval_ns);
        let omitted = plan.omitted(point);
        let duration = Nanos(omitted.0 + record.duration_ns.0);
        let ramp = omitted.max(Nanos(duration.0 / RAMP_SHARE));
        let connection = point::connection(options, name, point)?;
        let outcome = connection.simulate(duration, Nanos(interval.max(1)))?;
        let modelled = run::stretches(&outcome);
        let rises: Vec<f64> = series.iter().filter_map(|series| rise(&course(series))).collect();
        let measured_rise_s = plan.stop.estimate(&rises);
        Ok(Some(Self {
            name: name.to_owned(),
            options: connection.forward.to_string(),
            measured,
            modelled_bps: goodput_bps(&modelled, ramp, duration),
            modelled_rise_s: rise(&modelled).filter(|_| measured_rise_s.is_some()),
            measured_rise_s,
        }))
    }
}

/// Received bytes over time.
fn series(record: &Record) -> Option<&Series> {
    record.load().next()?.received_series.as_ref()
}

fn course(series: &Series) -> Vec<Stretch> {
    let stretch = |interval: &fabricmark_record::Interval| Stretch {
        start: Nanos(interval.start_ns),
        end: Nanos(interval.end_ns),
        bytes: interval.bytes,
    };
    series.intervals.iter().map(stretch).collect()
}

/// End of the first interval that reaches [`ARRIVED`] of the goodput of the second half, in seconds.
fn rise(stretches: &[Stretch]) -> Option<f64> {
    let end = stretches.last()?.end;
    let steady_bps = goodput_bps(stretches, Nanos(end.0 / 2), end);
    let arrived = |stretch: &&Stretch| {
        goodput_bps(stretches, stretch.start, stretch.end) >= ARRIVED * steady_bps
    };
    stretches.iter().find(arrived).map(|stretch| stretch.end.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_arrived_at_nine_tenths_of_its_second_half() {
        let stretch = |second: u64, bytes| Stretch {
            start: Nanos::from_secs(second),
            end: Nanos::from_secs(second + 1),
            bytes,
        };
        let bytes = [0, 10, 89, 90, 100, 100, 100, 100];
        let course: Vec<Stretch> = (0..).zip(bytes).map(|(s, bytes)| stretch(s, bytes)).collect();
        assert_eq!(rise(&course), Some(4.0));
        assert_eq!(rise(&[]), None);
    }

    #[test]
    fn bytes_of_a_stretch_come_evenly() {
        let course = [Stretch { start: Nanos(0), end: Nanos::from_secs(2), bytes: 1000 }; 1];
        // 250 bytes in half a second.
        let half = Nanos::from_millis(500);
        assert_eq!(goodput_bps(&course, half, Nanos::from_secs(1)), 4000.0);
        assert_eq!(goodput_bps(&course, half, half), 0.0);
    }
}
