//! Tests that the documents and the commands agree: command lines, and options in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, Parser};
use fabricmark_testkit::documents::{Document, ROOT, documents, invocations, options};

use crate::options::Options;

/// The pages in docs/ that describe the options of a command, or of all commands below it. `measure` also has the
/// factors of a plan.
const PAGES: [(&str, &[&str]); 16] = [
    ("run", &["plan-file"]),
    ("measure", &["measure", "agent", "iperf3"]),
    ("report", &["plan-file"]),
    ("export", &["plan-file"]),
    ("compare", &["plan-file"]),
    ("doctor", &["doctor"]),
    ("hosts", &["hosts", "settings"]),
    ("agent", &["agent", "iperf3", "netperf", "stamp", "apdu"]),
    ("pair", &["security"]),
    ("lab", &["lab", "simulation", "rdma"]),
    ("relay", &["relay"]),
    ("rtt", &["stamp", "apdu"]),
    ("ceiling", &["ceiling"]),
    ("wire", &["wire"]),
    ("papers", &["papers", "claims", "plan-file"]),
    ("shop", &["shop"]),
];

/// Pages about other programs of this repository, whose own tests compare their options.
const OTHER_PAGES: [&str; 3] = ["bench", "mpi", "sweep"];

/// Options of other programs that a page names without their program.
const OTHERS: [(&str, &[&str]); 3] = [
    (
        "iperf3",
        &[
            "cport",
            "dont-fragment",
            "fq-rate",
            "get-server-output",
            "logfile",
            "sctp",
            "udp-counters-64bit",
        ],
    ),
    ("netperf", &["enable-burst", "enable-demo"]),
    ("shop", &["customers-for"]),
];

fn page(document: &Document) -> &str {
    document.name.trim_start_matches("docs/").trim_end_matches(".md")
}

/// All commands by their path, such as `lab up`.
fn commands() -> BTreeMap<String, Command> {
    fn add(command: &Command, path: &str, found: &mut BTreeMap<String, Command>) {
        for one in command.get_subcommands() {
            let path = format!("{path} {}", one.get_name()).trim_start().to_owned();
            add(one, &path, found);
            found.insert(path, one.clone());
        }
    }
    let mut found = BTreeMap::new();
    add(&Options::command(), "", &mut found);
    found
}

/// Names of the options of a command, without dashes.
fn names(command: &Command) -> impl Iterator<Item = &str> {
    let of = |one| Arg::get_long_and_visible_aliases(one).unwrap_or_default();
    command.get_arguments().flat_map(of).chain(["help"])
}

/// The command that a text names first, such as `lab up` of `fabricmark lab up FILE`, with its path.
fn named<'a>(
    text: &str,
    commands: &'a BTreeMap<String, Command>,
) -> Option<(&'a String, &'a Command)> {
    let words: Vec<&str> = text.split(' ').skip_while(|word| *word == "fabricmark").collect();
    let paths = (1..=words.len().min(2)).rev().map(|count| words[..count].join(" "));
    paths.into_iter().find_map(|path| commands.get_key_value(&path))
}

#[test]
fn every_command_line_of_the_documents_is_accepted() {
    let lines: Vec<_> =
        invocations("fabricmark").into_iter().filter(|line| line.is_whole).collect();
    assert!(lines.len() > 100, "only {} were found", lines.len());
    for document in documents() {
        let indented = document.prose().lines().any(|line| line.starts_with("    fabricmark "));
        assert!(!indented, "{}: use a block marked `console` for commands", document.name);
    }
    for line in lines {
        let (place, text) = (&line.place, line.words.join(" "));
        if let Err(error) = Options::try_parse_from(&line.words) {
            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{place}: {text}: {error}");
        }
        for word in line.words.iter().filter(|word| word.starts_with("plans/")) {
            assert!(Path::new(ROOT).join(word).exists(), "{place}: there is no {word}");
        }
    }
}

#[test]
fn the_manual_has_every_command_and_option() {
    let manual = String::from_utf8(crate::manual::page(Options::command())).unwrap();
    let sections: BTreeMap<&str, &str> = manual
        .split(".SH FABRICMARK ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap())
        .collect();
    for (path, command) in commands() {
        let title = path.to_uppercase().replace('-', "\\-");
        let section = sections.get(title.as_str());
        assert_eq!(section.is_none(), command.is_hide_set(), "{path}");
        let Some(section) = section else { continue };
        for option in command.get_arguments().filter(|one| !one.is_hide_set()) {
            let Some(name) = option.get_long() else { continue };
            let name = format!("\\-\\-{}", name.replace('-', "\\-"));
            assert!(section.contains(&name), "{path}: no {name} in {section}");
        }
    }
}

#[test]
fn every_option_is_described_in_a_page_of_its_command() {
    let spans: BTreeMap<String, String> = documents()
        .iter()
        .map(|document| (page(document).to_owned(), document.spans().join("\n")))
        .collect();
    let plan_file = &spans["plan-file"];
    let mut missing = Vec::new();
    for (path, command) in commands() {
        let pages = PAGES.iter().find(|(known, _)| path.split(' ').next() == Some(known));
        let pages = pages.map(|(_, pages)| *pages).unwrap_or_default();
        for option in command.get_arguments().filter(|one| !one.is_hide_set()) {
            let Some(name) = option.get_long() else { continue };
            let is_factor = option.get_help_heading() == Some("Levels")
                && plan_file.lines().any(|span| span == option.get_id().as_str());
            let is_described =
                pages.iter().any(|page| options(&spans[*page]).any(|one| one == name));
            if !is_factor && !is_described {
                missing.push(format!("{path} --{name}: not in {}", pages.join(", ")));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_option_that_a_document_names_exists() {
    let commands = commands();
    let all: BTreeSet<&str> = commands.values().flat_map(names).collect();
    let mut unknown = Vec::new();
    for document in documents() {
        let own = PAGES.iter().filter(|(_, pages)| pages.contains(&page(&document)));
        let own: BTreeSet<&str> = own.map(|(command, _)| *command).collect();
        let is_own = |path: &str| path.split(' ').next().is_some_and(|first| own.contains(first));
        let here: BTreeSet<&str> = commands
            .iter()
            .filter(|(path, _)| is_own(path))
            .flat_map(|(_, command)| names(command))
            .collect();
        for row in document.option_rows().into_iter().filter(|_| !own.is_empty()) {
            if !here.contains(row) {
                unknown.push(format!("{}: the row --{row}", document.name));
            }
        }
        let others = OTHERS.iter().filter(|(known, _)| *known == page(&document));
        let others: BTreeSet<&str> = others.flat_map(|(_, options)| *options).copied().collect();
        for span in document.spans() {
            let command = named(&span, &commands);
            let is_placeholder = |word: &str| word.chars().all(char::is_uppercase);
            let first = span.strip_prefix("fabricmark ").and_then(|rest| rest.split(' ').next());
            if command.is_none() && first.is_some_and(|first| !is_placeholder(first)) {
                unknown.push(format!("{}: no command: `{span}`", document.name));
            }
            // After `--` stands another command line.
            let span = span.split(" -- ").next().unwrap_or_default();
            let is_known = |option: &str| match command {
                Some((_, command)) => names(command).any(|name| name == option),
                None => all.contains(option) || others.contains(option),
            };
            let is_ours = span.starts_with("--") && !OTHER_PAGES.contains(&page(&document))
                || command.is_some();
            for option in options(span).filter(|option| is_ours && !is_known(option)) {
                unknown.push(format!("{}: --{option} in `{span}`", document.name));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
