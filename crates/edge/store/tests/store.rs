//! Stored records are read back unchanged, whatever happens to the file.

use std::fs;
use std::thread;

use fabricmark_plan::Figure;
use fabricmark_record::{Instrument, Place, Record};
use fabricmark_store::{Facts, Store, StoreError};
use tempfile::TempDir;

fn facts() -> Facts {
    Facts {
        digest: "d".to_owned(),
        plan_file: "plan.toml".to_owned(),
        plan_text: "title = \"t\"".to_owned(),
        is_quick: false,
        reproduce: "fabricmark run plan.toml".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        instrument: Some(Instrument { stream_call_ns: 0.1, ping_pong_ns: 51.3 }),
        host: None,
        link: None,
    }
}

fn record(block: u32, place: u32) -> Record {
    let levels =
        "pattern=stream,transport=udp,family=6,payload=64,link=ethernet:1G,receive_buffer=4096";
    let plan_digest = "d".to_owned();
    Record {
        place: Place { plan_digest, seed: 1, block, place, point: 0, warm_up: false },
        // A value whose shortest decimal form needs all of its digits.
        figures: fabricmark_testkit::figures([(Figure::Goodput, 941_482_444.733_420_1)]),
        ..fabricmark_testkit::record(fabricmark_testkit::point(levels))
    }
}

#[test]
fn experiments_that_begin_at_once_have_names_of_their_own() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sqlite");
    Store::open(&path).unwrap();
    let begin = || {
        let store = Store::open(&path).unwrap();
        let names = (0..20).map(|_| store.begin("plan", &facts()).unwrap().name);
        names.collect::<Vec<_>>()
    };
    let mut names = thread::scope(|scope| {
        let other = scope.spawn(begin);
        [begin(), other.join().unwrap()].concat()
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 40);
}

#[test]
fn records_come_back_equal_and_in_the_order_of_their_runs() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("s.sqlite")).unwrap();
    let experiment = store.begin("plan", &facts()).unwrap();
    for (block, place) in [(1, 0), (0, 1), (0, 0)] {
        store.append(&experiment, &[record(block, place)]).unwrap();
    }
    let found = store.records(&experiment).unwrap();
    assert_eq!(found, [record(0, 0), record(0, 1), record(1, 0)]);
}

#[test]
fn the_text_of_a_plan_can_be_replaced() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("s.sqlite")).unwrap();
    let mut experiment = store.begin("plan", &facts()).unwrap();
    store.set_plan(&mut experiment, "other.toml", "title = \"u\"", true).unwrap();
    for facts in [experiment.facts, store.find("plan-1").unwrap().facts] {
        assert_eq!((&*facts.plan_file, &*facts.plan_text), ("other.toml", "title = \"u\""));
        assert!(facts.is_quick);
    }
}

#[test]
fn a_run_is_kept_once() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("s.sqlite")).unwrap();
    let experiment = store.begin("plan", &facts()).unwrap();
    store.append(&experiment, &[record(0, 0)]).unwrap();
    assert!(store.append(&experiment, &[record(0, 0)]).is_err());
}

#[test]
fn experiments_are_found_by_name_by_digest_and_as_the_latest() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("s.sqlite")).unwrap();
    assert!(store.latest_of("d").unwrap().is_none());
    let first = store.begin("plan", &facts()).unwrap();
    let second = store.begin("plan", &facts()).unwrap();
    assert_eq!((first.name.as_str(), second.name.as_str()), ("plan-1", "plan-2"));
    assert_eq!(store.find("plan-1").unwrap().name, "plan-1");
    assert_eq!(store.find("latest").unwrap().name, "plan-2");
    assert_eq!(store.latest_of("d").unwrap().unwrap().name, "plan-2");
    assert!(!second.is_complete);
    store.complete(&second).unwrap();
    assert!(store.find("plan-2").unwrap().is_complete);
    let error = store.find("plan-3").unwrap_err().to_string();
    assert!(error.contains("plan-1, plan-2"), "{error}");
}

#[test]
fn many_that_open_a_new_store_at_once_all_find_a_whole_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sqlite");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !path.exists() {
                    let _ = Store::open(&path).unwrap();
                }
                assert_eq!(Store::open(&path).unwrap().experiments().unwrap().len(), 0);
            });
        }
    });
}

#[test]
fn a_file_of_a_newer_version_is_refused_politely() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sqlite");
    drop(Store::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(matches!(Store::open(&path), Err(StoreError::Newer { .. })));
}

#[test]
fn an_existing_store_is_opened_for_reading_and_an_older_one_is_not_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sqlite");
    let store = Store::open(&path).unwrap();
    let experiment = store.begin("plan", &facts()).unwrap();
    store.append(&experiment, &[record(0, 0)]).unwrap();
    drop(store);
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.records(&experiment).unwrap(), [record(0, 0)]);
    let error = store.append(&experiment, &[record(0, 1)]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let older = "ALTER TABLE experiment DROP COLUMN host; ALTER TABLE experiment DROP COLUMN link; PRAGMA user_version = 1";
    connection.execute_batch(older).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.find(&experiment.name).unwrap().facts.host, None);
    assert_eq!(store.records(&experiment).unwrap(), [record(0, 0)]);
    let error = store.append(&experiment, &[record(0, 1)]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_store_is_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sqlite");
    let text =
        "something else of at least a hundred bytes, so that it could be a header: ".repeat(3);
    fs::write(&path, &text).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Unusable { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
