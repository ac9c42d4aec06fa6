//! Tables as the page prints them.

use fabricmark_units::Percent;

use super::class;
use super::details::{self, Detail};
use crate::cell::Cell;
use crate::label;
use crate::number::{self, Scale};
use crate::table::{Change, Group, Row, TableView};

pub(super) struct TablePart<'a> {
    pub table: &'a TableView<'a>,
    pub groups: Vec<GroupPart<'a>>,
}

pub(super) struct GroupPart<'a> {
    pub group: &'a Group<'a>,
    pub columns: Vec<Column>,
    /// Widths of the parts of cells in digits, as CSS variables, which align them vertically.
    pub widths: String,
    pub details: Vec<Vec<Detail>>,
}

pub(super) struct Column {
    pub heading: String,
    pub class: &'static str,
    /// One per row.
    pub cells: Vec<CellPart>,
}

/// A table cell of up to three parts with decreasing emphasis.
#[derive(Default)]
pub(super) struct CellPart {
    /// Whether the cell has a reason instead of a figure.
    pub is_missing: bool,
    pub title: String,
    pub main: String,
    pub side: String,
    pub extra: String,
    pub extra_class: &'static str,
}

impl<'a> TablePart<'a> {
    pub(super) fn of(table: &'a TableView<'a>) -> Self {
        let group = |group: &'a Group<'a>| {
            let columns = columns(table, group);
            let (widths, details) = (widths(&columns), details::of_group(table, group));
            GroupPart { group, columns, widths, details }
        };
        Self { table, groups: table.groups.iter().map(group).collect() }
    }

    pub(super) fn heading(&self) -> String {
        label::headings(&self.table.spec.rows)
    }
}

/// Approximate width of a text in digits, rounded up: dots are narrower than a digit, signs wider.
fn digits(text: &str) -> f64 {
    let width = |letter| match letter {
        ' ' | '.' | ',' | '[' | ']' | '/' => 0.6,
        '+' | '−' | '±' | '%' | '=' | '<' => 1.35,
        _ => 1.0,
    };
    text.chars().map(width).sum()
}

fn widths(columns: &[Column]) -> String {
    let widest = |class: &str, piece: fn(&CellPart) -> &str| {
        let cells = columns.iter().filter(|column| column.class == class).flat_map(|c| &c.cells);
        cells.map(|cell| digits(piece(cell))).fold(0.0, f64::max)
    };
    format!(
        "--spread:{:.1}ch;--second:{:.1}ch;--change:{:.1}ch;--interval:{:.1}ch",
        widest("figure", |cell| &cell.side),
        widest("share", |cell| &cell.extra),
        widest("change", |cell| &cell.main),
        widest("change", |cell| &cell.side)
    )
}

fn columns(table: &TableView<'_>, group: &Group<'_>) -> Vec<Column> {
    let unit = table.unit;
    let mut columns = Vec::new();
    for (place, heading) in group.columns.iter().enumerate() {
        let mut put = |heading: &str, class, part: &dyn Fn(&Cell<'_>) -> CellPart| {
            let cell = |row: &Row<'_>| row.cells[place].as_ref().map(part).unwrap_or_default();
            let cells = group.rows.iter().map(cell).collect();
            columns.push(Column { heading: heading.to_owned(), class, cells });
        };
        put(heading, "figure", &|cell| figure_part(cell, unit));
        if group.cells().any(|cell| cell.limit.is_some()) {
            let heading = if unit.key == "bps" { "of ceiling" } else { "× floor" };
            put(heading, "share", &|cell| limit_part(cell, unit));
        }
        if group.names_bottlenecks() {
            put("limited by", "share", &limited_part);
        }
        if group.cells().any(|cell| cell.loss.is_some()) {
            put("lost", "share", &loss_part);
        }
    }
    for (place, compare) in table.compared.iter().enumerate() {
        let cells = group.rows.iter().map(|row| change_part(&row.changes[place])).collect();
        columns.push(Column { heading: label::against(compare), class: "change", cells });
        let of_limits = |row: &Row<'_>| row.changes[place].of_limits;
        if group.rows.iter().any(|row| of_limits(row).is_some()) {
            let part = |row: &Row<'_>| CellPart {
                main: of_limits(row).map(|limit| number::percent(limit.change)).unwrap_or_default(),
                ..CellPart::default()
            };
            let cells = group.rows.iter().map(part).collect();
            columns.push(Column {
                heading: format!("change of {}s", table.limit_name()),
                class: "share",
                cells,
            });
        }
    }
    let has_published = group.rows.iter().any(|row| row.published.iter().any(Option::is_some));
    if let Some(name) = table.spec.published.as_ref().filter(|_| has_published) {
        let name = name.replace(' ', "\u{a0}");
        for (place, column) in group.columns.iter().enumerate() {
            let written = |value: f64| number::fixed(value / unit.size, 2);
            let cell = |row: &Row<'_>| CellPart {
                main: row.published[place].map(written).unwrap_or_default(),
                ..CellPart::default()
            };
            columns.push(Column {
                heading: format!("published ({name}) {column}"),
                class: if place == 0 { "published first" } else { "published" },
                cells: group.rows.iter().map(cell).collect(),
            });
        }
    }
    columns
}

