//! Headers as views and values: one table of fields each, from which everything else follows.
//!
//! A header is declared once by `header!`, bit by bit as its specification draws it. From that come
//! its length, a value to build it from, a view to read it in place, and its [`Layout`], from which
//! packets are dissected and figures drawn. Bits count from the first bit on the wire, which is the
//! most significant one of the first byte.
//!
//! [`checksum`] has the sums that stand in headers and behind packets.
//!
//! Deliberately not here: packets, which are headers in a row (the crate packet), and what they cost
//! on a wire (the crate wire).

pub mod arp;
mod bits;
pub mod checksum;
pub mod cm;
mod declare;
pub mod ethernet;
pub mod infiniband;
pub mod ip;
pub mod ipoib;
pub mod transport;

pub(crate) use bits::FieldValue;
#[cfg(test)]
pub(crate) use declare::laws;
pub(crate) use declare::{header, named};

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
    /// In base sixteen, with the name of the value where it is one of these.
    Named(Names),
}

/// Names of values.
pub type Names = &'static [(u128, &'static str)];

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

/// Six bytes of an Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Layout {
    /// The value of `field` in the bytes of this header; `None` where they are too few.
    pub fn read(&self, bytes: &[u8], field: &Field) -> Option<u128> {
        bytes.get(..self.bytes).map(|bytes| bits::read(bytes, field.at, field.bits))
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
            Format::Named(names) => match names.iter().find(|(named, _)| *named == value) {
                Some((_, name)) => format!("0x{value:0digits$x} ({name})"),
                None => format!("0x{value:0digits$x}"),
            },
        }
    }
}
