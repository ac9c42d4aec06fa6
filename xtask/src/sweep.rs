//! The random sweep: points drawn over the whole factor space, run by the real program, their records
//! held against laws that no correct record breaks.

pub mod generate;
pub mod laws;
pub mod point;
pub mod record;
pub mod run;
pub mod shrink;
pub mod summary;
pub mod wire;
