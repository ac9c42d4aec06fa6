//! A report as text tables without colour, for a terminal or a file.

use crate::Experiment;
use crate::cell::Cell;
use crate::grid::{Side, grid, plain};
use crate::number::{self, Scale, Written};
use crate::table::{Change, Group, Row, TableView};
use crate::view::tables;
use crate::{answer, facts, label, models, scaling, sharing, shop};

/// Heading of the columns of a published table.
const PUBLISHED: &str = "published";

/// Maximum length of a reason in a cell, in characters.
const REASON_LETTERS: usize = 22;

/// Minimum layout width in columns.
const WIDTH_MIN: usize = 60;

/// The report for a terminal of `width` columns.
///
/// If the groups of a table do not fit side by side, they are printed one below the other; a group that is wider than
/// `width` is not split.
pub fn text(e: &Experiment<'_>, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let tables = tables(e);
    let mut out = String::new();
    let presentation = &e.plan.presentation;
    paragraph(&mut out, &presentation.title, width, "");
    out.push('\n');
    for answer in answer::answers(e, &tables) {
        paragraph(&mut out, &format!("{}: {}", answer.about, answer.text), width, "  ");
    }
    for table in &tables {
        out.push('\n');
        print_table(&mut out, table, width);
    }
    out.push_str(&plain(&scaling::tables(&scaling::scaling(e))));
    out.push_str(&plain(&sharing::tables(&sharing::sharing(e))));
    out.push_str(&plain(&models::tables(&models::models(e))));
    out.push_str(&plain(&shop::tables(&shop::shops(e))));
    out.push('\n');
    for (name, fact) in facts::footer(e) {
        paragraph(&mut out, &format!("{name:<10}  {fact}"), width, "            ");
    }
    out
}

fn print_table(out: &mut String, table: &TableView<'_>, width: usize) {
    paragraph(out, &format!("{} ({})", table.title(), table.caption()), width, "");
    let rendered: Vec<_> = table.groups.iter().map(|group| columns(table, group)).collect();
    let same_rows = rendered.windows(2).all(|pair| pair[0][0].1 == pair[1][0].1);
    match joined(table, &rendered) {
        Some(joined) if same_rows && rendered.len() > 1 && width_of(&joined) <= width => {
            out.push_str(&written(&joined));
        }
        _ => {
            for (group, columns) in table.groups.iter().zip(&rendered) {
                if !group.title.is_empty() {
                    out.push_str(&format!("\n{}\n", group.title));
                }
                print_columns(out, columns, width);
            }
        }
    }
    for note in &table.notes {
        paragraph(out, &format!("  {note}"), width, "    ");
    }
}

/// A heading and its cells.
type Column = (String, Vec<String>);

/// Columns of a group; the first has the row labels.
fn columns(table: &TableView<'_>, group: &Group<'_>) -> Vec<Column> {
    let names = group.rows.iter().map(|row| row.label.clone()).collect();
    let mut columns = vec![(label::headings(&table.spec.rows), names)];
    for (place, heading) in group.columns.iter().enumerate() {
        let cells: Vec<Option<&Cell<'_>>> =
            group.rows.iter().map(|row| row.cells[place].as_ref()).collect();
        columns.push((heading.clone(), figures(&cells, table.unit)));
        columns.extend(limits(&cells, table.unit));
        if group.names_bottlenecks() {
            let name = |cell: &Option<&Cell<'_>>| cell.map(label::limited_by).unwrap_or_default();
            columns.push(("limited by".to_owned(), cells.iter().map(name).collect()));
        }
        if group.cells().any(|cell| cell.loss.is_some()) {
            let lost = |cell: &Option<&Cell<'_>>| {
                let Some(cell) = cell.filter(|cell| cell.estimate.is_some()) else {
                    return String::new();
                };
                cell.loss.map_or_else(|| "0".to_owned(), |loss| number::share(loss.share()))
            };
            columns.push(("lost %".to_owned(), cells.iter().map(lost).collect()));
        }
    }
    for (place, compare) in table.compared.iter().enumerate() {
        let cell = |row: &Row<'_>| match &row.changes[place] {
            Change { comparison: Some(comparison), .. } => {
                let Written { value, spread } = number::compared(comparison);
                [value, spread, label::judged(comparison)]
            }
            change => {
                // A note below the table gives the reason.
                let reason = change.reason().unwrap_or_default();
                let how_many = reason.split(':').next().unwrap_or_default();
                [String::new(), String::new(), how_many.to_owned()]
            }
        };
        let cells: Vec<[String; 3]> = group.rows.iter().map(cell).collect();
        columns.push((label::against(compare), aligned(&cells)));
        let of_limits =
            |row: &Row<'_>| row.changes[place].of_limits.map(|limit| number::percent(limit.change));
        if group.rows.iter().any(|row| of_limits(row).is_some()) {
            let cells = group.rows.iter().map(|row| of_limits(row).unwrap_or_default()).collect();
            columns.push((format!("change of\n{}s", table.limit_name()), cells));
        }
    }
    let name = table.spec.published.as_deref().unwrap_or_default();
    let name = name.replacen(' ', "\u{a0}", 1).replace(' ', "\n");
    for (place, heading) in group.columns.iter().enumerate() {
        let written = |value: f64| number::fixed(value / table.unit.size, 2);
        let cells = group.rows.iter().map(|row| row.published[place].map(written));
        let cells: Vec<String> = cells.map(Option::unwrap_or_default).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            columns.push((format!("{PUBLISHED}\n({name})\n{heading}"), cells));
        }
    }
    columns
}

