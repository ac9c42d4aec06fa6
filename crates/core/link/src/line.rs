//! Exact transmission times on a wire.

use fabricmark_units::{BIT_NS, BitRate, Instant, Nanos};
use fabricmark_wire::{Bus, Exact, Link};

use crate::{Framing, Invalid, Length, some};

/// A wire that sends one packet at a time at an exact rate.
///
/// The time at which it is free again is kept in nanoseconds and a fraction, so the mean rate is exact over any
/// duration. A packet leaves at the first whole nanosecond at or after its last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    framing: Framing,
    /// The rate is `bits / seconds`.
    bits: u64,
    seconds: u64,
    free: Instant,
    /// Fraction of a nanosecond beyond `free`, in units of `1 / bits` ns; below `bits`.
    rest: u64,
}

impl Line {
    /// A wire of `rate` in bit/s.
    pub fn new(rate: BitRate, framing: Framing) -> Result<Self, Invalid> {
        Self::ratio(rate.0, 1, framing)
    }

    /// A wire that moves `bits` in `seconds`: 4X FDR InfiniBand is 600,000,000,000 bits in 11 s.
    pub fn ratio(bits: u64, seconds: u64, framing: Framing) -> Result<Self, Invalid> {
        some("the rate", bits)?;
        some("the time of the rate", seconds)?;
        Ok(Self { framing, bits, seconds, free: Instant(0), rest: 0 })
    }

    /// Rate and framing of a link; `None` if it has no wire, carries no IP, or has a value out of range.
    pub fn of(link: Link) -> Option<Self> {
        Self::exact(link.rate_bps()?, Framing::of(link)?)
    }

    /// A host bus without the headers of its transactions; `None` if the bus does not exist.
    pub fn of_bus(bus: Bus) -> Option<Self> {
        Self::exact(bus.raw_bps()?, Framing::NONE)
    }

    fn exact(rate_bps: Exact, framing: Framing) -> Option<Self> {
        let bits = u64::try_from(rate_bps.numerator()).ok()?;
        Self::ratio(bits, u64::try_from(rate_bps.denominator()).ok()?, framing).ok()
    }

    /// Bytes on the wire from the first bit to the last, gaps between segments included.
    pub fn wire_bytes(&self, length: Length) -> u64 {
        let last = self.framing.wire_bytes(length.last_bytes().into());
        match u64::from(length.segments()) - 1 {
            0 => last,
            before => {
                let first = self.framing.wire_bytes(length.first_bytes().into());
                before * (first + self.framing.gap_bytes()) + last
            }
        }
    }

    /// Highest goodput of a stream in bit/s: full segments back to back, each with `header_bytes` of IP and TCP
    /// headers.
    pub fn stream_bps(&self, header_bytes: u16, mss_bytes: u16) -> f64 {
        let packet = Length::packet(u32::from(header_bytes) + u32::from(mss_bytes));
        let wire_bytes = self.wire_bytes(packet) + self.framing.gap_bytes();
        let rate_bps = self.bits as f64 / self.seconds as f64;
        rate_bps * f64::from(mss_bytes) / wire_bytes as f64
    }

    /// Sends a packet once the wire is free, but not before `earliest`; returns when its last bit has left.
    pub(crate) fn send(&mut self, earliest: Instant, length: Length) -> Instant {
        if earliest > self.free {
            (self.free, self.rest) = (earliest, 0);
        }
        self.pass(self.wire_bytes(length));
        let left = self.free_at();
        self.pass(self.framing.gap_bytes());
        left
    }

    /// The first whole nanosecond at which the wire is free.
    pub(crate) fn free_at(&self) -> Instant {
        self.free + Nanos(u64::from(self.rest > 0))
    }

    /// Transmission time of `bytes`, rounded down.
    pub(crate) fn time_of(&self, bytes: u64) -> Nanos {
        Nanos(saturated(self.parts(bytes) / u128::from(self.bits)))
    }

    /// Whether this rate is at most that of `other`.
    pub(crate) fn is_not_faster_than(&self, other: &Self) -> bool {
        u128::from(self.bits) * u128::from(other.seconds)
            <= u128::from(other.bits) * u128::from(self.seconds)
    }

    fn pass(&mut self, bytes: u64) {
        let parts = self.parts(bytes) + u128::from(self.rest);
        self.free = self.free + Nanos(saturated(parts / u128::from(self.bits)));
        self.rest = (parts % u128::from(self.bits)) as u64;
    }

    /// Time in units of `1 / bits` ns; fits for any packet length.
    fn parts(&self, bytes: u64) -> u128 {
        (BIT_NS * u128::from(bytes)).saturating_mul(self.seconds.into())
    }
}

