//! Workers at both ends of every link, and the orders that prepare them for a run.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant as Clock};

use fabricmark_lab::{Lab, Namespace, Way, Wiring};
use fabricmark_plan::{Pace, Pattern, Plan, Point, Role};
use fabricmark_proto::Prepare;
use fabricmark_record::{Carrier, HostFacts, Provenance};
use fabricmark_units::{Instant, Nanos};
use fabricmark_wire::{Family, Link};

use crate::abroad::Abroad;
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::peer::{Iperf3Access, Peer, Workers};

/// How long an emulator may take to empty a link that nobody fills any more, beside two round trips: a
/// thousand of the longest packets over 2 Gbit/s take 262 ms.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait before a run for the emulated link to drain packets of the previous run: 1,000 packets of 1,538 bytes at
/// 1.23 Mbit/s.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// How long the receiver of a stream may put its count off while a segment is missing, beside what the path's round
/// trips take: a retransmission timeout is 200 ms at least, and doubles (RFC 6298).
const HOLD: Nanos = Nanos::from_secs(2);

/// Where the ends of runs are.
enum Ground {
    /// In the network that this process is in, and nowhere else.
    Home,
    /// In the lab's namespaces, and at home for loopback.
    Lab(Lab),
    /// The server on another host.
    Abroad(Box<Abroad>),
    /// The server is that of iperf3.
    Iperf3(Iperf3Access),
    /// In the network that this process is in, each with its address.
    Ends([Attachment; 2]),
}

/// Workers at both ends of every link of a plan, ready for runs.
pub(crate) struct Coordinator {
    program: PathBuf,
    ground: Ground,
    /// Workers at the ends of links, a pair for each part of a run that is carried out at once.
    on_links: Vec<Pair>,
    /// Workers in the network that this process is in, for loopback.
    at_home: Vec<Pair>,
    /// Processors of this machine.
    cpus: Vec<u32>,
    /// That of emulators.
    emulator_cpu: Option<u32>,
    /// Whether the processors are emulated by software.
    is_software: bool,
    began: Clock,
    runs: u64,
}

/// The two workers of a part of a run.
pub(crate) struct Pair {
    client: Node,
    server: Node,
}

impl Pair {
    fn start<'a>(
        program: &Path,
        namespace: impl Fn(Role) -> Option<&'a Namespace>,
    ) -> Result<Self, PlanError> {
        let start = |role: Role| Node::start(role.name(), program, namespace(role));
        Ok(Self { client: start(Role::Client)?, server: start(Role::Server)? })
    }

    /// The sockets to both.
    pub(crate) fn sockets(&self) -> [&UnixStream; 2] {
        [&self.client.socket, &self.server.socket]
    }

    pub(crate) fn node(&mut self, role: Role) -> &mut Node {
        match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }
}

impl Coordinator {
    /// Builds what the plan's links need, or calls the agent.
    pub(crate) fn start(plan: &Plan, workers: &Workers<'_>) -> Result<Self, PlanError> {
        let cpus = fabricmark_host::cpus();
        let emulator_cpu = emulator_cpu(plan.cpus, &cpus);
        let mut wires: Vec<Wiring> = Vec::new();
        for point in plan.points.iter().filter(|point| point.link != Link::Loopback) {
            let wiring = Wiring::of(point);
            if !wires.contains(&wiring) {
                wires.push(wiring);
            }
        }
        let ground = match workers.peer {
            Peer::Agent(agent) => Ground::Abroad(Box::new(Abroad::call(agent)?)),
            Peer::Iperf3(access) => Ground::Iperf3(access.clone()),
            Peer::Ends([client, server]) => {
                Ground::Ends([Attachment::here(*client)?, Attachment::here(*server)?])
            }
            Peer::Here if wires.is_empty() => Ground::Home,
            Peer::Here => Ground::Lab(Lab::build(&wires, plan.seed, emulator_cpu)?),
        };
        Ok(Self {
            program: workers.program.to_owned(),
            ground,
            on_links: Vec::new(),
            at_home: Vec::new(),
            cpus,
            emulator_cpu,
            is_software: fabricmark_host::facts().cpu.starts_with(SOFTWARE_CPU),
            began: Clock::now(),
            runs: 0,
        })
    }

