//! `fabricmark measure`: measures one setting now, or compares several with the first.

mod fastest;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{IsTerminal, stdout};
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_control::{
    Iperf3Access, Peer, PlanError, Workers, link_towards, look_up, read_files, run_plan,
};
use fabricmark_interop::iperf3::{Credentials, Padding};
use fabricmark_plan::{
    Amount, Cpus, Factor, INTERVAL_MIN, INTERVALS_MAX, NONE, Pace, Pattern, Plan, Point, Role,
    STEADY_INTERVALS_MIN, Section, Topology, Transport, Wait, Where, overlay, settings,
    steady_interval,
};
use fabricmark_record::{Outcome, Record};
use fabricmark_report::{Experiment, Kept, Measured, Requirement, measured_json, measured_text};
use fabricmark_stats::StopRule;
use fabricmark_units::{Nanos, Percent};
use fabricmark_wire::Link;

use crate::calibration;
use crate::command::hosts::recover;
use crate::command::run::this_program;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::key;
use crate::levels::{AUTO, DATAGRAM_BYTES, REQUEST_BYTES, STREAM_BYTES};
use crate::options::measure::Measure;
use crate::options::{Ends, PeerKind};
use crate::output;
use crate::watch::{Telling, Watch};

/// Runs of each compared setting: the fewest from which a plan draws a conclusion.
const RUNS_TO_COMPARE: usize = 10;

/// Runs of each setting in slices, and their length: two settings take 5 s.
const RUNS_IN_SLICES: usize = 12;
const IN_SLICES: Nanos = Nanos::from_millis(120);

/// Default interval on a terminal, as in iperf3.
const INTERVAL_TO_WATCH: Nanos = Nanos::from_secs(1);

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// MTU assumed for a network without a description: Ethernet's.
const ETHERNET_MTU: u16 = 1500;

