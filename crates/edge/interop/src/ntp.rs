//! RTT and clock offset by NTP, the first method of paper P5: one request at a time to a server.
//!
//! [`measure`] sends the requests. Departure and arrival are readings of CLOCK_REALTIME around the system calls.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabricmark_proto::{NTP_BYTES, NotAnswer, NtpAnswer, ntp_request};
use fabricmark_units::Nanos;
use rustix::event::{PollFd, PollFlags};

use crate::socket::{unless_lost, wait};
use crate::stamp::time;

/// Port of NTP servers (RFC 5905, section 7.2).
pub const PORT: u16 = 123;

/// How often the loop checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub target: SocketAddr,
    /// Number of requests.
    pub packets: u32,
    /// Time from one request to the next, at least.
    pub interval: Nanos,
    /// Time after which a request without an answer is lost.
    pub timeout: Nanos,
}

/// Results of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Requests sent.
    pub sent: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Packets that answer nothing.
    pub ignored: u64,
    /// Answers with a negative RTT: a clock was set.
    pub implausible: u64,
    /// Answers of a server that is not synchronised, or refuses.
    pub unsynchronised: u64,
    /// The answer with the smallest RTT: its offset is the most accurate (section 10).
    pub best: Option<NtpAnswer>,
}

/// Sends the requests of `settings` one after the other. `each` gets every RTT in nanoseconds.
///
/// # Errors
/// If the port is closed, or the kernel refuses to send.
pub fn measure(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut dyn FnMut(u64),
) -> io::Result<Measured> {
    let any = if settings.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(settings.target)?;
    socket.set_nonblocking(true)?;
    let mut measured = Measured::default();
    let mut due = Instant::now();
    for _ in 0..settings.packets {
        while !stop.load(Relaxed) && Instant::now() < due {
            let within = due.saturating_duration_since(Instant::now()).min(LOOK);
            wait(&mut [PollFd::new(&socket, PollFlags::IN)], within)?;
            // What arrives now is too late.
            let mut late = [0; NTP_BYTES];
            while unless_lost(socket.recv(&mut late), measured.answered > 0)?.is_some() {
                measured.ignored += 1;
            }
        }
        if stop.load(Relaxed) {
            break;
        }
        due = Instant::now() + Duration::from(settings.interval);
        let departed = time();
        unless_lost(socket.send(&ntp_request(departed)), measured.answered > 0)?;
        measured.sent += 1;
        let until = Instant::now() + Duration::from(settings.timeout);
        while !stop.load(Relaxed) && Instant::now() < until {
            let within = until.saturating_duration_since(Instant::now()).min(LOOK);
            wait(&mut [PollFd::new(&socket, PollFlags::IN)], within)?;
            let mut packet = [0; NTP_BYTES];
            let Some(length) = unless_lost(socket.recv(&mut packet), measured.answered > 0)? else {
                continue;
            };
            match NtpAnswer::parse(&packet[..length], departed, time()) {
                // A clock was set in between.
                Ok(answer) if answer.rtt_ns < 0 => {
                    measured.implausible += 1;
                    break;
                }
                Ok(answer) => {
                    measured.answered += 1;
                    each(answer.rtt_ns.unsigned_abs());
                    let is_best = measured.best.is_none_or(|best| answer.rtt_ns < best.rtt_ns);
                    measured.best = if is_best { Some(answer) } else { measured.best };
                    break;
                }
                Err(NotAnswer::Unsynchronised) => {
                    measured.unsynchronised += 1;
                    break;
                }
                Err(NotAnswer::Form | NotAnswer::Origin) => measured.ignored += 1,
            }
        }
    }
    Ok(measured)
}
