//! Runs the rounds of the rows: each contender of a row once per round, in random order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabricmark_units::Stream;

use crate::contender::{Contender, Failure, Job};
use crate::emulator::Emulator;
use crate::fabricmark::stat_field;
use crate::judge::{Answer, ROUNDS_LEAST, Round, answer, are_known, dropped};
use crate::rows::{Against, BARE, EARLIER, OURS, Row};
use crate::work::{Figure, Path, Values, Work};

/// Rate of paced departures, as a share of the unpaced rate.
const SHARE_OF_CAPACITY: f64 = 0.2;

/// Rounds with peers of a row at a time, before it is the next one's turn.
const ROUNDS_AT_A_TIME: usize = 5;

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most rounds with peers per row; `None`: those of the workload.
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
    pub fn rounds(&self, work: Work) -> usize {
        self.pairs.unwrap_or_else(|| work.rounds()) as usize * work.rounds_per_peers()
    }

    /// Duration of its runs in seconds.
    pub fn seconds(&self, work: Work) -> f64 {
        self.seconds.unwrap_or_else(|| work.seconds())
    }
}

/// All possible contenders.
pub struct Field {
    pub ours: Box<dyn Contender>,
    /// The earlier version of fabricmark.
    pub earlier: Option<Box<dyn Contender>>,
    pub bare: Box<dyn Contender>,
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

/// A row and its rounds so far.
pub struct Playing<'a> {
    field: &'a Field,
    pub row: &'a Row,
    entrants: Vec<Entrant<'a>>,
    peers: Vec<&'static str>,
    job: Job<'a>,
    rounds_max: usize,
    /// Random order of the contenders in a round.
    order: Stream,
    /// The reasons of contenders that do not run again.
    refusals: Round,
    rounds: Vec<Round>,
}

impl Field {
    /// A row before its first round.
    pub fn begin<'a>(
        &'a self,
        row: &'a Row,
        settings: &'a Settings,
        stop: &'a AtomicBool,
    ) -> Playing<'a> {
        let entrants = self.entrants(row);
        let offering: BTreeSet<&str> = self.peers.iter().map(|peer| peer.name()).collect();
        let peers = entrants.iter().map(|e| e.name).filter(|name| offering.contains(name));
        Playing {
            field: self,
            row,
            peers: peers.collect(),
            entrants,
            job: Job {
                work: row.work,
                target: row.target,
                is_pinned: row.is_pinned,
                seconds: settings.seconds(row.work),
                rate_per_s: 0,
                congestion: &settings.congestion,
                stop,
            },
            rounds_max: settings.rounds(row.work),
            order: Stream::new(settings.seed, &format!("{} {}", row.name, row.target)),
            refusals: Round::new(),
            rounds: Vec::new(),
        }
    }

    fn entrants(&self, row: &Row) -> Vec<Entrant<'_>> {
        let ours: &dyn Contender = match row.work {
            Work::Emulated(_) => &Emulator::Ours,
            _ => self.ours.as_ref(),
        };
        let mut all = vec![Entrant { name: OURS, work: row.work, contender: ours }];
        for &(name, work) in &row.others {
            all.push(Entrant { name, work, contender: ours });
        }
        let asks_earlier = row.questions.iter().any(|one| one.against == Against::One(EARLIER));
        if let Some(earlier) = self.earlier.as_deref().filter(|_| asks_earlier) {
            all.push(Entrant { name: EARLIER, work: row.work, contender: earlier });
        }
        if let Some(work) = row.bare_does.filter(|work| self.bare.offers(*work)) {
            all.push(Entrant { name: BARE, work, contender: self.bare.as_ref() });
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

    /// Departure rate of a paced workload: a share of the received rate of unpaced datagrams, by fabricmark or else by
    /// the bare loop. Without a rate, every run fails and reports that.
    fn departures_per_s(&self, job: &Job<'_>) -> u64 {
        let unpaced = Job { work: Work::Datagrams { bytes: 64, path: Path::Copy }, ..*job };
        let arrived = self.ours.run(&unpaced).or_else(|_| self.bare.run(&unpaced));
        let capacity = arrived.ok().and_then(|values| values.get(&Figure::DatagramsPerS).copied());
        capacity.map_or(0, |rate| (rate * SHARE_OF_CAPACITY) as u64)
    }
}