/// File with the system's congestion control.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Measures and prints.
pub fn measure(options: &Measure) -> Result<ExitCode, Failure> {
    let target = target(options)?;
    check_options(options, &target)?;
    check_cpus(options, &target)?;
    let of_path = |path: Option<fabricmark_plan::Path>| -> Result<Plan, Failure> {
        let mut levels = options.levels.0.clone();
        if let Some(path) = path {
            levels.insert(Factor::Path, path.to_string());
        }
        let mut plan = plan(options, &levels, &target)?;
        check_peer(&plan, &target)?;
        read_files(&mut plan, Path::new(""))?;
        choose_runs(&mut plan, options, &target);
        Ok(plan)
    };
    let is_auto = options.levels.0.get(&Factor::Path).is_some_and(|path| path == AUTO);
    if is_auto && !options.vs.is_empty() {
        let message = "--path auto chooses one path: name the paths with --vs, or leave it out";
        return Err(Failure::input(message));
    }
    let mut plan = of_path(is_auto.then_some(fastest::CANDIDATES[0]))?;
    recover();
    let is_on_link = plan.points.iter().any(|point| point.link != Link::Loopback);
    if is_on_link && matches!(target.peer, Peer::Here) {
        // The user namespace must be entered before the first thread starts.
        fabricmark_lab::acquire()?;
    }
    let interrupted = interruptions()?;
    let program = this_program()?;
    let instrument = fabricmark_load::instrument();
    let started = jiff::Timestamp::now().to_string();
    let is_server_silent = matches!(target.peer, Peer::Iperf3(_));
    let interval = plan.interval_ns;
    let mut watch = Watch::new(telling(options), options.format, is_server_silent, interval);
    let mut records: Vec<Record> = Vec::new();
    let mut keep = |kept: &[Record]| {
        records.extend_from_slice(kept);
        Ok(())
    };
    let calibration = calibration::of_this_machine();
    let workers =
        Workers { program: &program, peer: &target.peer, calibration: calibration.as_ref() };
    if is_auto {
        let mut run = |trials: &Plan| {
            let mut tried: Vec<Record> = Vec::new();
            let mut keep = |kept: &[Record]| {
                tried.extend_from_slice(kept);
                Ok(())
            };
            let mut watch = Watch::new(Telling::Quiet, options.format, is_server_silent, None);
            let result = run_plan(trials, &[], &mut keep, &workers, &mut watch, &interrupted);
            watch.clear();
            match result {
                Ok(_) | Err(PlanError::Nothing { .. }) => Ok(tried),
                Err(error) => Err(Failure::from(error)),
            }
        };
        let (path, text) = fastest::path(|path| of_path(Some(path)), &mut run)?;
        note!("{text}");
        plan = of_path(Some(path))?;
    }
    let result = run_plan(&plan, &[], &mut keep, &workers, &mut watch, &interrupted);
    watch.clear();
    let is_interrupted = interrupted.load(Relaxed);
    let has_results = records.iter().any(|record| !record.place.warm_up);
    // If no run is valid, the error is that of the first setting; with --json the records are printed too.
    let failed = match result {
        Err(PlanError::Nothing { cause, .. }) => cause.into(),
        _ => Code::RunFailed,
    };
    // What was measured until then is not lost.
    let stopped = match result {
        Ok(_) | Err(PlanError::Nothing { .. }) => None,
        Err(error) if has_results => Some(error),
        Err(error) => return Err(error.into()),
    };
    let is_whole = !is_interrupted && stopped.is_none();
    let names: Vec<String> = names(options);
    let failure = failure(&plan, &names, &records).filter(|_| is_whole);
    if let (Some(failure), false) = (&failure, options.json)
        && !records.iter().any(Record::counts)
    {
        return Err(Failure::new(failed, failure));
    }
    let reproduce = command_line();
    let experiment = Experiment {
        name: "measure",
        plan: &plan,
        records: &records,
        instrument: Some(instrument),
        started: &started,
        reproduce: &reproduce,
        planned_complete: true,
        quick: false,
    };
    let measured = Measured { experiment, names: &names, requirements: &options.require };
    if options.csv {
        output::print(&fabricmark_report::csv(&records))?;
    } else if telling(options) == Telling::Json {
        output::print(&format!("{}\n", measured_json(&measured)))?;
    } else {
        let text = || measured_text(&measured, options.format, output::width());
        output::answer(options.json, || measured_json(&measured), text)?;
    }
    if is_interrupted {
        return Err(Failure::interrupted());
    }
    if let Some(error) = stopped {
        return Err(Failure::from(error).and(Failure::ABOVE));
    }
    if let Some(failure) = failure {
        return Err(Failure::new(failed, failure));
    }
    Ok(match measured.kept() {
        Kept::Yes => ExitCode::SUCCESS,
        Kept::Inconclusive => Code::Inconclusive.into(),
        Kept::No => Code::Worse.into(),
    })
}

/// Names the first setting without a valid run, and the reason why its last run is invalid.
fn failure(plan: &Plan, names: &[String], records: &[Record]) -> Option<String> {
    plan.points.iter().zip(names).find_map(|(point, name)| {
        let runs = || records.iter().filter(|record| record.point == *point);
        let last = runs().rfind(|record| !record.place.warm_up);
        match last.map(|record| &record.outcome) {
            _ if runs().any(Record::counts) => None,
            Some(Outcome::Skipped(reason) | Outcome::Invalid(reason)) => {
                Some(format!("no valid run of {name}: {reason}"))
            }
            _ => None,
        }
    })
}

impl Measure {
    /// Amount that ends a run before its duration.
    fn amount(&self) -> Option<Amount> {
        self.bytes.or(self.count)
    }

    /// Maximum duration of a run.
    fn duration(&self) -> Nanos {
        let unless_told = if self.amount().is_some() { LONGEST } else { USUAL };
        self.duration.unwrap_or(unless_told)
    }
}

/// Default duration of a run.
const USUAL: Nanos = Nanos::from_secs(2);

/// Maximum duration of a run that ends by amount: one hour, in case nothing moves.
const LONGEST: Nanos = Nanos::from_secs(3600);

