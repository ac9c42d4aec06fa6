//! `fabricmark ceiling`: whole tables as snapshots, keys of JSON, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ceiling(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabricmark"))
        .arg("ceiling")
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

/// Standard output of a command that succeeds.
#[track_caller]
fn printed(words: &str) -> String {
    let output = ceiling(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(words: &str) -> Value {
    serde_json::from_str(&printed(&format!("{words} --json"))).unwrap()
}

#[track_caller]
fn matches_snapshot(name: &str, words: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    let current = format!("$ fabricmark ceiling {words}\n{}", printed(words));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(current == kept, "{name} differs; UPDATE_SNAPSHOTS=1 writes it anew:\n{current}");
}

#[track_caller]
fn refused(words: &str, reason: &str) {
    let output = ceiling(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{words}: {error}");
    assert!(error.contains(reason), "{words}: no {reason:?} in {error}");
    assert!(output.stdout.is_empty(), "{words}");
}

#[test]
fn a_long_path_is_told_with_what_limits_and_what_it_needs() {
    matches_snapshot("lfn-loss.txt", "lfn --rate 100G --rtt 60ms --loss 1e-6");
    matches_snapshot(
        "lfn-link.txt",
        "lfn --link ethernet:10G,mtu=9000 --timestamps --family 6 --distance 15461 --window 64MiB",
    );
}

#[test]
fn a_long_path_in_json_has_fractions_where_the_formula_is_one() {
    let answer = json("lfn --rate 7G --rtt 400ms --mss 1428 --distance 35755km --loss 0.01%");
    assert_eq!(answer["bdp"]["exact"], "350000000/1");
    assert_eq!(answer["bdp"]["kind"], "bound");
    assert_eq!(answer["window_scale"], 13);
    // The law is a root: no fraction.
    assert_eq!((&answer["kind"], &answer["goodput_exact"]), (&"estimate".into(), &Value::Null));
    assert_eq!(answer["limited_by"], "cubic at a loss of 1e-4");
    let limits = answer["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 3);
    assert_eq!(limits[0]["goodput_exact"], "7000000000/1");
    let hours = answer["reno_recovery"]["ns"].as_f64().unwrap() / 3.6e12;
    assert_eq!(format!("{hours:.1}"), "13.6");
    let tolerated = answer["tolerated_loss"].as_array().unwrap();
    let of = |law: &str| tolerated.iter().find(|row| row["law"] == law).unwrap()["loss"].as_f64();
    assert_eq!(format!("{:.1e}", of("reno").unwrap()), "2.5e-11");
    assert_eq!(format!("{:.1e}", of("cubic").unwrap()), "2.8e-8");
    // 30,000 km count, whatever the length.
    let record = answer["land_speed"]["bit_m_per_s"].as_f64().unwrap();
    assert_eq!(record, 3e7 * answer["goodput_bps"].as_f64().unwrap());
    assert!(answer["sources"].as_array().unwrap().contains(&"RFC 9438, section 5".into()));
}

#[test]
fn what_no_loss_allows_is_said() {
    let answer = json("lfn --rate 10G --rtt 100ms --window 1MiB --goodput 1G");
    let tolerated = answer["tolerated_loss"].as_array().unwrap();
    let pftk = tolerated.iter().find(|row| row["law"] == "pftk").unwrap();
    assert_eq!(pftk["loss"], Value::Null);
    let text = printed("lfn --rate 10G --rtt 100ms --window 1MiB --goodput 1G");
    assert!(text.contains("needs a larger window"), "{text}");
}

#[test]
fn an_impossible_long_path_is_refused_with_the_reason() {
    for (words, reason) in [
        ("lfn --rate 1G", "--rtt"),
        ("lfn --rtt 1ms", "--rate"),
        ("lfn --rate 0 --rtt 1ms", "a rate of 0 carries nothing"),
        ("lfn --rate 1G --rtt 0s", "a round trip of 0 limits nothing"),
        ("lfn --rate 1G --rtt 1ms --distance 300", "light itself takes 2.00 ms"),
        ("lfn --rate 1G --rtt 1ms --loss 100%", "a share from 0 to below 1"),
        ("lfn --rate 1G --rtt 1ms --window 2GiB", "TCP's window has 16 bits"),
        ("lfn --rate 1G --rtt 1ms --goodput 2G", "from 0 to 1,000.000 Mbit/s"),
        ("lfn --rate 1G --rtt 1ms --family 6", "cannot be used with"),
        ("lfn --link veth --rtt 1ms", "veth"),
        ("lfn --link ethernet:1G --rtt 1ms --mss 1461", "1460 at most"),
        ("lfn --rate 1G --distance far", "use a distance such as"),
    ] {
        refused(words, reason);
    }
}
