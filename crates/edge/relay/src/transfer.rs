//! One direction of a connection, timed as paper P5 does (figures 5 and 6).

use std::net::SocketAddr;

use crate::session::Outcome;

/// Bytes of one direction and four instants, in nanoseconds of `fabricmark_telemetry::clock::now_ns`.
///
/// If the last receive filled its buffer, both ends include the receive after it, which found nothing, and the first
/// also the last send: a reading of the clock for each receive would cost as much as a few of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes received, all of which were sent unless the connection was reset.
    pub bytes: u64,
    /// Receives that returned bytes.
    pub receives: u64,
    /// When the first receive began; 0 if nothing was received.
    pub receive_began_ns: u64,
    /// When the last receive ended.
    pub receive_ended_ns: u64,
    /// When the first send began.
    pub send_began_ns: u64,
    /// When the last send ended.
    pub send_ended_ns: u64,
}

impl Transfer {
    /// P5's switching time: from the first byte's receive to the last byte's send. `None` if nothing was moved.
    pub fn switching_ns(&self) -> Option<u64> {
        self.of_bytes(self.send_ended_ns.saturating_sub(self.receive_began_ns))
    }

    /// P5's receiving time.
    pub fn receiving_ns(&self) -> Option<u64> {
        self.of_bytes(self.receive_ended_ns.saturating_sub(self.receive_began_ns))
    }

    /// P5's sending time.
    pub fn sending_ns(&self) -> Option<u64> {
        self.of_bytes(self.send_ended_ns.saturating_sub(self.send_began_ns))
    }

    /// P5's switching speed in bits per second: 8 x bytes / switching time.
    pub fn switching_bps(&self) -> Option<f64> {
        let ns = self.switching_ns().filter(|&ns| ns > 0)?;
        Some(8e9 * self.bytes as f64 / ns as f64)
    }

    fn of_bytes(&self, ns: u64) -> Option<u64> {
        (self.bytes > 0).then_some(ns)
    }
}

/// A connection that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Address of the client, from its PROXY header if the relay expects one.
    pub client: SocketAddr,
    /// How it ended.
    pub outcome: Outcome,
    /// From acceptance to end.
    pub elapsed_ns: u64,
    /// From the client to the target.
    pub upstream: Transfer,
    /// From the target to the client.
    pub downstream: Transfer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switching_speed_of_p5_table_1_is_that_of_its_bytes_in_its_time() {
        // Testfile1 has 7,990 bytes; with a buffer of 8,192 bytes its switching time is 111 µs.
        let transfer = Transfer {
            bytes: 7990,
            receives: 1,
            receive_began_ns: 1_000,
            receive_ended_ns: 60_000,
            send_began_ns: 61_000,
            send_ended_ns: 112_000,
        };
        assert_eq!(transfer.switching_ns(), Some(111_000));
        assert_eq!((transfer.switching_bps().unwrap() / 1e4).floor() / 1e2, 575.85);
        assert_eq!(transfer.receiving_ns(), Some(59_000));
        assert_eq!(transfer.sending_ns(), Some(51_000));
    }

    #[test]
    fn a_direction_without_bytes_has_no_times() {
        let transfer = Transfer::default();
        assert_eq!((transfer.switching_ns(), transfer.switching_bps()), (None, None));
    }
}
