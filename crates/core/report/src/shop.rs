//! The bookstore: what each tier used, the response times beside TPC-W's limits, and a model of the tiers.

use fabricmark_bookstore::{Interaction, Station, capacity_per_s, predict};
use fabricmark_plan::{Factor, Figure, Interaction as Of, Level, Point};
use fabricmark_record::{Provenance, Record, ShopRun};
use fabricmark_stats::{Estimate, median};

use crate::grid::PlainTable;
use crate::models::written;
use crate::number::fixed;
use crate::runs::ByPoint;
use crate::{Experiment, label, results, select, summary};

/// Runs of the bookstore at one combination of levels.
pub(crate) struct ShopView {
    /// Levels that vary in the plan, without the interaction.
    levels: Vec<(Factor, Level)>,
    name: String,
    browsers: u32,
    tiers: Vec<TierView>,
    interactions: Vec<InteractionView>,
    load: LoadView,
    errors: Vec<String>,
}

/// A tier, means over the runs.
struct TierView {
    node: String,
    program: String,
    /// CPU time over the time of the load.
    cpu_share: Option<Estimate>,
    cpu_us: Option<Estimate>,
    sent_bps: Option<Estimate>,
    received_bps: Option<Estimate>,
}

/// An interaction, means over the runs.
struct InteractionView {
    interaction: Interaction,
    pages: u64,
    errors: u64,
    p90_ns: Option<Estimate>,
    /// Share above TPC-W's limit.
    over: Option<Estimate>,
    app_ns: f64,
    database_ns: f64,
    images_ns: f64,
    /// The rest of the response time: web server and network.
    rest_ns: f64,
    statements: f64,
}

/// Throughput, and what bounds and models say of it.
struct LoadView {
    rate_per_s: Option<Estimate>,
    response_ns: Option<Estimate>,
    think_ns: f64,
    emulator_share: f64,
    /// N / (Z + R); `None` in an open loop.
    law_per_s: Option<f64>,
    model: Option<ModelView>,
}

/// Mean-value analysis from the measured service demands.
struct ModelView {
    rate_per_s: f64,
    response_ns: f64,
    capacity_per_s: f64,
    /// The station that limits the throughput first, and the share of its CPUs that the model expects to be in use.
    bottleneck: String,
    utilisation: f64,
}

/// One entry for each combination of levels that was run.
pub(crate) fn shops(e: &Experiment<'_>) -> Vec<ShopView> {
    let runs = ByPoint::of(e.records);
    let points: Vec<&Point> =
        e.plan.points.iter().filter(|point| point.interaction.is_some()).collect();
    let varied = select::missing_factors(&points, &[Factor::Interaction]);
    let combinations = select::combinations(&points, &varied).into_iter();
    let view = |levels: Vec<Level>| {
        let own = points.iter().filter(|point| select::levels_of(point, &varied) == levels);
        let name = label::series(&varied, &levels);
        let of: Vec<(&Point, Vec<&Record>)> =
            own.filter_map(|point| Some((*point, runs.get(point)?.counted.clone()))).collect();
        ShopView::of(&of, varied.iter().copied().zip(levels).collect(), name, e)
    };
    combinations.filter_map(view).collect()
}

