//! Models of message passing, fitted to measured times, and what they predict for collective operations.
//!
//! [`Line`] is the model of Hockney (The communication challenge for MPP: Intel Paragon and Meiko CS-2, Parallel
//! Computing 20, 1994): a message of m bytes takes α + m/β. It is also that of LogGP (Alexandrov, Ionescu, Schauser,
//! Scheiman, LogGP: Incorporating long messages into the LogP model, SPAA 1995): half a round trip takes L + 2o + (m-1)G,
//! and messages in a burst leave every g + (m-1)G. L and o cannot be told apart by these benchmarks.
//!
//! [`predictions`] are sums of the times of messages that an algorithm sends one after the other (Thakur, Rabenseifner,
//! Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005). They leave out the time to add
//! payloads.

mod algorithm;
mod fit;

pub use algorithm::{Prediction, predictions};
pub use fit::{Line, Model, Piece};
