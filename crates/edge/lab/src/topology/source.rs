//! A topology file with the files that it names, as it is handed to the process that holds the lab.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fabricmark_link::LinkWords;
use serde::{Deserialize, Serialize};

use super::{Topology, TopologyError};

/// What stands in a topology file and in the traces that it names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    text: String,
    /// By the names of their files.
    traces: BTreeMap<String, String>,
}

impl Source {
    /// Takes what stands in a topology file, checks it, and reads the traces that it names, relative to
    /// `folder`.
    pub fn read(text: String, folder: &Path) -> Result<Self, TopologyError> {
        let mut traces = BTreeMap::new();
        let mut read = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).map_err(|error| error.to_string())?;
            traces.insert(file.to_owned(), text.clone());
            Ok(text)
        };
        Topology::parse_with(&text, &mut read)?;
        Ok(Self { text, traces })
    }

    /// The topology.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let mut read = |file: &str| {
            self.traces.get(file).cloned().ok_or_else(|| "it did not come along".to_owned())
        };
        Topology::parse_with(&self.text, &mut read)
    }
}

/// Hands words the text of the file that their `trace` names.
pub(crate) fn fill_trace(
    words: &mut LinkWords,
    read: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), String> {
    let Some(file) = words.trace_file().map(str::to_owned) else { return Ok(()) };
    let text = read(&file).map_err(|error| format!("cannot read the trace {file}: {error}"))?;
    words.set_trace(&text).map_err(|error| format!("{file}: {error}"))
}
