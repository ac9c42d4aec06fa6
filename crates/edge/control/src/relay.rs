//! The relay of a part of a run: a worker at its node, between those of the ends.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fabricmark_host::UsageMeter;
use fabricmark_plan::{Direction, Pace, Pattern, Point};
use fabricmark_proto::{EndReport, Failure, OPENING_BYTES, Order, Prepare, Report};
use fabricmark_record::{RelayTimes, service_demand_us_per_kib};
use fabricmark_relay::{Burst, Ended, Relay, RelayError, Settings, Stop, Transfer};

use crate::error::PlanError;
use crate::node::Node;

/// Time for a relay to listen, and to end after its connections have: both take milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Time that connections of a run get to end when both of its ends have finished.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Most open connections of a relay of few flows.
const CONNECTIONS_MIN: usize = 64;

/// Where a relay runs.
pub(crate) struct RelayPlace {
    /// Where it listens.
    pub(crate) address: IpAddr,
    /// From where it may connect to the server.
    pub(crate) sources: Vec<IpAddr>,
}

impl RelayPlace {
    /// A relay that listens at the address from which it connects.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self { address, sources: vec![address] }
    }
}

/// Lets a worker relay as its order says; returns the port at which it listens, or why it cannot.
pub(crate) fn start(
    worker: &mut Node,
    prepare: Prepare,
) -> Result<Result<u16, Failure>, PlanError> {
    let (run, patience) = (prepare.run, Duration::from(prepare.patience()));
    worker.send(&Order::Prepare(Box::new(prepare)))?;
    let why = match worker.wait_for(run, ANSWER_WITHIN + patience)? {
        Some(Report::Ready { port, .. }) => return Ok(Ok(port)),
        Some(Report::Failed { failure, .. }) => return Ok(Err(failure)),
        Some(Report::Queued { .. }) => {
            "another coordinator measures at its host; wait, or use another host for the relay"
        }
        _ => "it did not answer: its machine is overloaded, or the agent has stopped",
    };
    // Else it would start when the run is over.
    worker.send(&Order::Abort { run })?;
    Ok(Err(Failure::Peer(why.to_owned())))
}

/// Stops the relay of a run when its connections have ended; returns their times, if bytes have passed in the direction
/// of the stream, or why there are none.
pub(crate) fn finish(
    worker: &mut Node,
    run: u64,
) -> Result<Result<Option<RelayTimes>, Failure>, PlanError> {
    worker.send(&Order::Stop { run })?;
    Ok(match worker.wait_for(run, ANSWER_WITHIN + DRAIN_TIMEOUT)? {
        Some(Report::Finished { end, .. }) => Ok(end.relay),
        Some(Report::Failed { failure, .. }) => Err(failure),
        _ => Err(Failure::Peer("it did not end".to_owned())),
    })
}

/// Listens as an order says.
pub(crate) fn listen(prepare: &Prepare, forward: SocketAddr) -> Result<Relay, Failure> {
    let relay = listen_in_range(prepare, forward)?;
    match relay.address() {
        Ok(at) if at == forward => {
            Err(Failure::Protocol(format!("a relay at {at} to itself never ends")))
        }
        _ => Ok(relay),
    }
}

fn listen_in_range(prepare: &Prepare, forward: SocketAddr) -> Result<Relay, Failure> {
    let Some((first, last)) = prepare.ports.filter(|_| prepare.port == 0) else {
        return listen_at(prepare, prepare.port, forward).map_err(|error| failure(&error));
    };
    for port in first..=last {
        match listen_at(prepare, port, forward) {
            Err(RelayError::Listen { source, .. })
                if source.kind() == std::io::ErrorKind::AddrInUse => {}
            listening => return listening.map_err(|error| failure(&error)),
        }
    }
    let at = prepare.address;
    Err(Failure::Missing(format!(
        "no port from {first} to {last} of {at} is free: use a larger range, or see `ss -lntp`"
    )))
}

fn listen_at(prepare: &Prepare, port: u16, forward: SocketAddr) -> Result<Relay, RelayError> {
    let point = &prepare.point;
    let listen = prepare.reaches(prepare.address, port);
    let defaults = Settings::new(listen, prepare.reaches(forward.ip(), forward.port()));
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Relay::listen(Settings {
        clients: prepare.from.iter().map(IpAddr::to_canonical).collect(),
        path: point.relay.unwrap_or(defaults.path),
        buffer_bytes: point.relay_buffer.map_or(defaults.buffer_bytes, |buffer| size(buffer.0)),
        burst: point.relay_pace.as_ref().and_then(|pace| match *pace {
            Pace::Burst { bytes, period } => {
                Some(Burst { bytes: size(bytes.0), period: period.into() })
            }
            _ => None,
        }),
        connections_max: Some(connections(point).max(CONNECTIONS_MIN)),
        drain_timeout: DRAIN_TIMEOUT,
        // The handshake of a flow is not part of its transfer. In crr the first connection has only the handshake, and
        // the others have none.
        untimed_bytes: if point.pattern == Pattern::Crr { 0 } else { OPENING_BYTES as u64 },
        reports_ended: true,
        ..defaults
    })
}

