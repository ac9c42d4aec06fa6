//! Runs a job: rank 0 directs, and all ranks carry out its orders, which it broadcasts.
//!
//! A warm-up round verifies each point and finds how many operations fill a slice. In each further round every point
//! has a slice, in random order, so that drift of the machine affects all points alike.

use fabricmark_plan::{Collective, Point};
use fabricmark_record::{MpiFacts, MpiJob, MpiLine, Traffic};
use fabricmark_units::Stream;

use crate::clock::{Clocks, now_ns};
use crate::facts;
use crate::operation::{Bench, Measured, Slice, iterations_for};
use crate::sys::{Call, Elements, MpiError, World};
use crate::tally::{Reading, Tally};
use crate::traffic::Meter;

/// Least time between two readings of the clock, in readings: they take 0.5 % of the time at most.
const READINGS: f64 = 200.0;

/// Largest number of timings of all ranks of a slice, 16 bytes each, which rank 0 gathers.
const TIMINGS_MAX: u64 = 1 << 20;

/// Largest number of timings of a slice: more do not make a percentile more accurate.
const TIMINGS_OF_SLICE_MAX: u64 = 10_000;

/// How far in the future operations at common times begin: the order reaches all ranks before.
const LEAD_NS: i64 = 2_000_000;

/// Room for what is wrong with a result.
const WRONG_MAX: usize = 512;

/// Why a job ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A call of MPI failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// An operation gave a wrong result.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// The job asks for something that its ranks cannot do.
    #[error("{0}")]
    Input(String),
    /// Messages between the ranks are damaged.
    #[error("a message between ranks cannot be read: {0}")]
    Message(String),
}

/// An order of rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The job is over.
    End,
    /// Measure the offsets of the clocks.
    Synchronise,
    /// Verify a point.
    Verify(usize),
    /// Carry out a slice of a point; whether it counts.
    Slice(usize, Slice, bool),
}

/// Numbers of an order on the way.
const ORDER: usize = 7;

impl Order {
    fn numbers(self) -> [i64; ORDER] {
        match self {
            Self::End => [0; ORDER],
            Self::Synchronise => [1, 0, 0, 0, 0, 0, 0],
            Self::Verify(point) => [2, point as i64, 0, 0, 0, 0, 0],
            Self::Slice(point, slice, counts) => [
                if counts { 3 } else { 4 },
                point as i64,
                i64::from(slice.timings),
                i64::from(slice.batch),
                slice.window_ns,
                slice.begin_ns,
                slice.computation as i64,
            ],
        }
    }

    fn read(numbers: [i64; ORDER]) -> Self {
        let [kind, point, timings, batch, window_ns, begin_ns, computation] = numbers;
        let point = point as usize;
        match kind {
            0 => Self::End,
            1 => Self::Synchronise,
            2 => Self::Verify(point),
            _ => {
                let (timings, batch) = (timings as u32, batch as u32);
                let computation = computation as u64;
                let slice = Slice { timings, batch, window_ns, begin_ns, computation };
                Self::Slice(point, slice, kind == 3)
            }
        }
    }
}

/// A rank of a job.
#[derive(Debug)]
pub struct Rank<'a> {
    world: &'a World,
    job: MpiJob,
    /// Reads the counters of this rank's host, if this rank is the one that does.
    meter: Option<Meter>,
    /// Traffic of each point.
    traffic: Vec<Vec<Traffic>>,
    memory: [Vec<u8>; 2],
    cache_bytes: usize,
}

/// Runs the job, which only rank 0 knows. `say` prints a line.
pub fn run(
    world: &World,
    job: Option<&MpiJob>,
    is_interrupted: &dyn Fn() -> bool,
    say: &mut dyn FnMut(MpiLine),
) -> Result<bool, JobError> {
    world.set_group(world.ranks())?;
    let job = share_job(world, job)?;
    let most = job.points.iter().map(Point::ranks).max().unwrap_or(2);
    if most > world.ranks() {
        let message = format!("the job has {} ranks, and a point needs {most}", world.ranks());
        return Err(JobError::Input(message));
    }
    let (facts, hosts) = facts::gather(world)?;
    let mut rank = Rank {
        world,
        meter: hosts.counts_traffic.then(Meter::new),
        traffic: vec![Vec::new(); job.points.len()],
        memory: [Vec::new(), Vec::new()],
        cache_bytes: facts::cache_bytes(),
        job,
    };
    let Some(facts) = facts else {
        rank.follow()?;
        return Ok(false);
    };
    facts::check_memory(&rank.job, &facts)?;
    let clocks = Clocks::new(&hosts.has_clock_of_0);
    Director { rank, clocks, hosts: hosts.host_of, is_interrupted, say }.direct(facts)
}

