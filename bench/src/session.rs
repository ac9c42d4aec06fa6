//! Runs the rounds of a row: each contender once per round, in random order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use fabricmark_units::Stream;

use crate::bare::Bare;
use crate::contender::{Contender, Failure, Job};
use crate::emulator::Emulator;
use crate::fabricmark::{Fabricmark, stat_field};
use crate::judge::{Answer, ROUNDS_LEAST, Round, answer, are_known, dropped};
use crate::rows::{Against, BARE, OURS, Row};
use crate::work::{Figure, Path, Values, Work};

/// Rate of paced departures, as a share of the unpaced rate.
const SHARE_OF_CAPACITY: f64 = 0.2;

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most rounds per row; `None`: those of the workload.
    pub pairs: Option<u32>,
    /// Duration of a run in seconds; `None`: that of the workload.
    pub seconds: Option<f64>,
    /// Seed of the order within rounds.
    pub seed: u64,
    /// TCP congestion control on a veth pair.
    pub congestion: String,
}

impl Settings {
    /// Most rounds of a row with this workload.
    pub fn rounds(&self, work: Work) -> u32 {
        self.pairs.unwrap_or_else(|| work.rounds())
    }

    /// Duration of its runs in seconds.
    pub fn seconds(&self, work: Work) -> f64 {
        self.seconds.unwrap_or_else(|| work.seconds())
    }
}

/// All possible contenders.
pub struct Field {
    pub ours: Fabricmark,
    pub bare: Bare,
    /// The installed peers, and the emulators.
    pub peers: Vec<Box<dyn Contender>>,
}

/// A contender in a row, with its workload.
struct Entrant<'a> {
    name: &'static str,
    work: Work,
    contender: &'a dyn Contender,
}

/// Results of a row after its rounds.
#[derive(Clone, Debug)]
pub struct Played {
    pub row: Row,
    /// Peers with results, in the order of the table.
    pub peers: Vec<&'static str>,
    pub rounds: Vec<Round>,
    pub answers: Vec<Answer>,
}

