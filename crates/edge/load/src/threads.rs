//! Several load threads at an end, each with a share of the flows and a CPU of its own.

use std::thread;

use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::{Counts, Fairness, ThreadTime};

use crate::carry::{carry, carry_once, finish};
use crate::control::Control;
use crate::descriptors::own_descriptors;
use crate::endpoint::pin;
use crate::failure::{caught, peer};
use crate::transport::Flow;
use crate::watch::leave_the_processor_of_the_load;

/// As [`carry`], on as many threads as the point has. All threads end with the run; if one fails, the run does.
pub(crate) fn carry_on_threads<F: Flow + Send>(
    flows: &mut [F],
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
) -> Result<EndReport, Failure> {
    let threads = prepare.point.threads.unwrap_or(1) as usize;
    if threads < 2 {
        return carry(flows, prepare, control, begin);
    }
    if prepare.is_active() {
        begin();
        // The threads would inherit the priority.
        control.interrupter.started();
    }
    let shares = shares(flows, threads);
    thread::scope(|scope| {
        let carry_share = |place: usize, share: &mut [F]| {
            own_descriptors();
            let cpu =
                if place == 0 { prepare.cpu } else { prepare.more_cpus.get(place - 1).copied() };
            let not_pinned = match cpu {
                // A new thread has the CPU of its creator.
                None => {
                    leave_the_processor_of_the_load();
                    None
                }
                cpu => pin(cpu).err(),
            };
            let mut report = carry_once(share, prepare, control, &|| {})?;
            if prepare.is_active() {
                finish(share).map_err(peer("cannot end the flow"))?;
            }
            report.not_pinned = not_pinned;
            Ok((share.len(), report))
        };
        let running: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(place, share)| {
                scope.spawn(move || {
                    let result = caught(|| carry_share(place, share));
                    if result.is_err() {
                        // The others would wait for the end of the run.
                        control.give_up();
                    }
                    result
                })
            })
            .collect();
        let mut parts = Vec::new();
        let mut failed = None;
        for thread in running {
            let result = thread
                .join()
                .unwrap_or_else(|_| Err(Failure::System("a load thread panicked".to_owned())));
            match result {
                Ok(part) => parts.push(part),
                // Aborted by the failure of another.
                Err(Failure::Aborted) => failed = failed.or(Some(Failure::Aborted)),
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or_else(|| Ok(together(parts)), Err)
    })
}

/// The flows in as many parts, which differ by at most one flow.
fn shares<F>(mut flows: &mut [F], threads: usize) -> Vec<&mut [F]> {
    let mut shares = Vec::new();
    for left in (1..=threads.min(flows.len())).rev() {
        let (share, rest) = flows.split_at_mut(flows.len().div_ceil(left));
        shares.push(share);
        flows = rest;
    }
    shares
}

/// The report of all threads, each with its number of flows.
fn together(parts: Vec<(usize, EndReport)>) -> EndReport {
    let counts: Vec<Counts> = parts.iter().map(|(_, part)| part.counts).collect();
    let shares =
        parts.iter().map(|(flows, part)| (*flows as u64, part.counts.calls, part.fairness.clone()));
    let is_known = parts.iter().all(|(flows, part)| *flows == 1 || part.fairness.is_some());
    let fairness = Fairness::of_parts(shares).filter(|_| is_known);
    // A limit of one thread is a limit of the run.
    let busy = |time: &ThreadTime| {
        let wanted_ns = time.cpu_ns + time.run_delay_ns.unwrap_or(0);
        wanted_ns as f64 / time.elapsed_ns.max(1) as f64
    };
    let times = parts.iter().filter_map(|(_, part)| part.thread);
    let thread = times.max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let mut all = EndReport::default();
    for (_, part) in parts {
        if let Some(rtt_ns) = part.rtt_ns {
            all.rtt_ns.get_or_insert_default().merge(&rtt_ns);
        }
        all.lost_round_trips += part.lost_round_trips;
        all.not_pinned = all.not_pinned.or(part.not_pinned);
        if let Some(active) = part.active {
            let sum = all.active.get_or_insert(active);
            sum.began_ns = sum.began_ns.min(active.began_ns);
            sum.ended_ns = sum.ended_ns.max(active.ended_ns);
        }
    }
    EndReport { counts: Counts::side_by_side(&counts), fairness, thread, ..all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_shared_evenly() {
        let mut flows: Vec<u32> = (0..7).collect();
        let lengths = |threads| {
            let mut flows = flows.clone();
            shares(&mut flows, threads).iter().map(|share| share.len()).collect::<Vec<_>>()
        };
        assert_eq!((lengths(3), lengths(7), lengths(9)), (vec![3, 2, 2], vec![1; 7], vec![1; 7]));
        assert_eq!(shares(&mut flows, 2)[1], [4, 5, 6]);
    }
}
