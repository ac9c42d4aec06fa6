//! SIGINT and SIGTERM end the work in order.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Code, Failure};

/// Time after the first signal from which another one ends the program at once, an arbitrary choice. One keystroke may
/// send several signals: to the process group, and from a wrapper that forwards it.
const ONE_KEYSTROKE: Duration = Duration::from_secs(1);

/// A flag that is set by the first signal. A signal that comes a second later or more ends the program at once.
pub fn interruptions() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let is_late = Arc::new(AtomicBool::new(false));
    let failed = |error| Failure::internal(format!("cannot catch signals: {error}"));
    let (mut caught, catching) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM] {
        let catching = catching.try_clone().map_err(failed)?;
        let code = i32::from(Code::Interrupted as u8);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&is_late))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, catching))
            .map_err(failed)?;
    }
    let wait = move || {
        if caught.read_exact(&mut [0]).is_ok() {
            thread::sleep(ONE_KEYSTROKE);
            is_late.store(true, Relaxed);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(flag)
}
