//! Results of runs of the bookstore, and the messages between `fabricmark` and the processes of its tiers.

use std::net::SocketAddr;

use fabricmark_plan::{Engine, Interaction, Mix};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::HostFacts;
use crate::text::one_line;

/// An order to the process of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum TierOrder {
    /// Find the programs of these tiers on this host; answered by [`TierLine::Found`].
    Find {
        /// Databases.
        engines: Vec<Engine>,
        /// Whether the web server is needed, too.
        web: bool,
    },
    /// Start a database and load the shop; answered by progress, then [`TierLine::Started`].
    Database(DatabaseTier),
    /// Start the application server, or start it anew; answered by [`TierLine::Started`].
    Application(ApplicationTier),
    /// Start the web server, or start it anew; answered by [`TierLine::Started`].
    Web {
        /// Address of the application server.
        application: SocketAddr,
    },
    /// Fetch each page once; answered by [`TierLine::Checked`].
    Check(BrowserLoad),
    /// Emulate browsers; answered by progress, then [`TierLine::Browsed`].
    Browse(BrowserLoad),
    /// Read the counters; answered by [`TierLine::Usage`].
    Usage,
    /// Check the orders in the database; answered by [`TierLine::Audited`].
    Audit,
}

/// A database and its shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseTier {
    /// Program.
    pub engine: Engine,
    /// Number of books.
    pub items: u32,
    /// Number of browsers for which the shop has customers.
    pub customers_for: u32,
    /// Seed of the rows.
    pub seed: u64,
}

/// An application server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationTier {
    /// Program of the database.
    pub engine: Engine,
    /// Address of the database.
    pub database: SocketAddr,
    /// Password of its user `shop`.
    pub password: String,
    /// Most connections to the database.
    pub pool: u32,
}

impl ApplicationTier {
    /// Checks the password, which becomes part of a URL and may come from another host: only letters and digits cannot name
    /// another server or options. The error says so.
    pub fn check_password(password: &str) -> Result<(), String> {
        let is_valid = password.chars().all(|letter| letter.is_ascii_alphanumeric());
        is_valid.then_some(()).ok_or_else(|| "a password has letters and digits only".to_owned())
    }
}

/// A load of emulated browsers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrowserLoad {
    /// Address of the web server.
    pub web: SocketAddr,
    /// Number of browsers.
    pub browsers: u32,
    /// How often they visit each page.
    pub mix: Mix,
    /// Number of books of the shop.
    pub items: u32,
    /// Number of browsers for which the shop has customers.
    pub customers_for: u32,
    /// Mean think time.
    pub think_time_ns: Nanos,
    /// Web interactions per second of an open loop, with random gaps; `None`: a closed loop with think times.
    pub arrivals_per_s: Option<f64>,
    /// Time before the measurement window.
    pub ramp_up_ns: Nanos,
    /// Length of the measurement window.
    pub window_ns: Nanos,
    /// Seed of the browsers' choices.
    pub seed: u64,
}

/// What the process of a tier reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TierLine {
    /// The order waits, since others measure with the same agent.
    Queued {
        /// Position among the coordinators that wait, from 1; 0: its turn has come.
        place: u32,
    },
    /// How far an order is.
    Progress {
        /// Parts that are done.
        done: u32,
        /// Number of parts.
        of: u32,
    },
    /// All programs are there.
    Found,
    /// A server accepts connections.
    Started {
        /// Its TCP port.
        port: u16,
        /// Program and version.
        program: String,
        /// Password of user `shop`, if it is a database.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
    },
    /// Each page was fetched and is as expected.
    Checked {
        /// Number of pages.
        pages: u32,
    },
    /// The browsers have finished.
    Browsed(Box<Browsed>),
    /// The counters.
    Usage(TierCounters),
    /// The orders were checked.
    Audited(Audit),
    /// The order failed.
    Failed {
        /// What failed, and the remedy.
        #[serde(deserialize_with = "one_line")]
        message: String,
        /// Whether this host lacks a program or privilege.
        is_missing: bool,
    },
}

