//! The kernel's token bucket that stands for a wire: its settings, and what it passes at once.

use fabricmark_units::BitRate;
use fabricmark_wire::{Link, frame};

/// Settings of a token bucket that imitates an Ethernet wire.
///
/// The plain bucket counts neither FCS, preamble nor gap, and lets a 64 KiB super-packet of
/// segmentation offload pass as one; it then carries 1 to 2 % more than the wire. A peak rate far
/// above the rate makes the kernel cut super-packets to `mtu` first, and `overhead` and `mpu` add
/// what the wire adds. Measured against its ceilings in `docs/notebook/measured.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: BitRate,
    mtu: u16,
    /// 802.1Q tags in each frame; `None` where the rate is one of IP packets.
    vlan: Option<u8>,
}

impl TokenBucket {
    /// That of a link whose wire it can stand for: Ethernet.
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

    /// A bucket of this rate for packets of up to `mtu` bytes of IP.
    pub fn new(rate: BitRate, mtu: u16, vlan: Option<u8>) -> Self {
        Self { rate, mtu, vlan }
    }

    /// Depth of the bucket in bytes: what may pass at once after a pause.
    ///
    /// 524 us of the rate, which is 64 KiB at 1 Gbit/s: the kernel's timer then never lets the
    /// bucket overflow. At least two packets, at most 256 KiB.
    pub fn bucket_bytes(&self) -> u64 {
        let worth = u128::from(self.rate.0) * 524_288 / 8_000_000_000;
        let two_packets = 2 * self.largest_bytes();
        u64::try_from(worth).unwrap_or(u64::MAX).clamp(two_packets, 256 << 10)
    }

    /// The largest packet in bytes as the queue counts it: with room for its headers.
    pub fn largest_bytes(&self) -> u64 {
        u64::from(self.mtu) + 100
    }

    /// What the wire adds beyond the 14 bytes of the Ethernet header, which the queue already counts,
    /// and the least that a packet takes on it: words of tbf and htb, with a space before them.
    pub fn framing(&self) -> String {
        let Some(vlan) = self.vlan else { return String::new() };
        let overhead = beyond_header(vlan);
        let smallest = frame::FRAME_MIN + frame::PREAMBLE + frame::GAP;
        format!(" overhead {overhead} mpu {smallest}")
    }

    /// The words of a tbf before which `limit_bytes` may wait.
    pub fn words(&self, limit_bytes: u64) -> String {
        let (rate, bucket, largest) = (self.rate.0, self.bucket_bytes(), self.largest_bytes());
        let framing = self.framing();
        format!(
            "tbf rate {rate}bit burst {bucket} limit {limit_bytes}{framing} peakrate 1000gbit \
             mtu {largest}"
        )
    }
}

/// Bytes of preamble, tags, check sequence and gap: what a wire adds to a frame as a queue counts it.
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
