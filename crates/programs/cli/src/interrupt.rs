//! SIGINT and SIGTERM end the work in order.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Code, Failure};

/// Time after a signal in which others count as the same, an arbitrary choice. One keystroke may send several signals: to
/// the process group, and from a wrapper that forwards it.
const ONE_KEYSTROKE: Duration = Duration::from_secs(1);

/// A flag that is set by the first signal. A signal that comes a second later or more ends the program at once.
pub fn interruptions() -> Result<Arc<AtomicBool>, Failure> {
    let [flag] = flags()?;
    Ok(flag)
}

/// Flags, one for each signal: the first signal sets the first flag, the next one the second, and so on. A signal after
/// those ends the program at once.
pub fn flags<const N: usize>() -> Result<[Arc<AtomicBool>; N], Failure> {
    let failed = |error| Failure::internal(format!("cannot catch signals: {error}"));
    let (mut caught, catching) = UnixStream::pair().map_err(failed)?;
    let flags: [Arc<AtomicBool>; N] = std::array::from_fn(|_| Arc::default());
    for signal in [SIGINT, SIGTERM] {
        // At once, so that nobody sees the end of a child before the signal that both got.
        signal_hook::flag::register(signal, Arc::clone(&flags[0])).map_err(failed)?;
        let catching = catching.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, catching).map_err(failed)?;
    }
    let mut left = flags.clone().into_iter();
    let wait = move || {
        let mut last: Option<Instant> = None;
        while caught.read_exact(&mut [0]).is_ok() {
            if last.is_some_and(|last| last.elapsed() < ONE_KEYSTROKE) {
                continue;
            }
            match left.next() {
                Some(flag) => flag.store(true, Relaxed),
                None => signal_hook::low_level::exit(i32::from(Code::Interrupted as u8)),
            }
            last = Some(Instant::now());
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(flags)
}
