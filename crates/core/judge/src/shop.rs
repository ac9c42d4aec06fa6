//! Evaluates a run of the bookstore.

use fabricmark_plan::{Figure, Interaction, Point};
use fabricmark_record::{Figures, Provenance, ShopRun, Sourced};

/// Share of a CPU above which the browsers' process may be too slow for its think times: an arbitrary choice. How late its
/// timers are was not measured.
const EMULATOR_CPU_MAX: f64 = 0.5;

/// Standard errors of an exponential mean by which the throughput may exceed N / (Z + R).
const LAW_ERRORS: f64 = 5.0;

/// The figures of a point: of its interaction, and the demands of all interactions.
pub fn shop_figures(point: &Point, run: &ShopRun, provenance: Provenance) -> Figures {
    let result = &run.result;
    let count = result.times_ns.len();
    let quantile = |q| Some(result.times_ns.quantile(q)? as f64);
    let counted = |value: f64| (count > 0).then_some(value);
    let window_s = run.load.window_ns.0 as f64 / 1e9;
    let demand = |node: &str| {
        let tier = run.tiers.iter().find(|tier| tier.node == node)?;
        let is_all = point.interaction == Some(Interaction::All);
        is_all.then(|| run.demand_s(tier).map(|demand_s| demand_s * 1e6))?
    };
    let value = |figure| match figure {
        Figure::InteractionRate => counted(count as f64 / window_s),
        Figure::ResponseTime => result.times_ns.mean_ns(),
        Figure::ResponseTimeP50 => quantile(0.5),
        Figure::ResponseTimeP90 => quantile(0.9),
        Figure::WithinLimit => counted(result.within_limit as f64 / count as f64),
        Figure::AppTime => counted(result.app_mean_ns),
        Figure::DatabaseTime => counted(result.database_mean_ns),
        Figure::WebDemand => demand("web"),
        Figure::AppDemand => demand("app"),
        Figure::DatabaseDemand => demand("db"),
        _ => None,
    };
    let sourced = |figure| Some((figure, Sourced { value: value(figure)?, provenance }));
    Figure::ALL.into_iter().filter_map(sourced).collect()
}

/// What makes a run of the bookstore impossible, or different from what was asked for.
pub fn shop_violations(point: &Point, run: &ShopRun) -> Vec<String> {
    let mut found = Vec::new();
    let audit = &run.audit;
    if let Some(first) = audit.inconsistencies.first() {
        let others = match audit.inconsistencies.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        found.push(format!("the orders in the database contradict each other: {first}{others}"));
    }
    for tier in run.tiers.iter().filter(|tier| tier.counters.restarts > 0) {
        found.push(format!("{} ended and was started again during the run", tier.program));
    }
    let share = run.load.emulator_cpu_share;
    if share > EMULATOR_CPU_MAX {
        found.push(format!(
            "the emulated browsers used {:.0} % of a CPU, and think times may be late; use fewer \
             browsers",
            100.0 * share
        ));
    }
    found.extend(law(point, run));
    found
}

/// No closed loop completes more than N / (Z + R) interactions per second (Denning and Buzen, "The Operational Analysis of
/// Queueing Network Models", 1978: the interactive response time formula).
fn law(point: &Point, run: &ShopRun) -> Option<String> {
    let browsers = f64::from(point.browsers?);
    let think_s = point.think_time?.0 as f64 / 1e9;
    let window_s = run.load.window_ns.0 as f64 / 1e9;
    let rate = run.interactions as f64 / window_s;
    let cycle_s = think_s + run.response_mean_ns / 1e9;
    let bound = browsers / cycle_s;
    let tolerance = LAW_ERRORS / (run.interactions.max(1) as f64).sqrt();
    (rate > bound * (1.0 + tolerance)).then(|| {
        format!("{rate:.2} interactions/s exceed the {bound:.2} of {browsers} browsers with a cycle of {cycle_s:.3} s")
    })
}

/// Why a run has no figure for its interaction.
pub(crate) fn no_figure(run: &ShopRun) -> String {
    match run.load.errors.first() {
        Some(error) if run.result.errors > 0 => format!("every page failed: {error}"),
        _ => "no browser completed this interaction in the window; use more browsers or a longer \
              duration"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_record::{InteractionResult, LoadResult, Record, TierCounters, TierFacts};
    use fabricmark_stats::Histogram;
    use fabricmark_units::Nanos;

    use super::*;

    fn run() -> ShopRun {
        let mut times_ns = Histogram::new();
        (1..=10).for_each(|ms| times_ns.record(1_000_000 * ms));
        ShopRun {
            result: InteractionResult { times_ns, within_limit: 9, ..InteractionResult::default() },
            load: LoadResult {
                per_second: vec![0, 5, 5],
                ramp_up_ns: Nanos::from_secs(1),
                window_ns: Nanos::from_secs(2),
                ..LoadResult::default()
            },
            interactions: 10,
            response_mean_ns: 5.5e6,
            tiers: vec![TierFacts {
                node: "db".to_owned(),
                program: "MariaDB 10.11".to_owned(),
                host: fabricmark_record::HostFacts::default(),
                counters: TierCounters { cpu_ns: 20_000_000, ..TierCounters::default() },
            }],
            audit: fabricmark_record::Audit::default(),
        }
    }

    fn record(run: ShopRun) -> Record {
        let levels = "pattern=shop,transport=http,family=4,link=loopback,payload=0,browsers=10,think_time=1s";
        let point = fabricmark_testkit::point(levels);
        let figures = shop_figures(&point, &run, Provenance::Emulated);
        let shop = Some(run);
        Record { figures, shop, ..fabricmark_testkit::record(point) }
    }

    fn violations(record: &Record) -> Vec<String> {
        shop_violations(&record.point, record.shop.as_ref().unwrap())
    }

    #[test]
    fn figures_are_those_of_the_interaction_and_demands_those_of_all() {
        let record = record(run());
        let value = |figure| record.figures.value(figure);
        assert_eq!(value(Figure::InteractionRate), Some(5.0));
        assert_eq!(value(Figure::WithinLimit), Some(0.9));
        assert_eq!(value(Figure::DatabaseDemand), Some(2000.0));
        assert!((value(Figure::ResponseTime).unwrap() / 5.5e6 - 1.0).abs() < 1e-3);
        assert!((value(Figure::ResponseTimeP90).unwrap() / 9e6 - 1.0).abs() < 1e-2);
    }

    #[test]
    fn no_closed_loop_completes_more_than_its_cycles() {
        assert_eq!(violations(&record(run())), Vec::<String>::new());
        let faster = ShopRun { interactions: 2000, ..run() };
        let found = violations(&record(faster));
        assert!(found[0].starts_with("1000.00 interactions/s exceed the 9.95 "), "{found:?}");
    }

    #[test]
    fn a_run_with_lost_orders_a_restart_or_a_busy_emulator_does_not_count() {
        let mut broken = run();
        broken.audit.inconsistencies = vec!["order 7 has no payment".to_owned(), "b".to_owned()];
        broken.tiers[0].counters.restarts = 1;
        broken.load.emulator_cpu_share = 0.9;
        let found = violations(&record(broken)).join("\n");
        assert!(found.contains("order 7 has no payment (and 1 more)"), "{found}");
        assert!(found.contains("MariaDB 10.11 ended and was started again"), "{found}");
        assert!(found.contains("used 90 % of a CPU"), "{found}");
    }
}
