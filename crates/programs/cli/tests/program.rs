//! The built program without a lab: invalid input, help, generated files, and the forms of its output.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod schema;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use schema::Published;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn fabricmark(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabricmark")).args(words).current_dir(folder).output().unwrap()
}

#[track_caller]
fn expect(folder: &Path, words: &[&str], code: i32, fragments: &[&str]) {
    let output = fabricmark(folder, words);
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
    for fragment in fragments {
        assert!(text.contains(fragment), "{words:?}: no {fragment:?} in {text}");
    }
}

#[test]
fn wrong_input_is_refused_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    fs::write(here.join("bad.toml"), "title = \"t\"\nsead = 1\n").unwrap();
    fs::write(here.join("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    fs::write(here.join("binary.toml"), [0xff, 0xfe]).unwrap();
    for (name, trace) in [("lost", "trace:none.txt"), ("broken", "trace:broken.txt")] {
        let plan = format!(
            "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = 4\n\
             payload = 64\nlink = 'loopback'\npace = '{trace}'\n"
        );
        fs::write(here.join(format!("{name}.toml")), plan).unwrap();
    }
    fs::write(here.join("broken.txt"), "0\n5us\n4us\n").unwrap();
    for (words, fragments) in [
        (&["run", "bad.toml"][..], &["bad.toml:2:1", "unknown key `sead`", "seed"][..]),
        (&["run", "none.toml"], &["cannot read none.toml"]),
        (&["run", "large.toml"], &["longer than 1 MiB"]),
        (&["run", "binary.toml"], &["cannot read binary.toml"]),
        (&["run", "."], &["cannot read ."]),
        (&["run", "lost.toml"], &["cannot read the trace none.txt"]),
        (
            &["run", "broken.toml"],
            &[
                "broken.txt: line 3 of the trace",
                "departure 4us is earlier than the previous one, 5us",
            ],
        ),
        (&["run"], &["PLAN"]),
        (
            &["lab", "guest", "--writable", "nowhere", "--", "true"],
            &["--writable nowhere: no such folder"],
        ),
        (&["pair", "node2", "12", "--key-file", "key.pem"], &["8 letters and digits"]),
        (
            &["pair", "node2:99999", "K7QM-2XVD", "--key-file", "key.pem"],
            &["`node2:99999` has an invalid port; use a number up to 65535"],
        ),
        (&["agent", "--listen", "foo:bar"], &["foo:bar"]),
        (&["run", "bad.toml", "--quik"], &["--quick"]),
        (&["dance"], &["dance"]),
        (
            &["measure", "rr", "--ends", "127.0.0.1,192.0.2.7"],
            &["no device of this machine has the address 192.0.2.7: see `ip address`"],
        ),
        (
            &["measure", "stream", "loopback", "-P", "2", "--threads", "3"],
            &["threads=3 exceeds flows=2; use at most as many threads as flows"],
        ),
        (&["measure", "stream", "loopback", "--threads", "2"], &["use several flows (-P)"]),
        (&["report"], &["no such file", "fabricmark run"]),
        (&["export", "--format", "xml"], &["csv", "json"]),
        (&["compare", "a", "b", "--gate", "2"], &["such as 5%"]),
        (&["doctor", "eth0"], &["eth0", "rdma"]),
        (
            &["hosts", "show", "--interface", "no-such0"],
            &["no network interface `no-such0`", "one of lo"],
        ),
    ] {
        expect(here, words, 64, fragments);
    }
    assert!(!here.join("key.pem").exists());
    for (name, full, quick) in [
        ("P1-modes", "224 points in 56 comparison groups", "80 points in 20 comparison groups"),
        ("P1-speeds", "196 points in 196 comparison groups", "48 points in 48 comparison groups"),
        ("p2-together", "64 points in 16 comparison groups", "16 points in 4 comparison groups"),
        ("P2", "132 points in 15 comparison groups", "42 points in 8 comparison groups"),
        ("p1-ipoib", "336 points in 168 comparison groups", "80 points in 40 comparison groups"),
    ] {
        expect(here, &["papers", "run", name, "--check"], 0, &[full]);
        expect(here, &["papers", "run", name, "--check", "--quick"], 0, &[quick]);
    }
    assert!(!here.join("fabricmark-results").exists(), "nothing is written");
}

/// What a terminal of 40 columns shows of the program with these words, which succeeds.
fn on_terminal(words: &str, name: &str, value: &str) -> String {
    let line = format!("stty cols 40; {} {words}", env!("CARGO_BIN_EXE_fabricmark"));
    // `script` gives the program a terminal.
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .env(name, value)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    shown
}

#[test]
fn a_terminal_shows_each_second_of_a_run_of_several_threads() {
    let line = "measure stream loopback -P 2 --threads 2 --cpu 0,0 -t 1200ms";
    let shown = on_terminal(line, "TERM", "xterm");
    assert!(shown.contains("0.00 to ") && shown.contains("goodput"), "{shown}");
}

#[test]
fn progress_has_the_width_the_abilities_and_the_characters_of_the_terminal() {
    const LINE: &str = "measure rr loopback --vs flows=1 --vs flows=2 -t 50ms --runs 2";
    let shown = on_terminal(LINE, "TERM", "xterm");
    let states: Vec<&str> = shown.split("\r\u{1b}[K").skip(1).collect();
    // The last one is followed by the results.
    let (last, states) = states.split_last().unwrap();
    assert!(states.len() >= 6 && last.contains("verdict"), "{shown}");
    for state in states {
        assert!(state.chars().count() <= 40 && state.contains("of 6 runs"), "{state:?}");
    }
    assert!(shown.contains('±'), "{shown}");
    let dumb = on_terminal(LINE, "TERM", "dumb");
    assert!(!dumb.contains('\u{1b}') && !dumb.contains("of 6 runs"), "{dumb}");
    let ascii = on_terminal(LINE, "LC_ALL", "C");
    assert!(ascii.is_ascii() && ascii.contains("+-"), "{ascii}");
}

#[test]
fn a_closed_standard_error_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    let mut child = command.arg("dance").stderr(Stdio::piped()).spawn().unwrap();
    // Nobody reads what it will write.
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(64));
}

