//! Nothing at all: what remains is the cost of the instrument.

use std::hint::black_box;
use std::io;

use super::Flow;

/// A flow that moves no byte.
#[derive(Debug, Default)]
pub struct NullFlow;

impl Flow for NullFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<usize> {
        Ok(black_box(payload).len())
    }

    /// Nothing arrives: the stream is at its end.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        black_box(buffer);
        Ok(0)
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    fn ask(&mut self, payload: &mut [u8], buffer: &mut [u8]) -> io::Result<()> {
        black_box((payload, buffer));
        Ok(())
    }

    fn answer(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        black_box(buffer);
        Ok(false)
    }
}