/// Figures, aligned at the `±` or the bounds; a reason replaces a missing figure.
fn figures(cells: &[Option<&Cell<'_>>], unit: Scale) -> Vec<String> {
    let written: Vec<[String; 2]> = cells
        .iter()
        .map(|cell| {
            let estimate = cell.and_then(|cell| cell.estimate.as_ref());
            estimate.map_or_else(Default::default, |estimate| {
                let Written { value, spread } = number::estimate(estimate, unit);
                [value, spread + &cell.map(Cell::marks).unwrap_or_default()]
            })
        })
        .collect();
    aligned(&written)
        .into_iter()
        .zip(cells)
        .map(|(text, cell)| match cell.and_then(|cell| cell.missing.as_ref()) {
            Some(reason) => shortened(reason),
            None => text,
        })
        .collect()
}

/// A reason, shortened to fit a cell; the notes have the full text.
fn shortened(reason: &str) -> String {
    if reason.chars().count() <= REASON_LETTERS {
        return reason.to_owned();
    }
    let cut: String = reason.chars().take(REASON_LETTERS - 1).collect();
    format!("{}…", cut.trim_end())
}

fn limits(cells: &[Option<&Cell<'_>>], unit: Scale) -> Option<(String, Vec<String>)> {
    let is_goodput = unit.key == "bps";
    let has_messages = cells.iter().flatten().any(|cell| cell.message_limit.is_some());
    let shares: Vec<[String; 2]> = cells
        .iter()
        .map(|cell| {
            let limit = cell.and_then(|cell| cell.limit.as_ref());
            let message = cell.and_then(|cell| cell.message_limit.as_ref());
            let first = limit.map(|limit| {
                if is_goodput { number::share(limit.share) } else { number::fixed(limit.share, 1) }
            });
            let second = message.map(|limit| match cell {
                Some(cell) if cell.is_merged => "/ merged".to_owned(),
                _ => format!("/ {}", number::share(limit.share)),
            });
            [first.unwrap_or_default(), second.unwrap_or_default()]
        })
        .collect();
    let heading = match (is_goodput, has_messages) {
        (true, true) => "% of ceiling\n/ separate writes",
        (true, false) => "% of\nceiling",
        (false, _) => "× floor",
    };
    let has_limits = cells.iter().flatten().any(|cell| cell.limit.is_some());
    has_limits.then(|| (heading.to_owned(), aligned(&shares)))
}

/// Joins the parts of each row in aligned columns: the first right-aligned, the others left-aligned.
fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] = std::array::from_fn(|piece| {
        rows.iter().map(|row| row[piece].chars().count()).max().unwrap_or_default()
    });
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (place, (piece, &width)) in row.iter().zip(&widths).enumerate() {
                if place == 0 {
                    line.push_str(&format!("{piece:>width$}"));
                } else if width > 0 {
                    line.push_str(&format!(" {piece:<width$}"));
                }
            }
            line
        })
        .collect()
}

/// Prints columns; if they are too wide, the published ones follow below.
fn print_columns(out: &mut String, columns: &[Column], width: usize) {
    if width_of(columns) <= width {
        out.push_str(&written(columns));
        return;
    }
    let is_published = |(heading, _): &Column| heading.starts_with(PUBLISHED);
    let (published, own): (Vec<_>, Vec<_>) = columns[1..].iter().cloned().partition(is_published);
    for (place, part) in [own, published].into_iter().enumerate() {
        if part.is_empty() {
            continue;
        }
        if place > 0 {
            out.push('\n');
        }
        out.push_str(&written(&[&columns[..1], &part].concat()));
    }
}

/// All groups side by side, with their titles above the headings.
fn joined(table: &TableView<'_>, groups: &[Vec<Column>]) -> Option<Vec<Column>> {
    let (heading, rows) = groups.first()?.first()?;
    let mut columns = vec![(format!("\n{heading}"), rows.clone())];
    for (group, part) in table.groups.iter().zip(groups) {
        columns.extend(part[1..].iter().enumerate().map(|(place, (heading, cells))| {
            let title = if place == 0 { group.title.as_str() } else { "" };
            (format!("{title}\n{heading}"), cells.clone())
        }));
    }
    Some(columns)
}

fn written(columns: &[Column]) -> String {
    let headings: Vec<(&str, Side)> =
        columns.iter().map(|(heading, _)| (heading.as_str(), Side::Right)).collect();
    let row = |place: usize| columns.iter().map(|(_, cells)| cells[place].clone()).collect();
    let rows: Vec<Vec<String>> = (0..columns[0].1.len()).map(row).collect();
    grid(&headings, &rows)
}

fn width_of(columns: &[Column]) -> usize {
    written(columns).lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

/// Wraps text at `width`; further lines start with `indent`. Line breaks count as blanks: the text may contain words of
/// another host, which begin no line of the report.
pub(crate) fn paragraph(out: &mut String, text: &str, width: usize, indent: &str) {
    let mut line = String::new();
    let mut used = 0;
    for (place, word) in text.split([' ', '\n', '\r']).enumerate() {
        let length = word.chars().count();
        if place > 0 && used + 1 + length > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_owned();
            used = indent.chars().count();
        } else if place > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::paragraph;

    #[test]
    fn words_of_another_host_begin_no_line_of_their_own() {
        let mut out = String::new();
        paragraph(&mut out, "hosts  node\n\nrequired goodput: kept\rand more", 40, "  ");
        assert_eq!(out, "hosts  node  required goodput: kept and\n  more\n");
    }
}
