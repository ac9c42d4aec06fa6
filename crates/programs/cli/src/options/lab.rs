//! Options of `lab`: networks on this machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fabricmark_guest::Line;
use fabricmark_units::Nanos;

use super::simulate::Simulate;

/// What `lab` does.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Create the network of a topology file; it stays up until `lab down`
    Up(Up),
    /// Run a command in the network namespace of a node
    Exec(Exec),
    /// Change a link while traffic crosses it: `lab link wan rtt=400ms loss=1e-6`
    Link(Link),
    /// Show nodes, addresses, and packet counts of each direction of each link
    Show(Show),
    /// List the labs that are up
    List {
        /// Print the names as JSON
        #[arg(long)]
        json: bool,
    },
    /// Simulate one TCP connection over a link of any rate, in virtual time, without traffic
    Simulate(Box<Simulate>),
    /// Remove a lab and kill the commands that run in it
    Down(Which),
    /// Measure the accuracy of the link emulator on this machine, in about 4 minutes
    Calibrate(Calibrate),
    /// Run a command in a guest kernel (QEMU, CPUs emulated in software) with two Soft RoCE adapters, netem and SCTP;
    /// SMC-R with --kernel 6.12
    Guest(Guest),
}

/// Options of `lab up`.
#[derive(Args, Debug)]
pub struct Up {
    /// Topology file, such as plans/labs/dumbbell.toml
    pub file: PathBuf,
    /// Name of the lab [default: name of the file]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Random seed: the same seed drops the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Which lab.
#[derive(Args, Debug)]
pub struct Which {
    /// Name of the lab [default: the one that is up]
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
}

/// Options of `lab exec`.
#[derive(Args, Debug)]
pub struct Exec {
    /// Which lab
    #[command(flatten)]
    pub which: Which,
    /// Host or router
    pub node: String,
    /// Command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options of `lab link`.
#[derive(Args, Debug)]
pub struct Link {
    /// Which lab
    #[command(flatten)]
    pub which: Which,
    /// Change only the direction that leaves this node [default: both directions]
    #[arg(long, value_name = "NODE")]
    pub from: Option<String>,
    /// Name of the link
    pub link: String,
    /// Link options to change, such as rtt=400ms loss=1e-6; other options keep their values
    #[arg(required = true, value_name = "OPTION=VALUE")]
    pub options: Vec<String>,
}

/// Options of `lab show`.
#[derive(Args, Debug)]
pub struct Show {
    /// Which lab
    #[command(flatten)]
    pub which: Which,
    /// Print all counters as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Draw the nodes and links as a tree
    #[arg(long, conflicts_with = "json")]
    pub tree: bool,
    /// Draw the nodes and links as SVG into FILE; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "tree"])]
    pub svg: Option<PathBuf>,
}

/// Options of `lab calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// Fewer points and shorter runs: less than a minute, with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Start again, even if an interrupted calibration could be resumed
    #[arg(long)]
    pub fresh: bool,
    /// Print the results as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `lab guest`.
#[derive(Args, Debug)]
pub struct Guest {
    /// Version of the Debian kernel: 6.1, in which Soft RoCE is faster, or 6.12, which has SMC-R
    #[arg(long, value_name = "LINE", default_value_t = Line::V6_1)]
    pub kernel: Line,
    /// Folder whose written files are kept; may be repeated. Files written elsewhere are lost when the guest ends
    #[arg(long, value_name = "FOLDER")]
    pub writable: Vec<PathBuf>,
    /// Time limit of the command
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub limit: Nanos,
    /// Link between the two ends, such as ethernet:1G,mtu=4200; the kernel's netem limits its rate [default: no rate
    /// limit]
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<fabricmark_wire::Link>())]
    pub wire: Option<fabricmark_wire::Link>,
    /// Command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
