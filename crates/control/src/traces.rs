//! Reads the files of traces that a plan's points name.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fabricmark_plan::{Plan, Trace, TraceError};

/// Longest file of a trace: the most departures that a trace may have, at 40 bytes a line.
const TRACE_BYTES_MAX: u64 = 4 << 20;

/// Why a plan's traces are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// The file cannot be read.
    #[error("cannot read the trace {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is longer than any trace.
    #[error("the trace {} is longer than 4 MiB: is it one?", .0.display())]
    TooLong(PathBuf),
    /// The file is not a trace; names the line.
    #[error("{}: {source}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        source: TraceError,
    },
}

/// Reads the traces into the plan; `folder` is where relative names begin, that of the plan file.
pub fn read_traces(plan: &mut Plan, folder: &Path) -> Result<(), TraceFileError> {
    let names: Vec<String> = plan.trace_files().into_iter().map(str::to_owned).collect();
    for name in names {
        let trace = read(folder.join(&name))?;
        plan.traces.insert(name, trace);
    }
    Ok(())
}

fn read(file: PathBuf) -> Result<Trace, TraceFileError> {
    let mut text = String::new();
    let read =
        File::open(&file).and_then(|open| open.take(TRACE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(source) => Err(TraceFileError::Unreadable { file, source }),
        Ok(bytes) if bytes as u64 > TRACE_BYTES_MAX => Err(TraceFileError::TooLong(file)),
        Ok(_) => Trace::parse(&text).map_err(|source| TraceFileError::Broken { file, source }),
    }
}
