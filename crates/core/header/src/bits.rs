//! Reads and writes bit fields of any width.
//!
//! Everything is inlined and called with constant offsets: a byte-aligned field compiles to one load or store, any
//! other field to a few shifts, without loops or bounds checks.

use std::array;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Mac;

/// A Rust type that can hold the value of a field.
pub(crate) trait FieldValue: Copy {
    /// Converts from the lowest bits of `bits`.
    fn of_bits(bits: u128) -> Self;

    /// Converts to the lowest bits of a `u128`.
    fn to_bits(self) -> u128;

    /// Reads the `width` bits that start at bit `at`.
    fn read(bytes: &[u8], at: usize, width: usize) -> Self;

    /// Writes the value into the `width` bits that start at bit `at`. These bits must be zero.
    fn write(self, bytes: &mut [u8], at: usize, width: usize);
}

/// Implements [`FieldValue`] for a type: its length in bytes, and conversions from and to big-endian bytes.
macro_rules! field_value {
    ($($type:ty: $bytes:literal, $of_bytes:expr, $to_bytes:expr;)+) => {$(
        impl FieldValue for $type {
            #[inline(always)]
            fn of_bits(bits: u128) -> Self {
                $of_bytes(array::from_fn(|at| (bits >> (8 * ($bytes - 1 - at))) as u8))
            }

            #[inline(always)]
            fn to_bits(self) -> u128 {
                let mut bits = [0; 16];
                bits[16 - $bytes..].copy_from_slice(&$to_bytes(self));
                u128::from_be_bytes(bits)
            }

            #[inline(always)]
            fn read(bytes: &[u8], at: usize, width: usize) -> Self {
                match bytes.get(at / 8..).and_then(<[u8]>::first_chunk) {
                    Some(bytes) if at % 8 == 0 && width == 8 * $bytes => $of_bytes(*bytes),
                    _ => FieldValue::of_bits(read(bytes, at, width)),
                }
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8], at: usize, width: usize) {
                match bytes.get_mut(at / 8..).and_then(<[u8]>::first_chunk_mut) {
                    Some(bytes) if at % 8 == 0 && width == 8 * $bytes => *bytes = $to_bytes(self),
                    _ => write(bytes, at, width, FieldValue::to_bits(self)),
                }
            }
        }
    )+};
}

field_value! {
    bool: 1, |[byte]: [u8; 1]| byte != 0, |flag| [u8::from(flag)];
    u8: 1, u8::from_be_bytes, u8::to_be_bytes;
    u16: 2, u16::from_be_bytes, u16::to_be_bytes;
    u32: 4, u32::from_be_bytes, u32::to_be_bytes;
    u64: 8, u64::from_be_bytes, u64::to_be_bytes;
    Mac: 6, Mac, |mac: Mac| mac.0;
    Ipv4Addr: 4, Ipv4Addr::from_octets, |ip: Ipv4Addr| ip.octets();
    Ipv6Addr: 16, Ipv6Addr::from_octets, |ip: Ipv6Addr| ip.octets();
}

/// Reads the `width` bits that start at bit `at`.
#[inline(always)]
pub(super) fn read(bytes: &[u8], at: usize, width: usize) -> u128 {
    let end = at + width;
    let taken = &bytes[at / 8..end.div_ceil(8)];
    let bits = taken.iter().fold(0u128, |bits, &byte| (bits << 8) | u128::from(byte));
    (bits >> (end.next_multiple_of(8) - end)) & mask(width)
}

/// Writes the lowest `width` bits of `value` at bit `at`. The target bits must be zero.
#[inline(always)]
fn write(bytes: &mut [u8], at: usize, width: usize, value: u128) {
    let end = at + width;
    let mut bits = (value & mask(width)) << (end.next_multiple_of(8) - end);
    for byte in bytes[at / 8..end.div_ceil(8)].iter_mut().rev() {
        *byte |= bits as u8;
        bits >>= 8;
    }
}

/// Largest value of `width` bits.
pub(crate) const fn mask(width: usize) -> u128 {
    u128::MAX >> (128 - width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mask_has_as_many_bits_as_asked() {
        assert_eq!((mask(1), mask(24), mask(128)), (1, 0xff_ffff, u128::MAX));
    }

    proptest! {
        #[test]
        fn whole_bytes_and_bits_agree(bytes: [u8; 16], place in 0usize..=12) {
            let at = 8 * place;
            prop_assert_eq!(u32::read(&bytes, at, 32), read(&bytes, at, 32) as u32);
            let mut whole = [0; 16];
            u32::read(&bytes, at, 32).write(&mut whole, at, 32);
            let mut bits = [0; 16];
            write(&mut bits, at, 32, read(&bytes, at, 32));
            prop_assert_eq!(whole, bits);
            prop_assert_eq!(&whole[place..place + 4], &bytes[place..place + 4]);
        }
    }
}
