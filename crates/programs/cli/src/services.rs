//! Servers for other tools' protocols, beside an agent.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use fabricmark_interop::iperf3::Authentication;
use fabricmark_interop::stamp::{Key, Reflector};
use fabricmark_interop::{Guard, apdu, iperf3, netperf, stamp};

use crate::command::agent::not_bound;
use crate::exit::{Code, Failure};
use crate::options::Agent;

/// Maximum number of stateful STAMP sessions: 64 bytes each.
const STAMP_SESSIONS: usize = 4096;

/// Maximum length of a STAMP key in bytes: keys above the 64 bytes of SHA-256's block are hashed (RFC 2104).
const STAMP_KEY_BYTES: usize = 4096;

/// Threads that serve other tools' protocols.
pub struct Services {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Services {
    /// Starts the requested services. Each listens on loopback, or on all addresses if networks are allowed to use it.
    pub fn start(options: &Agent, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let usual = Guard::default();
        let guard = Guard {
            allowed: options.allow.clone(),
            rate_max: options.rate.unwrap_or(usual.rate_max),
            duration_max: usual.duration_max.min(options.duration),
            ports: options.ports,
            ..usual
        };
        let mut services = Self { stop: Arc::clone(stop), threads: Vec::new() };
        let authentication = match (&options.iperf3_key, &options.iperf3_users) {
            (Some(key), Some(users)) => Some(
                Authentication::new(key, users)
                    .map_err(|error| Failure::new(Code::Missing, error.to_string()))?,
            ),
            _ => None,
        };
        let key = options.stamp_key.as_deref().map(stamp_key).transpose()?;
        let is_public = !guard.allowed.is_empty();
        for listener in listen(options.iperf3, is_public, "iperf3", TcpListener::bind)? {
            let (guard, authentication) = (guard.clone(), authentication.clone());
            services.serve(move |stop| iperf3::serve(&listener, &guard, authentication, stop));
        }
        for listener in listen(options.netperf, is_public, "netperf", TcpListener::bind)? {
            let guard = guard.clone();
            services.serve(move |stop| netperf::serve(&listener, &guard, stop));
        }
        for socket in listen(options.stamp, is_public, "STAMP", UdpSocket::bind)? {
            let guard = guard.clone();
            let reflector = Reflector::stateful(key.clone(), STAMP_SESSIONS);
            services.serve(move |stop| {
                stamp::reflect(&socket, &guard, reflector, stop).map(|_served| ())
            });
        }
        services.answer_apdus(options, &guard)?;
        Ok(services)
    }

    fn answer_apdus(&mut self, options: &Agent, guard: &Guard) -> Result<(), Failure> {
        let groups = &options.apdu_group;
        if let Some(group) = groups.iter().find(|group| !group.is_multicast()) {
            let message = format!("{group} is not a multicast group: use 224.0.0.0/4 or ff00::/8");
            return Err(Failure::input(message));
        }
        // Multicasts arrive only at a socket of all addresses; the guard still decides who is answered.
        let bind = |at| {
            let socket = UdpSocket::bind(at)?;
            groups.iter().try_for_each(|&group| apdu::join(&socket, group))?;
            Ok(socket)
        };
        let is_public = !guard.allowed.is_empty();
        for socket in listen(options.apdu, is_public || !groups.is_empty(), "APDUs over UDP", bind)?
        {
            let guard = guard.clone();
            self.serve(move |stop| apdu::reflect_datagrams(&socket, &guard, stop));
        }
        for listener in listen(options.apdu, is_public, "APDUs over TCP", TcpListener::bind)? {
            let guard = guard.clone();
            self.serve(move |stop| apdu::reflect_connections(&listener, &guard, stop));
        }
        Ok(())
    }

    fn serve(&mut self, serve: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            let served = serve(&stop);
            // A service that fails ends the others too, so that the failure is noticed.
            stop.store(true, Relaxed);
            served
        }));
    }

    /// Waits until all have ended; returns the first error.
    pub fn join(self) -> Result<(), Failure> {
        self.stop.store(true, Relaxed);
        let mut ended = Ok(());
        for thread in self.threads {
            let served = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended = ended.and(served);
        }
        ended.map_err(|error| {
            let message = format!("a service for another tool failed: {error}");
            Failure::new(Code::RunFailed, message)
        })
    }
}

/// Sockets of a requested service: one for both families on all addresses, or one per family on loopback.
fn listen<S>(
    port: Option<u16>,
    is_everywhere: bool,
    name: &str,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<Vec<S>, Failure> {
    let Some(port) = port else { return Ok(Vec::new()) };
    // The first includes IPv4, if this machine has IPv6.
    let everywhere = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let at = if is_everywhere { &everywhere[..] } else { &loopback[..] };
    let mut sockets = Vec::new();
    for address in at {
        let address = SocketAddr::new(*address, port);
        match bind(address) {
            Ok(socket) => {
                note!("serving {name} at {address}");
                sockets.push(socket);
                if is_everywhere {
                    break;
                }
            }
            Err(error) if lacks_ipv6(&error) && address.is_ipv6() => {}
            Err(error) => return Err(not_bound(&format!("serve {name} at {address}"), &error)),
        }
    }
    Ok(sockets)
}

/// Whether a socket could not be bound because this machine has no IPv6: no address, or a kernel without it
/// (`ipv6.disable=1`).
fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Reads a STAMP key from a file.
pub fn stamp_key(path: &Path) -> Result<Key, Failure> {
    let octets = fs::read(path).map_err(Failure::unread(path))?;
    let key = octets.strip_suffix(b"\n").unwrap_or(&octets);
    Some(key).filter(|key| key.len() <= STAMP_KEY_BYTES).and_then(Key::new).ok_or_else(|| {
        let message =
            format!("the key in {} does not have 1 to {STAMP_KEY_BYTES} octets", path.display());
        Failure::input(message)
    })
}