fn plan(options: &Measure, levels: &Where, target: &Target) -> Result<Plan, Failure> {
    let variants: Vec<Where> =
        options.vs.iter().map(|text| overlay(text)).collect::<Result<_, _>>()?;
    if let ([one], [text]) = (&variants[..], &options.vs[..]) {
        let baseline: Vec<String> = one.keys().map(|factor| format!("{factor}=...")).collect();
        return Err(Failure::input(format!(
            "--vs {text}: there is nothing to compare with; give the baseline first: --vs {} --vs {text}",
            baseline.join(",")
        )));
    }
    let pattern = Pattern::named(&options.pattern);
    let mut base = levels.clone();
    if target.topology.is_some() {
        let of_links =
            |factor: &&Factor| **factor == Factor::Link || factor.spec().section == Section::Link;
        let mut named = variants.iter().chain([&base]).flat_map(Where::keys);
        if let Some(factor) = named.find(of_links) {
            let message =
                format!("{factor} cannot be set with a topology file: set it in the file");
            return Err(Failure::input(message));
        }
    }
    let mut put = |factor, level: &str| {
        base.entry(factor).or_insert_with(|| level.to_owned());
    };
    if options.udp {
        put(Factor::Transport, Transport::Udp.word());
    }
    if options.reverse {
        put(Factor::Direction, "reverse");
    }
    if options.bidir {
        put(Factor::Direction, "both");
    }
    if let Some(rate) = &options.rate {
        put(Factor::Pace, rate);
    }
    if let Some(window) = &options.window {
        put(Factor::ReceiveBuffer, window);
        put(Factor::SendBuffer, window);
    }
    let given = base.clone();
    base.insert(Factor::Pattern, options.pattern.clone());
    base.insert(Factor::Link, target.link.clone());
    let mut put = |factor, level: &str| {
        base.entry(factor).or_insert_with(|| level.to_owned());
    };
    put(Factor::Transport, Transport::Tcp.word());
    put(Factor::Family, if target.is_v6() { "6" } else { "4" });
    if let Ok(congestion) = fs::read_to_string(CONGESTION) {
        put(Factor::Congestion, congestion.trim());
    }
    let has_datagrams = variants
        .iter()
        .chain([&base])
        .filter_map(|levels| Transport::named(levels.get(&Factor::Transport)?))
        .any(Transport::is_lossy);
    let payload = match pattern {
        Some(Pattern::Stream) if has_datagrams => DATAGRAM_BYTES,
        Some(Pattern::Stream) => STREAM_BYTES,
        Some(Pattern::Burst) => DATAGRAM_BYTES,
        _ => REQUEST_BYTES,
    };
    base.entry(Factor::Payload).or_insert_with(|| payload.to_owned());
    let runs = if variants.is_empty() { 1 } else { RUNS_TO_COMPARE };
    let stop = StopRule::of_runs(CONFIDENCE, runs);
    let mut plan = settings(&base, &variants, options.duration(), options.warm_up, stop)?;
    refuse_without_effect(&given, &variants, &plan)?;
    check_requirements(&options.require, &plan.points)?;
    plan.amount = options.amount();
    if plan.amount.is_some() && plan.points.iter().any(|point| point.prober().is_some()) {
        return Err(Failure::input(
            "a probe needs a load that ends by its duration: leave out -n and -k",
        ));
    }
    plan.omit_ns = options.omit.unwrap_or_default();
    plan.steady = options.steady.map(|Percent(share)| share);
    plan.cpus.clone_from(&options.cpu);
    plan.port = options.port;
    plan.seed = options.seed;
    plan.interval_ns = interval(options)?;
    plan.topology = target.topology.clone();
    if let Some(name) = target.name() {
        let link = plan.points[0].link;
        plan = plan.to_host(&name, Some(link))?;
        // That has removed them, and joined the settings that differed only in them.
        let is_of_link =
            |factor: &&Factor| **factor == Factor::Link || factor.spec().section == Section::Link;
        let mut factors = variants.iter().chain([&given]).flat_map(Where::keys);
        if let Some(factor) = factors.find(is_of_link) {
            return Err(Failure::input(format!(
                "{factor} cannot be set between hosts: use a lab, or leave it out{}",
                if *factor == Factor::Link { " (--link describes the network)" } else { "" }
            )));
        }
    }
    Ok(plan)
}

