//! How QUIC is set: the library's defaults, except where they stand here.

use std::io;
use std::sync::Arc;

use fabricmark_plan::Point;
use fabricmark_proto::Failure;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, ServerConfig, TransportConfig};

use crate::sockets::system;
use crate::transport::security;

/// Bytes written and not acknowledged of all flows together: what a socket of TCP holds by default (tcp(7), tcp_wmem), so
/// that the end of a stream takes as long.
const SEND_WINDOW_BYTES: u64 = 4 << 20;

/// Least of it for a flow: twice what such a socket holds at first.
const SEND_WINDOW_MIN: u64 = 32 << 10;

/// Settings of a starting end.
pub(super) fn starting(point: &Point) -> Result<ClientConfig, Failure> {
    let crypto = QuicClientConfig::try_from(security::starting()?).map_err(io::Error::other);
    let mut config = ClientConfig::new(Arc::new(crypto.map_err(system("set QUIC up"))?));
    config.transport_config(transport(point));
    Ok(config)
}

/// Settings of an answering end.
pub(crate) fn answering(point: &Point) -> Result<Arc<ServerConfig>, Failure> {
    let crypto = QuicServerConfig::try_from(security::answering()?).map_err(io::Error::other);
    let mut config = ServerConfig::with_crypto(Arc::new(crypto.map_err(system("set QUIC up"))?));
    config.transport_config(transport(point));
    Ok(Arc::new(config))
}

fn transport(point: &Point) -> Arc<TransportConfig> {
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match point.congestion.as_deref() {
        Some("bbr") => Arc::new(BbrConfig::default()),
        Some("reno") => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    };
    let mut config = TransportConfig::default();
    config.congestion_controller_factory(congestion);
    let window = SEND_WINDOW_BYTES / u64::from(point.flows.max(1));
    config.send_window(window.max(SEND_WINDOW_MIN));
    // A load thread looks after its connection only while it sends or receives, and an open loop may
    // be idle for long. A silent end is the patterns' business.
    config.max_idle_timeout(None);
    Arc::new(config)
}
