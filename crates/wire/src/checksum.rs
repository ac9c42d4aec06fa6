//! Sums by which a receiver tells a damaged packet.

mod internet;

pub use internet::Internet;
