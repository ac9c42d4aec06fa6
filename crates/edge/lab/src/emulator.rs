//! The emulator: a thread that forwards packets from device to device when they are due.

use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fabricmark_link::{Invalid, LinkOptions};
use fabricmark_telemetry::clock::{machine_ns, thread_cpu_ns, thread_run_delay_ns};
use fabricmark_units::{Instant, Nanos};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::path::{LinkEnd, Path, Traffic};
use crate::pool::{Pool, Slice};
use crate::shared::Shared;
use crate::tool::LabError;
use crate::topology::Topology;
use crate::tun::Tun;

/// The thread spins for an event that is nearer than this: a virtual CPU that sleeps is 50 us late on average (`lab
/// calibrate`: RTTs of 1 to 400 ms were 94 to 109 us too long with 20 us).
const SPIN: Nanos = Nanos(100_000);

/// How long a device that had packets is polled before the thread sleeps until it has some. While the thread does
/// not sleep, senders need not wake it, which costs them more than a packet of 64 KiB (perf, 2 virtual CPUs).
const STAY_AWAKE: Nanos = Nanos(50_000);

/// Packets read from a device before the next device has its turn and due packets are written: 4 of 64 KiB take
/// about 50 us, which bounds the lateness behind a busy device.
const TURN: usize = 4;

/// Longest time for an answer of the thread, which takes microseconds; an arbitrary choice.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Links between devices, and the thread that forwards packets over them. Dropping it ends the thread and removes
/// the devices.
///
/// Directions are numbered: that from end E of link L is 2 L + E.
#[derive(Debug)]
pub struct Emulator {
    /// Dropped to end the thread.
    orders: Option<Sender<Order>>,
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// A request that the thread carries out between packets.
type Order = Box<dyn FnOnce(&mut Worker) + Send>;

impl Emulator {
    /// Starts the thread, on `cpu` or on any CPU. Random choices derive from `seed`. `directions` are in the order
    /// of their numbers. `topology` defines the switches and hubs at which links meet, and the buses of hosts.
    pub fn start(
        directions: Vec<LinkEnd>,
        topology: Topology,
        seed: u64,
        cpu: Option<u32>,
    ) -> Result<Self, LabError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(LabError::system("create an eventfd"))?;
        let heard = bell.try_clone().map_err(LabError::system("duplicate a descriptor"))?;
        let (orders, inbox) = mpsc::channel();
        let (started, answer) = mpsc::channel();
        let make = move || {
            cpu.map_or(Ok(()), pin)?;
            Worker::new(directions, &topology, seed, heard, inbox)
        };
        let work = move || match make() {
            Ok(mut worker) => {
                let _ = started.send(Ok(()));
                worker.run();
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("emulator".to_owned()).spawn(work);
        let thread = Some(thread.map_err(LabError::system("start a thread"))?);
        answer.recv().unwrap_or(Err(LabError::Stopped))?;
        Ok(Self { orders: Some(orders), bell, thread })
    }

    /// Changes the link options of a direction; options that are not named stay as they are.
    pub fn change(&self, direction: usize, options: LinkOptions) -> Result<(), LabError> {
        Ok(self.ask(move |worker| worker.change(direction, &options))??)
    }

    /// Sets whether the adapter at which a direction begins segments super-packets.
    pub fn set_segmentation(&self, direction: usize, does_segment: bool) -> Result<(), LabError> {
        self.ask(move |worker| {
            if let Some(path) = worker.paths.get_mut(direction) {
                path.set_segmentation(does_segment);
            }
        })
    }

    /// Counters of each direction.
    pub fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        self.ask(|worker| {
            // Packets that have left a net must be written before they are counted.
            worker.deliver();
            worker.flush();
            let (busy, cpu_time) = (worker.busy, Nanos(thread_cpu_ns()));
            let run_delay = thread_run_delay_ns().map(Nanos);
            let of_path = |path: &Path| Traffic { busy, cpu_time, run_delay, ..path.traffic() };
            worker.paths.iter().map(of_path).collect()
        })
    }

