//! What a client asks for (type 97).

use super::message::Message;

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

/// A request as it stands on the wire: nothing in it is checked. -1 is "as you like" in sizes and
/// options. Alignment, width and dirtying of buffers, SO_PRIORITY, the server's own
/// bursts and a file to send are not here: the server leaves them alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// SO_SNDBUF of the server.
    pub send_buffer_bytes: i32,
    /// Bytes of a send call.
    pub send_bytes: i32,
    /// Bytes of a request.
    pub request_bytes: i32,
    /// SO_RCVBUF of the server.
    pub receive_buffer_bytes: i32,
    /// Bytes of a receive call.
    pub receive_bytes: i32,
    /// Bytes of a response.
    pub response_bytes: i32,
    /// See [`flag`].
    pub flags: u32,
    /// Seconds; or, negative, how many transactions or bytes; 0 is "until I end it".
    pub length: i32,
    /// Port of the server's data socket; 0 lets the server choose.
    pub server_port: u32,
    /// 4 or 6.
    pub family: u32,
    /// 1 is a stream, 2 datagrams.
    pub socket_type: u32,
    /// As in the header of IP: 6 is TCP, 17 UDP.
    pub protocol: u32,
    /// See [`direction`].
    pub direction: u32,
    /// Port of the client's data socket, where the server sends first over UDP.
    pub client_port: u32,
    /// Address that the server's data socket is to have; zeros leave it to the server. An address of
    /// IPv4 is the first word; words of IPv6 come in the order of the client's processor.
    pub server_address: [u32; 4],
    /// The traffic class octet of IP.
    pub traffic_class: i32,
    /// TCP_CONGESTION by name; empty leaves it to the server.
    pub congestion: String,
}

impl Request {
    /// The request in a message of that type.
    pub fn of(message: &Message) -> Self {
        Self {
            send_buffer_bytes: message.signed(0),
            send_bytes: message.signed(1),
            request_bytes: message.signed(5),
            receive_buffer_bytes: message.signed(6),
            receive_bytes: message.signed(7),
            response_bytes: message.signed(11),
            flags: message.word(12),
            length: message.signed(14),
            server_port: message.word(20),
            family: message.word(21),
            socket_type: message.word(22),
            protocol: message.word(23),
            direction: message.word(24),
            client_port: message.word(25),
            server_address: [32, 33, 34, 35].map(|index| message.word(index)),
            traffic_class: message.signed(37),
            congestion: message.text(152..168),
        }
    }

    /// The message, as a client sends it.
    pub fn message(&self) -> Message {
        let mut message = Message::new(Message::OMNI_REQUEST, -1);
        message.set_signed(0, self.send_buffer_bytes);
        message.set_signed(1, self.send_bytes);
        message.set_signed(5, self.request_bytes);
        message.set_signed(6, self.receive_buffer_bytes);
        message.set_signed(7, self.receive_bytes);
        message.set_signed(11, self.response_bytes);
        message.set_word(12, self.flags);
        message.set_signed(14, self.length);
        message.set_word(20, self.server_port);
        message.set_word(21, self.family);
        message.set_word(22, self.socket_type);
        message.set_word(23, self.protocol);
        message.set_word(24, self.direction);
        message.set_word(25, self.client_port);
        for (index, word) in self.server_address.iter().enumerate() {
            message.set_word(32 + index, *word);
        }
        message.set_signed(37, self.traffic_class);
        message.set_text(152..168, &self.congestion);
        message
    }
}
