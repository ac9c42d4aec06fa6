//! The bookstore: a process of `fabricmark-shop` at the node of each tier, in a lab or on hosts, and a run for each
//! combination of levels, which becomes a record for each web interaction.
//!
//! The database is loaded once, and lives as long as the plan. The application server and the web server are started for
//! each run, so that no run inherits connections of another.

mod hosts;
mod lab;
mod network;
mod process;

use std::sync::atomic::AtomicBool;

use fabricmark_host::allow_files;
use fabricmark_judge::{outcome, shop_figures, shop_violations};
use fabricmark_lab::Namespace;
use fabricmark_plan::{Engine, Interaction, Mix, Pace, Plan, Point, Rate, Step, Tier};
use fabricmark_record::{
    ApplicationTier, Audit, Browsed, BrowserLoad, DatabaseTier, InteractionResult, Outcome,
    Provenance, Record, ShopRun, TierCounters, TierFacts, TierLine, TierOrder,
};
use fabricmark_units::{Nanos, Stream};

use crate::error::{Cause, PlanError};
use crate::experiment::Context;
use crate::history::History;
use crate::peer::Workers;
use crate::progress::Progress;
use network::Network;
use process::{News, TierProcess};

/// Seed of the rows: plans with other seeds share the same shop.
const SHOP_SEED: u64 = 1;

/// Whether orders go on, and who is told how far they are.
pub struct Watch<'a> {
    /// Set by Ctrl-C.
    pub interrupted: &'a AtomicBool,
    /// Gets what is being done, and how many of how many parts are done; of 0 if it has no parts.
    pub progress: &'a mut dyn FnMut(&str, u32, u32),
}

impl Watch<'_> {
    /// Gives an order to a tier, and tells how far it is as progress of `what`.
    fn ask(
        &mut self,
        tier: &mut TierProcess,
        order: &TierOrder,
        what: &str,
    ) -> Result<TierLine, PlanError> {
        let Self { interrupted, progress } = self;
        tier.ask(order, interrupted, &mut |news| match news {
            News::Progress(done, of) => progress(what, done, of),
            News::Queued { host, place } => {
                let text = format!("the agent at {host} is busy: position {place} in its queue");
                progress(&text, 0, 0);
            }
        })
    }
}

/// An order that takes no time worth mentioning.
const SHORT: &str = "";

/// The running tiers of a bookstore. They end with this value.
pub struct Shop {
    // Processes end before their networks.
    client: TierProcess,
    web: TierProcess,
    app: TierProcess,
    databases: Vec<Loaded>,
    network: Network,
    programs: Programs,
    /// Confirmed orders in the database at the last audit, by database; `None` if browsers have bought since then.
    orders: Vec<Option<u64>>,
}

/// Programs and versions of the tiers that are the same in all runs.
#[derive(Default)]
struct Programs {
    web: String,
    app: String,
}

/// A database with a shop.
struct Loaded {
    process: TierProcess,
    holds: DatabaseTier,
    port: u16,
    password: String,
    program: String,
}

/// The database that a point needs.
fn database_of(point: &Point) -> Option<DatabaseTier> {
    Some(DatabaseTier {
        engine: point.database?,
        items: point.items?,
        customers_for: point.customers_for?,
        seed: SHOP_SEED,
    })
}

impl Shop {
    /// Starts the tiers for these points, and loads each database that they need.
    pub fn start(
        points: &[Point],
        workers: &Workers<'_>,
        emulator_cpu: Option<u32>,
        watch: &mut Watch<'_>,
    ) -> Result<Self, PlanError> {
        allow_files();
        let mut network = Network::build(points, workers.peer, emulator_cpu)?;
        let mut start = |tier: Tier| network.start(tier, workers.program);
        let mut client = start(Tier::Client)?;
        let (mut web, mut app) = (start(Tier::Web)?, start(Tier::App)?);
        let mut wanted: Vec<DatabaseTier> = Vec::new();
        for database in points.iter().filter_map(database_of) {
            if !wanted.contains(&database) {
                wanted.push(database);
            }
        }
        let mut stores = Vec::new();
        for holds in wanted {
            stores.push((start(Tier::Db)?, holds));
        }
        find_programs(&mut client, &mut web, &mut app, &mut stores, watch)?;
        let mut databases = Vec::new();
        for (mut process, holds) in stores {
            let what = format!("loading {} books into {}", holds.items, holds.engine);
            let line = watch.ask(&mut process, &TierOrder::Database(holds), &what)?;
            let TierLine::Started { port, program, password: Some(password) } = line else {
                return Err(process.unexpected(&line));
            };
            databases.push(Loaded { process, holds, port, password, program });
        }
        let orders = vec![Some(0); databases.len()];
        let programs = Programs::default();
        Ok(Self { client, web, app, databases, network, programs, orders })
    }

