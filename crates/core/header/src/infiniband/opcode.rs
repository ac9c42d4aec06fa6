//! BTH operation codes and the headers that each requires (IBTA vol. 1, 9.2.1).
//!
//! The upper three bits are the transport service (0 RC, 1 UC, 3 UD), the lower five the operation. Reliable datagram
//! (RD) and XRC are not included.

use super::{Aeth, AtomicAckEth, AtomicEth, Deth, Ieth, ImmDt, Reth};
use crate::Layout;

/// One operation of one transport service.
#[derive(Clone, Copy, Debug)]
pub struct Opcode {
    /// Value of the BTH's OpCode field.
    pub code: u8,
    /// Name in the specification, prefixed with the transport service.
    pub name: &'static str,
    /// Headers between BTH and payload, in wire order.
    pub extensions: &'static [&'static Layout],
}

macro_rules! opcodes {
    ($($constant:ident = $code:literal, $name:literal, [$($extension:ident),*];)+) => {
        $crate::named! { u8; $(#[doc = concat!($name, ".")] $constant = $code, $name;)+ }

        /// All known opcodes, in ascending order.
        pub const ALL: &[Opcode] = &[$(
            Opcode { code: $code, name: $name, extensions: &[$($extension::LAYOUT),*] },
        )+];
    };
}

opcodes! {
    RC_SEND_FIRST = 0x00, "RC SEND First", [];
    RC_SEND_MIDDLE = 0x01, "RC SEND Middle", [];
    RC_SEND_LAST = 0x02, "RC SEND Last", [];
    RC_SEND_LAST_IMMEDIATE = 0x03, "RC SEND Last with Immediate", [ImmDt];
    RC_SEND_ONLY = 0x04, "RC SEND Only", [];
    RC_SEND_ONLY_IMMEDIATE = 0x05, "RC SEND Only with Immediate", [ImmDt];
    RC_WRITE_FIRST = 0x06, "RC RDMA WRITE First", [Reth];
    RC_WRITE_MIDDLE = 0x07, "RC RDMA WRITE Middle", [];
    RC_WRITE_LAST = 0x08, "RC RDMA WRITE Last", [];
    RC_WRITE_LAST_IMMEDIATE = 0x09, "RC RDMA WRITE Last with Immediate", [ImmDt];
    RC_WRITE_ONLY = 0x0a, "RC RDMA WRITE Only", [Reth];
    RC_WRITE_ONLY_IMMEDIATE = 0x0b, "RC RDMA WRITE Only with Immediate", [Reth, ImmDt];
    RC_READ_REQUEST = 0x0c, "RC RDMA READ Request", [Reth];
    RC_READ_RESPONSE_FIRST = 0x0d, "RC RDMA READ Response First", [Aeth];
    RC_READ_RESPONSE_MIDDLE = 0x0e, "RC RDMA READ Response Middle", [];
    RC_READ_RESPONSE_LAST = 0x0f, "RC RDMA READ Response Last", [Aeth];
    RC_READ_RESPONSE_ONLY = 0x10, "RC RDMA READ Response Only", [Aeth];
    RC_ACKNOWLEDGE = 0x11, "RC Acknowledge", [Aeth];
    RC_ATOMIC_ACKNOWLEDGE = 0x12, "RC ATOMIC Acknowledge", [Aeth, AtomicAckEth];
    RC_COMPARE_SWAP = 0x13, "RC CmpSwap", [AtomicEth];
    RC_FETCH_ADD = 0x14, "RC FetchAdd", [AtomicEth];
    RC_SEND_LAST_INVALIDATE = 0x16, "RC SEND Last with Invalidate", [Ieth];
    RC_SEND_ONLY_INVALIDATE = 0x17, "RC SEND Only with Invalidate", [Ieth];
    UC_SEND_FIRST = 0x20, "UC SEND First", [];
    UC_SEND_MIDDLE = 0x21, "UC SEND Middle", [];
    UC_SEND_LAST = 0x22, "UC SEND Last", [];
    UC_SEND_LAST_IMMEDIATE = 0x23, "UC SEND Last with Immediate", [ImmDt];
    UC_SEND_ONLY = 0x24, "UC SEND Only", [];
    UC_SEND_ONLY_IMMEDIATE = 0x25, "UC SEND Only with Immediate", [ImmDt];
    UC_WRITE_FIRST = 0x26, "UC RDMA WRITE First", [Reth];
    UC_WRITE_MIDDLE = 0x27, "UC RDMA WRITE Middle", [];
    UC_WRITE_LAST = 0x28, "UC RDMA WRITE Last", [];
    UC_WRITE_LAST_IMMEDIATE = 0x29, "UC RDMA WRITE Last with Immediate", [ImmDt];
    UC_WRITE_ONLY = 0x2a, "UC RDMA WRITE Only", [Reth];
    UC_WRITE_ONLY_IMMEDIATE = 0x2b, "UC RDMA WRITE Only with Immediate", [Reth, ImmDt];
    UD_SEND_ONLY = 0x64, "UD SEND Only", [Deth];
    UD_SEND_ONLY_IMMEDIATE = 0x65, "UD SEND Only with Immediate", [Deth, ImmDt];
    CNP = 0x81, "RoCEv2 Congestion Notification", [];
}

/// Looks up an opcode; `None` if it is unknown.
pub fn of(code: u8) -> Option<&'static Opcode> {
    ALL.binary_search_by_key(&code, |opcode| opcode.code).ok().map(|at| &ALL[at])
}

/// Headers between BTH and payload; `None` if the opcode is unknown.
pub fn extensions(code: u8) -> Option<&'static [&'static Layout]> {
    of(code).map(|opcode| opcode.extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_code() {
        for opcode in ALL {
            assert_eq!(of(opcode.code).unwrap().name, opcode.name);
        }
        let known = (0..=u8::MAX).filter(|&code| of(code).is_some()).count();
        assert_eq!((known, ALL.len()), (38, 38));
    }

    #[test]
    fn headers_follow_in_the_order_of_the_wire() {
        for (code, expected) in [
            (RC_SEND_ONLY, Some(vec![])),
            (RC_WRITE_ONLY_IMMEDIATE, Some(vec!["RETH", "ImmDt"])),
            (RC_ATOMIC_ACKNOWLEDGE, Some(vec!["AETH", "AtomicAckETH"])),
            (UD_SEND_ONLY_IMMEDIATE, Some(vec!["DETH", "ImmDt"])),
            (CNP, Some(vec![])),
            (0x15, None),
            (0xff, None),
        ] {
            let names = extensions(code).map(|all| all.iter().map(|layout| layout.name).collect());
            assert_eq!(names, expected, "{code:#x}");
        }
    }
}
