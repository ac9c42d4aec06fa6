//! Commands and options.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand, value_parser};
use fabricmark_bookstore::{Mix, Scale};
use fabricmark_plan::Engine;
use fabricmark_units::Nanos;

use crate::database::Url;

/// The tiers of a bookstore derived from TPC-W, not comparable with published TPC results, and its emulated browsers.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a private database until Ctrl-C; prints its address
    Database {
        /// mariadb or postgresql
        #[arg(long, default_value = "mariadb", value_parser = engine)]
        engine: Engine,
        /// Empty folder for its data; as root, of user nobody
        #[arg(long)]
        folder: PathBuf,
        /// TCP port on 127.0.0.1
        #[arg(long)]
        port: u16,
    },
    /// Create the tables and load their rows
    Load {
        #[command(flatten)]
        database: DatabaseOptions,
        #[command(flatten)]
        scale: ScaleOptions,
        /// Seed of the rows
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Serve the pages until Ctrl-C
    Serve {
        #[command(flatten)]
        database: DatabaseOptions,
        /// Address and port to listen on
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Most connections to the database
        #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..))]
        pool: u32,
        /// Address and port of a payment gateway, which is asked by HTTPS before an order is placed
        #[arg(long, requires = "payment_certificate")]
        payment: Option<SocketAddr>,
        /// File with the gateway's certificate, in DER
        #[arg(long, requires = "payment")]
        payment_certificate: Option<PathBuf>,
    },
    /// Check that confirmed orders, payments and stock are consistent
    Audit {
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// Emulate browsers, and print response times by web interaction
    Browse(BrowseOptions),
    /// Serve images and style, and pages of an application server, by nginx until Ctrl-C
    Web {
        /// TCP port
        #[arg(long)]
        port: u16,
        /// Address and port of the application server
        #[arg(long)]
        application: SocketAddr,
    },
    /// Carry out orders from standard input (started by `fabricmark`, not by people)
    #[command(hide = true)]
    Tier,
}

/// Environment variable with the address of the database, whose password others need not see.
pub const DATABASE: &str = "FABRICMARK_SHOP_DATABASE";

#[derive(Debug, clap::Args)]
pub struct DatabaseOptions {
    /// mariadb://USER:PASSWORD@HOST:PORT/NAME or postgresql://USER:PASSWORD@HOST:PORT/NAME
    #[arg(long, env = DATABASE, hide_env_values = true)]
    pub database: Url,
}

/// Size of the shop.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ScaleOptions {
    /// Number of books of the shop
    #[arg(long, default_value_t = 10_000, value_parser = upto(Scale::ITEMS_MAX))]
    items: u32,
    /// Number of browsers for which the shop has customers: 2,880 each
    #[arg(long, default_value_t = 100, value_parser = upto(Scale::BROWSERS_MAX))]
    customers_for: u32,
}

impl From<ScaleOptions> for Scale {
    fn from(ScaleOptions { items, customers_for }: ScaleOptions) -> Self {
        Self { items, browsers: customers_for }
    }
}

#[derive(Debug, clap::Args)]
pub struct BrowseOptions {
    /// Address and port of the shop
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub at: SocketAddr,
    /// Number of emulated browsers
    #[arg(long, default_value_t = 100, value_parser = upto(Scale::BROWSERS_MAX))]
    pub browsers: u32,
    /// Mix of web interactions: browsing, shopping or ordering
    #[arg(long, default_value = "shopping")]
    pub mix: Mix,
    #[command(flatten)]
    pub scale: ScaleOptions,
    /// Mean think time
    #[arg(long, default_value = "7s")]
    pub think: Nanos,
    /// Time before the measurement window
    #[arg(long, default_value = "20s")]
    pub ramp_up: Nanos,
    /// Length of the measurement window
    #[arg(long, default_value = "60s")]
    pub measure: Nanos,
    /// Also fetch the images of each page
    #[arg(long)]
    pub images: bool,
    /// Web interactions per second of an open loop, which begin at random times whether earlier ones have been answered
    /// or not; `--browsers` are then the most at once
    #[arg(long, value_parser = arrivals)]
    pub arrivals: Option<f64>,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Seed of the browsers' choices and think times
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Reads a rate of an open loop.
fn arrivals(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "use 0.001 to 1000000 web interactions per second".to_owned())
}

fn engine(text: &str) -> Result<Engine, String> {
    let wrong = || format!("`{text}` is no database engine: use mariadb or postgresql");
    Engine::named(text).ok_or_else(wrong)
}

fn upto(most: u32) -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=u64::from(most))
}
