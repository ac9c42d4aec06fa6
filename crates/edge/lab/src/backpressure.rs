//! Backpressure: the queue at which senders wait for an emulated wire that begins at their own device.
//!
//! A TUN device accepts any datagram and drops it if there is no room (`tun_net_xmit` in `drivers/net/tun.c` frees
//! the sender's buffer at once); a network adapter would make its sender wait. A sender of fragmented datagrams
//! that is faster than the wire would lose a fragment of each, and no datagram would arrive whole.

use fabricmark_link::{Framing, LinkOptions};
use fabricmark_units::Nanos;
use fabricmark_wire::Link;

/// Options for `tc qdisc add dev DEVICE root` of a token bucket at the rate of the wire. `None` without a wire, or
/// if the link has a delay: other queues are then between the sender and the wire.
pub(crate) fn queue(link: Link, options: &LinkOptions) -> Option<String> {
    if options.delay() > Nanos(0) {
        return None;
    }
    let (rate_bps, framing) = (options.rate_bps()?, Framing::of(link)?);
    let wire_bytes = |packet: u64| framing.wire_bytes(packet) + framing.gap_bytes();
    let overhead = wire_bytes(SINGLE) - SINGLE;
    // In connected mode an IP packet is several packets of InfiniBand, each with headers.
    let mtu = u64::from(options.mtu());
    let share = (mtu + overhead) as f64 / wire_bytes(mtu) as f64;
    let rate = (rate_bps * share.min(1.0)) as u64;
    let bucket = (rate_bps * BUCKET_SECONDS / 8.0) as u64;
    let bucket = bucket.clamp(2 * SUPER_PACKET, 4 * SUPER_PACKET);
    Some(format!(
        "tbf rate {rate}bit burst {bucket} limit {LIMIT_BYTES} overhead {overhead} mpu {}",
        wire_bytes(1)
    ))
}

/// Options of the link behind the token bucket: those asked for, and, unless these concern the queue, room for all
/// that a sender hands over while the emulator's thread does not run. An adapter that is behind drops nothing
/// either: its sender waits.
pub(crate) fn options_behind(link: Link, asked: &LinkOptions) -> LinkOptions {
    let is_held_back = queue(link, asked).is_some();
    let behind = asked.clone();
    if is_held_back && asked.has_default_queue() { behind.with_queue(QUEUE) } else { behind }
}

/// Queue behind the token bucket: longer than a busy virtual machine suspends the thread. With 1000 packets, 8 ms
/// of `ipoib:1X-SDR`, a run of 0.5 s lost 2,418 of 62,120 (the plan of `senders_wait_for_a_wire_at_their_device` in
/// `cli/tests/lab/ipoib.rs`).
const QUEUE: Nanos = Nanos(1_000_000_000);

/// Length of an IP packet that every wire carries in one piece: a multiple of 4 bytes with the IPoIB header.
const SINGLE: u64 = 252;

/// Burst after a pause, in seconds at the rate of the wire: that of [`fabricmark_link::TokenBucket`].
const BUCKET_SECONDS: f64 = 524e-6;

/// The longest packet of a device, before segmentation.
const SUPER_PACKET: u64 = 65_536;

/// Bytes that may wait: more than any socket's send buffer, so that senders wait and no packet is dropped.
const LIMIT_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn backpressure(link: &str, others: &str) -> Option<String> {
        let all: LinkOptions = format!("link={link} {others}").parse().unwrap();
        queue(link.parse().unwrap(), &all)
    }

    #[test]
    fn a_bucket_counts_what_the_wire_adds() {
        for (link, expected) in [
            ("ethernet:1G", "rate 1000000000bit burst 131072 limit 8388608 overhead 38 mpu 84"),
            ("ipoib:4X-SDR", "rate 8000000000bit burst 262144 limit 8388608 overhead 38 mpu 42"),
        ] {
            assert_eq!(backpressure(link, ""), Some(format!("tbf {expected}")), "{link}");
        }
        // 65,520 + 30 bytes of 66,356 on the wire.
        let connected = backpressure("ipoib:4X-SDR,mode=connected,mtu=65520", "").unwrap();
        assert!(connected.starts_with("tbf rate 7902827"), "{connected}");
        assert!(connected.ends_with("overhead 30 mpu 34"), "{connected}");
    }

    #[test]
    fn behind_a_bucket_is_room_for_all_unless_another_queue_was_asked_for() {
        let link: Link = "ethernet:1G".parse().unwrap();
        for (asked, expected) in [
            ("link=ethernet:1G", "link=ethernet:1G queue=1s"),
            ("link=ethernet:1G queue=20p", "link=ethernet:1G queue=20p"),
            ("link=ethernet:1G discipline=red", "link=ethernet:1G discipline=red"),
            ("link=ethernet:1G up=1s down=1s", "link=ethernet:1G up=1s down=1s"),
            ("link=ethernet:1G rtt=10ms", "link=ethernet:1G rtt=10ms"),
        ] {
            let behind = options_behind(link, &asked.parse().unwrap());
            assert_eq!(behind, expected.parse().unwrap(), "{asked}");
        }
    }

    #[test]
    fn a_wire_that_is_far_away_or_none_lets_nobody_wait() {
        assert_eq!(backpressure("ethernet:1G", "rtt=10ms"), None);
        assert_eq!(queue("veth".parse().unwrap(), &LinkOptions::default()), None);
    }
}
