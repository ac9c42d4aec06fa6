//! Quantities as types, and how people write them.
//!
//! A raw integer never says whether it counts bits or bytes; these types do. Each is a thin newtype
//! over a base unit (bytes, bit/s, nanoseconds), with one parser and one printer.
//!
//! Deliberately not here: clocks. An [`Instant`] is a value that somebody else read.

mod quantity;
mod random;
mod time;

pub use quantity::{BitRate, Bytes, ParseQuantityError, Percent};
pub use random::Stream;
pub use time::{Instant, Nanos};
