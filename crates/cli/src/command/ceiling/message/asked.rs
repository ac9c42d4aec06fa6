//! From options to the path and the stack that they describe.

use fabricmark_units::Nanos;
use fabricmark_wire::{self as wire, Family, Hop, Link, Path, Stack, fibre_delay, frame};

use crate::exit::{Code, Failure};
use crate::options::ceiling::{Ceiling, Operation, Transport};

/// The links with switches between them.
pub fn path(options: &Ceiling) -> Result<Path, Failure> {
    let (links, switches) = (&options.link, &options.switch);
    let links = match links.as_slice() {
        [only] => vec![*only; 1 + switches.len()],
        several => several.to_vec(),
    };
    let between = links.len() - 1;
    if switches.len() > 1 && switches.len() != between {
        let message = format!(
            "{} switches do not stand between {} links: give one for all, or {between}",
            switches.len(),
            links.len()
        );
        return Err(Failure::new(Code::Input, message));
    }
    let switch = |place: usize| match switches.as_slice() {
        [] => None,
        [all] => Some(*all),
        several => Some(several[place]),
    };
    let hop =
        |(place, link): (usize, Link)| Hop { link, switch: place.checked_sub(1).and_then(switch) };
    let propagation_ns = match (options.propagation, options.distance) {
        (Some(time), _) => time,
        (None, Some(distance)) => fibre_delay(distance.0),
        (None, None) => Nanos(0),
    };
    Ok(Path { hops: links.into_iter().enumerate().map(hop).collect(), propagation_ns })
}

/// What carries the payload over IP of `family`; refuses options of other transports.
pub fn stack(options: &Ceiling, family: Family) -> Result<Stack, Failure> {
    let refuse = |message: &str| Err(Failure::new(Code::Input, message));
    let is = |transport: Transport| options.transport == transport;
    if options.timestamps && !is(Transport::Tcp) || options.per_write && !is(Transport::Tcp) {
        return refuse("--timestamps and --per-write belong to --transport tcp");
    }
    if options.immediate && !is(Transport::Rc) && !is(Transport::Ud) {
        return refuse("immediate data belongs to --transport rc or ud");
    }
    if options.operation != Operation::Send && !is(Transport::Rc) {
        return refuse("--operation write and read belong to --transport rc");
    }
    if options.payload.is_none() && (is(Transport::Udp) || is(Transport::Ud)) {
        return refuse("datagrams have a size: give --payload");
    }
    let immediate = options.immediate;
    Ok(match options.transport {
        Transport::Udp => Stack::Udp { family },
        Transport::Tcp => {
            let option_bytes = if options.timestamps { frame::TCP_TIMESTAMPS } else { 0 };
            Stack::Tcp { family, option_bytes }
        }
        Transport::Rc => Stack::Rc { operation: options.operation.into(), immediate, family },
        Transport::Ud => Stack::Ud { immediate, family },
    })
}

/// The transport with what changes its packets.
pub fn what(options: &Ceiling) -> String {
    let operation = match options.transport {
        Transport::Rc => format!(" {}", wire::Operation::from(options.operation).word()),
        _ => String::new(),
    };
    let mut what = format!("{}{operation}", options.transport.word());
    for (is_so, words) in [
        (options.immediate, ", immediate data"),
        (options.timestamps, ", time stamps"),
        (options.per_write, ", each write alone"),
    ] {
        if is_so {
            what.push_str(words);
        }
    }
    what
}