/// Broadcasts the job.
fn share_job(world: &World, job: Option<&MpiJob>) -> Result<MpiJob, JobError> {
    let text = job.map(|job| serde_json::to_vec(job).unwrap_or_default());
    let mut length = (text.as_ref().map_or(0, Vec::len) as u64).to_ne_bytes();
    broadcast(world, &mut length)?;
    let mut text = text.unwrap_or_else(|| vec![0; u64::from_ne_bytes(length) as usize]);
    broadcast(world, &mut text)?;
    serde_json::from_slice(&text).map_err(|error| JobError::Message(error.to_string()))
}

fn broadcast(world: &World, data: &mut [u8]) -> Result<(), MpiError> {
    let collective = Collective::Bcast;
    let call = call(collective, data.len());
    let unused = vec![0; data.len()];
    world.of_all(&call, &unused, data)
}

/// A collective operation on bytes with root 0.
pub const fn call(collective: Collective, payload: usize) -> Call {
    Call { collective, payload, elements: Elements::BYTES, root: 0, in_place: false }
}

impl Rank<'_> {
    /// Carries out orders until the job is over.
    fn follow(&mut self) -> Result<(), JobError> {
        loop {
            let mut numbers = [0_u8; 8 * ORDER];
            broadcast(self.world, &mut numbers)?;
            let mut order = [0; ORDER];
            for (number, bytes) in order.iter_mut().zip(numbers.chunks_exact(8)) {
                *number = i64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
            match Order::read(order) {
                Order::End => {
                    self.report_traffic()?;
                    return Ok(());
                }
                Order::Synchronise => {
                    self.regroup(self.world.ranks())?;
                    Clocks::synchronise(None, self.world)?;
                }
                Order::Verify(point) => {
                    self.verify(point)?;
                }
                Order::Slice(point, slice, counts) => {
                    self.slice(point, slice, counts, None)?;
                }
            }
        }
    }

    fn regroup(&self, ranks: u32) -> Result<(), MpiError> {
        if self.world.group() == ranks { Ok(()) } else { self.world.set_group(ranks) }
    }

    fn point(&self, index: usize) -> Result<Point, JobError> {
        let unknown = || JobError::Message(format!("no point {index}"));
        self.job.points.get(index).cloned().ok_or_else(unknown)
    }

    /// Verifies a point; returns what is wrong at each rank, and the number of compared elements, at rank 0.
    fn verify(&mut self, index: usize) -> Result<(u64, Option<String>), JobError> {
        let point = self.point(index)?;
        self.regroup(point.ranks())?;
        let mut told = vec![0; WRONG_MAX];
        if self.world.is_in_group() {
            let memory = std::mem::take(&mut self.memory);
            let mut bench = Bench::new(self.world, &point, self.cache_bytes, memory)?;
            let name = point.benchmark.map_or("", |benchmark| benchmark.word());
            match bench.verify(name)? {
                Ok(elements) => told[..8].copy_from_slice(&elements.to_ne_bytes()),
                Err(wrong) => {
                    let text = wrong.to_string().into_bytes();
                    let length = text.len().min(WRONG_MAX - 9);
                    told[8] = 1;
                    told[9..9 + length].copy_from_slice(&text[..length]);
                }
            }
            self.memory = bench.close()?;
        }
        let mut all = vec![0; WRONG_MAX * self.world.ranks() as usize];
        self.world.of_all(&call(Collective::Gather, WRONG_MAX), &told, &mut all)?;
        let (mut elements, mut wrong) = (0, None);
        for told in all.chunks(WRONG_MAX) {
            elements += u64::from_ne_bytes(told[..8].try_into().unwrap_or_default());
            if told[8] == 1 && wrong.is_none() {
                let text = String::from_utf8_lossy(&told[9..]);
                wrong = Some(text.trim_end_matches('\0').to_owned());
            }
        }
        Ok((elements, wrong))
    }

    /// Carries out a slice. Returns what each rank of the group measured, and the common start of the first operation, at
    /// rank 0, which knows the clocks of all.
    fn slice(
        &mut self,
        index: usize,
        mut slice: Slice,
        counts: bool,
        clocks: Option<&Clocks>,
    ) -> Result<(Vec<Measured>, i64), JobError> {
        let point = self.point(index)?;
        let world = self.world;
        self.regroup(point.ranks())?;
        if !world.is_in_group() {
            return Ok((Vec::new(), 0));
        }
        let before = self.meter.as_mut().filter(|_| counts).map(Meter::before);
        let memory = std::mem::take(&mut self.memory);
        let mut bench = Bench::new(world, &point, self.cache_bytes, memory)?;
        let mut begin_ns = 0;
        // After the turns of other points, the first operation takes longer, which matters to short ones.
        if slice.timings > 1 {
            bench.slice(Slice { timings: 1, batch: 1, ..Slice::default() })?;
        }
        if slice.window_ns > 0 {
            begin_ns = now_ns() + LEAD_NS;
            let own_ns = |rank| clocks.map_or(0, |clocks| clocks.own_ns(rank, begin_ns));
            let ranks = 0..world.group() as usize;
            let starts: Vec<u8> = ranks.flat_map(|rank| own_ns(rank).to_ne_bytes()).collect();
            let mut own = [0; 8];
            let scatter = world.ready(&call(Collective::Scatter, 8))?;
            world.collective(&scatter, &starts, &mut own)?;
            slice.begin_ns = i64::from_ne_bytes(own);
        }
        let measured = bench.slice(slice)?;
        bench.barrier()?;
        self.memory = bench.close()?;
        if let (Some(before), Some(meter)) = (before, &mut self.meter) {
            add(&mut self.traffic[index], meter.now().since(&before));
        }
        Ok((gather_measured(world, &measured, slice.timings as usize)?, begin_ns))
    }

    /// Sends the traffic of all points to rank 0, which returns them by rank.
    fn report_traffic(&mut self) -> Result<Vec<Vec<Vec<Traffic>>>, JobError> {
        let world = self.world;
        self.regroup(world.ranks())?;
        let own = std::mem::take(&mut self.traffic);
        let text = serde_json::to_vec(&own).unwrap_or_default();
        let mut lengths = vec![0; 8 * world.ranks() as usize];
        let length = (text.len() as u64).to_ne_bytes();
        world.of_all(&call(Collective::Gather, 8), &length, &mut lengths)?;
        if world.rank() > 0 {
            world.send(&text, Elements::BYTES, 0)?;
            return Ok(Vec::new());
        }
        let mut all = vec![own];
        for (from, length) in (1..world.ranks()).zip(lengths.chunks_exact(8).skip(1)) {
            let length = u64::from_ne_bytes(length.try_into().unwrap_or_default());
            let mut text = vec![0; length as usize];
            world.receive(&mut text, Elements::BYTES, from)?;
            let error = |error: serde_json::Error| JobError::Message(error.to_string());
            all.push(serde_json::from_slice(&text).map_err(error)?);
        }
        Ok(all)
    }
}

