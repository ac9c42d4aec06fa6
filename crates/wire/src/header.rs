//! Headers as views and values: one table of fields each, from which everything else follows.
//!
//! A header is declared once by [`header!`], bit by bit as its specification draws it. From that come
//! its length, a value to build it from, a view to read it in place, and its [`Layout`], from which
//! packets are dissected and figures drawn. Bits count from the first bit on the wire, which is the
//! most significant one of the first byte.

pub mod arp;
pub mod cm;
pub mod ethernet;
pub mod infiniband;
pub mod ip;
pub mod ipoib;
pub mod transport;

use std::net::{Ipv4Addr, Ipv6Addr};

/// One field of a header.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in code.
    pub name: &'static str,
    /// Its name in the specification.
    pub title: &'static str,
    /// Its first bit, from the start of the header.
    pub at: usize,
    /// Its length in bits, 1 to 128.
    pub bits: usize,
    /// How its value is written.
    pub format: Format,
    /// Where the specification defines it.
    pub clause: &'static str,
}

/// How the value of a field is written.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// A number in base ten.
    Decimal,
    /// A number in base sixteen, with as many digits as the field has.
    Hex,
    /// Set or not.
    Flag,
    /// Six bytes with colons.
    Mac,
    /// Four bytes with dots.
    Ipv4,
    /// Sixteen bytes as IPv6 writes them; a GID, too (IBTA vol. 1, 4.1.1).
    Ipv6,
    /// In base sixteen, with the name of the value where it has one.
    Named(fn(u128) -> Option<&'static str>),
}

/// The form of a header.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its short name, such as `BTH`.
    pub name: &'static str,
    /// Its name in full.
    pub title: &'static str,
    /// Its length in bytes, without options.
    pub bytes: usize,
    /// Its specification.
    pub source: &'static str,
    /// Every bit of it, in the order of the wire.
    pub fields: &'static [Field],
}

/// A value that its field cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{header}: {field} is {value}, more than its {bits} bits hold")]
pub struct OutOfRange {
    /// The header.
    pub header: &'static str,
    /// The field.
    pub field: &'static str,
    /// What it was to hold.
    pub value: u128,
    /// Its length in bits.
    pub bits: usize,
}

/// Six bytes of an Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Layout {
    /// The value of `field` in the bytes of this header; `None` where they are too few.
    pub fn read(&self, bytes: &[u8], field: &Field) -> Option<u128> {
        bytes.get(..self.bytes).map(|bytes| read(bytes, field.at, field.bits))
    }
}

impl Field {
    /// The value as people read it.
    pub fn text(&self, value: u128) -> String {
        let digits = self.bits.div_ceil(4);
        match self.format {
            Format::Decimal => value.to_string(),
            Format::Hex => format!("0x{value:0digits$x}"),
            Format::Flag => if value == 0 { "no" } else { "yes" }.to_owned(),
            Format::Mac => {
                let [_, _, mac @ ..] = (value as u64).to_be_bytes();
                mac.map(|byte| format!("{byte:02x}")).join(":")
            }
            Format::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
            Format::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
            Format::Named(name) => match name(value) {
                Some(name) => format!("0x{value:0digits$x} ({name})"),
                None => format!("0x{value:0digits$x}"),
            },
        }
    }
}

/// What a field holds in code, to and from its bits.
pub(crate) trait FieldValue: Copy {
    fn of_bits(bits: u128) -> Self;
    fn to_bits(self) -> u128;
}

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline(always)]
            fn of_bits(bits: u128) -> Self {
                bits as $type
            }

            #[inline(always)]
            fn to_bits(self) -> u128 {
                u128::from(self)
            }
        }
    )*};
}
whole_number!(u8, u16, u32, u64, u128);

impl FieldValue for bool {
    #[inline(always)]
    fn of_bits(bits: u128) -> Self {
        bits != 0
    }

    #[inline(always)]
    fn to_bits(self) -> u128 {
        u128::from(self)
    }
}

impl FieldValue for Mac {
    #[inline(always)]
    fn of_bits(bits: u128) -> Self {
        let [_, _, mac @ ..] = (bits as u64).to_be_bytes();
        Self(mac)
    }

    #[inline(always)]
    fn to_bits(self) -> u128 {
        let [a, b, c, d, e, f] = self.0;
        u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
}

impl FieldValue for Ipv4Addr {
    #[inline(always)]
    fn of_bits(bits: u128) -> Self {
        Self::from_bits(bits as u32)
    }

