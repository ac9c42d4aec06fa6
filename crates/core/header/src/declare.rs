//! The macros that declare headers and named values, and test macros that check every header.

/// Declares a header: its value type, its view type, and the table of its fields.
///
/// The fields must cover every bit in wire order; `round_trip!` tests that for each header.
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
        /// Values wider than their field are truncated when written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $value {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("\"", $label, "\" of clause ", $clause, ".")]
                pub $field: $type,
            )+
        }

        #[doc = concat!("[`", stringify!($value), "`] read in place.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a>(pub &'a [u8; $bytes]);

        impl $value {
            /// Length in bytes.
            pub const BYTES: usize = $bytes;

            /// Names and fields of this header.
            pub const LAYOUT: &'static $crate::Layout = &$crate::Layout {
                name: $name,
                title: $title,
                bytes: $bytes,
                source: $source,
                fields: &[$(
                    $crate::Field {
                        name: stringify!($field),
                        title: $label,
                        at: $at,
                        bits: $end - $at,
                        format: $format,
                        clause: $clause,
                    },
                )+],
            };

            /// Encodes the header in wire order.
            #[inline]
            pub fn to_bytes(self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $(
                    $crate::FieldValue::write(self.$field, &mut bytes, $at, $end - $at);
                )+
                bytes
            }
        }

        impl Default for $value {
            /// All bits 0.
            fn default() -> Self {
                $view(&[0; $bytes]).value()
            }
        }

        impl<'a> $view<'a> {
            /// Splits `bytes` into this header and the rest, or returns `None` if `bytes` is too short.
            #[inline]
            pub fn of(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
                bytes.split_first_chunk().map(|(header, rest)| (Self(header), rest))
            }

            $(
                $(#[$doc])*
                ///
                #[doc = concat!("\"", $label, "\" of clause ", $clause, ".")]
                #[inline]
                pub fn $field(self) -> $type {
                    $crate::FieldValue::read(self.0, $at, $end - $at)
                }
            )+

            /// Copies all fields into a value.
            #[inline]
            pub fn value(self) -> $value {
                $value { $( $field: self.$field(), )+ }
            }
        }
    };
}
pub(crate) use header;

/// Declares constants for the values of a field, and `NAMES`, a table of all of them.
macro_rules! named {
    ($type:ty; $($(#[$about:meta])* $number:ident = $value:literal, $name:expr;)+) => {
        $(
            $(#[$about])*
            pub const $number: $type = $value;
        )+

        pub(crate) const NAMES: $crate::Names = &[$(($number as u128, $name)),+];
    };
}
pub(crate) use named;

#[cfg(test)]
pub(crate) mod laws {
    //! Tests that apply to every header.

    use crate::Layout;

    /// Checks that the fields cover every bit in wire order, without overlap, and that each cites a clause.
    pub(crate) fn fields_cover_every_bit(layout: &Layout) {
        let mut next = 0;
        for field in layout.fields {
            assert_eq!(field.at, next, "{} {}", layout.name, field.name);
            assert!(field.bits > 0 && !field.clause.is_empty(), "{} {}", layout.name, field.name);
            next += field.bits;
        }
        assert_eq!(next, 8 * layout.bytes, "{}", layout.name);
    }

    /// Tests that any bytes are unchanged by decoding and encoding, and that a truncated header is rejected.
    macro_rules! round_trip {
        ($test:ident, $value:ident, $view:ident) => {
            proptest::proptest! {
                #[test]
                fn $test(bytes: [u8; $value::BYTES], tail: [u8; 3]) {
                    let all = [&bytes[..], &tail[..]].concat();
                    let (view, rest) = $view::of(&all).unwrap();
                    let value = view.value();
                    proptest::prop_assert_eq!(rest, &tail);
                    proptest::prop_assert_eq!(value.to_bytes(), bytes);
                    proptest::prop_assert!($view::of(&bytes[1..]).is_none());
                    $crate::laws::fields_cover_every_bit($value::LAYOUT);
                    for field in $value::LAYOUT.fields {
                        let bits = $value::LAYOUT.read(&bytes, field).unwrap();
                        proptest::prop_assert!(bits <= $crate::bits::mask(field.bits));
                        proptest::prop_assert!(!field.text(bits).is_empty());
                    }
                }
            }
        };
    }
    pub(crate) use round_trip;
}
