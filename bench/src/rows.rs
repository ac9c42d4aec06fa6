//! The rows of the benchmark: workload, contenders, and goals.

mod emulated;

use crate::place::Target;
use crate::work::{Figure, Path, Process, Transport, Verb, Wait, Work};

/// Name of fabricmark among the contenders.
pub const OURS: &str = "fabricmark";

/// Name of the bare loop.
pub const BARE: &str = "bare loop";

/// Name of the earlier version of fabricmark, that of `--earlier`.
pub const EARLIER: &str = "earlier";

/// Reference for fabricmark's figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Against {
    /// The peer with the best median.
    BestPeer,
    /// A contender, by name.
    One(&'static str),
    /// No reference: the figure itself must be within a limit.
    Itself,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// A ratio of at least this.
    AtLeast(f64),
    /// A ratio of at most this.
    AtMost(f64),
    /// A ratio between these.
    Between(f64, f64),
    /// A figure below this, in its unit.
    Below(f64),
    /// A figure of at least this, in its unit.
    Above(f64),
}

/// A comparison in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The figure that is compared.
    pub figure: Figure,
    /// Reference of the comparison.
    pub against: Against,
    /// The goal; `None` if the ratio is only shown.
    pub goal: Option<Goal>,
}

/// Name and workload of a further run of fabricmark, for comparison.
pub type Other = (&'static str, Work);

/// A workload on one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    pub target: Target,
    /// As in [`crate::contender::Job`].
    pub is_pinned: bool,
    /// Workload of fabricmark.
    pub work: Work,
    /// Workload of the peers; `None` if there are none.
    pub peers_do: Option<Work>,
    /// Workload of the bare loop; `None` if there is none.
    pub bare_does: Option<Work>,
    pub others: Vec<Other>,
    pub questions: Vec<Question>,
}

impl Row {
    fn new(name: String, target: Target, work: Work) -> Self {
        Self {
            name,
            target,
            is_pinned: true,
            work,
            peers_do: None,
            bare_does: None,
            others: Vec::new(),
            questions: Vec::new(),
        }
    }

    /// Adds the earlier version of fabricmark to a row whose figure is a rate of the program, with the goal of the bare
    /// loop in rows that block.
    pub fn earlier(self) -> Self {
        let figure = self.work.figure();
        let is_by_program = self.target != Target::Emulated && figure.is_rate();
        let goal = Some(Goal::AtLeast(0.98));
        if is_by_program { self.ask(figure, Against::One(EARLIER), goal) } else { self }
    }

    /// Lets each program place its threads and wait by its defaults.
    fn unpinned(self) -> Self {
        Self { is_pinned: false, ..self }
    }

    fn ask(mut self, figure: Figure, against: Against, goal: Option<Goal>) -> Self {
        self.questions.push(Question { figure, against, goal });
        self
    }

    /// Adds peers with this workload; fabricmark must reach this share of the best.
    fn peers(mut self, work: Work, at_least: f64) -> Self {
        self.peers_do = Some(work);
        self.ask(work.figure(), Against::BestPeer, Some(Goal::AtLeast(at_least)))
    }

    /// Adds the bare loop, with a goal for the ratio to it.
    fn bare(mut self, goal: Option<Goal>) -> Self {
        self.bare_does = Some(self.work);
        let figure = self.work.figure();
        self.ask(figure, Against::One(BARE), goal)
    }
}

