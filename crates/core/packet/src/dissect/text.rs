//! Formats a dissection as text: one line per header, with all its fields.

use std::fmt::Write;

use fabricmark_header::Layout;

use super::{Dissection, Part, Verdict};
use crate::capture::LinkType;

/// Width of the name column, and of a line.
const NAME: usize = 14;
const LINE: usize = 100;

/// Maximum number of data bytes shown.
const SHOWN: usize = 16;

impl Dissection<'_> {
    /// The dissection as text, one line per part, wrapped at 100 columns. Reserved bits are omitted if they are 0.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let (name, items) = match part {
                Part::Header { layout, at } => (layout.name, self.fields(layout, *at)),
                Part::Option { name, text, .. } => ("  option", vec![format!("{name} {text}")]),
                Part::Data { name, at, bytes } => (*name, vec![self.data(*at, *bytes)]),
                Part::Sum { name, at, bytes, verdict } => {
                    (*name, vec![verdict.text(&self.hex(*at, *bytes, ""))])
                }
                Part::Trouble { trouble, .. } => ("! error", vec![trouble.to_string()]),
            };
            line(&mut text, name, &items);
        }
        text
    }

    fn fields(&self, layout: &Layout, at: usize) -> Vec<String> {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        let fields = layout.fields.iter().filter_map(|field| {
            let value = layout.read(bytes, field)?;
            let is_shown = field.title != "Reserved" || value != 0;
            is_shown.then(|| format!("{} {}", field.title, field.text(value)))
        });
        fields.collect()
    }

    fn data(&self, at: usize, bytes: usize) -> String {
        let more = if bytes > SHOWN { " ..." } else { "" };
        format!("{bytes} bytes: {}{more}", self.hex(at, bytes.min(SHOWN), " "))
    }

    /// Hexadecimal bytes, separated by `between`.
    fn hex(&self, at: usize, bytes: usize, between: &str) -> String {
        let bytes = self.bytes.get(at..at + bytes).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
    }
}

impl Verdict {
    /// The stored bytes and the verdict.
    fn text(self, stored: &str) -> String {
        match self {
            Self::Good => format!("0x{stored} good"),
            Self::Bad { right } => {
                let digits = stored.len();
                format!("0x{stored} BAD, expected 0x{right:0digits$x}")
            }
            Self::Absent => "absent".to_owned(),
            Self::Unchecked(why) => format!("0x{stored} not checked: {why}"),
        }
    }
}

impl LinkType {
    /// Name for display.
    pub fn name(self) -> String {
        match self {
            Self::Ethernet => "Ethernet".to_owned(),
            Self::Infiniband => "InfiniBand".to_owned(),
            Self::Other(number) => format!("link type {number}"),
        }
    }
}

/// Appends a name and its items, wrapped to further lines.
fn line(text: &mut String, name: &str, items: &[String]) {
    let mut column = NAME + 2;
    // Writing to a `String` never fails.
    let _ = write!(text, "  {name:NAME$}");
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 < items.len() { "," } else { "" };
        if index > 0 && column + 1 + item.len() + comma.len() > LINE {
            let _ = write!(text, "\n  {:NAME$}", "");
            column = NAME + 2;
        }
        let _ = write!(text, " {item}{comma}");
        column += 1 + item.len() + comma.len();
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}
