//! The documents of this repository: their shell commands, and the options that they name.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Root of the repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// A document in Markdown.
#[derive(Clone, Debug)]
pub struct Document {
    /// Path below the root, such as `docs/agent.md`.
    pub name: String,
    /// Content.
    pub text: String,
}

/// A fenced block of a document.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// Document and line, such as `docs/agent.md:12`.
    pub place: String,
    /// What follows the fence: a language, and for `sh` why no test runs it.
    pub info: &'a str,
    lines: Vec<&'a str>,
}

/// A command in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Host before the prompt (`node2$`); empty for a plain `$`.
    pub host: String,
    /// The command, on one line.
    pub text: String,
}

/// A command line of a program in a document.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The document, with the line of a block.
    pub place: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Whether it stands in a block; in the text, arguments may be left out or be placeholders.
    pub is_whole: bool,
}

/// The document of this name.
pub fn document(name: &str) -> Document {
    documents().into_iter().find(|document| document.name == name).expect("a document")
}

/// All documents.
#[expect(clippy::disallowed_methods, reason = "only tests use it")]
pub fn documents() -> Vec<Document> {
    let mut names = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned).to_vec();
    for folder in ["docs", "docs/notebook"] {
        let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let pages = files.filter(|file| file.ends_with(".md"));
        names.extend(pages.map(|file| format!("{folder}/{file}")));
    }
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&name)).unwrap();
        Document { name, text }
    };
    names.into_iter().map(read).collect()
}

impl Document {
    /// The fenced blocks.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let (mut blocks, mut open) = (Vec::new(), None);
        for (index, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    // It would be inline code (CommonMark, 4.5).
                    assert!(!info.contains('`'), "{}: a backtick after a fence", self.name);
                    let place = format!("{}:{}", self.name, index + 1);
                    open = Some(Block { place, info, lines: Vec::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.lines.push(line),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.name);
        blocks
    }

    /// The text outside the blocks.
    pub fn prose(&self) -> String {
        let mut is_inside = false;
        let lines = self.text.lines().filter(|line| {
            let is_fence = line.starts_with("```");
            is_inside ^= is_fence;
            !is_inside && !is_fence
        });
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The text between backticks outside the blocks, each on one line.
    pub fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        let of_paragraph = |text: &str| {
            let spans = text.split('`').skip(1).step_by(2);
            spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        prose.split("\n\n").flat_map::<Vec<String>, _>(of_paragraph).collect()
    }

    /// The options in the first column of tables whose header begins with `Option`.
    pub fn option_rows(&self) -> Vec<&str> {
        let mut is_inside = false;
        let rows = self.text.lines().filter_map(|line| {
            let cell = line.strip_prefix('|').and_then(|rest| rest.split('|').next());
            is_inside = cell.is_some_and(|cell| is_inside || cell.trim() == "Option");
            cell.filter(|_| is_inside)
        });
        rows.flat_map(options).collect()
    }
}

impl Block<'_> {
    /// Its lines.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Its shell commands: the lines after a prompt in `console`, all lines in `sh`.
    pub fn commands(&self) -> Vec<Command> {
        let is_prompted = match self.info.split(' ').next() {
            Some("console") => true,
            Some("sh") => false,
            _ => return Vec::new(),
        };
        let mut found: Vec<Command> = Vec::new();
        let mut continues = false;
        for line in &self.lines {
            let text = line.strip_suffix('\\').unwrap_or(line).trim();
            match (found.last_mut(), line.split_once("$ ")) {
                (Some(last), _) if continues => last.text = format!("{} {text}", last.text),
                (_, Some((host, command))) if is_prompted && is_name(host) => {
                    let text = command.strip_suffix('\\').unwrap_or(command).trim().to_owned();
                    found.push(Command { host: host.to_owned(), text });
                }
                _ if is_prompted || text.is_empty() || text.starts_with('#') => continue,
                _ => found.push(Command { host: String::new(), text: text.to_owned() }),
            }
            continues = line.ends_with('\\');
        }
        found
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
}

/// The words of the commands of a shell line, such as those of a pipe, without redirections and comments; `None` if a
/// quote is not closed.
pub fn simple_commands(line: &str) -> Option<Vec<Vec<String>>> {
    let words = shlex::split(line)?;
    let parts = words.split(|word| ["|", "||", "&&", ";", "&"].contains(&word.as_str()));
    let is_argument = |word: &&String| !word.starts_with('>');
    Some(parts.map(|words| words.iter().take_while(is_argument).cloned().collect()).collect())
}

/// The options in a text, such as `--json`, without dashes.
pub fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '-');
    let names = words.filter_map(|word| word.strip_prefix("--"));
    names.filter(|name| name.starts_with(|one: char| one.is_ascii_alphanumeric()))
}

