//! The end that answers: each APDU at once, with one of its own of the same length.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fabricmark_proto::{APDU_BYTES, APDU_PADDED_BYTES, Apdu, Peer};
use fabricmark_telemetry::datagrams;
use rustix::event::{PollFd, PollFlags};

use super::now_ns;
use crate::Guard;
use crate::socket::{is_passing, notice_silence, wait};

/// How often the loops check whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A client whose last APDU is older is forgotten when there is no room for another one.
const FORGOTTEN_AFTER_NS: u64 = 60_000_000_000;

/// Lower ports are those of services (RFC 6335, section 6), which might answer an answer.
const FIRST_USER_PORT: u16 = 1024;

/// Most datagrams that are received in a row before `stop` is checked. An arbitrary choice.
const TURN: usize = 64;

/// Answers APDUs by datagrams until `stop` is set. A multicast is answered to its sender alone.
///
/// # Errors
/// If the socket cannot be read. An answer that cannot be sent is lost, as in the network.
pub fn reflect_datagrams(socket: &UdpSocket, guard: &Guard, stop: &AtomicBool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    datagrams::tell_destinations(socket)?;
    let own_port = socket.local_addr()?.port();
    let mut peers: HashMap<SocketAddr, (Peer, u64)> = HashMap::new();
    // One byte more than the longest APDU, so that longer datagrams are refused.
    let mut buffer = [0; APDU_PADDED_BYTES + 1];
    while !stop.load(Relaxed) {
        wait(&mut [PollFd::new(socket, PollFlags::IN)], LOOK)?;
        for _ in 0..TURN {
            let arrived_ns = now_ns();
            let received = match datagrams::receive(socket, &mut buffer) {
                Ok(received) => received,
                Err(error) if is_passing(&error) => break,
                // A host refused an answer.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            let (length, client) = (received.bytes, received.source);
            let is_served = guard.admits(client.ip())
                && client.port() >= FIRST_USER_PORT
                && client.port() != own_port;
            let Some(apdu) = Apdu::parse(&buffer[..length]).ok().filter(|_| is_served) else {
                continue;
            };
            if !peers.contains_key(&client) && peers.len() >= guard.clients_max {
                peers.retain(|_, (_, heard_ns)| arrived_ns - *heard_ns < FORGOTTEN_AFTER_NS);
                if peers.len() >= guard.clients_max {
                    continue;
                }
            }
            let (peer, heard_ns) = peers.entry(client).or_default();
            // Another measurement from the same port.
            if arrived_ns - *heard_ns >= FORGOTTEN_AFTER_NS {
                *peer = Peer::default();
            }
            *heard_ns = arrived_ns;
            peer.on_apdu(&apdu, arrived_ns);
            let answer = peer.send(now_ns()).emit(length == APDU_PADDED_BYTES);
            // A host with several addresses answers from the one that was asked.
            let from = received.destination.filter(|to| !to.to_canonical().is_multicast());
            let _ = datagrams::send(socket, &answer, client, from, None);
        }
    }
    Ok(())
}

/// Answers APDUs on TCP connections until `stop` is set. The first receive of a connection decides on the length of its
/// APDUs, which a stream does not show: 25 bytes and no more, or 1024.
///
/// # Errors
/// If the listening socket fails.
pub fn reflect_connections(
    listener: &TcpListener,
    guard: &Guard,
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            wait(&mut [PollFd::new(listener, PollFlags::IN)], LOOK)?;
            let (client, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => continue,
                // Without descriptors the connection would wake this thread again at once (accept(2)).
                Err(_) => {
                    thread::sleep(LOOK);
                    continue;
                }
            };
            if !guard.admits(address.ip()) || open.load(Relaxed) >= guard.clients_max {
                continue;
            }
            open.fetch_add(1, Relaxed);
            let open_now = &open;
            let serve = move || {
                // The client has gone.
                let _ = converse(client, stop);
                open_now.fetch_sub(1, Relaxed);
            };
            // Without a thread for it, the connection is closed.
            if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
                open.fetch_sub(1, Relaxed);
            }
        }
        Ok(())
    })
}

fn converse(mut client: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    client.set_nonblocking(true)?;
    notice_silence(&client)?;
    let mut peer = Peer::new();
    let mut buffer = [0; APDU_PADDED_BYTES];
    let (mut filled, mut bytes, mut arrived_ns) = (0, None, 0);
    while !stop.load(Relaxed) {
        wait(&mut [PollFd::new(&client, PollFlags::IN)], LOOK)?;
        let now_ns_before = now_ns();
        let most = bytes.unwrap_or(buffer.len());
        match client.read(&mut buffer[filled..most]) {
            Ok(0) => return Ok(()),
            Ok(count) => filled += count,
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        }
        // The first byte of an APDU is its arrival.
        if arrived_ns == 0 {
            arrived_ns = now_ns_before;
        }
        let length =
            *bytes.get_or_insert(if filled == APDU_BYTES { APDU_BYTES } else { APDU_PADDED_BYTES });
        if filled < length {
            continue;
        }
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
        let apdu = Apdu::parse(&buffer[..length]).map_err(invalid)?;
        peer.on_apdu(&apdu, arrived_ns);
        (filled, arrived_ns) = (0, 0);
        // An answer is shorter than any send buffer, and the client waits for it.
        client.write_all(&peer.send(now_ns()).emit(length == APDU_PADDED_BYTES))?;
    }
    Ok(())
}
