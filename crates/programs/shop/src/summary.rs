//! What browsers measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fabricmark_bookstore::Interaction;
use fabricmark_plan::Interaction as Level;
use fabricmark_record::{Browsed, InteractionResult, LoadResult};
use fabricmark_units::Nanos;

use crate::browse::{Load, Visits};

/// Time that the tiers report in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tiers {
    pub app_ms: f64,
    pub database_ms: f64,
    pub statements: f64,
}

impl Tiers {
    /// Reads a Server-Timing header (W3C): `app;dur=0.1, db;dur=2.5;desc=3`.
    pub fn read(header: &str) -> Self {
        let of = |name: &str, key: &str| {
            let metric = header
                .split(',')
                .map(str::trim)
                .find(|metric| metric.split(';').next() == Some(name))?;
            metric.split(';').find_map(|part| part.strip_prefix(key))?.parse().ok()
        };
        let number = |name, key| of(name, key).unwrap_or(0.0);
        Self {
            app_ms: number("app", "dur="),
            database_ms: number("db", "dur="),
            statements: number("db", "desc="),
        }
    }
}

/// One interaction.
#[derive(Clone, Debug)]
pub struct Sample {
    pub interaction: Interaction,
    /// When it began, since the start of the run; in an open loop, when it was scheduled.
    pub at: Duration,
    /// Until the last byte of the last image.
    pub response: Duration,
    /// Part of the response time in which images were fetched.
    pub images: Duration,
    pub error: Option<String>,
    pub tiers: Tiers,
    pub bytes: u64,
}

/// The level of the factor `interaction` for an interaction of the workload.
pub fn level(interaction: Interaction) -> Level {
    // The first level is that of all interactions together.
    Level::ALL[1 + interaction as usize]
}

/// Most different messages of failed pages that are kept.
const ERRORS_MAX: usize = 10;

/// Sums up what browsers did: the interactions that were completed in the window.
pub fn sum_up(visits: &Visits, load: &Load) -> Browsed {
    let window_end = visits.ended.max(load.ramp_up);
    let window = window_end - load.ramp_up;
    let completed = |sample: &Sample| sample.at + sample.response;
    let mut results: BTreeMap<Level, InteractionResult> = BTreeMap::new();
    let mut all = LoadResult {
        ramp_up_ns: Nanos::from(load.ramp_up),
        window_ns: Nanos::from(window),
        emulator_cpu_share: visits.cpu.as_secs_f64() / window.as_secs_f64().max(1e-9),
        per_second: vec![0; visits.ended.as_secs() as usize],
        ..LoadResult::default()
    };
    for sample in &visits.samples {
        let is_confirm = sample.interaction == Interaction::BuyConfirm;
        if let Some(error) = &sample.error {
            all.unconfirmed += u64::from(is_confirm);
            let message = format!("{}: {error}", sample.interaction);
            if all.errors.len() < ERRORS_MAX && !all.errors.contains(&message) {
                all.errors.push(message);
            }
        } else {
            all.confirmed += u64::from(is_confirm);
            if let Some(count) = all.per_second.get_mut(completed(sample).as_secs() as usize) {
                *count += 1;
            }
        }
        if (load.ramp_up..window_end).contains(&completed(sample)) {
            for of in [Level::All, level(sample.interaction)] {
                add(results.entry(of).or_default(), sample);
            }
        }
    }
    for result in results.values_mut() {
        let count = result.times_ns.len().max(1) as f64;
        for sum in [
            &mut result.app_mean_ns,
            &mut result.database_mean_ns,
            &mut result.images_mean_ns,
            &mut result.statements,
        ] {
            *sum /= count;
        }
    }
    Browsed { interactions: results.into_iter().collect(), load: all }
}

fn add(result: &mut InteractionResult, sample: &Sample) {
    if sample.error.is_some() {
        result.errors += 1;
        return;
    }
    result.times_ns.record(sample.response.as_nanos() as u64);
    result.within_limit += u64::from(sample.response <= Duration::from(sample.interaction.limit()));
    result.app_mean_ns += 1e6 * sample.tiers.app_ms;
    result.database_mean_ns += 1e6 * sample.tiers.database_ms;
    result.images_mean_ns += sample.images.as_nanos() as f64;
    result.statements += sample.tiers.statements;
    result.bytes += sample.bytes;
}