/// The command lines of a program in all documents, also those that another program starts, such as `taskset`.
pub fn invocations(program: &str) -> Vec<Invocation> {
    let is_program =
        |word: &String| word.strip_prefix("target/release/").unwrap_or(word) == program;
    let mut found = Vec::new();
    for document in documents() {
        let blocks = document.blocks();
        let in_blocks = blocks.iter().flat_map(|block| {
            let commands = block.commands().into_iter();
            commands.map(|command| (block.place.clone(), command.text, true))
        });
        let spans = document.spans().into_iter();
        let in_text = spans.map(|span| (document.name.clone(), span, false));
        for (place, text, is_whole) in in_blocks.chain(in_text) {
            let commands = simple_commands(&text);
            assert!(!is_whole || commands.is_some(), "{place}: a quote is not closed: {text}");
            for words in commands.into_iter().flatten() {
                let starts = (0..words.len()).filter(|&at| is_program(&words[at]));
                let starts = starts.filter(|&at| is_whole || at == 0);
                found.extend(starts.map(|at| Invocation {
                    place: place.clone(),
                    words: words[at..].to_vec(),
                    is_whole,
                }));
            }
        }
    }
    found
}

/// Asserts that a program accepts its command lines in all documents.
pub fn assert_accepted<T, E: Display>(program: &str, parse: impl Fn(&[String]) -> Result<T, E>) {
    let mut lines = invocations(program);
    // The text also names the program alone.
    lines.retain(|line| line.is_whole || line.words.len() > 1);
    assert!(!lines.is_empty(), "no document has a command line of {program}");
    for Invocation { place, words, .. } in lines {
        if let Err(error) = parse(&words) {
            panic!("{place}: {}: {error}", words.join(" "));
        }
    }
}

/// Asserts that the rows of options in a document are these.
pub fn assert_rows<'a>(name: &str, options: impl Iterator<Item = &'a str>) {
    let document = document(name);
    let rows: BTreeSet<&str> = document.option_rows().into_iter().collect();
    assert_eq!(rows, options.collect(), "{name}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_hosts_and_continue_after_a_backslash() {
        let text = "| A |\n| `--a` |\n\nA `run --to\nHOST` and:\n\n```console\n$ one --a \\\n    -b | two\nsaid $ here\nnode2$  three\n```\n\n\
                    ```sh untested\n# no\nfour 'x y'   # five\n```\n| Option | |\n|---|---|\n| `--c D`, `-e` | `--f` |\n";
        let document = Document { name: "a.md".to_owned(), text: text.to_owned() };
        let blocks = document.blocks();
        let commands: Vec<Command> = blocks.iter().flat_map(Block::commands).collect();
        let expected = [("", "one --a -b | two"), ("node2", "three"), ("", "four 'x y'   # five")];
        let expected = expected.map(|(host, text)| (host.to_owned(), text.to_owned()));
        assert_eq!(commands, expected.map(|(host, text)| Command { host, text }));
        assert_eq!((blocks[0].place.as_str(), blocks[1].info), ("a.md:7", "sh untested"));
        assert_eq!(
            simple_commands(&commands[0].text).unwrap(),
            [vec!["one", "--a", "-b"], vec!["two"]]
        );
        assert_eq!(simple_commands(&commands[2].text).unwrap(), [["four", "x y"]]);
        assert_eq!(simple_commands("a --b=c > d && e").unwrap(), [vec!["a", "--b=c"], vec!["e"]]);
        assert_eq!(document.spans(), ["--a", "run --to HOST", "--c D", "-e", "--f"]);
        assert_eq!(document.option_rows(), ["c"]);
    }
}
