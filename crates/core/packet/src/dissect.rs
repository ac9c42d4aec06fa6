//! Dissects packets into headers, payloads, checksums and errors, in wire order.
//!
//! Dissection never fails: anything malformed becomes a [`Trouble`], and the remaining bytes become data. Nothing
//! that needs more than one packet, such as reassembly, is done here.

mod infiniband;
mod internet;
mod text;

use fabricmark_header::Layout;

use crate::capture::LinkType;

/// A packet and its parts.
#[derive(Clone, Debug)]
pub struct Dissection<'a> {
    /// The whole packet.
    pub bytes: &'a [u8],
    /// Link type of the packet.
    pub link_type: LinkType,
    /// Parts in wire order.
    pub parts: Vec<Part>,
}

/// A part of a packet. `at` is its offset from the start of the packet, `bytes` its length.
#[expect(missing_docs, reason = "fields that all have are explained above")]
#[derive(Clone, Debug)]
pub enum Part {
    /// A complete header.
    Header { layout: &'static Layout, at: usize },
    /// An option of the preceding header, and its decoded value.
    Option { name: &'static str, text: String, at: usize, bytes: usize },
    /// Bytes that are not dissected further.
    Data { name: &'static str, at: usize, bytes: usize },
    /// A checksum or CRC, within a header or separate; 0 bytes long if it is missing.
    Sum { name: &'static str, at: usize, bytes: usize, verdict: Verdict },
    /// An error in the packet.
    Trouble { at: usize, trouble: Trouble },
}

/// Result of the verification of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Correct.
    Good,
    /// Incorrect.
    Bad {
        /// The correct value, in wire order.
        right: u32,
    },
    /// Missing: UDP's 0, or a packet without its last bytes.
    Absent,
    /// Not verifiable for this reason, because not all bytes that it covers are present.
    Unchecked(&'static str),
}

/// An error in a packet.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("{header} is truncated: {needs} bytes needed, {there} present")]
    CutShort { header: &'static str, needs: usize, there: usize },
    #[error("{header}: the length field says {says} bytes, {there} are present")]
    Length { header: &'static str, says: usize, there: usize },
    #[error("{header}: {field} is {value}, expected {right}")]
    Contradiction { header: &'static str, field: &'static str, value: u32, right: u32 },
    #[error("{header}: an option of kind {kind} has an invalid length")]
    Option { header: &'static str, kind: u8 },
    #[error("BTH: unknown opcode {0:#04x}; the rest of the packet is not decoded")]
    Opcode(u8),
    #[error("link type {0} is not supported")]
    LinkType(u16),
}

/// Dissects a packet.
pub fn dissect(link_type: LinkType, bytes: &[u8]) -> Dissection<'_> {
    let mut walk = Walk { bytes, parts: Vec::with_capacity(16) };
    match link_type {
        LinkType::Ethernet => walk.ethernet(),
        LinkType::Infiniband => walk.infiniband(),
        LinkType::Other(number) => {
            walk.trouble(0, Trouble::LinkType(number));
            walk.data("data", 0, bytes.len());
        }
    }
    Dissection { bytes, link_type, parts: walk.parts }
}

impl Dissection<'_> {
    /// Names of the headers, in wire order.
    pub fn headers(&self) -> impl Iterator<Item = &'static str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Header { layout, .. } => Some(layout.name),
            _ => None,
        })
    }

    /// Value of a field in the first such header; `header` is a name of [`Layout`], `field` the name in code.
    pub fn field(&self, header: &str, field: &str) -> Option<u128> {
        self.parts.iter().find_map(|part| match part {
            Part::Header { layout, at } if layout.name == header => {
                let field = layout.fields.iter().find(|other| other.name == field)?;
                layout.read(self.bytes.get(*at..)?, field)
            }
            _ => None,
        })
    }

    /// Whether the packet has no errors and no incorrect checksum. Missing and unverified checksums are accepted.
    pub fn is_sound(&self) -> bool {
        !self.parts.iter().any(|part| {
            matches!(part, Part::Trouble { .. } | Part::Sum { verdict: Verdict::Bad { .. }, .. })
        })
    }
}

/// State of a dissection.
struct Walk<'a> {
    bytes: &'a [u8],
    parts: Vec<Part>,
}

impl<'a> Walk<'a> {
    /// Bytes from `at` to `end`.
    fn rest(&self, at: usize, end: usize) -> &'a [u8] {
        self.bytes.get(at..end).unwrap_or_default()
    }

    /// Adds the header at `at` and returns its end. If it does not fit, adds an error and data instead.
    fn header(&mut self, layout: &'static Layout, at: usize, end: usize) -> Option<usize> {
        let there = end.saturating_sub(at);
        if there < layout.bytes {
            let trouble = Trouble::CutShort { header: layout.name, needs: layout.bytes, there };
            self.trouble(at, trouble);
            self.data("data", at, end);
            return None;
        }
        self.parts.push(Part::Header { layout, at });
        Some(at + layout.bytes)
    }

    /// Like `header`, and also returns the view that `of` reads.
    fn read<View>(
        &mut self,
        layout: &'static Layout,
        of: impl FnOnce(&'a [u8]) -> Option<(View, &'a [u8])>,
        at: usize,
        end: usize,
    ) -> Option<(View, usize)> {
        let after = self.header(layout, at, end)?;
        of(self.rest(at, end)).map(|(view, _)| (view, after))
    }

    /// Adds data up to `end`, unless it is empty.
    fn data(&mut self, name: &'static str, at: usize, end: usize) {
        if end > at {
            self.parts.push(Part::Data { name, at, bytes: end - at });
        }
    }

    fn trouble(&mut self, at: usize, trouble: Trouble) {
        self.parts.push(Part::Trouble { at, trouble });
    }

    fn sum(&mut self, name: &'static str, at: usize, bytes: usize, verdict: Verdict) {
        self.parts.push(Part::Sum { name, at, bytes, verdict });
    }
}

