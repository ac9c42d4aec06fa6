//! Text diagrams: a header as RFCs draw it, 32 bits per row, and the sequence of headers in a packet.

use std::collections::BTreeMap;

use fabricmark_header::arp::{Arp, IpoibArp};
use fabricmark_header::cm::{
    ConnectReply, ConnectRequest, DisconnectReply, DisconnectRequest, Mad, ReadyToUse,
};
use fabricmark_header::ethernet::{Ethernet, Vlan};
use fabricmark_header::infiniband::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Grh, Ieth, ImmDt, Lrh, Reth,
};
use fabricmark_header::ip::{Ipv4, Ipv6, Ipv6Fragment};
use fabricmark_header::ipoib::IpoibHeader;
use fabricmark_header::transport::{Tcp, Udp};
use fabricmark_header::{Field, Layout};

/// Bits per row of a header diagram.
const ROW: usize = 32;

/// Maximum number of lines of a wrapped title; a longer title is replaced by a letter.
const UPRIGHT_MAX: usize = 3;

/// Headers by their command-line name.
pub const HEADERS: &[(&str, &Layout)] = &[
    ("lrh", Lrh::LAYOUT),
    ("grh", Grh::LAYOUT),
    ("bth", Bth::LAYOUT),
    ("deth", Deth::LAYOUT),
    ("reth", Reth::LAYOUT),
    ("aeth", Aeth::LAYOUT),
    ("immdt", ImmDt::LAYOUT),
    ("ieth", Ieth::LAYOUT),
    ("atomiceth", AtomicEth::LAYOUT),
    ("atomicacketh", AtomicAckEth::LAYOUT),
    ("ipoib", IpoibHeader::LAYOUT),
    ("ipoib-arp", IpoibArp::LAYOUT),
    ("ethernet", Ethernet::LAYOUT),
    ("vlan", Vlan::LAYOUT),
    ("arp", Arp::LAYOUT),
    ("ipv4", Ipv4::LAYOUT),
    ("ipv6", Ipv6::LAYOUT),
    ("fragment", Ipv6Fragment::LAYOUT),
    ("udp", Udp::LAYOUT),
    ("tcp", Tcp::LAYOUT),
    ("mad", Mad::LAYOUT),
    ("req", ConnectRequest::LAYOUT),
    ("rep", ConnectReply::LAYOUT),
    ("rtu", ReadyToUse::LAYOUT),
    ("dreq", DisconnectRequest::LAYOUT),
    ("drep", DisconnectReply::LAYOUT),
];

/// An IP over InfiniBand packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpoibPacket {
    /// Connected mode (P1, figure 2).
    Connected,
    /// Datagram mode (P1, figure 6).
    Datagram,
}

/// IPoIB packets by their command-line name.
pub const PACKETS: [(&str, IpoibPacket); 2] =
    [("connected", IpoibPacket::Connected), ("datagram", IpoibPacket::Datagram)];

/// Draws a header below a bit ruler, followed by a list of its fields with length in bits and clause.
pub fn header(layout: &Layout) -> String {
    let mut text = format!(
        "{}: {}, {} bytes ({})\n\n",
        layout.name, layout.title, layout.bytes, layout.source
    );
    // Each bit is two columns wide; the tens digit stands above bits 0, 10, 20 and 30.
    let tens: String = (0..ROW).step_by(10).map(|bit| format!(" {:<19}", bit / 10)).collect();
    let ones: String = (0..ROW).map(|bit| format!(" {}", bit % 10)).collect();
    text += &format!("{}\n{ones}\n", tens.trim_end());
    let (bits, keys) = (8 * layout.bytes, keys(layout));
    for row in 0..bits.div_ceil(ROW) {
        text += &separator(layout, row);
        text += &row_lines(layout, row, &keys);
    }
    text += &separator(layout, bits.div_ceil(ROW));
    text.push('\n');
    let width = layout.fields.iter().map(|field| field.title.len()).max().unwrap_or_default();
    for field in layout.fields {
        let plural = if field.bits == 1 { "" } else { "s" };
        let bits = format!("{:3} bit{plural}", field.bits);
        let key = keys.get(&field.at).map_or_else(String::new, |key| format!("  ({key} above)"));
        text += &format!("{:width$}  {bits:8}  {}{key}\n", field.title, field.clause);
    }
    text
}

