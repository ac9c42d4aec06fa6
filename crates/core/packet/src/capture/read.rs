//! Reads classic pcap and pcapng files of both byte orders.

use super::{
    CaptureError, Captured, ERF, LinkType, MICROSECONDS, NANOSECONDS, PACKET_BYTES_MAX, erf,
};

/// Block types of pcapng, and the byte-order magic of a section header.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const SECTION_ORDER: u32 = 0x1a2b_3c4d;
pub(super) const INTERFACE: u32 = 1;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// Interface options: timestamp resolution, and the offset that is added to timestamps.
pub(super) const IF_TSRESOL: u16 = 9;
pub(super) const IF_TSOFFSET: u16 = 14;

/// Reads the packets of a file; the iterator ends after an error.
pub fn read(file: &[u8]) -> Result<Packets<'_>, CaptureError> {
    let reader = Reader { rest: file, is_big_endian: false, packet: 1 };
    let (&magic, _) = file.split_first_chunk::<4>().ok_or(CaptureError::NotACapture)?;
    match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
        (little @ (MICROSECONDS | NANOSECONDS), _) => classic(reader, little),
        (_, big @ (MICROSECONDS | NANOSECONDS)) => {
            classic(Reader { is_big_endian: true, ..reader }, big)
        }
        (SECTION, _) => Ok(Packets { reader, state: State::Blocks { interfaces: Vec::new() } }),
        _ => Err(CaptureError::NotACapture),
    }
}

/// Reads the rest of the file header of a classic pcap file.
fn classic(mut reader: Reader<'_>, magic: u32) -> Result<Packets<'_>, CaptureError> {
    let mut header = reader.take(24)?;
    header.rest = &header.rest[20..];
    // The upper bits give the length of the FCS at the end of packets; no common program sets them.
    let link_type = LinkType::of_number(header.u32()? as u16);
    let unit_ns = if magic == NANOSECONDS { 1 } else { 1000 };
    Ok(Packets { reader, state: State::Classic { link_type, unit_ns } })
}

/// Iterator over the packets of a capture file, in file order.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    reader: Reader<'a>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Classic { link_type: LinkType, unit_ns: u64 },
    Blocks { interfaces: Vec<Interface> },
}

/// Interface description of pcapng.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// Timestamp ticks per second; 0 if the unit is too small to represent.
    ticks_per_s: u64,
    /// Seconds to add to timestamps.
    offset_s: i64,
    /// Most bytes of a packet; 0: not limited.
    snapshot_bytes: u32,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Captured<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = &mut self.reader;
        let result = loop {
            let found = match &mut self.state {
                _ if reader.rest.is_empty() => return None,
                State::Classic { link_type, unit_ns } => {
                    record(reader, *link_type, *unit_ns).map(Some)
                }
                State::Blocks { interfaces } => block(reader, interfaces),
            };
            // Skip blocks without a packet.
            if let Some(result) = found.transpose() {
                break result;
            }
        };
        match result {
            Ok(_) => self.reader.packet += 1,
            Err(_) => self.reader.rest = &[],
        }
        Some(result.map(opened))
    }
}

/// Unwraps the packet in an ERF record; other packets are unchanged.
fn opened(packet: Captured<'_>) -> Captured<'_> {
    let found = match packet.link_type {
        LinkType::Other(ERF) => erf::packet(packet.bytes),
        _ => None,
    };
    let Some((link_type, bytes)) = found else { return packet };
    // The bytes that were not captured are missing from the end of both record and packet.
    let missing = packet.captured_from_bytes.saturating_sub(packet.bytes.len() as u32);
    Captured { link_type, bytes, captured_from_bytes: bytes.len() as u32 + missing, ..packet }
}

/// Reads a packet of a classic pcap file.
fn record<'a>(
    reader: &mut Reader<'a>,
    link_type: LinkType,
    unit_ns: u64,
) -> Result<Captured<'a>, CaptureError> {
    let mut header = reader.take(16)?;
    let (seconds, fraction) = (u64::from(header.u32()?), u64::from(header.u32()?));
    let (bytes, captured_from_bytes) = (header.u32()?, header.u32()?);
    let time_ns = Some(seconds * 1_000_000_000 + fraction * unit_ns);
    let bytes = reader.packet_bytes(bytes)?;
    Ok(Captured { link_type, time_ns, captured_from_bytes, bytes })
}

