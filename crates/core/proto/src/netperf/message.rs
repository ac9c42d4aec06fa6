//! The message of 656 bytes, and the content of three types of it.

use std::ops::Range;

use crate::datagram::integer;

/// Length of every message in bytes.
pub const MESSAGE_BYTES: usize = 656;

/// Offset of the content, after the type and the second word.
const CONTENT_AT: usize = 8;

/// A message; any bytes are valid. The meaning of its content depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message(pub [u8; MESSAGE_BYTES]);

impl Message {
    /// Turns diagnostics on.
    pub const DEBUG_ON: u32 = 1;
    /// Turns diagnostics off.
    pub const DEBUG_OFF: u32 = 2;
    /// Acknowledges [`Self::DEBUG_ON`] and [`Self::DEBUG_OFF`].
    pub const DEBUG_OK: u32 = 3;
    /// Identification: no netperf since 2.5 requests it, and no netserver since then answers it.
    pub const IDENTIFY: u32 = 4;
    /// Requests the idle counting rate of the CPU (calibration), and answers that.
    pub const CALIBRATE: u32 = 5;
    /// Passphrase, for a server that requires one. Not answered.
    pub const PASSPHRASE: u32 = 6;
    /// Requests a test.
    pub const OMNI_REQUEST: u32 = 97;
    /// The server is ready for a test.
    pub const OMNI_RESPONSE: u32 = 98;
    /// The server's counts. netserver 2.7.1 sends 98 in host byte order instead, and netperf ignores the type.
    pub const OMNI_RESULTS: u32 = 99;

    /// A message with zeros as content.
    pub fn new(kind: u32, second: i32) -> Self {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&kind.to_be_bytes());
        bytes[4..CONTENT_AT].copy_from_slice(&second.to_be_bytes());
        Self(bytes)
    }

    /// The message type.
    pub fn kind(&self) -> u32 {
        u32::read(&self.0[..4])
    }

    /// In a response: a Linux error number (errno(3)), or 0. In a request: a CPU number, or -1.
    pub fn second(&self) -> i32 {
        i32::read(&self.0[4..CONTENT_AT])
    }

    /// Writes a value to words of the content, which are numbered from 0.
    pub(super) fn set(&mut self, words: Range<usize>, value: &impl Field) {
        value.write(&mut self.0[CONTENT_AT + 4 * words.start..CONTENT_AT + 4 * words.end]);
    }

    fn get<F: Field>(&self, words: Range<usize>) -> F {
        F::read(&self.0[CONTENT_AT + 4 * words.start..CONTENT_AT + 4 * words.end])
    }
}

/// A value in one or more words of a message.
pub(super) trait Field: Sized {
    fn read(bytes: &[u8]) -> Self;
    fn write(&self, bytes: &mut [u8]);
}

impl Field for u64 {
    fn read(bytes: &[u8]) -> Self {
        integer(bytes)
    }

    /// Keeps the low-order bytes that fit: counters wrap.
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_be_bytes()[8 - bytes.len()..]);
    }
}

impl Field for u32 {
    fn read(bytes: &[u8]) -> Self {
        u64::read(bytes) as u32
    }

    fn write(&self, bytes: &mut [u8]) {
        u64::from(*self).write(bytes);
    }
}

impl Field for i32 {
    fn read(bytes: &[u8]) -> Self {
        u32::read(bytes).cast_signed()
    }

    fn write(&self, bytes: &mut [u8]) {
        self.cast_unsigned().write(bytes);
    }
}

/// -1 is `None`.
impl Field for Option<u32> {
    fn read(bytes: &[u8]) -> Self {
        u32::try_from(i32::read(bytes)).ok()
    }

    fn write(&self, bytes: &mut [u8]) {
        self.map_or(-1, u32::cast_signed).write(bytes);
    }
}

impl Field for f32 {
    fn read(bytes: &[u8]) -> Self {
        Self::from_bits(u32::read(bytes))
    }

    fn write(&self, bytes: &mut [u8]) {
        self.to_bits().write(bytes);
    }
}

impl Field for [u32; 4] {
    fn read(bytes: &[u8]) -> Self {
        [0, 4, 8, 12].map(|at| u32::read(&bytes[at..at + 4]))
    }

    fn write(&self, bytes: &mut [u8]) {
        self.iter().zip(bytes.chunks_exact_mut(4)).for_each(|(word, bytes)| word.write(bytes));
    }
}

/// Text up to its first NUL, truncated after a whole character if too long; invalid UTF-8 reads as empty.
impl Field for String {
    fn read(bytes: &[u8]) -> Self {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Self::from_utf8(text.to_vec()).unwrap_or_default()
    }

    fn write(&self, bytes: &mut [u8]) {
        let held = self.floor_char_boundary(bytes.len() - 1);
        bytes[..held].copy_from_slice(&self.as_bytes()[..held]);
    }
}

