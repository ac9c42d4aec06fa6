//! SIGINT and SIGTERM end the work in order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exit::Failure;

/// A flag that is set by the first signal; a second signal ends the program at once.
pub fn interruptions() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    }
    Ok(flag)
}
