//! One message, 656 bytes, and what three kinds of it say.

use std::ops::Range;

/// Length of every message.
pub const MESSAGE_BYTES: usize = 656;

/// Type and second word stand before the content.
const CONTENT_AT: usize = 8;

/// One message; any bytes are one. The meaning of its content depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message(pub [u8; MESSAGE_BYTES]);

impl Message {
    /// Switch diagnostics on.
    pub const DEBUG_ON: u32 = 1;
    /// Switch diagnostics off.
    pub const DEBUG_OFF: u32 = 2;
    /// Diagnostics are switched.
    pub const DEBUG_OK: u32 = 3;
    /// Who are you? No netperf since 2.5 asks, no netserver since then answers.
    pub const IDENTIFY: u32 = 4;
    /// How fast does your processor count when idle? And the answer.
    pub const CALIBRATE: u32 = 5;
    /// A word that lets the client in, where the server has one. No answer.
    pub const PASSPHRASE: u32 = 6;
    /// Request of a test.
    pub const OMNI_REQUEST: u32 = 97;
    /// The server is ready for a test.
    pub const OMNI_RESPONSE: u32 = 98;
    /// What the server counted. netserver 2.7.1 sends 98 in the order of its processor's bytes instead,
    /// and netperf does not look at it.
    pub const OMNI_RESULTS: u32 = 99;

    /// A message without content.
    pub fn new(kind: u32, second: i32) -> Self {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&kind.to_be_bytes());
        bytes[4..CONTENT_AT].copy_from_slice(&second.to_be_bytes());
        Self(bytes)
    }

    /// Its type.
    pub fn kind(&self) -> u32 {
        u32::read(&self.0[..4])
    }

    /// Of an answer: an error number of Linux (errno(3)), or 0. Of a request: a processor, or -1.
    pub fn second(&self) -> i32 {
        i32::read(&self.0[4..CONTENT_AT])
    }

    /// Writes a value into some words of the content, counted from 0.
    pub(super) fn set(&mut self, words: Range<usize>, value: &impl Field) {
        value.write(&mut self.0[CONTENT_AT + 4 * words.start..CONTENT_AT + 4 * words.end]);
    }

    fn get<F: Field>(&self, words: Range<usize>) -> F {
        F::read(&self.0[CONTENT_AT + 4 * words.start..CONTENT_AT + 4 * words.end])
    }
}

/// What stands in some words of a message.
pub(super) trait Field: Sized {
    fn read(bytes: &[u8]) -> Self;
    fn write(&self, bytes: &mut [u8]);
}

impl Field for u64 {
    fn read(bytes: &[u8]) -> Self {
        bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// What has no room is cut off: it wraps.
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

/// -1 for nothing.
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

/// Text up to its first zero, cut where it is too long; bytes that are no UTF-8 make none.
impl Field for String {
    fn read(bytes: &[u8]) -> Self {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Self::from_utf8(text.to_vec()).unwrap_or_default()
    }

    fn write(&self, bytes: &mut [u8]) {
        let held = self.len().min(bytes.len() - 1);
        bytes[..held].copy_from_slice(&self.as_bytes()[..held]);
    }
}

/// Declares what a message of a type says: each field with the words of the content in which it stands.
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
            /// Reads a message of that type.
            pub fn of(message: &Message) -> Self {
                Self { $($field: message.get($words),)+ }
            }

            /// The message.
            pub fn message(&self) -> Message {
                let mut message = Message::new(Message::$kind, $second);
                $(message.set($words, &self.$field);)+
                message
            }
        }
    };
}

/// Bits of [`Request::direction`], from the server's view. Neither of them with
/// [`flag::CONNECT_TEST`] is a test of opening and closing.
pub mod direction {
    /// The server sends.
    pub const TRANSMIT: u32 = 2;
    /// The server receives.
    pub const RECEIVE: u32 = 4;
}

