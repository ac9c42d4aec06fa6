//! Limits of a long path, whatever the connection does.

use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{FIBRE_INDEX, Figure, Value, fibre_rtt};
use fabricmark_wire::{
    Ceiling, Exact, Input, Kind, Link, Stack, frame, goodput, sources, stream_goodput,
};

use super::too_large;
use crate::command::ceiling::number::time;
use crate::exit::Failure;
use crate::options::lfn::Lfn;

/// Default MSS: Ethernet's 1,500 bytes minus 20 of IPv4 and 20 of TCP.
const MSS: u64 = 1460;

/// Rate, RTT and MSS of a path.
pub struct Path {
    /// What sets the bound: a rate, or a stream over a link.
    pub what: String,
    /// Rate of the link in bit/s, headers included.
    pub rate_bps: Exact,
    /// Rate of the TCP stream in bit/s.
    pub stream: Figure,
    /// MSS in bytes.
    pub mss_bytes: u64,
    /// RTT of the path.
    pub rtt: Nanos,
    /// Sources of the stream's bound.
    pub sources: Vec<&'static str>,
}

impl Path {
    /// The path described by the options: a link, or only a rate.
    pub fn of(options: &Lfn) -> Result<Self, Failure> {
        let rtt = round_trip(options)?;
        match options.link {
            Some(link) => Self::over(link, options, rtt),
            None => Self::at_rate(options, rtt),
        }
    }

    fn at_rate(options: &Lfn, rtt: Nanos) -> Result<Self, Failure> {
        let rate = options.rate.unwrap_or_default();
        let rate_bps = Exact::new(rate.0.into(), 1).filter(|_| rate.0 > 0);
        let rate_bps =
            rate_bps.ok_or_else(|| Failure::input("the rate is 0: give --rate above 0"))?;
        let stream = Figure {
            kind: Kind::Bound,
            value: Value::Exact(rate_bps),
            formula: "rate_bps",
            inputs: [("rate_bps".to_owned(), Input::Number(rate.0))].into(),
            source: "--rate",
        };
        let mss_bytes = options.mss.map_or(MSS, u64::from);
        let what = format!("rate of {rate}");
        Ok(Self { what, rate_bps, stream, mss_bytes, rtt, sources: Vec::new() })
    }

    fn over(link: Link, options: &Lfn, rtt: Nanos) -> Result<Self, Failure> {
        let option_bytes = if options.timestamps { frame::TCP_TIMESTAMPS } else { 0 };
        let stack = Stack::Tcp { family: options.family, option_bytes };
        let best = stream_goodput(link, stack)?;
        let Some(&Input::Number(largest)) = best.inputs.get("mss_bytes") else {
            return Err(too_large());
        };
        let (stream, mss_bytes) = match options.mss.map(u64::from) {
            Some(mss) if mss > largest => {
                let message =
                    format!("segments of {mss} bytes do not fit in {link}: use at most {largest}");
                return Err(Failure::input(message));
            }
            // Conditional: only this option keeps segments so short.
            Some(mss) if mss < largest => (goodput(link, stack, mss)?, mss),
            _ => (best, largest),
        };
        Ok(Self {
            what: format!("stream over {link}"),
            rate_bps: link.rate_bps().ok_or_else(too_large)?,
            stream: framed(stream),
            mss_bytes,
            rtt,
            sources: sources(link, stack),
        })
    }
}

/// The given RTT, or that of light in fibre over the given distance.
fn round_trip(options: &Lfn) -> Result<Nanos, Failure> {
    let light_ns = options.distance.map_or(0.0, |metres| fibre_rtt(metres.0).value.as_f64());
    let rtt = options.rtt.unwrap_or(Nanos(light_ns.ceil() as u64));
    if rtt.0 == 0 {
        return Err(Failure::input("the RTT is 0: give --rtt above 0"));
    }
    if (rtt.0 as f64) < light_ns / FIBRE_INDEX {
        return Err(Failure::input(format!(
            "light in vacuum needs an RTT of {} over this distance: give a longer --rtt",
            time(light_ns / FIBRE_INDEX)
        )));
    }
    Ok(rtt)
}

fn framed(ceiling: Ceiling) -> Figure {
    Figure {
        kind: ceiling.kind,
        value: Value::Exact(ceiling.goodput_bps),
        formula: "rate_bps * mss_bytes / wire_bytes",
        inputs: ceiling.inputs,
        source: "headers of the link",
    }
}
