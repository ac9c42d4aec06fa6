//! The published JSON Schemas of records and answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fabricmark_lab::held::Report;
use fabricmark_record::{Host, Record, schema};
use fabricmark_report::{CompareResults, MeasureResults, Results};
use serde_json::Value;

use crate::command::{ceiling, rtt};
use crate::watch::ToldInterval;

/// The schemas by the names of their files in `docs/`.
fn schemas() -> [(&'static str, String); 9] {
    [
        ("record", schema::<Record>()),
        ("results", schema::<Results>()),
        ("measure", schema::<MeasureResults<'_>>()),
        ("interval", schema::<ToldInterval<'_>>()),
        ("compare", schema::<CompareResults>()),
        ("rtt", schema::<rtt::RttResults>()),
        ("lab", schema::<Report>()),
        ("ceiling", schema::<ceiling::CeilingResults>()),
        ("hosts", schema::<Host>()),
    ]
}

#[test]
fn the_published_schemas_are_those_of_the_program() {
    for (name, current) in schemas() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");
        let path = Path::new(docs).join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &current).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == current, "UPDATE_SNAPSHOTS=1 writes docs/{name}.schema.json anew");
    }
}

/// Adds the descriptions of all properties that are numbers.
fn add_numbers<'a>(schema: &'a Value, descriptions: &mut BTreeMap<&'a str, &'a str>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = property["type"].to_string();
        if kind.contains("number") || kind.contains("integer") {
            descriptions.insert(key, property["description"].as_str().unwrap_or_default());
        }
    }
    match schema {
        Value::Object(map) => map.values().for_each(|value| add_numbers(value, descriptions)),
        Value::Array(all) => all.iter().for_each(|value| add_numbers(value, descriptions)),
        _ => {}
    }
}

#[test]
fn a_number_with_a_unit_has_the_unit_in_its_key() {
    const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "bps", "bytes", "segments", "packets"];
    const TOLD: [&str; 7] = [" in bytes", "bit/s", "nanoseconds", "seconds", " ns", " µs", " ms"];
    for (name, text) in schemas() {
        let (schema, mut descriptions) = (text.parse().unwrap(), BTreeMap::new());
        add_numbers(&schema, &mut descriptions);
        for (key, description) in descriptions {
            let has_unit = key.split('_').any(|word| UNITS.contains(&word));
            let told = TOLD.iter().find(|unit| description.contains(**unit));
            assert!(has_unit || told.is_none(), "{name}: {key}: {description}");
        }
    }
}
