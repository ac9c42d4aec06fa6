//! What tests with packets of the kernel have in common.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;

/// Whether namespaces can be created; if not, the test is counted as skipped.
pub(crate) fn may_make(test: &str) -> bool {
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    let may = probe.is_ok_and(|output| output.status.success());
    if !may {
        fabricmark_testkit::skip(test, "network namespaces need root");
    }
    may
}

/// A socket that waits for a datagram for at most five seconds.
pub(crate) fn udp(namespace: &Namespace, address: IpAddr) -> UdpSocket {
    let open = || UdpSocket::bind(SocketAddr::new(address, 7000));
    let socket = namespace.within(open).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// RTT of a datagram.
pub(crate) fn round_trip(left: &UdpSocket, right: &UdpSocket) -> Duration {
    let begin = Instant::now();
    left.send_to(b"ping", right.local_addr().unwrap()).unwrap();
    let mut bytes = [0; 16];
    let (length, from) = right.recv_from(&mut bytes).unwrap();
    right.send_to(&bytes[..length], from).unwrap();
    left.recv_from(&mut bytes).unwrap();
    begin.elapsed()
}
