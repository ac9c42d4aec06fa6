//! TLV extensions after the fixed part of a packet: flags, type, length and value (RFC 8972, section 4).
//!
//! ```text
//!  0       8      16              32
//!  | U M I |  type |     length    | value ...      integers in network order
//! ```
//!
//! A sender sets U (unrecognized), and a reflector that supports the type clears it. M says that the length is
//! wrong, I that the HMAC over all extensions is.

use super::key::{CODE_BYTES, Key};

/// Octets of flags, type and length.
const HEAD_BYTES: usize = 4;

/// U: the reflector does not recognize the type.
const UNRECOGNISED: u8 = 0x80;
/// M: the length is invalid for the type, or exceeds the packet.
const MALFORMED: u8 = 0x40;
/// I: the HMAC of the extensions is wrong or missing.
const UNAUTHENTIC: u8 = 0x20;

/// Extra Padding; its value is ignored (section 4.1).
const PADDING: u8 = 1;
/// Timestamp Information of the reflector (section 4.3).
const TIMESTAMP_INFORMATION: u8 = 3;
/// Class of Service: DSCP and ECN in both directions (section 4.4).
const CLASS_OF_SERVICE: u8 = 4;
/// HMAC over all extensions before it (section 4.8).
const HMAC: u8 = 8;

/// How a reflector gets its timestamps. Sources are 1 NTP, 2 PTP, 3 SSU/BITS, 4 satellites or LORAN-C, 5 a
/// free-running local clock; methods 1 hardware, 2 local software, 3 a remote clock (RFC 8972, tables 7 and 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampInformation {
    /// Synchronization source of the clock for arrivals.
    pub source_in: u8,
    /// Timestamping method for arrivals.
    pub method_in: u8,
    /// Synchronization source of the clock for departures.
    pub source_out: u8,
    /// Timestamping method for departures.
    pub method_out: u8,
}

impl TimestampInformation {
    /// For software timestamps by a clock of this machine. The kernel says whether its clock is synchronized, not
    /// by what; its interface is that of NTP, so the source is given as NTP.
    pub(super) fn of_software(is_synchronised: bool) -> Self {
        let source = if is_synchronised { 1 } else { 5 };
        Self { source_in: source, method_in: 2, source_out: source, method_out: 2 }
    }

    /// Ignores octets after the first four: none are defined.
    fn parse(value: &[u8]) -> Option<Self> {
        let &[source_in, method_in, source_out, method_out] = value.first_chunk()?;
        Some(Self { source_in, method_in, source_out, method_out })
    }

    fn emit(self) -> [u8; 4] {
        [self.source_in, self.method_in, self.source_out, self.method_out]
    }
}

/// DSCP and ECN of a packet as it arrived at the reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP requested for the reply; 6 bits.
    pub wanted_dscp: u8,
    /// DSCP of the packet on arrival; 6 bits.
    pub dscp: u8,
    /// ECN of the packet on arrival; 2 bits.
    pub ecn: u8,
    /// Whether the reflector refused the requested DSCP and replied with the one that arrived.
    pub is_refused: bool,
}

impl ClassOfService {
    /// `DSCP1 (6) | DSCP2 (6) | ECN (2) | RP (2) | reserved (16)`.
    fn parse(value: &[u8]) -> Option<Self> {
        let bits = u32::from_be_bytes(value.try_into().ok()?);
        Some(Self {
            wanted_dscp: (bits >> 26) as u8,
            dscp: (bits >> 20) as u8 & 0x3f,
            ecn: (bits >> 18) as u8 & 3,
            is_refused: bits >> 16 & 3 != 0,
        })
    }

    fn emit(self) -> [u8; 4] {
        let bits = u32::from(self.wanted_dscp & 0x3f) << 26
            | u32::from(self.dscp & 0x3f) << 20
            | u32::from(self.ecn & 3) << 18
            | u32::from(self.is_refused) << 16;
        bits.to_be_bytes()
    }
}

/// Extensions that a sender requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Timestamp Information of the reflector.
    pub timestamp_information: bool,
    /// DSCP for replies, 6 bits; also requests the DSCP and ECN with which packets arrived. `None`: neither.
    pub answer_dscp: Option<u8>,
    /// Octets of padding after its 4-octet header; 0: no padding extension.
    pub padding_bytes: u16,
}

