//! `fabricmark lab simulate`: a table snapshot, JSON keys, limits, and errors.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn simulate(words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_fabricmark");
    Command::new(program).args(["lab", "simulate"]).args(words).output().unwrap()
}

#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = simulate(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn runs(words: &[&str]) -> Vec<Value> {
    let mut words = words.to_vec();
    words.push("--json");
    let answer: Value = serde_json::from_str(&printed(&words)).unwrap();
    assert_eq!(answer["provenance"], "modelled");
    answer["runs"].as_array().unwrap().clone()
}

#[track_caller]
fn matches_snapshot(name: &str, words: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    let current = format!("$ fabricmark lab simulate {}\n{}", words.join(" "), printed(words));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(current == kept, "{name} differs; UPDATE_SNAPSHOTS=1 writes it anew:\n{current}");
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or_else(|| panic!("no {key}"))
}

#[test]
fn a_connection_is_told_in_a_headline_and_through_time() {
    let words = ["rtt=100ms", "link=ethernet:1G", "queue=50ms", "--duration", "30s"];
    matches_snapshot("simulate-one.txt", &words);
    let words =
        ["rtt=40ms", "--rate", "10M,100M", "--congestion", "reno,cubic", "--duration", "4s"];
    matches_snapshot("simulate-several.txt", &words);
}

#[test]
fn no_goodput_is_above_a_limit() {
    for words in [
        &["rtt=400ms", "link=ethernet:100G,mtu=9000", "--duration", "20s"][..],
        &["rtt=50ms", "link=ethernet:100M", "--rate", "10M,50M", "--congestion", "reno,cubic"],
        &["rtt=50ms", "rate=1G", "--window", "100KB", "--family", "6", "--duration", "10s"],
        &["rtt=100ms", "rate=1G", "--pacing", "50M", "--duration", "10s"],
        &["rtt=100ms", "rate=20M", "queue=300p", "--window", "unlimited", "--hystart", "none"],
    ] {
        for run in runs(words) {
            let goodput_bps = number(&run, "goodput_bps");
            let limits = run["limits"].as_array().unwrap();
            let least = limits.iter().map(|limit| number(limit, "goodput_bps"));
            let least = least.fold(f64::INFINITY, f64::min);
            // The count begins and ends between trains, each a thousandth of a window, and data behind a hole counts
            // only when the hole is filled.
            assert!(goodput_bps <= least * 1.001, "{words:?}: {goodput_bps} {least}");
            assert!(goodput_bps >= least * 0.9, "{words:?}: {goodput_bps} {least}");
        }
    }
}

#[test]
fn what_is_delivered_was_sent_and_stands_in_the_intervals() {
    let words = ["rtt=20ms", "rate=50M", "loss=0.1%", "queue=40p", "--duration", "10s"];
    let runs = runs(&[&words[..], &["--congestion", "reno,cubic"]].concat());
    for run in &runs {
        let intervals = run["intervals"].as_array().unwrap();
        let sum = |key| intervals.iter().map(|interval| number(interval, key)).sum::<f64>();
        assert_eq!(sum("delivered_bytes"), number(run, "delivered_bytes"));
        assert_eq!(sum("length_ns"), 10e9);
        assert_eq!(sum("retransmitted_segments"), number(run, "retransmitted_segments"));
        assert!(number(run, "retransmitted_segments") > 0.0 && number(run, "reductions") > 0.0);
        let first_time = number(run, "sent_segments") - number(run, "retransmitted_segments");
        assert!(number(run, "delivered_bytes") <= first_time * number(run, "mss_bytes"));
    }
    assert_eq!(runs[0]["congestion"], "reno");
    assert_eq!(runs[1]["congestion"], "cubic");
}

