//! What the server says: that it is ready (type 98), and what it counted (type 99).

use super::message::Message;

/// The server is ready. Its buffers of each kind are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// SO_RCVBUF as granted.
    pub receive_buffer_bytes: i32,
    /// Bytes of a receive call; -1 where it makes none.
    pub receive_bytes: i32,
    /// SO_SNDBUF as granted.
    pub send_buffer_bytes: i32,
    /// Bytes of a send call; -1 where it makes none.
    pub send_bytes: i32,
    /// The flags of the request that hold. Without [`super::flag::MEASURE_CPU`] the client prints that
    /// the server's processors were not measured.
    pub flags: u32,
    /// Port of the data socket.
    pub data_port: u16,
    /// Traffic class octet; -1 where it was not set.
    pub traffic_class: i32,
}

impl Response {
    /// The response in a message of that type; nothing where its port is none.
    pub fn of(message: &Message) -> Option<Self> {
        Some(Self {
            receive_buffer_bytes: message.signed(0),
            receive_bytes: message.signed(1),
            send_buffer_bytes: message.signed(3),
            send_bytes: message.signed(4),
            flags: message.word(6),
            data_port: u16::try_from(message.word(11)).ok()?,
            traffic_class: message.signed(17),
        })
    }

    /// The message.
    pub fn message(&self) -> Message {
        let mut message = Message::new(Message::OMNI_RESPONSE, 0);
        message.set_signed(0, self.receive_buffer_bytes);
        message.set_signed(1, self.receive_bytes);
        message.set_signed(2, 1);
        message.set_signed(3, self.send_buffer_bytes);
        message.set_signed(4, self.send_bytes);
        message.set_signed(5, 1);
        message.set_word(6, self.flags);
        message.set_word(11, self.data_port.into());
        // SO_PRIORITY is left alone.
        message.set_signed(16, -1);
        message.set_signed(17, self.traffic_class);
        message
    }
}

/// What the server counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Application bytes received.
    pub bytes_received: u64,
    /// Receive calls, or datagrams. The wire has 32 bits: it wraps.
    pub receive_calls: u32,
    /// SO_RCVBUF at the end.
    pub receive_buffer_bytes: i32,
    /// Application bytes sent.
    pub bytes_sent: u64,
    /// Send calls, or datagrams. Wraps.
    pub send_calls: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer_bytes: i32,
    /// Send calls that the system refused for want of room.
    pub failed_sends: u32,
    /// Transactions. Wraps.
    pub transactions: u32,
    /// Seconds from the first connection or datagram to the last event.
    pub elapsed_s: f32,
    /// Processors of the server.
    pub processors: u32,
    /// Segments sent again; -1 where nobody counts.
    pub retransmissions: i32,
    /// Congestion control in use; empty where it was not asked for.
    pub congestion: String,
}

impl Results {
    /// The results in a message.
    pub fn of(message: &Message) -> Self {
        let wide = |high| u64::from(message.word(high)) << 32 | u64::from(message.word(high + 1));
        Self {
            bytes_received: wide(0),
            receive_calls: message.word(2),
            receive_buffer_bytes: message.signed(3),
            bytes_sent: wide(4),
            send_calls: message.word(6),
            send_buffer_bytes: message.signed(7),
            failed_sends: message.word(8),
            transactions: message.word(9),
            elapsed_s: f32::from_bits(message.word(10)),
            processors: message.word(19),
            retransmissions: message.signed(26),
            congestion: message.text(268..284),
        }
    }

    /// The message. The use of processors is zero, with "method unknown" beside it.
    pub fn message(&self) -> Message {
        let mut message = Message::new(Message::OMNI_RESULTS, 0);
        let mut set_wide = |high, bytes: u64| {
            message.set_word(high, (bytes >> 32) as u32);
            message.set_word(high + 1, bytes as u32);
        };
        set_wide(0, self.bytes_received);
        set_wide(4, self.bytes_sent);
        message.set_word(2, self.receive_calls);
        message.set_signed(3, self.receive_buffer_bytes);
        message.set_word(6, self.send_calls);
        message.set_signed(7, self.send_buffer_bytes);
        message.set_word(8, self.failed_sends);
        message.set_word(9, self.transactions);
        message.set_word(10, self.elapsed_s.to_bits());
        message.set_word(19, self.processors);
        message.set_signed(26, self.retransmissions);
        message.set_text(268..284, &self.congestion);
        message
    }
}
