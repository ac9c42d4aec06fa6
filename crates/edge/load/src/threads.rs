//! Several load threads at an end, each with a share of the flows and a CPU of its own.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvError, Sender};
use std::thread;

use fabricmark_plan::{Pattern, Point};
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::{Counts, Fairness, KernelTimes, Pacing, ThreadShare, ThreadTime};

use crate::control::Control;
use crate::descriptors::own_descriptors;
use crate::endpoint::pin;
use crate::failure::{caught, system};
use crate::watch::leave_the_processor_of_the_load;

/// The part of a run that one load thread carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Place of the thread among those of its end.
    pub(crate) thread: usize,
    /// Places of its flows among all flows.
    pub(crate) flows: Range<u64>,
    /// Number of all flows.
    pub(crate) of: u64,
}

impl Share {
    /// All of a run, on one thread.
    pub(crate) fn whole(flows: usize) -> Self {
        Self { thread: 0, flows: 0..flows as u64, of: flows as u64 }
    }

    /// Number of its flows.
    pub(crate) fn len(&self) -> usize {
        (self.flows.end - self.flows.start) as usize
    }
}

/// CPU that a thread is to be pinned to.
fn cpu_of(thread: usize, prepare: &Prepare) -> Option<u32> {
    match thread.checked_sub(1) {
        None => prepare.cpu,
        Some(further) => prepare.more_cpus.get(further).copied(),
    }
}

/// Runs `carry` on as many threads as the point has, each with its share of the flows. The threads start together, when
/// all of them are in place, and end with the run; if one fails, the run does. `begin` starts the clock of the run.
pub(crate) fn on_threads<F: Send>(
    flows: &mut [F],
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
    carry: impl Fn(&mut [F], &Share, &dyn Fn()) -> Result<EndReport, Failure> + Sync,
) -> Result<EndReport, Failure> {
    let threads = prepare.point.load_threads() as usize;
    if threads < 2 {
        let share = Share::whole(flows.len());
        return carry(flows, &share, begin);
    }
    // Each thread drops `in_place` when it is in place, or when it has failed before.
    let (in_place, all_in_place) = mpsc::channel::<Infallible>();
    let start = OnceLock::new();
    let carry = |flows: &mut [F], share: &Share, in_place: Sender<Infallible>| {
        own_descriptors();
        let cpu = cpu_of(share.thread, prepare);
        let not_pinned = match cpu {
            // A new thread has the CPU of its creator.
            None => {
                leave_the_processor_of_the_load();
                None
            }
            cpu => pin(cpu).err(),
        };
        drop(in_place);
        start.wait();
        control.check()?;
        let report = carry(flows, share, &|| {})?;
        Ok(EndReport { not_pinned, ..report })
    };
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (flows, share) in shares(flows, threads) {
            let (carry, in_place) = (&carry, in_place.clone());
            let name = format!("load {}", share.thread);
            let load = move || {
                let result = caught(|| carry(flows, &share, in_place));
                if result.is_err() {
                    // The others would wait for the end of the run.
                    control.give_up();
                }
                result.map(|report| (share, report))
            };
            let thread = thread::Builder::new().name(name).spawn_scoped(scope, load);
            running.push(thread.map_err(|error| {
                control.give_up();
                system("start a load thread")(error)
            }));
        }
        drop(in_place);
        let _: Result<Infallible, RecvError> = all_in_place.recv();
        let begun = caught(|| {
            control.check()?;
            if prepare.is_active() {
                begin();
                control.interrupter.started();
            }
            Ok(())
        });
        if begun.is_err() {
            control.give_up();
        }
        let _ = start.set(());
        let mut parts = Vec::new();
        let mut failed = begun.err();
        for thread in running {
            let joined = thread.and_then(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::System("a load thread panicked".to_owned())))
            });
            match joined {
                Ok(part) => parts.push(part),
                // Aborted by the failure of another.
                Err(Failure::Aborted) => failed = failed.or(Some(Failure::Aborted)),
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or_else(|| Ok(together(parts, prepare)), Err)
    })
}

/// The flows in as many shares, which differ by at most one flow.
fn shares<F>(mut flows: &mut [F], threads: usize) -> Vec<(&mut [F], Share)> {
    let (mut shares, mut first, of) = (Vec::new(), 0, flows.len() as u64);
    for left in (1..=threads.min(flows.len())).rev() {
        let (own, rest) = flows.split_at_mut(flows.len().div_ceil(left));
        let end = first + own.len() as u64;
        let share = Share { thread: shares.len(), flows: first..end, of };
        shares.push((own, share));
        (flows, first) = (rest, end);
    }
    shares
}

/// Payloads of a stream by their bytes, because a call may take a part of one; transactions or bursts of other patterns.
pub(crate) fn done(counts: &Counts, point: &Point) -> u64 {
    match point.pattern {
        Pattern::Stream => counts.bytes / point.payload.0.max(1),
        _ => counts.calls,
    }
}

