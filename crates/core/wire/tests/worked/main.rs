//! Tables worked out for P1's networks: every ceiling, packet count and floor to the printed digit.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ceilings;
mod floors;

use fabricmark_wire::{Exact, Family, Link, Stack, frame::TCP_TIMESTAMPS};

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

fn udp(family: Family) -> Stack {
    Stack::Udp { family }
}

/// TCP with timestamps, as Linux sends it.
fn tcp(family: Family) -> Stack {
    Stack::Tcp { family, option_bytes: TCP_TIMESTAMPS }
}

/// Equal to the printed figure, which is rounded to `decimals` decimals.
fn assert_prints(value: Exact, unit: f64, printed: f64, decimals: i32, case: &str) {
    let value = value.as_f64() / unit;
    let half = 0.5 * 10f64.powi(-decimals) * (1.0 + 1e-9);
    assert!((value - printed).abs() <= half, "{case}: {value} {printed}");
}
