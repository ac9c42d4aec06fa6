//! The signal that interrupts is SIGURG. By default it is ignored, so a stray one does no harm; at most one is
//! pending, while real-time signals queue up; the kernel itself sends it only to processes that asked for urgent data
//! (F_SETOWN); and neither std nor the handling of Ctrl-C uses it.

use std::{io, mem, ptr};

use rustix::process::getpid;
use rustix::thread::Pid;

extern "C" fn nothing(_: libc::c_int) {}

/// Lets the signal interrupt blocking calls of the calling thread (EINTR).
pub(super) fn heed() -> io::Result<()> {
    // SAFETY: the fields are integers, pointers and a bit set, for which zero is a valid value: no signal is blocked
    // in the handler, and calls are not restarted, as they would be with SA_RESTART.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `action` outlives the call. Its handler has the right type and touches nothing, so it may run between
    // any two instructions.
    if unsafe { libc::sigaction(libc::SIGURG, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The mask may be inherited from the parent process.
    // SAFETY: a bit set, for which zero is a valid value; it outlives the calls.
    let error = unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Scheduling of a thread (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheduling {
    /// Policy, such as SCHED_FIFO.
    pub policy: i32,
    /// Real-time priority; 0 for other policies.
    pub priority: i32,
}

/// Scheduling of a thread of this process (sched_getscheduler(2)); `None`: of the calling thread.
pub(super) fn scheduling(thread: Option<Pid>) -> Scheduling {
    let thread = thread.map_or(0, Pid::as_raw_pid);
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` outlives the calls; 0 is the calling thread.
    let policy = unsafe {
        libc::sched_getparam(thread, &raw mut parameters);
        libc::sched_getscheduler(thread)
    };
    Scheduling { policy, priority: parameters.sched_priority }
}

/// Sets the scheduling of a thread (sched_setscheduler(2)). Has no effect without the privilege.
pub(super) fn set_scheduling(thread: Option<Pid>, Scheduling { policy, priority }: Scheduling) {
    let thread = thread.map_or(0, Pid::as_raw_pid);
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` outlives the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) };
}

/// Sends the signal to a thread of this process that handles it.
pub(super) fn interrupt(thread: Pid) {
    let (process, thread) = (getpid().as_raw_pid(), thread.as_raw_pid());
    // SAFETY: tgkill(2) takes three integers, and the handler does nothing. The call fails only for a thread that has
    // exited, which the caller rules out.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
}
