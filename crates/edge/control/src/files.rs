//! Reads the files that a plan names: traces of departures, and a topology.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fabricmark_lab::{Topology, TopologyError};
use fabricmark_plan::{Invalid, Plan, Trace};

/// Longest topology file.
const TOPOLOGY_BYTES_MAX: u64 = 1 << 20;

/// Longest file of a trace: the most departures that a trace may have, at 40 bytes a line.
const TRACE_BYTES_MAX: u64 = 4 << 20;

/// Why a plan's files are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read the trace {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is longer than any trace.
    #[error("the trace {} is longer than 4 MiB: is it one?", .0.display())]
    TooLong(PathBuf),
    /// The topology file cannot be read.
    #[error("cannot read the topology {}: {source}", file.display())]
    NoTopology {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The topology file is no topology.
    #[error("{}: {source}", file.display())]
    Topology {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: TopologyError,
    },
    /// No way leads from one of the nodes to the other.
    #[error("no way leads from `{client}` to `{server}` in {}: {help}", file.display())]
    NoWay {
        /// The file.
        file: PathBuf,
        /// The node of the client.
        client: String,
        /// The node of the server.
        server: String,
        /// What to write.
        help: &'static str,
    },
    /// The file is not a trace; names the line.
    #[error("{}: {source}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        source: Invalid,
    },
}

/// Reads the files that the plan names into it; `folder` is where relative names begin, that of the plan file.
pub fn read_files(plan: &mut Plan, folder: &Path) -> Result<(), FileError> {
    read_topology(plan, folder)?;
    let names: Vec<String> = plan.trace_files().into_iter().map(str::to_owned).collect();
    for name in names {
        let trace = read(folder.join(&name))?;
        plan.traces.insert(name, trace);
    }
    Ok(())
}

fn read_topology(plan: &mut Plan, folder: &Path) -> Result<(), FileError> {
    let Some(named) = plan.topology.clone() else { return Ok(()) };
    let own = Path::new("the plan's wires");
    let (file, text) = match named.file.as_str() {
        "" => (own.to_owned(), named.text),
        name => {
            let file = folder.join(name);
            let unreadable = |source| FileError::NoTopology { file: file.clone(), source };
            let mut text = String::new();
            let open = File::open(&file).map_err(unreadable)?;
            open.take(TOPOLOGY_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
            (file, text)
        }
    };
    let topology = Topology::parse(&text)
        .map_err(|source| FileError::Topology { file: file.clone(), source })?;
    plan.over(text, |client, server| {
        let way = topology.way(client, server).ok_or_else(|| FileError::NoWay {
            file: file.clone(),
            client: client.to_owned(),
            server: server.to_owned(),
            help: if named.file.is_empty() { ROUTERS } else { NODES },
        })?;
        Ok((way.mtu, way.rtt))
    })
}

/// What to look at where no way leads between nodes of a topology file.
const NODES: &str = "name two of its nodes, as in lab:FILE:CLIENT,SERVER";

/// What to look at where no way leads over the wires of a plan.
const ROUTERS: &str =
    "join them by a [[wire]], and write forwards = true in [nodes.NAME] of a router between them";

fn read(file: PathBuf) -> Result<Trace, FileError> {
    let mut text = String::new();
    let read =
        File::open(&file).and_then(|open| open.take(TRACE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(source) => Err(FileError::Unreadable { file, source }),
        Ok(bytes) if bytes as u64 > TRACE_BYTES_MAX => Err(FileError::TooLong(file)),
        Ok(_) => Trace::parse(&text).map_err(|source| FileError::Broken { file, source }),
    }
}
