//! The kernel's TCP: one `write` a payload.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::{Flow, is_timeout};

/// An open connection.
#[derive(Debug)]
pub struct TcpFlow {
    stream: TcpStream,
    /// Bytes of the current payload that an interrupted write or read has already moved.
    moved: usize,
    /// Whether the current answer is being written back, rather than read.
    is_answering: bool,
}

impl TcpFlow {
    /// A flow over a connection whose opening is done and whose time-outs are set.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, moved: 0, is_answering: false }
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn write_rest(&mut self, payload: &[u8]) -> io::Result<()> {
        while self.moved < payload.len() {
            self.moved += self.stream.write(&payload[self.moved..])?;
        }
        self.moved = 0;
        Ok(())
    }

    /// Fills the buffer; false at the end of the stream.
    fn read_rest(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        while self.moved < buffer.len() {
            let bytes = self.stream.read(&mut buffer[self.moved..])?;
            if bytes == 0 {
                return Ok(false);
            }
            self.moved += bytes;
        }
        self.moved = 0;
        Ok(true)
    }
}

impl Flow for TcpFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<usize> {
        let bytes = self.stream.write(&payload[self.moved..])?;
        self.moved = if self.moved + bytes == payload.len() { 0 } else { self.moved + bytes };
        Ok(bytes)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        rustix::io::ioctl_fionread(&self.stream).map_err(io::Error::from)
    }

    fn ask(&mut self, payload: &mut [u8], buffer: &mut [u8]) -> io::Result<()> {
        let written = self.write_rest(payload);
        match written.and_then(|()| self.read_rest(&mut buffer[..payload.len()])) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_timeout(&error) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))
            }
            Err(error) => Err(error),
        }
    }

    fn answer(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        if !self.is_answering {
            if !self.read_rest(buffer)? {
                return Ok(false);
            }
            self.is_answering = true;
        }
        self.write_rest(buffer)?;
        self.is_answering = false;
        Ok(true)
    }
}
