//! The published JSON Schemas of records and answers.

use std::fs;
use std::path::Path;

use fabricmark_lab::held::Report;
use fabricmark_record::{Host, Record, schema};
use fabricmark_report::{CompareResults, MeasureResults, Results};

use crate::command::{ceiling, rtt};
use crate::watch::ToldInterval;

#[test]
fn the_published_schemas_are_those_of_the_program() {
    for (name, current) in [
        ("record", schema::<Record>()),
        ("results", schema::<Results>()),
        ("measure", schema::<MeasureResults<'_>>()),
        ("interval", schema::<ToldInterval<'_>>()),
        ("compare", schema::<CompareResults>()),
        ("rtt", schema::<rtt::RttResults>()),
        ("lab", schema::<Report>()),
        ("ceiling", schema::<ceiling::CeilingResults>()),
        ("hosts", schema::<Host>()),
    ] {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");
        let path = Path::new(docs).join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &current).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == current, "UPDATE_SNAPSHOTS=1 writes docs/{name}.schema.json anew");
    }
}
