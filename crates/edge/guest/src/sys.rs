//! Setup of the QEMU process between fork and exec.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Kills the command when the calling thread ends, for whatever reason.
pub(crate) fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl is a plain system
    // call, and the closure allocates nothing.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal).map_err(io::Error::from)
        });
    }
}