impl ShopView {
    fn of(
        points: &[(&Point, Vec<&Record>)],
        levels: Vec<(Factor, Level)>,
        name: String,
        e: &Experiment<'_>,
    ) -> Option<Self> {
        let of = |interaction: Of| {
            points.iter().find(|(point, _)| point.interaction == Some(interaction))
        };
        // Load and tiers are the same in the records of all interactions of a run.
        let (point, records) =
            of(Of::All).or_else(|| points.iter().max_by_key(|(_, r)| r.len()))?;
        let runs: Vec<&ShopRun> =
            records.iter().filter_map(|record| record.shop.as_ref()).collect();
        let first = *runs.first()?;
        let estimate = |value: &dyn Fn(&ShopRun) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(|run| value(run)).collect();
            e.plan.stop.estimate(&values?)
        };
        let mean = |value: fn(&ShopRun) -> f64| {
            runs.iter().map(|run| value(run)).sum::<f64>() / runs.len() as f64
        };
        let tiers = first.tiers.iter().enumerate().map(|(place, tier)| {
            let of = |value: fn(&ShopRun, usize) -> f64| {
                estimate(&|run: &ShopRun| run.tiers.get(place).map(|_| value(run, place)))
            };
            TierView {
                node: tier.node.clone(),
                program: tier.program.clone(),
                cpu_share: of(|run, place| run.tiers[place].counters.cpu_ns as f64 / load_ns(run)),
                cpu_us: of(|run, place| demand_s(run, place) * 1e6),
                sent_bps: of(|run, place| bps(run.tiers[place].counters.sent_bytes, run)),
                received_bps: of(|run, place| bps(run.tiers[place].counters.received_bytes, run)),
            }
        });
        let tiers = tiers.collect();
        let interactions = Interaction::ALL.into_iter().filter_map(|interaction| {
            let (_, records) = of(Of::ALL[1 + interaction as usize])?;
            InteractionView::of(interaction, records, e)
        });
        let browsers = point.browsers?;
        let think_ns = point.think_time.unwrap_or_default().0 as f64;
        let response_ns = mean(|run| run.response_mean_ns);
        let is_closed = point.think_time.is_some();
        let load = LoadView {
            rate_per_s: estimate(&|run| Some(rate_per_s(run))),
            response_ns: estimate(&|run| Some(run.response_mean_ns)),
            think_ns,
            emulator_share: mean(|run| run.load.emulator_cpu_share),
            law_per_s: is_closed.then(|| f64::from(browsers) / (think_ns + response_ns) * 1e9),
            model: if is_closed { model(&runs, browsers, think_ns / 1e9) } else { None },
        };
        let mut errors: Vec<String> = runs.iter().flat_map(|run| run.load.errors.clone()).collect();
        errors.sort();
        errors.dedup();
        let interactions = interactions.collect();
        Some(Self { levels, name, browsers, tiers, interactions, load, errors })
    }
}

/// Time of the load, ramp included.
fn load_ns(run: &ShopRun) -> f64 {
    (run.load.ramp_up_ns.0 + run.load.window_ns.0).max(1) as f64
}

fn bps(bytes: u64, run: &ShopRun) -> f64 {
    8e9 * bytes as f64 / load_ns(run)
}

fn rate_per_s(run: &ShopRun) -> f64 {
    run.interactions as f64 / (run.load.window_ns.0.max(1) as f64 / 1e9)
}

/// CPU time of a tier per web interaction.
fn demand_s(run: &ShopRun, place: usize) -> f64 {
    run.demand_s(&run.tiers[place]).unwrap_or_default()
}

/// Mean-value analysis with a station for each host: its CPUs, which its tiers share.
fn model(runs: &[&ShopRun], browsers: u32, think_s: f64) -> Option<ModelView> {
    let first = runs.first()?;
    let mut hosts: Vec<(String, Vec<&str>, Station)> = Vec::new();
    for (place, tier) in first.tiers.iter().enumerate() {
        let demands = runs.iter().filter(|run| run.tiers.len() > place);
        let demand_s = demands.map(|run| demand_s(run, place)).sum::<f64>() / runs.len() as f64;
        match hosts.iter_mut().find(|(name, ..)| *name == tier.host.hostname) {
            Some((_, nodes, station)) => {
                nodes.push(&tier.node);
                station.demand_s += demand_s;
            }
            None => {
                let station = Station { demand_s, servers: tier.host.cpus };
                hosts.push((tier.host.hostname.clone(), vec![&tier.node], station));
            }
        }
    }
    let stations: Vec<Station> = hosts.iter().map(|(.., station)| *station).collect();
    let found = predict(&stations, browsers, think_s);
    let places = 0..stations.len();
    let slowest = places
        .max_by(|&one, &other| found.utilisations[one].total_cmp(&found.utilisations[other]))?;
    let (host, nodes, Station { servers, .. }) = &hosts[slowest];
    // Of tiers that share a host, the one that uses most CPU time.
    let heaviest = first.tiers.iter().enumerate().filter(|(_, tier)| tier.host.hostname == *host);
    let heaviest = heaviest
        .max_by(|(one, _), (other, _)| demand_s(first, *one).total_cmp(&demand_s(first, *other)));
    let heaviest = heaviest.map_or("", |(_, tier)| tier.node.as_str());
    let cpus = if *servers == 1 { "CPU".to_owned() } else { format!("{servers} CPUs") };
    let bottleneck = match nodes.as_slice() {
        [only] => format!("{cpus} of {only}"),
        all if all.len() == first.tiers.len() => {
            format!("{cpus} that all tiers share, most used by {heaviest}")
        }
        some => format!("{cpus} that {} share, most used by {heaviest}", some.join(" and ")),
    };
    Some(ModelView {
        rate_per_s: found.rate_per_s,
        response_ns: found.response_s * 1e9,
        capacity_per_s: capacity_per_s(&stations)?,
        bottleneck,
        utilisation: found.utilisations[slowest],
    })
}

