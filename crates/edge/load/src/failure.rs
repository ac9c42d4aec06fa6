//! Turns failed calls into failures of a run.

use std::fmt::Display;
use std::io;

use fabricmark_proto::Failure;

/// A failed call: what failed and, if known, the remedy.
pub(crate) fn system(doing: impl Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; set another port in [run], or leave it out to let the kernel choose"
            }
            io::ErrorKind::AddrNotAvailable => "; use an address of this host: see `ip address`",
            _ => "",
        };
        Failure::System(format!("cannot {doing}: {error}{help}"))
    }
}

/// A failure that only the other end can have caused.
pub(crate) fn peer(doing: impl Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Peer(format!("{doing}: {error}"))
}