    /// The server of iperf3 that is the other end, where one is.
    pub(crate) fn iperf3(&self) -> Option<Iperf3Access> {
        match &self.ground {
            Ground::Iperf3(access) => Some(access.clone()),
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(Nanos::from(self.began.elapsed()).0)
    }

    /// The workers at the ends of a link, `count` pairs; those that were not needed so far are started.
    pub(crate) fn pairs(&mut self, link: Link, count: usize) -> Result<&mut [Pair], PlanError> {
        let program = &self.program;
        let pairs = match &self.ground {
            Ground::Abroad(_) => &mut self.on_links,
            Ground::Ends(_) => &mut self.at_home,
            _ if link == Link::Loopback => &mut self.at_home,
            Ground::Lab(_) => &mut self.on_links,
            _ => return Err(PlanError::NoLink(link)),
        };
        while pairs.len() < count {
            pairs.push(match &mut self.ground {
                Ground::Abroad(abroad) => {
                    let server = abroad.worker()?;
                    Pair { client: Node::start(Role::Client.name(), program, None)?, server }
                }
                Ground::Lab(lab) if link != Link::Loopback => {
                    Pair::start(program, |role| Some(lab.namespace(role)))?
                }
                _ => Pair::start(program, |_| None)?,
            });
        }
        Ok(pairs)
    }

    /// Forgets all workers after the connection to an agent was lost, and waits until it is back.
    pub(crate) fn start_over(&mut self, interrupted: &AtomicBool) -> Result<(), PlanError> {
        self.on_links.clear();
        match &mut self.ground {
            Ground::Abroad(abroad) => abroad.call_again(&|| interrupted.load(Relaxed)),
            _ => Ok(()),
        }
    }

    /// Where an end is attached to the link of a point.
    pub(crate) fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        match &self.ground {
            Ground::Abroad(abroad) => abroad.attach(role, point.family),
            Ground::Ends([client, server]) => {
                Ok(if role == Role::Client { client } else { server }.clone())
            }
            Ground::Iperf3(access) if role == Role::Server => {
                Ok(Attachment { device: String::new(), address: access.server.ip(), scope_id: 0 })
            }
            Ground::Iperf3(access) => Ok(Attachment::towards(access.server)
                .map_err(PlanError::system("find a way to the server"))?),
            Ground::Lab(lab) if point.link != Link::Loopback => {
                let link = place(lab, point)?;
                let fabricmark_lab::Attachment { device, address } =
                    lab.attach(role, link, point.family);
                Ok(Attachment { device, address, scope_id: 0 })
            }
            _ => Ok(Attachment {
                device: "lo".to_owned(),
                address: match point.family {
                    Family::V4 => Ipv4Addr::LOCALHOST.into(),
                    Family::V6 => Ipv6Addr::LOCALHOST.into(),
                },
                scope_id: 0,
            }),
        }
    }

    /// What is known of an end beside what its worker reports.
    pub(crate) fn facts(&self, role: Role, point: &Point) -> NodeFacts {
        match (&self.ground, role) {
            (Ground::Abroad(abroad), Role::Server) => {
                let carrier = self.on_links.first().and_then(|pair| pair.server.carrier());
                NodeFacts {
                    carrier: Carrier::Agent,
                    namespace: None,
                    host: Some(abroad.welcome().host.clone()),
                    clock_offset: carrier.and_then(|carrier| carrier.facts().clock),
                }
            }
            (Ground::Iperf3(access), Role::Server) => NodeFacts {
                carrier: Carrier::Iperf3,
                namespace: None,
                // iperf3 says nothing of its machine.
                host: Some(HostFacts { hostname: access.name.clone(), ..HostFacts::default() }),
                clock_offset: None,
            },
            (ground, _) => {
                let is_inside = matches!(ground, Ground::Lab(_)) && point.link != Link::Loopback;
                NodeFacts {
                    carrier: Carrier::LocalSocket,
                    namespace: is_inside.then(|| role.name().to_owned()),
                    host: None,
                    clock_offset: None,
                }
            }
        }
    }

