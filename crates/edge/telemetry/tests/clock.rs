//! The clocks of this machine against each other.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs::OpenOptions;
use std::io::Write;

use fabricmark_telemetry::{Clock, Tsc};

/// The counter. Where this machine has none the test counts as skipped: `make test` prints the file
/// that FABRICMARK_SKIPS names.
fn counter(test: &str) -> Option<Tsc> {
    let missing = match Tsc::calibrate() {
        Ok(tsc) => return Some(tsc),
        Err(missing) => missing,
    };
    eprintln!("skipped: {test}: {missing}");
    if let Some(path) = std::env::var_os("FABRICMARK_SKIPS") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {missing}").unwrap();
    }
    None
}

fn never_goes_back(clock: Clock) {
    let mut last = clock.now_ns();
    for _ in 0..200_000 {
        let now = clock.now_ns();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

#[test]
fn the_monotonic_clock_never_goes_back() {
    never_goes_back(Clock::Monotonic);
}

#[test]
fn the_counter_never_goes_back() {
    let Some(tsc) = counter("monotony of the counter") else { return };
    never_goes_back(Clock::Tsc(tsc));
}

#[test]
fn the_counter_agrees_with_the_monotonic_clock_within_its_uncertainty() {
    let began = Clock::Monotonic.now_ns();
    let Some(tsc) = counter("agreement of the clocks") else { return };
    // Ten times what is stated, and the most by which the kernel may slew its own clock meanwhile
    // (500 ppm, adjtimex(2)).
    let ppm = 10.0 * tsc.uncertainty_ppm() + 500.0;
    let calibrated = Clock::Monotonic.now_ns();
    loop {
        let before = Clock::Monotonic.now_ns();
        let counted = tsc.now_ns();
        let after = Clock::Monotonic.now_ns();
        let drift = (after - began) as f64 * ppm / 1e6;
        let off = 10 * tsc.offset_uncertainty_ns() + drift as u64;
        assert!(counted + off >= before, "{counted} is before {before} by more than {off}");
        assert!(counted <= after + off, "{counted} is after {after} by more than {off}");
        if after > calibrated + 50_000_000 {
            break;
        }
    }
}

#[test]
fn a_clock_says_its_name_its_uncertainty_and_what_a_reading_costs() {
    let facts = Clock::Monotonic.describe();
    assert_eq!((facts.name.as_str(), facts.uncertainty_ppm), ("CLOCK_MONOTONIC", None));
    assert!(facts.read_cost_ns > 0.0);
    let Some(tsc) = counter("facts of the counter") else { return };
    let facts = Clock::Tsc(tsc).describe();
    assert_eq!(facts.name, "TSC");
    assert_eq!(facts.uncertainty_ppm, Some(tsc.uncertainty_ppm()));
    assert!(facts.read_cost_ns > 0.0);
}
