//! Status of completed requests: `enum ibv_wc_status`.

use std::io;

use crate::abi::WorkCompletion;

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The other end did not acknowledge within all retransmissions.
    #[error(
        "no acknowledgement from the other end: it is gone, or packets are lost (retry \
             exceeded)"
    )]
    Retry,
    /// The other end had no receive request within all retries.
    #[error("the other end has no receive buffers (receiver not ready, retry exceeded)")]
    NotReady,
    /// The other end's memory does not permit this access.
    #[error("the other end refuses access to its memory (remote access error)")]
    RemoteAccess,
    /// The other end could not execute the request.
    #[error("the other end could not complete the operation (remote operation error)")]
    RemoteOperation,
    /// The other end rejected the request as invalid.
    #[error("the other end rejected the request (remote invalid request error)")]
    RemoteInvalid,
    /// The message is longer than the receive buffer here.
    #[error("a message is longer than its buffer (local length error)")]
    Length,
    /// The memory here does not permit this access.
    #[error("access to the memory of this end is not allowed (local protection error)")]
    Protection,
    /// The request was outstanding when another one failed, or when the adapter went away.
    #[error("the queue pair has failed, or its adapter is gone (flushed)")]
    Flushed,
    /// Any other value of `enum ibv_wc_status`.
    #[error("work completion status {0} (enum ibv_wc_status)")]
    Other(u32),
}

/// Fails if a request did not complete successfully.
pub fn check(completion: &WorkCompletion) -> Result<(), Failed> {
    match completion.status {
        0 => Ok(()),
        1 => Err(Failed::Length),
        4 => Err(Failed::Protection),
        5 => Err(Failed::Flushed),
        9 => Err(Failed::RemoteInvalid),
        10 => Err(Failed::RemoteAccess),
        11 => Err(Failed::RemoteOperation),
        12 => Err(Failed::Retry),
        13 => Err(Failed::NotReady),
        other => Err(Failed::Other(other)),
    }
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> Self {
        let kind = match failed {
            Failed::Retry => io::ErrorKind::ConnectionAborted,
            Failed::Flushed => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, failed)
    }
}
