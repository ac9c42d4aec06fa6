//! What an acknowledgement says: the syndrome of an AETH (IBTA vol. 1, 9.3.5.1 and 9.7.5).

use super::{Aeth, AethView};

/// What the responder says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Done.
    Ack {
        /// Messages that the responder has buffers for; `None` where it does not limit them.
        credits: Option<u16>,
    },
    /// The receiver has no buffer posted yet: try again later.
    ReceiverNotReady {
        /// Time to wait in microseconds, 10 to 655,360.
        wait_us: u32,
    },
    /// Refused.
    Nak(Nak),
    /// A value that the specification reserves.
    Reserved(u8),
}

/// Why a request is refused (IBTA vol. 1, 9.7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Nak {
    /// A packet is missing before this one.
    PsnSequenceError = 0,
    /// The operation is not possible on this queue pair.
    InvalidRequest = 1,
    /// Key, address or rights are wrong.
    RemoteAccessError = 2,
    /// The responder failed.
    RemoteOperationalError = 3,
    /// For reliable datagrams only.
    InvalidRdRequest = 4,
}

const ACK: u8 = 0;
const RECEIVER_NOT_READY: u8 = 1;
const NAK: u8 = 3;

/// The code for "no limit" (IBTA vol. 1, 9.7.7).
const UNLIMITED: u8 = 31;

impl Syndrome {
    /// From the first byte of an AETH.
    pub fn of_byte(byte: u8) -> Self {
        let code = byte & 31;
        match byte >> 5 {
            ACK if code == UNLIMITED => Self::Ack { credits: None },
            ACK => Self::Ack { credits: Some(credits(code)) },
            RECEIVER_NOT_READY => Self::ReceiverNotReady { wait_us: 10 * wait(code) },
            NAK => match code {
                0 => Self::Nak(Nak::PsnSequenceError),
                1 => Self::Nak(Nak::InvalidRequest),
                2 => Self::Nak(Nak::RemoteAccessError),
                3 => Self::Nak(Nak::RemoteOperationalError),
                4 => Self::Nak(Nak::InvalidRdRequest),
                _ => Self::Reserved(byte),
            },
            _ => Self::Reserved(byte),
        }
    }

    /// The first byte of an AETH; credits and times are rounded down to what it can say.
    pub fn to_byte(self) -> u8 {
        // Both tables rise, but for the timer's 0, which stands for the longest time.
        let below =
            |fits: &dyn Fn(u8) -> bool| (1..UNLIMITED).take_while(|&code| fits(code)).last();
        match self {
            Self::Ack { credits: None } => UNLIMITED,
            Self::Ack { credits: Some(count) } => {
                below(&|code| credits(code) <= count).unwrap_or(0)
            }
            Self::ReceiverNotReady { wait_us } => {
                let code = match wait_us / 10 {
                    65_536.. => 0,
                    49_152.. => 31,
                    wait_10us => below(&|code| wait(code) <= wait_10us).unwrap_or(1),
                };
                RECEIVER_NOT_READY << 5 | code
            }
            Self::Nak(nak) => NAK << 5 | nak as u8,
            Self::Reserved(byte) => byte,
        }
    }
}

/// Credits of a code below 31 (IBTA vol. 1, 9.7.7): 0, 1, 2, 3, 4, 6, 8, 12, ... 32768.
fn credits(code: u8) -> u16 {
    match code {
        0..=1 => u16::from(code),
        _ => (2 + u16::from(code % 2)) << (code / 2 - 1),
    }
}

/// Time of a code in units of 10 us (IBTA vol. 1, 9.7.5): the credits of that code, but 0 is the
/// longest.
fn wait(code: u8) -> u32 {
    match code {
        0 => 65_536,
        31 => 49_152,
        _ => u32::from(credits(code)),
    }
}

impl Aeth {
    /// What the responder says.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::of_byte(u8::from(self.reserved_0) << 7 | (self.kind & 3) << 5 | self.code & 31)
    }

    /// An acknowledgement of that, after `msn` completed messages.
    pub fn new(syndrome: Syndrome, msn: u32) -> Self {
        let [_, a, b, c] = msn.to_be_bytes();
        AethView(&[syndrome.to_byte(), a, b, c]).value()
    }
}

pub(super) fn kind_name(kind: u128) -> Option<&'static str> {
    match kind as u8 {
        ACK => Some("ACK"),
        RECEIVER_NOT_READY => Some("RNR NAK"),
        NAK => Some("NAK"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_means_what_the_tables_say() {
        for (byte, syndrome) in [
            (0x00, Syndrome::Ack { credits: Some(0) }),
            (0x05, Syndrome::Ack { credits: Some(6) }),
            (0x07, Syndrome::Ack { credits: Some(12) }),
            (0x1e, Syndrome::Ack { credits: Some(32_768) }),
            (0x1f, Syndrome::Ack { credits: None }),
            (0x20, Syndrome::ReceiverNotReady { wait_us: 655_360 }),
            (0x21, Syndrome::ReceiverNotReady { wait_us: 10 }),
            (0x29, Syndrome::ReceiverNotReady { wait_us: 240 }),
            (0x3f, Syndrome::ReceiverNotReady { wait_us: 491_520 }),
            (0x60, Syndrome::Nak(Nak::PsnSequenceError)),
            (0x64, Syndrome::Nak(Nak::InvalidRdRequest)),
            (0x65, Syndrome::Reserved(0x65)),
            (0x40, Syndrome::Reserved(0x40)),
            (0x80, Syndrome::Reserved(0x80)),
        ] {
            assert_eq!(Syndrome::of_byte(byte), syndrome, "{byte:#x}");
        }
    }

    #[test]
    fn every_byte_survives() {
        for byte in 0..=u8::MAX {
            assert_eq!(Syndrome::of_byte(byte).to_byte(), byte);
            assert_eq!(Aeth::new(Syndrome::of_byte(byte), 7).to_bytes(), [byte, 0, 0, 7]);
            assert_eq!(Aeth::new(Syndrome::of_byte(byte), 7).syndrome(), Syndrome::of_byte(byte));
        }
    }

    #[test]
    fn what_lies_between_two_codes_is_rounded_down() {
        assert_eq!(Syndrome::Ack { credits: Some(5) }.to_byte(), 4);
        assert_eq!(Syndrome::Ack { credits: Some(u16::MAX) }.to_byte(), 30);
        assert_eq!(Syndrome::ReceiverNotReady { wait_us: 300 }.to_byte(), 0x29);
        assert_eq!(Syndrome::ReceiverNotReady { wait_us: 0 }.to_byte(), 0x21);
    }
}
