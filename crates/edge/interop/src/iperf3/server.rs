//! The server's port: accepts connections and passes them to their tests.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use fabricmark_proto::iperf3::{COOKIE_BYTES, Cookie, State};
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use super::authentication::Authentication;
use super::guesses::Guesses;
use super::registry::{Claim, Registry};
use super::session::session;
use super::udp_port::UdpPort;
use crate::{Guard, socket};

/// Longest wait between two checks whether the server is to stop.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time-out for the cookie: one RTT, and allowance for a lost packet.
const COOKIE_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of connections that have not sent their cookie; one more closes the oldest. A client opens its
/// streams one after the other.
const COOKIES_OWED_MAX: usize = 256;

/// State shared by all tests of a server.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub guard: &'a Guard,
    pub authentication: Option<Authentication>,
    pub guesses: Guesses,
    pub stop: &'a AtomicBool,
    pub registry: Registry,
}

/// A connection that has not yet sent its whole cookie.
#[derive(Debug)]
struct Newcomer {
    stream: TcpStream,
    cookie: Cookie,
    filled: usize,
    until: Instant,
}

/// Result of polling it.
enum Look {
    Waits,
    Gone,
    Named,
}

impl Newcomer {
    fn look(&mut self) -> Look {
        match self.stream.read(&mut self.cookie[self.filled..]) {
            Ok(bytes) if bytes > 0 => {
                self.filled += bytes;
                match self.filled == COOKIE_BYTES {
                    true if self.cookie.ends_with(&[0]) => Look::Named,
                    true => Look::Gone,
                    false => Look::Waits,
                }
            }
            Err(error) if socket::is_passing(&error) && Instant::now() < self.until => Look::Waits,
            Ok(_) | Err(_) => Look::Gone,
        }
    }
}

/// Serves iperf3 clients on the port of a listener, TCP and UDP, until `stop` is set. Then it notifies its clients
/// and returns within 0.2 s. Serves several clients at once, within the limits of `guard`; with `authentication`,
/// only known users.
///
/// Fails if the UDP port is in use, or if the listener itself fails. A client's error ends only that client's test.
pub fn serve(
    listener: &TcpListener,
    guard: &Guard,
    authentication: Option<Authentication>,
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let only_v6 = at.is_ipv6() && SockRef::from(listener).only_v6()?;
    let mut udp = UdpPort::bind(at, only_v6)?;
    let (guesses, registry) = (Guesses::default(), Registry::default());
    let shared = Shared { guard, authentication, guesses, stop, registry };
    let mut newcomers: Vec<Newcomer> = Vec::new();
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            wait(listener, &udp, &newcomers)?;
            // Expected streams first, so that no datagram waits behind new connections.
            udp.serve(&shared.registry);
            accept(listener, guard, &mut newcomers)?;
            let mut place = 0;
            while place < newcomers.len() {
                match newcomers[place].look() {
                    Look::Waits => place += 1,
                    Look::Gone => drop(newcomers.remove(place)),
                    Look::Named => {
                        let Newcomer { stream, cookie, .. } = newcomers.remove(place);
                        admit(scope, &shared, stream, cookie);
                    }
                }
            }
        }
        Ok(())
    })
}

fn wait(listener: &TcpListener, udp: &UdpPort, newcomers: &[Newcomer]) -> io::Result<()> {
    let ports = [listener.as_fd(), udp.socket.as_fd()];
    let fds: Vec<BorrowedFd<'_>> =
        ports.into_iter().chain(newcomers.iter().map(|newcomer| newcomer.stream.as_fd())).collect();
    let mut asked: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    socket::wait(&mut asked, LOOK_EVERY)
}

/// Accepts all pending connections that the guard admits.
fn accept(listener: &TcpListener, guard: &Guard, newcomers: &mut Vec<Newcomer>) -> io::Result<()> {
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => return passing(error),
        };
        if !guard.admits(peer.ip()) || stream.set_nonblocking(true).is_err() {
            continue;
        }
        if newcomers.len() >= COOKIES_OWED_MAX {
            newcomers.remove(0);
        }
        let until = Instant::now() + COOKIE_WITHIN;
        newcomers.push(Newcomer { stream, cookie: [0; COOKIE_BYTES], filled: 0, until });
    }
}

/// Ignores errors of accept(2) that do not concern the listener: nothing to accept, a connection that broke, or too
/// many open files.
fn passing(error: io::Error) -> io::Result<()> {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            thread::sleep(LOOK_EVERY);
            Ok(())
        }
        Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT) => Err(error),
        _ => Ok(()),
    }
}

/// Passes a connection to the test that expects it, or starts a test.
fn admit<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'a>,
    stream: TcpStream,
    cookie: Cookie,
) {
    let stream = match shared.registry.claim(&cookie, stream) {
        Claim::Stream => return,
        Claim::Nobody(stream) => return deny(stream),
        Claim::Control(stream) => stream,
    };
    let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let most = shared.guard.clients_max;
    let Some(opened) = shared.registry.enter(cookie, peer.ip(), local, most) else {
        return deny(stream);
    };
    let named = thread::Builder::new().name("iperf3 session".to_owned());
    let begun = named.spawn_scoped(scope, move || {
        session(stream, &cookie, shared, &opened);
        shared.registry.leave(&cookie);
    });
    if begun.is_err() {
        shared.registry.leave(&cookie);
    }
}

/// Tells the client that the server is full, or that there is no such test.
fn deny(mut stream: TcpStream) {
    let _ = stream.write(&[State::AccessDenied as u8]);
}