/// Declares the content of a message type: each field with its words.
macro_rules! content {
    (
        $(#[$about:meta])* $name:ident = $kind:ident, $second:literal;
        $($(#[$doc:meta])* $field:ident: $type:ty = $words:expr,)+
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl $name {
            /// Reads a message of this type.
            pub fn of(message: &Message) -> Self {
                Self { $($field: message.get($words),)+ }
            }

            /// Serializes to a message.
            pub fn message(&self) -> Message {
                let mut message = Message::new(Message::$kind, $second);
                $(message.set($words, &self.$field);)+
                message
            }
        }
    };
}

/// Bits of [`Request::direction`], seen from the server. [`flag::CONNECT_TEST`] without any is a connect/close test.
pub mod direction {
    /// The server sends.
    pub const TRANSMIT: u32 = 2;
    /// The server receives.
    pub const RECEIVE: u32 = 4;
}

/// Bits of [`Request::flags`] that change what the server does. The others request details of the interface, or
/// options that do not change the traffic.
pub mod flag {
    /// TCP_NODELAY on data sockets.
    pub const NO_DELAY: u32 = 0x1;
    /// A connection per transaction.
    pub const CONNECT_TEST: u32 = 0x4;
    /// Measure CPU utilization.
    pub const MEASURE_CPU: u32 = 0x8;
    /// Report the congestion control in use. The same bit permits routing, and is always set over TCP.
    pub const WANT_CONGESTION: u32 = 0x20;
}

content! {
    /// A request as received, without validation. -1 is the default in sizes and options. Not read, since the server
    /// ignores them: alignment, width and dirtying of buffers, SO_PRIORITY, the server's bursts, a file to send.
    Request = OMNI_REQUEST, -1;
    /// SO_SNDBUF of the server in bytes.
    send_buffer_bytes: i32 = 0..1,
    /// Bytes per send call.
    send_bytes: i32 = 1..2,
    /// Bytes per request.
    request_bytes: i32 = 5..6,
    /// SO_RCVBUF of the server in bytes.
    receive_buffer_bytes: i32 = 6..7,
    /// Bytes per receive call.
    receive_bytes: i32 = 7..8,
    /// Bytes per response.
    response_bytes: i32 = 11..12,
    /// See [`flag`].
    flags: u32 = 12..13,
    /// Positive: seconds; negative: number of transactions or bytes; 0: until the client ends the test.
    length: i32 = 14..15,
    /// Port of the server's data socket; 0: the server chooses.
    server_port: u32 = 20..21,
    /// Address family, 4 or 6.
    family: u32 = 21..22,
    /// Socket type: 1 stream, 2 datagram.
    socket_type: u32 = 22..23,
    /// IP protocol number: 6 TCP, 17 UDP.
    protocol: u32 = 23..24,
    /// See [`direction`].
    direction: u32 = 24..25,
    /// Port of the client's data socket, if the server sends first over UDP.
    client_port: u32 = 25..26,
    /// Address of the server's data socket; zeros: the server chooses. An IPv4 address is the first word; the words
    /// of an IPv6 address come in the client's host byte order.
    server_address: [u32; 4] = 32..36,
    /// Traffic class (TOS) octet of the IP header.
    traffic_class: i32 = 37..38,
    /// Name for TCP_CONGESTION; empty: the server chooses.
    congestion: String = 38..42,
}

content! {
    /// The server is ready.
    Response = OMNI_RESPONSE, 0;
    /// SO_RCVBUF as granted.
    receive_buffer_bytes: u32 = 0..1,
    /// Bytes per receive call; `None` if there are none.
    receive_bytes: Option<u32> = 1..2,
    /// SO_SNDBUF as granted.
    send_buffer_bytes: u32 = 3..4,
    /// Bytes per send call; `None` if there are none.
    send_bytes: Option<u32> = 4..5,
    /// Flags of the request that are in effect. Without [`flag::MEASURE_CPU`] the client prints that the server's
    /// CPU utilization was not measured.
    flags: u32 = 6..7,
    /// Port of the data socket.
    data_port: u32 = 11..12,
    /// Traffic class octet as granted; `None` if it was not set.
    traffic_class: Option<u32> = 17..18,
}

content! {
    /// The server's counts. Counts of one word wrap. CPU utilization is zero, with the method "unknown".
    Results = OMNI_RESULTS, 0;
    /// Application bytes received.
    bytes_received: u64 = 0..2,
    /// Receive calls, or datagrams.
    receive_calls: u64 = 2..3,
    /// SO_RCVBUF at the end.
    receive_buffer_bytes: u32 = 3..4,
    /// Application bytes sent.
    bytes_sent: u64 = 4..6,
    /// Send calls, or datagrams.
    send_calls: u64 = 6..7,
    /// SO_SNDBUF at the end.
    send_buffer_bytes: u32 = 7..8,
    /// Send calls that failed for lack of buffer space.
    failed_sends: u64 = 8..9,
    /// Transactions.
    transactions: u64 = 9..10,
    /// Seconds from the first connection or datagram to the last event.
    elapsed_s: f32 = 10..11,
    /// Number of CPUs of the server.
    processors: u32 = 19..20,
    /// Retransmitted segments; `None` if not counted.
    retransmissions: Option<u32> = 26..27,
    /// Congestion control in use; empty if not requested.
    congestion: String = 67..71,
}
