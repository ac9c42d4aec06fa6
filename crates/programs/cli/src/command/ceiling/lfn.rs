//! `fabricmark ceiling lfn`: what a long fat network requires of a TCP connection.

mod path;
mod print;

use fabricmark_units::Nanos;
use fabricmark_wire::Exact;
use fabricmark_wire::lfn::{
    self, Connection, Figure, Ramp, Value, WINDOW_MAX, bdp, between_losses, cubic_recovery,
    fibre_rtt, land_speed, law_goodput, least, longest_rtt, reno_recovery, slow_start,
    tolerated_loss, window_limit,
};

use path::Path;

use super::number::{bytes, mbps};
use crate::exit::Failure;
use crate::options::lfn::{LAWS, Lfn};

pub use print::{LfnResults, as_text, results};

/// All results for one path.
pub struct Answer {
    path: Path,
    /// Goodput limits, by name.
    limits: Vec<(String, Figure)>,
    /// Index of the smallest of `limits`.
    least: usize,
    /// Goodput to sustain: the target of the figures below.
    wanted_bps: Exact,
    product: Figure,
    window_needed: Figure,
    longest_rtt: Figure,
    initial_segments: u16,
    ramp: Ramp,
    reno_recovery: Figure,
    cubic_recovery: Figure,
    /// For each model, the tolerated loss rate and the time between losses; `None` if no loss rate is small enough.
    tolerated: Vec<(lfn::Law, Option<(Figure, Figure)>)>,
    /// Propagation RTT over the distance, and the land speed.
    distance: Option<(Figure, Figure)>,
}

/// Error for numbers so large that a computation overflows.
fn too_large() -> Failure {
    Failure::input("these numbers are too large")
}

impl Answer {
    /// Computes all results.
    pub fn of(options: &Lfn) -> Result<Self, Failure> {
        let path = Path::of(options)?;
        let (rtt, mss_bytes, acks) = (path.rtt, path.mss_bytes, options.acks);
        let window_bytes = options.window.map_or(WINDOW_MAX, |window| window.0);
        let connection = Connection {
            mss_bytes,
            rtt,
            timeout: options.timeout.unwrap_or(Nanos(rtt.0.saturating_mul(4))),
            window_bytes,
            acks,
            fit: options.fit,
        };
        let limited = window_limit(window_bytes, rtt).ok_or_else(too_large)?;
        let reachable = [path.stream.clone(), limited.clone()];
        let reachable = reachable[least(&reachable).unwrap_or(0)].value;
        let mut limits = vec![
            (path.what.clone(), path.stream.clone()),
            (format!("window of {}", bytes(window_bytes as f64)), limited),
        ];
        if let Some(loss) = options.loss.filter(|loss| *loss > 0.0) {
            let law = options.law;
            let figure = law_goodput(law, &connection, loss).ok_or_else(too_large)?;
            limits.push((format!("{} at a loss of {loss:e}", name(law)), figure));
        }
        let figures: Vec<Figure> = limits.iter().map(|(_, figure)| figure.clone()).collect();
        let least = least(&figures).unwrap_or(0);
        let wanted_bps = match (options.goodput, reachable) {
            (Some(goodput), _) => Exact::new(goodput.0.into(), 1).ok_or_else(too_large)?,
            (None, Value::Exact(reachable)) => reachable,
            (None, Value::Rounded(_)) => return Err(too_large()),
        };
        let wanted = wanted_bps.as_f64();
        if wanted <= 0.0 || wanted > path.stream.value.as_f64() {
            let most = mbps(path.stream.value.as_f64());
            return Err(Failure::input(format!(
                "--goodput {} is outside 0 to {most}, the limit of the path; use a lower value",
                mbps(wanted)
            )));
        }
        let window_needed = bdp(wanted_bps, rtt).ok_or_else(too_large)?;
        let Value::Exact(needed_bytes) = window_needed.value else { return Err(too_large()) };
        let needed_whole = needed_bytes.as_f64().ceil() as u64;
        let tolerated = lfn::Law::ALL.map(|law| {
            let loss = tolerated_loss(law, &connection, wanted);
            let apart = |loss: Figure| {
                Some((loss.clone(), between_losses(wanted, mss_bytes, loss.value.as_f64())?))
            };
            (law, loss.and_then(apart))
        });
        let rate = &limits[least].1;
        let distance = match options.distance {
            Some(metres) => {
                Some((fibre_rtt(metres.0), land_speed(rate, metres.0).ok_or_else(too_large)?))
            }
            None => None,
        };
        Ok(Self {
            product: bdp(path.rate_bps, rtt).ok_or_else(too_large)?,
            longest_rtt: longest_rtt(wanted_bps, WINDOW_MAX).ok_or_else(too_large)?,
            initial_segments: options.initial_window,
            ramp: slow_start(needed_whole, mss_bytes, options.initial_window.into(), acks, rtt)
                .ok_or_else(too_large)?,
            reno_recovery: reno_recovery(needed_bytes, mss_bytes, acks, rtt)
                .ok_or_else(too_large)?,
            cubic_recovery: cubic_recovery(needed_bytes, mss_bytes, rtt).ok_or_else(too_large)?,
            tolerated: tolerated.into(),
            distance,
            window_needed,
            wanted_bps,
            least,
            limits,
            path,
        })
    }
}

/// Name of a model on the command line.
fn name(law: lfn::Law) -> &'static str {
    LAWS.iter().find(|(_, known, _)| *known == law).map_or("", |(name, ..)| name)
}
