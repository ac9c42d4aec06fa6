//! Parts of a run: its two ends, the load in each direction, and the probe.

use fabricmark_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Direction, Path, Pattern, Probe, Wait};
use crate::factor::{Factor, Point};
use crate::pace::Pace;
use crate::transport::Transport;

/// Bytes of a probe's payload: as many as ping(8) of iputils sends, ICMP header included.
pub const PROBE_BYTES: Bytes = Bytes(64);

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Opens the flows: sends requests, and a stream unless it flows in reverse.
    Client,
    /// Listens for the flows: responds, and receives a stream unless it flows in reverse.
    Server,
}

impl Role {
    /// The name of its node.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Purpose of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The load that the point measures.
    Load,
    /// Measures the RTT while nothing else runs.
    ProbeIdle,
    /// Measures the RTT beside the load.
    Probe,
}

impl Purpose {
    /// Name of its flows in records, if the plan gives them none.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::ProbeIdle => "probe-idle",
            Self::Probe => "probe",
        }
    }
}

impl Point {
    /// The load: one point for each direction, or the point itself if it has one direction.
    pub fn loads(&self) -> Vec<Self> {
        let towards = |direction| Self { direction, probe: None, ..self.clone() };
        match self.direction {
            Some(Direction::Both) => {
                [Direction::Forward, Direction::Reverse].map(Some).map(towards).to_vec()
            }
            direction => vec![towards(direction)],
        }
    }

    /// The ping-pong that probes this point, in one flow on the same network path; `None` without a probe.
    pub fn prober(&self) -> Option<Self> {
        let transport = match self.probe? {
            Probe::Udp => Transport::Udp,
            Probe::Tcp => Transport::Tcp,
        };
        let mut prober = Self {
            pattern: Pattern::PingPong,
            transport,
            payload: PROBE_BYTES,
            flows: 1,
            pace: Pace::Closed,
            path: Path::Copy,
            wait: Wait::Block,
            nodelay: transport.has_tcp().then_some(true),
            ..Self::blank()
        };
        for factor in Factor::ALL.into_iter().filter(|factor| factor.spec().is_shared) {
            prober.put(factor, &self.level(factor));
        }
        Some(prober)
    }
}

#[cfg(test)]
mod tests {
    use crate::{overlay, resolve};

    use super::*;

    fn point(levels: &str) -> Point {
        let base = "pattern=stream,family=4,payload=1KiB,link=loopback,congestion=cubic";
        resolve(&overlay(&format!("{base},{levels}")).unwrap()).unwrap()
    }

    #[test]
    fn a_stream_both_ways_is_a_load_each_way() {
        let both = point("transport=tcp,direction=both,flows=3");
        let directions: Vec<_> = both.loads().iter().map(|load| load.direction).collect();
        assert_eq!(directions, [Some(Direction::Forward), Some(Direction::Reverse)]);
        assert!(both.loads().iter().all(|load| load.flows == 3));
        assert_eq!(both.prober(), None);
    }

    #[test]
    fn a_probe_takes_the_way_of_the_load_in_one_small_flow() {
        let probed = point("transport=tcp,probe=udp,flows=9,dscp=46");
        assert_eq!(probed.loads(), [point("transport=tcp,flows=9,dscp=46")]);
        let prober = probed.prober().unwrap();
        assert_eq!(
            prober.key(),
            "pattern=ping-pong transport=udp family=4 payload=64 link=loopback dscp=46"
        );
        assert_eq!(point("transport=tcp,probe=none").prober(), None);
        let wide = point("transport=tcp,probe=udp,window=1MiB").prober().unwrap();
        assert_eq!(wide.window, None);
        assert_eq!((wide.emulate, wide.bus, wide.device), (None, None, None));
    }

    #[test]
    fn what_cannot_be_probed_or_flow_both_ways_is_refused() {
        let refusal = |levels: &str| {
            let base = "pattern=stream,family=4,payload=1KiB,link=loopback";
            resolve(&overlay(&format!("{base},{levels}")).unwrap()).unwrap_err().to_string()
        };
        assert!(refusal("transport=unix,probe=udp").contains("probe is not supported with unix"));
        assert!(refusal("transport=null,direction=both").contains("use direction=forward"));
        assert!(
            refusal("transport=udp,direction=both,source-port=9")
                .contains("source_port is supported only with one flow")
        );
    }
}
