//! Slices of a run. The flows of several levels stand open side by side, and one level at a time carries its pattern
//! out, for a few milliseconds. To a pattern a slice is a run of its own.

use fabricmark_plan::Pattern;
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::Counts;
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;

use crate::control::{Control, Event};

/// Carries the pattern out slice by slice, each `slice` long and as `carry_once` does with the clock that it is given,
/// until the coordinator says that the last is over.
pub(crate) fn carry_slices(
    prepare: &Prepare,
    slice: Nanos,
    control: &Control,
    begin: &dyn Fn(),
    mut carry_once: impl FnMut(&Prepare, &dyn Fn()) -> Result<EndReport, Failure>,
) -> Result<EndReport, Failure> {
    let prepare = Prepare { duration_ns: slice, omit_ns: Nanos(0), ..prepare.clone() };
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
        if !is_active {
            // The stream itself has ended where no order came.
            let Some(ended) = control.slices.take() else { return Ok(sum) };
            counts = ended;
            control.begin_slice();
        }
        let counted = part.counts;
        add(&mut sum, part, counts, prepare.point.pattern == Pattern::Stream && is_active);
        control.tell(Event::Slice(counted));
    }
}

/// Adds what was counted in a slice. One that only warms up is a part of the ramp, but for a sender, which has none.
fn add(sum: &mut EndReport, part: EndReport, counts: bool, is_sender: bool) {
    let Counts { bytes, calls, .. } = part.counts;
    let of_ramp =
        Counts { bytes, calls, ramp_bytes: bytes, ramp_calls: calls, ..Counts::default() };
    sum.counts += if counts || is_sender { part.counts } else { of_ramp };
    sum.lost_round_trips += part.lost_round_trips;
    sum.fairness = part.fairness.or(sum.fairness);
    if let Some(thread) = part.thread {
        *sum.thread.get_or_insert_default() += thread;
    }
    if let Some(rtt_ns) = part.rtt_ns.filter(|_| counts) {
        sum.rtt_ns.get_or_insert_with(Histogram::new).merge(&rtt_ns);
    }
}
