//! The bookstore in reports, with fabricated runs.

use fabricmark_plan::{Figure, Interaction, Size};
use fabricmark_record::{
    HostFacts, InteractionResult, LoadResult, Provenance, Record, ShopRun, Sourced, TierCounters,
    TierFacts,
};
use fabricmark_report::{html, summary_json, text};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;

use crate::fabricated::Fabricated;

const PLAN: &str = "title = \"t\"\ntestbed = \"tiers\"\n[factors]\ninteraction = [\"all\", \"home\"]\n\
                    app_db = [\"ethernet:10G\", \"ethernet:1G\"]\n[settings]\nthink_time = \"1s\"\n\
                    [run]\nduration = \"10s\"\nwarm_up = \"2s\"\n[stop]\nruns = 6\n[[compare]]\n\
                    factor = \"app_db\"\nbaseline = \"ethernet:10G\"\ncandidate = \"ethernet:1G\"\n";

/// 100 pages per second, each with 2 ms of CPU time in the application and 3 ms in the database, on a host with two CPUs.
fn run(ms: u64) -> ShopRun {
    let mut times_ns = Histogram::new();
    (0..1000).for_each(|place| times_ns.record(1_000_000 * ms + 1000 * place));
    let tier = |node: &str, cpu_ms: u64| TierFacts {
        node: node.to_owned(),
        program: format!("program of {node}"),
        host: HostFacts { hostname: "one".to_owned(), cpus: 2, ..HostFacts::default() },
        counters: TierCounters {
            cpu_ns: 1_200 * cpu_ms * 1_000_000,
            sent_bytes: 15_000_000,
            ..TierCounters::default()
        },
    };
    let response_mean_ns = times_ns.mean_ns().unwrap();
    let result = InteractionResult {
        times_ns,
        within_limit: 990,
        app_mean_ns: 2e6,
        database_mean_ns: 3e6,
        images_mean_ns: 1e6,
        statements: 2.5,
        ..InteractionResult::default()
    };
    ShopRun {
        result,
        load: LoadResult {
            per_second: vec![100; 12],
            ramp_up_ns: Nanos::from_secs(2),
            window_ns: Nanos::from_secs(10),
            emulator_cpu_share: 0.02,
            ..LoadResult::default()
        },
        interactions: 1000,
        response_mean_ns,
        tiers: vec![tier("app", 2), tier("db", 3)],
        audit: fabricmark_record::Audit::default(),
    }
}

fn fabricated() -> Fabricated {
    let mut all = Fabricated::of_plan(PLAN, Size::Full, &[], 7);
    let shop = |record: &mut Record| {
        let point = &record.point;
        let ms = if point.app_db.unwrap().to_string() == "ethernet:1G" { 30 } else { 20 };
        let run = run(ms);
        let noise = 1.0 + 0.001 * f64::from(record.place.block);
        let sourced = |value| Some(Sourced { value, provenance: Provenance::Emulated });
        let mean_ns = run.response_mean_ns * noise;
        record.figures.set(Figure::Goodput, None);
        record.figures.set(Figure::ResponseTime, sourced(mean_ns));
        record.figures.set(Figure::ResponseTimeP90, sourced(mean_ns));
        record.figures.set(Figure::WithinLimit, sourced(0.99));
        record.figures.set(Figure::InteractionRate, sourced(100.0));
        record.flows.clear();
        record.shop = Some(run);
    };
    all.records.iter_mut().for_each(shop);
    all
}

#[test]
fn a_bookstore_has_verdicts_tiers_limits_and_a_model() {
    let all = fabricated();
    let printed = text(&all.experiment(), 200);
    for part in [
        "shopping mix, 100 browsers, 10000 items, mariadb, client-web ethernet:10G (emulated)",
        "slower",
        "Throughput, its bound and its model",
        "2 CPUs that all tiers share, most used by db",
        "program of app",
        "no closed loop exceeds N/(Z+R)",
        // Six runs over each link, with a record for each interaction.
        "12 counted (120 s)",
    ] {
        assert!(printed.contains(part), "{part} is missing:\n{printed}");
    }
    let summary = summary_json(&all.experiment());
    let views = summary["shop"].as_array().unwrap();
    assert_eq!(views.len(), 2);
    let (one, other) = (&views[0], &views[1]);
    assert_eq!(one["levels"]["app_db"], "ethernet:10G");
    assert_eq!(one["interactions"].as_array().unwrap().len(), 1);
    assert_eq!(one["interactions"][0]["interaction"], Interaction::Home.word());
    let over = one["interactions"][0]["over_limit_share"]["value"].as_f64().unwrap();
    assert!((over - 0.01).abs() < 1e-9, "{over}");
    // Five milliseconds of CPU time for each page, on two CPUs: at most 400 pages per second.
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!((number(&one["model"]["capacity_per_s"]) - 400.0).abs() < 1e-6);
    let modelled = number(&one["model"]["interactions_per_s"]);
    assert!((99.0..100.0).contains(&modelled), "{modelled}");
    let [bound, slower] = [one, other].map(|view| number(&view["bound_per_s"]));
    assert!((bound - 100.0 / 1.0205).abs() < 0.1 && slower < bound);
}

#[test]
fn the_demand_of_a_tier_is_that_of_the_seconds_in_which_interactions_were_counted() {
    let mut run = run(20);
    // 12.5 s of the load with 2 ms of CPU time for each of 100 interactions per second.
    run.load.window_ns = Nanos::from_millis(10_500);
    run.tiers[0].counters.cpu_ns = 2_500_000_000;
    let demand_s = run.demand_s(&run.tiers[0]).unwrap();
    assert!((demand_s - 0.002).abs() < 1e-12, "{demand_s}");
}

#[test]
fn the_page_of_a_bookstore_has_its_section_and_its_throughput_over_time() {
    let all = fabricated();
    let page = html(&all.experiment());
    for part in ["<h2>Bookstore</h2>", "Interactions over time", "Tiers: app-db ethernet:1G"] {
        assert!(page.contains(part), "{part} is missing");
    }
}