/// Refuses what an iperf3 server does not support.
fn check_peer(plan: &Plan, target: &Target) -> Result<(), Failure> {
    if !matches!(target.peer, Peer::Iperf3(_)) {
        return Ok(());
    }
    for point in &plan.points {
        if point.prober().is_some() {
            return Err(Failure::input("an iperf3 server supports no probe: leave --probe out"));
        }
        let loads = point.loads();
        let loads: Vec<&Point> = loads.iter().collect();
        fabricmark_interop::iperf3::check(&loads, plan.omit_ns, plan.amount.is_some())
            .map_err(|failure| Failure::input(failure.to_string()))?;
    }
    Ok(())
}

/// Refuses options without effect on this target.
fn check_options(options: &Measure, target: &Target) -> Result<(), Failure> {
    let (is_here, is_agent, is_iperf3) = match target.peer {
        Peer::Here => (true, false, false),
        Peer::Ends(_) => (false, false, false),
        Peer::Agents(_) => (false, true, false),
        Peer::Iperf3(_) => (false, false, true),
    };
    let options = [
        ("--peer iperf3", options.peer == PeerKind::Iperf3, is_iperf3),
        ("--username", options.username.is_some(), is_iperf3),
        ("--control", options.reach.control.is_some(), is_agent),
        ("--link", options.link.is_some(), !is_here),
    ];
    match options.into_iter().find(|(_, is_given, has_effect)| *is_given && !has_effect) {
        Some((option, ..)) => {
            let message = format!("{option} has no effect on this target: leave it out");
            Err(Failure::input(message))
        }
        None => Ok(()),
    }
}

/// Refuses a threshold on a figure that a setting does not have.
fn check_requirements(required: &[Requirement], points: &[Point]) -> Result<(), Failure> {
    for Requirement { figure, text, .. } in required {
        if let Some(point) = points.iter().find(|point| !figure.applies(point)) {
            let Point { pattern, transport, flows, .. } = point;
            let of = match flows {
                1 => format!("{pattern} over {transport} in one flow"),
                flows => format!("{pattern} over {transport} in {flows} flows"),
            };
            let name = figure.name();
            return Err(Failure::input(format!("--require {text}: {of} has no {name}")));
        }
    }
    Ok(())
}

/// Refuses levels that a user gave and that no setting uses.
fn refuse_without_effect(given: &Where, variants: &[Where], plan: &Plan) -> Result<(), Failure> {
    let is_idle = |factor: &Factor, level: &str, points: &[Point]| {
        level != NONE && points.iter().all(|point| point.level(*factor).is_empty())
    };
    let of_all = given.iter().find(|(factor, level)| is_idle(factor, level, &plan.points));
    let of_all = of_all.map(|level| (level, &plan.points[0]));
    let of_one = || {
        variants.iter().zip(&plan.points).find_map(|(variant, point)| {
            let points = std::slice::from_ref(point);
            let found = variant.iter().find(|(factor, level)| is_idle(factor, level, points))?;
            Some((found, point))
        })
    };
    let Some(((factor, level), point)) = of_all.or_else(of_one) else { return Ok(()) };
    let (pattern, transport, family) = (point.pattern, point.transport, point.family);
    let remedy = match factor {
        Factor::Threads if point.flows < 2 => "use several flows (-P), or leave it out",
        Factor::ReceiveLowat if point.wait == Wait::Spin => "use another wait, or leave it out",
        Factor::ReceiveLowat if point.pace != Pace::Closed => "use a closed loop, or leave it out",
        _ => "leave it out",
    };
    Err(Failure::input(format!(
        "{factor}={level} has no effect on {pattern} over {transport} and {family}: {remedy}"
    )))
}

