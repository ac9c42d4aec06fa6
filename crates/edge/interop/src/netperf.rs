//! A netserver: the server for `netperf`, and for flent, which runs netperf.
//!
//! Each client has a thread; the protocol is [`fabricmark_proto::netperf`]. Data connections are accepted only from
//! the address of the control connection, and datagrams are sent only to it.
//!
//! Every socket has a short time-out, so that its thread can check whether the client is still there, whether the
//! test is over, and whether to stop. That costs a timer in each call that has to wait.

mod data;
mod session;
mod tcp;
mod udp;
mod watch;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fabricmark_load::transport::is_timeout;
use socket2::SockRef;

use crate::Guard;

/// Default port of netperf's `-p`.
pub const PORT: u16 = 12_865;

/// Polling interval of a thread that waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves netperf clients until `stop` is set, then returns within about 0.2 s. Clients that the guard does not
/// admit, and clients above its limit, are disconnected without a message: the protocol has none. Fails only if the
/// listener's options cannot be set.
pub fn serve(listener: &TcpListener, guard: &Guard, stop: &AtomicBool) -> io::Result<()> {
    SockRef::from(listener).set_read_timeout(Some(LOOK_EVERY))?;
    listener.set_nonblocking(false)?;
    // Its reference count is the number of clients plus one.
    let places = Arc::new(());
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            let (control, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !is_timeout(&error) {
                        // The connection was aborted, or there are too many open files: both are transient.
                        thread::sleep(LOOK_EVERY);
                    }
                    continue;
                }
            };
            if !guard.admits(peer.ip()) || Arc::strong_count(&places) > guard.clients_max {
                continue;
            }
            let place = Arc::clone(&places);
            // If the thread cannot be started, the connection closes, as it does after a failed session.
            let _ =
                thread::Builder::new().name("netperf".to_owned()).spawn_scoped(scope, move || {
                    let _ = session::serve(&control, guard, stop);
                    // Release the place before the connection closes.
                    drop(place);
                });
        }
    });
    Ok(())
}

/// Whether an error means that the client has closed its socket.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionReset | ConnectionRefused | BrokenPipe | NotConnected)
}
