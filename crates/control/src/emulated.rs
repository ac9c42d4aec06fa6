//! What the emulator of a link did during a run, for its record.

use fabricmark_lab::{Traffic, Way};
use fabricmark_plan::{Offload, Point};
use fabricmark_record::{Calibration, EmulatedWay, Emulation};

use crate::coordinator::Coordinator;
use crate::error::PlanError;

/// What happened on the point's link since `before`; `None` where it is not emulated.
pub(crate) fn emulation(
    coordinator: &Coordinator,
    point: &Point,
    before: Option<&[Way; 2]>,
    calibration: Option<&Calibration>,
) -> Result<Option<Emulation>, PlanError> {
    let (Some(words), Some(before), Some(after)) =
        (point.words(), before, coordinator.testbed().traffic(point)?)
    else {
        return Ok(None);
    };
    Ok(Some(Emulation {
        words: words.to_string(),
        offloaded: point.offload == Some(Offload::On),
        cpu: coordinator.emulator_cpu(),
        calibration: calibration.map(Calibration::in_short),
        there: since(&before[0], &after[0]),
        back: since(&before[1], &after[1]),
    }))
}

fn since(before: &Way, after: &Way) -> EmulatedWay {
    let dropped = |traffic: &Traffic| traffic.dropped.iter().map(|count| count.packets).sum();
    let grown = |count: &dyn Fn(&Traffic) -> u64| {
        count(&after.traffic).saturating_sub(count(&before.traffic))
    };
    let lateness = after.traffic.lateness.since(&before.traffic.lateness);
    let refused = grown(&|traffic| traffic.refused.packets);
    EmulatedWay {
        arrived: grown(&|traffic| traffic.arrived.packets),
        departed: grown(&|traffic| traffic.departed.packets),
        departed_bytes: Some(grown(&|traffic| traffic.departed.bytes)),
        dropped: grown(&dropped),
        missed: refused + after.device_drops.saturating_sub(before.device_drops),
        super_packets: grown(&|traffic| traffic.trains),
        late_p50_ns: lateness.quantile(0.5),
        late_p99_ns: lateness.quantile(0.99),
        late_max_ns: lateness.max(),
    }
}