fn figure_part(cell: &Cell<'_>, unit: Scale) -> CellPart {
    let Some(estimate) = &cell.estimate else {
        return CellPart {
            is_missing: true,
            main: cell.missing.clone().unwrap_or_default(),
            ..CellPart::default()
        };
    };
    let written = number::estimate(estimate, unit);
    let mut title = number::count(estimate.n, "run");
    if let Some(interval) = estimate.interval {
        let confidence = Percent(estimate.confidence);
        title += &format!("; {confidence} interval {}", number::interval(interval, unit));
    }
    title += &format!("; median {}", details::median(cell, unit));
    CellPart {
        title,
        main: written.value,
        side: written.spread + &cell.marks(),
        ..CellPart::default()
    }
}

fn limited_part(cell: &Cell<'_>) -> CellPart {
    let title = cell.bottleneck.map(label::limited).unwrap_or_default();
    CellPart { main: label::limited_by(cell), title, ..CellPart::default() }
}

fn loss_part(cell: &Cell<'_>) -> CellPart {
    let (main, title) = match cell.loss {
        Some(loss) => (format!("{} %", number::share(loss.share())), loss.places()),
        None if cell.estimate.is_some() => ("0 %".to_owned(), String::new()),
        None => Default::default(),
    };
    CellPart { main, title, ..CellPart::default() }
}

fn limit_part(cell: &Cell<'_>, unit: Scale) -> CellPart {
    let Some(limit) = &cell.limit else { return CellPart::default() };
    let (word, main) = match unit.key {
        "bps" => ("ceiling", format!("{} %", number::share(limit.share))),
        _ => ("floor", number::fixed(limit.share, 1)),
    };
    let value = number::fixed(limit.value / unit.size, 2);
    let mut part = CellPart {
        title: format!("{} {word}: {value} {}", limit.kind, unit.name),
        main,
        ..CellPart::default()
    };
    if let Some(message) = &cell.message_limit {
        let value = number::fixed(message.value / unit.size, 2);
        part.title += &format!("; {} ceiling of separate writes: {value}", message.kind);
        (part.extra, part.extra_class) = if cell.is_merged {
            ("/ merged".to_owned(), "void")
        } else {
            (format!("/ {} %", number::share(message.share)), "second")
        };
    }
    part
}

fn change_part(change: &Change) -> CellPart {
    let Some(comparison) = &change.comparison else {
        return CellPart {
            extra: change.reason().unwrap_or_default(),
            extra_class: class(None),
            ..CellPart::default()
        };
    };
    let written = number::compared(comparison);
    CellPart {
        title: format!(
            "{}; Holm p {}",
            number::count(comparison.change.n, "pair"),
            number::probability(comparison.p_adjusted)
        ),
        main: written.value,
        side: written.spread,
        extra: label::judged(comparison),
        extra_class: class(Some(&comparison.verdict)),
        ..CellPart::default()
    }
}
