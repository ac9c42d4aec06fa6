//! Ceilings and floors of messages over a path: one row for each IP version and payload.

mod asked;
mod print;

use fabricmark_units::Nanos;
use fabricmark_wire::{
    self as wire, Acks, Bus, Ceiling, Exact, Family, Floor, Hop, Impossible, InFlight, Input, Link,
    Path, Stack, one_way_floor, path_goodput, path_stream_goodput, rtt_floor, shared_goodput,
    shared_stream_goodput,
};

use self::asked::{path, stack, what};
use crate::exit::Failure;
use crate::options::ceiling as options;
use crate::options::stack::Transport;

pub use print::{MessageResults, as_text, chart, default_name, results};

/// All results.
pub struct Answer {
    path: Path,
    transport: Transport,
    /// The transport and its options, for example `rc write, immediate data`.
    what: String,
    /// Whether any link carries IP: native InfiniBand and RoCEv1 do not.
    has_ip: bool,
    rows: Vec<Row>,
    /// Sources of the figures.
    sources: Vec<&'static str>,
    /// Further assumptions, one sentence each.
    notes: Vec<String>,
}

/// Results for one payload size, or for a stream.
struct Row {
    family: Family,
    /// Payload in bytes; `None` for a stream.
    payload: Option<u64>,
    /// Packets per message; `None` for a stream.
    packets: Option<u64>,
    /// Bytes on the bottleneck link, per message or per packet of a stream.
    wire_bytes: u64,
    /// The smallest ceiling.
    ceiling: Ceiling,
    /// Name of the smallest ceiling.
    limit: String,
    /// Goodput as a share of the bottleneck link's rate.
    share: f64,
    /// One-way floor; `None` for a stream.
    floor: Option<Floor>,
}

