//! Counters of an element, as seen on the wire: each segment of a super-packet counts as a packet.

use std::ops::{Add, AddAssign, SubAssign};

use crate::packet::Length;

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// IP packets; each segment of a super-packet is one.
    pub packets: u64,
    /// Bytes of the IP packets.
    pub bytes: u64,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The queue was full.
    Overflow,
    /// An AQM (CoDel or RED) signalled congestion.
    Congestion,
    /// Lost by the medium.
    Loss,
    /// The link was down.
    Down,
    /// No port leads to the destination, or the packet came by a port that does not exist.
    NoRoute,
}

impl Reason {
    /// All reasons, in the order of their columns.
    pub const ALL: [Self; 5] =
        [Self::Overflow, Self::Congestion, Self::Loss, Self::Down, Self::NoRoute];
}

/// Packets of one element since its creation.
///
/// Invariant, in packets and in bytes: `arrived + duplicated = departed + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets in.
    pub arrived: Count,
    /// Packets out, copies included.
    pub departed: Count,
    /// Copies made; not part of `arrived`.
    pub duplicated: Count,
    /// Packets newly marked CE.
    pub marked: Count,
    /// Packets with a bit that this element flipped.
    pub corrupted: Count,
    dropped: [Count; Reason::ALL.len()],
}

impl Counters {
    /// Counts a packet that the element drops.
    pub fn drop(&mut self, reason: Reason, length: Length) {
        self.dropped[reason as usize] += length.into();
    }

    /// Packets dropped for one reason.
    pub fn dropped(&self, reason: Reason) -> Count {
        self.dropped[reason as usize]
    }

    /// Packets dropped for all reasons.
    pub fn dropped_in_all(&self) -> Count {
        self.dropped.iter().fold(Count::default(), |sum, &count| sum + count)
    }

    /// Packets inside the element now: entered or copied, and neither departed nor dropped.
    pub fn held(&self) -> Count {
        let inside = self.arrived + self.duplicated;
        let gone = self.departed + self.dropped_in_all();
        debug_assert!(
            inside.packets >= gone.packets && inside.bytes >= gone.bytes,
            "an element made packets from nothing: {self:?}"
        );
        Count {
            packets: inside.packets.saturating_sub(gone.packets),
            bytes: inside.bytes.saturating_sub(gone.bytes),
        }
    }
}

impl From<Length> for Count {
    fn from(length: Length) -> Self {
        Self { packets: length.segments().into(), bytes: length.bytes() }
    }
}

impl Add for Count {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Count {
    fn sub_assign(&mut self, other: Self) {
        self.packets -= other.packets;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_leave_is_held() {
        let mut counters = Counters::default();
        counters.arrived += Length::train(40, 4000, 1460).into();
        counters.departed += Length::packet(1500).into();
        counters.drop(Reason::Loss, Length::packet(1500));
        assert_eq!(counters.held(), Count { packets: 1, bytes: 1120 });
        assert_eq!(counters.dropped(Reason::Loss), counters.dropped_in_all());
        assert_eq!(counters.dropped(Reason::Overflow), Count::default());
    }
}
