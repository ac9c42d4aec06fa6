//! Connection parameters of a queue pair, encoded for the TCP connection beside it.

use std::net::{IpAddr, Ipv6Addr};

use crate::sys::Place;

/// Length of an encoded [`Identity`].
pub const IDENTITY_BYTES: usize = 64;

/// First byte of an encoded identity.
const VERSION: u8 = 1;

/// What an end must know of the other's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Queue pair number, of 24 bits.
    pub pair: u32,
    /// Sequence number (PSN) of its first packet, of 24 bits.
    pub first_packet: u32,
    /// Q_Key of datagrams to it.
    pub key: u32,
    /// Its GID.
    pub gid: [u8; 16],
    /// Its LID, the address within an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Largest payload of its packets, as `enum ibv_mtu`: 1 for 256 bytes to 5 for 4096.
    pub mtu: u8,
    /// Start of the memory that the other end may read and write.
    pub memory: Place,
    /// Length of that memory, in bytes.
    pub memory_bytes: u64,
}

impl Identity {
    /// The GID as an IP address, which it is on Ethernet.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.gid).to_canonical()
    }

    /// Encodes the identity.
    pub fn emit(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.mtu;
        bytes[2..4].copy_from_slice(&self.lid.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.pair.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.first_packet.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.key.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.gid);
        bytes[32..40].copy_from_slice(&self.memory.address.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.memory.key.to_be_bytes());
        bytes[44..52].copy_from_slice(&self.memory_bytes.to_be_bytes());
        bytes
    }

    /// Decodes an identity; `None` if its version differs or a value is out of range.
    pub fn parse(bytes: &[u8; IDENTITY_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let identity = Self {
            mtu: bytes[1],
            lid: u16::from_be_bytes([bytes[2], bytes[3]]),
            pair: word(4),
            first_packet: word(8),
            key: word(12),
            gid: std::array::from_fn(|byte| bytes[16 + byte]),
            memory: Place { address: long(32), key: word(40) },
            memory_bytes: long(44),
        };
        let is_sound = bytes[0] == VERSION
            && (1..=5).contains(&identity.mtu)
            && identity.pair < 1 << 24
            && identity.first_packet < 1 << 24
            && bytes[52..].iter().all(|&byte| byte == 0);
        is_sound.then_some(identity)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_identity_is_read_as_it_was_written(
            pair in 0u32..1 << 24, first_packet in 0u32..1 << 24, key: u32, gid: [u8; 16], lid: u16,
            mtu in 1u8..=5, address: u64, remote: u32, memory_bytes: u64,
        ) {
            let memory = Place { address, key: remote };
            let identity = Identity { pair, first_packet, key, gid, lid, mtu, memory, memory_bytes };
            prop_assert_eq!(Identity::parse(&identity.emit()), Some(identity));
        }

        #[test]
        fn what_is_read_is_written_again_as_it_was(bytes: [u8; 32], rest: [u8; 32]) {
            let mut all = [0; IDENTITY_BYTES];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&rest);
            if let Some(identity) = Identity::parse(&all) {
                prop_assert_eq!(identity.emit(), all);
            }
        }
    }
}
