//! QUIC (RFC 9000) by quinn-proto: a connection with one bidirectional stream, which the load thread drives in its
//! calls. Written data leaves at once, as far as the window allows.

mod opening;
mod port;
mod settings;
mod stream;

pub(crate) use self::opening::{QuicListener, connect};
pub(crate) use self::settings::answering;
pub(crate) use self::stream::QuicStream;