#[test]
fn results_are_text_in_a_unit_of_choice_or_csv_or_json() {
    let folder = TempDir::new().unwrap();
    let measured = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = fabricmark(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = measured("measure stream loopback -P 2 -t 100ms --cpu 0,0 -f k");
    for (name, unit) in [
        ("goodput", "kbit/s"),
        ("flow 1", "kbit/s"),
        ("flow 2", "% of all"),
        ("CPU of client", "% of one CPU"),
        ("CPU of server", "% of one CPU"),
    ] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains(unit), "no {unit} after {name}: {text}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "1 run: both ends ran on one CPU (measure --cpu A,B names one for each)";
    assert!(words.contains(note) && words.contains("CPUs 0 and 0"), "{text}");
    let text = measured("measure stream loopback -P 2 --threads 2 -t 100ms --cpu 0,0");
    assert!(text.contains("4 load threads shared one CPU"), "{text}");
    assert!(text.contains("CPUs 0+0 and 0+0"), "{text}");
    let csv = measured("measure rr loopback -t 50ms --runs 2 --csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("plan_digest,seed,block,"), "{csv}");
    let column = |name: &str| lines[0].split(',').position(|one| one == name).unwrap();
    // A warm-up and two runs.
    assert_eq!(lines.len(), 4, "{csv}");
    for line in &lines[1..] {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[column("outcome")], "completed");
        assert!(cells[column("rtt_mean_ns")].parse::<f64>().unwrap() > 0.0, "{line}");
    }
    let json: serde_json::Value = measured("measure rr loopback -t 50ms -J").parse().unwrap();
    Published::named("measure").holds(&json);
    let datagrams = "measure stream loopback -u -b 1M -t 200ms --require jitter<=1s";
    assert!(measured(datagrams).contains("jitter<=1s: kept"));
}

#[test]
fn the_fastest_path_is_chosen_by_trials() {
    let folder = TempDir::new().unwrap();
    let line = ["measure", "stream", "loopback", "-u", "--path", "auto", "-t", "50ms", "--json"];
    let output = fabricmark(folder.path(), &line);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = json["records"][0]["point"]["path"].as_str().unwrap();
    assert!(said.contains(&format!("path={path}: the fastest in trials of 100ms")), "{said}");
    // Each other path of datagrams is no faster.
    for other in ["copy", "mmsg", "gso"].iter().filter(|other| **other != path) {
        let (_, rest) = said.split_once(&format!("{other} ")).unwrap();
        let share: f64 = rest.split([',', ')']).next().unwrap().parse().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{said}");
    }
    let only = ["measure", "stream", "loopback", "--transport", "seqpacket", "--path", "auto"];
    let only = [&only[..], &["--payload", "1000", "-t", "50ms"]].concat();
    expect(folder.path(), &only, 0, &["path=copy: no other one is supported", "goodput"]);
    let both =
        ["measure", "stream", "loopback", "--path", "auto", "--vs", "flows=1", "--vs", "flows=2"];
    expect(folder.path(), &both, 64, &["--path auto chooses one path"]);
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("x.sqlite"), "this is no database, only a text of some length")
        .unwrap();
    expect(folder.path(), &["report", "--store", "x.sqlite"], 64, &["not a usable store"]);
}

