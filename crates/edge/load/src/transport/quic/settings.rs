//! QUIC configuration: the defaults of quinn-proto, except for what is set here.

use std::io;
use std::sync::Arc;

use fabricmark_plan::Point;
use fabricmark_proto::Failure;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, ServerConfig, TransportConfig};

use crate::failure::system;
use crate::transport::security;

/// Most unacknowledged bytes of all flows together: the default maximum of a TCP socket (tcp(7), tcp_wmem).
const SEND_WINDOW_MOST: u64 = 4 << 20;

/// Least unacknowledged bytes that a flow may have: twice the initial size of such a socket.
const SEND_WINDOW_MIN: u64 = 32 << 10;

/// Limit of the unacknowledged bytes of a flow: twice its congestion window, as with the kernel's TCP
/// (tcp_sndbuf_expand, net/ipv4/tcp_input.c). More would only wait in memory, and at the end of a run for the link.
pub(super) fn send_window(flows: u32, congestion_window: u64) -> u64 {
    let most = (SEND_WINDOW_MOST / u64::from(flows.max(1))).max(SEND_WINDOW_MIN);
    congestion_window.saturating_mul(2).clamp(SEND_WINDOW_MIN, most)
}

/// Client configuration.
pub(super) fn starting(point: &Point) -> Result<ClientConfig, Failure> {
    let crypto = QuicClientConfig::try_from(security::starting()?).map_err(io::Error::other);
    let mut config = ClientConfig::new(Arc::new(crypto.map_err(system("set up QUIC"))?));
    config.transport_config(transport(point));
    Ok(config)
}

/// Server configuration.
pub(crate) fn answering(point: &Point) -> Result<Arc<ServerConfig>, Failure> {
    let crypto = QuicServerConfig::try_from(security::answering()?).map_err(io::Error::other);
    let mut config = ServerConfig::with_crypto(Arc::new(crypto.map_err(system("set up QUIC"))?));
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
    config.send_window(send_window(point.flows, 0));
    // A load thread serves its connection only while it sends or receives, and an open loop may be idle for long. The
    // patterns detect a silent peer.
    config.max_idle_timeout(None);
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_to_be_acknowledged_is_twice_the_congestion_window_within_limits_that_flows_share()
     {
        for (flows, congestion_window, expected) in [
            (1, 14_720, 32 << 10),
            (1, 1_000_000, 2_000_000),
            (1, 1 << 30, 4 << 20),
            (4, 20_000, 40_000),
            (4, 100_000, 200_000),
            (4, 1_000_000, 1 << 20),
            (500, 1_000_000, 32 << 10),
            (0, 0, 32 << 10),
        ] {
            assert_eq!(
                send_window(flows, congestion_window),
                expected,
                "{flows} {congestion_window}"
            );
        }
    }
}
