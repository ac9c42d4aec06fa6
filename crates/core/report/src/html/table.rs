//! Tables as the page prints them.

use fabricmark_units::Percent;

use super::details::{self, Detail};
use super::verdict_class;
use crate::cell::{Cell, Loss};
use crate::label;
use crate::number::{self, Scale};
use crate::table::{Change, Group, Row, TableView};

/// A table as the page prints it.
pub(super) struct TablePart {
    pub title: String,
    pub caption: String,
    pub groups: Vec<GroupPart>,
    pub notes: Vec<String>,
}

pub(super) struct GroupPart {
    pub title: String,
    pub heading: String,
    pub columns: Vec<Heading>,
    pub rows: Vec<RowPart>,
    /// Widths of the pieces of cells in digits, as CSS variables, so that they stand below each
    /// other.
    pub widths: String,
    pub details: Vec<Vec<Detail>>,
}

pub(super) struct Heading {
    pub text: String,
    pub class: &'static str,
}

pub(super) struct RowPart {
    pub label: String,
    pub cells: Vec<CellPart>,
}

/// A table cell in up to three pieces of falling weight.
#[derive(Default)]
pub(super) struct CellPart {
    pub class: &'static str,
    pub title: String,
    pub main: String,
    pub side: String,
    pub extra: String,
    pub extra_class: &'static str,
}

impl TablePart {
    pub(super) fn of(table: &TableView<'_>) -> Self {
        Self {
            title: table.title().to_owned(),
            caption: table.caption(),
            groups: table.groups.iter().map(|group| GroupPart::of(table, group)).collect(),
            notes: table.notes.clone(),
        }
    }
}

/// Which columns a group has beside its figures.
struct Shape {
    has_limit: bool,
    has_loss: bool,
    has_published: bool,
}

impl GroupPart {
    fn of(table: &TableView<'_>, group: &Group<'_>) -> Self {
        let shape = Shape {
            has_limit: group.cells().any(|cell| cell.limit.is_some()),
            has_loss: group.cells().any(|cell| cell.loss.is_some()),
            has_published: group.rows.iter().any(|row| row.published.iter().any(Option::is_some)),
        };
        let rows: Vec<RowPart> =
            group.rows.iter().map(|row| row_part(table, row, &shape)).collect();
        Self {
            title: group.title.clone(),
            heading: label::heading(table.spec.rows),
            columns: headings(table, group, &shape),
            widths: widths(&rows),
            rows,
            details: details::of_group(table, group),
        }
    }
}

/// The width of a text in digits, generously: points are narrower than a digit, signs wider.
fn digits(text: &str) -> f64 {
    let width = |letter| match letter {
        ' ' | '.' | ',' | '[' | ']' | '/' => 0.6,
        '+' | '−' | '±' | '%' | '=' | '<' => 1.35,
        _ => 1.0,
    };
    text.chars().map(width).sum()
}

fn widths(rows: &[RowPart]) -> String {
    let widest = |class: &str, piece: fn(&CellPart) -> &str| {
        let cells = rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.class == class);
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

fn headings(table: &TableView<'_>, group: &Group<'_>, shape: &Shape) -> Vec<Heading> {
    let mut headings = Vec::new();
    let mut put = |text: String, class| headings.push(Heading { text, class });
    let is_goodput = table.unit.key == "bps";
    for column in &group.columns {
        put(column.clone(), "figure");
        if shape.has_limit {
            put(if is_goodput { "of ceiling" } else { "× floor" }.to_owned(), "share");
        }
        if shape.has_loss {
            put("lost".to_owned(), "share");
        }
    }
    for compare in &table.compared {
        let candidate = label::level(compare.factor, &compare.candidate);
        let baseline = label::level(compare.factor, &compare.baseline);
        put(format!("{candidate} against {baseline}"), "change");
    }
    if let Some(name) = table.published.filter(|_| shape.has_published) {
        for (place, column) in group.columns.iter().enumerate() {
            let class = if place == 0 { "published first" } else { "published" };
            let name = name.replace(' ', "\u{a0}");
            put(format!("published ({name}) {column}"), class);
        }
    }
    headings
}

fn row_part(table: &TableView<'_>, row: &Row<'_>, shape: &Shape) -> RowPart {
    let mut cells = Vec::new();
    for cell in &row.cells {
        cells.push(figure_part(cell.as_ref(), table.unit));
        if shape.has_limit {
            cells.push(limit_part(cell.as_ref(), table.unit));
        }
        if shape.has_loss {
            let loss = cell.as_ref().and_then(|cell| cell.loss);
            let none =
                if cell.as_ref().is_some_and(|cell| cell.estimate.is_some()) { "0 %" } else { "" };
            let main =
                loss.map_or_else(|| none.to_owned(), |l| format!("{} %", number::share(l.share())));
            let title = loss.map_or_else(String::new, Loss::places);
            cells.push(CellPart { class: "share", main, title, ..CellPart::default() });
        }
    }
    cells.extend(row.changes.iter().map(change_part));
    if shape.has_published {
        cells.extend(row.published.iter().enumerate().map(|(place, value)| CellPart {
            class: if place == 0 { "published first" } else { "published" },
            main: value.map_or_else(String::new, |v| number::fixed(v / table.unit.size, 2)),
            ..CellPart::default()
        }));
    }
    RowPart { label: row.label.clone(), cells }
}

fn figure_part(cell: Option<&Cell<'_>>, unit: Scale) -> CellPart {
    let Some(cell) = cell else {
        return CellPart { class: "figure", ..CellPart::default() };
    };
    let Some(estimate) = &cell.estimate else {
        return CellPart {
            class: "figure missing",
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
        class: "figure",
        title,
        main: written.value,
        side: written.spread + &cell.marks(),
        ..CellPart::default()
    }
}

fn limit_part(cell: Option<&Cell<'_>>, unit: Scale) -> CellPart {
    let limit = cell.and_then(|cell| cell.limit.as_ref());
    let Some((cell, limit)) = cell.zip(limit) else {
        return CellPart { class: "share", ..CellPart::default() };
    };
    let is_goodput = unit.key == "bps";
    let value = number::fixed(limit.value / unit.size, 2);
    let mut part = CellPart {
        class: "share",
        title: format!("{} {}: {value} {}", limit.kind, limit_word(is_goodput), unit.name),
        main: if is_goodput {
            format!("{} %", number::share(limit.share))
        } else {
            number::fixed(limit.share, 1)
        },
        ..CellPart::default()
    };
    if let Some(message) = &cell.message_limit {
        let value = number::fixed(message.value / unit.size, 2);
        part.title += &format!("; {} ceiling of single writes: {value}", message.kind);
        (part.extra, part.extra_class) = if cell.is_merged {
            ("/ merged".to_owned(), "void")
        } else {
            (format!("/ {} %", number::share(message.share)), "second")
        };
    }
    part
}

fn limit_word(is_goodput: bool) -> &'static str {
    if is_goodput { "ceiling" } else { "floor" }
}

fn change_part(change: &Change) -> CellPart {
    let Some(comparison) = &change.comparison else {
        return CellPart {
            class: "change",
            extra: change.withheld.clone().unwrap_or_default(),
            extra_class: verdict_class(None),
            ..CellPart::default()
        };
    };
    let written = number::change(&comparison.change);
    CellPart {
        class: "change",
        title: format!(
            "{}; Holm p {}",
            number::count(comparison.change.n, "pair"),
            number::probability(comparison.p_adjusted)
        ),
        main: written.value,
        side: written.spread,
        extra: label::judged(comparison),
        extra_class: verdict_class(Some(&comparison.verdict)),
    }
}