/// Prints a summary.
pub fn table(browsed: &Browsed) -> String {
    let Browsed { interactions, load } = browsed;
    let window_s = load.window_ns.0 as f64 / 1e9;
    let mut out = String::new();
    for (level, result) in interactions {
        let count = result.times_ns.len();
        if *level == Level::All {
            let bits = 8.0 * result.bytes as f64;
            let _ = writeln!(
                out,
                "interactions  {:.2} /s ({count} in {window_s:.0} s), {} errors",
                count as f64 / window_s,
                result.errors
            );
            let _ = writeln!(out, "pages         {:.2} Mbit/s", bits / window_s / 1e6);
            let _ =
                writeln!(out, "emulator      {:.1} % of a CPU", 100.0 * load.emulator_cpu_share);
            let _ = writeln!(
                out,
                "{:22} {:>7} {:>9} {:>10} {:>8} {:>9} {:>9} {:>9} {:>10}",
                "interaction",
                "count",
                "p90 ms",
                "limit ms",
                "over %",
                "app ms",
                "db ms",
                "images ms",
                "statements"
            );
            continue;
        }
        let (Some(p90), true) = (result.times_ns.quantile(0.9), count > 0) else { continue };
        let interaction = Interaction::ALL[*level as usize - 1];
        let over = 1.0 - result.within_limit as f64 / count as f64;
        let _ = writeln!(
            out,
            "{:22} {count:>7} {:>9.2} {:>10.0} {:>8.2} {:>9.3} {:>9.3} {:>9.3} {:>10.2}",
            interaction.name(),
            p90 as f64 / 1e6,
            interaction.limit().0 as f64 / 1e6,
            100.0 * over,
            result.app_mean_ns / 1e6,
            result.database_mean_ns / 1e6,
            result.images_mean_ns / 1e6,
            result.statements,
        );
    }
    for error in &load.errors {
        let _ = writeln!(out, "{error}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_tiers_are_read_from_the_header() {
        let tiers = Tiers { app_ms: 0.25, database_ms: 3.5, statements: 2.0 };
        assert_eq!(Tiers::read("app;dur=0.25, db;dur=3.5;desc=2"), tiers);
        assert_eq!(Tiers::read("cache;desc=hit"), Tiers::default());
    }

    #[test]
    fn levels_of_the_factor_have_the_names_of_the_interactions() {
        for interaction in Interaction::ALL {
            let word = interaction.name().to_lowercase().replace(' ', "-");
            assert_eq!(level(interaction).word(), word);
        }
    }

    #[test]
    fn what_is_completed_in_the_window_counts() {
        let workload = fabricmark_bookstore::Workload {
            mix: fabricmark_bookstore::Mix::Shopping,
            scale: fabricmark_bookstore::Scale { items: 1_000, browsers: 1 },
            think: Nanos::from_secs(7),
        };
        let load = Load {
            at: ([127, 0, 0, 1], 80).into(),
            browsers: 2,
            workload,
            arrivals_per_s: None,
            seed: 1,
            ramp_up: Duration::from_secs(2),
            window: Duration::from_secs(2),
            images: true,
        };
        let sample = |interaction, at_ms: u64, error: Option<&str>| Sample {
            interaction,
            at: Duration::from_millis(at_ms),
            response: Duration::from_millis(200),
            images: Duration::from_millis(50),
            error: error.map(str::to_owned),
            tiers: Tiers { app_ms: 1.0, database_ms: 2.0, statements: 3.0 },
            bytes: 1000,
        };
        let samples = vec![
            sample(Interaction::Home, 1_700, None),
            sample(Interaction::Home, 1_900, None),
            sample(Interaction::BuyConfirm, 2_500, Some("late")),
            sample(Interaction::BuyConfirm, 3_700, None),
            sample(Interaction::Home, 3_900, None),
        ];
        let (ended, cpu) = (Duration::from_secs(4), Duration::from_millis(100));
        let visits = Visits { samples, ended, is_stopped: false, cpu };
        let Browsed { interactions, load } = sum_up(&visits, &load);
        let count = |of: Level| {
            let found = interactions.iter().find(|(level, _)| *level == of);
            found.map(|(_, result)| (result.times_ns.len(), result.errors))
        };
        assert_eq!(count(Level::All), Some((2, 1)));
        assert_eq!(count(Level::Home), Some((1, 0)));
        assert_eq!(count(Level::BuyConfirm), Some((1, 1)));
        assert_eq!(load.per_second, [0, 1, 1, 1]);
        assert_eq!((load.confirmed, load.unconfirmed), (1, 1));
        assert_eq!(load.emulator_cpu_share, 0.05);
    }
}