impl Playing<'_> {
    /// Whether it needs no further round.
    pub fn is_over(&self) -> bool {
        let rounds = self.rounds.len();
        let is_known =
            || self.has_least() && are_known(&self.rounds, &self.peers, &self.row.questions);
        rounds >= self.rounds_max || is_known()
    }

    /// Whether it has enough rounds for a first look at its intervals.
    fn has_least(&self) -> bool {
        self.rounds.len() >= ROUNDS_LEAST * self.row.work.rounds_per_peers()
    }

    /// Runs up to `count` further rounds with peers, as far as it needs them. An interrupted round does not count.
    pub fn play(&mut self, count: usize, progress: &mut dyn FnMut(usize, &str)) {
        if self.rounds.is_empty() && matches!(self.job.work, Work::Departures { .. }) {
            self.job.rate_per_s = self.field.departures_per_s(&self.job);
        }
        for _ in 0..count * self.row.work.rounds_per_peers() {
            if self.is_over() {
                break;
            }
            let number = self.rounds.len() + 1;
            let Some(round) = self.round(&mut |who| progress(number, who)) else { break };
            self.rounds.push(round);
        }
    }

    /// Runs each contender once, in random order; `None` after an interrupt.
    fn round(&mut self, progress: &mut dyn FnMut(&str)) -> Option<Round> {
        let has_best = self.row.questions.iter().any(|one| one.against == Against::BestPeer);
        let dropped = match has_best {
            true => dropped(&self.rounds, &self.peers, self.row.work.figure()),
            false => Vec::new(),
        };
        let rests = |name: &str| {
            let is_with_peers = self.rounds.len().is_multiple_of(self.row.work.rounds_per_peers());
            dropped.contains(&name) || !is_with_peers && self.peers.contains(&name)
        };
        let mut round = self.refusals.clone();
        round.retain(|name, _| !rests(name));
        let mut places: Vec<usize> =
            (0..self.entrants.len()).filter(|&at| !rests(self.entrants[at].name)).collect();
        self.order.shuffle(&mut places);
        for &Entrant { name, work, contender } in places.iter().map(|&place| &self.entrants[place])
        {
            if self.job.stop.load(Relaxed) {
                return None;
            }
            if round.contains_key(name) {
                continue;
            }
            progress(name);
            let outcome = run(contender, &Job { work, ..self.job });
            if let Err(Failure::NotOffered(_)) = outcome {
                self.refusals.insert(name.to_owned(), outcome.clone().map_err(|e| e.to_string()));
            }
            round.insert(name.to_owned(), outcome.map_err(|failure| failure.to_string()));
        }
        (!self.job.stop.load(Relaxed)).then_some(round)
    }

    /// The answers of the rounds so far; `None` without a round.
    pub fn result(&self) -> Option<Played> {
        let Self { row, peers, rounds, .. } = self;
        let answers = row.questions.iter().map(|q| answer(rounds, peers, q)).collect();
        let played =
            Played { row: (*row).clone(), peers: peers.clone(), rounds: rounds.clone(), answers };
        (!rounds.is_empty()).then_some(played)
    }
}

