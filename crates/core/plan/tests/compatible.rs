//! Plan files of earlier versions.

use fabricmark_plan::{Factor, Kind, Point, Size, parse};
use schemars::schema_for;
use serde_json::{Map, Value, from_value, to_value};

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
    assert!(digest(PLAN).starts_with("3-"), "{}", digest(PLAN));
}

/// The unit of a factor's number in a point, as the end of its key.
fn unit(factor: Factor) -> Option<&'static str> {
    match (factor, factor.spec().kind) {
        (Factor::Mss | Factor::Inline, _) | (_, Kind::Size(..)) => Some("_bytes"),
        (_, Kind::Duration(..)) => Some("_ns"),
        (_, Kind::Rate) => Some("_bps"),
        _ => None,
    }
}

#[test]
fn the_keys_of_a_point_name_their_units() {
    let schema = to_value(schema_for!(Point)).unwrap();
    for factor in Factor::ALL {
        let key = format!("{}{}", factor.key(), unit(factor).unwrap_or_default());
        assert!(schema["properties"].get(&key).is_some(), "no {key}");
    }
}

#[test]
fn a_point_with_keys_that_name_no_units_is_read() {
    let levels = "[factors]\nrtt = \"4ms\"\npacing_rate = \"1G\"\nmss = 1000\nsend_buffer = 4096\n\
                  connect_timeout = \"1s\"\ncongestion = \"cubic\"";
    let text = PLAN.replace("[factors]", levels).replace("\"udp\"", "\"tcp\"");
    let point = parse("p.toml", &text, Size::Full, &[]).unwrap().points.remove(0);
    let Value::Object(today) = to_value(&point).unwrap() else { panic!("no object") };
    assert_eq!((&today["rtt_ns"], &today["payload_bytes"]), (&4_000_000.into(), &4.into()));
    let mut earlier = Map::new();
    for (key, value) in &today {
        let is_it =
            |factor: &Factor| unit(*factor).is_some_and(|unit| *key == format!("{factor}{unit}"));
        let factor = Factor::ALL.into_iter().find(is_it);
        earlier.insert(factor.map_or(key.clone(), |factor| factor.to_string()), value.clone());
    }
    assert!(earlier.contains_key("rtt") && earlier.contains_key("pacing_rate"));
    assert_eq!(from_value::<Point>(earlier.into()).unwrap(), point);
    assert_eq!(from_value::<Point>(today.into()).unwrap(), point);
}
