//! Parsing and building of the headers that etherparse also supports, and of whole packets.

use std::array::from_fn;
use std::hint::black_box;

use etherparse as theirs;
use fabricmark_header::{arp, ethernet, ip, transport};
use fabricmark_units::Stream;

use crate::{CONFIDENCE, median, speed, table, timed, with_interval};

/// Operations in a round: 2 to 20 ms.
const OPERATIONS: u32 = 1_000_000;

/// Goal for the ratio, and the difference that cannot be distinguished (docs/bench.md).
const GOAL: f64 = 1.00;
const TOLERANCE: f64 = 0.01;

/// Runs a number of operations; returns nanoseconds per operation.
type Timed = Box<dyn Fn(u32) -> f64>;

/// One operation on one header, by fabricmark and by etherparse.
struct Row {
    name: &'static str,
    ours: Timed,
    theirs: Timed,
}

/// Parsing and building. Both libraries get the same valid bytes and the same value.
fn timings<V, W>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Option<V> + Copy + 'static,
    write: impl Fn(&V) -> W + 'static,
) -> [Timed; 2] {
    let (read_from, written) = (bytes.to_vec(), bytes.to_vec());
    let reading = move |operations| {
        timed(operations, || {
            black_box(read(black_box(&read_from)));
        })
    };
    let writing = move |operations| {
        let Some(value) = read(&written) else { return f64::NAN };
        timed(operations, || {
            black_box(write(black_box(&value)));
        })
    };
    [Box::new(reading), Box::new(writing)]
}

/// A row for parsing and one for building, with the same method names for both libraries.
macro_rules! rows {
    ($name:literal, $bytes:expr, $ours:expr, $theirs:expr) => {
        rows!($name, $bytes, $ours, $theirs, |value| value.to_bytes())
    };
    ($name:literal, $bytes:expr, $ours:expr, $theirs:expr, |$value:ident| $write:expr) => {{
        let [read, write] = timings(&$bytes, $ours, |$value| $write);
        let [reads, writes] = timings(&$bytes, $theirs, |$value| $write);
        [
            Row { name: concat!("read ", $name), ours: read, theirs: reads },
            Row { name: concat!("write ", $name), ours: write, theirs: writes },
        ]
    }};
}

/// Bytes 0, 1, 2 ...
fn ramp<const N: usize>() -> [u8; N] {
    from_fn(|place| place as u8)
}

fn with<const N: usize>(places: &[(usize, u8)]) -> [u8; N] {
    let mut bytes = ramp();
    for &(place, byte) in places {
        bytes[place] = byte;
    }
    bytes
}

/// Concatenates headers to a packet.
#[inline(always)]
fn joined<const N: usize>(headers: &[&[u8]]) -> [u8; N] {
    let mut packet = [0; N];
    let mut rest = &mut packet[..];
    for header in headers {
        let (place, after) = rest.split_at_mut(header.len());
        place.copy_from_slice(header);
        rest = after;
    }
    packet
}

