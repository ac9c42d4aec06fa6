//! Messages of netlink(7), for sock_diag(7) and the generic netlink family of SMC.

use std::io;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::{Plain, plain};

/// Type of a request for sockets, `SOCK_DIAG_BY_FAMILY`.
pub const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST`.
pub const REQUEST: u16 = 1;

/// `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`: the last of several messages.
pub const DONE: u16 = 3;

/// Receive buffer: more than the kernel puts into one answer.
pub const ANSWER_BYTES: usize = 32 << 10;

/// Length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// Opens a netlink socket. A receive times out after 1 s.
pub fn socket(protocol: i32) -> io::Result<Socket> {
    let domain = Domain::from(libc::AF_NETLINK);
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(protocol)))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(socket)
}

/// Builds a netlink message.
pub fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as u32;
    let (length, kind, flags) = (length.to_ne_bytes(), kind.to_ne_bytes(), flags.to_ne_bytes());
    [&length[..], &kind, &flags, &[0; 8], body].concat()
}

/// Value of the attribute of type `wanted`; `None` if there is none.
pub fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let head = bytes.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// A number in host byte order at offset `at`; `None` if the body is too short.
pub fn read<T: Plain>(body: &[u8], at: usize) -> Option<T> {
    body.get(at..).and_then(plain)
}

/// Iterates over netlink messages: the type of each, and what follows its header (netlink(7)).
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.get(..HEADER_BYTES)?;
        let length = read::<u32>(head, 0)? as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let body = self.0.get(HEADER_BYTES..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Messages(&bytes).count() <= bytes.len() / HEADER_BYTES);
            let value = attribute(&bytes, 1);
            prop_assert!(value.is_none_or(|value| value.len() + 4 <= bytes.len()));
        }
    }
}
