//! Converts options to a path and a protocol stack.

use fabricmark_units::Nanos;
use fabricmark_wire::{Family, Hop, Link, Path, Stack, fibre_delay};

use crate::exit::Failure;
use crate::options::ceiling::Ceiling;
use crate::options::stack::Transport;

/// The links, with switches between them.
pub fn path(options: &Ceiling) -> Result<Path, Failure> {
    let (links, switches) = (&options.link, &options.switch);
    let links = match links.as_slice() {
        [only] => vec![*only; 1 + switches.len()],
        several => several.to_vec(),
    };
    let between = links.len() - 1;
    if switches.len() > 1 && switches.len() != between {
        let message = format!(
            "{} switches do not fit between {} links: give one for all, or {between}",
            switches.len(),
            links.len()
        );
        return Err(Failure::input(message));
    }
    let switch = |place: usize| match switches.as_slice() {
        [] => None,
        [all] => Some(*all),
        several => Some(several[place]),
    };
    let hop = |(place, link): (usize, Link)| Hop::new(link, place.checked_sub(1).and_then(switch));
    let propagation_ns = match (options.propagation, options.distance) {
        (Some(time), _) => time,
        (None, Some(distance)) => fibre_delay(distance.0),
        (None, None) => Nanos(0),
    };
    Ok(Path { hops: links.into_iter().enumerate().map(hop).collect(), propagation_ns })
}

/// The protocol stack over IP of `family`. Options of other transports are an error.
pub fn stack(options: &Ceiling, family: Family) -> Result<Stack, Failure> {
    let refuse = |message: &str| Err(Failure::input(message));
    let transport = options.stack.transport;
    if options.per_write && transport != Transport::Tcp {
        return refuse(
            "--per-write is supported only with tcp: leave it out, or use --transport tcp",
        );
    }
    if options.payload.is_none() && matches!(transport, Transport::Udp | Transport::Ud) {
        return refuse("datagrams need a size: give --payload");
    }
    options.stack.over(family)
}

/// The transport and its options as text.
pub fn what(options: &Ceiling) -> String {
    let operation = match options.stack.transport {
        Transport::Rc => format!(" {}", options.stack.operation.word()),
        _ => String::new(),
    };
    let mut what = format!("{}{operation}", options.stack.transport.word());
    for (is_so, words) in [
        (options.stack.immediate, ", immediate data"),
        (options.stack.timestamps, ", timestamps"),
        (options.per_write, ", separate writes"),
    ] {
        if is_so {
            what.push_str(words);
        }
    }
    what
}
