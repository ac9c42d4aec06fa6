//! Published figures for a terminal or as JSON: as printed, with their modelled limits.

use std::collections::BTreeSet;

use fabricmark_papers::{self as papers, Cell, Limit, Paper};
use serde_json::{Value, json};

use crate::grid::{Side, grid};
use crate::label;
use crate::number::fixed;
use crate::text::paragraph;

/// Selects figures of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperPart<'a> {
    /// All tables, then the text.
    All,
    /// A table by its number, such as `IV`.
    Table(&'a str),
    /// Figures stated in the text.
    Text,
}

/// Why no figures can be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPaper {
    /// There is no such paper; with the known ones.
    #[error("unknown paper `{0}`; use one of {1}")]
    Paper(String, String),
    /// The paper has no such table; with its tables.
    #[error("{0} has no table `{1}`; its tables: {2}")]
    Table(&'static str, String, String),
}

/// Figures of one paper with their limits.
#[derive(Clone, Debug)]
pub struct PaperView {
    paper: &'static Paper,
    figures: Vec<Figure>,
}

/// All papers with their tables, numbers of figures and contradictions, for a terminal.
pub fn papers_text(width: usize) -> String {
    let mut out = String::new();
    for paper in papers::papers() {
        let Paper { name, authors, title, year, .. } = paper;
        paragraph(&mut out, &format!("{name}  {authors}: {title} ({year})"), width, "    ");
        paragraph(&mut out, &format!("    {}", paper.summary), width, "    ");
        for table in paper.tables {
            paragraph(&mut out, &format!("    {}: {}", table.place, table.title), width, "      ");
        }
        let cells = papers::cells(name);
        let in_tables = cells.iter().filter(|cell| !cell.column.is_empty()).count();
        let in_text = cells.len() - in_tables;
        out.push_str(&format!("    {in_tables} figures in tables, {in_text} in the text\n\n"));
    }
    out.push_str("Contradictions within the papers:\n");
    for doubt in papers::doubts() {
        let head = format!("[{}] {}, {}", doubt.number, doubt.paper, doubt.place);
        paragraph(&mut out, &format!("{head}: {}", doubt.contradiction), width, "    ");
    }
    out
}

/// All papers with their tables, numbers of figures and contradictions, as JSON.
pub fn papers_json() -> Value {
    let papers: Vec<Value> = papers::papers()
        .iter()
        .map(|paper| {
            let tables = paper
                .tables
                .iter()
                .map(|t| json!({"place": t.place, "title": t.title, "rows": t.rows}));
            json!({
                "paper": paper.name,
                "authors": paper.authors,
                "title": paper.title,
                "year": paper.year,
                "summary": paper.summary,
                "tables": tables.collect::<Vec<_>>(),
                "figures": papers::cells(paper.name).len(),
            })
        })
        .collect();
    json!({"papers": papers, "doubts": papers::doubts()})
}

/// Names of all papers.
pub(crate) fn known_papers() -> String {
    papers::papers().iter().map(|paper| paper.name).collect::<Vec<_>>().join(", ")
}

impl PaperView {
    /// Figures of `part` of the paper `name`.
    pub fn of(name: &str, part: PaperPart<'_>) -> Result<Self, UnknownPaper> {
        let unknown = || UnknownPaper::Paper(name.to_owned(), known_papers());
        let paper = papers::paper(name).ok_or_else(unknown)?;
        let table = match part {
            PaperPart::Table(table) => Some(format!("table {table}")),
            _ => None,
        };
        if let Some(place) = &table
            && !paper.tables.iter().any(|heading| heading.place == place)
        {
            let known: Vec<&str> = paper.tables.iter().map(|heading| heading.place).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let number = place.trim_start_matches("table ").to_owned();
            return Err(UnknownPaper::Table(paper.name, number, known));
        }
        let is_shown = |cell: &&Cell| match (&table, part) {
            (Some(place), _) => cell.place == *place,
            (None, PaperPart::Text) => cell.column.is_empty(),
            (None, _) => true,
        };
        let figures = papers::cells(paper.name)
            .iter()
            .filter(is_shown)
            .map(|cell| (cell, papers::limit(paper.name, cell)))
            .collect();
        Ok(Self { paper, figures })
    }

    /// The figures for a terminal of `width` columns.
    pub fn text(&self, width: usize) -> String {
        let mut out = String::new();
        for heading in self.paper.tables {
            let figures: Vec<_> =
                self.figures.iter().filter(|(cell, _)| cell.place == heading.place).collect();
            if !figures.is_empty() {
                let Paper { name, .. } = self.paper;
                let title = format!("{name} {}: {} (published)", heading.place, heading.title);
                paragraph(&mut out, &title, width, "");
                print_table(&mut out, heading.rows, &figures, width);
                out.push('\n');
            }
        }
        let in_text: Vec<_> =
            self.figures.iter().filter(|(cell, _)| cell.column.is_empty()).collect();
        if !in_text.is_empty() {
            out.push_str(&format!("{}, stated in the text (published)\n", self.paper.name));
            out.push_str(&text_table(&in_text));
            out.push('\n');
        }
        self.print_notes(&mut out, width);
        out
    }

