//! Each kind of error in a plan file is reported with its line, what is wrong and the remedy; nothing is run.

use fabricmark_plan::{Offload, PathSpec, Size, TopologyPath, parse};
use fabricmark_units::Nanos;

const SOUND: &str = r#"title = "t"
seed = 1
[factors]
pattern = ["stream"]
transport = ["tcp", "udp"]
family = [4, 6]
payload = [4, 1024]
link = ["ethernet:1G"]
[settings]
congestion = "cubic"
[run]
duration = "1s"
[stop]
confidence = "95%"
runs = { min = 10, max = 30 }
[quick]
payload = [4]
runs = 5
[[compare]]
factor = "family"
baseline = 4
candidate = 6
[[table]]
figure = "goodput"
where = { transport = "udp" }
rows = "payload"
columns = ["family"]
published = "P1 IV"
[[chart]]
figure = "goodput"
kind = "lines"
"#;

#[test]
fn the_sound_plan_is_sound() {
    let plan = parse("p.toml", SOUND, Size::Full, &["P1 IV"]).unwrap();
    assert_eq!((plan.points.len(), plan.comparison_groups.len()), (8, 4));
    let quick = parse("p.toml", SOUND, Size::Quick, &["P1 IV"]).unwrap();
    assert_eq!((quick.points.len(), quick.stop.runs_min, quick.stop.half_width), (4, 5, None));
    assert_ne!(plan.digest(), quick.digest());
}

#[test]
fn the_precision_of_a_fixed_number_of_runs_is_that_of_a_quick_plan_with_a_range() {
    let fixed = SOUND.replace("runs = { min = 10, max = 30 }", "runs = 30\nhalf_width = \"2%\"");
    let ranged = fixed.replace("runs = 5", "runs = { min = 3, max = 10 }");
    let half_width =
        |text: &str, size| parse("p.toml", text, size, &["P1 IV"]).unwrap().stop.half_width;
    assert_eq!(half_width(&fixed, Size::Full), None);
    assert_eq!(half_width(&ranged, Size::Quick), Some(0.02));
}

#[test]
fn the_shortest_time_of_the_longest_plan_is_no_overflow() {
    let payloads: Vec<String> = (4..70).map(|bytes| bytes.to_string()).collect();
    let long = SOUND
        .replace("\"1s\"", "\"1h\"")
        .replace("{ min = 10, max = 30 }", "10000")
        .replace("payload = [4, 1024]", &format!("payload = [{}]", payloads.join(", ")))
        .replace("link = [", "flows = [1, 2]\nlink = [");
    let plan = parse("p.toml", &long, Size::Full, &["P1 IV"]).unwrap();
    assert!(plan.points.len() > 512, "{}", plan.points.len());
    assert_eq!(plan.shortest(), Nanos(u64::MAX));
}

#[test]
fn a_warm_up_of_nothing_is_none() {
    let none = SOUND.replace("[run]", "[run]\nwarm_up = \"0s\"");
    let plan = parse("p.toml", &none, Size::Full, &["P1 IV"]).unwrap();
    assert_eq!(plan.warm_up_ns.0, 0);
}

#[test]
fn an_omitted_part_is_added_to_each_run_but_not_to_slices() {
    let with = |omit: &str| {
        parse("p.toml", &SOUND.replace("[run]", &format!("[run]\n{omit}")), Size::Full, &["P1 IV"])
    };
    let plan = with("omit = \"2s\"").unwrap();
    assert_eq!(plan.run_takes(&plan.points[0], false), Nanos::from_secs(3));
    assert_ne!(plan.digest(), with("").unwrap().digest());
    assert_eq!(with("omit = \"0s\"").unwrap().digest(), with("").unwrap().digest());
    for other in ["slices = true", "bytes = 1000"] {
        let problems = with(&format!("omit = \"2s\"\n{other}")).unwrap_err().to_string();
        let key = other.split(" =").next().unwrap();
        assert!(problems.contains(&format!("omit is not supported with {key}")), "{problems}");
    }
}

