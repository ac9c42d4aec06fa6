//! Capture files: writes classic pcap, reads pcap and pcapng (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).
//!
//! Packets borrow from the bytes of the file, so no length field in it causes an allocation. No library is used:
//! those available lack the other byte order, timestamps in powers of two, or the number of the broken packet.

use std::borrow::Cow;

mod erf;
mod read;

pub use read::{Packets, read};

/// Maximum length of a packet in bytes; a file with a longer one is broken (libpcap, `MAXIMUM_SNAPLEN`).
pub const PACKET_BYTES_MAX: u32 = 262_144;

/// Magic numbers of classic pcap with timestamps in microseconds and in nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Link type of Extensible Record Format (ERF) records.
const ERF: u16 = 197;

/// Link-layer header type: the header at the start of a packet (tcpdump.org, link-layer header types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet without preamble and FCS: 1.
    Ethernet,
    /// InfiniBand from the LRH through the variant CRC: 247.
    Infiniband,
    /// Another link type, by its number.
    Other(u16),
}

/// A packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Link type of the packet.
    pub link_type: LinkType,
    /// Capture time in nanoseconds since 1970, or `None` if the file has none.
    pub time_ns: Option<u64>,
    /// Original length of the packet in bytes; the file may hold fewer.
    pub captured_from_bytes: u32,
    /// Captured bytes.
    pub bytes: &'a [u8],
}

/// Why a file is not a capture, or where it is broken. Packets are numbered from 1, as in other tools.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    #[error("this is not a capture file: it starts with neither a pcap nor a pcapng header")]
    NotACapture,
    #[error("the file is truncated: packet {packet} needs {wanted} bytes, {there} are left")]
    CutShort { packet: u64, wanted: u64, there: u64 },
    #[error(
        "packet {packet} of the file is malformed: {bytes} bytes exceed the maximum of \
         {PACKET_BYTES_MAX}"
    )]
    TooLong { packet: u64, bytes: u32 },
    #[error("packet {packet} of the file is malformed: {what}")]
    Broken { packet: u64, what: &'static str },
}

impl LinkType {
    /// Number in files.
    pub fn number(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Infiniband => 247,
            Self::Other(number) => number,
        }
    }

    /// Link type of a number in a file.
    pub fn of_number(number: u16) -> Self {
        match number {
            1 => Self::Ethernet,
            247 => Self::Infiniband,
            number => Self::Other(number),
        }
    }
}

/// How a classic pcap file stores packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Directly, with this link type.
    Plain(LinkType),
    /// InfiniBand packets in ERF records, link type 197. Wireshark opens these, but not link type 247
    /// (`wiretap/pcap-common.c`, up to version 4.0 at least).
    Erf,
}

