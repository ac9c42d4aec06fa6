//! Tests over TCP: TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use fabricmark_load::transport::is_timeout;
use fabricmark_proto::netperf::{Results, Test, Traffic};
use socket2::SockRef;

use super::data::{Listener, note_end};
use super::is_closed;
use super::watch::{Failure, Watch, has_ended};

/// Maximum bytes per call for requests and responses, which may be longer.
const PIECE_BYTES: usize = 64 << 10;

/// Runs a test over connections of its client. Returns without a result if no client came in time.
pub(super) fn carry_out(
    listener: &Listener,
    test: &Test,
    watch: &mut Watch<'_>,
    counted: &mut Results,
) -> Result<(), Failure> {
    let buffer_bytes = match test.traffic {
        Traffic::Receive { call_bytes } | Traffic::Send { call_bytes } => call_bytes as usize,
        Traffic::Exchange { request_bytes, response_bytes }
        | Traffic::Crr { request_bytes, response_bytes } => {
            PIECE_BYTES.min(request_bytes.max(response_bytes) as usize)
        }
    };
    let Some(stream) = listener.accept(watch)? else { return Ok(()) };
    watch.begin(test.within);
    let count = test.count_max();
    let mut end = End { stream, buffer: vec![0; buffer_bytes], watch, counted };
    let carried_out = match test.traffic {
        Traffic::Crr { request_bytes, response_bytes } => {
            end.connections(listener, test, count, request_bytes, response_bytes)
        }
        _ => end.connection(test, count),
    };
    if carried_out.is_err() {
        // The client does not expect the unsent data: discard it.
        let _ = SockRef::from(&end.stream).set_linger(Some(Duration::ZERO));
    }
    carried_out
}

/// This end of a connection.
struct End<'a, 'w> {
    stream: TcpStream,
    buffer: Vec<u8>,
    watch: &'a mut Watch<'w>,
    counted: &'a mut Results,
}

impl End<'_, '_> {
    /// Runs a test over one connection.
    fn connection(&mut self, test: &Test, count: u64) -> Result<(), Failure> {
        let full = self.buffer.len();
        match test.traffic {
            // The client closes the connection when it has sent everything.
            Traffic::Receive { .. } => while self.receive_some(full)?.is_some() {},
            Traffic::Send { .. } => {
                while self.counted.bytes_sent < count && self.send_all(full)? {}
            }
            Traffic::Exchange { request_bytes, response_bytes }
            | Traffic::Crr { request_bytes, response_bytes } => {
                while self.counted.transactions < count
                    && self.exchange(request_bytes, response_bytes)?
                {}
            }
        }
        note_end(&SockRef::from(&self.stream), test, self.counted);
        Ok(())
    }

    /// Runs a test with one connection per transaction.
    fn connections(
        &mut self,
        listener: &Listener,
        test: &Test,
        count: u64,
        request_bytes: u32,
        response_bytes: u32,
    ) -> Result<(), Failure> {
        loop {
            self.exchange(request_bytes, response_bytes)?;
            if self.counted.receive_buffer_bytes == 0 {
                // All later connections have the same values.
                note_end(&SockRef::from(&self.stream), test, self.counted);
            }
            // The client waits until this end has closed.
            let _ = self.stream.shutdown(Shutdown::Both);
            if self.counted.transactions >= count {
                return Ok(());
            }
            // A client that only connects and closes never lets the listener wait.
            if self.watch.is_over(false)? {
                return Ok(());
            }
            let Some(next) = listener.accept(self.watch)? else { return Ok(()) };
            self.stream = next;
        }
    }

    /// Serves one transaction; returns whether the client may send another request.
    fn exchange(&mut self, request_bytes: u32, response_bytes: u32) -> Result<bool, Failure> {
        let mut left = request_bytes as usize;
        while left > 0 {
            let Some(length) = self.receive_some(left)? else { return Ok(false) };
            left -= length;
        }
        if !self.send_all(response_bytes as usize)? {
            return Ok(false);
        }
        self.counted.transactions += 1;
        Ok(true)
    }

    /// Receives at most `most` bytes with one call; `None` if no more will come or the time is up.
    fn receive_some(&mut self, most: usize) -> Result<Option<usize>, Failure> {
        let most = most.min(self.buffer.len());
        loop {
            let received = match self.stream.read(&mut self.buffer[..most]) {
                Ok(0) => return Ok(None),
                Ok(length) => length,
                Err(error) if is_timeout(&error) => 0,
                Err(error) if is_closed(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            self.counted.bytes_received += received as u64;
            self.counted.receive_calls += u64::from(received > 0);
            if self.watch.is_over(received > 0)? {
                return Ok(None);
            }
            if received > 0 {
                return Ok(Some(received));
            }
        }
    }

    /// Sends `bytes` bytes; false if the client has closed or the time is up.
    fn send_all(&mut self, bytes: usize) -> Result<bool, Failure> {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(self.buffer.len());
            if self.watch.wait_to_send(piece)? || !self.send_piece(piece)? {
                return Ok(false);
            }
            left -= piece;
        }
        Ok(true)
    }

    /// Sends one piece; false if the client has closed or the time is up.
    fn send_piece(&mut self, piece: usize) -> Result<bool, Failure> {
        let mut done = 0;
        self.counted.send_calls += 1;
        while done < piece {
            let sent = match self.stream.write(&self.buffer[done..piece]) {
                Ok(length) => length,
                Err(error) if is_timeout(&error) && has_ended(&self.stream) => return Ok(false),
                Err(error) if is_timeout(&error) => 0,
                Err(error) if is_closed(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            done += sent;
            self.counted.bytes_sent += sent as u64;
            if self.watch.is_over(sent > 0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