#[test]
fn a_run_in_json_says_what_was_asked_and_found() {
    let words = ["rtt=400ms", "link=ethernet:100G,mtu=9000", "--duration", "12s", "--interval"];
    let runs =
        runs(&[&words[..], &["500ms", "--family", "6", "--reverse", "delay=100ms"]].concat());
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    // 9000 bytes minus 40 of IPv6, 20 of TCP and 12 of timestamps.
    assert_eq!((&run["mss_bytes"], &run["header_bytes"]), (&8928.into(), &72.into()));
    assert_eq!(run["rtt_ns"], 300_000_000);
    assert_eq!(run["window_bytes"], 1_073_725_440);
    assert_eq!(run["reverse"], "delay=100ms link=ethernet:100G,mtu=9000");
    assert_eq!((&run["hystart"], &run["limited_by"]), (&"linux".into(), &"window".into()));
    assert_eq!(run["intervals"].as_array().unwrap().len(), 24);
    assert_eq!((&run["timeouts"], &run["reductions"]), (&0.into(), &0.into()));
    // 0.15 s of light in fibre one way; at most 30,000 km count.
    assert_eq!(run["distance_m"], 30_632_744);
    assert_eq!(number(run, "land_speed_bit_m_per_s"), 3e7 * number(run, "goodput_bps"));
}

#[test]
fn equal_seeds_lose_equal_packets() {
    let words = |seed| ["rtt=10ms", "rate=20M", "loss=1%", "--duration", "3s", "--seed", seed];
    assert_eq!(printed(&words("1")), printed(&words("1")));
    assert_ne!(printed(&words("1")), printed(&words("2")));
}

#[test]
fn a_chart_is_a_file_and_standard_error_names_it() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("x.svg");
    let words = ["rtt=40ms", "--rate", "10M,20M", "--duration", "3s", "--plot"];
    let output = simulate(&[&words[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("chart    {}\n", file.display()));
    let svg = fs::read_to_string(file).unwrap();
    for text in ["rtt=40ms, several rates", "10M cubic (modelled)", "20M cubic (modelled)"] {
        assert!(svg.contains(text), "no {text}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_reason() {
    for (words, reason) in [
        (&[][..], "<OPTION=VALUE>"),
        (&["rtt=400ms", "rat=1G"], "did you mean `rate`?"),
        (&["rtt=400ms", "queue=10p"], "has no effect without rate"),
        (&["link=ipoib:4X-SDR,mtu=68", "rtt=10ms", "--family", "6"], "no room for data behind 72"),
        (&["loss=1%"], "nothing limits this connection: give a rate"),
        (&["rtt=1ms", "--window", "unlimited"], "nothing limits this connection"),
        (&["rtt=10us", "rate=400G", "--duration", "1h"], "give a shorter --duration"),
        (&["rtt=1ms", "rate=1G", "pause"], "`pause` needs a link before this one"),
        (&["rtt=1ms", "rate=1G", "--window", "1000"], "segments in the window is 0"),
        (&["rtt=1ms", "rate=1G", "--window", "0"], "use at least 1 byte"),
        (&["rtt=1ms", "rate=1G", "--window", "much"], "unlimited"),
        (&["rtt=1ms", "rate=1G", "--rate", "0"], "the rate is 0"),
        (&["rtt=1ms", "rate=1G", "--duration", "0s"], "must be above 0"),
        (&["rtt=1ms", "rate=1G", "--interval", "1us"], "give a longer --interval"),
        (&["rtt=1ms", "rate=1G", "--congestion", "bbr"], "reno, cubic"),
        (&["rtt=1ms", "rate=1G", "--reverse", "rtt"], "400ms"),
        (&["rtt=1ms", "rate=1G", "--ecn"], "--ecn has no effect"),
        (&["trace=nowhere"], "cannot read the trace nowhere"),
        (&["--against", "nowhere", "rtt=1ms"], "cannot be used with"),
        (&["--against", "nowhere"], "no such file"),
    ] {
        let output = simulate(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {error}");
        assert!(error.contains(reason), "{words:?}: no {reason:?} in {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
