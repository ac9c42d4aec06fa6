//! How a header is declared, and what holds for all of them.

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
        /// A value; what goes beyond the length of its field is cut off when it is written.
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

            /// Its fields.
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

            /// The bytes of the wire.
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
            /// Every bit 0.
            fn default() -> Self {
                $view(&[0; $bytes]).value()
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
                ///
                #[doc = concat!("\"", $label, "\" of clause ", $clause, ".")]
                #[inline]
                pub fn $field(self) -> $type {
                    $crate::FieldValue::read(self.0, $at, $end - $at)
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

/// Declares numbers that a field may hold, and the `NAMES` of all of them.
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
    //! What holds for every header.

    use crate::Layout;

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
