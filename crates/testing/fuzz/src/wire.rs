//! Capture files, and dissection of packets.

use fabricmark_packet::capture::{self, Form, LinkType};
use fabricmark_packet::dissect::{Part, dissect};

/// Every packet lies within the file, and is unchanged by writing and reading.
pub fn capture(bytes: &[u8]) {
    let Ok(packets) = capture::read(bytes) else { return };
    let packets: Vec<_> = packets.map_while(Result::ok).collect();
    assert!(packets.len() <= bytes.len());
    let written = packets.iter().map(|packet| packet.bytes);
    let Ok(written) = capture::write(Form::Plain(LinkType::Ethernet), written) else { return };
    let again = capture::read(&written).into_iter().flatten().map_while(Result::ok);
    let again: Vec<_> = again.map(|packet| packet.bytes).collect();
    assert!(packets.iter().map(|packet| packet.bytes).eq(again));
}

/// Parts are in order and within the packet; the first byte selects the link type.
pub fn dissection(bytes: &[u8]) {
    let Some((&link, bytes)) = bytes.split_first() else { return };
    let link_type = if link % 2 == 0 { LinkType::Ethernet } else { LinkType::Infiniband };
    let told = dissect(link_type, bytes);
    let mut end = 0;
    for part in &told.parts {
        let (at, length) = match part {
            Part::Header { layout, at } => (*at, layout.bytes),
            Part::Option { at, bytes, .. } | Part::Data { at, bytes, .. } => (*at, *bytes),
            // Checksums are inside headers; troubles may be anywhere.
            Part::Sum { at, bytes, .. } => (end, (at + bytes).saturating_sub(end)),
            Part::Trouble { at, .. } => (end, at.saturating_sub(end)),
        };
        assert!(at >= end && at + length <= bytes.len(), "{part:?}");
        if !matches!(part, Part::Sum { .. } | Part::Trouble { .. }) {
            end = at + length;
        }
    }
    assert_eq!(told.text().is_empty(), told.parts.is_empty());
}