    #[inline(always)]
    fn to_bits(self) -> u128 {
        u128::from(Self::to_bits(self))
    }
}

impl FieldValue for Ipv6Addr {
    #[inline(always)]
    fn of_bits(bits: u128) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn to_bits(self) -> u128 {
        Self::to_bits(self)
    }
}

/// The `width` bits from bit `at` on. Constant arguments leave a load, a swap and a shift of it.
#[inline(always)]
pub(crate) fn read(bytes: &[u8], at: usize, width: usize) -> u128 {
    let end = at + width;
    let taken = &bytes[at / 8..end.div_ceil(8)];
    let bits = taken.iter().fold(0u128, |bits, &byte| (bits << 8) | u128::from(byte));
    (bits >> (end.next_multiple_of(8) - end)) & mask(width)
}

/// Puts the lowest `width` bits of `value` to bit `at`, into bytes that are zero there.
#[inline(always)]
pub(crate) fn write(bytes: &mut [u8], at: usize, width: usize, value: u128) {
    let end = at + width;
    let mut bits = (value & mask(width)) << (end.next_multiple_of(8) - end);
    for byte in bytes[at / 8..end.div_ceil(8)].iter_mut().rev() {
        *byte |= bits as u8;
        bits >>= 8;
    }
}

/// The largest value of `width` bits.
pub(crate) const fn mask(width: usize) -> u128 {
    u128::MAX >> (128 - width)
}

/// Declares a header: the value, its view, and the table of its fields.
///
/// Every bit belongs to a field, in the order of the wire; a test of each header holds it to that.
macro_rules! header {
    (
        $(#[$about:meta])*
        $value:ident, $view:ident: $bytes:literal,
        $name:literal, $title:literal, $source:literal;
        $(
            $(#[$doc:meta])*
            $field:ident: $type:ty = $at:literal..$end:literal, $label:literal, $format:expr, $clause:literal;
        )+
    ) => {
        $(#[$about])*
        ///
        /// A value; what goes beyond the length of its field is cut off when it is written
        /// ([`check`](Self::check) tells).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $value {
            $(
                $(#[$doc])*
                pub $field: $type,
            )+
        }

        #[doc = concat!("[`", stringify!($value), "`] read in place.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a>(pub &'a [u8; $bytes]);

        impl $value {
            /// Length in bytes.
            pub const BYTES: usize = $bytes;

            /// Its fields.
            pub const LAYOUT: &'static $crate::header::Layout = &$crate::header::Layout {
                name: $name,
                title: $title,
                bytes: $bytes,
                source: $source,
                fields: &[$(
                    $crate::header::Field {
                        name: stringify!($field),
                        title: $label,
                        at: $at,
                        bits: $end - $at,
                        format: $format,
                        clause: $clause,
                    },
                )+],
            };

            /// The bytes of the wire.
            #[inline]
            pub fn to_bytes(self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $(
                    let bits = $crate::header::FieldValue::to_bits(self.$field);
                    $crate::header::write(&mut bytes, $at, $end - $at, bits);
                )+
                bytes
            }

            /// Whether each value fits its field.
            pub fn check(&self) -> Result<(), $crate::header::OutOfRange> {
                $(
                    let value = $crate::header::FieldValue::to_bits(self.$field);
                    if value > $crate::header::mask($end - $at) {
                        return Err($crate::header::OutOfRange {
                            header: $name,
                            field: $label,
                            value,
                            bits: $end - $at,
                        });
                    }
                )+
                Ok(())
            }
        }

        impl<'a> $view<'a> {
            /// The header at the start of `bytes`, and what follows it; `None` where they are too few.
            #[inline]
            pub fn of(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
                bytes.split_first_chunk().map(|(header, rest)| (Self(header), rest))
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $field(self) -> $type {
                    let bits = $crate::header::read(self.0, $at, $end - $at);
                    $crate::header::FieldValue::of_bits(bits)
                }
            )+

            /// All fields.
            #[inline]
            pub fn value(self) -> $value {
                $value { $( $field: self.$field(), )+ }
            }
        }
    };
}
pub(crate) use header;

#[cfg(test)]
pub(crate) mod laws {
    //! What holds for every header.

    use super::{Layout, mask};

    /// Every bit belongs to one field, in the order of the wire, and has a clause.
    pub(crate) fn fields_cover_every_bit(layout: &Layout) {
        let mut next = 0;
        for field in layout.fields {
            assert_eq!(field.at, next, "{} {}", layout.name, field.name);
            assert!(field.bits > 0 && !field.clause.is_empty(), "{} {}", layout.name, field.name);
            next += field.bits;
        }
        assert_eq!(next, 8 * layout.bytes, "{}", layout.name);
    }

    /// What was written is read again, and any bytes survive reading and writing.
    macro_rules! round_trip {
        ($test:ident, $value:ident, $view:ident) => {
            proptest::proptest! {
                #[test]
                fn $test(bytes: [u8; $value::BYTES], tail: [u8; 3]) {
                    let all = [&bytes[..], &tail[..]].concat();
                    let (view, rest) = $view::of(&all).unwrap();
                    let value = view.value();
                    proptest::prop_assert_eq!(rest, &tail);
                    proptest::prop_assert_eq!(value.check(), Ok(()));
                    proptest::prop_assert_eq!(value.to_bytes(), bytes);
                    proptest::prop_assert!($view::of(&bytes[1..]).is_none());
                    $crate::header::laws::fields_cover_every_bit($value::LAYOUT);
                    for field in $value::LAYOUT.fields {
                        let bits = $value::LAYOUT.read(&bytes, field).unwrap();
                        proptest::prop_assert!(bits <= $crate::header::mask(field.bits));
                        proptest::prop_assert!(!field.text(bits).is_empty());
                    }
                }
            }
        };
    }
    pub(crate) use round_trip;

    #[test]
    fn a_mask_has_as_many_bits_as_asked() {
        assert_eq!((mask(1), mask(24), mask(128)), (1, 0xff_ffff, u128::MAX));
    }
}