/// All rows on a network.
pub fn rows(target: Target) -> Vec<Row> {
    if target == Target::Emulated {
        return emulated::rows();
    }
    if let Target::Adapters(_) = target {
        return verbs(target);
    }
    let mut rows = Vec::new();
    for (bytes, of_bare) in [(131_072, 0.98), (64, 0.97), (1024, 0.97)] {
        let work = Work::Stream { bytes };
        let name = format!("TCP stream, {} writes", size(bytes));
        let row = Row::new(name, target, work).peers(work, 1.0);
        rows.push(row.bare(Some(Goal::AtLeast(of_bare))));
    }
    for bytes in [131_072, 64, 1024] {
        let name = format!("TCP stream, {} writes, SO_RCVLOWAT", size(bytes));
        let row = Row::new(name, target, Work::StreamWithLowat { bytes });
        rows.push(row.peers(Work::Stream { bytes }, 1.0).bare(Some(Goal::AtLeast(0.97))));
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        for bytes in [1, 64] {
            for (wait, how, of_bare) in
                [(Wait::Block, "blocking", 0.98), (Wait::Spin, "spinning", 0.99)]
            {
                let work = Work::Rr { transport, bytes, wait, flows: 1 };
                let transport = transport.to_string().to_uppercase();
                let name = format!("{transport} rr, {}, {how}", size(bytes));
                let row = Row::new(name, target, work).peers(work, 1.0);
                rows.push(row.bare(Some(Goal::AtLeast(of_bare))));
            }
        }
    }
    let crr = |how: &str, flows, threads| {
        let work = Work::Crr { flows, threads };
        Row::new(format!("TCP crr, 1 B{how}"), target, work).peers(work, 1.0)
    };
    rows.push(crr("", 1, 1).bare(Some(Goal::AtLeast(0.98))));
    rows.push(crr(", 100 at once", 100, 1));
    rows.push(crr(", 2 threads", 2, 2).unpinned());
    for bytes in [64, 1024] {
        let plain = Work::Datagrams { bytes, path: Path::Copy };
        let name = |path: &str| format!("UDP stream, {}, {path}", size(bytes));
        rows.push(Row::new(name("copy"), target, plain).peers(plain, 1.0).bare(None));
        let batched = Work::Datagrams { bytes, path: Path::Mmsg };
        rows.push(Row::new(name("mmsg"), target, batched).peers(plain, 1.05).bare(None));
        let joined = Work::Datagrams { bytes, path: Path::Gso };
        let row = Row::new(name("gso"), target, joined).peers(joined, 1.2);
        rows.push(row.bare(Some(Goal::AtLeast(0.98))));
    }
    for (is_stream, what) in [(true, "TCP stream, 128 KiB writes"), (false, "TCP rr, 64 B")] {
        let work = Work::Threads { threads: 2, is_stream };
        rows.push(Row::new(format!("{what}, 2 threads"), target, work).peers(work, 1.0).unpinned());
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        let stream = match transport {
            Transport::Tcp => Work::Stream { bytes: 131_072 },
            Transport::Udp => Work::Datagrams { bytes: 1024, path: Path::Copy },
        };
        let rr = Work::Rr { transport, bytes: 64, wait: Wait::Block, flows: 1 };
        for (what, work) in [("stream", stream), ("rr", rr)] {
            let transport = transport.to_string().to_uppercase();
            let name = format!("{transport} {what}, defaults");
            rows.push(Row::new(name, target, work).peers(work, 1.0).unpinned());
        }
    }
    rows.push(many_flows(target));
    let departures = |how: &str| format!("departures at 20 % of capacity, {how}");
    let asleep = Work::Departures { wait: Wait::Block };
    let row = Row::new(departures("asleep"), target, asleep).bare(Some(Goal::AtMost(1.1)));
    rows.push(row.ask(Figure::CpuShare, Against::Itself, None));
    let spinning = Work::Departures { wait: Wait::Spin };
    let awake = Row::new(departures("asleep, then spinning"), target, spinning);
    let goal = Some(Goal::Below(3_000.0));
    let awake = awake.ask(Figure::SlipWithoutPausesP99Ns, Against::Itself, goal);
    let awake = awake.ask(Figure::SlipP99Ns, Against::Itself, None);
    rows.push(awake.ask(Figure::CpuShare, Against::Itself, None));
    if target == Target::Loopback {
        rows.extend([Process::Agent, Process::Worker].map(|process| idle(target, process)));
    }
    rows
}