    /// Counters of each switch, hub and bus.
    pub(crate) fn shared_traffic(&self) -> Result<Vec<Traffic>, LabError> {
        self.ask(|worker| {
            worker.deliver();
            worker.shared.traffic()
        })
    }

    /// Waits until a direction has no packets in flight and its device none to send, for at most `within`. Returns
    /// whether this is so.
    pub fn settle(&self, direction: usize, within: Duration) -> Result<bool, LabError> {
        let (to, settled) = mpsc::channel();
        self.order(move |worker| worker.settling.push((direction, to)))?;
        match settled.recv_timeout(within) {
            Ok(()) => Ok(true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(LabError::Stopped),
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, LabError> {
        let (to, answer) = mpsc::channel();
        self.order(move |worker| {
            // The requester may have stopped waiting.
            let _ = to.send(question(worker));
        })?;
        answer.recv_timeout(ANSWER_WITHIN).map_err(|_| LabError::Stopped)
    }

    fn order(&self, order: impl FnOnce(&mut Worker) + Send + 'static) -> Result<(), LabError> {
        let orders = self.orders.as_ref().ok_or(LabError::Stopped)?;
        orders.send(Box::new(order)).map_err(|_| LabError::Stopped)?;
        self.ring()
    }

    fn ring(&self) -> Result<(), LabError> {
        rustix::io::write(&self.bell, &1u64.to_ne_bytes())
            .map_err(LabError::system("wake the emulator"))?;
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // A thread that has already stopped does not read it.
        drop(self.orders.take());
        let _ = self.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pin(cpu: u32) -> Result<(), LabError> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(LabError::system("bind a thread to a CPU"))
}

/// Event numbers besides those of devices, which are numbered from 0.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

fn watch(ready: &OwnedFd, source: impl AsFd, number: u64) -> Result<(), LabError> {
    let data = epoll::EventData::new_u64(number);
    epoll::add(ready, source, data, epoll::EventFlags::IN)
        .map_err(LabError::system("add a descriptor to epoll"))
}

struct Worker {
    /// By the number of the direction that begins there; `None` at switches and hubs.
    devices: Vec<Option<Device>>,
    paths: Vec<Path>,
    /// Switches, hubs and buses, and which of the paths lead there.
    shared: Shared,
    ready: OwnedFd,
    bell: OwnedFd,
    timer: OwnedFd,
    orders: Receiver<Order>,
    /// Devices that are not read while their queue is paused or full: they are neither polled nor in the epoll set.
    stopped: Vec<usize>,
    /// Requests that wait for a direction to have no packets in flight.
    settling: Vec<(usize, Sender<()>)>,
    /// Start of the current turn.
    turn_began: Instant,
    /// Whether a packet was read or written in it.
    has_worked: bool,
    /// Total length of turns with packets.
    busy: Nanos,
}

pub(crate) struct Device {
    pub(crate) tun: Tun,
    pool: Pool,
    /// End of polling; `None` if the device is in the epoll set or stopped.
    awake_until: Option<Instant>,
}

impl Worker {
    fn new(
        directions: Vec<LinkEnd>,
        topology: &Topology,
        seed: u64,
        bell: OwnedFd,
        orders: Receiver<Order>,
    ) -> Result<Self, LabError> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(LabError::system("create an epoll instance"))?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(LabError::system("create a timer"))?;
        watch(&ready, &bell, BELL)?;
        watch(&ready, &timer, TIMER)?;
        let (mut devices, mut paths) = (Vec::new(), Vec::new());
        let shared = Shared::new(topology, directions.len())?;
        for (number, end) in directions.into_iter().enumerate() {
            let LinkEnd { tun, name, options, does_segment } = end;
            if let Some(tun) = &tun {
                watch(&ready, tun, number as u64)?;
            }
            let device = |tun| Device { tun, pool: Pool::default(), awake_until: None };
            devices.push(tun.map(device));
            paths.push(Path::new(name, options, shared.port(number)?, seed, does_segment)?);
        }
        shared.connect(&mut paths)?;
        Ok(Self {
            devices,
            paths,
            shared,
            ready,
            bell,
            timer,
            orders,
            stopped: Vec::new(),
            settling: Vec::new(),
            turn_began: clock(),
            has_worked: false,
            busy: Nanos(0),
        })
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            self.deliver();
            self.answer_settled();
            self.restart();
            self.wait(&mut events);
            for event in events.drain(..) {
                match event.data.u64() {
                    TIMER => {}
                    BELL if self.obey() => return,
                    BELL => {}
                    device => self.wake(device as usize),
                }
            }
            for number in 0..self.devices.len() {
                if self.devices[number].as_ref().is_some_and(|device| device.awake_until.is_some())
                {
                    self.take(number);
                }
            }
        }
    }

    /// Ends the waits of [`Emulator::settle`] for directions that are empty. It is called after packets were written and
    /// before the thread sleeps: no other event may follow the last packet.
    fn answer_settled(&mut self) {
        for (direction, to) in mem::take(&mut self.settling) {
            if self.is_settled(direction) {
                // The requester may have stopped waiting.
                let _ = to.send(());
            } else {
                self.settling.push((direction, to));
            }
        }
    }

    /// Whether a direction has no packets in flight and its device none to send.
    fn is_settled(&mut self, direction: usize) -> bool {
        let is_empty = |path: &Path| path.deadline().is_none();
        if !self.paths.get(direction).is_some_and(is_empty) {
            return direction >= self.paths.len();
        }
        self.wake(direction);
        self.take(direction) && is_empty(&self.paths[direction])
    }

    fn deliver(&mut self) {
        let now = clock();
        self.begin_turn(now);
        for number in 0..self.paths.len() {
            self.deliver_from(number, now);
        }
        self.shared.deliver(now, &mut self.paths, &self.devices);
    }

    /// Writes what waits for its continuation.
    fn flush(&mut self) {
        for (number, path) in self.paths.iter_mut().enumerate() {
            if let Some(Device { tun, .. }) = &self.devices[number ^ 1] {
                path.flush(tun);
            }
        }
    }

    /// Writes what is due from one device to the device at the other end of its link.
    fn deliver_from(&mut self, number: usize, now: Instant) {
        let path = &mut self.paths[number];
        if path.deadline().is_some_and(|due| due <= now)
            && let Some(Device { tun, .. }) = &self.devices[number ^ 1]
            && !self.shared.has(number)
        {
            path.deliver(now, tun);
            self.has_worked = true;
        }
    }

    /// Sleeps until there is something to do, unless it is due soon.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        let due = self.paths.iter().filter_map(Path::deadline);
        let due = due.chain(self.shared.deadline()).min();
        let now = clock();
        let is_awake = self.devices.iter().flatten().any(|device| device.awake_until.is_some());
        let is_soon = is_awake || due.is_some_and(|due| due <= now + SPIN);
        if !is_soon {
            self.begin_turn(now);
            // 0 disarms the timer.
            let at = Duration::from_nanos(
                due.map_or(0, |due| (due.0 - SPIN.0).saturating_add(BEGAN_NS.with(|ns| *ns))),
            );
            let it_value = Timespec::try_from(at).unwrap_or_default();
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            // This fails only for an invalid time; the packets then wait for other events.
            let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
        }
        let timeout = is_soon.then_some(Timespec::default());
        // After an interrupt by a signal the loop calls it again.
        let _ = epoll::wait(&self.ready, spare_capacity(events), timeout.as_ref());
        if !is_soon {
            self.turn_began = clock();
        }
    }

    /// Counts the last turn as busy if it had packets.
    fn begin_turn(&mut self, now: Instant) {
        if mem::take(&mut self.has_worked) {
            self.busy = self.busy + (now - self.turn_began);
        }
        self.turn_began = now;
    }

    /// Removes a device from the epoll set to poll it.
    fn wake(&mut self, number: usize) {
        let Some(device) = &mut self.devices[number] else { return };
        if epoll::delete(&self.ready, &device.tun).is_ok() {
            device.awake_until = Some(clock() + STAY_AWAKE);
        }
    }

    /// Returns a silent device to the epoll set, which reports packets that have arrived meanwhile.
    fn rest(&mut self, number: usize) {
        let Some(device) = &mut self.devices[number] else { return };
        if watch(&self.ready, &device.tun, number as u64).is_ok() {
            device.awake_until = None;
        }
    }

    /// Reads packets from a device; true if it has no more.
    fn take(&mut self, number: usize) -> bool {
        for _ in 0..TURN {
            let Some(Device { tun, pool, awake_until }) = &mut self.devices[number] else {
                return true;
            };
            match pool.fill(|bytes| tun.read(bytes)) {
                Ok(Some(slice)) => {
                    let now = clock();
                    *awake_until = Some(now + STAY_AWAKE);
                    self.has_worked = true;
                    self.arrive(now, number, slice);
                    // A packet of 64 KiB takes some 15 us: due packets do not wait for several.
                    self.deliver_from(number, now);
                    self.deliver_from(number ^ 1, now);
                    if self.paths[number].is_stopped() || self.shared.is_full(number) {
                        // Neither polled nor in the epoll set.
                        self.set_awake(number, None);
                        self.stopped.push(number);
                        return false;
                    }
                }
                // A device that is down has no packets (EBADFD, EIO).
                Ok(None) | Err(_) => {
                    if awake_until.is_some_and(|until| until <= clock()) {
                        self.rest(number);
                    }
                    return true;
                }
            }
        }
        false
    }

    fn arrive(&mut self, now: Instant, number: usize, slice: Slice) {
        if self.shared.has(number) {
            // Packets of other links may be due earlier.
            self.shared.deliver(now, &mut self.paths, &self.devices);
            self.shared.arrive(now, number, slice, &mut self.paths);
        } else {
            self.paths[number].arrive(now, slice);
        }
    }

    /// Polls stopped devices whose queues have room again.
    fn restart(&mut self) {
        let Self { stopped, paths, shared, .. } = self;
        let has_room =
            |number: &mut usize| !paths[*number].is_stopped() && !shared.is_full(*number);
        let ready: Vec<_> = stopped.extract_if(.., has_room).collect();
        for number in ready {
            self.set_awake(number, Some(clock() + STAY_AWAKE));
        }
    }

    fn set_awake(&mut self, number: usize, until: Option<Instant>) {
        if let Some(device) = &mut self.devices[number] {
            device.awake_until = until;
        }
    }

    /// Carries out requests; true if there will be no more.
    fn obey(&mut self) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        loop {
            match self.orders.try_recv() {
                Ok(order) => order(self),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }

    fn change(&mut self, direction: usize, options: &LinkOptions) -> Result<(), Invalid> {
        let changed = self.paths.get_mut(direction).map_or(Ok(()), |path| path.change(options));
        // The new queue may accept packets while the old one did not.
        self.shared.press(clock(), direction, &self.paths);
        changed?;
        self.shared.connect_from(direction, &mut self.paths)
    }
}

thread_local! {
    /// When the thread of this emulator first read the clock, on CLOCK_MONOTONIC: the periods of links, such as `up` and
    /// `down`, begin with the lab, and not with the machine.
    static BEGAN_NS: u64 = machine_ns();
}

/// Time since then.
pub(crate) fn clock() -> Instant {
    let began_ns = BEGAN_NS.with(|ns| *ns);
    Instant(machine_ns() - began_ns)
}
