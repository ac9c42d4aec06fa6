//! What TCP says of a connection at one moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TCP_INFO of one end of a connection at one moment (`struct tcp_info`, linux/tcp.h), in base
/// units. A field is absent where the kernel is too old to have it, or has no value yet.
///
/// Counts are since the connection began. Segments are packets as TCP makes them, before the network
/// device cuts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSample {
    /// Largest segment that this end sends.
    pub mss_bytes: Option<u64>,
    /// Congestion window.
    pub cwnd_segments: Option<u64>,
    /// Slow start threshold; absent until slow start has ended once.
    pub ssthresh_segments: Option<u64>,
    /// Smoothed round-trip time, in steps of 1 us.
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the round-trip time, in steps of 1 us.
    pub rttvar_ns: Option<u64>,
    /// Shortest round-trip time of the last 5 minutes (`net.ipv4.tcp_min_rtt_wlen`), in steps of
    /// 1 us; absent until one was measured.
    pub min_rtt_ns: Option<u64>,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: Option<u64>,
    /// Segments that are held for lost now.
    pub lost_segments: Option<u64>,
    /// Segments sent again, in all.
    pub retransmitted_segments: Option<u64>,
    /// Bytes written and not yet sent.
    pub notsent_bytes: Option<u64>,
    /// Window that the other end offers.
    pub send_window_bytes: Option<u64>,
    /// Receive space that this end wants, by how much its reader took in a round trip.
    pub rcv_space_bytes: Option<u64>,
    /// Rate at which segments leave; absent where they are not paced.
    pub pacing_rate_bps: Option<u64>,
    /// Rate at which segments were delivered, at the last acknowledgement.
    pub delivery_rate_bps: Option<u64>,
    /// Whether `delivery_rate_bps` is low because this end had nothing to send.
    pub is_delivery_rate_app_limited: Option<bool>,
    /// Time with data to send or to be acknowledged, in steps of a kernel tick (1 to 10 ms), as are
    /// the next two.
    pub busy_ns: Option<u64>,
    /// The part of `busy_ns` in which the other end's window was the limit.
    pub rwnd_limited_ns: Option<u64>,
    /// The part of `busy_ns` in which this end's send buffer was the limit.
    pub sndbuf_limited_ns: Option<u64>,
    /// Segments delivered, repeated ones included.
    pub delivered_segments: Option<u64>,
    /// Segments delivered with the mark of congestion (ECN CE).
    pub delivered_ce_segments: Option<u64>,
    /// Bytes of data sent, repeated ones included.
    pub bytes_sent: Option<u64>,
    /// Bytes acknowledged; the connecting end's SYN counts as one.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Bytes sent again.
    pub bytes_retransmitted: Option<u64>,
    /// Segments that the other end reported to have got twice (D-SACK, RFC 2883).
    pub dsack_duplicates: Option<u64>,
    /// Times that segments were found to be reordered on their way.
    pub reorderings_seen: Option<u64>,
}