/// Adds the bytes of devices to a list of them.
fn add(all: &mut Vec<Traffic>, more: Vec<Traffic>) {
    for traffic in more {
        match all.iter_mut().find(|known| known.is_device_of(&traffic)) {
            Some(known) => known.bytes += traffic.bytes,
            None => all.push(traffic),
        }
    }
}

/// Gathers what the ranks of the group measured; each has at most `timings` timings.
fn gather_measured(
    world: &World,
    measured: &Measured,
    timings: usize,
) -> Result<Vec<Measured>, JobError> {
    let mut own: Vec<i64> =
        vec![measured.timings.len() as i64, measured.both_ns, measured.computation_ns];
    own.extend(measured.timings.iter().flat_map(|&(start, end)| [start, end]));
    let numbers = 3 + 2 * timings;
    own.resize(numbers, 0);
    let bytes: Vec<u8> = own.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let mut all = vec![0; bytes.len() * world.group() as usize];
    let gather = world.ready(&call(Collective::Gather, bytes.len()))?;
    world.collective(&gather, &bytes, &mut all)?;
    if world.rank() > 0 {
        return Ok(Vec::new());
    }
    let of_rank = |bytes: &[u8]| {
        let number = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let numbers: Vec<i64> = bytes.chunks_exact(8).map(number).collect();
        let timings = numbers[3..].chunks_exact(2).take(numbers[0] as usize);
        Measured {
            timings: timings.map(|pair| (pair[0], pair[1])).collect(),
            both_ns: numbers[1],
            computation_ns: numbers[2],
        }
    };
    Ok(all.chunks_exact(8 * numbers).map(of_rank).collect())
}

