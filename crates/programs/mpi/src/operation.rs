//! The operations of benchmarks, as IMB has them, and the loop that times them: the hot loop of this program.

use std::hint::black_box;

use fabricmark_plan::{Action, Buffers, Collective, Datatype, Point, Root, Sync, WINDOW};

use crate::buffer::Buffer;
use crate::clock::now_ns;
use crate::sys::{Call, Elements, MpiError, Ready, Window, World};
use crate::verify;

/// Roots with which an operation is verified.
const ROOTS_MAX: u32 = 8;

/// Start and end of an operation or of a batch of operations, by the clock of the rank.
pub type Timing = (i64, i64);

/// What a rank does in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Number of operations or batches.
    pub timings: u32,
    /// Operations per batch.
    pub batch: u32,
    /// Time between the starts of operations that begin at common times, in ns; 0: none.
    pub window_ns: i64,
    /// Start of the first one, by the clock of this rank.
    pub begin_ns: i64,
    /// Iterations of the computation beside non-blocking operations.
    pub computation: u64,
}

/// Times that a rank measured in a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Of operations, or of batches.
    pub timings: Vec<Timing>,
    /// Sum of the times of non-blocking operations together with the computation.
    pub both_ns: i64,
    /// Sum of the times of the computation.
    pub computation_ns: i64,
}

/// A benchmark at one rank: its point, and its buffers.
#[derive(Debug)]
pub struct Bench<'a> {
    world: &'a World,
    action: Action,
    sync: Option<Sync>,
    is_synchronised: bool,
    rotates: bool,
    /// Root of the first operation of a slice.
    first_root: u32,
    call: Call,
    ready: Ready,
    barrier: Ready,
    sent: Buffer,
    received: Buffer,
    window: Option<Window<'a>>,
}

/// A result that differs from the serial computation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{benchmark} with {payload} bytes at rank {rank}: byte {at} is {is}, expected {expected}")]
pub struct Wrong {
    benchmark: String,
    payload: usize,
    rank: u32,
    at: usize,
    is: u8,
    expected: u8,
}

impl<'a> Bench<'a> {
    /// Prepares the buffers of a point, in the memory of an earlier one. All ranks of the group call it.
    pub fn new(
        world: &'a World,
        point: &Point,
        cache_bytes: usize,
        memory: [Vec<u8>; 2],
    ) -> Result<Self, MpiError> {
        let benchmark = point.benchmark.unwrap_or(fabricmark_plan::Benchmark::PingPong);
        let action = benchmark.traits().action;
        let payload = point.payload.0 as usize;
        let elements = Elements {
            datatype: point.datatype.unwrap_or(Datatype::Byte),
            are_added: benchmark.reduces(),
        };
        let collective = benchmark.collective().unwrap_or(Collective::Barrier);
        let call =
            Call { collective, payload, elements, root: 0, in_place: point.in_place == Some(true) };
        let [sent, received] = match benchmark.collective() {
            Some(collective) => Call::room(collective, payload, world.group() as usize),
            None => [payload, 2 * payload],
        };
        let buffers = point.buffers.unwrap_or(Buffers::Warm);
        let [send_memory, receive_memory] = memory;
        let is_one_sided = matches!(action, Action::Put | Action::Get | Action::Accumulate);
        let window = is_one_sided.then(|| world.window(payload)).transpose()?;
        Ok(Self {
            world,
            action,
            sync: point.sync,
            is_synchronised: point.is_synchronised(),
            rotates: point.root == Some(Root::Rotate),
            first_root: 0,
            call,
            ready: world.ready(&call)?,
            barrier: world.ready(&Call { collective: Collective::Barrier, payload: 0, ..call })?,
            sent: Buffer::new(send_memory, sent, buffers, cache_bytes),
            received: Buffer::new(receive_memory, received, buffers, cache_bytes),
            window,
        })
    }

