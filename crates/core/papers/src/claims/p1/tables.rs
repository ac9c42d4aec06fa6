//! Claims about tables that print the same numbers twice, or numbers that can be computed.

use super::at;
use crate::cell::{cells, value};
use crate::claims::tally::Tally;
use crate::claims::value::rounds_to;

/// IPoIB in datagram mode has the same values in both tables.
pub fn same(tally: &mut Tally, modes: &str, technologies: &str) -> Option<()> {
    for family in ["IPv6", "IPv4"] {
        let column = format!("IPoIB datagram {family}");
        tally.part(format!("UDP {family}"));
        let cells = cells("P1").iter().filter(|c| c.place == modes && c.column == column);
        for cell in cells {
            let column = format!("IPoIB/FDR {family}");
            let other = value("P1", technologies, &cell.row, &column)?;
            let what = at(&format!("UDP {family}"), cell.row.parse().ok()?);
            let unit = if cell.unit == "us" { "µs" } else { "Mb/s" };
            tally.holds_or(what, cell.value == other, cell.value, other, unit);
        }
    }
    Some(())
}

/// Data bits per coded bit: 8B/10B up to QDR, 64B/66B from FDR on (P1, section III.A).
const CODINGS: [(&str, f64); 5] = [
    ("SDR", 8.0 / 10.0),
    ("DDR", 8.0 / 10.0),
    ("QDR", 8.0 / 10.0),
    ("FDR", 64.0 / 66.0),
    ("EDR", 64.0 / 66.0),
];

pub fn data_rates_follow_from_signal_rates(tally: &mut Tally) -> Option<()> {
    for (speed, coding) in CODINGS {
        tally.part(speed);
        for width in ["1X", "4X", "8X", "12X"] {
            let cell = |row: &str| value("P1", "table I", &format!("{width} {row}"), speed);
            let (signal, data) = (cell("signal")?, cell("data")?);
            let computed = signal * coding;
            let what = format!("{width} {speed}, printed against computed");
            tally.holds_or(what, rounds_to(computed, data, 2), data, computed, "Gb/s");
        }
    }
    Some(())
}