/// Rank 0.
struct Director<'a> {
    rank: Rank<'a>,
    clocks: Clocks,
    /// Host of each rank.
    hosts: Vec<u32>,
    is_interrupted: &'a dyn Fn() -> bool,
    say: &'a mut dyn FnMut(MpiLine),
}

impl Director<'_> {
    /// Directs the job; returns whether it was interrupted.
    fn direct(mut self, facts: MpiFacts) -> Result<bool, JobError> {
        self.order(Order::Synchronise)?;
        let facts = MpiFacts { clock_error_ns: self.clocks.error_ns(), ..facts };
        if self.clocks.doubt_ns() > 0 {
            let message = format!(
                "the clocks of ranks on one host differ by {} ns more than the error of the \
                 measurement",
                self.clocks.doubt_ns()
            );
            return Err(JobError::Message(message));
        }
        (self.say)(MpiLine::Started(facts.clone()));
        let MpiJob { points, slice_ns, rounds, seed } = self.rank.job.clone();
        let mut tallies: Vec<Tally> = points.iter().map(|_| Tally::default()).collect();
        let mut order: Vec<usize> = (0..points.len()).collect();
        let mut slices: Vec<Slice> = Vec::new();
        let all_rounds = rounds + 1;
        for (index, point) in points.iter().enumerate() {
            if (self.is_interrupted)() {
                break;
            }
            tallies[index].verified(self.verify(index)?);
            let room = TIMINGS_MAX / u64::from(point.ranks()).max(1);
            let read_cost_ns = facts.clock.read_cost_ns;
            slices.push(self.calibrate(index, slice_ns.0 as f64, room, read_cost_ns)?);
        }
        (self.say)(MpiLine::Round { done: 1, of: all_rounds });
        let mut stream = Stream::new(seed, "order of slices");
        'rounds: for round in 0..rounds {
            stream.shuffle(&mut order);
            if !self.clocks.are_one() {
                self.order(Order::Synchronise)?;
            }
            for &index in &order {
                if (self.is_interrupted)() {
                    break 'rounds;
                }
                self.measure(index, &mut slices[index], &mut tallies[index])?;
            }
            (self.say)(MpiLine::Round { done: round + 2, of: all_rounds });
        }
        self.broadcast(Order::End)?;
        let traffic = self.rank.report_traffic()?;
        for (point, tally) in tallies.into_iter().enumerate() {
            let mut result = tally.finish();
            for (rank, traffic) in traffic.iter().enumerate() {
                let of_point = traffic.get(point).into_iter().flatten();
                result.traffic.extend(
                    of_point.map(|sent| Traffic { host: self.hosts[rank], ..sent.clone() }),
                );
            }
            (self.say)(MpiLine::Measured { point, result: Box::new(result) });
        }
        let is_interrupted = (self.is_interrupted)();
        (self.say)(MpiLine::Ended { is_interrupted, clock_error_ns: self.clocks.error_ns() });
        Ok(is_interrupted)
    }

    fn broadcast(&mut self, order: Order) -> Result<(), JobError> {
        let mut bytes: Vec<u8> =
            order.numbers().iter().flat_map(|number| number.to_ne_bytes()).collect();
        broadcast(self.rank.world, &mut bytes)?;
        Ok(())
    }

    fn order(&mut self, order: Order) -> Result<Vec<Measured>, JobError> {
        self.broadcast(order)?;
        match order {
            Order::Synchronise => {
                self.rank.regroup(self.rank.world.ranks())?;
                Clocks::synchronise(Some(&mut self.clocks), self.rank.world)?;
            }
            Order::Slice(point, slice, counts) => {
                return Ok(self.rank.slice(point, slice, counts, Some(&self.clocks))?.0);
            }
            Order::End | Order::Verify(_) => {}
        }
        Ok(Vec::new())
    }

    fn verify(&mut self, point: usize) -> Result<u64, JobError> {
        self.broadcast(Order::Verify(point))?;
        let (elements, wrong) = self.rank.verify(point)?;
        match wrong {
            None => Ok(elements),
            Some(wrong) => {
                self.broadcast(Order::End)?;
                self.rank.report_traffic()?;
                Err(JobError::Wrong(wrong))
            }
        }
    }

    /// Finds how many operations fill a slice, and how many of them a reading of the clock may cover. `room` limits the
    /// number of timings.
    fn calibrate(
        &mut self,
        index: usize,
        slice_ns: f64,
        room: u64,
        read_cost_ns: f64,
    ) -> Result<Slice, JobError> {
        let point = self.rank.point(index)?;
        let has_window = point.sync == Some(fabricmark_plan::Sync::Window);
        let is_synchronised = point.is_synchronised();
        let is_non_blocking = point.benchmark.is_some_and(|benchmark| {
            matches!(benchmark.traits().action, fabricmark_plan::Action::NonBlocking(_))
        });
        let mut trial = Slice { timings: 1, batch: 1, ..Slice::default() };
        // The first operation of a point may set up connections.
        self.order(Order::Slice(index, trial, false))?;
        let (mut operation_ns, mut cycle_ns);
        loop {
            let start_ns = now_ns();
            let found = self.order(Order::Slice(index, trial, false))?;
            let took_ns = (now_ns() - start_ns) as f64;
            let timings =
                found.first().map(|measured| measured.timings.as_slice()).unwrap_or_default();
            let count = f64::from(trial.timings);
            let own_ns: i64 = timings.iter().map(|(start, end)| end - start).sum();
            operation_ns = (own_ns as f64 / count).max(1.0);
            let span_ns = match (timings.first(), timings.last()) {
                (Some((start, _)), Some((_, end))) => (end - start) as f64,
                _ => took_ns,
            };
            cycle_ns = (span_ns / count).max(operation_ns);
            if span_ns >= slice_ns / 4.0
                || u64::from(trial.timings) >= room.min(TIMINGS_OF_SLICE_MAX)
            {
                break;
            }
            let grown = (f64::from(trial.timings) * (slice_ns / 3.0) / span_ns.max(1.0)).ceil();
            let most = (10 * trial.timings).min(room.min(TIMINGS_OF_SLICE_MAX) as u32);
            trial.timings = (grown as u32).clamp(trial.timings + 1, most.max(trial.timings + 1));
        }
        let mut slice = Slice { timings: 1, batch: 1, ..Slice::default() };
        if is_non_blocking {
            slice.computation = iterations_for(operation_ns);
            cycle_ns += 2.0 * operation_ns;
        }
        if has_window {
            // That of a non-blocking operation has room for a second one beside the computation.
            let operations = if is_non_blocking { 2.0 } else { 1.0 };
            slice.window_ns = (operations * (3.0 * operation_ns + 5_000.0)) as i64;
            cycle_ns = slice.window_ns as f64;
        }
        let operations = (slice_ns / cycle_ns).floor().max(1.0);
        let most = room.min(TIMINGS_OF_SLICE_MAX) as f64;
        if !is_synchronised && !is_non_blocking {
            let by_cost = (READINGS * read_cost_ns / operation_ns).ceil();
            let by_room = (operations / most).ceil();
            slice.batch = by_cost.max(by_room).clamp(1.0, operations) as u32;
        }
        slice.timings = (operations / f64::from(slice.batch)).round().clamp(1.0, most) as u32;
        Ok(slice)
    }

    /// Carries out a slice that counts.
    fn measure(
        &mut self,
        index: usize,
        slice: &mut Slice,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let point = self.rank.point(index)?;
        self.broadcast(Order::Slice(index, *slice, true))?;
        let (measured, begin_ns) = self.rank.slice(index, *slice, true, Some(&self.clocks))?;
        let reading = reading(&point, *slice, begin_ns);
        let late = tally.late();
        tally.add(&reading, &self.clocks, &measured);
        // A tenth of the operations may be late: a longer window wastes time.
        if 10 * (tally.late() - late) > u64::from(slice.timings) {
            slice.window_ns += slice.window_ns / 2;
        }
        Ok(())
    }
}

/// How the timings of a point are read.
fn reading(point: &Point, slice: Slice, begin_ns: i64) -> Reading {
    use fabricmark_plan::Action;
    let action = point.benchmark.map(|benchmark| benchmark.traits().action);
    let is_of_rank_0 =
        matches!(action, Some(Action::PingPong | Action::Put | Action::Get | Action::Accumulate));
    Reading {
        is_synchronised: point.is_synchronised(),
        is_contiguous: !matches!(action, Some(Action::NonBlocking(_))),
        ranks: if is_of_rank_0 { 1 } else { point.ranks() as usize },
        per_iteration: point.benchmark.map_or(1.0, |benchmark| f64::from(benchmark.operations())),
        batch: slice.batch,
        window_ns: slice.window_ns,
        begin_ns,
    }
}