/// Bits of [`Request::flags`] that change what the server does. The others ask about the interface, or
/// for options that make no difference to what is on the wire.
pub mod flag {
    /// TCP_NODELAY on data sockets.
    pub const NO_DELAY: u32 = 0x1;
    /// A connection for each transaction.
    pub const CONNECT_TEST: u32 = 0x4;
    /// Measure the use of the processors.
    pub const MEASURE_CPU: u32 = 0x8;
    /// Say which congestion control was in use. The same bit allows routing, and is always set over
    /// TCP.
    pub const WANT_CONGESTION: u32 = 0x20;
}

content! {
    /// A request as it stands on the wire: nothing in it is checked. -1 is "as you like" in sizes and
    /// options. Alignment, width and dirtying of buffers, SO_PRIORITY, the server's own
    /// bursts and a file to send are not here: the server leaves them alone.
    Request = OMNI_REQUEST, -1;
    /// SO_SNDBUF of the server.
    send_buffer_bytes: i32 = 0..1,
    /// Bytes of a send call.
    send_bytes: i32 = 1..2,
    /// Bytes of a request.
    request_bytes: i32 = 5..6,
    /// SO_RCVBUF of the server.
    receive_buffer_bytes: i32 = 6..7,
    /// Bytes of a receive call.
    receive_bytes: i32 = 7..8,
    /// Bytes of a response.
    response_bytes: i32 = 11..12,
    /// See [`flag`].
    flags: u32 = 12..13,
    /// Seconds; or, negative, how many transactions or bytes; 0 is "until I end it".
    length: i32 = 14..15,
    /// Port of the server's data socket; 0 lets the server choose.
    server_port: u32 = 20..21,
    /// 4 or 6.
    family: u32 = 21..22,
    /// 1 is a stream, 2 datagrams.
    socket_type: u32 = 22..23,
    /// As in the header of IP: 6 is TCP, 17 UDP.
    protocol: u32 = 23..24,
    /// See [`direction`].
    direction: u32 = 24..25,
    /// Port of the client's data socket, where the server sends first over UDP.
    client_port: u32 = 25..26,
    /// Address that the server's data socket is to have; zeros leave it to the server. An address of
    /// IPv4 is the first word; words of IPv6 come in the order of the client's processor.
    server_address: [u32; 4] = 32..36,
    /// The traffic class octet of IP.
    traffic_class: i32 = 37..38,
    /// TCP_CONGESTION by name; empty leaves it to the server.
    congestion: String = 38..42,
}

content! {
    /// The server is ready.
    Response = OMNI_RESPONSE, 0;
    /// SO_RCVBUF as granted.
    receive_buffer_bytes: u32 = 0..1,
    /// Bytes of a receive call; nothing where it makes none.
    receive_bytes: Option<u32> = 1..2,
    /// SO_SNDBUF as granted.
    send_buffer_bytes: u32 = 3..4,
    /// Bytes of a send call; nothing where it makes none.
    send_bytes: Option<u32> = 4..5,
    /// The flags of the request that hold. Without [`flag::MEASURE_CPU`] the client prints that the
    /// server's processors were not measured.
    flags: u32 = 6..7,
    /// Port of the data socket.
    data_port: u32 = 11..12,
    /// Traffic class octet as granted; nothing where it was not set.
    traffic_class: Option<u32> = 17..18,
}

content! {
    /// What the server counted. Counts of one word wrap. The use of processors is zero, with "method
    /// unknown" beside it.
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
    /// Send calls that the system refused for want of room.
    failed_sends: u64 = 8..9,
    /// Transactions.
    transactions: u64 = 9..10,
    /// Seconds from the first connection or datagram to the last event.
    elapsed_s: f32 = 10..11,
    /// Processors of the server.
    processors: u32 = 19..20,
    /// Segments sent again; nothing where nobody counts.
    retransmissions: Option<u32> = 26..27,
    /// Congestion control in use; empty where it was not asked for.
    congestion: String = 67..71,
}
