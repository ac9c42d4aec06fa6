//! A connection and its path, ready to be simulated.

use std::fs;

use fabricmark_link::{Invalid, LinkOptions};
use fabricmark_tcpsim::{self as tcpsim, Congestion, Outcome, Settings};
use fabricmark_units::Nanos;
use fabricmark_wire::Family;
use fabricmark_wire::frame::TCP_TIMESTAMPS;

use crate::exit::Failure;
use crate::options::simulate::{Exit, Law};

/// A window that never limits: more bytes than any path holds, small enough to be added without overflow.
pub const UNLIMITED: u64 = 1 << 60;

/// TCP header without options, in bytes (RFC 9293, section 3.1).
const TCP_HEADER: u16 = 20;

/// Maximum number of simulated packets or trains: an optimised build processes a few million a second.
const STEPS_MAX: f64 = 3e8;

/// Sender, congestion control and path.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Distinguishes it from others in the output.
    pub name: String,
    pub forward: LinkOptions,
    pub reverse: LinkOptions,
    pub settings: Settings,
    pub seed: u64,
    /// Goodput limits in bit/s, by name, independent of congestion control. The wire comes first, if there is one.
    pub limits: Vec<(&'static str, f64)>,
}

/// Settings of a Linux sender: timestamps in each segment, RTO of at least 200 ms (`TCP_RTO_MIN`).
pub fn as_linux(law: Law, exit: Exit, family: Family, mtu: u16) -> Settings {
    let ip_header = match family {
        Family::V4 => 20,
        Family::V6 => 40,
    };
    let header_bytes = ip_header + TCP_HEADER + u16::from(TCP_TIMESTAMPS);
    Settings {
        header_bytes,
        mss_bytes: mtu.saturating_sub(header_bytes),
        congestion: match law {
            Law::Reno => Congestion::Reno,
            Law::Cubic => Congestion::Cubic { hystart: exit.into(), fast_convergence: true },
        },
        timeout_least: Nanos::from_millis(200),
        ..Settings::default()
    }
}

fn invalid(error: Invalid) -> Failure {
    Failure::input(error)
}

impl Connection {
    /// Reads the traces that the link options name, and computes the limits.
    pub fn new(
        name: String,
        mut forward: LinkOptions,
        mut reverse: LinkOptions,
        settings: Settings,
        seed: u64,
    ) -> Result<Self, Failure> {
        if settings.mss_bytes == 0 {
            let headers = settings.header_bytes;
            return Err(Failure::input(format!(
                "the MTU has no room for data behind {headers} bytes of headers: use a larger one"
            )));
        }
        for options in [&mut forward, &mut reverse] {
            if options.to_string().split(' ').any(|word| word == "pause") {
                let message =
                    "`pause` needs a link before this one, and a simulation has none: leave it out";
                return Err(Failure::input(message));
            }
            read_traces(options)?;
        }
        let mut connection = Self { name, forward, reverse, settings, seed, limits: Vec::new() };
        connection.limits = connection.limits()?;
        Ok(connection)
    }

    /// Base RTT: propagation only, without serialization.
    pub fn rtt(&self) -> Nanos {
        Nanos(self.forward.delay().0.saturating_add(self.reverse.delay().0))
    }

    /// The window in bytes; `None` if unlimited.
    pub fn window_bytes(&self) -> Option<u64> {
        Some(self.settings.window_bytes).filter(|&bytes| bytes < UNLIMITED)
    }

    /// The smallest limit in bit/s.
    pub fn limit(&self) -> Option<(&'static str, f64)> {
        self.limits.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Goodput limit of the wire in bit/s; `None` if the link has no rate.
    pub fn wire_bps(&self) -> Option<f64> {
        self.limits.iter().find(|(what, _)| *what == "wire").map(|(_, bps)| *bps)
    }

    fn limits(&self) -> Result<Vec<(&'static str, f64)>, Failure> {
        let Settings { mss_bytes, header_bytes, pacing, .. } = self.settings;
        let mut limits = Vec::new();
        if let Some(line) = self.forward.line().map_err(invalid)? {
            limits.push(("wire", line.stream_bps(header_bytes, mss_bytes)));
        }
        let rtt_s = self.rtt().as_secs_f64();
        if let Some(window_bytes) = self.window_bytes().filter(|_| rtt_s > 0.0) {
            let whole = window_bytes - window_bytes % u64::from(mss_bytes);
            limits.push(("window", 8.0 * whole as f64 / rtt_s));
        }
        if let Some(rate) = pacing {
            let packet_bytes = f64::from(mss_bytes) + f64::from(header_bytes);
            limits.push(("pacing", rate.0 as f64 * f64::from(mss_bytes) / packet_bytes));
        }
        Ok(limits)
    }

    /// Runs the simulation.
    pub fn simulate(&self, duration: Nanos, interval: Nanos) -> Result<Outcome, Failure> {
        self.check(duration)?;
        let forward = self.forward.build(self.seed, "there").map_err(invalid)?;
        let reverse = self.reverse.build(self.seed, "back").map_err(invalid)?;
        let path = tcpsim::Path::new(forward, reverse);
        tcpsim::simulate(&self.settings, path, duration, interval).map_err(invalid)
    }

    /// Fails if the simulation would take too long or have no limit.
    fn check(&self, duration: Nanos) -> Result<(), Failure> {
        let Some((_, limit_bps)) = self.limit() else {
            return Err(Failure::input(
                "nothing limits this connection: give a rate (rate=10G, link=ethernet:10G) or a window \
                 and a delay (rtt=400ms)",
            ));
        };
        let packets_per_s = limit_bps / (8.0 * f64::from(self.settings.mss_bytes));
        // A window of more segments than trains moves in trains.
        let trains_per_s = self.settings.trains as f64 / self.rtt().as_secs_f64();
        let steps = duration.as_secs_f64() * packets_per_s.min(trains_per_s);
        if steps > STEPS_MAX {
            let message =
                format!("{duration} of this connection are {steps:.0e} packets, too many");
            return Err(Failure::input(format!(
                "{message}: give a shorter --duration or a longer delay"
            )));
        }
        Ok(())
    }
}

fn read_traces(options: &mut LinkOptions) -> Result<(), Failure> {
    let read = |file: &str| fs::read_to_string(file).map_err(|error| error.to_string());
    options.read_files(read).map_err(Failure::input)
}
