//! Quantities as types, with parsers and printers.
//!
//! Each type is a newtype over a base unit (bytes, bit/s, nanoseconds), so that bits and bytes cannot be confused.
//! There are no clocks here: an [`Instant`] is a value that the caller has read from one.

mod quantity;
mod random;
mod time;

pub use quantity::{BitRate, Bytes, ParseQuantityError, Percent};
pub use random::Stream;
pub use time::{BIT_NS, Instant, Nanos};
