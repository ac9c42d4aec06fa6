//! What the emulator of a link counted during a run, for its record.

use fabricmark_lab::Traffic;
use fabricmark_plan::{Offload, Point};
use fabricmark_record::{Calibration, EmulatedWay, Emulation};
use fabricmark_units::Nanos;

use crate::coordinator::Coordinator;
use crate::testbed::PathTraffic;

/// What the links between the ends of a point counted from before the run until after it; `None` if they are not
/// emulated. In slices this includes the traffic of other levels, and the times of the emulator's thread are left out.
pub(crate) fn emulation(
    coordinator: &Coordinator,
    point: &Point,
    is_slice: bool,
    [before, after]: [Option<&PathTraffic>; 2],
    calibration: Option<&Calibration>,
) -> Option<Emulation> {
    let (options, before, after) = (point.link_options()?, before?, after?);
    // Every direction reports the times of the emulator's thread.
    let grown = |time: fn(&Traffic) -> Option<Nanos>| {
        let (before, after) = (before[0].first()?, after[0].first()?);
        Some(time(after)?.0.saturating_sub(time(before)?.0))
    };
    Some(Emulation {
        options: options.to_string(),
        offloaded: point.offload == Some(Offload::On),
        cpu: coordinator.emulator_cpu(),
        calibration: calibration.map(Calibration::in_short),
        busy_ns: grown(|traffic| Some(traffic.busy)).filter(|_| !is_slice),
        cpu_ns: grown(|traffic| Some(traffic.cpu_time)).filter(|_| !is_slice),
        run_delay_ns: grown(|traffic| traffic.run_delay).filter(|_| !is_slice),
        forward: since(&before[0], &after[0]),
        reverse: since(&before[1], &after[1]),
    })
}

/// Counts of a path of several links, in order. Packets of others may enter and leave it where links meet. What arrived
/// is therefore what the first link took, plus what each further link took beyond what the previous one delivered.
fn since(before: &[Traffic], after: &[Traffic]) -> EmulatedWay {
    let links: Vec<EmulatedWay> = before.iter().zip(after).map(|(b, a)| of_link(b, a)).collect();
    let (Some(first), Some(last)) = (links.first(), links.last()) else {
        return EmulatedWay::default();
    };
    let sum = |count: fn(&EmulatedWay) -> u64| -> u64 { links.iter().map(count).sum() };
    let late = |count: fn(&EmulatedWay) -> Option<u64>| links.iter().filter_map(count).max();
    let (mut arrived, mut departed) = (first.arrived, last.departed);
    for pair in links.windows(2) {
        arrived += pair[1].arrived.saturating_sub(pair[0].departed);
        departed += pair[0].departed.saturating_sub(pair[1].arrived);
    }
    EmulatedWay {
        arrived,
        departed,
        departed_bytes: last.departed_bytes,
        dropped: sum(|link| link.dropped),
        missed: sum(|link| link.missed),
        super_packets: first.super_packets,
        // A packet is late on each link; of the quantiles the largest of all links is a lower bound.
        late_mean_ns: links.iter().filter_map(|link| link.late_mean_ns).reduce(|a, b| a + b),
        late_p99_ns: late(|link| link.late_p99_ns),
        late_max_ns: late(|link| link.late_max_ns),
    }
}

fn of_link(before: &Traffic, after: &Traffic) -> EmulatedWay {
    let grown = |count: fn(&Traffic) -> u64| count(after).saturating_sub(count(before));
    let lateness = after.lateness.since(&before.lateness);
    EmulatedWay {
        arrived: grown(|traffic| traffic.arrived.packets),
        departed: grown(|traffic| traffic.departed.packets),
        departed_bytes: Some(grown(|traffic| traffic.departed.bytes)),
        dropped: grown(Traffic::dropped_packets),
        missed: grown(|traffic| traffic.refused.packets) + grown(|traffic| traffic.device_drops),
        super_packets: grown(|traffic| traffic.trains),
        late_mean_ns: lateness.mean_ns().map(|ns| ns.round() as u64),
        late_p99_ns: lateness.quantile(0.99),
        late_max_ns: lateness.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(arrived: u64, departed: u64) -> Traffic {
        let mut traffic = Traffic::default();
        traffic.arrived.packets = arrived;
        traffic.departed.packets = departed;
        traffic.departed.bytes = 100 * departed;
        traffic
    }

    #[test]
    fn what_others_send_over_a_part_of_the_way_enters_and_leaves_it() {
        let before = [way(0, 0), way(0, 0), way(0, 0)];
        // Ten packets cross the whole path, 90 of others only its middle; one waits there.
        let after = [way(10, 10), way(100, 99), way(10, 10)];
        let found = since(&before, &after);
        assert_eq!((found.arrived, found.departed), (100, 99));
        assert_eq!(found.departed_bytes, Some(1_000));
        // Counters from before the run do not matter.
        let later = [way(20, 20), way(200, 199), way(20, 20)];
        assert_eq!(since(&after, &later).departed, 100);
    }
}
