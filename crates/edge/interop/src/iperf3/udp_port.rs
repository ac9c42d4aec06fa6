//! The UDP port: streams are opened here, and then have their own sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use fabricmark_proto::iperf3::{OPENING, OPENING_REPLIES};
use socket2::{Domain, Protocol, Socket, Type};

use super::registry::Registry;

/// Datagrams processed in a row before other sockets have their turn.
const TURN: usize = 64;

/// The socket on which streams are opened.
#[derive(Debug)]
pub(super) struct UdpPort {
    pub socket: UdpSocket,
    /// Senders of opening datagrams that arrived at the socket of another stream between its bind and its connect.
    astray: Vec<SocketAddr>,
}

/// A socket that shares its port. Among sockets with the same port, the kernel delivers a datagram to the one that is
/// connected to its sender.
fn bound(at: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    if at.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    Ok(socket.into())
}

impl UdpPort {
    /// Binds the port of a TCP listener.
    pub fn bind(at: SocketAddr, only_v6: bool) -> io::Result<Self> {
        Ok(Self { socket: bound(at, only_v6)?, astray: Vec::new() })
    }

    /// Opens the streams whose datagrams have arrived. Only datagrams from clients that wait for streams are answered.
    pub fn serve(&mut self, registry: &Registry) {
        let mut buffer = [0; 16];
        for _ in 0..TURN {
            let peer = match self.astray.pop() {
                Some(peer) => peer,
                None => match self.socket.recv_from(&mut buffer) {
                    // Old clients send other bytes of the same length; late datagrams of an earlier test are longer.
                    Ok((bytes, peer)) if bytes == OPENING.len() => peer,
                    Ok(_) => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    // An ICMP error caused by an earlier reply.
                    Err(_) => continue,
                },
            };
            if let Some(local) = registry.awaits_udp(peer.ip())
                && let Ok(socket) = self.connect(local, peer)
            {
                registry.give_udp(peer.ip(), socket);
            }
        }
    }

    fn connect(&mut self, local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = bound(local, false)?;
        socket.connect(peer)?;
        // Before it was connected, the socket may have received datagrams for the port.
        let mut buffer = [0; 16];
        for _ in 0..TURN {
            let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { break };
            if from != peer && bytes == OPENING.len() && self.astray.len() < TURN {
                self.astray.push(from);
            }
        }
        socket.send(&OPENING_REPLIES[0])?;
        Ok(socket)
    }
}
