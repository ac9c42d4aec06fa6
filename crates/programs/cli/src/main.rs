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

use crate::exit::Failure;
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
        Command::PrepareGuest => command::guest::prepare()?,
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
