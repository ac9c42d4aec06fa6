//! A reflector on its own thread.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fabricmark_interop::Guard;
use fabricmark_interop::stamp::{Protocol, Reflector, Served, Session, Settings, Wanted, reflect};
use fabricmark_units::Nanos;

/// Loopback of both families.
pub const ADDRESSES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Time in which an answer must arrive, even on a busy host.
pub const WITHIN: Nanos = Nanos::from_secs(20);

pub struct Reflecting {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Served>,
}

impl Reflecting {
    pub fn start(address: &str, reflector: Reflector, guard: Guard) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || reflect(&socket, &guard, reflector, &stopped).unwrap();
        Self { address, stop, thread: std::thread::spawn(serve) }
    }

    pub fn stop(self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A socket connected to the reflector.
pub fn socket_to(target: SocketAddr) -> UdpSocket {
    let any = if target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(target).unwrap();
    socket.set_read_timeout(Some(Duration::from(WITHIN))).unwrap();
    socket
}

pub fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let bytes = socket.recv(&mut buffer).unwrap();
    buffer.truncate(bytes);
    buffer
}

/// Twenty packets, 1 ms apart.
pub fn settings(target: SocketAddr) -> Settings {
    let session = Session {
        protocol: Protocol::Stamp,
        key: None,
        identifier: 7,
        wanted: Wanted::default(),
        packets: 20,
        interval: Nanos::from_millis(1),
        timeout: WITHIN,
    };
    Settings { target, session, dscp: 0 }
}

/// Default TTL or hop limit of this host's packets.
pub fn own_ttl(target: SocketAddr) -> u8 {
    let socket = socket_to(target);
    let options = socket2::SockRef::from(&socket);
    let ttl = if target.is_ipv4() { options.ttl_v4() } else { options.unicast_hops_v6() };
    u8::try_from(ttl.unwrap()).unwrap()
}
