//! Access to kernel files below a root directory: `/`, or a fixture in tests.

use std::fs;
use std::path::PathBuf;

use super::finding::Evidence;

const NO_SUCH_FILE: &str = "no such file";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Path without the root.
    pub path: String,
    /// Trimmed content, or the reason that it could not be read.
    pub text: Result<String, String>,
}

impl File {
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref().ok()
    }

    pub fn is_missing(&self) -> bool {
        self.text.as_ref().is_err_and(|reason| reason == NO_SUCH_FILE)
    }

    pub fn number(&self) -> Option<i64> {
        self.text()?.parse().ok()
    }

    pub fn count(&self) -> Option<u64> {
        self.text()?.parse().ok()
    }

    pub fn counts(&self) -> Vec<u64> {
        let words = self.text().unwrap_or_default().split_whitespace();
        words.map_while(|word| word.parse().ok()).collect()
    }

    /// The number after `key` and white space or a colon, as in /proc/meminfo and /proc/vmstat.
    pub fn count_of(&self, key: &str) -> Option<u64> {
        self.text()?.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()?.trim_end_matches(':') == key).then(|| words.next()?.parse().ok())?
        })
    }
}

/// Merges files with equal content into one piece of evidence: the first path and the number of others.
pub(super) fn grouped(files: &[File]) -> Vec<Evidence> {
    let mut groups: Vec<(&File, usize)> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|(first, _)| first.text == file.text) {
            Some((_, count)) => *count += 1,
            None => groups.push((file, 1)),
        }
    }
    let evidence = groups.into_iter().map(|(first, count)| {
        let mut evidence = Evidence::from(first);
        if count > 1 {
            evidence.source = format!("{} and {} more", evidence.source, count - 1);
        }
        evidence
    });
    evidence.collect()
}

/// Root directory of all paths.
#[derive(Clone, Debug)]
pub(crate) struct Tree(pub PathBuf);

impl Tree {
    fn place(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.place(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => NO_SUCH_FILE.to_owned(),
            std::io::ErrorKind::PermissionDenied => "needs root".to_owned(),
            _ => error.to_string(),
        })
    }

    /// Reads a file. Invalid UTF-8 is replaced, because a process name may contain any bytes.
    pub fn file(&self, path: &str) -> File {
        let text = self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        File { path: path.to_owned(), text }
    }

    pub fn files_in<const N: usize>(&self, folder: &str, names: [&str; N]) -> [File; N] {
        names.map(|name| self.file(&format!("{folder}/{name}")))
    }

    pub fn has(&self, path: &str) -> bool {
        self.place(path).exists()
    }

    pub fn is_folder(&self, path: &str) -> bool {
        self.place(path).is_dir()
    }

    /// Names in a directory, sorted by length first (`cpu2` before `cpu10`); empty if there is no such directory.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names
    }

    /// Existing files whose path matches `pattern`; each component may contain one `*`.
    pub fn files(&self, pattern: &str) -> Vec<File> {
        let mut paths = vec![String::new()];
        for part in pattern.trim_start_matches('/').split('/') {
            let Some((head, tail)) = part.split_once('*') else {
                paths.iter_mut().for_each(|path| *path = format!("{path}/{part}"));
                continue;
            };
            let fits =
                |name: &String| name.strip_prefix(head).is_some_and(|rest| rest.ends_with(tail));
            paths = paths
                .iter()
                .flat_map(|path| {
                    let names = self.names(path).into_iter().filter(fits);
                    names.map(move |name| format!("{path}/{name}"))
                })
                .collect();
        }
        paths.iter().filter(|path| self.has(path)).map(|path| self.file(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl File {
        pub fn of(path: &str, text: &str) -> Self {
            Self { path: path.to_owned(), text: Ok(text.trim().to_owned()) }
        }

        pub fn missing(path: &str) -> Self {
            Self { path: path.to_owned(), text: Err(NO_SUCH_FILE.to_owned()) }
        }
    }

    #[test]
    fn a_pattern_finds_files_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("cpu10/x", "c\n"), ("cpu2/x", "b"), ("cpufreq/y", "n"), ("z/x", "n")]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = Tree(folder.path().to_owned()).files("/cpu*/x");
        assert_eq!(found, [File::of("/cpu2/x", "b"), File::of("/cpu10/x", "c")]);
        assert_eq!(Tree(folder.path().to_owned()).file("/none"), File::missing("/none"));
    }

    #[test]
    fn files_that_say_the_same_are_one_piece_of_evidence() {
        let files = [File::of("/a", "1"), File::of("/b", "2"), File::of("/c", "1")];
        let expected = [Evidence::new("/a and 1 more", "1"), Evidence::new("/b", "2")];
        assert_eq!(grouped(&files), expected);
    }

    #[test]
    fn a_count_is_found_behind_its_whole_key() {
        let file = File::of("/proc/meminfo", "SwapTotalX: 1 kB\nSwapTotal:   2097148 kB\nodd");
        assert_eq!(file.count_of("SwapTotal"), Some(2_097_148));
        assert_eq!(file.count_of("Swap"), None);
        assert_eq!(file.count_of("odd"), None);
    }
}