#[test]
fn a_steady_run_has_intervals_enough_and_is_no_slice() {
    let with = |run: &str| {
        parse("p.toml", &SOUND.replace("[run]", &format!("[run]\n{run}")), Size::Full, &["P1 IV"])
    };
    let plan = with("steady = \"5%\"").unwrap();
    assert_eq!((plan.steady, plan.interval_ns), (Some(0.05), Some(Nanos::from_millis(100))));
    assert_ne!(plan.digest(), with("interval = \"100ms\"").unwrap().digest());
    for (run, says) in [
        ("steady = \"0%\"", "a steady state of 0% is out of range"),
        ("steady = \"5%\"\nslices = true", "steady is not supported with slices"),
        ("steady = \"5%\"\nbytes = 1000", "steady is not supported with bytes"),
        ("steady = \"5%\"\ninterval = \"250ms\"", "steady needs at least 5 intervals"),
    ] {
        let problems = with(run).unwrap_err().to_string();
        assert!(problems.contains(says), "{run}: {problems}");
    }
}

#[test]
fn several_threads_have_intervals_and_amounts_but_take_no_turns() {
    let with = |run: &str| {
        let threads = SOUND
            .replace("[settings]", "[settings]\nflows = 2\nthreads = 2\nwait = \"epoll\"")
            .replace("[run]", &format!("[run]\n{run}"));
        parse("p.toml", &threads, Size::Full, &["P1 IV"]).unwrap()
    };
    for run in ["interval = \"100ms\"", "bytes = 1000", "steady = \"5%\"", "slices = true"] {
        let plan = with(run);
        assert_eq!((plan.points[0].threads, plan.takes_turns()), (Some(2), false), "{run}");
    }
}