    /// Frees what all ranks share; returns the memory of the buffers.
    pub fn close(self) -> Result<[Vec<u8>; 2], MpiError> {
        self.window.map_or(Ok(()), Window::close)?;
        Ok([self.sent.into_memory(), self.received.into_memory()])
    }

    /// Waits for all ranks of the group.
    pub fn barrier(&self) -> Result<(), MpiError> {
        self.world.collective(&self.barrier, &[], &mut [])
    }

    /// Carries out a slice.
    pub fn slice(&mut self, slice: Slice) -> Result<Measured, MpiError> {
        let world = self.world;
        let (rank, ranks) = (world.rank(), world.group());
        let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let elements = self.call.elements;
        let half = ranks / 2;
        let partner = if rank < half { rank + half } else { rank - half.min(rank) };
        // An acknowledgement of a burst has no payload.
        let done = |world: &World| world.send(&[], elements, partner);
        let acknowledged = |world: &World| world.receive(&mut [], elements, partner);
        let payload = self.call.payload;
        self.barrier()?;
        match self.action {
            Action::PingPong if rank == 0 => self.timed(slice, |bench, _| {
                world.send(bench.sent.bytes(), elements, 1)?;
                world.receive(&mut bench.received.bytes_mut()[..payload], elements, 1)
            }),
            Action::PingPong => self.timed(slice, |bench, _| {
                world.receive(&mut bench.received.bytes_mut()[..payload], elements, 0)?;
                world.send(bench.sent.bytes(), elements, 0)
            }),
            Action::PingPing => self.timed(slice, |bench, _| {
                world.ping_ping(bench.sent.bytes(), bench.received.bytes_mut(), elements, 1 - rank)
            }),
            Action::Sendrecv => self.timed(slice, |bench, _| {
                let (sent, received) = (bench.sent.bytes(), bench.received.bytes_mut());
                world.sendrecv((sent, right), (received, left), elements)
            }),
            Action::Exchange => self.timed(slice, |bench, _| {
                let (sent, received) = (bench.sent.bytes(), bench.received.bytes_mut());
                world.exchange(sent, received, elements, [left, right])
            }),
            Action::Uniband if rank < half => self.timed(slice, |bench, _| {
                let sent = Some(bench.sent.bytes());
                world.burst(sent, None, elements, partner, WINDOW as u16)?;
                acknowledged(world)
            }),
            Action::Uniband => self.timed(slice, |bench, _| {
                let received = &mut bench.received.bytes_mut()[..payload];
                world.burst(None, Some(received), elements, partner, WINDOW as u16)?;
                done(world)
            }),
            Action::Biband => self.timed(slice, |bench, _| {
                let received = &mut bench.received.bytes_mut()[..payload];
                let sent = Some(bench.sent.bytes());
                world.burst(sent, Some(received), elements, partner, WINDOW as u16)?;
                if rank < half { acknowledged(world) } else { done(world) }
            }),
            Action::Put if rank == 0 => self.timed(slice, |bench, _| match &bench.window {
                Some(window) => window.put(bench.sent.bytes(), elements, 1),
                None => Ok(()),
            }),
            Action::Get if rank == 0 => self.timed(slice, |bench, _| match &bench.window {
                Some(window) => window.get(&mut bench.received.bytes_mut()[..payload], elements, 1),
                None => Ok(()),
            }),
            Action::Accumulate if rank == 0 => self.timed(slice, |bench, _| match &bench.window {
                Some(window) => window.accumulate(bench.sent.bytes(), elements, 1),
                None => Ok(()),
            }),
            // The target waits in the barrier after the slice, where MPI makes progress.
            Action::Put | Action::Get | Action::Accumulate => Ok(Measured::default()),
            Action::Blocking(_) if !self.is_synchronised && !self.rotates => {
                let ready = self.ready;
                self.timed(slice, |bench, _| {
                    world.collective(&ready, bench.sent.bytes(), bench.received.bytes_mut())
                })
            }
            Action::Blocking(_) if !self.is_synchronised => self.timed(slice, |bench, i| {
                let ready = bench.rooted(i);
                world.collective(&ready, bench.sent.bytes(), bench.received.bytes_mut())
            }),
            Action::Blocking(_) => self.synchronised(slice, |bench, i| {
                let ready = bench.rooted(i);
                world.collective(&ready, bench.sent.bytes(), bench.received.bytes_mut())
            }),
            Action::NonBlocking(_) => self.overlapped(slice),
        }
    }