/// What the browsers of a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Browsed {
    /// Results of each interaction that was visited in the window, [`Interaction::All`] first.
    pub interactions: Vec<(Interaction, InteractionResult)>,
    /// Shared by all interactions.
    pub load: LoadResult,
}

/// Results of one interaction in the measurement window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InteractionResult {
    /// Response times of the pages without errors, in ns.
    pub times_ns: Histogram,
    /// Pages within TPC-W's limit of the response time.
    pub within_limit: u64,
    /// Pages that failed.
    pub errors: u64,
    /// Mean time in the application server without its database.
    pub app_mean_ns: f64,
    /// Mean time for the database's answers.
    pub database_mean_ns: f64,
    /// Mean time for the images of a page.
    pub images_mean_ns: f64,
    /// Statements per page.
    pub statements: f64,
    /// Bytes of pages and images, without headers.
    pub bytes: u64,
}

/// What the browsers counted for all interactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Web interactions without errors that were completed in each second since the start, those before the window too.
    pub per_second: Vec<u32>,
    /// Start of the window, since the start of the load.
    pub ramp_up_ns: Nanos,
    /// Length of the window.
    pub window_ns: Nanos,
    /// CPU time of the browsers' process in the window over its length.
    pub emulator_cpu_share: f64,
    /// Messages of pages that failed, at most ten different ones.
    pub errors: Vec<String>,
    /// Orders of which browsers got the confirmation, during the whole load.
    pub confirmed: u64,
    /// Orders whose confirmation failed at the browser; the database may have them or not.
    pub unconfirmed: u64,
}

/// Counters of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierCounters {
    /// CPU time of its processes.
    pub cpu_ns: u64,
    /// Bytes that network devices of its host sent, loopback left out.
    pub sent_bytes: u64,
    /// Bytes that they received.
    pub received_bytes: u64,
    /// Starts of its server after it had ended by itself.
    pub restarts: u32,
}

impl TierCounters {
    /// What was counted since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            restarts: self.restarts.saturating_sub(earlier.restarts),
        }
    }
}

/// A check of the orders in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Confirmed orders.
    pub orders: u64,
    /// Orders, payments and stock that contradict each other.
    pub inconsistencies: Vec<String>,
}

/// A tier in a run, or the links between the tiers of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierFacts {
    /// Name of its node: `client`, `web`, `app` or `db`; `links` for the emulator of the links.
    pub node: String,
    /// Program and version.
    pub program: String,
    /// Its host.
    pub host: HostFacts,
    /// Counted from the start of the load to its end, ramp included.
    pub counters: TierCounters,
}

/// What a record of a run of the bookstore contains besides its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShopRun {
    /// Results of the point's interaction.
    pub result: InteractionResult,
    /// What the browsers counted for all interactions.
    pub load: LoadResult,
    /// Web interactions without errors in the window, over all interactions.
    pub interactions: u64,
    /// Mean response time over all interactions, in ns.
    pub response_mean_ns: f64,
    /// The tiers, in the order in which a request passes them, then the emulator of the links.
    pub tiers: Vec<TierFacts>,
    /// Check of the orders after the run.
    pub audit: Audit,
}

impl ShopRun {
    /// CPU time of a tier in seconds per web interaction, ramp included; `None` if none was completed.
    pub fn demand_s(&self, tier: &TierFacts) -> Option<f64> {
        let interactions: f64 = self.load.per_second.iter().map(|&count| f64::from(count)).sum();
        // Interactions are counted in whole seconds, CPU time over the whole load.
        let load_s = (self.load.ramp_up_ns.0 + self.load.window_ns.0) as f64 / 1e9;
        let counted = self.load.per_second.len() as f64 / load_s;
        let cpu_s = tier.counters.cpu_ns as f64 / 1e9;
        (interactions > 0.0).then(|| counted * cpu_s / interactions)
    }
}