/// Connections of a point that are open at once. In crr those that close overlap with the next ones.
fn connections(point: &Point) -> usize {
    let of_each = if point.pattern == Pattern::Crr { 2 } else { 1 };
    of_each * point.flows as usize
}

fn failure(error: &RelayError) -> Failure {
    match error {
        RelayError::Descriptors { .. } | RelayError::Ring(_) => Failure::Missing(error.to_string()),
        RelayError::Invalid(_) | RelayError::Listen { .. } => Failure::System(error.to_string()),
    }
}

/// Relays until it is to stop and the connections have ended.
pub(crate) fn serve(relay: Relay, point: &Point, stop: &Stop) -> Result<EndReport, Failure> {
    let (meter, mut sum) = (UsageMeter::start(), Sum::new(point));
    let served = relay.serve(stop, &mut |board| board.ended().for_each(|ended| sum.add(&ended)));
    let counters = served.map_err(|error| Failure::System(error.to_string()))?;
    let moved_bytes = counters.upstream_bytes + counters.downstream_bytes;
    // All other threads of the worker sleep meanwhile.
    let cpu_ns = meter.finish().process.cpu_ns as f64;
    let demand_us_per_kib = service_demand_us_per_kib(cpu_ns, moved_bytes);
    let means = sum.means().zip(demand_us_per_kib);
    let relay = means.map(|(means, demand_us_per_kib)| RelayTimes { demand_us_per_kib, ..means });
    Ok(EndReport { relay, ..EndReport::default() })
}

/// Sums over the connections that moved bytes in the direction of the stream.
struct Sum {
    is_reverse: bool,
    /// Bytes of a connection that counts; `None`: any.
    bytes: Option<u64>,
    count: u64,
    times: RelayTimes,
}

impl Sum {
    fn new(point: &Point) -> Self {
        Self {
            is_reverse: point.direction == Some(Direction::Reverse),
            bytes: (point.pattern == Pattern::Crr).then_some(point.payload.0),
            count: 0,
            times: RelayTimes::default(),
        }
    }

    fn add(&mut self, ended: &Ended) {
        let transfer = if self.is_reverse { &ended.downstream } else { &ended.upstream };
        let &Transfer { bytes, .. } = transfer;
        let (Some(switching_ns), Some(receiving_ns)) =
            (transfer.switching_ns(), transfer.receiving_ns())
        else {
            return;
        };
        if self.bytes.is_some_and(|wanted| bytes != wanted) {
            return;
        }
        self.count += 1;
        self.times.switching_ns += switching_ns as f64;
        self.times.receiving_ns += receiving_ns as f64;
        self.times.bytes += bytes as f64;
    }

    fn means(&self) -> Option<RelayTimes> {
        let RelayTimes { switching_ns, receiving_ns, bytes, .. } = self.times;
        let mean = |sum: f64| sum / self.count as f64;
        (self.count > 0).then(|| RelayTimes {
            switching_ns: mean(switching_ns),
            receiving_ns: mean(receiving_ns),
            bytes: mean(bytes),
            ..RelayTimes::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use fabricmark_relay::Outcome;

    use super::*;

    /// A connection with this many bytes upstream and none downstream.
    fn ended(bytes: u64, ns: u64) -> Ended {
        let upstream = Transfer {
            bytes,
            receives: 1,
            receive_began_ns: 1_000,
            receive_ended_ns: 1_000 + ns,
            send_began_ns: 1_000,
            send_ended_ns: 1_000 + ns,
        };
        let client = (Ipv4Addr::LOCALHOST, 1).into();
        let (outcome, downstream) = (Outcome::Ended, Transfer::default());
        Ended { client, outcome, elapsed_ns: ns, upstream, downstream }
    }

    #[test]
    fn times_are_means_over_the_connections_that_moved_bytes() {
        let means = |is_reverse, bytes| {
            let mut sum = Sum { is_reverse, bytes, count: 0, times: RelayTimes::default() };
            for (bytes, ns) in [(100, 30), (200, 50), (0, 0)] {
                sum.add(&ended(bytes, ns));
            }
            sum.means()
        };
        let of = |ns, bytes| RelayTimes {
            switching_ns: ns,
            receiving_ns: ns,
            bytes,
            ..RelayTimes::default()
        };
        assert_eq!(means(false, None), Some(of(40.0, 150.0)));
        assert_eq!(means(false, Some(200)), Some(of(50.0, 200.0)));
        assert_eq!(means(true, None), None);
    }

    #[test]
    fn a_failed_relay_is_a_fault_of_its_machine() {
        assert!(matches!(failure(&RelayError::Invalid("x".to_owned())), Failure::System(_)));
        let (connections, needed, limit) = (9, 9, 9);
        let lacking = RelayError::Descriptors { connections, needed, limit };
        assert!(matches!(failure(&lacking), Failure::Missing(_)));
    }
}
