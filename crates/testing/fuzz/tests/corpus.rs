//! Replays the corpus of each fuzz target.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "shown where the test fails: which bytes did it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fabricmark_fuzz::TARGETS;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz");

/// Limits per corpus; larger corpora belong on a machine that fuzzes all day.
const FILES_MAX: usize = 200;
const BYTES_MAX: usize = 500_000;

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(FUZZ).join("corpus").join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_corpus_file_is_replayed() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!((1..=FILES_MAX).contains(&files.len()), "{name} has {} files", files.len());
        let mut bytes = 0;
        for path in files {
            let content = fs::read(&path).unwrap();
            bytes += content.len();
            // On a failure, the last printed name is that of the input.
            println!("{}", path.display());
            target(&content);
        }
        assert!(bytes <= BYTES_MAX, "{name} has {bytes} bytes");
    }
}

#[test]
fn every_target_has_a_binary_and_a_corpus_and_nothing_else_has() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let manifest = fs::read_to_string(Path::new(FUZZ).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let binaries = manifest["bin"].as_array().unwrap();
    let binaries = binaries.iter().map(|binary| binary["name"].as_str().unwrap().to_owned());
    assert_eq!(binaries.collect::<BTreeSet<_>>(), targets);
    let corpora = fs::read_dir(Path::new(FUZZ).join("corpus")).unwrap();
    let corpora = corpora.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(corpora.collect::<BTreeSet<_>>(), targets);
}