    /// A shaped or emulated link of the lab imitates a wire, and a machine whose processors are software
    /// imitates all of it; everything else is what it is.
    pub(crate) fn provenance(&self, point: &Point) -> Provenance {
        match &self.ground {
            _ if self.is_software => Provenance::Emulated,
            Ground::Lab(_) if point.link.has_wire() || point.words().is_some() => {
                Provenance::Emulated
            }
            _ => Provenance::Measured,
        }
    }

    /// Packets that a point's link has dropped so far.
    pub(crate) fn link_drops(&self, point: &Point) -> Result<u64, PlanError> {
        match &self.ground {
            Ground::Lab(lab) if point.link != Link::Loopback => Ok(lab.drops(place(lab, point)?)?),
            _ => Ok(0),
        }
    }

    /// What the emulator of a point's link counted so far, where there is one.
    pub(crate) fn traffic(&self, point: &Point) -> Result<Option<[Way; 2]>, PlanError> {
        match &self.ground {
            Ground::Lab(lab) if point.link != Link::Loopback => {
                Ok(lab.traffic(place(lab, point)?)?)
            }
            _ => Ok(None),
        }
    }

    /// Waits until what an end has sent over the emulated link of a point has left it, so that a receiver
    /// who hears nothing more is not waiting for a busy emulator.
    pub(crate) fn settle(&self, from: Role, point: &Point) -> Result<(), PlanError> {
        self.settle_within(from, point, SETTLED_WITHIN)
    }

    /// Waits until an emulated link has drained packets of the previous run.
    pub(crate) fn drain_link(&self, point: &Point) -> Result<(), PlanError> {
        self.settle_within(Role::Client, point, EMPTY_WITHIN)?;
        self.settle_within(Role::Server, point, EMPTY_WITHIN)
    }

    fn settle_within(&self, from: Role, point: &Point, within: Duration) -> Result<(), PlanError> {
        match &self.ground {
            Ground::Lab(lab) if point.words().is_some() => {
                let within = within + Duration::from_nanos(2 * point.rtt.unwrap_or_default().0);
                Ok(lab.settle(place(lab, point)?, from, within)?)
            }
            _ => Ok(()),
        }
    }

    /// The processor that emulators stay on.
    pub(crate) fn emulator_cpu(&self) -> Option<u32> {
        self.emulator_cpu
    }

