//! What plan files of earlier versions may still hold.

use fabricmark_plan::{Size, parse};

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
