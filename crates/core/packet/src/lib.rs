//! Packets as bytes.
//!
//! Packets are built by [`build`] and taken apart by [`dissect`], from and into the files of
//! [`capture`]; [`diagram`] draws them.
//!
//! Deliberately not here: a header on its own (the crate header), and what a wire can carry at most
//! (the crate wire), by whose lengths packets are built and tested.

pub mod build;
pub mod capture;
pub mod diagram;
pub mod dissect;