    /// Prints what the limits assume, and the contradictions.
    fn print_notes(&self, out: &mut String, width: usize) {
        let note = |limit: &Limit| {
            let what = if limit.is_floor { "Floor" } else { "Ceiling" };
            let assumed = match limit.assumed.as_str() {
                "" => String::new(),
                assumed => format!("; assumed: {assumed}"),
            };
            format!("{what} ({}, modelled): {}{assumed}.", limit.kind, limit.over)
        };
        let limits = self.figures.iter().filter_map(|(_, limit)| limit.as_ref());
        for note in label::distinct(limits.map(note)) {
            paragraph(out, &note, width, "  ");
        }
        let numbers: BTreeSet<u8> =
            self.figures.iter().flat_map(|(cell, _)| cell.doubts.iter().copied()).collect();
        for doubt in numbers.into_iter().filter_map(papers::doubt) {
            let note = format!("[{}] {} {}", doubt.number, doubt.contradiction, doubt.arithmetic);
            paragraph(out, &note, width, "    ");
        }
    }

    /// The figures as JSON: `published` as printed, `limit` modelled, both with their unit.
    pub fn json(&self) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|(cell, limit)| {
                let limit = limit.as_ref().map(|limit| {
                    json!({
                        "source": "modelled",
                        "is": if limit.is_floor { "floor" } else { "ceiling" },
                        "kind": limit.kind,
                        "value": limit.value,
                        "unit": cell.unit,
                        "over": limit.over,
                        "assumed": limit.assumed,
                        "efficiency": limit.efficiency(cell.value),
                    })
                });
                let mut figure = json!(cell);
                figure["limit"] = json!(limit);
                figure
            })
            .collect();
        let doubts = papers::doubts().iter().filter(|doubt| doubt.paper == self.paper.name);
        json!({
            "paper": self.paper.name,
            "figures": figures,
            "doubts": doubts.collect::<Vec<_>>(),
        })
    }
}

type Figure = (&'static Cell, Option<Limit>);

/// A column of the paper: heading, and figures with their limits.
type Column<'a> = (&'a str, Vec<&'a Figure>);

/// Prints a table, in several parts if it is too wide.
fn print_table(out: &mut String, head: &str, figures: &[&Figure], width: usize) {
    let mut rows: Vec<&str> = figures.iter().map(|(cell, _)| cell.row.as_str()).collect();
    rows.dedup();
    let mut columns: Vec<Column<'_>> = Vec::new();
    for figure in figures {
        match columns.iter_mut().find(|(name, _)| *name == figure.0.column) {
            Some((_, figures)) => figures.push(figure),
            None => columns.push((&figure.0.column, vec![figure])),
        }
    }
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let widest = (1..=rest.len())
            .rev()
            .find(|&n| is_within(&part_of_table(head, &rows, &rest[..n]), width));
        let (part, others) = rest.split_at(widest.unwrap_or(1));
        out.push_str(&part_of_table(head, &rows, part));
        if !others.is_empty() {
            out.push('\n');
        }
        rest = others;
    }
}

