//! Options of `hosts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Key;

/// What `hosts` does.
#[derive(Debug, Subcommand)]
pub enum Hosts {
    /// Show the network interfaces of a host: links, settings and hardware
    Show(Show),
    /// Restore the settings of this host that a killed run left changed
    Restore(Restore),
}

/// Options of `hosts show`.
#[derive(Args, Debug)]
pub struct Show {
    /// A host with an agent [default: this host]
    pub host: Option<String>,
    /// Show only this interface; may be repeated [default: all of the network namespace]
    #[arg(long = "interface", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Whose key is shown to the agent
    #[command(flatten)]
    pub key: Key,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `hosts restore`.
#[derive(Args, Debug)]
pub struct Restore {
    /// Folder of the journal of changed settings [default: as root /run/fabricmark/settings, otherwise
    /// $XDG_RUNTIME_DIR/fabricmark-settings]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}
