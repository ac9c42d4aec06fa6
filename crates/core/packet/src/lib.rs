//! Builds, dissects, captures and draws packets.
//!
//! [`build`] creates packets and [`dissect`] parses them; [`capture`] writes and reads capture files; [`diagram`]
//! draws headers and packets as text. Single headers are in the crate header. The crate wire computes what a link can
//! carry; its packet lengths are those of the packets built here.

pub mod build;
pub mod capture;
pub mod diagram;
pub mod dissect;
