//! The RTTs of `fabricmark rtt` as they arrive: a line on a terminal, a CSV file, and figures at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write, stderr};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fabricmark_report::{Curve, rtt_chart};
use fabricmark_stats::{Estimate, median, quantile};
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;
use crate::options::rtt::Rtt;

/// Quantiles in the output.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// Confidence level of their intervals.
const CONFIDENCE: f64 = 0.95;

/// RTTs of each host that are kept: 8 MB, and as much for the times of a chart. The figures are those of the first million.
const KEPT_MAX: usize = 1_000_000;

/// Time between lines on a terminal.
const EVERY: Duration = Duration::from_millis(500);

/// Bars of a histogram, each of the same ratio of its ends.
const BARS: usize = 16;

/// Columns of its longest bar.
const BAR_COLUMNS: f64 = 40.0;

/// Points of a line in the chart; more RTTs are drawn as medians and maxima of as many parts.
const POINTS_MAX: usize = 250;

/// RTTs of a host; `null` without answers.
#[derive(Serialize, JsonSchema)]
pub struct HostRtts {
    /// Mean.
    mean_ns: Option<f64>,
    /// Minimum.
    min_ns: Option<u64>,
    /// Maximum.
    max_ns: Option<u64>,
    /// Mean absolute difference of successive RTTs.
    jitter_ns: Option<f64>,
    /// Median.
    p50_ns: Option<u64>,
    /// 95 % interval of the median, as of the other quantiles; `null` for too few answers.
    p50_interval_ns: Option<[u64; 2]>,
    /// 90th percentile.
    p90_ns: Option<u64>,
    /// Its interval.
    p90_interval_ns: Option<[u64; 2]>,
    /// 99th percentile.
    p99_ns: Option<u64>,
    /// Its interval.
    p99_interval_ns: Option<[u64; 2]>,
    /// 99.9th percentile.
    p999_ns: Option<u64>,
    /// Its interval.
    p999_interval_ns: Option<[u64; 2]>,
}

/// Collects RTTs.
pub struct Rtts {
    by_host: BTreeMap<SocketAddr, Vec<f64>>,
    /// Time since the first RTT of each of these, if they are drawn.
    times_ns: BTreeMap<SocketAddr, Vec<u64>>,
    plot: Option<PathBuf>,
    csv: Option<BufWriter<File>>,
    /// The first error of the file.
    written: io::Result<()>,
    began: Option<Instant>,
    printed: Option<Instant>,
    is_terminal: bool,
    count: u64,
}

impl Rtts {
    /// Creates the CSV file, if there is one.
    pub fn new(options: &Rtt) -> Result<Self, Failure> {
        let create = |path: &Path| {
            let mut file = BufWriter::new(File::create(path)?);
            writeln!(file, "elapsed_ns,host,rtt_ns")?;
            Ok(file)
        };
        let csv = options.csv.as_deref();
        let csv = csv.map(|path| create(path).map_err(Failure::output(path.display())));
        Ok(Self {
            by_host: BTreeMap::new(),
            times_ns: BTreeMap::new(),
            plot: options.plot.clone(),
            csv: csv.transpose()?,
            written: Ok(()),
            began: None,
            printed: None,
            is_terminal: stderr().is_terminal(),
            count: 0,
        })
    }