impl Verdict {
    /// Compares the stored and the computed checksum.
    fn of<const N: usize>(there: Option<[u8; N]>, right: Option<[u8; N]>) -> Self {
        let number = |bytes: [u8; N]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
        match (there, right) {
            (None, _) => Self::Absent,
            (_, None) => Self::Unchecked("some of the covered fields are unknown"),
            (Some(there), Some(right)) if there == right => Self::Good,
            (_, Some(right)) => Self::Bad { right: number(right) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;
    use proptest::prelude::*;

    /// RDMA WRITE Only of 14 bytes within a subnet (IBTA vol. 1, table 29), the whole packet.
    const WRITE: [u8; 58] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, // LRH
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, // BTH
        0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00,
        0x0e, // RETH
        0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0, 0,
        0x96, 0x25, 0xb7, 0x5a, 0x45, 0xfa, // ICRC, VCRC
    ];

    #[test]
    fn the_packet_of_the_specification_is_told_whole() {
        let told = dissect(LinkType::Infiniband, &WRITE);
        assert!(told.is_sound());
        assert_eq!(
            told.text(),
            "  LRH            VL 7, LVer 0, SL 1, LNH 0x2 (BTH), DLID 0x375c, Packet Length 14, SLID 0x17d2
  BTH            OpCode 0x0a (RC RDMA WRITE Only), SE no, M no, Pad 2, TVer 0, P_Key 0x2487,
                 Destination QP 0x87b1b3, A no, PSN 912426
  RETH           Virtual Address 0x01710a1c015d4002, R_Key 0x38f27a05, DMA Length 14
  payload        14 bytes: bb 88 4d 85 fd 5c fb a4 72 8b c0 69 0e d4
  padding        2 bytes: 00 00
  ICRC           0x9625b75a good
  VCRC           0x45fa good
"
        );
    }

    #[test]
    fn a_changed_byte_makes_both_sums_bad() {
        let mut packet = WRITE;
        packet[40] ^= 1;
        let told = dissect(LinkType::Infiniband, &packet).text();
        assert!(told.contains("ICRC           0x9625b75a BAD, expected 0x"), "{told}");
        assert!(told.contains("VCRC           0x45fa BAD, expected 0x"), "{told}");
    }

    #[test]
    fn a_packet_that_is_cut_short_is_told_as_far_as_it_goes() {
        let told = dissect(LinkType::Infiniband, &WRITE[..44]);
        let last = told.text();
        assert!(last.contains("LRH: the length field says 56 bytes, 44 are present"), "{last}");
        assert!(last.contains("not checked"), "{last}");
        let told = dissect(LinkType::Infiniband, &WRITE[..12]).text();
        assert!(told.contains("BTH is truncated: 12 bytes needed, 4 present"), "{told}");
        let told = dissect(LinkType::Ethernet, &[0; 5]).text();
        assert!(told.contains("Ethernet is truncated: 14 bytes needed, 5 present"), "{told}");
        let told = dissect(LinkType::Other(113), &[1, 2]).text();
        assert!(told.contains("link type 113 is not supported"), "{told}");
    }

    /// Checks that parts are in order and within the packet.
    fn assert_lawful(told: &Dissection) {
        let mut data_end = 0;
        for part in &told.parts {
            let (at, bytes) = match part {
                Part::Header { layout, at } => (*at, layout.bytes),
                Part::Option { at, bytes, .. } | Part::Data { at, bytes, .. } => (*at, *bytes),
                // Checksums may be within headers, errors anywhere.
                Part::Sum { at, bytes, .. } => {
                    assert!(at + bytes <= told.bytes.len());
                    continue;
                }
                Part::Trouble { at, .. } => {
                    assert!(*at <= told.bytes.len());
                    continue;
                }
            };
            assert!(at >= data_end && at + bytes <= told.bytes.len(), "{part:?} in {told:#?}");
            data_end = at + bytes;
        }
        assert!(told.bytes.is_empty() || !told.text().is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_apart_in_their_order(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            start in prop::sample::select(vec![
                vec![],
                vec![0x81, 0x00, 0, 1, 0x88, 0xa8, 0, 2, 0x08, 0x00, 0x45],
                vec![0x08, 0x00, 0x4f],
                vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, 44],
                vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, 6],
                vec![0x08, 0x06, 0, 32, 8, 0, 20, 4],
                vec![0x89, 0x15, 0x60, 0, 0, 0, 0, 60, 0x1b],
            ]),
            infiniband: bool,
            lnh in 0u8..4,
            opcode: u8,
        ) {
            let at = if infiniband { 0 } else { 12 };
            for (to, from) in bytes.iter_mut().skip(at).zip(&start) {
                *to = *from;
            }
            if infiniband && let [_, next, _, _, _, length, _, _, code, ..] = bytes.as_mut_slice() {
                (*next, *length, *code) = (lnh, *length / 4, opcode);
            }
            for link_type in [LinkType::Ethernet, LinkType::Infiniband, LinkType::Other(9)] {
                assert_lawful(&dissect(link_type, &bytes));
            }
        }
    }
}