/// Chooses slices or whole runs, and their number. The files of the plan have been read, since the RTT of a path through
/// a topology may be too long for slices.
fn choose_runs(plan: &mut Plan, options: &Measure, target: &Target) {
    // A given duration means whole runs, not slices, and an iperf3 server opens new flows for each run.
    let is_iperf3 = matches!(target.peer, Peer::Iperf3(_));
    plan.slices = options.duration.is_none()
        && options.omit.is_none()
        && options.steady.is_none()
        && !is_iperf3;
    if plan.takes_turns() {
        (plan.stop.runs_min, plan.stop.runs_max) = (RUNS_IN_SLICES, RUNS_IN_SLICES);
        plan.duration_ns = IN_SLICES;
    }
    if let Some(runs) = options.runs {
        (plan.stop.runs_min, plan.stop.runs_max) = (runs, runs);
    }
}

/// The remote end, and the network that leads to it.
struct Target {
    /// Link specification of the network.
    link: String,
    peer: Peer,
    /// Topology in which both ends are nodes.
    topology: Option<Topology>,
}

impl Target {
    /// Name of the other host as the user gave it; `None` on this machine.
    fn name(&self) -> Option<String> {
        match &self.peer {
            Peer::Here => None,
            Peer::Ends(ends) => Some(Plan::own_name(&Ends(*ends).to_string())),
            Peer::Agents(nodes) => nodes.values().next().map(|server| server.host.name.clone()),
            Peer::Iperf3(server) => Some(server.name.clone()),
        }
    }

    /// Whether all addresses of the other end are IPv6.
    fn is_v6(&self) -> bool {
        match &self.peer {
            Peer::Here => false,
            Peer::Ends(ends) => ends.iter().all(IpAddr::is_ipv6),
            Peer::Agents(nodes) => {
                nodes.values().flat_map(|agent| &agent.host.data).all(SocketAddr::is_ipv6)
            }
            Peer::Iperf3(access) => access.server.is_ipv6(),
        }
    }
}

/// Refuses CPUs that this machine does not have; the server's may be on another host.
fn check_cpus(options: &Measure, target: &Target) -> Result<(), Failure> {
    let Some([client, server]) = &options.cpu else { return Ok(()) };
    let known = fabricmark_host::cpus();
    let is_here = matches!(target.peer, Peer::Here | Peer::Ends(_));
    let named = [Some(client), is_here.then_some(server)].into_iter().flatten();
    match named.flat_map(Cpus::list).find(|cpu| !known.contains(cpu)) {
        Some(cpu) => {
            let known: Vec<String> = known.iter().map(u32::to_string).collect();
            let known = known.join(", ");
            Err(Failure::input(format!("--cpu: there is no CPU {cpu} here; use some of {known}")))
        }
        None => Ok(()),
    }
}

/// The two addresses of `--ends`, or `loopback`, `lab:` and a link, or a host.
fn target(options: &Measure) -> Result<Target, Failure> {
    if let Some(Ends(ends)) = options.ends {
        // A link without a description has no ceiling.
        let link = options.link.unwrap_or(Link::Veth { mtu: ETHERNET_MTU });
        return Ok(Target { link: link.to_string(), peer: Peer::Ends(ends), topology: None });
    }
    let text = options.target.as_deref().unwrap_or_default();
    if let Some(topology) = text.strip_prefix("lab:").and_then(Topology::named) {
        // The links are those of the topology.
        let link = Link::Veth { mtu: ETHERNET_MTU }.to_string();
        return Ok(Target { link, peer: Peer::Here, topology: Some(topology) });
    }
    let wanted = match text.strip_prefix("lab:") {
        None if options.peer == PeerKind::Iperf3 => return iperf3(options),
        None if text != "loopback" => {
            let agent = key::access(text, options.reach.control.as_deref(), &options.reach.key).map_err(|failure| {
                failure.and("other targets: loopback, lab:LINK such as lab:veth, or --ends ADDRESS,ADDRESS")
            })?;
            let link = options.link.or_else(|| agent.host.link()).unwrap_or(Link::Loopback);
            return Ok(Target {
                link: link.to_string(),
                peer: Peer::Agents(BTreeMap::from([(Role::Server.name().to_owned(), agent)])),
                topology: None,
            });
        }
        link => link.unwrap_or(text),
    };
    if wanted.contains(".toml") {
        let message =
            format!("invalid target `{text}`: name both nodes, lab:FILE.toml:CLIENT,SERVER");
        return Err(Failure::input(message));
    }
    let link = Factor::Link
        .level(wanted)
        .map_err(|error| Failure::input(format!("invalid target `{text}`: {error}")))?;
    Ok(Target { link, peer: Peer::Here, topology: None })
}