fn all() -> Vec<Row> {
    let rows = [
        rows!(
            "Ethernet",
            ramp::<64>(),
            |bytes| ethernet::EthernetView::of(bytes).map(|(view, _)| view.value()),
            |bytes| theirs::Ethernet2Header::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "802.1Q",
            ramp::<64>(),
            |bytes| ethernet::VlanView::of(bytes).map(|(view, _)| view.value()),
            |bytes| theirs::SingleVlanHeader::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "ARP",
            with::<28>(&[(2, 8), (3, 0), (4, 6), (5, 4)]),
            |bytes| arp::ArpView::of(bytes).map(|(view, _)| view.value()),
            |bytes| theirs::ArpPacket::from_slice(bytes).ok()
        ),
        rows!(
            "IPv4",
            with::<64>(&[(0, 0x45), (2, 0), (3, 64)]),
            |bytes| ip::Ipv4Packet::of(bytes).ok().map(|packet| packet.header.value()),
            |bytes| theirs::Ipv4Header::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "IPv6",
            with::<64>(&[(0, 0x60), (4, 0), (5, 24)]),
            |bytes| ip::Ipv6Packet::of(bytes).ok().map(|packet| packet.header.value()),
            |bytes| theirs::Ipv6Header::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "IPv6 fragment",
            ramp::<64>(),
            |bytes| ip::Ipv6FragmentView::of(bytes).map(|(view, _)| view.value()),
            |bytes| theirs::Ipv6FragmentHeader::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "UDP",
            with::<64>(&[(4, 0), (5, 64)]),
            |bytes| transport::UdpView::of(bytes).map(|(view, _)| view.value()),
            |bytes| theirs::UdpHeader::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "TCP",
            with::<64>(&[(12, 0x50)]),
            |bytes| {
                let (view, rest) = transport::TcpView::of(bytes)?;
                view.split(rest).map(|_| view.value())
            },
            |bytes| theirs::TcpHeader::from_slice(bytes).ok().map(|(header, _)| header)
        ),
        rows!(
            "Ethernet, IPv4, UDP",
            with::<64>(&[(14, 0x45), (16, 0), (17, 50), (38, 0), (39, 30)]),
            |bytes| {
                let (ethernet, rest) = ethernet::EthernetView::of(bytes)?;
                let ip = ip::Ipv4Packet::of(rest).ok()?;
                let (udp, _) = transport::UdpView::of(ip.payload)?;
                Some((ethernet.value(), ip.header.value(), udp.value()))
            },
            |bytes| {
                let (ethernet, rest) = theirs::Ethernet2Header::from_slice(bytes).ok()?;
                let (ip, rest) = theirs::Ipv4Header::from_slice(rest).ok()?;
                let (udp, _) = theirs::UdpHeader::from_slice(rest).ok()?;
                Some((ethernet, ip, udp))
            },
            |value| joined::<42>(&[&value.0.to_bytes(), &value.1.to_bytes(), &value.2.to_bytes()])
        ),
        rows!(
            "Ethernet, 802.1Q, IPv6, TCP",
            with::<78>(&[(18, 0x60), (22, 0), (23, 20), (70, 0x50)]),
            |bytes| {
                let (ethernet, rest) = ethernet::EthernetView::of(bytes)?;
                let (tag, rest) = ethernet::VlanView::of(rest)?;
                let ip = ip::Ipv6Packet::of(rest).ok()?;
                let (tcp, rest) = transport::TcpView::of(ip.payload)?;
                tcp.split(rest)?;
                Some((ethernet.value(), tag.value(), ip.header.value(), tcp.value()))
            },
            |bytes| {
                let (ethernet, rest) = theirs::Ethernet2Header::from_slice(bytes).ok()?;
                let (tag, rest) = theirs::SingleVlanHeader::from_slice(rest).ok()?;
                let (ip, rest) = theirs::Ipv6Header::from_slice(rest).ok()?;
                let (tcp, _) = theirs::TcpHeader::from_slice(rest).ok()?;
                Some((ethernet, tag, ip, tcp))
            },
            |value| joined::<78>(&[
                &value.0.to_bytes(),
                &value.1.to_bytes(),
                &value.2.to_bytes(),
                &value.3.to_bytes()
            ])
        ),
    ];
    rows.into_iter().flatten().collect()
}

/// Runs all rows in interleaved rounds, prints ratios, and returns whether all goals are met.
pub fn compare(rounds: u32, seed: u64) -> bool {
    let mut order = Stream::new(seed, "codecs");
    let mut table = table(&["codec", "fabricmark", "etherparse", "speed ratio", "goal"]);
    let mut is_met = true;
    for row in all() {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let is_first = order.below(2) == 0;
            for is_ours in [is_first, !is_first] {
                match is_ours {
                    true => ours.push((row.ours)(OPERATIONS)),
                    false => theirs.push((row.theirs)(OPERATIONS)),
                }
            }
        }
        let ratio = speed(&ours, &theirs);
        let low = ratio.as_ref().and_then(|ratio| ratio.interval).map(|interval| interval.low);
        let is_fast = low.is_some_and(|low| low >= GOAL - TOLERANCE);
        is_met &= is_fast;
        let ns = |times: &[f64]| median(times, CONFIDENCE).map(|m| format!("{:.2} ns", m.value));
        table.add_row([
            row.name.to_owned(),
            ns(&ours).unwrap_or_default(),
            ns(&theirs).unwrap_or_default(),
            ratio.map(|ratio| with_interval(&ratio, 2)).unwrap_or_default(),
            format!("≥ {GOAL:.2}  {}", if is_fast { "met" } else { "missed" }),
        ]);
    }
    println!("{table}");
    is_met
}
