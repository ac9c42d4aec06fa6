//! The emulator: a thread that carries packets from device to device when they are due.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use fabricmark_link::{Invalid, LinkWords};
use fabricmark_units::{Instant, Nanos};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

use crate::path::{LinkEnd, Path, Traffic};
use crate::pool::Pool;
use crate::tool::LabError;
use crate::tun::Tun;

/// Nearer than this an event is waited for with open eyes: to sleep and wake takes about as long.
const SPIN: Nanos = Nanos(20_000);

/// How long a device that had packets is asked again before the thread sleeps until it has some: while
/// nobody sleeps, senders need not wake anybody, which costs them more than a packet of 64 KiB
/// does (perf, 2 virtual processors).
const STAY_AWAKE: Nanos = Nanos(50_000);

/// Packets taken from a device before the next has its turn and what is due is written: 4 of 64 KiB
/// take about 50 us, so that nothing is later than that behind a busy device.
const TURN: usize = 4;

/// Links between devices, and the thread that carries packets over them. The thread ends with this
/// value; the devices are then gone.
///
/// Directions are numbered: that from end E of link L is 2 L + E.
#[derive(Debug)]
pub struct Emulator {
    orders: Sender<Order>,
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Change(usize, LinkWords, Sender<Result<(), Invalid>>),
    Traffic(Sender<Vec<Traffic>>),
    Stop,
}

impl Emulator {
    /// Starts to carry, on one processor or on any. Chance is drawn from `seed`.
    pub fn start(links: Vec<[LinkEnd; 2]>, seed: u64, cpu: Option<u32>) -> Result<Self, LabError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(system("make an eventfd"))?;
        let heard = bell.try_clone().map_err(LabError::system("copy a descriptor"))?;
        let (orders, inbox) = mpsc::channel();
        let (started, answer) = mpsc::channel();
        let work = move || match Worker::new(links, seed, heard, inbox).and_then(|worker| {
            cpu.map_or(Ok(()), pin)?;
            Ok(worker)
        }) {
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
        Ok(Self { orders, bell, thread })
    }

    /// Changes what a direction does; words that are not named stay as they are.
    pub fn change(&self, direction: usize, words: LinkWords) -> Result<(), LabError> {
        let (to, answer) = mpsc::channel();
        self.order(Order::Change(direction, words, to))?;
        Ok(answer.recv().map_err(|_| LabError::Stopped)??)
    }

    /// What happened in each direction until now.
    pub fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        let (to, answer) = mpsc::channel();
        self.order(Order::Traffic(to))?;
        answer.recv().map_err(|_| LabError::Stopped)
    }

    fn order(&self, order: Order) -> Result<(), LabError> {
        self.orders.send(order).map_err(|_| LabError::Stopped)?;
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).map_err(system("ring a bell"))?;
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // A thread that has stopped already hears nothing.
        let _ = self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the calling thread on a processor.
fn pin(cpu: u32) -> Result<(), LabError> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(system("keep a thread on a processor"))
}