impl InteractionView {
    fn of(interaction: Interaction, records: &[&Record], e: &Experiment<'_>) -> Option<Self> {
        let results: Vec<_> =
            records.iter().filter_map(|record| Some(&record.shop.as_ref()?.result)).collect();
        let pages: u64 = results.iter().map(|result| result.times_ns.len()).sum();
        let figures = |figure: Figure| {
            let values = records.iter().filter_map(|record| record.figures.value(figure));
            values.collect::<Vec<f64>>()
        };
        let over: Vec<f64> =
            figures(Figure::WithinLimit).into_iter().map(|within| 1.0 - within).collect();
        // Means over all pages.
        let mean = |value: &dyn Fn(&fabricmark_record::InteractionResult) -> f64| {
            let sum = results.iter().map(|result| value(result) * result.times_ns.len() as f64);
            sum.sum::<f64>() / pages.max(1) as f64
        };
        let [app_ns, database_ns, images_ns] = [
            mean(&|result| result.app_mean_ns),
            mean(&|result| result.database_mean_ns),
            mean(&|result| result.images_mean_ns),
        ];
        let all_ns = mean(&|result| result.times_ns.mean_ns().unwrap_or_default());
        (pages > 0).then(|| Self {
            interaction,
            pages,
            errors: results.iter().map(|result| result.errors).sum(),
            p90_ns: median(&figures(Figure::ResponseTimeP90), e.plan.stop.confidence),
            over: e.plan.stop.estimate(&over),
            app_ns,
            database_ns,
            images_ns,
            rest_ns: (all_ns - app_ns - database_ns - images_ns).max(0.0),
            statements: mean(&|result| result.statements),
        })
    }
}

/// The views as tables.
pub(crate) fn tables(shops: &[ShopView]) -> Vec<PlainTable> {
    if shops.is_empty() {
        return Vec::new();
    }
    let name = |shop: &ShopView, what: &str| match shop.name.as_str() {
        "" => what.to_owned(),
        name => format!("{what}: {name}"),
    };
    let mut tables = vec![throughput(shops)];
    for shop in shops {
        tables.push(tiers(shop, name(shop, "Tiers")));
        tables.push(interactions(shop, name(shop, "Interactions")));
    }
    tables
}

fn throughput(shops: &[ShopView]) -> PlainTable {
    let row = |shop: &ShopView| {
        let LoadView { rate_per_s, response_ns, think_ns, emulator_share, law_per_s, model } =
            &shop.load;
        let of_model = |value: &dyn Fn(&ModelView) -> String| {
            model.as_ref().map_or_else(|| "-".to_owned(), value)
        };
        vec![
            if shop.name.is_empty() { "all runs".to_owned() } else { shop.name.clone() },
            shop.browsers.to_string(),
            written(rate_per_s.as_ref(), 1.0, 2),
            law_per_s.map_or_else(|| "-".to_owned(), |law| fixed(law, 2)),
            of_model(&|model| fixed(model.rate_per_s, 2)),
            written(response_ns.as_ref(), 1e6, 2),
            of_model(&|model| fixed(model.response_ns / 1e6, 2)),
            fixed(think_ns / 1e6, 0),
            of_model(&|model| fixed(model.capacity_per_s, 0)),
            of_model(&|model| format!("{:.0} %", 100.0 * model.utilisation)),
            format!("{:.1} %", 100.0 * emulator_share),
        ]
    };
    let mut notes = vec![
        "interactions per second in the measurement window; no closed loop exceeds N/(Z+R): \
         browsers / (think time + response time)"
            .to_owned(),
        "modelled: mean-value analysis of the CPUs, from the CPU time of the tiers per \
         interaction, without disks, locks and networks; it adds up CPU times that overlap in fact, \
         such as those of the images of a page"
            .to_owned(),
    ];
    let mut bottlenecks: Vec<String> = shops
        .iter()
        .filter_map(|shop| Some(shop.load.model.as_ref()?.bottleneck.clone()))
        .collect();
    bottlenecks.dedup();
    notes.extend(bottlenecks.iter().map(|one| format!("limited first by: {one}")));
    let mut errors: Vec<&String> = shops.iter().flat_map(|shop| &shop.errors).collect();
    errors.dedup();
    notes.extend(errors.into_iter().map(|error| format!("failed: {error}")));
    PlainTable {
        title: "Throughput, its bound and its model".to_owned(),
        columns: vec![
            "",
            "browsers",
            "interactions/s",
            "N/(Z+R)",
            "modelled",
            "response (ms)",
            "modelled",
            "think time (ms)",
            "capacity (/s)",
            "CPUs in use",
            "browsers' CPU",
        ],
        rows: shops.iter().map(row).collect(),
        notes,
    }
}

