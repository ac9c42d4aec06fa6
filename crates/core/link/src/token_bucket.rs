//! The kernel's token bucket as a model of a wire: its parameters and its burst size.

use fabricmark_units::{BIT_NS, BitRate};
use fabricmark_wire::{Link, frame};

/// Parameters of a token bucket that imitates an Ethernet wire.
///
/// A plain bucket counts neither FCS, preamble nor interframe gap and passes a 64 KiB super-packet of segmentation
/// offload as one packet, so it carries 1 to 2 % more than the wire. A peak rate far above the rate makes the kernel
/// segment super-packets to `mtu` first; `overhead` and `mpu` add the wire's overhead. Measured against the ceilings
/// of the wire in `docs/notebook/measured.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: BitRate,
    mtu: u16,
    /// 802.1Q tags per frame; `None` if the rate counts IP packets.
    vlan: Option<u8>,
}

impl TokenBucket {
    /// The bucket of a link; `None` unless it is Ethernet.
    pub fn of(link: &Link) -> Option<Self> {
        match *link {
            Link::Ethernet { rate, mtu, vlan } => Some(Self::new(rate, mtu, Some(vlan))),
            Link::Loopback
            | Link::Veth { .. }
            | Link::Ipoib(_)
            | Link::Ib(_)
            | Link::RoceV1 { .. }
            | Link::RoceV2 { .. } => None,
        }
    }

    /// A bucket for IP packets of up to `mtu` bytes; `vlan` is the number of 802.1Q tags, `None` if the rate counts
    /// IP packets.
    pub fn new(rate: BitRate, mtu: u16, vlan: Option<u8>) -> Self {
        Self { rate, mtu, vlan }
    }

    /// Bucket size in bytes: the largest burst after idle time.
    ///
    /// 524 us of the rate, which is 64 KiB at 1 Gbit/s, so that the kernel's timer never lets the bucket overflow. At
    /// least two packets, at most 256 KiB.
    pub fn bucket_bytes(&self) -> u64 {
        let worth = u128::from(self.rate.0) * 524_288 / BIT_NS;
        let two_packets = 2 * self.largest_bytes();
        u64::try_from(worth).unwrap_or(u64::MAX).clamp(two_packets, 256 << 10)
    }

    /// Largest packet in bytes as the qdisc counts it: the MTU and room for headers.
    pub fn largest_bytes(&self) -> u64 {
        u64::from(self.mtu) + 100
    }

    /// Options of tbf and htb for the wire's overhead, with a leading space: `overhead`, without the 14 bytes of the
    /// Ethernet header that the qdisc already counts, and `mpu`, the smallest packet on the wire.
    pub fn framing(&self) -> String {
        let Some(vlan) = self.vlan else { return String::new() };
        let overhead = beyond_header(vlan);
        let smallest = frame::FRAME_MIN + frame::PREAMBLE + frame::GAP;
        format!(" overhead {overhead} mpu {smallest}")
    }

    /// Arguments of `tc` for a tbf with a queue of `limit_bytes`.
    pub fn words(&self, limit_bytes: u64) -> String {
        let (rate, bucket, largest) = (self.rate.0, self.bucket_bytes(), self.largest_bytes());
        let framing = self.framing();
        format!(
            "tbf rate {rate}bit burst {bucket} limit {limit_bytes}{framing} peakrate 1000gbit \
             mtu {largest}"
        )
    }
}

/// Bytes of preamble, tags, FCS and gap: the overhead of the wire beyond the frame that a qdisc counts.
pub fn beyond_header(vlan: u8) -> u64 {
    frame::PREAMBLE + frame::GAP + frame::FCS + u64::from(vlan) * frame::VLAN_TAG
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(link: &str) -> String {
        TokenBucket::of(&link.parse().unwrap()).unwrap().words(8 << 20)
    }

    #[test]
    fn a_gigabit_link_gets_the_settings_that_were_measured() {
        assert_eq!(
            words("ethernet:1G"),
            "tbf rate 1000000000bit burst 65536 limit 8388608 overhead 24 mpu 84 \
             peakrate 1000gbit mtu 1600"
        );
        assert_eq!(
            words("ethernet:10G,mtu=9000"),
            "tbf rate 10000000000bit burst 262144 limit 8388608 overhead 24 mpu 84 \
             peakrate 1000gbit mtu 9100"
        );
    }

    #[test]
    fn a_veth_has_no_wire_to_imitate() {
        assert_eq!(TokenBucket::of(&"veth".parse().unwrap()), None);
    }
}
