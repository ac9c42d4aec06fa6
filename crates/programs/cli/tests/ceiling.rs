//! `fabricmark ceiling`: table snapshots, JSON keys, and errors.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod schema;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use schema::Published;

fn ceiling(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabricmark"))
        .arg("ceiling")
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

/// Standard output of a command that must succeed.
#[track_caller]
fn printed(words: &str) -> String {
    let output = ceiling(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The answer in JSON, which follows the published schema.
#[track_caller]
fn json(words: &str) -> Value {
    let answer = serde_json::from_str(&printed(&format!("{words} --json"))).unwrap();
    Published::named("ceiling").holds(&answer);
    answer
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
fn ceilings_and_floors_stand_in_a_table() {
    for (name, words) in [
        (
            "one-payload.txt",
            "--link ethernet:25G,mtu=1500 --transport udp --family 4 --payload 1473",
        ),
        ("udp-ipoib.txt", "--link ipoib:4X-FDR --family 4,6 --payload 4..32768"),
        ("tcp-stream.txt", "--link ethernet:10G,mtu=9000 --transport tcp --timestamps"),
        ("tcp-per-write.txt", "--link ethernet:10G --transport tcp --per-write --payload 4..32768"),
        (
            "rc-limits.txt",
            "--link ib:4X-HDR --transport rc --payload 64..1048576 --in-flight 4 --bus pcie:3x8 --rtt 2us",
        ),
        (
            "path.txt",
            "--link ethernet:1G --link ethernet:10G --link ethernet:1G --switch ct \
             --switch sf,delay=300ns --payload 64,2048 --distance 35",
        ),
    ] {
        matches_snapshot(name, words);
    }
}

#[test]
fn the_known_figures_come_out() {
    // Goodput in Mbit/s to the printed digit, and bytes on the wire.
    for (words, mbps, wire_bytes) in [
        ("--link ethernet:1G --family 6 --payload 1452", "944.0832", 1538),
        ("--link ethernet:1G --family 6 --payload 1453", "889.7734", 1633),
        ("--link ethernet:10G --transport tcp --timestamps", "9414.8244", 1538),
        ("--link ipoib:4X-QDR,ib-mtu=4096,grh --payload 4064", "31186.5707", 4170),
        ("--link ib:4X-EDR --transport rc --payload 64KiB --operation write", "99345.1370", 65_968),
        ("--link rocev1:10G --transport rc --payload 8KiB", "9159.2129", 8944),
    ] {
        let answer = json(words);
        let goodput = answer["goodput_bps"].as_f64().unwrap() / 1e6;
        assert_eq!(format!("{goodput:.4}"), mbps, "{words}");
        assert_eq!(answer["wire_bytes"], wire_bytes, "{words}");
    }
    for (words, us) in [
        ("--link ethernet:100M --payload 64", "9.44"),
        ("--link ethernet:100M --payload 64 --switch sf", "18.88"),
        ("--link ethernet:10G --payload 2048 --switch sf", "2.9488"),
        ("--link ethernet:10G --payload 2048 --switch ct", "1.7392"),
    ] {
        let latency = json(words)["latency_s"].as_f64().unwrap() * 1e6;
        assert_eq!(format!("{latency:.4}").trim_end_matches('0'), us, "{words}");
    }
}

#[test]
fn json_has_one_payload_at_the_top_and_several_as_rows() {
    let one = json("--link ethernet:1G --payload 1472");
    assert_eq!(one["goodput_exact"], "736000000000/769");
    // 1,526 bytes from preamble to FCS.
    assert_eq!(one["latency_exact"], "763/62500000");
    for (key, value) in [("kind", "bound"), ("latency_kind", "bound"), ("transport", "udp")] {
        assert_eq!(one[key], value);
    }
    assert_eq!((&one["packets"], &one["family"]), (&1.into(), &4.into()));
    assert!(!one["sources"].as_array().unwrap().is_empty());
    let several = json("--link ethernet:1G --payload 4..32768 --family 4,6");
    let rows = several["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 28);
    assert_eq!((&rows[27]["payload_bytes"], &rows[27]["family"]), (&32_768.into(), &6.into()));
    assert!(several.get("goodput_bps").is_none());
}

#[test]
fn a_packet_towards_a_faster_link_is_stored_and_a_line_says_so() {
    let answer = json("--link ethernet:1G --link ethernet:10G --switch ct --payload 64");
    let notes = answer["notes"].to_string();
    assert!(notes.contains("faster"), "{notes}");
    assert_eq!(answer["limited_by"], "ethernet:1G");
}

#[test]
fn acks_cost_where_they_travel_beside_payload() {
    let goodput = |words: &str| {
        let answer = json(&format!("--link ethernet:1G --transport tcp {words}"));
        (answer["goodput_bps"].as_f64().unwrap() / 1e6, answer["kind"].clone())
    };
    let (free, kind) = goodput("--half-duplex");
    assert_eq!((format!("{free:.3}"), kind), ("949.285".to_owned(), "bound".into()));
    // 1,460 bytes in 1,538 plus half of an 84-byte ACK, or a whole one.
    for (acks, mbps) in [("delayed", 1460.0 / 1580.0), ("each", 1460.0 / 1622.0)] {
        let (found, kind) = goodput(&format!("--half-duplex --acks {acks}"));
        assert_eq!(format!("{found:.3}"), format!("{:.3}", 1000.0 * mbps));
        assert_eq!(kind, "conditional");
    }
}

#[test]
fn a_chart_is_a_file_and_standard_error_names_it() {
    let folder = tempfile::TempDir::new().unwrap();
    let draw = |words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_fabricmark"))
            .arg("ceiling")
            .args(words.split_whitespace())
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let words = "--link ethernet:10G --family 4,6 --payload 4..32768 --plot";
    assert_eq!(draw(words), "chart    ceiling-udp-ethernet-10g.svg\n");
    assert_eq!(draw(&format!("{words} x.svg")), "chart    x.svg\n");
    let svg = fs::read_to_string(folder.path().join("x.svg")).unwrap();
    for text in ["udp over ethernet:10G", "IPv4, BOUND", "IPv6, BOUND", "32,768 B"] {
        assert!(svg.contains(text), "no {text}");
    }
    let default = fs::read_to_string(folder.path().join("ceiling-udp-ethernet-10g.svg")).unwrap();
    assert_eq!(svg, default);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (words, reason) in [
        ("", "--link"),
        ("--link ethernet:1G", "datagrams need a size: give --payload"),
        ("--link veth --payload 64", "no line rate"),
        (
            "--link ipoib:4X-FDR,ib-mtu=1024 --family 6 --payload 64",
            "IPv6 needs an MTU of at least 1280",
        ),
        ("--link ethernet:1G --payload 65508", "do not fit in a UDP datagram"),
        ("--link ib:4X-HDR --transport ud --payload 4097", "one packet of at most 4096"),
        ("--link ib:4X-HDR --payload 64", "carries no IP"),
        ("--link ethernet:1G --transport rc --payload 64", "rc and ud are not supported"),
        ("--link ethernet:1G --transport tcp --payload 0 --per-write", "sends no segment"),
        ("--link ethernet:1G --per-write --payload 64", "--per-write is supported only with tcp"),
        (
            "--link ethernet:1G --immediate --payload 64",
            "--immediate is supported only with rc and ud",
        ),
        ("--link ethernet:1G --payload 9..15", "no power of two"),
        ("--link ethernet:1G --payload 64 --plot", "--plot needs several payloads"),
        ("--link ethernet:1G --payload 64 --acks each", "not modelled"),
        ("--link ethernet:1G --payload 64 --in-flight 2", "--transport rc"),
        ("--link ethernet:1G --payload 64 --bus pcie:9x8", "is not a bus"),
        ("--link ethernet:1G --payload 64 --switch hub", "write sf or ct"),
        (
            "--link ethernet:1G --link ethernet:1G --switch ct --switch ct --payload 4",
            "2 switches do not fit between 2 links",
        ),
        ("--link ethernet:1G --payload 4 --distance 1 --propagation 1us", "cannot be used with"),
        ("--link ethernet:1G lfn", "lfn"),
    ] {
        refused(words, reason);
    }
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
    // The law has a square root: the result is not a fraction.
    assert_eq!((&answer["kind"], &answer["goodput_exact"]), (&"estimate".into(), &Value::Null));
    assert_eq!(answer["limited_by"], "cubic at a loss of 1e-4");
    let limits = answer["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 3);
    assert_eq!(limits[0]["goodput_exact"], "7000000000/1");
    let hours = answer["reno_recovery"]["ns"].as_f64().unwrap() / 3.6e12;
    assert_eq!(format!("{hours:.1}"), "13.6");
    let tolerated = answer["tolerated_loss"].as_array().unwrap();
    let of =
        |law: &str| tolerated.iter().find(|row| row["law"] == law).unwrap()["loss_share"].as_f64();
    assert_eq!(format!("{:.1e}", of("reno").unwrap()), "2.5e-11");
    assert_eq!(format!("{:.1e}", of("cubic").unwrap()), "2.8e-8");
    // At most 30,000 km count.
    let record = answer["land_speed"]["bit_m_per_s"].as_f64().unwrap();
    assert_eq!(record, 3e7 * answer["goodput_bps"].as_f64().unwrap());
    assert!(answer["sources"].as_array().unwrap().contains(&"RFC 9438, section 5".into()));
}

#[test]
fn what_no_loss_allows_is_said() {
    let answer = json("lfn --rate 10G --rtt 100ms --window 1MiB --goodput 1G");
    let tolerated = answer["tolerated_loss"].as_array().unwrap();
    let pftk = tolerated.iter().find(|row| row["law"] == "pftk").unwrap();
    assert_eq!(pftk["loss_share"], Value::Null);
    let text = printed("lfn --rate 10G --rtt 100ms --window 1MiB --goodput 1G");
    assert!(text.contains("needs a larger window"), "{text}");
    // Light in vacuum needs 2.00 ms over 300 km, in fibre 2.94 ms.
    let text = printed("lfn --rate 1G --rtt 2.5ms --distance 300");
    assert!(
        text.contains("at least 2.94 ms, more than the RTT: part of the path is not fibre"),
        "{text}"
    );
    let text = printed("lfn --rate 1G --rtt 3ms --distance 300");
    assert!(!text.contains("not fibre"), "{text}");
}

#[test]
fn an_impossible_long_path_is_refused_with_the_reason() {
    for (words, reason) in [
        ("lfn --rate 1G", "--rtt"),
        ("lfn --rtt 1ms", "--rate"),
        ("lfn --rate 0 --rtt 1ms", "the rate is 0: give --rate above 0"),
        ("lfn --rate 1G --rtt 0s", "the RTT is 0: give --rtt above 0"),
        ("lfn --rate 1G --rtt 1ms --distance 300", "light in vacuum needs an RTT of 2.00 ms"),
        ("lfn --rate 1G --rtt 1ms --loss 100%", "a share from 0 to below 1"),
        ("lfn --rate 1G --rtt 1ms --window 2GiB", "the largest TCP window is 1073725440 bytes"),
        (
            "lfn --rate 1G --rtt 1ms --goodput 2G",
            "--goodput 2,000.000 Mbit/s is outside 0 to 1,000.000 Mbit/s",
        ),
        ("lfn --rate 1G --rtt 1ms --family 6", "cannot be used with"),
        ("lfn --link veth --rtt 1ms", "no line rate"),
        ("lfn --link ethernet:1G --rtt 1ms --mss 1461", "use at most 1460"),
        ("lfn --rate 1G --distance far", "use a distance such as"),
    ] {
        refused(words, reason);
    }
}