/// Runs the rows in turn until each needs no further round, so that all have figures early, also for an interrupt, and the
/// rounds of each row lie apart: noise of the machine in one period decides none. After the limit of time, rows that have
/// [`ROUNDS_LEAST`] rounds begin no further ones. `progress` is told the place of the row, the round and the contender;
/// `keep` is called with the rows after each turn of all of them.
pub fn play_all(
    rows: &mut [Playing<'_>],
    limit: Option<Duration>,
    progress: &mut dyn FnMut(usize, usize, &str),
    keep: &mut dyn FnMut(&[Playing<'_>]),
) {
    let began = Instant::now();
    let needs_more = |row: &Playing<'_>| {
        let is_late = limit.is_some_and(|limit| began.elapsed() >= limit);
        !(row.is_over() || row.job.stop.load(Relaxed) || is_late && row.has_least())
    };
    while rows.iter().any(needs_more) {
        for (place, row) in rows.iter_mut().enumerate() {
            if needs_more(row) {
                row.play(ROUNDS_AT_A_TIME, &mut |round, who| progress(place, round, who));
            }
        }
        keep(rows);
    }
}

/// Performs a run; adds the share of a CPU that it used. A rate of 0 is a failure: iperf3 3.21 with `--gsro` reports one
/// for datagrams of 64 B.
fn run(contender: &dyn Contender, job: &Job<'_>) -> Result<Values, Failure> {
    let (began, before) = (Instant::now(), children_s());
    let mut values = contender.run(job)?;
    let figure = job.work.figure();
    if figure.is_rate() && values.get(&figure) == Some(&0.0) {
        return Err(Failure::Failed("nothing was received".to_owned()));
    }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::place::Target;
    use crate::rows::rows;
    use crate::work::value;

    /// Its rates are these, in turn.
    struct Alternating(Cell<[f64; 2]>);

    impl Contender for Alternating {
        fn name(&self) -> &'static str {
            "alternating"
        }

        fn offers(&self, _: Work) -> bool {
            true
        }

        fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
            let [rate, next] = self.0.get();
            self.0.set([next, rate]);
            Ok(value(job.work.figure(), rate))
        }
    }

    fn settings(pairs: u32) -> Settings {
        Settings { pairs: Some(pairs), seconds: None, seed: 1, congestion: String::new() }
    }

    /// Consecutive rounds of a row, as their number and its place, in the order in which they ran.
    fn turns(limit: Option<Duration>) -> Vec<(usize, usize)> {
        let with = |rates| -> Box<dyn Contender> { Box::new(Alternating(Cell::new(rates))) };
        let field = Field {
            ours: with([1e9, 2e9]),
            earlier: None,
            bare: with([1e9, 1e9]),
            peers: vec![with([1e9, 1e9])],
        };
        let (settings, stop) = (settings(20), AtomicBool::new(false));
        let row = rows(Target::Loopback).remove(0);
        let mut rows = [&row, &row].map(|row| field.begin(row, &settings, &stop));
        let mut turns: Vec<(usize, usize)> = Vec::new();
        let mut kept = 0;
        let mut note = |place, _, who: &str| match turns.last_mut() {
            _ if who != OURS => {}
            Some((rounds, last)) if *last == place => *rounds += 1,
            _ => turns.push((1, place)),
        };
        play_all(&mut rows, limit, &mut note, &mut |_| kept += 1);
        assert_eq!(2 * kept, turns.len());
        turns
    }

    #[test]
    fn a_rate_of_zero_is_a_failure() {
        let [nothing, something] = [0.0, 1e9]
            .map(|rate| -> Box<dyn Contender> { Box::new(Alternating(Cell::new([rate; 2]))) });
        let field = Field { ours: something, earlier: None, bare: nothing, peers: Vec::new() };
        let (settings, stop) = (settings(2), AtomicBool::new(false));
        let row = rows(Target::Loopback).remove(0);
        let mut playing = field.begin(&row, &settings, &stop);
        playing.play(2, &mut |_, _| {});
        for round in playing.result().unwrap().rounds {
            assert!(round[OURS].is_ok());
            assert_eq!(round[BARE], Err("nothing was received".to_owned()));
        }
    }

    #[test]
    fn peers_take_part_in_every_fifth_round_of_short_runs_and_in_every_third_of_streams() {
        for (row, rounds_per_peers) in [("UDP rr", 5), ("TCP stream", 3)] {
            let rounds = two_turns_with_peers(row);
            assert_eq!(rounds.len(), 2 * rounds_per_peers);
            for (number, round) in rounds.iter().enumerate() {
                let who: Vec<&str> = round.keys().map(String::as_str).collect();
                let always = vec![BARE, EARLIER, OURS];
                let all = [vec!["alternating"], always.clone()].concat();
                let expected = if number % rounds_per_peers == 0 { all } else { always };
                assert_eq!(who, expected, "{row} {number}");
            }
        }
    }

    fn two_turns_with_peers(name: &str) -> Vec<Round> {
        let same = || -> Box<dyn Contender> { Box::new(Alternating(Cell::new([1e5; 2]))) };
        let field =
            Field { ours: same(), earlier: Some(same()), bare: same(), peers: vec![same()] };
        let (settings, stop) = (settings(2), AtomicBool::new(false));
        let all = rows(Target::Loopback);
        let row = all.into_iter().find(|row| row.name.starts_with(name)).unwrap().earlier();
        let mut playing = field.begin(&row, &settings, &stop);
        playing.play(2, &mut |_, _| {});
        playing.result().unwrap().rounds
    }

    #[test]
    fn rows_take_turns_of_five_rounds_with_peers_and_have_ten_whatever_the_limit_of_time() {
        let whole: Vec<_> = [(15, 0), (15, 1)].repeat(4);
        assert_eq!(turns(None), whole);
        assert_eq!(turns(Some(Duration::ZERO)), whole[..4]);
    }
}
