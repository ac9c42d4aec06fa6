//! TCP options: an iterator that reads them in place, and an encoder that pads them.

/// A TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcpOption<'a> {
    /// End of option list (RFC 9293, 3.2).
    EndOfList,
    /// No-operation, used as padding (RFC 9293, 3.2).
    NoOperation,
    /// MSS: largest segment that the sender of the option accepts, in bytes of payload (RFC 9293, 3.7.1).
    MaximumSegmentSize(u16),
    /// Window scale: the shift count of the sender's window field (RFC 7323, 2).
    WindowScale(u8),
    /// The sender accepts selective acknowledgements (RFC 2018, 2).
    SackPermitted,
    /// SACK blocks in wire format; [`sack_edges`] decodes one (RFC 2018, 3).
    Sack(&'a [[u8; 8]]),
    /// Timestamps (RFC 7323, 3).
    Timestamps {
        /// TSval: the sender's timestamp clock.
        value: u32,
        /// TSecr: the most recent TSval received from the peer.
        echo: u32,
    },
    /// An option of another kind.
    Unknown {
        /// Kind number.
        kind: u8,
        /// Bytes after kind and length.
        data: &'a [u8],
    },
}

/// Left and right edge of a SACK block: its first sequence number, and the one after its last.
pub fn sack_edges(block: &[u8; 8]) -> (u32, u32) {
    two_words(block)
}

