//! Runs in slices. The flows of several levels are open side by side, and one level at a time runs its pattern for
//! 1 to 50 ms. To a pattern, a slice is a run of its own.

use fabricmark_plan::Pattern;
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::Counts;
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;

use crate::control::{Control, Event};

/// Runs the pattern slice by slice until the coordinator ends the last. `carry_once` runs one slice of length `slice`
/// and starts the clock that it is given.
pub(crate) fn carry_slices(
    prepare: &Prepare,
    slice: Nanos,
    control: &Control,
    begin: &dyn Fn(),
    mut carry_once: impl FnMut(&Prepare, &dyn Fn()) -> Result<EndReport, Failure>,
) -> Result<EndReport, Failure> {
    let mut prepare = Prepare { duration_ns: slice, omit_ns: Nanos(0), ..prepare.clone() };
    let (is_active, mut sum) = (prepare.is_active(), EndReport::default());
    if is_active {
        begin();
    }
    let begin = || control.interrupter.begin(slice.into());
    loop {
        let ordered = if is_active { control.slices.wait() } else { Some(true) };
        let Some(mut counts) = ordered else { return Ok(sum) };
        control.check()?;
        if is_active {
            control.begin_slice();
        }
        let part = carry_once(&prepare, &begin)?;
        // Random departures of an open loop differ from slice to slice.
        prepare.seed = prepare.seed.wrapping_add(1);
        if !is_active {
            // No order: the stream itself has ended.
            let Some(ended) = control.slices.take() else { return Ok(sum) };
            counts = ended;
            control.begin_slice();
        }
        let counted = part.counts;
        add(&mut sum, part, counts, prepare.point.pattern == Pattern::Stream && is_active);
        control.tell(Event::Slice(counted));
    }
}

/// Adds the counts of a slice. A warm-up slice belongs to the ramp, except at a sender, which has no ramp.
fn add(sum: &mut EndReport, part: EndReport, counts: bool, is_sender: bool) {
    let Counts { bytes, calls, .. } = part.counts;
    let of_ramp =
        Counts { bytes, calls, ramp_bytes: bytes, ramp_calls: calls, ..Counts::default() };
    sum.counts += if counts || is_sender { part.counts } else { of_ramp };
    sum.lost_round_trips += part.lost_round_trips;
    // Without the counts of each flow, of which there are too many, those of several slices cannot be added.
    let fairness = part.fairness.filter(|part| (counts || is_sender) && !part.each.is_empty());
    if let Some(fairness) = fairness {
        sum.fairness =
            Some(sum.fairness.take().map_or(fairness.clone(), |sum| sum.with(&fairness)));
    }
    if let Some(times) = part.kernel_times.filter(|_| counts) {
        sum.kernel_times =
            Some(sum.kernel_times.take().map_or(times.clone(), |sum| sum.merged(&times)));
    }
    match (&mut sum.thread, part.thread) {
        (Some(sum), Some(thread)) => *sum += thread,
        (sum, thread) => *sum = sum.or(thread),
    }
    if let Some(pacing) = part.pacing.filter(|_| counts || is_sender) {
        match &mut sum.pacing {
            Some(sum) => *sum += &pacing,
            None => sum.pacing = Some(pacing),
        }
    }
    if let Some(rtt_ns) = part.rtt_ns.filter(|_| counts) {
        sum.rtt_ns.get_or_insert_with(Histogram::new).merge(&rtt_ns);
    }
}