impl Field {
    fn entrants(&self, row: &Row) -> Vec<Entrant<'_>> {
        let ours: &dyn Contender = match row.work {
            Work::Emulated(_) => &Emulator::Ours,
            _ => &self.ours,
        };
        let mut all = vec![Entrant { name: OURS, work: row.work, contender: ours }];
        for &(name, work) in &row.others {
            all.push(Entrant { name, work, contender: ours });
        }
        if let Some(work) = row.bare_does.filter(|work| self.bare.offers(*work)) {
            all.push(Entrant { name: BARE, work, contender: &self.bare });
        }
        if let Some(work) = row.peers_do {
            let offering = self.peers.iter().filter(|peer| peer.offers(work));
            all.extend(offering.map(|peer| Entrant {
                name: peer.name(),
                work,
                contender: peer.as_ref(),
            }));
        }
        all
    }

    /// Runs the rounds of a row, until its ratios are known well enough. After an interrupt, the finished rounds are
    /// evaluated.
    pub fn play(
        &self,
        row: &Row,
        settings: &Settings,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u32, &str),
    ) -> Played {
        let entrants = self.entrants(row);
        let job = Job {
            work: row.work,
            target: row.target,
            is_pinned: row.is_pinned,
            seconds: settings.seconds(row.work),
            rate_per_s: 0,
            congestion: &settings.congestion,
            stop,
        };
        let mut rounds = Vec::new();
        let mut order = Stream::new(settings.seed, &format!("{} {}", row.name, row.target));
        let job = self.with_rate(job);
        let mut refusals = Round::new();
        let offering: BTreeSet<&str> = self.peers.iter().map(|peer| peer.name()).collect();
        let peers: Vec<&'static str> =
            entrants.iter().map(|e| e.name).filter(|name| offering.contains(name)).collect();
        let has_best = row.questions.iter().any(|one| one.against == Against::BestPeer);
        for number in 1..=settings.rounds(row.work) {
            if rounds.len() >= ROUNDS_LEAST && are_known(&rounds, &peers, &row.questions) {
                break;
            }
            let dropped =
                if has_best { dropped(&rounds, &peers, row.work.figure()) } else { Vec::new() };
            let mut round = refusals.clone();
            let mut places: Vec<usize> =
                (0..entrants.len()).filter(|&at| !dropped.contains(&entrants[at].name)).collect();
            order.shuffle(&mut places);
            for &Entrant { name, work, contender } in places.iter().map(|&place| &entrants[place]) {
                if stop.load(Relaxed) {
                    break;
                }
                if round.contains_key(name) {
                    continue;
                }
                progress(number, name);
                let outcome = run(contender, &Job { work, ..job });
                if let Err(Failure::NotOffered(_)) = outcome {
                    refusals.insert(name.to_owned(), outcome.clone().map_err(|e| e.to_string()));
                }
                round.insert(name.to_owned(), outcome.map_err(|failure| failure.to_string()));
            }
            if stop.load(Relaxed) {
                break;
            }
            rounds.push(round);
        }
        let answers = row.questions.iter().map(|q| answer(&rounds, &peers, q)).collect();
        Played { row: row.clone(), peers, rounds, answers }
    }

    /// Sets the departure rate of a paced workload: a share of the received rate of unpaced datagrams, by fabricmark
    /// or else by the bare loop.
    fn with_rate<'a>(&self, job: Job<'a>) -> Job<'a> {
        if !matches!(job.work, Work::Departures { .. }) {
            return job;
        }
        let unpaced = Job { work: Work::Datagrams { bytes: 64, path: Path::Copy }, ..job };
        let arrived = self.ours.run(&unpaced).or_else(|_| self.bare.run(&unpaced));
        let capacity = arrived.ok().and_then(|values| values.get(&Figure::DatagramsPerS).copied());
        // Without a rate, every run fails and reports that.
        let rate_per_s = capacity.map_or(0, |rate| (rate * SHARE_OF_CAPACITY) as u64);
        Job { rate_per_s, ..job }
    }
}

/// Performs a run; adds the share of a CPU that it used.
fn run(contender: &dyn Contender, job: &Job<'_>) -> Result<Values, Failure> {
    let (began, before) = (Instant::now(), children_s());
    let mut values = contender.run(job)?;
    if let Some((before, after)) = before.zip(children_s()) {
        let share = (after - before) / began.elapsed().as_secs_f64();
        values.entry(Figure::CpuShare).or_insert(share);
    }
    Ok(values)
}

/// CPU time of all reaped child processes, in seconds (proc_pid_stat(5)).
fn children_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = stat_field(&stat, 16)? + stat_field(&stat, 17)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
pub mod sample {
    //! A result shared by tests of the output.

    use super::Played;
    use crate::judge::{Round, answer as judge};
    use crate::place::Target;
    use crate::rows::{BARE, OURS, rows};
    use crate::work::{Figure, value};

    /// The first row, a TCP stream, with two rounds: qperf fails in the second.
    pub fn result() -> Played {
        let row = rows(Target::Loopback).remove(0);
        let rate = |bps: f64| Ok(value(Figure::GoodputBps, bps));
        let round = |ours, qperf| -> Round {
            [(OURS, rate(ours)), ("iperf3", rate(10e9)), ("qperf", qperf), (BARE, rate(20e9))]
                .map(|(who, outcome)| (who.to_owned(), outcome))
                .into()
        };
        let rounds = vec![
            round(12e9, rate(5e9)),
            round(12e9, Err("its client ended with exit status: 1".to_owned())),
        ];
        let peers = vec!["iperf3", "qperf"];
        let answers = row.questions.iter().map(|q| judge(&rounds, &peers, q)).collect();
        Played { row, peers, rounds, answers }
    }
}