/// Key letters for fields too narrow for their titles, by the first bit of the field.
fn keys(layout: &Layout) -> BTreeMap<usize, char> {
    let narrow = layout.fields.iter().filter(|field| {
        let columns = field.bits.min(ROW - field.at % ROW);
        let width = 2 * columns - 1;
        let title = title_for(field.title, width);
        whole_rows(field.at, field.bits).is_none() && wrapped(&title, width).len() > UPRIGHT_MAX
    });
    narrow.map(|field| field.at).zip('a'..='z').collect()
}

/// Index of the field that contains `bit`, or `None` beyond the end.
fn owner(layout: &Layout, bit: usize) -> Option<usize> {
    layout.fields.iter().position(|field| (field.at..field.at + field.bits).contains(&bit))
}

/// The separator above `row`, with gaps inside fields that continue, and with a title in the middle of a field.
fn separator(layout: &Layout, row: usize) -> String {
    let end = 8 * layout.bytes;
    let is_closed = |column: usize| {
        let bit = row * ROW + column;
        bit.checked_sub(ROW).and_then(|above| owner(layout, above)) != owner(layout, bit)
    };
    let last = if row == 0 { end.min(ROW) } else { (end + ROW - row * ROW).min(ROW) };
    let mut line: Vec<char> = Vec::with_capacity(2 * ROW + 1);
    for column in 0..=last {
        let is_edge = column == 0 || column == last;
        let left = column.checked_sub(1).is_some_and(is_closed);
        let right = column < last && is_closed(column);
        line.push(if is_edge || left || right { '+' } else { ' ' });
        if column < last {
            line.push(if right { '-' } else { ' ' });
        }
    }
    for field in layout.fields {
        if let Some((first, rows)) = whole_rows(field.at, field.bits)
            && rows % 2 == 0
            && row == first + rows / 2
        {
            let title = centred(&title_for(field.title, 2 * ROW - 1), 2 * ROW - 1);
            line.splice(1..2 * ROW, title.chars());
        }
    }
    line.into_iter().collect::<String>() + "\n"
}

/// The rows that are occupied by this field alone: first row and number of rows, if any.
fn whole_rows(at: usize, bits: usize) -> Option<(usize, usize)> {
    let (first, end) = (at.div_ceil(ROW), (at + bits) / ROW);
    (end > first).then(|| (first, end - first))
}

/// The lines of `row` between two separators, as many as the most wrapped title needs.
fn row_lines(layout: &Layout, row: usize, keys: &BTreeMap<usize, char>) -> String {
    // Width and wrapped text of each field's part within the row.
    let mut cells = Vec::new();
    let (start, end) = (row * ROW, (row * ROW + ROW).min(8 * layout.bytes));
    for field in layout.fields {
        let (from, to) = (field.at.max(start), (field.at + field.bits).min(end));
        if from < to {
            let width = 2 * (to - from) - 1;
            let key = keys.get(&field.at).map(char::to_string);
            let title = key.unwrap_or_else(|| title_for(field.title, width));
            cells.push((width, wrapped(&said(field, row, title), width)));
        }
    }
    let height = cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(1).max(1);
    let mut text = String::new();
    for index in 0..height {
        text.push('|');
        for (width, lines) in &cells {
            let above = (height - lines.len()) / 2;
            let line = index.checked_sub(above).and_then(|index| lines.get(index));
            text += &centred(line.map_or("", String::as_str), *width);
            text.push('|');
        }
        text.push('\n');
    }
    text
}

/// Text in the part of a field within `row`. The title is in the middle of the rows that the field occupies alone, or
/// else in its first part. A part that does not touch the part with the title says "(continued)".
fn said(field: &Field, row: usize, title: String) -> String {
    match whole_rows(field.at, field.bits) {
        Some((first, rows)) if rows % 2 == 1 && row == first + rows / 2 => title,
        Some(_) => String::new(),
        None if row == field.at / ROW => title,
        // A field without a row of its own has two parts; they touch if they share columns.
        None if field.bits > ROW => String::new(),
        None => "(continued)".to_owned(),
    }
}

/// The title, abbreviated if it is "Reserved" and does not fit.
fn title_for(title: &str, width: usize) -> String {
    match title {
        "Reserved" if width < 3 => "R".to_owned(),
        "Reserved" if width < title.len() => "Rsv".to_owned(),
        title => title.to_owned(),
    }
}

/// Wraps a title into lines of at most `width` characters, at spaces if possible.
fn wrapped(title: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(width).map(|part| part.iter().collect::<String>()));
            }
        }
    }
    lines
}

