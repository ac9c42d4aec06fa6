//! One client's test.

use std::net::{IpAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fabricmark_load::foreign;
use fabricmark_proto::iperf3::{Cookie, Kind, Limits, Parameters, Refusal, Server, ServerAction};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::Instant;
use socket2::SockRef;

use super::account::Account;
use super::flow::StreamSocket;
use super::line::Line;
use super::server::{LOOK_EVERY, Shared};
use super::test::Test;
use crate::socket::set_traffic_class;

/// Polling interval of a test that waits for its streams.
const OPENING_LOOK_EVERY: Duration = Duration::from_millis(2);

/// State of a test's streams.
#[derive(Debug)]
enum Streams {
    /// Not requested yet.
    None,
    /// Waits for another test from the same address to open its streams.
    Queued(Box<Parameters>),
    Awaited(Box<Parameters>, Vec<StreamSocket>),
    Running(Box<Test>),
}

/// Runs a client's test from the moment its cookie has arrived to its end.
pub(super) fn session(
    stream: TcpStream,
    cookie: &Cookie,
    shared: &Shared<'_>,
    opened: &Receiver<StreamSocket>,
) {
    let Ok(peer) = stream.peer_addr() else { return };
    let Ok(line) = Line::new(stream) else { return };
    let Shared { guard, .. } = shared;
    let limits = Limits { duration_max: guard.duration_max, rate_max: guard.rate_max };
    let now = || Instant(now_ns());
    let mut server = Server::new(now(), limits);
    let mut streams = Streams::None;
    let mut buffer = [0; 4096];
    loop {
        while let Some(bytes) = server.poll_output() {
            if line.say(&bytes).is_err() {
                server.on_closed();
            }
        }
        while let Some(action) = server.poll_action() {
            match action {
                ServerAction::Await(asked) if is_admitted(shared, peer.ip(), &asked) => {
                    streams = Streams::Queued(asked);
                }
                ServerAction::Await(_) => server.refuse(Refusal::Authorization),
                ServerAction::Run => {
                    streams = match run(streams, shared) {
                        Ok(test) => Streams::Running(Box::new(test)),
                        Err(refusal) => {
                            server.refuse(refusal);
                            Streams::None
                        }
                    }
                }
                ServerAction::Stop => {
                    if let Streams::Running(test) = std::mem::replace(&mut streams, Streams::None) {
                        server.on_results(now(), test.stop());
                    }
                }
                ServerAction::End(_) => {
                    // The streams close before the last messages are sent, as with iperf3.
                    drop(streams);
                    while let Some(bytes) = server.poll_output() {
                        let _ = line.say(&bytes);
                    }
                    return line.close();
                }
            }
        }
        let look_every = match &mut streams {
            Streams::Queued(asked) => {
                if shared.registry.await_streams(cookie, asked.kind, asked.streams()) {
                    streams = Streams::Awaited(asked.clone(), Vec::new());
                    server.on_ready();
                    continue;
                }
                OPENING_LOOK_EVERY
            }
            Streams::Awaited(asked, awaited) => {
                while let Ok(stream) = opened.try_recv() {
                    match set_options(&stream, asked) {
                        Ok(()) => awaited.push(stream),
                        Err(refusal) => server.refuse(refusal),
                    }
                    if awaited.len() == asked.streams() {
                        server.on_streams(now());
                    }
                }
                OPENING_LOOK_EVERY
            }
            Streams::Running(test) => {
                test.account.on_time(now_ns());
                LOOK_EVERY
            }
            Streams::None => LOOK_EVERY,
        };
        if shared.stop.load(Relaxed) {
            server.terminate();
        }
        match line.hear(&mut buffer, look_every) {
            Ok(None) => server.on_timeout(now()),
            Ok(Some(0)) | Err(_) => server.on_closed(),
            Ok(Some(bytes)) => server.on_bytes(now(), &buffer[..bytes]),
        }
    }
}

fn is_admitted(shared: &Shared<'_>, peer: IpAddr, asked: &Parameters) -> bool {
    let Some(users) = &shared.authentication else { return true };
    let Some(token) = &asked.token else { return false };
    shared.guesses.admit(Instant(now_ns()), peer, || users.admits(token))
}

/// Starts the test whose streams are open.
fn run(streams: Streams, shared: &Shared<'_>) -> Result<Test, Refusal> {
    let Streams::Awaited(asked, opened) = streams else { return Err(Refusal::CreateStream) };
    let account = Account::new(*asked, opened, false);
    Test::start(account, shared.guard.rate_max).map_err(|_| Refusal::CreateStream)
}

/// Sets the options that the client requests. The MSS is negotiated when a connection opens, so that the client's
/// setting suffices.
fn set_options(stream: &StreamSocket, asked: &Parameters) -> Result<(), Refusal> {
    let socket = SockRef::from(stream);
    let failed = |_| Refusal::CreateStream;
    socket.set_nonblocking(true).map_err(failed)?;
    if asked.window_bytes > 0 {
        let bytes = asked.window_bytes as usize;
        socket.set_recv_buffer_size(bytes).map_err(|_| Refusal::Buffer)?;
        socket.set_send_buffer_size(bytes).map_err(|_| Refusal::Buffer)?;
    }
    let is_v6 = socket.local_addr().map_err(failed)?.is_ipv6();
    if asked.tos > 0 {
        set_traffic_class(&socket, is_v6, asked.tos).map_err(|_| Refusal::Tos)?;
    }
    if asked.kind == Kind::Udp {
        if asked.is_unfragmented {
            foreign::set_dont_fragment(stream, is_v6, true).map_err(failed)?;
        }
        return Ok(());
    }
    socket.set_tcp_nodelay(asked.is_nodelay).map_err(failed)?;
    if let Some(congestion) = &asked.congestion {
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(|_| Refusal::Congestion)?;
    }
    Ok(())
}
