//! fabricmark: which way of moving these bytes is better here, by how much, is the difference real, and how far is it
//! from what the wire allows?
#![expect(clippy::print_stdout, reason = "this is the program: it prints")]

#[macro_use]
mod stderr;

mod command {
    pub mod agent;
    pub mod ceiling;
    pub mod compare;
    pub mod doctor;
    pub mod export;
    pub mod guest;
    pub mod hosts;
    pub mod lab;
    pub mod measure;
    pub mod pair;
    pub mod papers;
    pub mod relay;
    pub mod report;
    pub mod rtt;
    pub mod run;
    pub mod shop;
    pub mod wire;
}
mod addresses;
mod calibration;
#[cfg(test)]
mod documents;
mod exit;
mod interrupt;
mod key;
mod levels;
mod locale;
mod manual;
mod options;
mod output;
mod progress;
mod rtts;
#[cfg(test)]
mod schemas;
mod services;
mod watch;

use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::exit::{Code, Failure};
use crate::options::{Command, Options};

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return exit::usage(error, &Options::command()),
    };
    carry_out(options.command).unwrap_or_else(|failure| failure.report())
}

fn carry_out(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Measure(options) => return command::measure::measure(&options),
        Command::Compare(options) => return command::compare::compare(&options),
        Command::Lab(options) => return command::lab::lab(&options),
        Command::Run(options) => command::run::run(&options)?,
        Command::Report(options) => command::report::report(&options)?,
        Command::Export(options) => command::export::export(&options)?,
        Command::Doctor(options) => command::doctor::doctor(&options)?,
        Command::Hosts(command) => command::hosts::hosts(&command)?,
        Command::Agent(options) => command::agent::agent(&options)?,
        Command::Pair(options) => command::pair::pair(&options)?,
        Command::Relay(options) => command::relay::relay(&options)?,
        Command::Rtt(options) => command::rtt::rtt(&options)?,
        Command::Ceiling(options) => command::ceiling::ceiling(&options)?,
        Command::Wire(options) => command::wire::wire(&options)?,
        Command::Papers(options) => command::papers::papers(&options)?,
        Command::Shop(command) => command::shop::shop(&command)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Options::command(), "fabricmark", &mut text);
            output::print_bytes(&text)?;
        }
        Command::Man => output::print_bytes(&manual::page(Options::command()))?,
        Command::Worker => worker()?,
        Command::LabHolder => command::lab::holder()?,
        Command::SmcEid { name } => fabricmark_load::smc::add_eid(&name).map_err(|error| {
            Failure::new(Code::Missing, format!("cannot add the user EID: {error}"))
        })?,
        Command::KeepCounting => keep_counting()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves the coordinator that started this process with a socket as its standard input.
fn worker() -> Result<(), Failure> {
    // The kernel names a process after the path of its program, which may be /proc/self/exe.
    let _ = rustix::thread::set_name(c"fabricmark");
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| {
        Failure::internal(format!(
            "standard input is not a coordinator's socket: \
                                                    {error}"
        ))
    })?;
    fabricmark_control::work(socket.into()).map_err(|error| {
        Failure::internal(format!(
            "the worker lost the connection to its \
                                                    coordinator: {error}"
        ))
    })
}

/// Keeps perf events and packet timestamps enabled in the kernel until this process is killed; prints a line when they
/// are.
///
/// Their first user makes the kernel patch its own code, in the scheduler and in the receive path, and the last one
/// makes it patch that back. If CPUs are emulated in software, another CPU may execute half-patched code, and the
/// kernel crashes. Keeping both in use from before the second CPU is online prevents that.
fn keep_counting() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::internal(format!("cannot count events: {error}"));
    let _events = fabricmark_host::UsageMeter::start();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    fabricmark_telemetry::stamp::enable(socket.as_fd(), false).map_err(failed)?;
    println!("counting");
    loop {
        std::thread::park();
    }
}