fn centred(text: &str, width: usize) -> String {
    format!("{text:^width$}")
}

/// Draws the headers of an IPoIB packet with their lengths in bytes.
///
/// A packet without a GRH stays within its subnet; with one it can be routed.
pub fn ipoib(packet: IpoibPacket, grh: bool) -> String {
    let mode = match packet {
        IpoibPacket::Connected => "connected",
        IpoibPacket::Datagram => "datagram",
    };
    let subnets = if grh { "several subnets" } else { "a unique subnet" };
    let layouts = [
        Some(Lrh::LAYOUT),
        grh.then_some(Grh::LAYOUT),
        Some(Bth::LAYOUT),
        (packet == IpoibPacket::Datagram).then_some(Deth::LAYOUT),
    ];
    let rest = [
        ("4-Octet Header", "4"),
        ("IPv6 or IPv4 Packet", "padded to a multiple of 4"),
        ("Invariant CRC", "4"),
        ("Variant CRC", "2"),
    ];
    let headers = layouts.into_iter().flatten();
    let headers = headers.map(|layout| (layout.name, layout.bytes.to_string()));
    let rest = rest.map(|(name, bytes)| (name, bytes.to_owned()));
    let parts: Vec<(&str, String)> = headers.chain(rest).collect();
    format!(
        "IPoIB packet in {mode} mode in a fabric with {subnets}, lengths in bytes\n\n{}",
        sequence(&parts)
    )
}

/// Boxes side by side, each with a caption below.
fn sequence(parts: &[(&str, String)]) -> String {
    let (mut rule, mut names, mut beneath) = (String::new(), String::new(), String::new());
    for (name, bytes) in parts {
        let width = name.len().max(bytes.len()) + 2;
        rule += &format!("+{}", "-".repeat(width));
        names += &format!("|{}", centred(name, width));
        beneath += &format!(" {}", centred(bytes, width));
    }
    format!("{rule}+\n{names}|\n{rule}+\n{}\n", beneath.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_header::{Field, Format};

    fn field(title: &'static str, at: usize, bits: usize) -> Field {
        Field { name: "", title, at, bits, format: Format::Hex, clause: "1" }
    }

    /// The diagram without heading and field list.
    fn figure(fields: Vec<Field>) -> Vec<String> {
        let bits: usize = fields.iter().map(|field| field.bits).sum();
        let layout = Layout {
            name: "X",
            title: "Example",
            bytes: bits / 8,
            source: "RFC 0",
            fields: fields.leak(),
        };
        header(&layout)
            .lines()
            .skip(4)
            .take_while(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn titles_that_do_not_fit_stand_upright() {
        let figure = figure(vec![
            field("SE", 0, 1),
            field("Reserved", 1, 2),
            field("Data Offset", 3, 5),
            field("Whole", 8, 8),
        ]);
        assert_eq!(
            figure,
            [
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
                "|S|Rsv|  Data   |     Whole     |",
                "|E|   | Offset  |               |",
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
            ]
        );
    }

    #[test]
    fn a_title_that_would_stand_too_high_is_a_letter() {
        let field = field("Flow Control", 0, 1);
        let layout = Layout {
            name: "X",
            title: "Example",
            bytes: 1,
            source: "RFC 0",
            fields: vec![field, Field { title: "Rest", at: 1, bits: 7, ..field }].leak(),
        };
        let text = header(&layout);
        assert!(text.contains("|a|    Rest     |\n"), "{text}");
        assert!(text.contains("Flow Control    1 bit   1  (a above)\n"), "{text}");
    }

    #[test]
    fn a_field_over_several_rows_is_one_box() {
        let figure = figure(vec![
            field("Half", 0, 16),
            field("Across", 16, 48),
            field("Two Rows", 64, 64),
            field("Split", 128, 16),
        ]);
        assert_eq!(
            figure,
            [
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
                "|             Half              |                               |",
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +",
                "|                            Across                             |",
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
                "|                                                               |",
                "+                           Two Rows                            +",
                "|                                                               |",
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
                "|             Split             |",
                "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+",
            ]
        );
    }

    #[test]
    fn a_field_in_two_parts_that_do_not_touch_says_so() {
        let figure =
            figure(vec![field("First", 0, 16), field("Address", 16, 32), field("Last", 48, 16)]);
        assert_eq!(figure[1], "|             First             |            Address            |");
        assert_eq!(figure[3], "|          (continued)          |             Last              |");
    }
}
