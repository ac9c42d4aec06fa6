//! Workers at both ends of every link, and the orders that prepare them for a run.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant as Clock};

use fabricmark_plan::{Cpus, Pace, Pattern, Plan, Point, Role};
use fabricmark_proto::Prepare;
use fabricmark_record::Provenance;
use fabricmark_units::{Instant, Nanos};

use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::Workers;
use crate::testbed::{self, Testbed};

/// Time for an emulated link to drain after the sender has stopped, in addition to two RTTs: a thousand of the
/// longest packets take 262 ms at 2 Gbit/s.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait before a run for the emulated link to drain packets of the previous run: 1,000 packets of 1,538
/// bytes at 1.23 Mbit/s.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// How long the receiver of a stream may postpone its count while a segment is missing, in addition to the RTTs of
/// the path: a retransmission timeout is at least 200 ms, and doubles (RFC 6298).
const HOLD: Nanos = Nanos::from_secs(2);

/// Identifies a pair of workers: number of their network, group of flows, and index of their part among those that
/// run at once.
pub(crate) type PairId = (usize, Option<String>, usize);

/// Workers at both ends of every link of a plan, ready for runs.
pub(crate) struct Coordinator {
    program: PathBuf,
    testbed: Box<dyn Testbed>,
    /// Workers at the ends of flows: a pair for each part of a run that runs at once with others.
    pairs: BTreeMap<PairId, Pair>,
    /// Workers between the ends of relayed flows.
    relays: BTreeMap<PairId, Node>,
    /// CPUs of this machine.
    cpus: Vec<u32>,
    /// CPU of the emulators.
    emulator_cpu: Option<u32>,
    /// Whether the CPUs are emulated by software.
    is_software: bool,
    began: Clock,
    runs: u64,
}

impl Coordinator {
    /// Builds what the plan's links need, or connects to the agents.
    pub(crate) fn start(
        plan: &Plan,
        workers: &Workers<'_>,
        runs_before: usize,
    ) -> Result<Self, PlanError> {
        let cpus = fabricmark_host::cpus();
        let emulator_cpu = emulator_cpu(plan.cpus.as_ref(), &cpus);
        Ok(Self {
            program: workers.program.to_owned(),
            testbed: testbed::open(plan, workers.peer, emulator_cpu, runs_before)?,
            pairs: BTreeMap::new(),
            relays: BTreeMap::new(),
            cpus,
            emulator_cpu,
            is_software: fabricmark_host::facts().cpu.starts_with(SOFTWARE_CPU),
            began: Clock::now(),
            runs: 0,
        })
    }

    pub(crate) fn testbed(&self) -> &dyn Testbed {
        &*self.testbed
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(Nanos::from(self.began.elapsed()).0)
    }

    fn pair_id(&self, point: &Point, place: usize) -> PairId {
        (self.testbed.network(point), point.group.clone(), place)
    }

    /// Starts the workers of a part of a run unless they exist; `place` is its index among the parts that run at once.
    pub(crate) fn start_pair(&mut self, point: &Point, place: usize) -> Result<PairId, PlanError> {
        let id = self.pair_id(point, place);
        if !self.pairs.contains_key(&id) {
            let pair = self.testbed.start_pair(point, &self.program)?;
            self.pairs.insert(id.clone(), pair);
        }
        Ok(id)
    }

    /// Starts the worker for the relay of a part of a run unless it exists, not on the CPU of an emulator.
    pub(crate) fn relay(&mut self, id: &PairId, point: &Point) -> Result<&mut Node, PlanError> {
        if !self.relays.contains_key(id) {
            let worker = self.testbed.start_relay(point, &self.program)?;
            let emulator_cpu = self.emulator_cpu.filter(|_| point.link_options().is_some());
            worker.run_on(self.cpus.iter().copied().filter(|&cpu| Some(cpu) != emulator_cpu))?;
            self.relays.insert(id.clone(), worker);
        }
        Ok(self.relays.get_mut(id).expect("it was just inserted"))
    }

    /// Sockets to the workers of a part of a run.
    pub(crate) fn sockets(&self, id: &PairId) -> impl Iterator<Item = &UnixStream> {
        self.pairs.get(id).into_iter().flat_map(Pair::sockets)
    }

