//! Text tables.

use comfy_table::{CellAlignment, LineStyle, TableStyle};

const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Alignment of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// For words.
    Left,
    /// For figures.
    Right,
}

/// A text table: headings, a rule, and a line per row.
///
/// Missing cells at the end of a row are empty.
pub fn grid(columns: &[(impl AsRef<str>, Side)], rows: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(STYLE);
    table.set_header(columns.iter().map(|(heading, _)| heading.as_ref()));
    for row in rows {
        table.add_row(row);
    }
    for (column, (_, side)) in table.column_iter_mut().zip(columns) {
        column.set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A table beside those of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlainTable {
    /// Heading.
    pub(crate) title: String,
    /// Headings of the columns; the first one is of words.
    pub(crate) columns: Vec<&'static str>,
    /// Cells.
    pub(crate) rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub(crate) notes: Vec<String>,
}

/// Plain tables as text.
pub(crate) fn plain(tables: &[PlainTable]) -> String {
    let mut out = String::new();
    for table in tables {
        let side = |place| if place == 0 { Side::Left } else { Side::Right };
        let columns: Vec<(&str, Side)> =
            table.columns.iter().enumerate().map(|(place, name)| (*name, side(place))).collect();
        out.push_str(&format!("\n{}\n{}", table.title, grid(&columns, &table.rows)));
        for note in &table.notes {
            out.push_str(&format!("  {note}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_right_and_words_left() {
        let rows = [vec!["4".to_owned(), "bound".to_owned()], vec!["1,024".to_owned()]];
        let text = grid(&[("payload", Side::Right), ("kind", Side::Left)], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], " payload   kind");
        assert_eq!(lines[2..], ["       4   bound", "   1,024"]);
    }
}
