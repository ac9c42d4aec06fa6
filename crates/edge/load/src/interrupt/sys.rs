//! The signal that interrupts: SIGURG. It is ignored where nobody handles it, so that a stray one does no
//! harm; it is pending once at most, where real-time signals queue up; the kernel itself sends it only
//! to who asked for urgent data (F_SETOWN); and neither std nor the handling of Ctrl-C uses it.

use std::{io, mem, ptr};

use rustix::process::getpid;
use rustix::thread::Pid;

extern "C" fn nothing(_: libc::c_int) {}

/// Lets the signal end a call in which the calling thread blocks (EINTR).
pub(super) fn heed() -> io::Result<()> {
    // SAFETY: the fields are integers, pointers and a set of bits, for which zero is a valid value: no
    // signal blocked meanwhile, and no flag, so that calls are not restarted (SA_RESTART).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `action` outlives the call, and its handler is a function of the right type that touches
    // nothing, so that it may run between any two instructions.
    if unsafe { libc::sigaction(libc::SIGURG, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The mask may have been inherited from whoever started the program.
    // SAFETY: a set of bits, for which zero is a valid value; it outlives the calls.
    let error = unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Sends the signal to a thread of this process that heeds it.
pub(super) fn interrupt(thread: Pid) {
    let (process, thread) = (getpid().as_raw_pid(), thread.as_raw_pid());
    // SAFETY: tgkill(2) takes three numbers, and the handler does nothing. It can only fail for a
    // thread that is gone, which the caller rules out.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
}