    /// Orders for both ends of a part of a run, by its place among the parts that run at once and whether it is the
    /// only one; `seed` is that of what is random in the run.
    pub(crate) fn prepare(
        &mut self,
        plan: &Plan,
        point: &Point,
        (place, is_alone): (usize, bool),
        duration: Nanos,
        seed: u64,
    ) -> Result<(Prepare, Prepare), PlanError> {
        self.runs += 1;
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random token")(error.into()))?;
        let trace = match &point.pace {
            Pace::Trace(file) => plan.traces.get(file),
            _ => None,
        };
        let port = if plan.port == 0 { 0 } else { plan.port.saturating_add(place as u16) };
        let omit = plan.omitted(point);
        // What runs beside it ends by its own time, and amounts are counted from their first byte to the last.
        let can_hold = is_alone
            && point.pattern == Pattern::Stream
            && point.pace == Pace::Closed
            && point.transport.has_tcp()
            && plan.amount.is_none();
        let client = self.attach(Role::Client, point)?;
        let from = vec![client.address];
        let side = |role, attachment: Attachment, cpu, from| Prepare {
            run: self.runs,
            role,
            point: point.clone(),
            duration_ns: omit + duration,
            omit_ns: omit,
            amount: plan.amount.map(|amount| amount.of(point.payload)),
            token,
            address: attachment.address,
            scope_id: attachment.scope_id,
            port,
            ports: None,
            from,
            patience_ns: self.patience(place) + drain(point),
            hold_ns: if can_hold { HOLD + self.patience(place) + drain(point) } else { Nanos(0) },
            least_rtt_ns: self.least_rtt(point),
            device: attachment.device,
            cpu,
            interval_ns: plan.interval_ns,
            seed,
            trace: trace.cloned(),
        };
        let (start, answer) = plan
            .cpus
            .map(|(start, answer)| (Some(start), Some(answer)))
            .unwrap_or_else(|| self.processors(point, place));
        let server = self.attach(Role::Server, point)?;
        Ok((
            side(Role::Client, client, start, Vec::new()),
            side(Role::Server, server, answer, from),
        ))
    }

    /// Time beyond the usual that answers take over the path to an agent.
    fn patience(&self, place: usize) -> Nanos {
        let carrier = self.on_links.get(place).and_then(|pair| pair.server.carrier());
        carrier.map(|carrier| carrier.facts().patience).unwrap_or_default()
    }

    /// The least round trip of a point's path: that of a lab is what was asked for, and jitter takes from it.
    fn least_rtt(&self, point: &Point) -> Option<Nanos> {
        let has_jitter = point.words().is_some_and(|words| words.jitter().is_some());
        let least = if has_jitter { None } else { point.rtt };
        matches!(self.ground, Ground::Lab(_)).then(|| least.unwrap_or_default())
    }

    /// Processors of both ends. Each part has some of its own as long as there are some; an emulator
    /// between them keeps its own.
    fn processors(&self, point: &Point, place: usize) -> (Option<u32>, Option<u32>) {
        let of = |cpus: &[u32], number| cpus.iter().cycle().nth(number).copied();
        match &self.ground {
            Ground::Abroad(abroad) if !abroad.is_this_machine() => {
                (of(&self.cpus, place), of(&abroad.welcome().cpus, place))
            }
            Ground::Lab(_) if point.words().is_some() => {
                let mut cpus = self.cpus.clone();
                cpus.retain(|&cpu| Some(cpu) != self.emulator_cpu);
                (of(&cpus, 2 * place), of(&cpus, 2 * place + 1))
            }
            _ => (of(&self.cpus, 2 * place), of(&self.cpus, 2 * place + 1)),
        }
    }
}

/// Time beyond the usual that an emulated round trip takes: to open a flow some of them, and to empty
/// full windows at a tenth of the rate.
fn drain(point: &Point) -> Nanos {
    let Some(Nanos(rtt_ns)) = point.rtt else { return Nanos(0) };
    Nanos(20 * rtt_ns)
}

/// Where a point's link is in the lab.
fn place(lab: &Lab, point: &Point) -> Result<usize, PlanError> {
    lab.link(&Wiring::of(point)).ok_or(PlanError::NoLink(point.link))
}

/// How QEMU's software names its processors (`qemu_hw_version` in target/i386/cpu.c, `-cpu max`).
const SOFTWARE_CPU: &str = "QEMU TCG CPU";

/// The processor of emulators, the last one, which ends leave to them: an emulator that has to share is late
/// by milliseconds, and halves the rate of a sender beside it (two processors, `docs/measured.md`).
fn emulator_cpu(ends: Option<(u32, u32)>, cpus: &[u32]) -> Option<u32> {
    let is_free = |cpu: &u32| ends.is_none_or(|(start, answer)| *cpu != start && *cpu != answer);
    cpus.iter().copied().rfind(is_free).or(cpus.last().copied()).filter(|_| cpus.len() > 1)
}