impl Wanted {
    /// Extensions for the packet of this sequence number.
    pub(super) fn emit(&self, sequence: u32, key: Option<&Key>) -> Vec<u8> {
        let mut octets = Vec::new();
        if self.timestamp_information {
            append(&mut octets, TIMESTAMP_INFORMATION, &[0; 4]);
        }
        if let Some(wanted_dscp) = self.answer_dscp {
            let value = ClassOfService { wanted_dscp, ..ClassOfService::default() };
            append(&mut octets, CLASS_OF_SERVICE, &value.emit());
        }
        if let (Some(key), false) = (key, octets.is_empty()) {
            let code = key.code(&[&sequence.to_be_bytes(), &octets]);
            append(&mut octets, HMAC, &code);
        }
        if self.padding_bytes > 0 {
            append(&mut octets, PADDING, &vec![0; self.padding_bytes.into()]);
        }
        octets
    }
}

fn append(octets: &mut Vec<u8>, kind: u8, value: &[u8]) {
    octets.extend([UNRECOGNISED, kind]);
    octets.extend((value.len() as u16).to_be_bytes());
    octets.extend(value);
}

/// Extensions of a reflector's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// How the reflector gets its timestamps.
    pub timestamp_information: Option<TimestampInformation>,
    /// DSCP and ECN of the packet on arrival.
    pub class_of_service: Option<ClassOfService>,
}

impl Extensions {
    /// Parses the octets after a reply of this sequence number. Ignores all extensions if their HMAC is wrong, and
    /// those after a malformed one (section 4).
    pub(super) fn parse(octets: &[u8], sequence: u32, key: Option<&Key>) -> Self {
        let mut found = Self::default();
        if key.is_some_and(|key| code_of(octets, key, sequence).is_err()) {
            return found;
        }
        let mut at = 0;
        while let Some(end) = end_of(octets, at) {
            let (flags, kind, value) = (octets[at], octets[at + 1], &octets[at + HEAD_BYTES..end]);
            match (flags & (UNRECOGNISED | MALFORMED | UNAUTHENTIC), kind) {
                (0, TIMESTAMP_INFORMATION) => {
                    found.timestamp_information = TimestampInformation::parse(value);
                }
                (0, CLASS_OF_SERVICE) => found.class_of_service = ClassOfService::parse(value),
                (flags, _) if flags & UNAUTHENTIC != 0 => return Self::default(),
                (flags, _) if flags & MALFORMED != 0 => return found,
                _ => {}
            }
            at = end;
        }
        found
    }
}

/// Values that a reflector fills into the extensions that it supports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) timestamp_information: TimestampInformation,
    /// DSCP and ECN that the packet had on arrival.
    pub(super) dscp: u8,
    pub(super) ecn: u8,
}

/// How a reflector checks and signs extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signing<'a> {
    pub(super) key: &'a Key,
    /// Sequence number of the packet, covered by the sender's HMAC.
    pub(super) asked: u32,
    /// Sequence number of the reply.
    pub(super) answered: u32,
}

/// Fills in the extensions after a packet, in place; returns the DSCP that they request for the reply. The length
/// never changes: in TWAMP Light these octets are padding.
pub(super) fn answer(octets: &mut [u8], known: &Known, signing: Option<Signing<'_>>) -> Option<u8> {
    let Some(Signing { key, asked, answered }) = signing else {
        return fill(octets, known, false);
    };
    let Ok(code_at) = code_of(octets, key, asked) else {
        mark_unauthentic(octets);
        return None;
    };
    let dscp = fill(octets, known, true);
    if let Some(at) = code_at {
        let (text, rest) = octets.split_at_mut(at);
        let code = key.code(&[&answered.to_be_bytes(), text]);
        rest[HEAD_BYTES..HEAD_BYTES + CODE_BYTES].copy_from_slice(&code);
    }
    dscp
}

