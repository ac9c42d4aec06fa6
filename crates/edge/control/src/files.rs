//! Reads the files that a plan names: traces of departures and of links, and a topology.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fabricmark_lab::{Junction, Topology};
use fabricmark_link::LinkOptions;
use fabricmark_plan::{PathSpec, Plan, Point, TopologyPath, Trace};

use crate::testbed::way;

/// Longest topology file, in MiB.
const TOPOLOGY_MIB_MAX: u64 = 1;

/// Longest trace file, in MiB: the largest number of departures at 40 bytes per line.
const TRACE_MIB_MAX: u64 = 4;

/// Maximum size of a link trace file in MiB: all lines that a trace may have, of 8 bytes each.
const LINK_TRACE_MIB_MAX: u64 = (fabricmark_link::Trace::LINES_MAX as u64 * 8) >> 20;

/// Which of a plan's files cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

/// Reads the files that the plan names into it, except a topology whose text it has. Relative names start at `folder`,
/// that of the plan file.
pub fn read_files(plan: &mut Plan, folder: &Path) -> Result<(), FileError> {
    read_topology(plan, folder)?;
    let names: Vec<String> = plan.trace_files().into_iter().map(str::to_owned).collect();
    for name in names {
        let file = folder.join(&name);
        let text = read("trace", &file, TRACE_MIB_MAX)?;
        plan.traces.insert(name, Trace::parse(&text).map_err(|error| broken(&file, error))?);
    }
    let options: BTreeSet<String> = plan
        .points
        .iter()
        .filter_map(Point::link_options)
        .map(|options| options.to_string())
        .collect();
    for options in options {
        let mut options: LinkOptions =
            options.parse().map_err(|error| FileError(format!("{error}")))?;
        let texts = &mut plan.link_traces;
        let read = |name: &str| match texts.get(name) {
            Some(text) => Ok(text.clone()),
            None => {
                let text = read("trace", &folder.join(name), LINK_TRACE_MIB_MAX)
                    .map_err(|FileError(error)| error)?;
                texts.insert(name.to_owned(), text.clone());
                Ok(text)
            }
        };
        options.read_files(read).map_err(FileError)?;
    }
    Ok(())
}

fn read_topology(plan: &mut Plan, folder: &Path) -> Result<(), FileError> {
    let Some(named) = plan.topology.clone() else { return Ok(()) };
    let (file, text, help) = match named.file.as_str() {
        "" => (Path::new("the plan").to_owned(), named.text, ROUTERS),
        name if !named.text.is_empty() => (Path::new(name).to_owned(), named.text, NODES),
        name => {
            let file = folder.join(name);
            let text = read("topology", &file, TOPOLOGY_MIB_MAX)?;
            (file, text, NODES)
        }
    };
    // Its traces stand beside it.
    let beside = match named.file.as_str() {
        "" => folder.to_owned(),
        name => folder.join(name).parent().unwrap_or(folder).to_owned(),
    };
    let traces = &mut plan.link_traces;
    let mut read_trace = |name: &str| {
        let text = read("trace", &beside.join(name), LINK_TRACE_MIB_MAX);
        let text = text.map_err(|FileError(error)| error)?;
        traces.insert(name.to_owned(), text.clone());
        Ok(text)
    };
    let topology = Topology::parse_with(&text, &mut read_trace);
    let topology = topology.map_err(|error| broken(&file, error))?;
    plan.over(text, |spec| {
        let way = way(&topology, spec).ok_or_else(|| {
            let (PathSpec { from, to, via, .. }, file) = (spec, file.display());
            let via = via.as_ref().map(|via| format!(" via `{via}`")).unwrap_or_default();
            FileError(format!("no path from `{from}` to `{to}`{via} in {file}; {help}"))
        })?;
        let takes_turns = way.links.iter().all(|&(link, _)| takes_turns(&topology, link));
        Ok(TopologyPath { mtu: way.mtu, rtt: way.rtt, offload: way.offload, takes_turns })
    })
}

/// Lowest rate of a link of a topology over which levels take turns in slices: that of a plan's link, below which a slice
/// of a stream would be longer than 50 ms (`slice_wanted` of the crate `plan`).
const SLICED_BPS_MIN: f64 = 95e6;

/// Whether a link, and a hub at one of its ends, let levels take turns in slices.
fn takes_turns(topology: &Topology, link: usize) -> bool {
    let wire = &topology.links[link];
    let has_options = wire.options.iter().all(|options| {
        let is_fast = options.rate_bps().is_none_or(|bps| bps >= SLICED_BPS_MIN);
        is_fast && !options.needs_single_packets() && options.files().next().is_none()
    });
    let is_fast = |node: &String| match topology.junctions.get(node) {
        Some(Junction::Hub { link }) => {
            link.rate().is_none_or(|rate| rate.0 as f64 >= SLICED_BPS_MIN)
        }
        _ => true,
    };
    has_options && wire.between.iter().all(is_fast)
}

/// Remedy if no path connects two nodes of a topology file.
const NODES: &str = "use two of its nodes, as in lab:FILE:CLIENT,SERVER";

/// Remedy if no path connects two nodes over the wires of a plan.
const ROUTERS: &str = "connect them with [[wire]]s, and set forwards = true in [nodes.NAME] of the routers between \
     them";

/// The text of a file of at most `mib_max` MiB.
fn read(kind: &str, file: &Path, mib_max: u64) -> Result<String, FileError> {
    let (name, bytes_max) = (file.display(), mib_max << 20);
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(bytes_max + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(FileError(format!("cannot read the {kind} {name}: {error}"))),
        Ok(bytes) if bytes as u64 > bytes_max => Err(FileError(format!(
            "the {kind} {name} is longer than {mib_max} MiB; check the file \
                                   name"
        ))),
        Ok(_) => Ok(text),
    }
}

fn broken(file: &Path, error: impl Display) -> FileError {
    FileError(format!("{}: {error}", file.display()))
}
