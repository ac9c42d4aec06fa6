//! Protocol headers as views and values, each generated from one table of its fields.
//!
//! `header!` declares a header bit by bit, as its specification draws it. It generates the header's length, a value
//! to build it from, a view that reads it in place, and a [`Layout`] that dissectors and diagrams use. Bit 0 is the
//! first bit on the wire: the most significant bit of the first byte.
//!
//! [`checksum`] computes the checksums and CRCs of headers and packets. Packets (sequences of headers) are in the
//! crate packet, their cost on a link in the crate wire.

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

/// One field of a header: the bits `at..at + bits`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Identifier in code.
    pub name: &'static str,
    /// Name in the specification.
    pub title: &'static str,
    /// Offset of the first bit from the start of the header.
    pub at: usize,
    /// Length in bits, 1 to 128.
    pub bits: usize,
    /// How the value is printed.
    pub format: Format,
    /// Clause of the specification that defines the field.
    pub clause: &'static str,
}

/// How the value of a field is printed.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// Decimal number.
    Decimal,
    /// Hexadecimal number, padded to the width of the field.
    Hex,
    /// `yes` or `no`.
    Flag,
    /// MAC address: six hexadecimal bytes separated by colons.
    Mac,
    /// IPv4 address in dotted-decimal notation.
    Ipv4,
    /// IPv6 address (RFC 5952), or a GID, which has the same notation (IBTA vol. 1, 4.1.1).
    Ipv6,
    /// Hexadecimal number, followed by the value's name if the table has one.
    Named(Names),
}

/// Table of values and their names.
pub type Names = &'static [(u128, &'static str)];

/// Description of a header: its names, length and fields.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Abbreviation, such as `BTH`.
    pub name: &'static str,
    /// Full name.
    pub title: &'static str,
    /// Length in bytes, without options.
    pub bytes: usize,
    /// Specification and clause.
    pub source: &'static str,
    /// The fields, in wire order; together they cover every bit.
    pub fields: &'static [Field],
}

/// Ethernet MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Layout {
    /// Value of `field`, or `None` if `bytes` is shorter than the header.
    pub fn read(&self, bytes: &[u8], field: &Field) -> Option<u128> {
        bytes.get(..self.bytes).map(|bytes| bits::read(bytes, field.at, field.bits))
    }
}

impl Field {
    /// Formats a value of this field for display.
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
