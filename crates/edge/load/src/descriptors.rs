//! Descriptor tables of threads.
//!
//! The threads of a process share a table, and each system call then counts a reference to its file (Linux,
//! `fs/file.c`). A load thread that has a table of its own makes cheaper calls: TCP streams of 64-byte writes over
//! loopback are 1.3 times as fast (`docs/notebook/measured.md`).

#[expect(unsafe_code, reason = "calls that no safe crate offers")]
mod sys;

/// Gives the calling thread a table of its own, with the descriptors that are open now. They are closed there when the
/// thread ends. Nothing that owns a descriptor may be moved to a thread with another table: when it is dropped there, the
/// descriptor stays open here. Does nothing if the kernel refuses.
pub fn own_descriptors() {
    let _ = sys::unshare();
}

/// Gives the calling thread, which uses no descriptors, an empty table, so that it shares none with a load thread. Does
/// nothing if the kernel refuses.
pub(crate) fn no_descriptors() {
    let _ = sys::close_all();
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;

    fn is_open(fd: i32) -> bool {
        fs::read_link(format!("/proc/thread-self/fd/{fd}")).is_ok()
    }

    #[test]
    fn what_a_thread_with_a_table_of_its_own_opens_and_closes_is_not_seen_by_others() {
        let before = File::open("/dev/null").unwrap();
        let fd = before.as_raw_fd();
        let opened = thread::spawn(move || {
            own_descriptors();
            assert!(is_open(fd));
            let own = File::open("/dev/zero").unwrap();
            let at = fs::read_link(format!("/proc/thread-self/fd/{}", own.as_raw_fd()));
            assert_eq!(at.unwrap().to_str(), Some("/dev/zero"));
            own.as_raw_fd()
        })
        .join()
        .unwrap();
        let here = fs::read_link(format!("/proc/thread-self/fd/{opened}"));
        assert!(here.is_err() || here.unwrap().to_str() != Some("/dev/zero"));
        thread::spawn(move || {
            no_descriptors();
            assert!(!is_open(fd));
        })
        .join()
        .unwrap();
        assert!(is_open(fd));
    }
}
