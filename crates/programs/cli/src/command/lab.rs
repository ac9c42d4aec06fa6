//! `fabricmark lab`: networks on this machine that stay up between commands.

pub mod calibrate;
mod simulate;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use fabricmark_lab::held::{
    self, Lab, NodeReport, Packets, PathReport, Place, Report, SharedReport,
};
use fabricmark_lab::{Backend, Source};
use fabricmark_report::{Network, NetworkLink, network_svg, network_text};
use serde_json::json;

use crate::command::guest;
use crate::exit::{Code, Failure};
use crate::options::lab::{Exec, Lab as Options, Link, Show, Up, Which};
use crate::output;

pub fn lab(options: &Options) -> Result<ExitCode, Failure> {
    match options {
        Options::Guest(options) => return guest::guest(options),
        Options::Exec(options) => return Err(exec(options)),
        Options::Up(options) => up(options)?,
        Options::Link(options) => link(options)?,
        Options::Show(options) => show(options)?,
        Options::List { json } => list(*json)?,
        Options::Simulate(options) => simulate::simulate(options)?,
        Options::Calibrate(options) => calibrate::calibrate(options)?,
        Options::Down(which) => find(which)?.down()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Holds a lab for the process that started this one with a socket as its standard input.
pub fn holder() -> Result<(), Failure> {
    let parent = io::stdin().as_fd().try_clone_to_owned().map_err(|error| {
        Failure::internal(format!(
            "standard input is not the socket of `lab up`: \
                                                    {error}"
        ))
    })?;
    Ok(held::hold(&parent.into())?)
}

fn find(which: &Which) -> Result<Lab, Failure> {
    Ok(Lab::find(&Place::find()?, which.lab.as_deref())?)
}

fn up(options: &Up) -> Result<(), Failure> {
    let file = &options.file;
    let text = fs::read_to_string(file).map_err(Failure::unread(file))?;
    // Report errors, with the file name, before anything is started.
    let folder = file.parent().unwrap_or(Path::new(""));
    let source = Source::read(text, folder)
        .map_err(|error| Failure::input(format!("{}: {error}", file.display())))?;
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = options.name.clone().or_else(stem).unwrap_or_default();
    let place = Place::find()?;
    held::ask_to_hold(&place, &name, source, options.seed, start)?;
    note!("lab {name} is up: fabricmark lab show --lab {name}");
    Ok(())
}

/// Starts the process that holds a lab. It is detached and has no output.
fn start(socket: UnixStream) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("lab-holder").stdin(Stdio::from(OwnedFd::from(socket)));
    // A working directory would prevent its file system from being unmounted.
    command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    command.spawn().map(|_| ())
}

/// Replaces this process by the command; returns only on failure.
fn exec(options: &Exec) -> Failure {
    let Some((program, arguments)) = options.command.split_first() else {
        return Failure::input("no command");
    };
    let entered = find(&options.which).and_then(|lab| Ok(lab.enter(&options.node)?));
    let (variable, value) = match entered {
        Ok(mark) => mark,
        Err(failure) => return failure,
    };
    let error = Command::new(program).args(arguments).env(variable, value).exec();
    Failure::new(Code::Missing, format!("cannot run {}: {error}", program.display()))
}

fn link(options: &Link) -> Result<(), Failure> {
    let Link { which, from, link, options } = options;
    Ok(find(which)?.change(link, from.as_deref(), &options.join(" "))?)
}

fn show(options: &Show) -> Result<(), Failure> {
    let report = find(&options.which)?.report()?;
    let Some(file) = &options.svg else {
        let drawn = || if options.tree { network_text(&network(&report)) } else { text(&report) };
        return output::answer(options.json, || json!(report), drawn);
    };
    let drawing = network_svg(&network(&report));
    if file == Path::new("-") {
        return output::print(&drawing);
    }
    fs::write(file, drawing).map_err(Failure::output(file.display()))
}

/// Nodes and links of a lab, without its counters.
fn network(report: &Report) -> Network {
    let place = |name: &str| report.nodes.iter().position(|node| node.name == name);
    // The two directions of a link follow each other.
    let links = report.paths.chunks(2).filter_map(|ways| {
        let [forward, reverse] = ways else { return None };
        let options = |path: &PathReport| path.options.split(' ').map(str::to_owned).collect();
        let mut of_both: Vec<String> = options(forward);
        if forward.options != reverse.options {
            let way = |path: &PathReport| format!("{} → {}: {}", path.from, path.to, path.options);
            of_both = vec![way(forward), way(reverse)];
        }
        of_both.retain(|option| !option.is_empty());
        let between = [place(&forward.from)?, place(&forward.to)?];
        Some(NetworkLink { name: forward.link.clone(), between, options: of_both })
    });
    let title = report.title.as_deref().map(|title| format!(": {title}")).unwrap_or_default();
    Network {
        title: format!("lab {} (emulated){title}", report.name),
        nodes: report.nodes.iter().map(|node| (node.name.clone(), node.kind.clone())).collect(),
        links: links.collect(),
    }
}

fn list(is_json: bool) -> Result<(), Failure> {
    let labs = Place::find()?.labs()?;
    let names: Vec<_> = labs.iter().map(Lab::name).collect();
    let lines = || names.iter().map(|name| format!("{name}\n")).collect();
    output::answer(is_json, || json!(names), lines)
}

/// Formats a report as text.
fn text(report: &Report) -> String {
    let title = report.title.as_deref().map(|title| format!(": {title}")).unwrap_or_default();
    let head = format!("lab {} (emulated){title}\n\n", report.name);
    let nodes = [["node", "", "addresses"].map(str::to_owned)];
    let nodes = nodes.into_iter().chain(report.nodes.iter().map(node_row)).collect::<Vec<_>>();
    let head_row =
        ["link", "from", "to", "in", "out", "queued", "dropped", "super-packets", "options"];
    let rows = [head_row.map(str::to_owned)].into_iter().chain(report.paths.iter().map(path_row));
    let head_row = ["shared", "in", "out", "queued", "dropped", "options"];
    let shared =
        [head_row.map(str::to_owned)].into_iter().chain(report.shared.iter().map(shared_row));
    let shared = match report.shared.as_slice() {
        [] => String::new(),
        [..] => format!("\n{}", output::aligned(&shared.collect::<Vec<_>>())),
    };
    let lost: u64 =
        report.paths.iter().map(|path| path.device_drops + path.packets.refused).sum::<u64>()
            + report.shared.iter().map(|shared| shared.packets.refused).sum::<u64>();
    let note = if lost > 0 {
        format!(
            "\n{lost} packets lost unintentionally (device full or down); see device_drops and \
             refused in `fabricmark lab show --json`\n"
        )
    } else {
        String::new()
    };
    let rows = output::aligned(&rows.collect::<Vec<_>>());
    format!("{head}{}\n{rows}{shared}{note}", output::aligned(&nodes))
}

fn node_row(NodeReport { name, kind, addresses }: &NodeReport) -> [String; 3] {
    let addresses: Vec<_> = addresses.iter().flatten().map(ToString::to_string).collect();
    [name.clone(), kind.clone(), addresses.join(" ")]
}

fn path_row(path: &PathReport) -> [String; 9] {
    let count = |packets: u64| packets.to_string();
    [
        path.link.clone(),
        path.from.clone(),
        path.to.clone(),
        count(path.packets.arrived),
        count(path.packets.departed),
        count(path.packets.held),
        count(path.packets.dropped),
        count(path.trains),
        match path.backend {
            Backend::Emulator => path.options.clone(),
            backend => format!("{backend}: {}", path.options),
        },
    ]
}

fn shared_row(shared: &SharedReport) -> [String; 6] {
    let SharedReport { name, does, packets } = shared;
    let Packets { arrived, departed, held, dropped, .. } = packets;
    let [arrived, departed, held, dropped] =
        [arrived, departed, held, dropped].map(ToString::to_string);
    [name.clone(), arrived, departed, held, dropped, does.clone()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(arrived: u64, departed: u64, held: u64, dropped: u64) -> Packets {
        Packets {
            arrived,
            departed,
            held,
            dropped,
            arrived_bytes: 0,
            departed_bytes: 0,
            refused: 0,
        }
    }

    #[test]
    fn a_lab_is_shown_with_what_was_lost_against_the_will_of_its_links() {
        let path = PathReport {
            link: "wan".to_owned(),
            from: "client".to_owned(),
            to: "server".to_owned(),
            backend: Backend::Netem,
            options: "rtt=400ms".to_owned(),
            packets: packets(1000, 990, 7, 3),
            duplicated: 0,
            device_drops: 2,
            paused_ns: 0,
            trains: 12,
        };
        let node = NodeReport {
            name: "client".to_owned(),
            kind: "host".to_owned(),
            addresses: vec![vec![[10, 71, 0, 1].into(), [0xfd71, 0, 0, 0, 0, 0, 0, 1].into()]],
        };
        let report = Report {
            name: "lfn".to_owned(),
            title: Some("long fat network".to_owned()),
            holder_pid: 1,
            nodes: vec![node],
            paths: vec![path],
            shared: vec![SharedReport {
                name: "s".to_owned(),
                does: "forwarding=store delay=500ns".to_owned(),
                packets: packets(5, 4, 0, 1),
            }],
        };
        assert_eq!(
            text(&report),
            "lab lfn (emulated): long fat network\n\nnode          addresses\nclient  host  \
             10.71.0.1 fd71::1\n\nlink  from    to        in  out  queued  dropped  super-packets  \
             options\nwan   client  server  1000  990       7        3             12  netem: \
             rtt=400ms\n\nshared  in  out  queued  dropped  options\ns        5    4       0        1  \
             forwarding=store delay=500ns\n\n2 packets lost unintentionally (device full or \
             down); see device_drops and refused in `fabricmark lab show --json`\n"
        );
    }
}
