//! `fabricmark-shop`: the tiers of a bookstore derived from TPC-W, and its emulated browsers.
//!
//! Start reading at `server.rs`, the application server; `browse.rs` emulates browsers, whose behaviour is in the crate
//! `bookstore`.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is the program: it prints")]

mod browse;
mod database;
mod options;
mod password;
mod server;
mod summary;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use clap::error::ErrorKind;
use fabricmark_bookstore::{Shop, Workload};
use tokio::signal::unix::{SignalKind, signal};

use browse::Load;
use database::instance::{self, Instance};
use database::{Database, Url, audit, load};
use options::{BrowseOptions, Command, DatabaseOptions, Options};
use server::Server;

/// Failures of commands; docs/exit-codes.md has their exit codes.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot connect to {0}: {1}")]
    Connect(Url, sqlx::Error),
    #[error("cannot load the database: {0}")]
    Load(#[from] load::Error),
    #[error(
        "the database has no shop, or is damaged: {0}; create and load one: fabricmark-shop load"
    )]
    NoShop(sqlx::Error),
    #[error("cannot check the database: {0}")]
    Audit(sqlx::Error),
    #[error("{0} kinds of inconsistencies")]
    Inconsistent(usize),
    #[error(transparent)]
    Instance(#[from] instance::Error),
    #[error("cannot serve at {0}: {1}")]
    Serve(SocketAddr, std::io::Error),
    #[error("cannot handle SIGTERM: {0}")]
    Signal(std::io::Error),
    #[error("no web interaction with the shop at {at} succeeded, for example: {example}")]
    NoShopAt { at: SocketAddr, example: String },
    #[error("no web interaction was completed: use a longer --measure, or a shorter --think")]
    TooShort,
}

impl Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Connect(..) | Self::NoShopAt { .. } => 65,
            Self::Instance(instance::Error::Missing { .. } | instance::Error::Closed(_)) => 66,
            _ => 67,
        }
    }
}

async fn open(options: &DatabaseOptions, connections: u32) -> Result<Database, Error> {
    let url = &options.database;
    Database::open(url, connections).await.map_err(|error| Error::Connect(url.clone(), error))
}

/// Waits for Ctrl-C or SIGTERM.
fn stop() -> Result<impl Future<Output = ()>, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn carry_out(command: Command) -> Result<(), Error> {
    match command {
        Command::Database { engine, folder, port } => {
            let stop = stop()?;
            let instance = Instance::start(engine, &folder, port).await?;
            println!("{}", instance.url);
            stop.await;
        }
        Command::Load { database, scale, seed } => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let shop = Shop { scale: scale.into(), seed, today: (since.as_secs() / 86_400) as i32 };
            let began = Instant::now();
            let progress = |done, all| eprintln!("loaded {done} of {all} batches");
            load::load(&open(&database, load::LOADERS).await?, shop, progress).await?;
            eprintln!("loaded in {:.1} s", began.elapsed().as_secs_f64());
        }
        Command::Serve { database, listen, pool } => {
            let server = Server::new(open(&database, pool).await?).await.map_err(Error::NoShop)?;
            server.serve(listen, stop()?).await.map_err(|error| Error::Serve(listen, error))?;
        }
        Command::Audit { database } => {
            let found = audit::audit(&open(&database, 1).await?).await.map_err(Error::Audit)?;
            println!("{} confirmed orders", found.orders);
            found.inconsistencies.iter().for_each(|one| println!("{one}"));
            if !found.inconsistencies.is_empty() {
                return Err(Error::Inconsistent(found.inconsistencies.len()));
            }
        }
        Command::Browse(options) => browse(options).await?,
    }
    Ok(())
}

async fn browse(options: BrowseOptions) -> Result<(), Error> {
    let BrowseOptions { at, browsers, mix, scale, think, ramp_up, measure, images, seed } = options;
    let workload = Workload { mix, scale: scale.into(), think };
    let (from, to) = (ramp_up.into(), (ramp_up + measure).into());
    let load = Load { at, browsers, workload, seed, duration: to, images };
    let (samples, ended) = browse::browse(load, stop()?).await;
    if samples.iter().all(|sample| sample.error.is_some()) {
        let example = samples.into_iter().find_map(|sample| sample.error);
        return Err(example.map_or(Error::TooShort, |example| Error::NoShopAt { at, example }));
    }
    if ended <= from {
        eprintln!("interrupted before the measurement window");
        return Ok(());
    }
    print!("{}", summary::table(&samples, from, to.min(ended)));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let is_answer =
                matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if is_answer { ExitCode::SUCCESS } else { ExitCode::from(64) };
        }
    };
    match carry_out(options.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricmark-shop: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
