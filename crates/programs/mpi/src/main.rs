//! `fabricmark-mpi`: benchmarks of MPI operations, started by the launcher of the MPI library (`mpirun`, `srun`).
//!
//! It links the MPI library; `fabricmark` does not. Start reading at `operation.rs`, the hot loop; `job.rs` directs the
//! ranks, `tally.rs` sums up their times, and `table.rs` prints them.
#![expect(clippy::print_stderr, reason = "this is the program: it prints")]
#![cfg_attr(has_mpi, expect(clippy::print_stdout, reason = "this is the program: it prints"))]

#[cfg(has_mpi)]
mod buffer;
#[cfg(has_mpi)]
mod clock;
#[cfg(has_mpi)]
mod facts;
#[cfg(has_mpi)]
mod job;
#[cfg(has_mpi)]
mod operation;
#[cfg(has_mpi)]
mod options;
#[cfg(has_mpi)]
mod program;
#[cfg(has_mpi)]
#[expect(unsafe_code, reason = "calls of MPI")]
mod sys;
#[cfg(has_mpi)]
mod table;
#[cfg(has_mpi)]
mod tally;
#[cfg(has_mpi)]
mod traffic;
#[cfg(has_mpi)]
mod verify;

use std::process::ExitCode;

#[cfg(has_mpi)]
fn main() -> ExitCode {
    program::run(options::parse())
}

/// What to install, if this program was built without MPI.
#[cfg(not(has_mpi))]
fn main() -> ExitCode {
    eprintln!(
        "this fabricmark-mpi was built without MPI; run `apt-get install libopenmpi-dev \
         openmpi-bin` (or `libmpich-dev mpich`), then `make mpi`"
    );
    ExitCode::from(66)
}