impl Answer {
    /// Computes all results.
    pub fn of(options: &options::Ceiling) -> Result<Self, Failure> {
        let path = path(options)?;
        let payloads: Vec<Option<u64>> = match &options.payload {
            Some(payloads) => payloads.0.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let mut rows = Vec::new();
        let mut sources = Vec::new();
        let is_verbs_alone = |hop: &Hop| matches!(hop.link, Link::Ib(_) | Link::RoceV1 { .. });
        let has_ip = !path.hops.iter().all(is_verbs_alone);
        let families = if has_ip { options.family.as_slice() } else { &options.family[..1] };
        for &family in families {
            let stack = stack(options, family)?;
            for hop in &path.hops {
                for source in wire::sources(hop.link, stack) {
                    if !sources.contains(&source) {
                        sources.push(source);
                    }
                }
            }
            for &payload in &payloads {
                rows.push(Row::of(options, &path, stack, payload)?);
            }
        }
        sources.extend(further_sources(options));
        let mut notes = assumptions(options);
        for note in rows.iter().filter_map(|row| row.floor.as_ref()).flat_map(|floor| &floor.notes)
        {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        let (transport, what) = (options.stack.transport, what(options));
        Ok(Self { path, transport, what, has_ip, rows, sources, notes })
    }

    /// Whether there is more than one payload size to plot.
    pub fn has_several_payloads(&self) -> bool {
        self.rows.iter().any(|row| row.payload != self.rows[0].payload)
    }
}

impl Row {
    fn of(
        options: &options::Ceiling,
        path: &Path,
        stack: Stack,
        payload: Option<u64>,
    ) -> Result<Self, Failure> {
        let is_stream = options.stack.transport == Transport::Tcp && !options.per_write;
        let message = payload.filter(|_| !is_stream);
        let of_path = of_path(options, path, stack, message)?;
        let number = |name: &str| match of_path.inputs.get(name) {
            Some(&Input::Number(number)) => Some(number),
            _ => None,
        };
        let wire_bytes = number("wire_bytes").unwrap_or_default();
        let packets = message.and_then(|_| number("packets"));
        let tightest = match of_path.inputs.get("link") {
            Some(Input::Text(link)) => link.clone(),
            _ => path.to_string(),
        };
        let rate = tightest.parse::<Link>().ok().and_then(Link::rate_bps);
        let mut limits = vec![(tightest, of_path)];
        if let Some(bus) = options.bus {
            limits.push((format!("bus {bus}"), bus.goodput()?));
        }
        if let (Some(count), Some(bytes)) = (options.in_flight, payload) {
            limits.extend(in_flight(options, path, stack, count.into(), bytes)?);
        }
        // Of equal limits the first one counts: the link itself.
        let least = limits
            .into_iter()
            .reduce(|least, new| if new.1.goodput_bps < least.1.goodput_bps { new } else { least });
        let (limit, ceiling) = least.ok_or(Impossible::EmptyPath)?;
        let floor = payload.map(|payload| one_way_floor(path, stack, payload)).transpose()?;
        Ok(Self {
            family: stack.family(),
            payload,
            packets,
            wire_bytes,
            share: rate.map_or(0.0, |rate| ceiling.goodput_bps.as_f64() / rate.as_f64()),
            ceiling,
            limit,
            floor,
        })
    }
}

/// Ceiling of the links for messages or for a stream, with ACKs if they use bandwidth.
fn of_path(
    options: &options::Ceiling,
    path: &Path,
    stack: Stack,
    message: Option<u64>,
) -> Result<Ceiling, Failure> {
    if options.acks == Acks::Free {
        return Ok(match message {
            Some(payload) => path_goodput(path, stack, payload)?,
            None => path_stream_goodput(path, stack)?,
        });
    }
    let [hop] = path.hops.as_slice() else {
        return Err(Failure::input("--acks supports only one link: leave out the others"));
    };
    if options.per_write {
        return Err(Failure::input(
            "--acks is not supported with --per-write: leave out --per-write",
        ));
    }
    Ok(match message {
        Some(payload) => shared_goodput(hop.link, stack, payload, options.acks)?,
        None => shared_stream_goodput(hop.link, stack, options.acks)?,
    })
}

/// Ceilings with `count` messages in flight, by RTT and by packet sequence numbers.
fn in_flight(
    options: &options::Ceiling,
    path: &Path,
    stack: Stack,
    count: u64,
    bytes: u64,
) -> Result<Vec<(String, Ceiling)>, Failure> {
    let Stack::Rc { operation, family, .. } = stack else {
        let message =
            "--in-flight is supported only with --transport rc; use `ceiling lfn` for tcp";
        return Err(Failure::input(message));
    };
    let is_read = operation == wire::Operation::Read;
    let rtt = match options.rtt {
        Some(rtt) => rtt,
        // The RTT of a send and an empty send back: a lower bound, since a write and an ACK have one more header.
        None if !is_read => {
            let send = Stack::Rc { operation: wire::Operation::Send, immediate: false, family };
            whole(rtt_floor(path, send, bytes, 0)?.time_ns)
        }
        None => whole(rtt_floor(path, stack, 0, bytes)?.time_ns),
    };
    let what = if is_read {
        InFlight::Reads { outstanding: count, bytes }
    } else {
        InFlight::Messages { count, bytes }
    };
    let mut limits = vec![(format!("{count} in flight"), what.goodput(rtt)?)];
    if let Some(path_mtu) = path.hops.iter().filter_map(|hop| hop.link.path_mtu()).min() {
        let numbers = InFlight::SequenceNumbers { path_mtu }.goodput(rtt)?;
        limits.push(("sequence numbers".to_owned(), numbers));
    }
    Ok(limits)
}

/// Whole nanoseconds, rounded down so that a floor stays a floor.
fn whole(time_ns: Exact) -> Nanos {
    Nanos((time_ns.numerator() / time_ns.denominator()) as u64)
}

/// Sources of the limits other than the links.
fn further_sources(options: &options::Ceiling) -> Vec<&'static str> {
    let bus = options.bus.map(|bus| match bus {
        Bus::PciX133 => "PCI-X Addendum 1.0 (64 bits, 133 MHz)",
        Bus::Pcie { .. } => "PCI Express Base Specification 1.1 to 5.0 (rates and coding of lanes)",
    });
    let in_flight = options.in_flight.map(|_| "IBTA vol. 1, 9.7.1 (24-bit sequence numbers)");
    let is_delayed = options.acks == Acks::EveryOther && options.stack.transport == Transport::Tcp;
    let delayed = is_delayed.then_some("RFC 9293 section 3.8.6.3 (delayed ACKs)");
    [bus, in_flight, delayed].into_iter().flatten().collect()
}

/// Assumptions that the kind of a figure does not express.
fn assumptions(options: &options::Ceiling) -> Vec<String> {
    let mut notes = Vec::new();
    match options.stack.transport {
        Transport::Udp => {
            notes.push("fragments are as large as possible, as in all known stacks");
        }
        Transport::Tcp if options.per_write => {
            notes.push(
                "a stack that merges writes exceeds this: only the ceiling of the stream is \
                        a bound",
            );
        }
        Transport::Tcp if options.stack.timestamps => {
            notes.push("holds if every segment carries timestamps");
        }
        _ => {}
    }
    notes.push(match (options.half_duplex, options.acks) {
        (false, Acks::Free) => "full duplex, one way",
        (false, _) => "full duplex, the same in each direction",
        (true, Acks::Free) => "half duplex, one way, without ACKs",
        (true, _) => "half duplex, one way",
    });
    if options.payload.is_some() {
        notes.push("the one-way time does not include the hosts");
    }
    notes.into_iter().map(str::to_owned).collect()
}