    /// Starts the servers for a point; returns the load that its browsers would be.
    pub fn prepare(&mut self, point: &Point, watch: &mut Watch<'_>) -> Result<Load, PlanError> {
        let wrong = || PlanError::Internal("a point of the bookstore has no database".to_owned());
        let holds = database_of(point).ok_or_else(wrong)?;
        let place = self.databases.iter().position(|database| database.holds == holds);
        let place = place.ok_or_else(wrong)?;
        if let Some(congestion) = &point.congestion {
            self.network.set_congestion(congestion)?;
        }
        let loaded = &self.databases[place];
        let application = TierOrder::Application(ApplicationTier {
            engine: holds.engine,
            database: self.network.address(Tier::Db, point, loaded.port)?,
            password: loaded.password.clone(),
            pool: point.pool.unwrap_or(1),
        });
        let line = watch.ask(&mut self.app, &application, SHORT)?;
        let TierLine::Started { port, program, .. } = line else {
            return Err(self.app.unexpected(&line));
        };
        self.programs.app = program;
        let application = self.network.address(Tier::App, point, port)?;
        let line = watch.ask(&mut self.web, &TierOrder::Web { application }, SHORT)?;
        let TierLine::Started { port, program, .. } = line else {
            return Err(self.web.unexpected(&line));
        };
        self.programs.web = program;
        let browsers = BrowserLoad {
            web: self.network.address(Tier::Web, point, port)?,
            browsers: point.browsers.unwrap_or(1),
            mix: point.mix.unwrap_or(Mix::Shopping),
            items: holds.items,
            customers_for: holds.customers_for,
            think_time_ns: point.think_time.unwrap_or(Nanos(0)),
            arrivals_per_s: match point.pace {
                Pace::Poisson(Rate::PerSecond(rate)) => Some(rate as f64),
                _ => None,
            },
            ramp_up_ns: Nanos(0),
            window_ns: Nanos(0),
            seed: 1,
        };
        Ok(Load { database: place, browsers })
    }

    /// Fetches each page once; returns their number.
    pub fn check(&mut self, load: &Load, watch: &mut Watch<'_>) -> Result<u32, PlanError> {
        let order = TierOrder::Check(load.browsers);
        let line = watch.ask(&mut self.client, &order, SHORT)?;
        let TierLine::Checked { pages } = line else { return Err(self.client.unexpected(&line)) };
        // It buys a book.
        let orders = &mut self.orders[load.database];
        *orders = orders.map(|orders| orders.saturating_add(1));
        Ok(pages)
    }

    /// Checks the orders of a database.
    fn audit(&mut self, database: usize, watch: &mut Watch<'_>) -> Result<Audit, PlanError> {
        let process = &mut self.databases[database].process;
        match watch.ask(process, &TierOrder::Audit, SHORT)? {
            TierLine::Audited(audit) => Ok(audit),
            line => Err(process.unexpected(&line)),
        }
    }

