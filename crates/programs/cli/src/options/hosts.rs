//! Options of `hosts`.

use clap::{Args, Subcommand};

/// What `hosts` does.
#[derive(Debug, Subcommand)]
pub enum Hosts {
    /// Show the network interfaces of this host: links, settings and hardware
    Show(Show),
}

/// Options of `hosts show`.
#[derive(Args, Debug)]
pub struct Show {
    /// Show only these interfaces [default: all of this network namespace]
    #[arg(value_name = "INTERFACE")]
    pub interfaces: Vec<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}
