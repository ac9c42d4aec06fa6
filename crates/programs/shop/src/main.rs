//! The tiers of a bookstore derived from TPC-W, and its emulated browsers.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is the program: it prints")]

mod browse;
mod database;
mod password;
mod server;
mod summary;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use browse::Load;
use clap::{Parser, Subcommand};
use database::private::{Instance, Kind};
use database::{Database, Place};
use fabricmark_bookstore::{Behaviour, Mix, Scale, Shop};
use fabricmark_units::Nanos;
use server::Server;

/// The three tiers of a bookstore derived from TPC-W, and its emulated browsers.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a private database until Ctrl-C, in a folder and at a port of 127.0.0.1
    Database {
        /// mariadb or postgresql
        #[arg(long, default_value = "mariadb")]
        kind: Kind,
        /// Empty folder
        #[arg(long)]
        folder: PathBuf,
        /// Port
        #[arg(long)]
        port: u16,
    },
    /// Create the tables and fill them
    Load {
        /// mariadb://USER@HOST:PORT/NAME or postgresql://USER@HOST:PORT/NAME
        #[arg(long)]
        database: Place,
        /// Books
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(Scale::ITEMS_MAX)))]
        items: u32,
        /// Emulated browsers for which there are customers
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(Scale::BROWSERS_MAX)))]
        browsers: u32,
        /// Seed of the rows
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Serve the pages of the shop
    Serve {
        /// mariadb://USER@HOST:PORT/NAME or postgresql://USER@HOST:PORT/NAME
        #[arg(long)]
        database: Place,
        /// Address and port
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Connections to the database
        #[arg(long, default_value_t = 16)]
        pool: u32,
    },
    /// Check that the orders of the shop add up
    Audit {
        /// mariadb://USER@HOST:PORT/NAME or postgresql://USER@HOST:PORT/NAME
        #[arg(long)]
        database: Place,
    },
    /// Emulate browsers
    Browse {
        /// Address and port of the shop
        #[arg(long, default_value = "127.0.0.1:8080")]
        at: SocketAddr,
        /// Browsers at once
        #[arg(long, default_value_t = 100)]
        browsers: u32,
        /// browsing, shopping or ordering
        #[arg(long, default_value = "shopping")]
        mix: Mix,
        /// Books of the shop
        #[arg(long, default_value_t = 10_000)]
        items: u32,
        /// Browsers for which the shop has customers
        #[arg(long, default_value_t = 100)]
        customers_of: u32,
        /// Mean think time
        #[arg(long, default_value = "7s")]
        think: Nanos,
        /// Time before the measurement
        #[arg(long, default_value = "20s")]
        ramp_up: Nanos,
        /// Measurement window
        #[arg(long, default_value = "60s")]
        measure: Nanos,
        /// Fetch the images of each page
        #[arg(long)]
        images: bool,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Instance(#[from] database::private::Error),
    #[error("orders do not add up")]
    Audit,
    #[error("cannot serve at {0}: {1}")]
    Serve(SocketAddr, std::io::Error),
}

async fn carry_out(command: Command) -> Result<(), Error> {
    match command {
        Command::Database { kind, folder, port } => {
            let instance = Instance::start(kind, &folder, port).await?;
            println!("{}", instance.url);
            let _ = tokio::signal::ctrl_c().await;
            Ok(())
        }
        Command::Load { database, items, browsers, seed } => {
            let today_s =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let shop =
                Shop { scale: Scale { items, browsers }, seed, today: (today_s / 86_400) as i32 };
            let began = Instant::now();
            let database = Database::open(&database, 8).await?;
            let progress = |done, all| eprintln!("{done} of {all} batches");
            database::load::load(&database, shop, progress).await?;
            eprintln!("loaded in {:.1} s", began.elapsed().as_secs_f64());
            Ok(())
        }
        Command::Serve { database, listen, pool } => {
            let database = Database::open(&database, pool).await?;
            let server = Server::new(database).await?;
            let stop = async {
                let _ = tokio::signal::ctrl_c().await;
            };
            server.serve(listen, stop).await.map_err(|error| Error::Serve(listen, error))
        }
        Command::Audit { database } => {
            let found = database::audit::audit(&Database::open(&database, 1).await?).await?;
            println!("{} confirmed orders, {} defects", found.orders, found.defects.len());
            for defect in &found.defects {
                println!("{defect}");
            }
            if found.defects.is_empty() { Ok(()) } else { Err(Error::Audit) }
        }
        Command::Browse {
            at,
            browsers,
            mix,
            items,
            customers_of,
            think,
            ramp_up,
            measure,
            images,
            seed,
        } => {
            let scale = Scale { items, browsers: customers_of };
            let behaviour = Behaviour { mix, scale, think };
            let (ramp_up, measure) = (ramp_up.into(), measure.into());
            let ramp_down = Duration::from_secs(2);
            let load = Load { at, browsers, behaviour, seed, ramp_up, measure, ramp_down, images };
            let stop = Arc::new(AtomicBool::new(false));
            let told = stop.clone();
            tokio::spawn(async move {
                let _ = tokio::signal::ctrl_c().await;
                told.store(true, Relaxed);
            });
            let samples = browse::browse(load, stop).await;
            print!("{}", summary::table(&samples, ramp_up, ramp_up + measure));
            Ok(())
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match carry_out(Options::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricmark-shop: {error}");
            ExitCode::from(67)
        }
    }
}
