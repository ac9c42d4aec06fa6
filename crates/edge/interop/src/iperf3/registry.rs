//! The tests in progress, and which of them wait for streams.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fabricmark_proto::iperf3::{Cookie, Kind};

use super::flow::StreamSocket;

#[derive(Debug)]
struct Entry {
    cookie: Cookie,
    peer: IpAddr,
    /// The server's address to which the client connected.
    local: SocketAddr,
    /// Kind and number of the streams still to be opened.
    awaits: Option<(Kind, usize)>,
    streams: Sender<StreamSocket>,
}

/// The tests in progress.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Entry>>);

/// What a connection is that begins with a cookie.
#[derive(Debug)]
pub(super) enum Claim {
    /// A stream, which has been passed to its test.
    Stream,
    /// The control connection of a new test.
    Control(TcpStream),
    /// A stream that no test expects.
    Nobody(TcpStream),
}

impl Registry {
    /// Adds a test; `None` if there are already `most`.
    pub fn enter(
        &self,
        cookie: Cookie,
        peer: IpAddr,
        local: SocketAddr,
        most: usize,
    ) -> Option<Receiver<StreamSocket>> {
        let mut entries = self.lock();
        if entries.len() >= most {
            return None;
        }
        let (streams, opened) = mpsc::channel();
        let peer = peer.to_canonical();
        entries.push(Entry { cookie, peer, local, awaits: None, streams });
        Some(opened)
    }

    /// Removes a test.
    pub fn leave(&self, cookie: &Cookie) {
        self.lock().retain(|entry| entry.cookie != *cookie);
    }

    /// Makes a test wait for its streams. Returns false if it must wait its turn: the datagram that opens a UDP stream
    /// does not identify its test, so only one test per client address may wait for UDP streams.
    pub fn await_streams(&self, cookie: &Cookie, kind: Kind, count: usize) -> bool {
        let mut entries = self.lock();
        let Some(place) = entries.iter().position(|entry| entry.cookie == *cookie) else {
            return false;
        };
        let peer = entries[place].peer;
        let is_taken = kind == Kind::Udp && entries.iter().any(|entry| entry.awaits_udp_of(peer));
        if !is_taken {
            entries[place].awaits = Some((kind, count));
        }
        !is_taken
    }

    /// Decides what a connection is.
    pub fn claim(&self, cookie: &Cookie, stream: TcpStream) -> Claim {
        let mut entries = self.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.cookie == *cookie) else {
            return Claim::Control(stream);
        };
        match entry.awaits {
            Some((Kind::Tcp, _)) => {
                entry.give(StreamSocket::Tcp(stream));
                Claim::Stream
            }
            _ => Claim::Nobody(stream),
        }
    }

    /// The server's address to which this client connected, if a test waits for UDP streams from this client.
    pub fn awaits_udp(&self, peer: IpAddr) -> Option<SocketAddr> {
        let peer = peer.to_canonical();
        self.lock().iter().find(|entry| entry.awaits_udp_of(peer)).map(|entry| entry.local)
    }

    /// Passes the socket of a UDP stream to the test that waits for one.
    pub fn give_udp(&self, peer: IpAddr, socket: UdpSocket) {
        let peer = peer.to_canonical();
        if let Some(entry) = self.lock().iter_mut().find(|entry| entry.awaits_udp_of(peer)) {
            entry.give(StreamSocket::Udp(socket));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Passes a stream to the test. If the test has just ended, the stream is dropped.
    fn give(&mut self, stream: StreamSocket) {
        self.awaits =
            self.awaits.map(|(kind, count)| (kind, count - 1)).filter(|&(_, count)| count > 0);
        let _ = self.streams.send(stream);
    }

    fn awaits_udp_of(&self, peer: IpAddr) -> bool {
        self.peer == peer && matches!(self.awaits, Some((Kind::Udp, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "192.0.2.1:5201";

    fn registry(cookies: &[(u8, &str)]) -> (Registry, Vec<Receiver<StreamSocket>>) {
        let registry = Registry::default();
        let enter = |&(letter, peer): &(u8, &str)| {
            registry.enter([letter; 37], peer.parse().unwrap(), LOCAL.parse().unwrap(), 9).unwrap()
        };
        let opened = cookies.iter().map(enter).collect();
        (registry, opened)
    }

    #[test]
    fn beyond_the_most_nobody_enters() {
        let (registry, _opened) = registry(&[(b'a', "192.0.2.9")]);
        let enter =
            |most| registry.enter([b'b'; 37], [192, 0, 2, 9].into(), LOCAL.parse().unwrap(), most);
        assert!(enter(1).is_none());
        assert!(enter(2).is_some());
        registry.leave(&[b'b'; 37]);
        assert!(enter(2).is_some());
    }

    #[test]
    fn tests_of_one_address_await_datagrams_one_after_the_other() {
        let (registry, _opened) =
            registry(&[(b'a', "192.0.2.9"), (b'b', "::ffff:192.0.2.9"), (b'c', "192.0.2.8")]);
        let awaits = |letter| registry.await_streams(&[letter; 37], Kind::Udp, 1);
        assert!(awaits(b'a') && awaits(b'c'));
        assert!(!awaits(b'b'), "its address has its turn");
        assert!(
            registry.await_streams(&[b'b'; 37], Kind::Tcp, 1),
            "cookies tell TCP streams apart"
        );
        registry.leave(&[b'a'; 37]);
        assert!(awaits(b'b'));
    }

    #[test]
    fn only_an_address_that_awaits_datagrams_is_answered() {
        let (registry, opened) = registry(&[(b'a', "192.0.2.9")]);
        let (peer, other): (IpAddr, IpAddr) = ([192, 0, 2, 9].into(), [192, 0, 2, 8].into());
        assert_eq!(registry.awaits_udp(peer), None, "it awaits nothing");
        assert!(registry.await_streams(&[b'a'; 37], Kind::Udp, 1));
        assert_eq!(registry.awaits_udp(other), None);
        assert_eq!(registry.awaits_udp(peer), Some(LOCAL.parse().unwrap()));
        registry.give_udp(peer, UdpSocket::bind("127.0.0.1:0").unwrap());
        assert_eq!(registry.awaits_udp(peer), None, "it has all of them");
        assert!(matches!(opened[0].try_recv(), Ok(StreamSocket::Udp(_))));
    }
}