    /// The operation of iteration `i`.
    #[inline]
    fn rooted(&self, i: u32) -> Ready {
        let root = self.first_root;
        if self.rotates { self.ready.with_root(root.wrapping_add(i)) } else { self.ready }
    }

    /// Operations back to back; the clock is read once per batch.
    #[inline]
    fn timed(
        &mut self,
        slice: Slice,
        mut once: impl FnMut(&mut Self, u32) -> Result<(), MpiError>,
    ) -> Result<Measured, MpiError> {
        let mut timings = Vec::with_capacity(slice.timings as usize);
        let mut i = 0;
        let mut start_ns = now_ns();
        for _ in 0..slice.timings {
            for _ in 0..slice.batch {
                once(self, i)?;
                self.sent.advance();
                self.received.advance();
                i = i.wrapping_add(1);
            }
            let end_ns = now_ns();
            timings.push((start_ns, end_ns));
            start_ns = end_ns;
        }
        Ok(Measured { timings, ..Measured::default() })
    }

    /// Single operations, each after a barrier or at a common time.
    fn synchronised(
        &mut self,
        slice: Slice,
        mut once: impl FnMut(&mut Self, u32) -> Result<(), MpiError>,
    ) -> Result<Measured, MpiError> {
        let mut timings = Vec::with_capacity(slice.timings as usize);
        for i in 0..slice.timings {
            self.wait_for_start(slice, i)?;
            let start_ns = now_ns();
            once(self, i)?;
            timings.push((start_ns, now_ns()));
            self.sent.advance();
            self.received.advance();
        }
        Ok(Measured { timings, ..Measured::default() })
    }

    /// Waits for the start of operation `i`.
    fn wait_for_start(&self, slice: Slice, i: u32) -> Result<(), MpiError> {
        match self.sync {
            Some(Sync::Barrier) => self.barrier(),
            Some(Sync::Window) => {
                let at_ns = slice.begin_ns + i64::from(i) * slice.window_ns;
                while now_ns() < at_ns {
                    std::hint::spin_loop();
                }
                Ok(())
            }
            Some(Sync::None) | None => Ok(()),
        }
    }

    /// Non-blocking operations: alone, and during a computation.
    fn overlapped(&mut self, slice: Slice) -> Result<Measured, MpiError> {
        let world = self.world;
        let mut found = Measured::default();
        for i in 0..slice.timings {
            let ready = self.rooted(i);
            self.wait_for_start(slice, i)?;
            let start_ns = now_ns();
            world.during(&ready, self.sent.bytes(), self.received.bytes_mut(), || ())?;
            found.timings.push((start_ns, now_ns()));
            self.sent.advance();
            self.received.advance();
            if slice.computation == 0 {
                continue;
            }
            self.barrier()?;
            let mut computation_ns = 0;
            let start_ns = now_ns();
            world.during(&ready, self.sent.bytes(), self.received.bytes_mut(), || {
                let start_ns = now_ns();
                compute(slice.computation);
                computation_ns = now_ns() - start_ns;
            })?;
            found.both_ns += now_ns() - start_ns;
            found.computation_ns += computation_ns;
            self.sent.advance();
            self.received.advance();
        }
        Ok(found)
    }

