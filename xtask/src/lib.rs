//! Chores of this repository.
//!
//! `cargo xtask sweep` runs the program at random points and holds every record against what must be
//! true of it, by formulas of its own: docs/sweep.md.

pub mod sweep {
    //! Points drawn over the whole factor space, run by the real program, their records held against laws that no
    //! correct record breaks.

    pub mod generate;
    pub mod laws;
    pub mod point;
    mod record;
    pub mod run;
    pub mod shrink;
    pub mod summary;
    mod wire;
}