    /// Takes an RTT of a host.
    pub fn add(&mut self, host: SocketAddr, ns: u64) {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        self.count += 1;
        let kept = self.by_host.entry(host).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(ns as f64);
            if self.plot.is_some() {
                let elapsed_ns = u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX);
                self.times_ns.entry(host).or_default().push(elapsed_ns);
            }
        }
        if let Some(file) = self.csv.as_mut().filter(|_| self.written.is_ok()) {
            let elapsed_ns = (now - began).as_nanos();
            self.written = writeln!(file, "{elapsed_ns},{host},{ns}");
        }
        if self.is_terminal && self.printed.is_none_or(|printed| now - printed >= EVERY) {
            self.printed = Some(now);
            status!("\r\x1b[K{} answers, the last from {host} after {}", self.count, us(ns as f64));
        }
    }

    /// Erases the line, and finishes the files.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.printed.is_some() {
            status!("\r\x1b[K");
        }
        let written = std::mem::replace(&mut self.written, Ok(()));
        let flushed = self.csv.as_mut().map_or(Ok(()), BufWriter::flush);
        written.and(flushed).map_err(Failure::output("the CSV file"))?;
        if let Some(file) = self.plot.as_ref().filter(|_| self.count > 0) {
            fs::write(file, self.chart()).map_err(Failure::output(file.display()))?;
            note!("chart    {}", file.display());
        }
        Ok(())
    }

    fn chart(&self) -> String {
        let curves = self.times_ns.iter().flat_map(|(&host, times)| {
            let rtts = self.of(host);
            let part = rtts.len().div_ceil(POINTS_MAX);
            let line = |name: &str, of: &dyn Fn(&[f64]) -> f64| Curve {
                label: format!("{host}{name}"),
                points: times
                    .iter()
                    .step_by(part)
                    .copied()
                    .map(Nanos)
                    .zip(rtts.chunks(part).map(of))
                    .collect(),
            };
            if part == 1 {
                return vec![line("", &|rtts| rtts[0])];
            }
            let maximum = |rtts: &[f64]| rtts.iter().copied().fold(0.0, f64::max);
            let middle = |rtts: &[f64]| median(rtts, CONFIDENCE).map_or(0.0, |median| median.value);
            vec![line(", median", &middle), line(", maximum", &maximum)]
        });
        rtt_chart("RTT over time", &curves.collect::<Vec<_>>())
    }

    fn of(&self, host: SocketAddr) -> &[f64] {
        self.by_host.get(&host).map_or(&[], Vec::as_slice)
    }

    /// Figures of a host.
    pub fn results(&self, host: SocketAddr) -> HostRtts {
        let rtts = self.of(host);
        let ends = ends(rtts);
        let [p50, p90, p99, p999] = QUANTILES.map(|(_, q)| quantile(rtts, q, CONFIDENCE));
        let value = |estimate: &Option<Estimate>| estimate.as_ref().map(|found| found.value as u64);
        let interval = |estimate: &Option<Estimate>| {
            let interval = estimate.as_ref()?.interval?;
            Some([interval.low as u64, interval.high as u64])
        };
        HostRtts {
            mean_ns: mean(rtts),
            min_ns: ends.map(|(min, _)| min as u64),
            max_ns: ends.map(|(_, max)| max as u64),
            jitter_ns: jitter_ns(rtts),
            p50_ns: value(&p50),
            p50_interval_ns: interval(&p50),
            p90_ns: value(&p90),
            p90_interval_ns: interval(&p90),
            p99_ns: value(&p99),
            p99_interval_ns: interval(&p99),
            p999_ns: value(&p999),
            p999_interval_ns: interval(&p999),
        }
    }

    /// Figures of a host as lines of a name and a value, with a histogram.
    pub fn as_lines(&self, host: SocketAddr) -> Vec<(&'static str, String)> {
        let rtts = self.of(host);
        let (Some(mean), Some((min, max))) = (mean(rtts), ends(rtts)) else { return Vec::new() };
        let whole = format!("min {}, mean {}, max {}", us(min), us(mean), us(max));
        let mut lines = vec![("RTT", whole)];
        let quantiles = QUANTILES.into_iter().filter_map(|(name, q)| {
            let Estimate { value, interval, n_needed, .. } = quantile(rtts, q, CONFIDENCE)?;
            let interval = match interval {
                Some(interval) => {
                    format!("[{:.1}, {:.1}]", interval.low / 1e3, interval.high / 1e3)
                }
                None => format!("(an interval needs {n_needed} answers)"),
            };
            Some(("", format!("{name} {} {interval}", us(value))))
        });
        lines.extend(quantiles);
        lines.extend(jitter_ns(rtts).map(|ns| ("jitter", us(ns))));
        lines.extend(histogram(rtts, min, max).into_iter().map(|bar| ("", bar)));
        lines
    }
}

fn mean(rtts: &[f64]) -> Option<f64> {
    (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / rtts.len() as f64)
}

/// Minimum and maximum.
fn ends(rtts: &[f64]) -> Option<(f64, f64)> {
    let min = rtts.iter().copied().reduce(f64::min)?;
    Some((min, rtts.iter().copied().fold(min, f64::max)))
}

/// Mean absolute difference of successive RTTs.
fn jitter_ns(rtts: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = rtts.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    mean(&differences)
}

/// Bars of equal ratio from the minimum to the maximum; none if all RTTs are the same.
fn histogram(rtts: &[f64], min: f64, max: f64) -> Vec<String> {
    let span = (max / min).ln();
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let mut counts = [0_u64; BARS];
    for rtt in rtts {
        let place = ((rtt / min).ln() / span * BARS as f64) as usize;
        counts[place.min(BARS - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or(1) as f64;
    let bar = |(place, &count): (usize, &u64)| {
        let from = min * (span * place as f64 / BARS as f64).exp();
        let columns = (BAR_COLUMNS * count as f64 / highest).ceil() as usize;
        format!("{:>12} {} {count}", us(from), "█".repeat(columns))
    };
    counts.iter().enumerate().map(bar).collect()
}

/// Microseconds as text.
pub fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_mean_absolute_difference_of_successive_rtts() {
        assert_eq!(jitter_ns(&[10.0, 30.0, 20.0, 20.0]), Some(10.0));
        assert_eq!(jitter_ns(&[10.0]), None);
    }

    #[test]
    fn every_rtt_is_in_one_bar_and_the_longest_bar_is_that_of_most() {
        let rtts: Vec<f64> = [vec![1e5; 80], vec![2.1e5; 15], vec![1.6e6; 5]].concat();
        let bars = histogram(&rtts, 1e5, 1.6e6);
        assert_eq!(bars.len(), BARS);
        assert_eq!(bars[0], format!("    100.0 µs {} 80", "█".repeat(40)));
        assert_eq!(bars[4], format!("    200.0 µs {} 15", "█".repeat(8)));
        assert!(bars[BARS - 1].ends_with(" 5"));
        assert!(bars[8].ends_with(" 0"));
        assert!(histogram(&[5.0, 5.0], 5.0, 5.0).is_empty());
    }
}
