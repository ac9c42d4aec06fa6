//! Turns failed calls into failures of a run.

use std::any::Any;
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// Turns a panic into a failure of the run with the panic's message: the end would otherwise wait for a thread that is
/// gone. What the panic leaves behind is not used again.
pub fn caught<T>(action: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Failure::System(format!("a load thread panicked: {}", text.unwrap_or("without a message")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_message() {
        assert_eq!(caught(|| Ok(1)), Ok(1));
        let number = 7;
        let failure = caught::<()>(|| panic!("no slot {number}")).unwrap_err();
        assert_eq!(failure, Failure::System("a load thread panicked: no slot 7".to_owned()));
    }
}
