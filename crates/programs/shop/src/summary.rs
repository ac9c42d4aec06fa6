//! What browsers measured.

use std::fmt::Write;
use std::time::Duration;

use fabricmark_bookstore::Interaction;

/// Time that the tiers report in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tiers {
    pub app_ms: f64,
    pub database_ms: f64,
}

impl Tiers {
    /// Reads a Server-Timing header (W3C): `app;dur=0.1, db;dur=2.5;desc=3`.
    pub fn read(header: &str) -> Self {
        let of = |name: &str| {
            let metric = header
                .split(',')
                .map(str::trim)
                .find(|metric| metric.split(';').next() == Some(name))?;
            metric.split(';').find_map(|part| part.strip_prefix("dur="))?.parse().ok()
        };
        Self { app_ms: of("app").unwrap_or(0.0), database_ms: of("db").unwrap_or(0.0) }
    }
}

/// One interaction.
#[derive(Clone, Debug)]
pub struct Sample {
    pub interaction: Interaction,
    /// When it began, since the start of the run.
    pub at: Duration,
    /// Until the last byte of the last image.
    pub response: Duration,
    pub error: Option<String>,
    pub tiers: Tiers,
    pub bytes: u64,
}

/// Prints the interactions that were completed between `from` and `to`.
pub fn table(samples: &[Sample], from: Duration, to: Duration) -> String {
    let within = |sample: &&Sample| (from..to).contains(&(sample.at + sample.response));
    let counted: Vec<_> = samples.iter().filter(within).collect();
    let window_s = (to - from).as_secs_f64();
    let ok = counted.iter().filter(|sample| sample.error.is_none()).count();
    let bits = 8.0 * counted.iter().map(|sample| sample.bytes).sum::<u64>() as f64;
    let mut out = format!(
        "interactions  {:.2} /s ({ok} in {window_s:.0} s), {} errors\n",
        ok as f64 / window_s,
        counted.len() - ok
    );
    let _ = writeln!(out, "pages         {:.2} Mbit/s", bits / window_s / 1e6);
    let _ = writeln!(
        out,
        "{:22} {:>7} {:>9} {:>10} {:>8} {:>9} {:>9}",
        "interaction", "count", "p90 ms", "limit ms", "over %", "app ms", "db ms"
    );
    for interaction in Interaction::ALL {
        let of: Vec<_> = counted
            .iter()
            .filter(|sample| sample.interaction == interaction && sample.error.is_none())
            .collect();
        if of.is_empty() {
            continue;
        }
        let mut times_ms: Vec<f64> =
            of.iter().map(|sample| sample.response.as_secs_f64() * 1e3).collect();
        times_ms.sort_by(f64::total_cmp);
        let limit_ms = interaction.limit().0 as f64 / 1e6;
        let over =
            times_ms.iter().filter(|time| **time > limit_ms).count() as f64 / times_ms.len() as f64;
        let p90_ms = times_ms[(times_ms.len() * 9).div_ceil(10) - 1];
        let mean = |value: fn(&Sample) -> f64| {
            of.iter().map(|sample| value(sample)).sum::<f64>() / of.len() as f64
        };
        let (app, database) =
            (mean(|sample| sample.tiers.app_ms), mean(|sample| sample.tiers.database_ms));
        let _ = writeln!(
            out,
            "{:22} {:>7} {p90_ms:>9.2} {limit_ms:>10.0} {:>8.2} {app:>9.3} {database:>9.3}",
            interaction.name(),
            of.len(),
            100.0 * over
        );
    }
    let mut errors: Vec<_> = counted
        .iter()
        .filter_map(|sample| Some((sample.interaction, sample.error.as_ref()?)))
        .collect();
    errors.sort();
    errors.dedup();
    for (interaction, error) in errors.iter().take(10) {
        let _ = writeln!(out, "{interaction}: {error}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_tiers_are_read_from_the_header() {
        let tiers = Tiers { app_ms: 0.25, database_ms: 3.5 };
        assert_eq!(Tiers::read("app;dur=0.25, db;dur=3.5;desc=2"), tiers);
        assert_eq!(Tiers::read("cache;desc=hit"), Tiers::default());
    }
}