/// Goal for the ratio of an RTT to that of perftest: emulated CPUs have a clock tick of 4 ms.
const ALIKE: Goal = Goal::Between(0.9, 1.1);

/// RDMA reliable connections: RTT of each verb, and streams of each, with short and long messages.
fn verbs(target: Target) -> Vec<Row> {
    let verbs = [Verb::Send, Verb::Write, Verb::Read];
    let mut rows = Vec::new();
    for bytes in [64, 65_536] {
        let all =
            [false, true].into_iter().flat_map(|is_stream| verbs.map(|verb| (verb, is_stream)));
        for (verb, is_stream) in all {
            let work = Work::Verbs { verb, bytes, is_stream };
            let (what, figures) = match is_stream {
                true => ("stream", [Figure::GoodputBps; 2]),
                false => ("round trip", [Figure::RttP50Ns, Figure::RttMeanNs]),
            };
            let mut row = Row::new(format!("RDMA {verb}, {what}, {}", size(bytes)), target, work);
            row.peers_do = Some(work);
            let goal = if is_stream { Goal::AtLeast(0.95) } else { ALIKE };
            let row = row.ask(figures[0], Against::One("perftest"), Some(goal));
            rows.push(row.ask(figures[1], Against::One("qperf"), None));
        }
    }
    rows
}

fn many_flows(target: Target) -> Row {
    let of = |flows| Work::Rr { transport: Transport::Tcp, bytes: 64, wait: Wait::Block, flows };
    let mut row = Row::new("TCP rr, 64 B, 10,000 flows".to_owned(), target, of(10_000));
    row.others = vec![("100 flows", of(100)), ("1,000 flows", of(1000))];
    row.bare(None)
        .ask(Figure::TransactionsPerS, Against::One("100 flows"), Some(Goal::AtLeast(0.9)))
        .ask(Figure::TransactionsPerS, Against::One("1,000 flows"), None)
        .ask(Figure::MemoryPerFlowBytes, Against::Itself, Some(Goal::Below(48.0 * 1024.0)))
}

fn idle(target: Target, process: Process) -> Row {
    // Less than a tick per run, the kernel's resolution of CPU time.
    Row::new(format!("idle {process}"), target, Work::Idle(process))
        .ask(Figure::CpuShare, Against::Itself, Some(Goal::Below(0.005)))
        .ask(Figure::ResidentBytes, Against::Itself, Some(Goal::Below(8.0 * 1024.0 * 1024.0)))
        .ask(Figure::AnonymousBytes, Against::Itself, None)
}

/// Formats a payload size.
fn size(bytes: u32) -> String {
    if bytes >= 1024 { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;
    use crate::emulator::{Emulator, OTHERS};

    #[test]
    fn no_two_rows_of_a_network_have_one_name() {
        let mut names: Vec<String> =
            rows(Target::Loopback).into_iter().map(|row| row.name).collect();
        assert_eq!(names.len(), 34);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 34);
    }

    #[test]
    fn each_question_is_about_somebody_who_takes_part() {
        let adapters = Target::Adapters([std::net::IpAddr::from([10, 9, 0, 1]); 2]);
        for row in [rows(Target::Veth), rows(Target::Emulated), rows(adapters)].concat() {
            for question in &row.questions {
                let is_there = match question.against {
                    Against::BestPeer => row.peers_do.is_some(),
                    Against::One(BARE) => row.bare_does.is_some(),
                    Against::One(_) if row.target == adapters => row.peers_do.is_some(),
                    Against::One(name) => {
                        let is_emulator = |other: &Emulator| {
                            other.name() == name
                                && row.peers_do.is_some_and(|work| other.offers(work))
                        };
                        row.others.iter().any(|other| other.0 == name)
                            || OTHERS.iter().any(is_emulator)
                    }
                    Against::Itself => true,
                };
                assert!(is_there, "{}: {question:?}", row.name);
            }
        }
    }
}
