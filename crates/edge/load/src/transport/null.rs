//! A transport that moves nothing: what remains is the overhead of the instrument.

use std::hint::black_box;
use std::io;

use super::{Flow, Message, Moved};

/// A flow that moves no bytes. The response to a request is available at once; a stream ends at once.
#[derive(Debug, Default)]
pub struct NullFlow {
    asked: u64,
}

impl Flow for NullFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        Ok(Moved::one(black_box(payload).len()))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        black_box(buffer);
        Ok(Moved::default())
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        black_box(message);
        self.asked += 1;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        black_box(buffer);
        if self.asked == 0 {
            return Ok(Message::End);
        }
        self.asked -= 1;
        Ok(Message::Next)
    }
}