    /// Carries out the operation once, with a rotating root once for each of the first [`ROOTS_MAX`] roots, and compares
    /// what this rank received with the serial computation. Returns the number of elements compared.
    pub fn verify(&mut self, name: &str) -> Result<Result<u64, Wrong>, MpiError> {
        let roots = if self.rotates { self.world.group().min(ROOTS_MAX) } else { 1 };
        let mut elements = 0;
        let mut wrong = None;
        for root in 0..roots {
            (self.first_root, self.call.root) = (root, root);
            match self.verify_once(name)? {
                Ok(compared) => elements += compared,
                Err(found) => wrong = wrong.or(Some(found)),
            }
        }
        (self.first_root, self.call.root) = (0, 0);
        Ok(wrong.map_or(Ok(elements), Err))
    }

    fn verify_once(&mut self, name: &str) -> Result<Result<u64, Wrong>, MpiError> {
        let (rank, ranks) = (self.world.rank(), self.world.group());
        let (datatype, payload) = (self.call.elements.datatype, self.call.payload);
        let own = verify::data(datatype, rank, 0, self.sent.bytes().len());
        self.sent.bytes_mut().copy_from_slice(&own);
        let from = |sender: u32| verify::data(datatype, sender, 0, payload);
        let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let half = ranks / 2;
        let before = match self.action {
            Action::Blocking(_) | Action::NonBlocking(_) => verify::before(&self.call, rank, ranks),
            _ => vec![0; self.received.bytes().len()],
        };
        self.received.bytes_mut().copy_from_slice(&before);
        if let Some(window) = &self.window {
            window.write(&own)?;
        }
        self.barrier()?;
        let (sent, received) = (self.sent.at(), self.received.at());
        self.slice(Slice { timings: 1, batch: 1, ..Slice::default() })?;
        self.sent.set(sent);
        self.received.set(received);
        self.barrier()?;
        let mut expected = match self.action {
            Action::PingPong | Action::PingPing => from(1 - rank),
            Action::Sendrecv => from(left),
            Action::Exchange => [from(left), from(right)].concat(),
            Action::Uniband if rank < half => Vec::new(),
            Action::Uniband => from(rank - half),
            Action::Biband => from(if rank < half { rank + half } else { rank - half }),
            Action::Put if rank == 1 => from(0),
            Action::Get if rank == 0 => from(1),
            Action::Accumulate if rank == 1 => verify::sum_of_two(datatype, [0, 1], payload),
            Action::Put | Action::Get | Action::Accumulate => Vec::new(),
            Action::Blocking(_) | Action::NonBlocking(_) => {
                verify::expected(&self.call, rank, ranks)
            }
        };
        let is_remote = matches!(self.action, Action::Put | Action::Accumulate);
        let mut found = vec![0; expected.len()];
        match &self.window {
            Some(window) if is_remote => window.read(&mut found)?,
            _ => found.copy_from_slice(&self.received.bytes()[..expected.len()]),
        }
        let size = datatype.bytes();
        let elements = expected.len() as u64 / size;
        let differs = found.iter().zip(&mut expected).position(|(is, expected)| is != expected);
        Ok(match differs {
            None => Ok(elements),
            Some(at) => Err(Wrong {
                benchmark: name.to_owned(),
                payload,
                rank,
                at,
                is: found[at],
                expected: expected[at],
            }),
        })
    }
}

/// A computation of `iterations` additions, each of which depends on the one before.
pub fn compute(iterations: u64) {
    let mut sum = 1.0_f64;
    for _ in 0..iterations {
        sum = black_box(sum + 1e-9);
    }
    black_box(sum);
}

/// Iterations of [`compute`] that take this long on this CPU, at least one.
pub fn iterations_for(ns: f64) -> u64 {
    const TRIAL: u64 = 20_000;
    let start_ns = now_ns();
    compute(TRIAL);
    let trial_ns = (now_ns() - start_ns).max(1) as f64;
    ((ns * TRIAL as f64 / trial_ns) as u64).max(1)
}