pub(crate) fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_wire::{Family, Stack, stream_goodput};
    use proptest::prelude::*;

    #[test]
    fn a_gap_keeps_the_wire_busy_after_the_last_bit() {
        let mut line = Line::new(BitRate(1_000_000_000), Framing::ethernet(0)).unwrap();
        // 1526 and 12 bytes of 8 ns.
        assert_eq!(line.send(Instant(100), Length::packet(1500)), Instant(100 + 12_208));
        assert_eq!(line.free_at(), Instant(100 + 12_304));
        assert_eq!(line.send(Instant(0), Length::packet(1500)), Instant(100 + 24_512));
    }

    #[test]
    fn a_stream_gets_the_payload_of_full_segments() {
        for (link, header_bytes, option_bytes) in [
            ("ethernet:10G,mtu=9000", 52, 12),
            ("ethernet:1G,vlan=1", 40, 0),
            ("ipoib:4X-FDR", 52, 12),
        ] {
            let link: Link = link.parse().unwrap();
            let stack = Stack::Tcp { family: Family::V4, option_bytes };
            let ceiling = stream_goodput(link, stack).unwrap().goodput_bps.as_f64();
            let line = Line::of(link).unwrap();
            let found = line.stream_bps(header_bytes, link.mtu() - header_bytes);
            assert!((found / ceiling - 1.0).abs() < 1e-12, "{link}: {found}, {ceiling}");
        }
    }

    #[test]
    fn a_train_takes_as_long_as_its_segments() {
        let rate = BitRate(10_000_000_000);
        let new = || Line::new(rate, Framing::ethernet(0)).unwrap();
        let (mut train, mut single) = (new(), new());
        let last = (0..44).map(|_| single.send(Instant(0), Length::packet(1500))).last();
        assert_eq!(Some(train.send(Instant(0), Length::train(40, 64_240, 1460))), last);
        assert_eq!(train, single);
    }

    #[test]
    fn hours_of_packets_leave_no_drift() {
        // 3 Gbit/s, 1500 bytes of 4000 ns; 1501 of 4002 2/3.
        let mut line = Line::new(BitRate(3_000_000_000), Framing::NONE).unwrap();
        assert_eq!(line.send(Instant(0), Length::packet(1501)), Instant(4003));
        assert_eq!(line.send(Instant(0), Length::packet(1501)), Instant(8006));
        assert_eq!(line.send(Instant(0), Length::packet(1501)), Instant(12_008));
        let mut line = Line::ratio(600_000_000_000, 11, Framing::NONE).unwrap();
        for _ in 0..3_000_000 {
            line.send(Instant(0), Length::packet(1));
        }
        // 3e6 bytes of 8 * 11 / 600 ns.
        assert_eq!(line.free_at(), Instant(440_000));
    }

    #[test]
    fn a_link_gives_its_wire() {
        let line = |text: &str| Line::of(text.parse().unwrap());
        let ethernet = Line::new(BitRate(10_000_000_000), Framing::ethernet(1)).unwrap();
        assert_eq!(line("ethernet:10G,mtu=9000,vlan=1"), Some(ethernet));
        let fdr = Line::ratio(
            600_000_000_000,
            11,
            Framing::of("ipoib:4X-FDR,grh".parse().unwrap()).unwrap(),
        )
        .unwrap();
        assert_eq!(line("ipoib:4X-FDR,grh"), Some(fdr));
        let framing =
            Framing::of("ipoib:4X-HDR,mode=connected,ib-mtu=4096".parse().unwrap()).unwrap();
        let hdr = Line::new(BitRate(200_000_000_000), framing).unwrap();
        assert_eq!(line("ipoib:4X-HDR,mode=connected,ib-mtu=4096"), Some(hdr));
        for text in ["loopback", "veth", "ib:4X-HDR", "rocev1:10G"] {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn host_buses_have_their_published_rates() {
        let time_of = |bus: &str, bytes| Line::of_bus(bus.parse().unwrap()).unwrap().time_of(bytes);
        // P3: 8.533 Gbit/s. P2: 16 Gbit/s in each direction.
        assert_eq!(time_of("pci-x:133", 1_066_666_666), Nanos(999_999_999));
        assert_eq!(time_of("pcie:1x8", 2_000_000_000), Nanos(1_000_000_000));
        assert_eq!(Line::of_bus(Bus::Pcie { generation: 9, lanes: 8 }), None);
    }

    proptest! {
        #[test]
        fn the_last_of_many_packets_leaves_when_the_fraction_says(
            bits in 1_000u64..1_000_000_000_000,
            seconds in 1u64..100,
            sizes in proptest::collection::vec(1u32..10_000, 1..50),
        ) {
            let mut line = Line::ratio(bits, seconds, Framing::NONE).unwrap();
            let left = sizes.iter().map(|&size| line.send(Instant(0), Length::packet(size))).last();
            let bytes: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
            let exact = (BIT_NS * bytes * u128::from(seconds)).div_ceil(u128::from(bits));
            prop_assert_eq!(left.map(|left| u128::from(left.0)), Some(exact));
        }
    }
}
