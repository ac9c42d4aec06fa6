//! The one system call that the standard library does not make.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel kill the program of a command when this thread ends, however it ends.
pub fn kill_with_this_thread(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call (prctl), and neither allocates nor locks.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}