/// Reads a pcapng block, and the packet in it if it has one.
fn block<'a>(
    reader: &mut Reader<'a>,
    interfaces: &mut Vec<Interface>,
) -> Result<Option<Captured<'a>>, CaptureError> {
    let packet = reader.packet;
    let broken = |what| CaptureError::Broken { packet, what };
    let mut head = reader.clone().take(12)?;
    // The type of a section header is the same in both byte orders; the third word gives the byte order.
    if head.u32()? == SECTION {
        reader.is_big_endian = match head.rest.get(4..8) {
            Some(order) if order == SECTION_ORDER.to_be_bytes() => true,
            Some(order) if order == SECTION_ORDER.to_le_bytes() => false,
            _ => return Err(broken("the byte order of its section is unknown")),
        };
        interfaces.clear();
    }
    let mut head = reader.clone();
    let (kind, length) = (head.u32()?, head.u32()?);
    if length < 12 || length % 4 != 0 {
        return Err(broken("the length of its block is invalid"));
    }
    let whole = reader.take(u64::from(length))?;
    let (body, end) = whole.rest.split_at(whole.rest.len() - 4);
    let mut end = Reader { rest: end, ..whole };
    if end.u32()? != length {
        return Err(broken("the two lengths of its block differ"));
    }
    let mut body = Reader { rest: &body[8..], ..end };
    let unknown = || broken("its interface is not described in the file");
    match kind {
        INTERFACE => {
            interfaces.push(interface(&mut body)?);
            Ok(None)
        }
        ENHANCED_PACKET => {
            let (index, high, low) = (body.u32()?, body.u32()?, body.u32()?);
            let (bytes, captured_from_bytes) = (body.u32()?, body.u32()?);
            let at = interfaces.get(index as usize).ok_or_else(unknown)?;
            let time_ns = at.time_ns((u64::from(high) << 32) | u64::from(low));
            let bytes = body.packet_bytes(bytes)?;
            Ok(Some(Captured { link_type: at.link_type, time_ns, captured_from_bytes, bytes }))
        }
        SIMPLE_PACKET => {
            let captured_from_bytes = body.u32()?;
            let &Interface { link_type, snapshot_bytes, .. } =
                interfaces.first().ok_or_else(unknown)?;
            // The captured length is implied by the snapshot length, and by that of the block, which is padded.
            let most = if snapshot_bytes == 0 { u32::MAX } else { snapshot_bytes };
            let block = u32::try_from(body.rest.len()).unwrap_or(u32::MAX);
            let bytes = captured_from_bytes.min(most).min(block);
            let bytes = body.packet_bytes(bytes)?;
            Ok(Some(Captured { link_type, time_ns: None, captured_from_bytes, bytes }))
        }
        _ => Ok(None),
    }
}

fn interface(body: &mut Reader<'_>) -> Result<Interface, CaptureError> {
    let link_type = LinkType::of_number(body.u16()?);
    body.take(2)?;
    let snapshot_bytes = body.u32()?;
    let mut interface =
        Interface { link_type, ticks_per_s: 1_000_000, offset_s: 0, snapshot_bytes };
    while let (Ok(code @ 1..), Ok(length)) = (body.u16(), body.u16()) {
        let mut value = body.take(u64::from(length).next_multiple_of(4))?;
        match (code, length) {
            (IF_TSRESOL, 1) => {
                let power = value.rest.first().copied().unwrap_or_default();
                let base: u64 = if power & 0x80 == 0 { 10 } else { 2 };
                // A unit too small for its ticks to be counted: times are then unknown.
                interface.ticks_per_s = base.checked_pow(u32::from(power & 0x7f)).unwrap_or(0);
            }
            (IF_TSOFFSET, 8) => {
                interface.offset_s = i64::from_be_bytes(value.number()?);
            }
            _ => {}
        }
    }
    Ok(interface)
}

impl Interface {
    /// Converts a timestamp to nanoseconds since 1970, or `None` if it cannot be represented.
    fn time_ns(self, ticks: u64) -> Option<u64> {
        let ns = (u128::from(ticks) * 1_000_000_000).checked_div(u128::from(self.ticks_per_s))?;
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(ns).ok()? + offset).ok()
    }
}

/// The unread bytes of a file, in one of the two byte orders.
#[derive(Clone, Debug)]
struct Reader<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
    /// Number of the next packet, for errors.
    packet: u64,
}

impl<'a> Reader<'a> {
    /// Takes the next `bytes` bytes as a reader.
    fn take(&mut self, bytes: u64) -> Result<Self, CaptureError> {
        let taken = usize::try_from(bytes).ok().and_then(|bytes| self.rest.split_at_checked(bytes));
        let (taken, rest) = taken.ok_or(CaptureError::CutShort {
            packet: self.packet,
            wanted: bytes,
            there: self.rest.len() as u64,
        })?;
        self.rest = rest;
        Ok(Self { rest: taken, ..*self })
    }

    fn packet_bytes(&mut self, bytes: u32) -> Result<&'a [u8], CaptureError> {
        if bytes > PACKET_BYTES_MAX {
            return Err(CaptureError::TooLong { packet: self.packet, bytes });
        }
        self.take(u64::from(bytes)).map(|taken| taken.rest)
    }

    /// Reads a number as big-endian bytes.
    fn number<const N: usize>(&mut self) -> Result<[u8; N], CaptureError> {
        let mut bytes = *self.take(N as u64)?.rest.first_chunk().unwrap_or(&[0; N]);
        if !self.is_big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, CaptureError> {
        self.number().map(u32::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, CaptureError> {
        self.number().map(u16::from_be_bytes)
    }
}
