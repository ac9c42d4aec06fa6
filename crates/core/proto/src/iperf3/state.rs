//! State bytes of the protocol, and the errors of a refusal.

/// A state change that one end sends to the other (`iperf_api.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum State {
    /// Server: the streams are open.
    TestStart = 1,
    /// Server: the test has started.
    TestRunning = 2,
    /// Client: the time or amount is reached.
    TestEnd = 4,
    /// Server: waits for the parameters.
    ParamExchange = 9,
    /// Server: waits for the streams.
    CreateStreams = 10,
    /// Server: aborts the test.
    ServerTerminate = 11,
    /// Client: its user aborted the test.
    ClientTerminate = 12,
    /// Server: waits for the client's results.
    ExchangeResults = 13,
    /// Server: has sent everything.
    DisplayResults = 14,
    /// Client: done.
    IperfDone = 16,
    /// Server: two 32-bit error numbers follow, see [`Refusal`].
    ServerError = 0xfe,
    /// Server: busy with another client, or the cookie is unknown.
    AccessDenied = 0xff,
}

/// Why a server refuses or aborts a test: iperf3's error numbers (`iperf_api.h`); clients print their own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr, thiserror::Error)]
#[repr(i32)]
#[expect(missing_docs, reason = "where the message says all that there is to say")]
pub enum Refusal {
    /// `time` beyond a day.
    #[error("the test duration is too long")]
    Duration = 5,
    /// `parallel` is 0 or beyond 128.
    #[error("the number of streams is not between 1 and 128")]
    Streams = 6,
    /// `len` beyond 1 MiB.
    #[error("the block size is too large")]
    BlockSize = 7,
    /// `window` beyond 512 MiB.
    #[error("the socket buffer is too large")]
    Buffer = 8,
    /// `MSS` beyond 9216.
    #[error("the segment size is too large")]
    Mss = 10,
    /// `omit` beyond ten minutes.
    #[error("the time to omit is too long")]
    Omit = 12,
    /// UDP `len` below 16 or beyond 65507.
    #[error("the datagram size is not between 16 and 65507")]
    DatagramSize = 20,
    /// `TOS` beyond 255.
    #[error("the type of service is beyond 255")]
    Tos = 21,
    #[error("the total rate asked for is larger than the server allows")]
    TotalRate = 27,
    #[error("the duration asked for is longer than the server allows")]
    TooLong = 37,
    #[error("the server cannot read the parameters")]
    Parameters = 114,
    #[error("the server cannot read the results")]
    Results = 117,
    #[error("the server does not speak this protocol")]
    Protocol = 131,
    /// A congestion control that the server does not have or may not use.
    #[error("the server cannot use this congestion control")]
    Congestion = 134,
    /// Unknown user, wrong password, or clocks that are too far apart.
    #[error("test authorization failed")]
    Authorization = 142,
    #[error("the server received no message in time")]
    Silence = 144,
    #[error("the server's time limit ran out")]
    Expired = 160,
    #[error("the server cannot create a stream")]
    CreateStream = 200,
    #[error("the server cannot accept the streams")]
    AcceptStream = 204,
}

impl Refusal {
    /// Serializes to SERVER_ERROR, the error number, and 0 as errno.
    pub fn emit(self) -> [u8; 9] {
        let [a, b, c, d] = (self as i32).to_be_bytes();
        [State::ServerError as u8, a, b, c, d, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_from_its_byte_and_no_other_byte_is_one() {
        let known: Vec<u8> = (0..=255).filter(|&byte| State::from_repr(byte).is_some()).collect();
        assert_eq!(known, [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xfe, 0xff]);
        for byte in known {
            assert_eq!(State::from_repr(byte).unwrap() as u8, byte);
        }
    }

    #[test]
    fn a_refusal_is_its_number_in_network_order() {
        assert_eq!(Refusal::TotalRate.emit(), [0xfe, 0, 0, 0, 27, 0, 0, 0, 0]);
        assert_eq!(Refusal::from_repr(160), Some(Refusal::Expired));
        assert_eq!(Refusal::from_repr(1), None);
    }
}
