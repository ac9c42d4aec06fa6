//! Ceilings of links, as the commands ask for them.

use fabricmark_wire::lfn::{Figure, Value};
use fabricmark_wire::{
    Ceiling, Exact, Family, Input, Link, frame, tcp_message_goodput, tcp_stream_goodput,
};

use crate::exit::{Code, Failure};

/// What a link carries of a TCP stream: its rate, the stream's bound, the bytes of a segment.
pub fn stream_of(
    link: Link,
    family: Family,
    timestamps: bool,
    mss: Option<u16>,
) -> Result<(Exact, Figure, u64), Failure> {
    let options = if timestamps { frame::TCP_TIMESTAMPS } else { 0 };
    let wrong = |message: String| Failure::new(Code::Input, message);
    let none = || wrong(format!("{link} has no wire"));
    let stream = tcp_stream_goodput(link, family, options).ok_or_else(none)?;
    let Some(&Input::Number(largest)) = stream.inputs.get("mss_bytes") else { return Err(none()) };
    let rate = link.rate().and_then(|rate| Exact::new(rate.0.into(), 1)).ok_or_else(none)?;
    let of = |ceiling: Ceiling| Figure {
        kind: ceiling.kind,
        value: Value::Exact(ceiling.goodput_bps),
        formula: "rate_bps * mss_bytes / wire_bytes",
        inputs: ceiling.inputs,
        source: "IEEE 802.3, RFC 9293",
    };
    match mss.map(u64::from).filter(|&mss| mss != largest) {
        None => Ok((rate, of(stream), largest)),
        Some(mss) if mss > largest => {
            Err(wrong(format!("segments of {mss} bytes do not fit {link}: {largest} at most")))
        }
        Some(mss) => {
            let short = tcp_message_goodput(link, family, mss, options).ok_or_else(none)?;
            Ok((rate, of(short), mss))
        }
    }
}
