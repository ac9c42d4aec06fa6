//! A netperf server: what `netperf`, and flent through it, connect to.
//!
//! A thread for each client; the conversation is [`fabricmark_proto::netperf`]. Data connections are
//! taken from the address of the control connection alone, and datagrams go nowhere else.
//!
//! Every socket has a short time-out, so that a thread looks about: whether the client is still there,
//! whether the test's time is up, whether it is to stop. That costs a timer in a call that has to wait.

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

use socket2::SockRef;

use crate::Guard;

/// netperf's own port, where `-p` names no other.
pub const PORT: u16 = 12_865;

/// How often a thread that waits looks about.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves netperf clients until `stop` is set, then returns within some 0.2 s. Who is not admitted, and
/// who finds all places taken, is turned away without a word: the protocol has none. Fails only where the
/// listener's options cannot be set.
pub fn serve(listener: &TcpListener, guard: &Guard, stop: &AtomicBool) -> io::Result<()> {
    SockRef::from(listener).set_read_timeout(Some(LOOK_EVERY))?;
    listener.set_nonblocking(false)?;
    // Each client holds one beside this one.
    let places = Arc::new(());
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            let (control, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !is_timeout(&error) {
                        // A connection that was gone again, or no file left for it: both pass.
                        thread::sleep(LOOK_EVERY);
                    }
                    continue;
                }
            };
            if !guard.admits(peer.ip()) || Arc::strong_count(&places) > guard.clients_max {
                continue;
            }
            let place = Arc::clone(&places);
            // Without a thread the connection closes, as it does when the conversation fails.
            let _ =
                thread::Builder::new().name("netperf".to_owned()).spawn_scoped(scope, move || {
                    let _ = session::serve(&control, guard, stop);
                    // Before the connection closes.
                    drop(place);
                });
        }
    });
    Ok(())
}

/// Whether an error only says that nothing has come yet.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether an error says that the client has closed its socket.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionReset | ConnectionRefused | BrokenPipe | NotConnected)
}
