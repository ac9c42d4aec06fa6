//! A run with an iperf3 server.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fabricmark_host::{UsageMeter, interfaces};
use fabricmark_interop::iperf3::measure;
use fabricmark_judge::Part;
use fabricmark_load::{Control, Event};
use fabricmark_plan::{Point, Purpose, Role};
use fabricmark_proto::{ConversationError, Ends, Failure};
use fabricmark_record::Series;

use crate::coordinator::Coordinator;
use crate::error::PlanError;
use crate::peer::Iperf3Access;
use crate::progress::Progress;
use crate::run::{Run, RunResult, judge};

/// Period of checks for an interrupt by the user.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a point once.
pub(crate) fn carry_out(
    run: &Run<'_>,
    coordinator: &mut Coordinator,
    access: &Iperf3Access,
    progress: &mut dyn Progress,
) -> Result<RunResult, PlanError> {
    let fail = |failure| judge(ConversationError::Failed { role: Role::Client, failure });
    let loads: Vec<Point> = run.points.iter().flat_map(Point::loads).collect();
    let prober = run.points.iter().find_map(Point::prober);
    let (Some(point), 1, None) = (loads.first(), loads.len(), prober) else {
        let why = "an iperf3 server supports neither probe nor direction=both".to_owned();
        return fail(Failure::Missing(why));
    };
    let (start, _) =
        coordinator.prepare(run.plan, point, (0, false), (run.duration, None), run.seed)?;
    let omit = start.omit_ns;
    let (told, intervals) = mpsc::channel();
    let control = Control::telling(move |event| {
        if let Event::Interval(interval) = event {
            let _ = told.send(interval.clone());
        }
    });
    let mut series = Vec::new();
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let meter = UsageMeter::start();
            let measured = measure(&start, access.server, access.credentials.as_ref(), &control);
            measured.map(|measured| (measured.ends, meter.finish()))
        });
        while !measuring.is_finished() {
            if run.interrupted.load(Relaxed) {
                control.give_up();
            }
            match intervals.recv_timeout(LOOK_EVERY) {
                Ok(interval) => {
                    progress.interval(point, Role::Client, &interval);
                    series.push(interval);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if run.interrupted.load(Relaxed) {
        return Err(PlanError::Interrupted);
    }
    match measured {
        Ok((Ends { mut client, server }, usage)) => {
            client.usage = Some(usage);
            client.interface = interfaces::facts(&start.device);
            client.series = run.plan.interval_ns.map(|interval| {
                series.extend(intervals.try_iter());
                Series { interval_ns: interval.0, intervals: series }
            });
            let ends = Ends { client, server };
            Ok(RunResult::Finished(vec![Part {
                active: None,
                slice_rates: Vec::new(),
                relay: None,
                purpose: Purpose::Load,
                point: point.clone(),
                omit,
                ends,
            }]))
        }
        Err(failure) => fail(failure),
    }
}