    /// Nodes of the servers, and their programs and versions.
    pub fn programs(&self, load: &Load) -> [(&'static str, &str); 3] {
        let database = &self.databases[load.database].program;
        let programs = [self.programs.web.as_str(), &self.programs.app, database];
        let tiers = [Tier::Web, Tier::App, Tier::Db];
        std::array::from_fn(|place| (tiers[place].name(), programs[place]))
    }

    /// Emulates browsers, and checks the orders.
    pub fn browse(&mut self, load: &Load, watch: &mut Watch<'_>) -> Result<Browse, PlanError> {
        let earlier = match self.orders[load.database].take() {
            Some(orders) => orders,
            // The run before failed after its browsers had bought.
            None => self.audit(load.database, watch)?.orders,
        };
        let before = self.counters(load, watch)?;
        let emulator_before_ns = process_cpu_ns();
        let order = TierOrder::Browse(load.browsers);
        let what = format!("{} browsers", load.browsers.browsers);
        let line = watch.ask(&mut self.client, &order, &what)?;
        let TierLine::Browsed(browsed) = line else { return Err(self.client.unexpected(&line)) };
        let after = self.counters(load, watch)?;
        let emulator_ns = process_cpu_ns().saturating_sub(emulator_before_ns);
        let mut audit = self.audit(load.database, watch)?;
        self.orders[load.database] = Some(audit.orders);
        let Browsed { load: counted, .. } = &*browsed;
        audit.inconsistencies.extend(missing_orders(
            audit.orders.saturating_sub(earlier),
            counted.confirmed,
            counted.unconfirmed,
        ));
        let browsers = (Tier::Client.name(), "fabricmark-shop browse");
        let programs = std::iter::once(browsers).chain(self.programs(load));
        let database = &self.databases[load.database].process;
        let hosts = [&self.client, &self.web, &self.app, database].map(TierProcess::host);
        let tiers = programs.enumerate().map(|(place, (node, program))| TierFacts {
            node: node.to_owned(),
            program: program.to_owned(),
            host: hosts[place].clone(),
            counters: after[place].since(before[place]),
        });
        // In a lab this process carries the packets, and otherwise waits.
        let links = self.network.provenance() == Provenance::Emulated;
        let links = links.then(|| TierFacts {
            node: "links".to_owned(),
            program: "emulator of the lab".to_owned(),
            host: hosts[0].clone(),
            counters: TierCounters { cpu_ns: emulator_ns, ..TierCounters::default() },
        });
        let tiers = tiers.chain(links).collect();
        Ok(Browse { browsed: *browsed, tiers, audit })
    }

    /// Counters of all tiers, in the order of [`Tier::ALL`].
    fn counters(
        &mut self,
        load: &Load,
        watch: &mut Watch<'_>,
    ) -> Result<[TierCounters; 4], PlanError> {
        let database = &mut self.databases[load.database].process;
        let mut counters = [TierCounters::default(); 4];
        let tiers = [&mut self.client, &mut self.web, &mut self.app, database];
        for (counted, process) in counters.iter_mut().zip(tiers) {
            let line = watch.ask(process, &TierOrder::Usage, SHORT)?;
            let TierLine::Usage(usage) = line else { return Err(process.unexpected(&line)) };
            *counted = usage;
        }
        Ok(counters)
    }

    /// Namespace of the browsers; `None` if servers are on other hosts.
    pub fn client_namespace(&self) -> Option<&Namespace> {
        self.network.namespace(Tier::Client)
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // All at once: a database takes the longest.
        let tiers = [&mut self.client, &mut self.web, &mut self.app];
        tiers.into_iter().for_each(TierProcess::end);
        self.databases.iter_mut().for_each(|database| database.process.end());
    }
}

/// A load, ready to be started.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Index of the database.
    database: usize,
    /// The browsers; [`Shop::prepare`] leaves the times at 0.
    pub browsers: BrowserLoad,
}

/// What a load measured.
#[derive(Clone, Debug)]
pub struct Browse {
    /// What the browsers measured.
    pub browsed: Browsed,
    /// The tiers.
    pub tiers: Vec<TierFacts>,
    /// Check of the orders.
    pub audit: Audit,
}

impl Browse {
    /// Why the run of a point does not count.
    pub fn violations(&self, point: &Point) -> Vec<String> {
        shop_violations(point, &self.of(Interaction::All))
    }

    /// The run as the record of an interaction has it.
    pub fn of(&self, interaction: Interaction) -> ShopRun {
        let Self { browsed, tiers, audit } = self;
        let of = |interaction| {
            let found = browsed.interactions.iter().find(|(of, _)| *of == interaction);
            found.map(|(_, result)| result.clone()).unwrap_or_default()
        };
        let all: InteractionResult = of(Interaction::All);
        ShopRun {
            result: of(interaction),
            load: browsed.load.clone(),
            interactions: all.times_ns.len(),
            response_mean_ns: all.times_ns.mean_ns().unwrap_or_default(),
            tiers: tiers.clone(),
            audit: audit.clone(),
        }
    }
}

