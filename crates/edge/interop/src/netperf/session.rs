//! One client: its control connection and its tests, one after the other.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_load::transport::is_timeout;
use fabricmark_proto::netperf::{Action, Caller, MESSAGE_BYTES, Server};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::Instant;

use super::LOOK_EVERY;
use super::data::Data;
use super::watch::{Failure, Pace, Watch};
use crate::Guard;
use crate::socket::notice_silence;

/// Serves one client until it closes, is silent for too long, or `stop` is set.
pub(super) fn serve(mut control: &TcpStream, guard: &Guard, stop: &AtomicBool) -> io::Result<()> {
    notice_silence(control)?;
    control.set_read_timeout(Some(LOOK_EVERY))?;
    control.set_write_timeout(Some(LOOK_EVERY))?;

    let (peer, local) = (canonical(control.peer_addr()?), canonical(control.local_addr()?));
    let caller = Caller { peer: peer.ip(), local: local.ip(), duration_max: guard.duration_max };
    let now = || Instant(now_ns());
    let mut pace = Pace::of(guard.rate_max);
    let mut server = Server::new(caller, now());
    let mut bytes = [0; MESSAGE_BYTES];
    while !stop.load(Relaxed) {
        let mut action = server.on_timeout(now());
        match control.read(&mut bytes[..server.room()]) {
            Ok(0) => return Ok(()),
            Ok(length) => action = action.or(server.on_bytes(now(), &bytes[..length])),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        match action {
            Some(Action::Close) => return Ok(()),
            Some(Action::Prepare(test)) => match Data::open(&test, local, peer, guard.ports) {
                Ok((data, prepared)) => {
                    server.on_prepared(now(), Ok(prepared));
                    speak(control, &mut server)?;
                    match data.carry_out(&test, Watch::new(control, stop, &mut pace)) {
                        Ok(counted) => server.on_finished(now(), Ok(counted)),
                        Err(Failure::System(error)) => {
                            server.on_finished(now(), Err(errno(&error)));
                        }
                        Err(Failure::Over) => return Ok(()),
                    }
                }
                Err(error) => server.on_prepared(now(), Err(errno(&error))),
            },
            None => {}
        }
        speak(control, &mut server)?;
    }
    Ok(())
}

/// Sends all pending messages. Fails if the client does not read them in time.
fn speak(mut control: &TcpStream, server: &mut Server) -> io::Result<()> {
    while let Some(message) = server.poll_output() {
        control.write_all(&message.0)?;
    }
    Ok(())
}

/// Converts an IPv4-mapped IPv6 address, which a dual-stack socket reports, to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // Keeps the scope id.
        IpAddr::V6(_) => address,
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
