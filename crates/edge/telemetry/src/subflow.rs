//! The receive queue of an MPTCP connection's first TCP subflow (RFC 8684). The subflow has a socket of its own in the
//! kernel, which sock_diag(7) reports on.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use rustix::net::{getpeername, getsockname};
use socket2::Socket;

use crate::netlink::{
    self, ANSWER_BYTES, BY_FAMILY, ERROR, Messages, REQUEST, attribute, message, read,
};

/// Contents of a subflow's receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Memory of its packets, in order or not: SK_MEMINFO_RMEM_ALLOC.
    pub memory_bytes: u64,
    /// Bytes in order that MPTCP has not taken yet.
    pub in_order_bytes: u64,
}

/// A client of sock_diag(7), which opens its netlink socket with the first request.
#[derive(Debug, Default)]
pub struct Subflows {
    netlink: Option<Socket>,
}

/// Length of `struct inet_diag_req_v2`, and offsets of its fields (linux/inet_diag.h).
const REQUEST_BYTES: usize = 56;
const EXTENSIONS_AT: usize = 2;
const STATES_AT: usize = 4;
const PORTS_AT: usize = 8;
const FROM_AT: usize = 12;
const TO_AT: usize = 28;
const COOKIE_AT: usize = 48;

/// Length of `struct inet_diag_msg`, which precedes its attributes, and offset of its bytes in order.
const ANSWER_HEAD_BYTES: usize = 72;
const RQUEUE_AT: usize = 56;

/// `INET_DIAG_SKMEMINFO`.
const MEMORY: u16 = 7;

impl Subflows {
    /// The receive queue of the first subflow of an MPTCP socket; `None` if the kernel does not report it.
    pub fn first(&mut self, fd: BorrowedFd<'_>) -> Option<ReceiveQueue> {
        let from = SocketAddr::try_from(getsockname(fd).ok()?).ok()?;
        let to = SocketAddr::try_from(getpeername(fd).ok()??).ok()?;
        self.ask(from, to).ok().flatten()
    }

    fn ask(&mut self, from: SocketAddr, to: SocketAddr) -> io::Result<Option<ReceiveQueue>> {
        let socket = match &mut self.netlink {
            Some(socket) => socket,
            none => none.insert(netlink::socket(libc::NETLINK_SOCK_DIAG)?),
        };
        socket.write_all(&message(BY_FAMILY, REQUEST, &request(from, to)))?;
        let mut answer = vec![0; ANSWER_BYTES];
        let bytes = socket.read(&mut answer)?;
        let first = Messages(&answer[..bytes]).next().filter(|(kind, _)| *kind != ERROR);
        Ok(first.and_then(|(_, body)| waiting(body)))
    }
}

/// A request for the TCP socket with these local and remote addresses.
fn request(from: SocketAddr, to: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    request[0] = family as u8;
    request[1] = libc::IPPROTO_TCP as u8;
    request[EXTENSIONS_AT] = 1 << (MEMORY - 1);
    request[STATES_AT..PORTS_AT].fill(0xff);
    request[PORTS_AT..PORTS_AT + 2].copy_from_slice(&from.port().to_be_bytes());
    request[PORTS_AT + 2..FROM_AT].copy_from_slice(&to.port().to_be_bytes());
    for (at, address) in [(FROM_AT, from.ip()), (TO_AT, to.ip())] {
        match address {
            IpAddr::V4(v4) => request[at..at + 4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => request[at..at + 16].copy_from_slice(&v6.octets()),
        }
    }
    // INET_DIAG_NOCOOKIE: any socket with these addresses.
    request[COOKIE_AT..].fill(0xff);
    request
}

fn waiting(body: &[u8]) -> Option<ReceiveQueue> {
    let in_order_bytes = read::<u32>(body, RQUEUE_AT)?.into();
    let memory = attribute(body.get(ANSWER_HEAD_BYTES..)?, MEMORY)?;
    Some(ReceiveQueue { memory_bytes: read::<u32>(memory, 0)?.into(), in_order_bytes })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_receive_queue_of_a_tcp_socket_is_found_by_its_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let mut start = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (answer, _) = listener.accept().unwrap();
            let mut subflows = Subflows::default();
            let none = ReceiveQueue { memory_bytes: 0, in_order_bytes: 0 };
            assert_eq!(subflows.first(answer.as_fd()), Some(none), "{address}");
            start.write_all(&[0; 1_000]).unwrap();
            let waiting = subflows.first(answer.as_fd()).unwrap();
            assert_eq!(waiting.in_order_bytes, 1_000, "{address}");
            assert!(waiting.memory_bytes > 1_000, "{address}: {waiting:?}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Subflows::default().first(listener.as_fd()), None);
    }
}