/// CPU time of this process so far, in nanoseconds.
fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Checks that every host has the programs of its tiers. Those that this host lacks are named together.
fn find_programs(
    client: &mut TierProcess,
    web: &mut TierProcess,
    app: &mut TierProcess,
    stores: &mut [(TierProcess, DatabaseTier)],
    watch: &mut Watch<'_>,
) -> Result<(), PlanError> {
    let mut here = (Vec::new(), !web.is_remote());
    let mut remote: Vec<(&mut TierProcess, Vec<Engine>, bool)> = Vec::new();
    for (process, DatabaseTier { engine, .. }) in stores {
        match process.is_remote() {
            true => remote.push((process, vec![*engine], false)),
            false => here.0.push(*engine),
        }
    }
    for (process, is_web) in [(web, true), (app, false)] {
        if process.is_remote() {
            remote.push((process, Vec::new(), is_web));
        }
    }
    // These orders may wait in the queues of agents. A fixed order prevents a deadlock between coordinators.
    remote.sort_by(|(one, ..), (other, ..)| one.host().hostname.cmp(&other.host().hostname));
    for (process, engines, web) in remote {
        watch.ask(process, &TierOrder::Find { engines, web }, SHORT)?;
    }
    let (engines, web) = here;
    watch.ask(client, &TierOrder::Find { engines, web }, SHORT)?;
    Ok(())
}

/// Compares the new orders of a database with those that browsers saw confirmed. An order whose confirmation was lost on
/// its way may be in the database.
fn missing_orders(new: u64, confirmed: u64, unconfirmed: u64) -> Option<String> {
    if new < confirmed {
        let lost = confirmed - new;
        Some(format!("{lost} of {confirmed} confirmed orders are not in the database"))
    } else if new > confirmed.saturating_add(unconfirmed) {
        let more = new - confirmed - unconfirmed;
        Some(format!("the database has {more} orders more than the {confirmed} confirmed ones"))
    } else {
        None
    }
}

/// Starts the tiers of a plan.
pub(crate) fn start(
    plan: &Plan,
    workers: &Workers<'_>,
    emulator_cpu: Option<u32>,
    interrupted: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<Shop, PlanError> {
    let progress = &mut |what: &str, done, of| progress.prepares(what, done, of);
    Shop::start(&plan.points, workers, emulator_cpu, &mut Watch { interrupted, progress })
}

/// Carries out a step, which is a run; returns a record for each of its interactions.
pub(crate) fn run(
    context: &Context<'_>,
    step: &Step,
    shop: &mut Shop,
    history: &mut History,
    progress: &mut dyn Progress,
) -> Result<Vec<Record>, PlanError> {
    let plan = context.plan;
    let first = &plan.points[step.points[0]];
    let started = jiff::Timestamp::now().to_string();
    let progress = &mut |_: &str, done, of| progress.round(done, of);
    let mut watch = Watch { interrupted: context.interrupted, progress };
    let seed = Stream::new(plan.seed, &format!("runs of block {}", step.block)).next_u64();
    let result = shop.prepare(first, &mut watch).and_then(|mut load| {
        load.browsers.ramp_up_ns = plan.warm_up_ns;
        load.browsers.window_ns = plan.duration_ns;
        load.browsers.seed = seed;
        shop.browse(&load, &mut watch)
    });
    use PlanError::{AgentLost, Input, Internal, Interrupted, Missing};
    let result = match result {
        Err(error @ (Interrupted | Missing(_) | Input(_) | Internal(_) | AgentLost(_))) => {
            return Err(error);
        }
        result => result,
    };
    let mut records = Vec::new();
    for place in 0..step.points.len() {
        let mut record = context.record(step, place, Outcome::Completed);
        record.started.clone_from(&started);
        record.omit_ns = plan.warm_up_ns;
        match &result {
            Ok(result) => fill(&mut record, result, shop.network.provenance()),
            Err(error) => {
                history.cause = Cause::Other;
                record.outcome = Outcome::Invalid(error.to_string());
            }
        }
        history.give_up(&mut record);
        records.push(record);
    }
    Ok(records)
}

/// Puts the results of a point's interaction into its record.
fn fill(record: &mut Record, result: &Browse, provenance: Provenance) {
    let run = result.of(record.point.interaction.unwrap_or(Interaction::All));
    record.figures = shop_figures(&record.point, &run, provenance);
    record.shop = Some(run);
    record.outcome = outcome(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_confirmed_order_is_in_the_database_once() {
        assert_eq!(missing_orders(10, 10, 0), None);
        assert_eq!(missing_orders(11, 10, 1), None);
        let lost = missing_orders(9, 10, 1).unwrap();
        assert_eq!(lost, "1 of 10 confirmed orders are not in the database");
        assert!(missing_orders(12, 10, 1).unwrap().contains("1 orders more"));
    }
}