fn is_within(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

fn part_of_table(head: &str, rows: &[&str], columns: &[Column<'_>]) -> String {
    let mut header = vec![head.replace(' ', "\n")];
    let mut lines: Vec<Vec<String>> = rows.iter().map(|row| vec![row_name(row)]).collect();
    for (name, figures) in columns {
        let unit = figures.first().map_or("", |(cell, _)| cell.unit.as_str());
        header.push(format!("{}\n{unit}", name.replacen(' ', "\n", 1)));
        let limit = figures.iter().find_map(|(_, limit)| limit.as_ref());
        header.extend(limit.into_iter().flat_map(|limit| limit_heads(limit.is_floor)));
        for (row, line) in rows.iter().zip(&mut lines) {
            let found = figures.iter().find(|(cell, _)| cell.row == *row);
            line.push(found.map_or_else(String::new, |(cell, _)| marked(cell)));
            if limit.is_some() {
                line.extend(found.map_or_else(Default::default, |figure| limit_cells(figure)));
            }
        }
    }
    let header: Vec<_> = header.into_iter().map(|heading| (heading, Side::Right)).collect();
    grid(&header, &lines)
}

/// A row label; payloads have thousands separators, as in the papers.
fn row_name(row: &str) -> String {
    row.parse::<u32>().map_or_else(|_| row.to_owned(), |bytes| fixed(f64::from(bytes), 0))
}

fn marked(cell: &Cell) -> String {
    let marks = cell.doubts.iter().map(|n| format!("[{n}]")).collect::<String>();
    if marks.is_empty() { cell.printed.clone() } else { format!("{marks} {}", cell.printed) }
}

fn limit_heads(is_floor: bool) -> [String; 2] {
    if is_floor { ["floor", "× floor"] } else { ["ceiling", "% of\nceiling"] }.map(str::to_owned)
}

/// The limit, and the ratio of the figure to it: percent of a ceiling, multiple of a floor.
fn limit_cells((cell, limit): &Figure) -> [String; 2] {
    let Some(limit) = limit else { return Default::default() };
    let efficiency = limit.efficiency(cell.value);
    if limit.is_floor {
        let decimals = if limit.value < 100.0 { 3 } else { 1 };
        [fixed(limit.value, decimals), fixed(1.0 / efficiency, 2)]
    } else {
        [fixed(limit.value, 2), fixed(efficiency * 100.0, 2)]
    }
}

/// Figures of the text, grouped by place.
fn text_table(figures: &[&Figure]) -> String {
    let mut rows = Vec::new();
    let mut place = "";
    for figure in figures {
        let cell = figure.0;
        if cell.place != place {
            place = &cell.place;
            rows.push(vec![place.to_owned()]);
        }
        let [limit, near] = limit_cells(figure);
        let near = match &figure.1 {
            Some(limit) if limit.is_floor => format!("{near} × floor"),
            Some(_) => format!("{near} % of ceiling"),
            None => String::new(),
        };
        let row = format!("  {}", cell.row);
        rows.push(vec![row, marked(cell), cell.unit.clone(), limit, near]);
    }
    let figures = ["published", "unit", "limit", ""].map(|heading| (heading, Side::Right));
    grid(&[&[("", Side::Left)], &figures[..]].concat(), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, part: PaperPart<'_>) -> PaperView {
        PaperView::of(name, part).unwrap()
    }

    #[test]
    fn a_table_shows_each_figure_as_printed_with_ceiling_share_and_doubt() {
        let text = view("P1", PaperPart::Table("IV")).text(200);
        assert!(
            text.starts_with("P1 table IV: UDP throughput over 10GbE and IPoIB/FDR (published)\n")
        );
        let line = text.lines().find(|line| line.trim_start().starts_with("32,768")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words[..7],
            ["32,768", "6,754.10", "9,428.55", "71.63", "8,893.05", "9,606.57", "92.57"]
        );
        assert!(text.contains("[1] 109.04"), "{text}");
        assert!(text.contains("\n[1] UDP over IPv6 in datagram mode, 32 bytes"), "{text}");
        let note =
            "\nCeiling (bound, modelled): UDP over ethernet:10G,mtu=1500; assumed: the default MTU";
        assert!(text.contains(note), "{text}");
    }

    #[test]
    fn a_table_of_times_shows_the_floor_and_multiples_of_it() {
        let text = view("P1", PaperPart::Table("V")).text(200);
        let line = text.lines().find(|line| line.trim_start().starts_with("32,768")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..4], ["32,768", "114.41", "27.805", "4.11"]);
    }

    #[test]
    fn a_narrow_terminal_gets_the_table_in_parts() {
        let text = view("P1", PaperPart::Table("IV")).text(60);
        assert!(is_within(&text, 60), "{text}");
        assert!(text.matches("32,768").count() > 1, "{text}");
    }

    #[test]
    fn text_and_tables_are_all_figures() {
        let all = view("P1", PaperPart::All).figures.len();
        assert_eq!(all, papers::cells("P1").len());
        let text = view("P1", PaperPart::Text);
        assert!(text.figures.iter().all(|(cell, _)| cell.column.is_empty()));
        assert!(text.text(120).contains("P1, stated in the text (published)"));
    }

    #[test]
    fn json_keeps_published_and_modelled_apart() {
        let json = view("P1", PaperPart::Table("IV")).json();
        let figure = &json["figures"][1];
        assert_eq!(figure["column"], "10GbE IPv4");
        assert_eq!((&figure["published"], &figure["printed"]), (&json!(20.15), &json!("20.15")));
        assert_eq!(figure["unit"], "Mb/s");
        let limit = &figure["limit"];
        assert_eq!((&limit["source"], &limit["is"]), (&json!("modelled"), &json!("ceiling")));
        assert_eq!(limit["kind"], "bound");
    }

    #[test]
    fn what_there_is_not_is_named_with_what_there_is() {
        let error = |name, part| PaperView::of(name, part).unwrap_err().to_string();
        let all = PaperPart::All;
        assert_eq!(error("P6", all), "unknown paper `P6`; use one of P1, P2, P3, P4, P5");
        let table = PaperPart::Table("4");
        assert_eq!(
            error("P5", table),
            "P5 has no table `4`; its tables: table 1, table 2, table 3"
        );
        assert_eq!(error("P2", table), "P2 has no table `4`; its tables: none");
    }

    #[test]
    fn the_list_names_papers_tables_and_doubts() {
        let text = papers_text(100);
        assert!(text.contains("    table IV: UDP throughput over 10GbE and IPoIB/FDR\n"), "{text}");
        assert!(text.contains("\n[31] P5, section II; section V: "), "{text}");
        assert!(is_within(&text, 100), "{text}");
        let json = papers_json();
        assert_eq!(json["papers"][0]["tables"][3]["place"], "table IV");
        assert_eq!(json["doubts"].as_array().map(Vec::len), Some(31));
    }
}