#[test]
fn a_plan_goes_to_a_host_only_over_links_that_its_packets_cross() {
    let plan = parse("p.toml", SOUND, Size::Full, &["P1 IV"]).unwrap();
    let to_host = |link: &str| plan.clone().to_host("h", Some(link.parse().unwrap()));
    assert!(to_host("ipoib:4X-FDR,mode=connected").is_ok());
    for (link, message) in [
        (
            "rocev2:25G",
            "tcp is not supported over rocev2:25G, which carries RDMA verbs only; use \
             link=ipoib:WIDTH-SPEED or ethernet:RATE, or transport=rc, uc or ud",
        ),
        (
            "ipoib:4X-FDR,ib-mtu=512",
            "IPv6 needs an MTU of at least 1280, but ipoib:4X-FDR,ib-mtu=512 has 508; use \
             ib-mtu=2048, mode=connected or family=4",
        ),
    ] {
        assert_eq!(to_host(link).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_plan_over_a_topology_names_two_nodes_and_no_link() {
    let with = |testbed: &str, link: &str| {
        let text = SOUND
            .replace("seed = 1", &format!("testbed = \"{testbed}\"\nseed = 1"))
            .replace("link = [\"ethernet:1G\"]\n", link);
        parse("p.toml", &text, Size::Full, &["P1 IV"])
    };
    let plan = with("lab:labs/dumbbell.toml:client1,server2", "").unwrap();
    let topology = plan.topology.as_ref().unwrap();
    assert_eq!(topology.file, "labs/dumbbell.toml");
    assert_eq!((&*topology.client, &*topology.server), ("client1", "server2"));
    let mut read = plan.clone();
    let (mtu, rtt, offload) = (1400, Nanos::from_millis(5), Offload::On);
    let way = |_: &PathSpec| Ok::<_, ()>(TopologyPath { mtu, rtt, offload, takes_turns: true });
    read.over("[hosts.a]".to_owned(), way).unwrap();
    assert_ne!(read.digest(), plan.digest());
    assert!(read.points.iter().all(|point| point.link.mtu() == 1400 && point.rtt.is_some()));
    assert_eq!(with("lab:a.toml", "").unwrap().topology.unwrap().server, "server");
    for (testbed, link, says) in [
        ("lab:a.toml", "link = [\"ethernet:1G\"]\n", "in the topology file"),
        ("lab:a.toml", "rtt = \"5ms\"\n", "in the topology file"),
        ("lab:a.toml:client", "", "lab:FILE.toml:CLIENT,SERVER"),
        ("rack", "", "unknown testbed `rack`"),
    ] {
        let problems = with(testbed, link).unwrap_err().to_string();
        assert!(problems.contains(says), "{testbed}: {problems}");
    }
}

#[test]
fn what_only_a_lab_emulates_is_refused_on_the_way_to_a_host() {
    let to_host = |settings: &str| {
        let text = SOUND
            .replace("congestion = \"cubic\"\n", &format!("congestion = \"cubic\"\n{settings}\n"));
        parse("p.toml", &text, Size::Full, &["P1 IV"]).unwrap().to_host("h", None)
    };
    for (settings, level) in [
        ("rtt = \"400ms\"", "rtt = 400ms"),
        ("emulate = \"loss=1e-3\"", "emulate = loss=0.001"),
        ("rtt = \"0ms\"\nwindow = \"2bdp\"", "window = 2bdp"),
    ] {
        let message = to_host(settings).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("{level} is not supported between hosts")),
            "{message}"
        );
    }
    let lab = SOUND.replace("link = [\"ethernet:1G\"]\n", "").replacen(
        "seed",
        "testbed = \"lab:a.toml\"\nseed",
        1,
    );
    let plan = || parse("p.toml", &lab, Size::Full, &["P1 IV"]).unwrap();
    let message = plan().to_host("h", None).unwrap_err().to_string();
    assert_eq!(
        message,
        "testbed = lab:a.toml is a lab; give the link between the hosts with --link"
    );
    let link = "ethernet:10G".parse().unwrap();
    assert!(plan().to_host("h", Some(link)).unwrap().points.iter().all(|point| point.link == link));
    let plan = to_host("rtt = \"0ms\"\noffload = \"off\"").unwrap();
    assert!(plan.points.iter().all(|point| point.rtt.is_none() && point.offload.is_none()));
}

/// Kind of error, text of the sound plan that is replaced, its replacement, line of the error (0: any), and words
/// of the message and of its help.
const BROKEN: &[(&str, &str, &str, usize, &str, &str)] = &[
    ("no TOML", "seed = 1", "seed = = 1", 2, "", "docs/plan-file.md"),
    ("no title", "title = \"t\"\n", "", 0, "no title", "title ="),
    ("unknown key", "seed = 1", "sead = 1", 2, "unknown key `sead`", "did you mean `seed`?"),
    ("unknown factor", "payload = [4, 1024]", "pyload = [4]", 7, "`pyload`", "`payload`?"),
    ("factor missing", "family = [4, 6]\n", "", 3, "has no family", "family = [...]"),
    ("empty factor", "[4, 1024]", "[]", 7, "no levels", "at least one level"),
    ("level twice", "[4, 1024]", "[4, 4]", 7, "level 4 twice", "once"),
    ("unknown transport", "\"udp\"]", "\"sdp\"]", 5, "not a level", "tcp, udp"),
    ("unknown pattern", "[\"stream\"]", "[\"steam\"]", 4, "not a level", "stream, rr"),
    ("family 5", "[4, 6]", "[4, 5]", 6, "not a level", "4, 6"),
    ("bad size", "[4, 1024]", "[4, \"1 furlong\"]", 7, "not a level", "64KiB"),
    ("payload 0", "[4, 1024]", "[0]", 7, "payload=0 is not supported with tcp", "at least 1 byte"),
    ("bad link", "ethernet:1G", "ethernet:1Q", 8, "not a level", "ethernet:10G"),
    ("link of no IP", "ethernet:1G", "ib:4X-FDR", 8, "carries RDMA verbs", "ipoib:"),
    (
        "IPv6 in 1020",
        "ethernet:1G",
        "ipoib:4X-FDR,ib-mtu=1024",
        8,
        "MTU of at least 1280",
        "ib-mtu=2048",
    ),
    ("level of a wrong type", "[4, 1024]", "[4, 1.5]", 7, "expected", "an integer"),
    ("duration without unit", "\"1s\"", "1", 12, "expected a duration", "400ms"),
    ("duration of wrong unit", "\"1s\"", "\"1 fortnight\"", 12, "is not a duration", "400ms"),
    ("duration 0", "\"1s\"", "\"0s\"", 12, "out of range", "an hour"),
    (
        "interval that takes too much",
        "duration = \"1s\"",
        "duration = \"1s\"\ninterval = \"100us\"",
        13,
        "out of range for a run of 1s",
        "use 1ms to 1s",
    ),
    (
        "interval longer than the run",
        "duration = \"1s\"",
        "interval = \"2s\"",
        12,
        "an interval of 2s",
        "to 1s",
    ),
    (
        "too many intervals",
        "duration = \"1s\"",
        "duration = \"1h\"\ninterval = \"50ms\"",
        13,
        "out of range",
        "use 100ms",
    ),
    ("negative seed", "seed = 1", "seed = -1", 2, "`-1`", "a seed"),
    ("confidence as a number", "\"95%\"", "95", 14, "expected a confidence", "95%"),
    ("confidence of 100 %", "\"95%\"", "\"100%\"", 14, "out of range", "below \"100%\""),
    (
        "runs upside down",
        "min = 10, max = 30",
        "min = 30, max = 10",
        15,
        "min=30 exceeds max=10",
        "min",
    ),
    ("one run", "runs = 5", "runs = 1", 18, "not a number of runs", "2 to 10000"),
    ("no congestion control", "congestion = \"cubic\"\n", "", 5, "tcp needs", "cubic"),
    ("both factor and setting", "[settings]", "[settings]\npayload = 4", 10, "both", "keep one"),
    (
        "setting that varies",
        "\"cubic\"",
        "[\"cubic\", \"reno\"]",
        10,
        "several levels",
        "[factors]",
    ),
    (
        "datagram too large",
        "[4, 1024]",
        "[4, 65508]",
        7,
        "payload=65508 exceeds the maximum of 65507",
        "smaller payload",
    ),
    (
        "path of another transport",
        "[settings]",
        "path = [\"gso\"]\n[settings]",
        9,
        "not supported with tcp",
        "udp",
    ),
    (
        "path of another pattern",
        "[\"stream\"]\ntransport = [\"tcp\", \"udp\"]",
        "[\"rr\"]\ntransport = [\"udp\"]\npath = [\"mmsg\"]",
        6,
        "path=mmsg supports stream, not rr",
        "path=copy",
    ),
    (
        "a ring for too many flows",
        "[settings]",
        "path = [\"io-uring\"]\nflows = [1001]\n[settings]",
        10,
        "flows=1001 exceeds the maximum of 1000",
        "at most 1000",
    ),
    (
        "zero copy of another transport",
        "[\"tcp\", \"udp\"]",
        "[\"mptcp\"]\npath = [\"io-uring-zc\"]",
        6,
        "not supported with mptcp",
        "tcp or udp",
    ),
    ("cork of another word", "[settings]", "[settings]\ncork = 1", 10, "not a level", "true"),
    (
        "label of 21 bits",
        "[settings]",
        "[settings]\nflow_label = 1048576",
        10,
        "not a level",
        "1048575",
    ),
    (
        "a name for an address",
        "[settings]",
        "[settings]\nsource = \"a\"",
        10,
        "not a level",
        "10.0.0.1",
    ),
    (
        "endless connecting",
        "[settings]",
        "[settings]\nconnect_timeout = \"2m\"",
        10,
        "not a level",
        "60s",
    ),
    (
        "source of one family",
        "[settings]",
        "source = [\"10.0.0.1\"]\n[settings]",
        9,
        "source=10.0.0.1 is not an IPv6 address",
        "that family",
    ),
    (
        "one port for many flows",
        "[settings]",
        "flows = [2]\nsource_port = [5000]\n[settings]",
        10,
        "source_port",
        "flows=1",
    ),
    (
        "acknowledging at once by another path",
        "[\"tcp\", \"udp\"]",
        "[\"tcp\"]\npath = [\"splice\"]\nquickack = [true]",
        7,
        "quickack",
        "path=copy",
    ),
    (
        "stamps of several requests under way",
        "[\"stream\"]",
        "[\"rr\"]\noutstanding = [4]\ntimestamps = [\"software\"]",
        6,
        "one request in flight, not 4",
        "outstanding=1",
    ),
    (
        "unknown stamps",
        "[settings]",
        "timestamps = [\"yes\"]\n[settings]",
        9,
        "not a level",
        "software, hardware",
    ),
    (
        "flows that block",
        "[settings]",
        "flows = [10]\nwait = [\"block\"]\n[settings]",
        10,
        "wait=block is not supported with flows=10",
        "epoll",
    ),
    ("unknown pace", "[settings]", "pace = [\"slow\"]\n[settings]", 9, "not a level", "fixed:RATE"),
    ("rate of 0", "[settings]", "pace = [\"fixed:0\"]\n[settings]", 9, "not a level", "above 0"),
    (
        "unknown way to wait for a departure",
        "[settings]",
        "pace_wait = [\"nap\"]\n[settings]",
        9,
        "not a level",
        "sleep-spin",
    ),
    (
        "pacing rate below a byte",
        "[settings]",
        "pacing_rate = [7]\n[settings]",
        9,
        "not a level",
        "8 bit/s",
    ),
    (
        "pace of a ring",
        "[\"tcp\", \"udp\"]",
        "[\"udp\"]\npath = [\"io-uring\"]\npace = [\"fixed:1M\"]",
        6,
        "supports only pace=closed",
        "path=copy",
    ),
    (
        "unix over a link",
        "[\"tcp\", \"udp\"]",
        "[\"unix\"]",
        8,
        "unix stays within one machine",
        "loopback",
    ),
    (
        "connections over udp",
        "[\"stream\"]",
        "[\"crr\"]",
        4,
        "crr is not supported with udp",
        "tcp",
    ),
    (
        "quic over too many flows",
        "[\"tcp\", \"udp\"]",
        "[\"quic\"]\nflows = [501]",
        6,
        "flows=501 exceeds the maximum of 500",
        "at most 500",
    ),
    (
        "quic by busy polling",
        "[\"tcp\", \"udp\"]",
        "[\"quic\"]\nwait = [\"busy-poll\"]",
        6,
        "wait=busy-poll is not supported with quic",
        "epoll",
    ),
    (
        "burst with a pace",
        "[\"stream\"]\ntransport = [\"tcp\", \"udp\"]",
        "[\"burst\"]\npace = [\"fixed:1M\"]\ntransport = [\"tcp\"]",
        5,
        "pace=fixed:1M is not supported",
        "pace=closed",
    ),
    (
        "burst whose response has no room for a number",
        "[\"stream\"]",
        "[\"burst\"]\nresponse = [3]",
        5,
        "response=3 is too small",
        "at least 4",
    ),
    (
        "quic with a DSCP",
        "[\"tcp\", \"udp\"]",
        "[\"quic\"]\ndscp = [46]",
        6,
        "dscp is not",
        "leave out",
    ),
    (
        "congestion control that quic lacks",
        "[\"tcp\", \"udp\"]\nfamily = [4, 6]\npayload = [4, 1024]\nlink = [\"ethernet:1G\"]\n\
         [settings]\ncongestion = \"cubic\"",
        "[\"quic\"]\nfamily = [4, 6]\npayload = [4, 1024]\nlink = [\"ethernet:1G\"]\n\
         [settings]\ncongestion = \"vegas\"",
        10,
        "congestion=vegas is not supported",
        "cubic, reno, bbr",
    ),
    ("too many flows", "[settings]", "flows = [10001]\n[settings]", 9, "not a level", "1 to 10000"),
    ("quick level unknown", "payload = [4]", "payload = [5]", 17, "the level 5", "[factors]"),
    (
        "compare unknown factor",
        "factor = \"family\"",
        "factor = \"famly\"",
        20,
        "`famly`",
        "family",
    ),
    ("compare unknown level", "candidate = 6", "candidate = 7", 22, "not a level", "4, 6"),
    ("compare with itself", "candidate = 6", "candidate = 4", 6, "are both 4", "label"),
    (
        "compared twice",
        "[[table]]",
        "[[compare]]\nfactor = \"family\"\nbaseline = 6\ncandidate = 4\n[[table]]",
        23,
        "family is compared twice: 6 with 4",
        "keep one",
    ),
    ("compare incomplete", "candidate = 6\n", "", 19, "no candidate", "candidate = 6"),
    (
        "unknown figure",
        "figure = \"goodput\"\nwhere",
        "figure = \"godput\"\nwhere",
        24,
        "unknown figure",
        "did you mean `goodput`?",
    ),
    (
        "figure of another pattern",
        "where = { transport",
        "where = { pattern = \"ping-pong\", transport",
        25,
        "only with pattern=stream",
        "pattern = \"stream\"",
    ),
    (
        "table of a level that no point has",
        "where = { transport = \"udp\" }",
        "where = { payload = 5 }",
        25,
        "uses payload=5, which the plan does not have",
        "use one of 4, 1024",
    ),
    (
        "exclude of a level that no point has",
        "[quick]",
        "[[exclude]]\npayload = 5\n[quick]",
        0,
        "[[exclude]] uses payload=5, which the plan does not have",
        "use one of 4, 1024",
    ),
    (
        "table of an unknown factor",
        "columns = [\"family\"]",
        "columns = [\"label\"]",
        27,
        "no factor `label`",
        "use one of",
    ),
    ("unpublished table", "P1 IV", "P1 IX", 28, "unknown published table", "P1 IV"),
    ("unknown kind of chart", "\"lines\"", "\"pie\"", 31, "unknown kind", "lines, bars, series"),
    (
        "chart through time without intervals",
        "kind = \"lines\"",
        "kind = \"series\"",
        29,
        "needs intervals",
        "add interval",
    ),
    (
        "unknown figure over time",
        "duration = \"1s\"\n[stop]\nconfidence = \"95%\"\nruns = { min = 10, max = 30 }\n[quick]\n\
         payload = [4]\nruns = 5\n",
        "interval = \"100ms\"\n[[chart]]\nkind = \"series\"\nfigure = \"window\"\n[quick]\n",
        15,
        "unknown figure over time",
        "cwnd",
    ),
    (
        "everything excluded",
        "[quick]",
        "[[exclude]]\npattern = \"stream\"\n[quick]",
        0,
        "every point is excluded",
        "narrow",
    ),
    (
        "factor without effect",
        "payload = [4, 1024]",
        "payload = [4]\nnodelay = [true, false]",
        0,
        "the same point",
        "[[exclude]]",
    ),
    ("unknown testbed", "seed = 1", "testbed = \"moon\"", 2, "unknown testbed", "lab"),
    ("port out of range", "duration = \"1s\"", "port = 70000", 12, "`70000`", "65535"),
    ("section of a wrong type", "[run]\nduration = \"1s\"\n", "run = 3\n", 11, "", ""),
];

#[test]
fn every_kind_of_fault_names_its_line_and_what_would_be_right() {
    let mut wrong = String::new();
    for &(kind, from, to, line, message, help) in BROKEN {
        assert!(SOUND.contains(from), "{kind}: the sound plan has no {from:?}");
        let text = SOUND.replacen(from, to, 1);
        let size = if kind == "one run" { Size::Quick } else { Size::Full };
        let Err(problems) = parse("p.toml", &text, size, &["P1 IV"]) else {
            panic!("{kind} was taken for sound");
        };
        let fits = problems.0.iter().any(|problem| {
            (line == 0 || problem.line == line)
                && problem.message.contains(message)
                && problem.help.contains(help)
        });
        if !fits {
            wrong +=
                &format!("{kind}: wanted line {line}, {message:?} and {help:?}, got\n{problems}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(BROKEN.len() >= 20);
}

#[test]
fn a_fault_is_shown_with_its_place_in_the_file() {
    let text = SOUND.replacen("seed = 1", "sead = 1", 1);
    let problems = parse("p.toml", &text, Size::Full, &["P1 IV"]).unwrap_err();
    let expected = "p.toml:2:1: unknown key `sead` in the plan
     2 | sead = 1
       | ^
       = did you mean `seed`?";
    assert_eq!(problems.to_string(), expected);
}

#[test]
fn all_faults_are_reported_at_once() {
    let text = SOUND.replacen("seed = 1", "seed = -1", 1).replacen("\"1s\"", "1", 1);
    let problems = parse("p.toml", &text, Size::Full, &["P1 IV"]).unwrap_err();
    assert_eq!(problems.0.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 12]);
}

#[test]
fn a_changed_title_does_not_change_the_digest_but_a_changed_seed_does() {
    let digest = |text: &str| parse("p.toml", text, Size::Full, &["P1 IV"]).unwrap().digest();
    assert_eq!(digest(SOUND), digest(&SOUND.replacen("\"t\"", "\"u\"", 1)));
    assert_ne!(digest(SOUND), digest(&SOUND.replacen("seed = 1", "seed = 2", 1)));
}

#[test]
fn an_interval_is_a_part_of_what_is_run() {
    let text = SOUND.replacen("duration = \"1s\"", "interval = \"100ms\"", 1);
    let plan = parse("p.toml", &text, Size::Full, &["P1 IV"]).unwrap();
    assert_eq!(plan.interval_ns, Some(Nanos::from_millis(100)));
    let without = parse("p.toml", SOUND, Size::Full, &["P1 IV"]).unwrap();
    assert_eq!(without.interval_ns, None);
    assert_ne!(plan.digest(), without.digest());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(at in 0..SOUND.len(), text in "[a-z0-9=\\[\\]{}\"\n.,% ]{0,12}") {
        let mut broken = SOUND.to_owned();
        broken.insert_str(at, &text);
        let _ = parse("p.toml", &broken, Size::Quick, &[]);
    }
}
