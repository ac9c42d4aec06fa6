//! A run with an iperf3 server.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fabricmark_host::{UsageMeter, interfaces};
use fabricmark_interop::iperf3::{ClientEnd, measure};
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
    let points: Vec<Point> = run.points.iter().flat_map(Point::loads).collect();
    if run.points.iter().any(|point| point.prober().is_some()) {
        return fail(Failure::Missing("an iperf3 server supports no probe".to_owned()));
    }
    let mut starts = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let (place, times) = ((place, false), (run.duration, None));
        starts.push(coordinator.prepare(run.plan, point, place, times, run.seed)?.0);
    }
    let (told, intervals) = mpsc::channel();
    let control = |place: usize| {
        let told = told.clone();
        Control::telling(move |event| {
            if let Event::Interval(interval) = event {
                let _ = told.send((place, interval.clone()));
            }
        })
    };
    let controls: Vec<Control> = (0..starts.len()).map(control).collect();
    let loads: Vec<ClientEnd<'_>> = starts
        .iter()
        .zip(&controls)
        .map(|(prepare, control)| ClientEnd { prepare, control })
        .collect();
    let mut series = vec![Vec::new(); points.len()];
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let meter = UsageMeter::start();
            let measured = measure(&loads, access.server, access.credentials.as_ref());
            measured.map(|measured| (measured.ends, meter.finish()))
        });
        let mut is_stopping = false;
        while !measuring.is_finished() {
            if run.interrupted.load(Relaxed) && !is_stopping {
                let stop = if run.is_only_one() { Control::end } else { Control::give_up };
                controls.iter().for_each(stop);
                is_stopping = true;
            }
            match intervals.recv_timeout(LOOK_EVERY) {
                Ok((place, interval)) => {
                    progress.interval(&points[place], Role::Client, &interval);
                    series[place].push(interval);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if run.interrupted.load(Relaxed) && measured.is_err() {
        return Err(PlanError::Interrupted);
    }
    let (ends, usage) = match measured {
        Ok(measured) => measured,
        Err(failure) => return fail(failure),
    };
    for (place, interval) in intervals.try_iter() {
        series[place].push(interval);
    }
    // The process, and so its CPU time, is that of all directions.
    let mut usage = Some(usage);
    let parts = points.into_iter().zip(starts).zip(ends).zip(series);
    let parts = parts.map(|(((point, start), Ends { mut client, server }), intervals)| {
        client.usage = usage.take();
        client.interface = interfaces::facts(&start.device);
        client.series = run.plan.interval_ns.map(|interval| Series::of(interval.0, intervals));
        Part {
            active: None,
            slice_rates: Vec::new(),
            relay: None,
            purpose: Purpose::Load,
            point,
            omit: start.omit_ns,
            ends: Ends { client, server },
        }
    });
    Ok(RunResult::Finished(parts.collect()))
}