#[test]
fn every_shipped_plan_is_sound_and_says_what_it_would_run() {
    let plans = Path::new(ROOT).join("plans");
    let mut count = 0;
    for plan in fs::read_dir(plans).unwrap() {
        let plan = plan.unwrap().path();
        // Folders contain lab topologies.
        if plan.is_dir() {
            continue;
        }
        let path = plan.to_str().unwrap();
        expect(Path::new(ROOT), &["run", path, "--check"], 0, &["points in", "digest"]);
        count += 1;
    }
    assert!(count >= 2);
    let plan = "plans/ipv6-vs-ipv4.toml";
    let told =
        ["336 points in 168 comparison groups", "\n  family: 4, 6\n", "\n  transport: tcp, udp\n"];
    expect(Path::new(ROOT), &["run", plan, "--check"], 0, &told);
    let late = ["run", "plans/late-flow.toml", "--check"];
    expect(Path::new(ROOT), &late, 0, &["6 runs of 5s each, at least 55 s"]);
    let control = ["run", plan, "--check", "--control", "node2"];
    expect(Path::new(ROOT), &control, 64, &["--control needs the host of the server, --to HOST"]);
    let port = ["run", plan, "--check", "--to", "node2:99999", "--link", "ethernet:1G"];
    expect(Path::new(ROOT), &port, 64, &["`node2:99999` has an invalid port"]);
    expect(
        Path::new(ROOT),
        &["run", plan, "--check", "--quick"],
        0,
        &["80 points in 40 comparison groups"],
    );
}

#[test]
fn claims_are_judged_on_what_the_papers_print() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    expect(here, &["papers", "verify"], 0, &["P1-01   HOLDS", "P5-11   HOLDS", "71 claims"]);
    expect(here, &["papers", "verify", "P2", "P3"], 0, &["P2-04   FAILS", "P3-01   UNSUPPORTED"]);
    expect(here, &["papers", "verify", "P9"], 64, &["unknown paper `P9`", "P1, P2, P3, P4, P5"]);
    expect(here, &["papers", "verify", "--run", "p1"], 64, &["no such file"]);
    let output = fabricmark(here, &["papers", "verify", "P4", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["judged_on"], "published figures");
    assert_eq!(answer["claims"].as_array().unwrap().len(), 9);
    assert_eq!(answer["verdicts"]["FIGURE-ONLY"], 9);
}

#[test]
fn a_paper_that_has_no_plan_says_which_have_one() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    expect(here, &["papers", "run", "P9"], 64, &["has no plan to run", "use one of P1"]);
    expect(
        here,
        &["papers", "run", "P1", "--check"],
        0,
        &["plans/p1.toml: 112 points in 56 comparison groups"],
    );
    expect(
        here,
        &["papers", "run", "P1", "--check", "--quick"],
        0,
        &["48 points in 24 comparison groups"],
    );
    assert!(!here.join("fabricmark-results").exists(), "nothing is written");
}

