//! iperf3's protocol without I/O: messages, arithmetic, and the state machines of client and server.
//!
//! ```text
//!   client                                  server
//!     |== connects, sends a cookie ==========>|
//!     |<- 9, PARAM_EXCHANGE ------------------|
//!     |-- parameters, JSON ------------------>|
//!     |<- 10, CREATE_STREAMS -----------------|
//!     |== opens streams, named by cookie ====>|
//!     |<- 1, 2, TEST_START, TEST_RUNNING -----|
//!     |<================ payloads ===========>|
//!     |-- 4, TEST_END ----------------------->|
//!     |<- 13, EXCHANGE_RESULTS ---------------|
//!     |-- results, JSON --------------------->|
//!     |<- results, JSON ----------------------|
//!     |<- 14, DISPLAY_RESULTS ----------------|
//!     |-- 16, IPERF_DONE -------------------->|
//! ```
//!
//! Taken from the source of iperf 3.21 and from traffic between programs of version 3.12. A state is one byte; a
//! JSON block follows its length, 32 bits in network byte order.

mod client;
mod datagram;
mod parameters;
mod reader;
mod results;
mod server;
mod state;
mod token;

pub use client::{Client, ClientAction, ClientError};
pub use datagram::{Arrivals, Header, OPENING, OPENING_REPLIES};
pub use parameters::{Kind, Limits, Parameters};
pub use reader::Malformed;
pub use results::{Results, StreamResults};
pub use server::{Server, ServerAction, ServerEnd};
pub use state::{Refusal, State};
pub use token::{Token, TokenError};

/// Port of control connections, TCP streams and UDP streams alike.
pub const PORT: u16 = 5201;

/// Length of a cookie in bytes: 36 letters and a NUL.
pub const COOKIE_BYTES: usize = 37;

/// Identifies a test: the first bytes of its control connection and of each of its TCP streams.
pub type Cookie = [u8; COOKIE_BYTES];

/// Most streams in one direction (iperf3's MAX_STREAMS).
pub const STREAMS_MAX: u32 = 128;

/// Makes a cookie from random bytes, in iperf3's alphabet (`make_cookie`).
pub fn cookie(random: &[u8; COOKIE_BYTES - 1]) -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE_BYTES];
    for (letter, byte) in cookie.iter_mut().zip(random) {
        *letter = LETTERS[usize::from(byte % 32)];
    }
    cookie
}

/// ID of a stream in results, by the order of opening: 1, 3, 4, 5. iperf3 never uses 2, and looks streams up by ID.
pub fn stream_id(place: usize) -> u32 {
    match place {
        0 => 1,
        _ => u32::try_from(place).unwrap_or(u32::MAX).saturating_add(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_36_letters_and_a_nul() {
        let mut random = [0; 36];
        (random[1], random[2], random[3]) = (25, 31, 255);
        let cookie = cookie(&random);
        assert_eq!(&cookie[..5], b"az77a");
        assert_eq!((cookie[35], cookie[36]), (b'a', 0));
    }

    #[test]
    fn streams_are_numbered_without_a_two() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }
}