    /// The workers of a part of a run.
    pub(crate) fn pair(&mut self, id: &PairId) -> &mut Pair {
        self.pairs.get_mut(id).expect("its workers were started when the part began")
    }

    /// Drops all workers after the connection to an agent was lost, and reconnects.
    pub(crate) fn start_over(&mut self, interrupted: &AtomicBool) -> Result<(), PlanError> {
        self.pairs.clear();
        self.relays.clear();
        self.testbed.reconnect(&|| interrupted.load(Relaxed))
    }

    /// Facts about an end besides those that its worker reports.
    pub(crate) fn facts(&self, role: Role, point: &Point) -> NodeFacts {
        let of_group = |(id, _): &(&PairId, &Pair)| id.1 == point.group;
        let pair = self.pairs.iter().find(of_group).map(|(_, pair)| pair);
        self.testbed.facts(role, point, pair.map(|pair| pair.worker(role)))
    }

    /// Whether figures of a point are measured or emulated. On a machine with software CPUs everything is emulated.
    pub(crate) fn provenance(&self, point: &Point) -> Provenance {
        match self.is_software || self.testbed.imitates(point) {
            true => Provenance::Emulated,
            false => Provenance::Measured,
        }
    }

    /// Waits until the emulated link of a point has delivered what an end sent, so that a receiver that gets
    /// nothing more does not wait for a busy emulator.
    pub(crate) fn settle(&self, from: Role, point: &Point) -> Result<(), PlanError> {
        self.testbed.settle(from, point, SETTLED_WITHIN)
    }

    /// Waits until an emulated link has drained packets of the previous run.
    pub(crate) fn drain_link(&self, point: &Point) -> Result<(), PlanError> {
        self.testbed.settle(Role::Client, point, EMPTY_WITHIN)?;
        self.testbed.settle(Role::Server, point, EMPTY_WITHIN)
    }

    /// CPU to which the emulators are pinned.
    pub(crate) fn emulator_cpu(&self) -> Option<u32> {
        self.emulator_cpu
    }

