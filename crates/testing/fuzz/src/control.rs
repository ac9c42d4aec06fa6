//! Frames of the control conversation.

use std::fmt::Debug;

use fabricmark_proto::{Action, Failure, FrameReader, Order, Report, Worker, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a worker reads, and what it says to it while its sockets and load are always ready.
pub fn control_order(bytes: &[u8]) {
    let mut worker = Worker::default();
    for order in messages::<Order>(bytes) {
        match worker.on_order(order) {
            Some(Action::Prepare(prepare)) => {
                worker.on_prepared(prepare.port);
                worker.on_progress(|run| Report::Begun { run });
            }
            Some(Action::Abort) => worker.on_finished(Err(Failure::Aborted)),
            _ => {}
        }
        while let Some(report) = worker.poll_output() {
            check_round_trip(&report);
        }
    }
}

/// What a coordinator reads.
pub fn control_report(bytes: &[u8]) {
    messages::<Report>(bytes);
}

/// The messages in bytes that arrive in pieces as long as the first of them says.
pub(crate) fn messages<T>(bytes: &[u8]) -> Vec<T>
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let Some((&piece, bytes)) = bytes.split_first() else { return Vec::new() };
    let mut reader = FrameReader::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(usize::from(piece) + 1) {
        if reader.push(piece).is_err() {
            return found;
        }
        while let Some(next) = reader.next_message::<T>().transpose() {
            let Ok(message) = next else { return found };
            check_round_trip(&message);
            found.push(message);
        }
    }
    found
}

/// A message that was read is the same when it is written and read again.
pub(crate) fn check_round_trip<T>(message: &T)
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let mut reader = FrameReader::default();
    // What is read with fewer digits than it is written with may grow beyond the longest frame.
    if reader.push(&encode(message)).is_err() {
        return;
    }
    assert_eq!(reader.next_message::<T>().ok().flatten().as_ref(), Some(message));
}
