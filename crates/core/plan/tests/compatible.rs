//! Plan files of earlier versions.

use fabricmark_plan::{Factor, Size, parse};

const PLAN: &str = r#"
title = "t"
[factors]
payload = [4, 64]
[settings]
pattern = "stream"
transport = "udp"
family = 4
link = "veth"
[run]
duration = "1s"
"#;

#[test]
fn beyond_calibration_is_accepted_and_has_no_effect() {
    let digest = |text: &str| parse("p.toml", text, Size::Full, &[]).unwrap().digest();
    for value in ["true", "false"] {
        let line = format!("[run]\nbeyond_calibration = {value}");
        assert_eq!(digest(&PLAN.replace("[run]", &line)), digest(PLAN), "{value}");
    }
    let wrong = PLAN.replace("[run]", "[run]\nbeyond_calibration = 7");
    assert!(parse("p.toml", &wrong, Size::Full, &[]).is_err());
}

#[test]
fn keys_and_words_of_earlier_versions_are_read_as_those_of_today() {
    let with = |transport: &str, levels: &str| {
        let text = PLAN.replace("pattern = \"stream\"\n", "").replace("\"udp\"", transport);
        text.replace("[settings]", &format!("[settings]\n{levels}"))
    };
    for (transport, earlier, today) in [
        ("\"udp\"", "pattern = \"exchange\"", "pattern = \"rr\""),
        ("\"unix\"", "pattern = \"connect-exchange\"", "pattern = \"crr\""),
        (
            "\"rc\"",
            "pattern = \"stream\"\ndepth = 8\nsignal_every = 2\nmeet = \"rdma-cm\"",
            "pattern = \"stream\"\ntx_depth = 8\ncq_mod = 2\ncm = \"rdma\"",
        ),
    ] {
        let points = |levels: &str| {
            let text = with(transport, levels).replace("\"veth\"", "\"loopback\"");
            parse("p.toml", &text, Size::Full, &[]).unwrap().points
        };
        assert_eq!(points(earlier), points(today));
    }
    let twice = with("\"rc\"", "pattern = \"stream\"\ndepth = 8\ntx_depth = 8");
    let problems = parse("p.toml", &twice, Size::Full, &[]).unwrap_err().to_string();
    assert!(problems.contains("tx_depth twice"), "{problems}");
}

#[test]
fn a_level_that_is_the_default_makes_no_other_plan() {
    let digest = |text: &str| parse("p.toml", text, Size::Full, &[]).unwrap().digest();
    for factor in Factor::ALL {
        let point = &parse("p.toml", PLAN, Size::Full, &[]).unwrap().points[0];
        let level = point.level(factor);
        if PLAN.contains(&format!("\n{factor} = ")) || level.is_empty() {
            continue;
        }
        let named = PLAN.replace("[settings]", &format!("[settings]\n{factor} = \"{level}\""));
        assert_eq!(digest(&named), digest(PLAN), "{factor} = {level}");
    }
    let other = PLAN.replace("[settings]", "[settings]\nflows = 2");
    assert_ne!(digest(&other), digest(PLAN));
    assert!(digest(PLAN).starts_with("2-"), "{}", digest(PLAN));
}
