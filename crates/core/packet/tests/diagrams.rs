//! Compares every diagram with a stored text.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p fabricmark-packet --test diagrams` updates the text.
#![expect(clippy::disallowed_methods, reason = "stored texts are files")]

use fabricmark_packet::diagram::{self, IpoibPacket};

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagrams.txt");

#[test]
fn figures_are_those_that_are_stored() {
    let mut found = String::new();
    for packet in [IpoibPacket::Connected, IpoibPacket::Datagram] {
        for grh in [false, true] {
            found += &diagram::ipoib(packet, grh);
            found.push('\n');
        }
    }
    for (_, layout) in diagram::HEADERS {
        found += &diagram::header(layout);
        found.push('\n');
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(STORED, &found).unwrap();
    }
    let stored = std::fs::read_to_string(STORED).unwrap();
    let first = stored.lines().zip(found.lines()).find(|(stored, found)| stored != found);
    assert!(stored == found, "first difference {first:#?}; see UPDATE_SNAPSHOTS=1");
}