fn tiers(shop: &ShopView, title: String) -> PlainTable {
    let row = |tier: &TierView| {
        vec![
            tier.node.clone(),
            tier.program.clone(),
            written(tier.cpu_share.as_ref(), 0.01, 1),
            written(tier.cpu_us.as_ref(), 1.0, 0),
            written(tier.sent_bps.as_ref(), 1e6, 2),
            written(tier.received_bps.as_ref(), 1e6, 2),
        ]
    };
    PlainTable {
        title,
        columns: vec![
            "tier",
            "program",
            "CPU (%)",
            "µs per interaction",
            "sent (Mbit/s)",
            "received (Mbit/s)",
        ],
        rows: shop.tiers.iter().map(row).collect(),
        notes: vec![
            "from the start of the load to its end, ramp included; 100 % is one CPU".to_owned(),
        ],
    }
}

fn interactions(shop: &ShopView, title: String) -> PlainTable {
    let ms = |ns: f64| fixed(ns / 1e6, 2);
    let row = |one: &InteractionView| {
        vec![
            one.interaction.name().to_owned(),
            fixed(one.pages as f64, 0),
            written(one.p90_ns.as_ref(), 1e6, 2),
            fixed(one.interaction.limit().0 as f64 / 1e6, 0),
            written(one.over.as_ref(), 0.01, 2),
            ms(one.app_ns),
            ms(one.database_ns),
            ms(one.images_ns),
            ms(one.rest_ns),
            fixed(one.statements, 1),
            one.errors.to_string(),
        ]
    };
    PlainTable {
        title,
        columns: vec![
            "interaction",
            "pages",
            "p90 (ms)",
            "limit (ms)",
            "over (%)",
            "app (ms)",
            "database (ms)",
            "images (ms)",
            "rest (ms)",
            "statements",
            "errors",
        ],
        rows: shop.interactions.iter().map(row).collect(),
        notes: vec![
            "limit: of the 90th percentile, by TPC-W; over: share above it; app, database and images: \
             parts of the mean response time by the trace header of each page; rest: web server and \
             network"
                .to_owned(),
        ],
    }
}

/// The views in `results.json`.
pub(crate) fn results(shops: &[ShopView]) -> Vec<results::Shop> {
    let view = |shop: &ShopView| results::Shop {
        levels: summary::levels(&shop.levels),
        browsers: shop.browsers,
        interactions_per_s: shop.load.rate_per_s.as_ref().map(Into::into),
        response_mean_ns: shop.load.response_ns.as_ref().map(Into::into),
        think_time_ns: shop.load.think_ns,
        bound_per_s: shop.load.law_per_s,
        emulator_cpu_share: shop.load.emulator_share,
        model: shop.load.model.as_ref().map(ModelView::result),
        tiers: shop.tiers.iter().map(TierView::result).collect(),
        interactions: shop.interactions.iter().map(InteractionView::result).collect(),
        errors: shop.errors.clone(),
    };
    shops.iter().map(view).collect()
}

impl TierView {
    fn result(&self) -> results::Tier {
        results::Tier {
            node: self.node.clone(),
            program: self.program.clone(),
            cpu_share: self.cpu_share.as_ref().map(Into::into),
            demand_us_per_interaction: self.cpu_us.as_ref().map(Into::into),
            sent_bps: self.sent_bps.as_ref().map(Into::into),
            received_bps: self.received_bps.as_ref().map(Into::into),
        }
    }
}

impl ModelView {
    fn result(&self) -> results::ShopModel {
        results::ShopModel {
            provenance: Provenance::Modelled,
            interactions_per_s: self.rate_per_s,
            response_mean_ns: self.response_ns,
            capacity_per_s: self.capacity_per_s,
            bottleneck: self.bottleneck.clone(),
            utilisation_share: self.utilisation,
        }
    }
}

impl InteractionView {
    fn result(&self) -> results::ShopInteraction {
        results::ShopInteraction {
            interaction: Of::ALL[1 + self.interaction as usize],
            pages: self.pages,
            errors: self.errors,
            p90_ns: self.p90_ns.as_ref().map(Into::into),
            limit_ns: self.interaction.limit(),
            over_limit_share: self.over.as_ref().map(Into::into),
            app_mean_ns: self.app_ns,
            database_mean_ns: self.database_ns,
            images_mean_ns: self.images_ns,
            rest_mean_ns: self.rest_ns,
            statements: self.statements,
        }
    }
}
