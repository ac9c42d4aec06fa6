//! Points that cannot be run, and why.

use std::fmt;

use fabricmark_plan::{Offload, Point};
use fabricmark_record::Calibration;
use fabricmark_units::Bytes;
use fabricmark_wire::lfn::WINDOW_MAX;

/// Why a point is not tried; `None` for one that is. The calibration is that of the emulator that would
/// carry it, where there is one.
pub(crate) fn reason(point: &Point, calibration: Option<&Calibration>) -> Option<String> {
    too_wide(point).or_else(|| beyond(point, calibration?).map(|beyond| beyond.to_string()))
}

fn too_wide(point: &Point) -> Option<String> {
    let Bytes(window) = point.window_bytes()?;
    (window > WINDOW_MAX).then(|| {
        format!(
            "a window of {window} bytes is beyond TCP's largest, {WINDOW_MAX} (RFC 7323, section 2.3)"
        )
    })
}

/// A wire that the emulator of this machine does not hold.
pub(crate) struct Beyond {
    pub(crate) asked_bps: f64,
    pub(crate) true_bps: f64,
    offloaded: bool,
}

/// Whether a point's wire is faster than what the emulator was true for.
pub(crate) fn beyond(point: &Point, calibration: &Calibration) -> Option<Beyond> {
    let asked_bps = point.words()?.rate_bps()?;
    let offloaded = point.offload == Some(Offload::On);
    let true_bps = calibration.true_rate(offloaded).filter(|&most| asked_bps > most)?;
    Some(Beyond { asked_bps, true_bps, offloaded })
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.offloaded { "" } else { " in single packets" };
        let [asked, most] = [self.asked_bps, self.true_bps].map(rate);
        write!(
            f,
            "its wire has {asked}, and the emulator of this machine is true up to {most}{how} (fabricmark lab \
             calibrate)"
        )
    }
}

/// A rate in its largest unit: `2.5 Gbit/s`.
fn rate(bps: f64) -> String {
    let (unit, prefix) = if bps < 1e9 { (1e6, 'M') } else { (1e9, 'G') };
    format!("{} {prefix}bit/s", (100.0 * bps / unit).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::{Factor, resolve};

    use super::*;

    fn point(levels: &str) -> Point {
        let base = "pattern=stream;transport=tcp;family=6;payload=65536;congestion=cubic;";
        let levels = format!("{base}{levels}");
        let levels = levels.split(';').map(|level| {
            let (name, text) = level.split_once('=').unwrap();
            let factor = Factor::named(name).unwrap();
            (factor, factor.level(text).unwrap())
        });
        resolve(&levels.collect()).unwrap()
    }

    fn calibration(true_rate_bps: Option<f64>) -> Calibration {
        Calibration {
            at: "2026-01-05T09:00:00Z".to_owned(),
            program: "0.1.0".to_owned(),
            hostname: "bench".to_owned(),
            kernel: "6.12.0".to_owned(),
            cpus: 2,
            confidence: 0.99,
            true_rate_bps,
            true_rate_single_bps: Some(1e9),
            delay_error_p99_ns: None,
            loaded_delay_error_p99_ns: None,
            highest_rate_bps: None,
            rows: Vec::new(),
        }
    }

    #[test]
    fn wires_that_the_emulator_does_not_hold_are_skipped_with_the_rate_that_it_holds() {
        let known = calibration(Some(1e10));
        let skipped = |levels: &str| reason(&point(levels), Some(&known));
        let text = skipped("link=ethernet:20G;rtt=0ms").unwrap();
        assert!(text.starts_with("its wire has 20 Gbit/s,"), "{text}");
        assert!(text.contains("true up to 10 Gbit/s (fabricmark lab calibrate)"), "{text}");
        let text = skipped("link=ethernet:2.5G;rtt=0ms;offload=off").unwrap();
        assert!(text.contains("true up to 1 Gbit/s in single packets"), "{text}");
        for levels in [
            "link=ethernet:10G;rtt=0ms",
            "link=ethernet:1G;emulate=loss=1e-3",
            "link=veth;rtt=0ms",
            "link=ethernet:40G",
        ] {
            assert_eq!(skipped(levels), None, "{levels}");
        }
    }

    #[test]
    fn nothing_is_skipped_for_its_rate_without_a_calibration_or_a_rate_that_held() {
        let fast = point("link=ethernet:100G;rtt=0ms");
        assert_eq!(reason(&fast, None), None);
        assert_eq!(reason(&fast, Some(&calibration(None))), None);
    }
}
