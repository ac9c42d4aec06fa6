//! Frames of the control connection.

use std::fmt::Debug;

use fabricmark_proto::{Action, Failure, FrameReader, Order, Report, Worker, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Orders to a worker, which always succeeds at once.
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

/// Reports to a coordinator.
pub fn control_report(bytes: &[u8]) {
    messages::<Report>(bytes);
}

/// Parses messages from bytes that arrive in pieces; the first byte gives the size of the pieces.
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

/// Asserts that encoding and parsing a message gives the same message.
pub(crate) fn check_round_trip<T>(message: &T)
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let mut reader = FrameReader::default();
    // A number may be longer as encoded than as received, and then exceed the maximum frame.
    if reader.push(&encode(message)).is_err() {
        return;
    }
    assert_eq!(reader.next_message::<T>().ok().flatten().as_ref(), Some(message));
}
