//! Checksums and CRCs of Ethernet, InfiniBand and the Internet protocols.
//!
//! CRCs are returned in wire order. A CRC is sent with the coefficient of the highest power first, and each byte with
//! its least significant bit first, so the bytes are those of the (reflected) CRC value in little-endian order.

mod icrc;
mod internet;

pub use icrc::{icrc, icrc_roce_v1, icrc_roce_v2};
pub use internet::Internet;

use crc::{Algorithm, CRC_32_ISO_HDLC, Crc};

/// CRC-32 with polynomial 0x04C11DB7: the Ethernet FCS and InfiniBand's invariant CRC.
static CRC_32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// InfiniBand's variant CRC (IBTA vol. 1, 7.8.2). `check` and `residue` are unused; the standard publishes no values.
const VARIANT: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    refin: true,
    refout: true,
    xorout: 0xffff,
    check: 0,
    residue: 0,
};

static CRC_16: Crc<u16> = Crc::<u16>::new(&VARIANT);

/// Variant CRC of an InfiniBand packet, computed from the LRH through the invariant CRC (IBTA vol. 1, 7.8.2).
///
/// It holds for one link only: a switch that changes the virtual lane recomputes it.
pub fn vcrc(packet: &[u8]) -> [u8; 2] {
    CRC_16.checksum(packet).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_ethernets_polynomial_is_found() {
        assert_eq!(CRC_32.checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_frame_with_its_check_sequence_leaves_the_residue() {
        let mut frame = b"any frame".to_vec();
        frame.extend(CRC_32.checksum(&frame).to_le_bytes());
        // IEEE 802.3, 3.2.9: residue 0xc704dd7b, here reflected and complemented.
        assert_eq!(CRC_32.checksum(&frame), !0xc704_dd7b_u32.reverse_bits());
    }

    /// Bit-by-bit reference implementation: the shift register of IBTA vol. 1, 7.8.2.
    fn register(packet: &[u8]) -> u16 {
        let mut register = 0xffff_u16;
        for bit in packet.iter().flat_map(|byte| (0..8).map(move |at| byte >> at & 1)) {
            let feedback = (register >> 15) ^ u16::from(bit);
            register = (register << 1) ^ (feedback * 0x100b);
        }
        !register
    }

    #[test]
    fn a_variant_crc_is_sent_from_the_highest_power_on() {
        let packet = b"any packet";
        let [first, second] = register(packet).to_be_bytes();
        assert_eq!(vcrc(packet), [first.reverse_bits(), second.reverse_bits()]);
    }
}