/// Writes a classic pcap file of `packets`. Timestamps are artificial: one packet per microsecond from 1970 on.
pub fn write<'a>(
    form: Form,
    packets: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, CaptureError> {
    let mut file = Vec::new();
    file.extend(MICROSECONDS.to_le_bytes());
    file.extend([2u16, 4].map(u16::to_le_bytes).concat());
    let link_type = match form {
        Form::Plain(link_type) => link_type.number(),
        Form::Erf => ERF,
    };
    file.extend([0, 0, PACKET_BYTES_MAX, link_type.into()].map(u32::to_le_bytes).concat());
    for (index, packet) in (0u32..).zip(packets) {
        let seconds = index / 1_000_000;
        let record = match form {
            Form::Plain(_) => Cow::Borrowed(packet),
            Form::Erf => Cow::Owned(erf::record(seconds, packet)),
        };
        let bytes = u32::try_from(record.len()).unwrap_or(u32::MAX);
        if bytes > PACKET_BYTES_MAX {
            return Err(CaptureError::TooLong { packet: u64::from(index) + 1, bytes });
        }
        file.extend([seconds, index % 1_000_000, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend_from_slice(&record);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::read::{
        ENHANCED_PACKET, IF_TSOFFSET, IF_TSRESOL, INTERFACE, SECTION, SECTION_ORDER, SIMPLE_PACKET,
    };
    use super::*;
    use proptest::prelude::*;

    fn all(file: &[u8]) -> Vec<Captured<'_>> {
        read(file).unwrap().map(Result::unwrap).collect()
    }

    fn error(file: &[u8]) -> String {
        let packets = read(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        packets.unwrap_err().to_string()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let packets = [&[1, 2, 3][..], &[], &[4; 60]];
        let file = write(Form::Plain(LinkType::Infiniband), packets).unwrap();
        let read = all(&file);
        assert_eq!(read.iter().map(|packet| packet.bytes).collect::<Vec<_>>(), packets);
        assert_eq!(read[2].link_type, LinkType::Infiniband);
        assert_eq!((read[2].time_ns, read[2].captured_from_bytes), (Some(2000), 60));
        assert_eq!(
            error(&file[..file.len() - 1]),
            "the file is truncated: packet 3 needs 60 bytes, 59 are left"
        );
    }

    #[test]
    fn records_are_opened_where_they_hold_packets_that_are_known() {
        let packets = [&[1, 2, 3][..], &[4; 60]];
        let file = write(Form::Erf, packets).unwrap();
        assert_eq!(file[20..24], [197, 0, 0, 0]);
        let read = all(&file);
        assert_eq!(read.iter().map(|packet| packet.bytes).collect::<Vec<_>>(), packets);
        assert_eq!(read[0].link_type, LinkType::Infiniband);
        assert_eq!(read[0].captured_from_bytes, 3);
    }

    #[test]
    fn classic_files_are_read_in_both_orders_and_units() {
        for (magic, nanoseconds) in [(MICROSECONDS, 7_000_005_000), (NANOSECONDS, 7_000_000_005)] {
            let words = |order: fn(u32) -> [u8; 4], half: fn(u16) -> [u8; 2]| {
                let mut file = order(magic).to_vec();
                file.extend([half(2), half(4)].concat());
                file.extend([0, 0, 96, 1, 7, 5, 2, 1500].map(order).concat());
                file.extend([0xab, 0xcd]);
                file
            };
            for file in [
                words(u32::to_le_bytes, u16::to_le_bytes),
                words(u32::to_be_bytes, u16::to_be_bytes),
            ] {
                let packet = Captured {
                    link_type: LinkType::Ethernet,
                    time_ns: Some(nanoseconds),
                    captured_from_bytes: 1500,
                    bytes: &[0xab, 0xcd],
                };
                assert_eq!(all(&file), [packet]);
            }
        }
    }

    /// A pcapng file with a section, an interface with these options, a simple and an enhanced packet.
    fn blocks(order: fn(u32) -> [u8; 4], half: fn(u16) -> [u8; 2], options: &[u8]) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let length = order(12 + body.len() as u32);
            [&order(kind)[..], &length, body, &length].concat()
        };
        let words = |words: &[u32]| words.iter().flat_map(|&word| order(word)).collect::<Vec<_>>();
        let section = [&order(SECTION_ORDER)[..], &half(1), &half(0), &[0xff; 8]].concat();
        let interface = [&half(247)[..], &half(0), &words(&[0]), options].concat();
        let simple = [&words(&[3])[..], &[1, 2, 3, 0]].concat();
        let enhanced = [&words(&[0, 1, 2, 1, 9])[..], &[7, 0, 0, 0]].concat();
        [
            block(SECTION, &section),
            block(INTERFACE, &interface),
            block(SIMPLE_PACKET, &simple),
            block(0x0bad, &[]),
            block(ENHANCED_PACKET, &enhanced),
        ]
        .concat()
    }

    #[test]
    fn blocks_are_read_in_both_orders() {
        for file in [
            blocks(u32::to_le_bytes, u16::to_le_bytes, &[]),
            blocks(u32::to_be_bytes, u16::to_be_bytes, &[]),
        ] {
            let packets = all(&file);
            assert_eq!(packets.len(), 2);
            assert_eq!((packets[0].bytes, packets[0].time_ns), (&[1, 2, 3][..], None));
            let microseconds = (1 << 32) + 2;
            assert_eq!(packets[1].time_ns, Some(microseconds * 1000));
            assert_eq!((packets[1].bytes, packets[1].captured_from_bytes), (&[7][..], 9));
            assert_eq!(packets[1].link_type, LinkType::Infiniband);
        }
    }

    #[test]
    fn a_simple_packet_ends_with_the_snapshot_length_of_its_interface() {
        let mut file = blocks(u32::to_le_bytes, u16::to_le_bytes, &[]);
        // Behind the section of 28 bytes, and the kind, length and link type of the interface.
        file[28 + 12] = 2;
        let packet = &all(&file)[0];
        assert_eq!((packet.bytes, packet.captured_from_bytes), (&[1, 2][..], 3));
    }

    #[test]
    fn time_stamps_have_the_unit_and_the_start_of_their_interface() {
        let halves = [0x80 | 32, 0, 0, 0];
        let resolution = [&IF_TSRESOL.to_le_bytes()[..], &1u16.to_le_bytes(), &halves].concat();
        let offset =
            [&IF_TSOFFSET.to_le_bytes()[..], &8u16.to_le_bytes(), &10i64.to_le_bytes()].concat();
        let options = [resolution, offset, vec![0; 4]].concat();
        let file = blocks(u32::to_le_bytes, u16::to_le_bytes, &options);
        // 2^32 + 2 ticks of 2^-32 s are one second and less than a nanosecond; the offset adds 10 s.
        assert_eq!(all(&file)[1].time_ns, Some(11_000_000_000));
    }

    #[test]
    fn a_broken_file_tells_at_which_packet() {
        assert_eq!(
            error(b"GIF89a"),
            "this is not a capture file: it starts with neither a pcap nor a pcapng header"
        );
        assert!(matches!(read(&[]), Err(CaptureError::NotACapture)));
        let mut file = write(Form::Plain(LinkType::Ethernet), [&[1][..], &[2]]).unwrap();
        // The captured length of the second packet.
        file[24 + 17 + 11] = 0xff;
        assert_eq!(
            error(&file),
            "packet 2 of the file is malformed: 4278190081 bytes exceed the maximum of 262144"
        );
        let good = blocks(u32::to_le_bytes, u16::to_le_bytes, &[]);
        let mut file = good.clone();
        *file.last_mut().unwrap() = 1;
        assert_eq!(
            error(&file),
            "packet 2 of the file is malformed: the two lengths of its block differ"
        );
        let mut file = good.clone();
        file[8] = 0;
        assert_eq!(
            error(&file),
            "packet 1 of the file is malformed: the byte order of its section \
                                  is unknown"
        );
        let option = [&IF_TSRESOL.to_le_bytes()[..], &u16::MAX.to_le_bytes(), &[0; 4]].concat();
        let file = blocks(u32::to_le_bytes, u16::to_le_bytes, &option);
        assert_eq!(error(&file), "the file is truncated: packet 1 needs 65536 bytes, 4 are left");
        let without_interface = [&good[..28], &good[48..]].concat();
        assert_eq!(
            error(&without_interface),
            "packet 1 of the file is malformed: its interface is not described in the file"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_go_on_for_ever(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            big: bool,
            at in 0usize..120,
        ) {
            let good = if big {
                blocks(u32::to_be_bytes, u16::to_be_bytes, &[])
            } else {
                write(Form::Plain(LinkType::Ethernet), [&[1][..], &[2; 60]]).unwrap()
            };
            let mut near = good.clone();
            for (place, byte) in near[at.min(good.len())..].iter_mut().zip(&bytes) {
                *place = *byte;
            }
            for file in [&bytes, &near] {
                if let Ok(packets) = read(file) {
                    prop_assert!(packets.count() <= file.len());
                }
            }
        }
    }
}