fn two_words(&[a, b, c, d, e, f, g, h]: &[u8; 8]) -> (u32, u32) {
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// An option that is truncated or has an invalid length. Parsing cannot continue after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("TCP option of kind {kind} at byte {at} of the options has an invalid length")]
pub struct BadOption {
    /// Kind number.
    pub kind: u8,
    /// Offset of the option from the start of the options.
    pub at: usize,
}

/// Encoded options, in bytes, that exceed the space in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0} bytes of TCP options exceed the {max} bytes of a header", max = TcpOptions::BYTES_MAX)]
pub struct OptionsTooLong(pub usize);

const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Iterator over the options of a header.
///
/// It ends after the end of the list, and after an option with an invalid length.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> TcpOptions<'a> {
    /// Maximum length of the options: a data offset of 15 words leaves 40 bytes (RFC 9293, 3.1).
    pub const BYTES_MAX: usize = 40;

    /// Iterates over `bytes`, the bytes between fixed header and payload.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Encodes `options`, padded with end-of-list bytes to a multiple of 4 bytes.
    ///
    /// No end-of-list byte is added if the length is already a multiple of 4: then the list ends with the header.
    pub fn write(options: &[TcpOption]) -> Result<Vec<u8>, OptionsTooLong> {
        let mut bytes = Vec::with_capacity(Self::BYTES_MAX);
        for option in options {
            option.write(&mut bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(4), END_OF_LIST);
        if bytes.len() > Self::BYTES_MAX {
            return Err(OptionsTooLong(bytes.len()));
        }
        Ok(bytes)
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let (&kind, _) = rest.split_first()?;
        let (option, length) = match kind {
            END_OF_LIST => (Some(TcpOption::EndOfList), rest.len()),
            NO_OPERATION => (Some(TcpOption::NoOperation), 1),
            _ => {
                let length = usize::from(*rest.get(1).unwrap_or(&0));
                (rest.get(2..length).and_then(|data| TcpOption::of(kind, data)), length)
            }
        };
        let bad = BadOption { kind, at: self.at };
        self.at = if option.is_some() { self.at + length } else { self.bytes.len() };
        Some(option.ok_or(bad))
    }
}

impl<'a> TcpOption<'a> {
    /// `None` if the length is invalid for this kind.
    fn of(kind: u8, data: &'a [u8]) -> Option<Self> {
        match (kind, data) {
            (MAXIMUM_SEGMENT_SIZE, &[a, b]) => {
                Some(Self::MaximumSegmentSize(u16::from_be_bytes([a, b])))
            }
            (WINDOW_SCALE, &[shift]) => Some(Self::WindowScale(shift)),
            (SACK_PERMITTED, []) => Some(Self::SackPermitted),
            (SACK, blocks) => match blocks.as_chunks() {
                (blocks @ [_, ..], []) => Some(Self::Sack(blocks)),
                _ => None,
            },
            (TIMESTAMPS, data) => {
                let (value, echo) = two_words(data.try_into().ok()?);
                Some(Self::Timestamps { value, echo })
            }
            (MAXIMUM_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED, _) => None,
            _ => Some(Self::Unknown { kind, data }),
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut put = |kind, data: &[u8]| {
            // A length above 255 is truncated here; `TcpOptions::write` rejects the list because it exceeds 40 bytes.
            bytes.extend([kind, (data.len() + 2) as u8]);
            bytes.extend(data);
        };
        match *self {
            Self::EndOfList => bytes.push(END_OF_LIST),
            Self::NoOperation => bytes.push(NO_OPERATION),
            Self::MaximumSegmentSize(size) => put(MAXIMUM_SEGMENT_SIZE, &size.to_be_bytes()),
            Self::WindowScale(shift) => put(WINDOW_SCALE, &[shift]),
            Self::SackPermitted => put(SACK_PERMITTED, &[]),
            Self::Sack(blocks) => put(SACK, blocks.as_flattened()),
            Self::Timestamps { value, echo } => {
                let (value, echo) = (value.to_be_bytes(), echo.to_be_bytes());
                put(TIMESTAMPS, [value, echo].as_flattened());
            }
            Self::Unknown { kind, data } => put(kind, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Options of a SYN that Linux 6 sent on its loopback device.
    const SYN: [u8; 20] = [
        0x02, 0x04, 0xff, 0xd7, 0x04, 0x02, 0x08, 0x0a, 0x24, 0xb9, 0x0b, 0xaa, 0, 0, 0, 0, 0x01,
        0x03, 0x03, 0x0a,
    ];

    #[test]
    fn the_options_of_a_syn_are_read_and_written() {
        let options = [
            TcpOption::MaximumSegmentSize(65_495),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 0x24b9_0baa, echo: 0 },
            TcpOption::NoOperation,
            TcpOption::WindowScale(10),
        ];
        assert_eq!(TcpOptions::of(&SYN).collect::<Result<Vec<_>, _>>().unwrap(), options);
        assert_eq!(TcpOptions::write(&options).unwrap(), SYN);
    }

    #[test]
    fn selective_acknowledgements_are_blocks_of_two_edges() {
        let bytes = [1, 1, 5, 10, 0, 0, 0x10, 0, 0, 0, 0x20, 0];
        let read: Vec<_> = TcpOptions::of(&bytes).map(Result::unwrap).collect();
        let [.., TcpOption::Sack([block])] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(sack_edges(block), (0x1000, 0x2000));
    }

    #[test]
    fn a_short_list_is_padded_with_ends_and_read_up_to_the_first() {
        let bytes = TcpOptions::write(&[TcpOption::WindowScale(7), TcpOption::SackPermitted]);
        let bytes = bytes.unwrap();
        assert_eq!(bytes, [3, 3, 7, 4, 2, 0, 0, 0]);
        let read: Vec<_> = TcpOptions::of(&bytes).map(Result::unwrap).collect();
        assert_eq!(read[2..], [TcpOption::EndOfList]);
    }

    #[test]
    fn a_wrong_length_is_told_and_ends_the_list() {
        for (bytes, kind, at) in [
            (&[2][..], 2, 0),                // no length
            (&[1, 254, 0, 1][..], 254, 1),   // a length below 2
            (&[1, 254, 1, 1][..], 254, 1),   // a length below 2
            (&[254, 5, 0, 0][..], 254, 0),   // beyond the end
            (&[2, 3, 0, 1][..], 2, 0),       // a segment size of one byte
            (&[5, 2, 1, 1][..], 5, 0),       // no block
            (&[8, 6, 0, 0, 0, 0][..], 8, 0), // truncated timestamps
        ] {
            let last = TcpOptions::of(bytes).last().unwrap();
            assert_eq!(last, Err(BadOption { kind, at }), "{bytes:?}");
        }
    }

    #[test]
    fn more_than_a_header_holds_is_refused() {
        let all = [TcpOption::NoOperation; 41];
        assert_eq!(TcpOptions::write(&all[..40]).unwrap().len(), 40);
        let told = TcpOptions::write(&all).unwrap_err().to_string();
        assert_eq!(told, "44 bytes of TCP options exceed the 40 bytes of a header");
        let data = [0; 300];
        assert!(TcpOptions::write(&[TcpOption::Unknown { kind: 254, data: &data }]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end_and_what_is_read_is_written(bytes: Vec<u8>) {
            let read: Vec<_> = TcpOptions::of(&bytes).collect();
            prop_assert!(read.len() <= bytes.len());
            prop_assert!(read.iter().rev().skip(1).all(Result::is_ok));
            let options: Vec<_> = read.into_iter().map_while(Result::ok).collect();
            if let Ok(written) = TcpOptions::write(&options) {
                let again: Vec<_> = TcpOptions::of(&written).map(Result::unwrap).collect();
                prop_assert_eq!(&again[..options.len()], &options);
            }
        }
    }
}