/// Fills in the types that are supported and marks others, up to the first malformed one; the rest stays unchanged.
fn fill(octets: &mut [u8], known: &Known, has_key: bool) -> Option<u8> {
    let mut dscp = None;
    let mut at = 0;
    while at < octets.len() {
        let Some(end) = end_of(octets, at) else {
            octets[at] |= MALFORMED;
            break;
        };
        let kind = octets[at + 1];
        let value = &mut octets[at + HEAD_BYTES..end];
        let flags = match kind {
            PADDING => 0,
            TIMESTAMP_INFORMATION if value.len() >= 4 => {
                value[..4].copy_from_slice(&known.timestamp_information.emit());
                0
            }
            CLASS_OF_SERVICE if value.len() == 4 => {
                let asked = ClassOfService::parse(value).unwrap_or_default();
                let Known { dscp: arrived, ecn, .. } = *known;
                let filled = ClassOfService { dscp: arrived, ecn, is_refused: false, ..asked };
                value.copy_from_slice(&filled.emit());
                dscp = Some(asked.wanted_dscp);
                0
            }
            // Its position and length were checked together with the HMAC.
            HMAC if has_key => 0,
            TIMESTAMP_INFORMATION | CLASS_OF_SERVICE => MALFORMED,
            _ => UNRECOGNISED,
        };
        octets[at] = flags;
        if flags == MALFORMED {
            break;
        }
        at = end;
    }
    dscp
}

/// Marks all extensions as not authentic, and a trailing incomplete one also as malformed. U stays as the sender
/// set it: nothing was processed.
fn mark_unauthentic(octets: &mut [u8]) {
    let mut at = 0;
    while at < octets.len() {
        let end = end_of(octets, at);
        octets[at] |= if end.is_some() { UNAUTHENTIC } else { UNAUTHENTIC | MALFORMED };
        at = end.unwrap_or(octets.len());
    }
}

/// End of the extension that begins at `at`; `None` if it is incomplete.
fn end_of(octets: &[u8], at: usize) -> Option<usize> {
    let &[_, _, high, low] = octets.get(at..)?.first_chunk()?;
    let end = at + HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
    (end <= octets.len()).then_some(end)
}

/// The extensions are not authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unauthentic;