fn system(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> LabError {
    move |error| LabError::system(doing)(error.into())
}

/// Events of the epoll set beside the devices, which are numbered from 0.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

struct Worker {
    devices: Vec<Device>,
    /// Each from the device of its number.
    paths: Vec<Path>,
    ready: OwnedFd,
    bell: OwnedFd,
    timer: OwnedFd,
    orders: Receiver<Order>,
}

struct Device {
    tun: Tun,
    pool: Pool,
    /// Until when it is asked without being waited for; it is in the epoll set where there is no such
    /// time.
    awake_until: Option<Instant>,
}

impl Worker {
    fn new(
        links: Vec<[LinkEnd; 2]>,
        seed: u64,
        bell: OwnedFd,
        orders: Receiver<Order>,
    ) -> Result<Self, LabError> {
        let ready =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll set"))?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(system("make a timer"))?;
        let watch = |source: &dyn std::os::fd::AsFd, number| {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&ready, source.as_fd(), data, epoll::EventFlags::IN)
                .map_err(system("watch a descriptor"))
        };
        watch(&bell, BELL)?;
        watch(&timer, TIMER)?;
        let (mut devices, mut paths) = (Vec::new(), Vec::new());
        for LinkEnd { tun, name, words } in links.into_iter().flatten() {
            watch(&tun, devices.len() as u64)?;
            devices.push(Device { tun, pool: Pool::default(), awake_until: None });
            paths.push(Path::new(name, words, seed)?);
        }
        Ok(Self { devices, paths, ready, bell, timer, orders })
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            self.deliver();
            self.wait(&mut events);
            for event in events.drain(..) {
                match event {
                    TIMER => {}
                    BELL if self.obey() => return,
                    BELL => {}
                    device => self.wake(device as usize),
                }
            }
            for number in 0..self.devices.len() {
                if self.devices[number].awake_until.is_some() {
                    self.take(number);
                }
            }
        }
    }

    /// Writes out what is due.
    fn deliver(&mut self) {
        let now = clock();
        for (number, path) in self.paths.iter_mut().enumerate() {
            if path.deadline().is_some_and(|due| due <= now) {
                // The other end of the same link.
                path.deliver(now, &self.devices[number ^ 1].tun);
            }
        }
    }

    /// Sleeps until there is something to do, or not at all when it is due soon.
    fn wait(&self, numbers: &mut Vec<u64>) {
        let due = self.paths.iter().filter_map(Path::deadline).min();
        let now = clock();
        let is_awake = self.devices.iter().any(|device| device.awake_until.is_some());
        let is_soon = is_awake || due.is_some_and(|due| due <= now + SPIN);
        if !is_soon {
            // 0 disarms.
            let at = due.map_or(0, |due| due.0 - SPIN.0);
            let time = Timespec {
                tv_sec: (at / 1_000_000_000) as i64,
                tv_nsec: (at % 1_000_000_000) as i64,
            };
            let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
            // It fails for a wrong time only; then the packets wait for other events.
            let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
        }
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let timeout = is_soon.then_some(Timespec::default());
        // Interrupted by a signal, it comes here again.
        let ready = epoll::wait(&self.ready, &mut events[..], timeout.as_ref()).unwrap_or(0);
        numbers.extend(events[..ready].iter().map(|event| event.data.u64()));
    }

    /// Takes a device out of the epoll set, to ask it again and again.
    fn wake(&mut self, number: usize) {
        let device = &mut self.devices[number];
        if epoll::delete(&self.ready, &device.tun).is_ok() {
            device.awake_until = Some(clock() + STAY_AWAKE);
        }
    }

    /// Puts a device that has been silent back into the epoll set, which tells of what came meanwhile.
    fn rest(&mut self, number: usize) {
        let device = &mut self.devices[number];
        let data = epoll::EventData::new_u64(number as u64);
        if epoll::add(&self.ready, &device.tun, data, epoll::EventFlags::IN).is_ok() {
            device.awake_until = None;
        }
    }

    /// Lets in what a device has.
    fn take(&mut self, number: usize) {
        let Device { tun, pool, awake_until } = &mut self.devices[number];
        for _ in 0..TURN {
            match pool.fill(|bytes| tun.read(bytes)) {
                Ok(Some(slice)) => {
                    let now = clock();
                    self.paths[number].arrive(now, slice);
                    *awake_until = Some(now + STAY_AWAKE);
                }
                // A device that is down has nothing (EBADFD, EIO).
                Ok(None) | Err(_) => {
                    if awake_until.is_some_and(|until| until <= clock()) {
                        self.rest(number);
                    } else {
                        // Whoever shares the processor may be the one that is waited for.
                        thread::yield_now();
                    }
                    return;
                }
            }
        }
    }

    /// Does what was ordered; whether that was to stop.
    fn obey(&mut self) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        while let Ok(order) = self.orders.try_recv() {
            // Who does not wait for the answer any more does not need it.
            match order {
                Order::Change(direction, words, to) => {
                    let _ = to.send(match self.paths.get_mut(direction) {
                        Some(path) => path.change(&words),
                        None => Ok(()),
                    });
                }
                Order::Traffic(to) => {
                    // What has come out of a net is held by nobody who counts.
                    self.deliver();
                    let _ = to.send(self.paths.iter().map(Path::traffic).collect());
                }
                Order::Stop => return true,
            }
        }
        false
    }
}

/// Now, by the clock that stands still for nobody (CLOCK_MONOTONIC).
pub(crate) fn clock() -> Instant {
    let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(ClockId::Monotonic);
    Instant(tv_sec as u64 * 1_000_000_000 + tv_nsec as u64)
}
