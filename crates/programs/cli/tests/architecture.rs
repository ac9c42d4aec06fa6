//! Checks the rules of ARCHITECTURE.md against the source tree.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fabricmark_plan::{Factor, Figure, Kind, Pattern, Section};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// Maximum lines of a source file; a longer one should be split.
const LINES_MAX: usize = 700;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|name| name == extension) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(ROOT).join("crates"), "rs", &mut found);
    files(&Path::new(ROOT).join("bench"), "rs", &mut found);
    files(&Path::new(ROOT).join("xtask"), "rs", &mut found);
    assert!(found.len() > 50);
    found
}

/// The folders of all crates of a layer.
fn layer(name: &str) -> Vec<PathBuf> {
    let crates = fs::read_dir(Path::new(ROOT).join("crates").join(name)).unwrap();
    crates.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Allowed dependencies of each crate, from the table in ARCHITECTURE.md: `| `stats` | what it is | units |`.
fn allowed_arrows() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(&Path::new(ROOT).join("ARCHITECTURE.md"));
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let [name, _, allowed, ..] = cells.as_slice() else { return None };
        let allowed = allowed.split(", ").filter(|name| *name != "nothing").map(str::to_owned);
        Some((name.trim_matches('`').to_owned(), allowed.collect()))
    });
    rows.collect()
}

#[test]
fn arrows_point_only_where_the_architecture_says() {
    let allowed = allowed_arrows();
    let mut seen = BTreeSet::new();
    let name = |folder: &PathBuf| folder.file_name().unwrap().to_str().unwrap().to_owned();
    let core: BTreeSet<String> = layer("core").iter().map(name).collect();
    let folders = ["core", "edge", "programs", "testing"].into_iter().flat_map(layer);
    for folder in folders.chain(["bench", "xtask"].map(|name| Path::new(ROOT).join(name))) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest: toml::Table = read(&folder.join("Cargo.toml")).parse().unwrap();
        let allowed = allowed.get(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in manifest["dependencies"].as_table().unwrap().keys() {
            if let Some(inner) = dependency.strip_prefix("fabricmark-") {
                assert!(allowed.contains(inner), "{name} -> {inner} is not in the table");
                let is_inwards = !core.contains(&name) || core.contains(inner);
                assert!(is_inwards, "{name} is a core crate, and {inner} is none");
            }
        }
        seen.insert(name);
    }
    assert_eq!(seen, allowed.keys().cloned().collect(), "the table names the crates that exist");
}

#[test]
fn unsafe_code_lives_in_files_named_sys() {
    for path in sources() {
        let is_sys = path.file_name().is_some_and(|name| name == "sys.rs");
        let code = read(&path);
        let is_unsafe = code.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains(concat!("unsafe", " {")) || code.contains(concat!("unsafe", " fn"))
        });
        assert!(is_sys || !is_unsafe, "{} has unsafe code", path.display());
    }
}

/// The root's clippy.toml bans clocks, sockets, files and threads; outer layers lift the bans by files of their own.
#[test]
fn core_crates_do_not_lift_the_bans() {
    for folder in layer("core") {
        let file = folder.join("clippy.toml");
        assert!(!file.exists(), "{} lifts the bans of a core crate", file.display());
    }
    assert!(read(&Path::new(ROOT).join("clippy.toml")).contains("std::time::Instant::now"));
}

#[test]
fn no_source_file_outgrows_its_reader() {
    for path in sources() {
        let lines = read(&path).lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}

#[test]
fn every_dependency_has_its_line_of_reason() {
    let text = read(&Path::new(ROOT).join("Cargo.toml"));
    let (_, rest) = text.split_once("[workspace.dependencies]").unwrap();
    let (dependencies, _) = rest.split_once("\n[").unwrap();
    for line in dependencies.lines().filter(|line| line.contains(" = ")) {
        let is_ours = line.starts_with("fabricmark-");
        assert!(is_ours || line.contains(" # "), "no reason: {line}");
    }
}

/// A row of the table of factors: key, meaning and levels, default.
fn row(factor: Factor) -> String {
    let (spec, about) = (factor.spec(), factor.about());
    let is_told = about.contains("at most") || about.contains("`true`");
    let levels = match spec.kind {
        Kind::Choice(choices) => {
            let words = choices.iter().map(|choice| match choice.about {
                "" => format!("`{}`", choice.word),
                about => format!("`\"{}\"`: {about}", choice.word),
            });
            let separator = if choices[0].about.is_empty() { ", " } else { "; " };
            format!(": {}", words.collect::<Vec<_>>().join(separator))
        }
        Kind::Number(least, most) => format!("; {least} to {most}"),
        _ if is_told => String::new(),
        Kind::Size(_, most) => format!("; at most {most}"),
        Kind::Duration(_, most) => format!("; at most `\"{most}\"`"),
        Kind::Truth => ": `true`, `false`".to_owned(),
        Kind::Rate => ", such as `\"100M\"`".to_owned(),
        Kind::Name | Kind::Address | Kind::Grammar(_) => String::new(),
    };
    let none = if spec.has_none { "; `\"none\"`" } else { "" };
    let unset = if spec.is_required { "required" } else { spec.unset };
    format!("| `{factor}` | {about}{levels}{none} | {unset} |\n")
}

/// A row of the table of figures: name, meaning, patterns that yield it, key.
fn figure_row(figure: Figure) -> String {
    let spec = figure.spec();
    let patterns: Vec<&str> = spec.patterns.iter().map(|pattern| pattern.word()).collect();
    let patterns =
        if spec.patterns == Pattern::ALL { "all".to_owned() } else { patterns.join(", ") };
    format!("| `{}` | {} | {patterns} | `{}` |\n", figure.name(), figure.about(), spec.key)
}

#[test]
fn the_plan_files_page_has_the_tables_of_the_factors_and_figures() {
    let path = Path::new(ROOT).join("docs/plan-file.md");
    let page = read(&path);
    let of_section = |section| {
        let factors =
            Factor::ALL.into_iter().filter(move |factor| factor.spec().section == section);
        factors.map(row).collect::<String>()
    };
    let factors = Section::ALL.map(of_section);
    let figures = [Figure::ALL.map(figure_row).concat()];
    let current = with_tables(&page, "| Key | Levels | Default |\n|---|---|---|\n", &factors);
    let head = "| Figure | Meaning | Patterns | Key |\n|---|---|---|---|\n";
    let current = with_tables(&current, head, &figures);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &current).unwrap();
    } else {
        assert!(page == current, "UPDATE_SNAPSHOTS=1 writes the tables of docs/plan-file.md anew");
    }
}

/// Replaces the rows below each table with this header.
fn with_tables(page: &str, head: &str, tables: &[String]) -> String {
    let mut parts = page.split(head);
    let mut current = parts.next().unwrap().to_owned();
    for rows in tables {
        let old = parts.next().unwrap_or_else(|| panic!("the page lacks a table {head}"));
        current += &format!("{head}{rows}");
        let rest = old.lines().skip_while(|line| line.starts_with("| "));
        current.extend(rest.map(|line| format!("{line}\n")));
    }
    current
}