/// Offset of the HMAC extension, if it is correct; `None` for a lone padding, which needs no HMAC. Only padding may
/// follow the HMAC (section 4.8). Octets that cannot be parsed are not authentic.
fn code_of(octets: &[u8], key: &Key, sequence: u32) -> Result<Option<usize>, Unauthentic> {
    let mut code_at = None;
    let mut before = 0;
    let mut only_padding = true;
    let mut at = 0;
    while at < octets.len() {
        let end = end_of(octets, at).ok_or(Unauthentic)?;
        match (octets[at + 1], code_at) {
            (HMAC, None) => code_at = Some((at, end)),
            (kind, None) => {
                before += 1;
                only_padding &= kind == PADDING;
            }
            (PADDING, Some(_)) => {}
            (_, Some(_)) => return Err(Unauthentic),
        }
        at = end;
    }
    let Some((at, end)) = code_at else {
        return if only_padding && before <= 1 { Ok(None) } else { Err(Unauthentic) };
    };
    let (text, code) = (&octets[..at], &octets[at + HEAD_BYTES..end]);
    let is_right = key.is_code(&[&sequence.to_be_bytes(), text], code);
    if is_right { Ok(Some(at)) } else { Err(Unauthentic) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: Known = Known {
        timestamp_information: TimestampInformation {
            source_in: 1,
            method_in: 2,
            source_out: 1,
            method_out: 2,
        },
        dscp: 0b10_1110,
        ecn: 0b01,
    };

    fn answered(octets: &[u8], signing: Option<Signing<'_>>) -> Vec<u8> {
        let mut octets = octets.to_vec();
        answer(&mut octets, &KNOWN, signing);
        octets
    }

    #[test]
    fn what_is_asked_for_and_answered_has_the_bits_of_the_rfc() {
        let wanted =
            Wanted { timestamp_information: true, answer_dscp: Some(0b01_0010), padding_bytes: 2 };
        let asked = wanted.emit(0, None);
        let head = [0x80, 3, 0, 4, 0, 0, 0, 0, 0x80, 4, 0, 4];
        assert_eq!(asked, [&head[..], &[0b0100_1000, 0, 0, 0, 0x80, 1, 0, 2, 0, 0]].concat());
        let head = [0, 3, 0, 4, 1, 2, 1, 2, 0, 4, 0, 4];
        let answer = answered(&asked, None);
        assert_eq!(
            answer,
            [&head[..], &[0b0100_1010, 0b1110_0100, 0, 0, 0, 1, 0, 2, 0, 0]].concat()
        );
        let found = Extensions::parse(&answer, 0, None);
        assert_eq!(found.timestamp_information, Some(KNOWN.timestamp_information));
        let class = ClassOfService { wanted_dscp: 18, dscp: 46, ecn: 1, is_refused: false };
        assert_eq!(found.class_of_service, Some(class));
    }

    #[test]
    fn unknown_types_are_marked_and_malformed_ones_end_the_answer() {
        for (asked, expected) in [
            // An unknown type, then a known one.
            (&[0x80, 9, 0, 1, 7, 0x80, 1, 0, 0][..], &[0x80, 9, 0, 1, 7, 0, 1, 0, 0][..]),
            // An HMAC without a key.
            (&[0x80, 8, 0, 0], &[0x80, 8, 0, 0]),
            // A known type with a wrong length; what follows is unchanged.
            (&[0x80, 4, 0, 1, 7, 0x80, 1, 0, 0], &[0x40, 4, 0, 1, 7, 0x80, 1, 0, 0]),
            // Fewer octets than the length says, and fewer than a header.
            (&[0x80, 1, 0, 9, 7], &[0xc0, 1, 0, 9, 7]),
            (&[0x80, 1, 0, 0, 1, 2], &[0, 1, 0, 0, 0x41, 2]),
        ] {
            assert_eq!(answered(asked, None), expected, "{asked:02x?}");
        }
    }

    #[test]
    fn information_may_be_longer_than_what_is_defined_and_a_class_may_not() {
        let answer = answered(&[0x80, 3, 0, 5, 0, 0, 0, 0, 9], None);
        assert_eq!(answer, [0, 3, 0, 5, 1, 2, 1, 2, 9]);
        assert_eq!(answered(&[0x80, 4, 0, 5, 0, 0, 0, 0, 9], None)[0], 0x40);
    }

    #[test]
    fn a_code_is_checked_and_written_anew_and_only_a_lone_padding_needs_none() {
        let key = Key::new(b"key").unwrap();
        let signing = Some(Signing { key: &key, asked: 5, answered: 6 });
        let wanted = Wanted { timestamp_information: true, padding_bytes: 3, ..Wanted::default() };
        let asked = wanted.emit(5, Some(&key));
        let answer = answered(&asked, signing);
        let found = Extensions::parse(&answer, 6, Some(&key));
        assert_eq!(found.timestamp_information, Some(KNOWN.timestamp_information));
        assert_eq!(Extensions::parse(&answer, 5, Some(&key)), Extensions::default(), "its number");

        let lone = Wanted { padding_bytes: 3, ..Wanted::default() }.emit(5, Some(&key));
        assert_eq!(answered(&lone, signing)[0], 0);
        let without = wanted.emit(5, None);
        assert_eq!(answered(&without, signing)[0], 0xa0, "information without a code");
        let mut wrong = asked.clone();
        wrong[4] = 1;
        let marked = answered(&wrong, signing);
        assert_eq!([marked[0], marked[8], marked[28]], [0xa0; 3], "every extension is marked");
        let behind = [&asked[..], &[0x80, 3, 0, 4, 0, 0, 0, 0]].concat();
        assert_eq!(answered(&behind, signing)[0], 0xa0, "information behind the code");
    }

    #[test]
    fn nothing_is_taken_from_what_a_reflector_marked() {
        let class = [0u8, 4, 0, 4, 0, 0, 0, 0];
        for flags in [0x80, 0x40, 0x20] {
            let mut octets = class;
            octets[0] = flags;
            assert_eq!(Extensions::parse(&octets, 0, None), Extensions::default(), "{flags:02x}");
        }
        let behind = [&[0x40, 9, 0, 0], &class[..]].concat();
        assert_eq!(
            Extensions::parse(&behind, 0, None),
            Extensions::default(),
            "behind a malformed one"
        );
        let before = [&class[..], &[0x20, 9, 0, 0]].concat();
        assert_eq!(
            Extensions::parse(&before, 0, None),
            Extensions::default(),
            "one is not authentic"
        );
    }

    proptest! {
        #[test]
        fn octets_keep_their_number_and_their_values_but_for_known_ones(octets: Vec<u8>) {
            let key = Key::new(b"key").unwrap();
            for signing in [None, Some(Signing { key: &key, asked: 0, answered: 0 })] {
                prop_assert_eq!(answered(&octets, signing).len(), octets.len());
            }
            let _ = Extensions::parse(&octets, 0, None);
        }

        #[test]
        fn a_class_survives_its_bits(bits: u32) {
            let class = ClassOfService::parse(&bits.to_be_bytes()).unwrap();
            prop_assert_eq!(ClassOfService::parse(&class.emit()), Some(class));
        }
    }
}