/// An iperf3 server, at its first address of the requested family.
fn iperf3(options: &Measure) -> Result<Target, Failure> {
    let name = match options.target.as_deref().unwrap_or_default() {
        "loopback" => "localhost",
        host => host,
    };
    let family = options.levels.0.get(&Factor::Family).map(String::as_str);
    let fits = |at: &SocketAddr| family.is_none_or(|family| at.is_ipv6() == (family == "6"));
    let port = if options.port > 0 { options.port } else { fabricmark_interop::iperf3::PORT };
    let found = look_up(name, port)?;
    let server = found.into_iter().find(fits).ok_or_else(|| {
        let message = format!("{name} has no address of IPv{}", family.unwrap_or("4"));
        Failure::new(Code::Unreachable, message)
    })?;
    let padding = if options.use_pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep };
    let credentials = match (&options.username, &options.rsa_public_key_path) {
        (Some(user), Some(key)) => Some(
            Credentials::from_environment(user, key, padding)
                .map_err(|error| Failure::new(Code::Missing, error.to_string()))?,
        ),
        _ => None,
    };
    let link = options.link.or_else(|| link_towards(server)).unwrap_or(Link::Loopback);
    let access = Iperf3Access { name: name.to_owned(), server, credentials };
    Ok(Target { link: link.to_string(), peer: Peer::Iperf3(access), topology: None })
}

/// Intervals are printed if requested, or each second on a terminal that shows one setting.
fn telling(options: &Measure) -> Telling {
    match options.interval {
        Some(_) if options.json => Telling::Json,
        Some(_) => Telling::Text,
        None if watches(options) => Telling::Text,
        None => Telling::Quiet,
    }
}

fn watches(options: &Measure) -> bool {
    !options.json
        && !options.csv
        && options.vs.is_empty()
        && options.runs.unwrap_or(1) == 1
        && stdout().is_terminal()
}

fn interval(options: &Measure) -> Result<Option<Nanos>, Failure> {
    let Some(asked) = options.interval else {
        let each_second = watches(options) && options.duration() > INTERVAL_TO_WATCH;
        let needed = options.steady.map(|_| steady_interval(options.duration()));
        return Ok(needed.or(each_second.then_some(INTERVAL_TO_WATCH)));
    };
    let count = options.duration().0.div_ceil(asked.0.max(1));
    if asked < INTERVAL_MIN || count > INTERVALS_MAX {
        let message = format!(
            "an interval of {asked} is out of range: use {INTERVAL_MIN} or more, and at most \
             {INTERVALS_MAX} intervals per run"
        );
        return Err(Failure::input(message));
    }
    if options.steady.is_some() && options.duration().0 < STEADY_INTERVALS_MIN * asked.0 {
        return Err(Failure::input(format!(
            "--steady needs at least {STEADY_INTERVALS_MIN} intervals: use a longer duration or a shorter interval"
        )));
    }
    Ok(Some(asked.min(options.duration())))
}

/// Names of the settings, as given on the command line.
fn names(options: &Measure) -> Vec<String> {
    if options.vs.is_empty() { vec![options.pattern.clone()] } else { options.vs.clone() }
}

/// The command line, quoted for a shell.
pub fn command_line() -> String {
    let words = env::args().skip(1).map(|word| {
        let is_plain = !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=./:,@+%".contains(&b));
        if is_plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    iter::once("fabricmark".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