    /// Orders for both ends of a part of a run. `place` is its index among the parts that run at once, `is_alone`
    /// says whether it is the only one, and `seed` is that of all random choices of the run.
    pub(crate) fn prepare(
        &mut self,
        plan: &Plan,
        point: &Point,
        (place, is_alone): (usize, bool),
        (duration, slice): (Nanos, Option<Nanos>),
        seed: u64,
    ) -> Result<(Prepare, Prepare), PlanError> {
        self.runs += 1;
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("generate a random token")(error.into()))?;
        let trace = match &point.pace {
            Pace::Trace(file) => plan.traces.get(file),
            _ => None,
        };
        let port = if plan.port == 0 { 0 } else { plan.port.saturating_add(place as u16) };
        // Slices omit their first rounds instead.
        let omit = if slice.is_some() { Nanos(0) } else { plan.omitted(point) };
        let patience = self.patience(&self.pair_id(point, place));
        // Parts that run beside others end by their own time; amounts are counted from their first byte to the last.
        let can_hold = is_alone
            && slice.is_none()
            && point.pattern == Pattern::Stream
            && point.pace == Pace::Closed
            && point.transport.has_tcp()
            && point.load_threads() == 1
            && plan.amount.is_none();
        let client = self.testbed.attach(Role::Client, point)?;
        let mut from = vec![client.address];
        from.extend(point.source);
        if point.relay.is_some() {
            from.extend(self.testbed.relay(point)?.sources);
        }
        let threads = point.load_threads() as usize;
        let cpus = |role: Role| -> Vec<u32> {
            if let Some(chosen) = &plan.cpus {
                return chosen[role as usize].of_threads().take(threads).collect();
            }
            // Points that take turns use the same CPUs.
            let place = if slice.is_some() { 0 } else { place };
            let first = threads * place;
            let cpus = (first..first + threads)
                .map(|number| self.testbed.cpus(point, &self.cpus, number)[role as usize]);
            cpus.flatten().collect()
        };
        let cpus = [Role::Client, Role::Server].map(cpus);
        let side = |role: Role, attachment: Attachment, from| Prepare {
            run: self.runs,
            role,
            point: point.clone(),
            duration_ns: omit + duration,
            omit_ns: omit,
            slice_ns: slice,
            waits_for_start: false,
            start_ns: plan.start(point),
            amount: plan.amount.map(|amount| amount.of(point.payload)),
            token,
            address: attachment.address,
            scope_id: attachment.scope_id,
            port,
            ports: None,
            from,
            patience_ns: patience + drain(point),
            hold_ns: if can_hold { HOLD + patience + drain(point) } else { Nanos(0) },
            least_rtt_ns: self.testbed.least_rtt(point),
            device: attachment.device,
            cpu: cpus[role as usize].first().copied(),
            more_cpus: cpus[role as usize].iter().skip(1).copied().collect(),
            host_settings: Vec::new(),
            interval_ns: plan.interval_ns,
            response_rate_max: None,
            seed,
            trace: trace.cloned(),
            forward: None,
        };
        let server = self.testbed.attach(Role::Server, point)?;
        Ok((side(Role::Client, client, Vec::new()), side(Role::Server, server, from)))
    }

    /// Order for the relay before the server of a part of a run; it lacks only the server's address.
    pub(crate) fn prepare_relay(
        &self,
        point: &Point,
        server: &Prepare,
    ) -> Result<Prepare, PlanError> {
        let address = self.testbed.relay(point)?.address;
        let client = self.testbed.attach(Role::Client, point)?.address;
        let from = [client].into_iter().chain(point.source).collect();
        Ok(Prepare { address, from, port: 0, ..server.clone() })
    }

    /// Sum of the RTTs of the control paths to a pair of workers; 0 for workers on this host.
    pub(crate) fn control_rtt(&self, id: &PairId) -> Nanos {
        let of = |pair: &Pair, role| Some(pair.worker(role).carrier()?.rtt);
        let pair = self.pairs.get(id);
        let ends = [Role::Client, Role::Server].into_iter();
        Nanos(ends.filter_map(|role| of(pair?, role)).map(|rtt| rtt.0).sum())
    }

    /// Offset of a worker's clock from this machine's, and its largest error, in nanoseconds; `None` if not known.
    pub(crate) fn clock_of(&self, id: &PairId, role: Role) -> Option<(i64, u64)> {
        match self.pairs.get(id)?.worker(role).carrier() {
            Some(carrier) => {
                let clock = carrier.facts().clock?;
                Some((clock.offset_ns, clock.uncertainty_ns))
            }
            None => Some((0, 0)),
        }
    }

    /// Additional time that answers may take over the paths to agents.
    fn patience(&self, id: &PairId) -> Nanos {
        let of = |pair: &Pair, role| Some(pair.worker(role).carrier()?.facts().patience);
        let pair = self.pairs.get(id);
        let ends = [Role::Client, Role::Server].into_iter();
        ends.filter_map(|role| of(pair?, role)).max().unwrap_or_default()
    }
}

/// Additional time for an emulated RTT: some RTTs to open a flow, and the time to drain full windows at a tenth of
/// the rate.
fn drain(point: &Point) -> Nanos {
    let Some(Nanos(rtt_ns)) = point.rtt else { return Nanos(0) };
    Nanos(20 * rtt_ns)
}

/// Name of a CPU that QEMU emulates by software (`qemu_hw_version` in target/i386/cpu.c, `-cpu max`).
const SOFTWARE_CPU: &str = "QEMU TCG CPU";

/// CPU of the emulators: the last one that the ends do not use. An emulator that shares its CPU is late by
/// milliseconds, and halves the rate of a sender beside it (two CPUs, `docs/notebook/measured.md`).
fn emulator_cpu(ends: Option<&[Cpus; 2]>, cpus: &[u32]) -> Option<u32> {
    let is_free = |cpu: &u32| ends.into_iter().flatten().all(|end| !end.list().contains(cpu));
    cpus.iter().copied().rfind(is_free).or(cpus.last().copied()).filter(|_| cpus.len() > 1)
}