/// The report of all threads.
fn together(parts: Vec<(Share, EndReport)>, prepare: &Prepare) -> EndReport {
    let counts: Vec<Counts> = parts.iter().map(|(_, part)| part.counts).collect();
    let flows = |share: &Share| share.flows.end - share.flows.start;
    let of_each = parts.iter().map(|(share, part)| {
        (flows(share), done(&part.counts, &prepare.point), part.fairness.clone())
    });
    let is_known = parts.iter().all(|(share, part)| flows(share) == 1 || part.fairness.is_some());
    let fairness = Fairness::of_parts(of_each).filter(|_| is_known);
    // A limit of one thread is a limit of the run.
    let busy = |time: &ThreadTime| {
        let wanted_ns = time.cpu_ns + time.run_delay_ns.unwrap_or(0);
        wanted_ns as f64 / time.elapsed_ns.max(1) as f64
    };
    let times = parts.iter().filter_map(|(_, part)| part.thread);
    let thread = times.max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let share_of = |(share, part): &(Share, EndReport)| ThreadShare {
        flows: flows(share),
        cpu: cpu_of(share.thread, prepare).filter(|_| part.not_pinned.is_none()),
        counts: part.counts,
        time: part.thread,
    };
    let threads = parts.iter().map(share_of).collect();
    let pacing = Pacing::side_by_side(parts.iter().filter_map(|(_, part)| part.pacing.as_ref()));
    let mut all = EndReport::default();
    for (_, part) in parts {
        if let Some(rtt_ns) = part.rtt_ns {
            all.rtt_ns.get_or_insert_default().merge(&rtt_ns);
        }
        all.lost_round_trips += part.lost_round_trips;
        let kernel_times = all.kernel_times.into_iter().chain(part.kernel_times);
        all.kernel_times = kernel_times.reduce(|sum: KernelTimes, more| sum.merged(&more));
        if let Some(zero_copy) = part.zero_copy {
            *all.zero_copy.get_or_insert_default() += zero_copy;
        }
        all.not_pinned = all.not_pinned.or(part.not_pinned);
        if let Some(active) = part.active {
            let sum = all.active.get_or_insert(active);
            sum.began_ns = sum.began_ns.min(active.began_ns);
            sum.ended_ns = sum.ended_ns.max(active.ended_ns);
        }
    }
    EndReport { counts: Counts::side_by_side(&counts), fairness, thread, threads, pacing, ..all }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::options::tests::prepare;
    use crate::transport::bytes::ByteFlow;
    use crate::transport::udp::UdpFlow;

    /// Whether this process has a thread of this name.
    fn exists(name: &str) -> bool {
        let mut tasks = fs::read_dir("/proc/self/task").unwrap();
        tasks.any(|task| {
            let comm = fs::read_to_string(task.unwrap().path().join("comm"));
            // A thread may have ended meanwhile.
            comm.is_ok_and(|comm| comm.trim_end() == name)
        })
    }

    #[test]
    fn the_clock_of_a_run_starts_when_every_thread_waits_for_it() {
        let prepare = prepare("transport=tcp,family=4,flows=3,threads=3");
        let carrying = AtomicUsize::new(0);
        let begin = || {
            assert!(exists("load 2"));
            assert_eq!(carrying.load(SeqCst), 0);
        };
        let carried = on_threads(&mut [(); 3], &prepare, &Control::default(), &begin, |_, _, _| {
            carrying.fetch_add(1, SeqCst);
            Ok(EndReport::default())
        });
        assert_eq!((carried.map(|report| report.threads.len()), carrying.into_inner()), (Ok(3), 3));
    }

    #[test]
    fn a_run_whose_clock_does_not_start_fails_with_the_reason() {
        let prepare = prepare("transport=tcp,family=4,flows=2,threads=2");
        let begin = || panic!("nobody listens");
        let carried = on_threads(&mut [(); 2], &prepare, &Control::default(), &begin, |_, _, _| {
            Ok(EndReport::default())
        });
        let reason = "a load thread panicked: nobody listens";
        assert_eq!(carried, Err(Failure::System(reason.to_owned())));
    }

    #[test]
    fn flows_side_by_side_share_no_pair_of_cache_lines() {
        let alignments = [align_of::<ByteFlow<TcpStream>>(), align_of::<UdpFlow>()];
        assert!(alignments.iter().all(|&alignment| alignment >= 128), "{alignments:?}");
    }

    #[test]
    fn flows_are_shared_evenly() {
        let mut flows: Vec<u32> = (0..7).collect();
        let lengths = |threads| {
            let mut flows = flows.clone();
            shares(&mut flows, threads).iter().map(|(own, _)| own.len()).collect::<Vec<_>>()
        };
        assert_eq!((lengths(3), lengths(7), lengths(9)), (vec![3, 2, 2], vec![1; 7], vec![1; 7]));
        let shares = shares(&mut flows, 2);
        let (own, share) = &shares[1];
        assert_eq!(**own, [4, 5, 6]);
        assert_eq!(*share, Share { thread: 1, flows: 4..7, of: 7 });
    }
}