#[test]
fn tips_name_only_commands_and_options_that_help_lists() {
    let plan = "plans/ipv6-vs-ipv4.toml";
    for (words, tip, hidden) in [
        (&["worke"][..], "a similar subcommand exists: 'wire'", "worker"),
        (&["measur"], "a similar subcommand exists: 'measure'", "worker"),
        (&["run", plan, "--quic"], "a similar argument exists: '--quick'", "--in-guest"),
        (&["run", plan, "--in-gues"], "try '--help'", "--in-guest"),
        (&["--in-gues", "run", plan], "try '--help'", "--in-guest"),
        (&["measure", "rr", "loopback", "--repea", "2"], "'--repeat'", "--in-guest"),
    ] {
        let output = fabricmark(Path::new(ROOT), words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert!(text.contains(tip) && !text.contains(hidden), "{text}");
    }
}

#[test]
fn help_manual_and_completions_come_from_one_definition() {
    let folder = TempDir::new().unwrap();
    let commands = ["run", "report", "export", "compare", "doctor", "hosts"];
    expect(folder.path(), &["--help"], 0, &commands);
    expect(folder.path(), &["man"], 0, &commands);
    for shell in ["bash", "zsh", "fish"] {
        expect(folder.path(), &["completions", shell], 0, &commands);
    }
    expect(folder.path(), &["--version"], 0, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn a_closed_pipe_or_a_full_disk_behind_standard_output_is_no_panic() {
    for words in ["man", "completions bash", "agent --new-key --key-file $(mktemp -d)/key.pem"] {
        let line = format!("\"$0\" {words} | head -n 1; \"$0\" {words} >/dev/full; echo $?");
        let folder = TempDir::new().unwrap();
        let output = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_fabricmark")])
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("\n67\n"), "{output:?}");
    }
}

#[test]
fn doctor_prints_findings_with_all_their_fields_as_json() {
    let folder = TempDir::new().unwrap();
    let output = fabricmark(folder.path(), &["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["host"]["cpus"].as_u64().unwrap() > 0);
    let findings = answer["findings"].as_array().unwrap();
    assert!(findings.len() >= fabricmark_host::doctor::CHECKS.len());
    for finding in findings {
        for field in ["check", "title", "why"] {
            assert!(!finding[field].as_str().unwrap().is_empty(), "{finding}");
        }
        let severity = finding["severity"].as_str().unwrap();
        let words = ["problem", "warning", "note", "not observable", "fine"];
        assert!(words.contains(&severity), "{finding}");
        let remedy = &finding["remedy"];
        assert!(remedy.is_string() || (remedy.is_null() && finding.get("remedy").is_some()));
        let evidence = finding["evidence"].as_array().unwrap();
        assert!(!evidence.is_empty(), "{finding}");
        for piece in evidence {
            assert!(piece["source"].is_string() && piece["value"].is_string(), "{finding}");
        }
    }
}

#[test]
fn doctor_shows_what_is_fine_only_when_asked() {
    let folder = TempDir::new().unwrap();
    expect(folder.path(), &["doctor"], 0, &["fine: ", "(shown with --all)"]);
    expect(folder.path(), &["doctor", "--all"], 0, &["[clock-cost]", "clock_gettime"]);
}

#[test]
fn hosts_show_prints_each_interface_as_text_and_as_json_of_the_published_schema() {
    let folder = TempDir::new().unwrap();
    expect(folder.path(), &["hosts", "show"], 0, &["lo: loopback, up\n", "  offloads    tso "]);
    let output = fabricmark(folder.path(), &["hosts", "show", "--interface", "lo", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    Published::named("hosts").holds(&answer);
    assert_eq!(answer["interfaces"].as_array().unwrap().len(), 1);
    assert_eq!(answer["interfaces"][0]["technology"], "loopback");
    assert!(answer["host"]["cpus"].as_u64().unwrap() > 0);
}

#[test]
fn a_missing_package_without_the_right_to_install_is_named_with_the_line_to_run() {
    let path = stand_ins(&[("id", "echo 1000"), ("apt-get", "exit 9")]);
    let output = Command::new(Path::new(ROOT).join("scripts/need"))
        .args(["sh=dash", "no-such-program=no-such-package"])
        // An unprivileged user without sudo, as reported by these stand-ins.
        .env("PATH", path.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(66), "{message}");
    assert!(message.contains("missing: no-such-package"), "{message}");
    assert!(message.contains("apt-get install -y --no-install-recommends no-such-package"));
    assert!(!message.contains("dash"), "what is there is not asked for: {message}");
}

/// A PATH with stand-ins for programs, and with the few real ones that the script needs.
fn stand_ins(programs: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    for (name, body) in programs {
        let file = here.join(name);
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["sh", "sort", "tr"] {
        let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let real = real.iter().find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(real, here.join(name)).unwrap();
    }
    folder
}
