//! Developer tasks of this repository.
//!
//! `cargo xtask sweep` runs the program at random points and checks every record against invariants, by formulas of
//! its own: docs/sweep.md.

pub mod sweep {
    //! Random points over the whole factor space, run by the real program; their records are checked against laws that
    //! every correct record satisfies.

    pub mod generate;
    pub mod laws;
    pub mod point;
    mod record;
    pub mod run;
    pub mod shrink;
    pub mod summary;
    mod wire;
}
