//! `fabricmark-shop`: the tiers of a bookstore derived from TPC-W, and its emulated browsers.
//!
//! Start reading at `server.rs`, the application server; `browse.rs` emulates browsers, whose behaviour is in the crate
//! `bookstore`.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is the program: it prints")]

mod browse;
mod check;
mod database;
mod folder;
mod options;
mod password;
mod payment;
mod program;
mod server;
mod service;
mod summary;
#[expect(unsafe_code, reason = "a closure between fork and exec")]
mod sys;
#[cfg(test)]
mod tests;
mod tier;
mod web;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::error::ErrorKind;
use fabricmark_bookstore::{Shop, Workload};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use browse::Load;
use database::instance::Instance;
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
    Program(#[from] program::Error),
    #[error(transparent)]
    Payment(#[from] payment::Error),
    #[error("cannot read {0:?}: {1}")]
    Certificate(PathBuf, std::io::Error),
    #[error("cannot use a folder below /var/tmp: {0}")]
    Folder(std::io::Error),
    #[error("cannot serve at {0}: {1}")]
    Serve(SocketAddr, std::io::Error),
    #[error("standard input is not a coordinator's socket: {0}")]
    Socket(std::io::Error),
    #[error("cannot handle SIGTERM: {0}")]
    Signal(std::io::Error),
    #[error("no web interaction with the shop at {at} succeeded, for example: {example}")]
    NoShopAt { at: SocketAddr, example: String },
    #[error("cannot write the results: {0}")]
    Json(serde_json::Error),
    #[error("no web interaction was completed: use a longer --measure, or a shorter --think")]
    TooShort,
    #[error("interrupted {0}")]
    Interrupted(&'static str),
}

/// Password of a database that only this host reaches.
const PASSWORD: &str = "shop";

impl Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Connect(..) | Self::NoShopAt { .. } => 65,
            Self::Program(program::Error::Missing { .. } | program::Error::Closed(_)) => 66,
            Self::Interrupted(_) => 130,
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
            let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            let instance = Instance::start(engine, &folder, at, PASSWORD).await?;
            println!("{}", instance.url.text());
            stop.await;
        }
        Command::Load { database, scale, seed } => {
            let shop = Shop { scale: scale.into(), seed, today: tier::today() };
            let began = Instant::now();
            let progress = |done, all| eprintln!("loaded {done} of {all} batches");
            load::load(&open(&database, load::LOADERS).await?, shop, progress).await?;
            eprintln!("loaded in {:.1} s", began.elapsed().as_secs_f64());
        }
        Command::Serve { database, listen, pool, payment, payment_certificate } => {
            let payment = match (payment, payment_certificate) {
                (Some(at), Some(file)) => {
                    let certificate = std::fs::read(&file);
                    let certificate =
                        certificate.map_err(|error| Error::Certificate(file, error))?;
                    Some(payment::Client::new(at, &certificate)?)
                }
                _ => None,
            };
            let database = open(&database, pool).await?;
            let server = Server::new(database, payment).await.map_err(Error::NoShop)?;
            let failed = |error| Error::Serve(listen, error);
            let listener = TcpListener::bind(listen).await.map_err(failed)?;
            println!("http://{}", listener.local_addr().map_err(failed)?);
            server.serve(listener, stop()?).await.map_err(failed)?;
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
        Command::Web { port, application } => {
            let stop = stop()?;
            let folder = folder::Folder::new().map_err(Error::Folder)?;
            let service = web::start(folder.path(), port, application)?;
            let log = folder.path().join("error.log");
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            service.listens(port, web::NGINX, log).await?;
            println!("http://{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            stop.await;
        }
        Command::Tier => tier::serve().await.map_err(Error::Socket)?,
    }
    Ok(())
}

async fn browse(options: BrowseOptions) -> Result<(), Error> {
    let BrowseOptions { at, browsers, mix, scale, think, ramp_up, measure, .. } = options;
    let load = Load {
        at,
        browsers,
        workload: Workload { mix, scale: scale.into(), think },
        arrivals_per_s: options.arrivals,
        seed: options.seed,
        ramp_up: ramp_up.into(),
        window: measure.into(),
        images: options.images,
    };
    let visits = browse::browse(load, stop()?, |_| ()).await;
    if visits.is_stopped && visits.ended <= load.ramp_up {
        return Err(Error::Interrupted("before the measurement window"));
    }
    if !visits.is_stopped && visits.samples.iter().all(|sample| sample.error.is_some()) {
        let example = visits.samples.into_iter().find_map(|sample| sample.error);
        return Err(example.map_or(Error::TooShort, |example| Error::NoShopAt { at, example }));
    }
    let browsed = summary::sum_up(&visits, &load);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&browsed).map_err(Error::Json)?);
    } else {
        print!("{}", summary::table(&browsed));
    }
    if visits.is_stopped {
        return Err(Error::Interrupted("in the measurement window; what was measured is above"));
    }
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
