//! Runs a pattern over open flows.

use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fabricmark_plan::{Delivery, Pace, Path, Pattern, Role, Wait};
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::{ActiveTime, Counts, Fairness, Instrument, ThreadTime};
use fabricmark_telemetry::clock::{machine_ns, now_ns, thread_cpu_ns, thread_run_delay_ns};
use fabricmark_telemetry::gauge::Gauge;
use fabricmark_units::{Bytes, Nanos, Stream};

use crate::amount::{Amount, Limited};
use crate::buffer::Buffer;
use crate::control::Control;
use crate::failure::{peer, system};
use crate::flow_set::{FlowSet, Interest};
use crate::pacer::{Follow, Pacer, Waiting};
use crate::pattern::answer;
use crate::pattern::arrivals::Window;
use crate::pattern::rr::{self, ClientParameters, ClientResults};
use crate::pattern::stream;
use crate::pattern::{paced_rr, paced_stream, ping_ping};
use crate::response_limit::{LATE_MAX, ResponseLimit};
use crate::slices::carry_slices;
use crate::threads::{Share, on_threads};
use crate::transport::Flow;
use crate::transport::null::NullFlow;
use crate::watch::{Gauged, watched};

/// Receive buffer of a byte stream: 128 KiB, the usual read size of other tools.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// Bytes of a datagram that a truncating receiver (`path = "trunc"`) copies: its header.
const HEADER_BYTES: usize = 16;

/// Runs the point's pattern at one end until the time or the amount of the run is used up, on as many threads as the
/// point has, and in intervals if the plan asks for them; `begin` starts the clock of the run.
pub(crate) fn carry<F: Flow + Send>(
    flows: &mut [F],
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
) -> Result<EndReport, Failure> {
    let amount = prepare.amount.filter(|_| prepare.is_active());
    let amount = amount.map(|Bytes(bytes)| Amount::new(bytes, control));
    let amount = amount.as_ref();
    let Some(interval) = prepare.interval_ns else {
        return on_threads(flows, prepare, control, begin, |flows, share, begin| {
            carry_limited(flows, amount, share, prepare, control, begin)
        });
    };
    let first = flows.first().and_then(Flow::fd).map(|fd| fd.try_clone_to_owned());
    let tcp = first.transpose().map_err(system("watch the first flow"))?;
    let planned = prepare.amount.is_none().then_some(prepare.start_ns + prepare.duration_ns);
    let tcp = tcp.as_ref().map(AsFd::as_fd);
    let gauges: Vec<Gauge> = (0..prepare.point.load_threads()).map(|_| Gauge::default()).collect();
    let (report, series) = watched(interval, planned, tcp, control, &gauges, || {
        on_threads(flows, prepare, control, begin, |flows, share, begin| {
            let gauge = &gauges[share.thread];
            let gauged = flows.iter_mut().map(|flow| Gauged::new(flow, gauge, prepare));
            let mut gauged: Vec<_> = gauged.collect();
            carry_limited(&mut gauged, amount, share, prepare, control, begin)
        })
    });
    Ok(EndReport { series, ..report? })
}

/// Carries the share of one thread, which draws on `amount` if there is one.
fn carry_limited<F: Flow>(
    flows: &mut [F],
    amount: Option<&Amount<'_>>,
    share: &Share,
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
) -> Result<EndReport, Failure> {
    let Some(amount) = amount else {
        return carry_share(flows, share, prepare, control, begin);
    };
    let is_stream = prepare.point.pattern == Pattern::Stream
        && prepare.point.path == Path::Copy
        && prepare.point.transport.traits().delivery == Delivery::Bytes;
    let limited = flows.iter_mut().map(|flow| Limited::new(flow, amount, is_stream));
    carry_share(&mut limited.collect::<Vec<_>>(), share, prepare, control, begin)
}

fn carry_share<F: Flow>(
    flows: &mut [F],
    share: &Share,
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
) -> Result<EndReport, Failure> {
    let report = match prepare.own_slice() {
        Some(slice) => carry_slices(prepare, slice, control, begin, |prepare, begin| {
            carry_once(flows, share, prepare, control, begin)
        })?,
        None => carry_once(flows, share, prepare, control, begin)?,
    };
    if prepare.role == Role::Client || prepare.is_active() {
        finish(flows).map_err(peer("cannot end the flow"))?;
    }
    let zero_copy = flows.iter().filter_map(Flow::zero_copy).reduce(|mut sum, more| {
        sum += more;
        sum
    });
    Ok(EndReport { zero_copy, ..report })
}

/// Runs the pattern once, for a whole run or one slice, over flows that stay open.
fn carry_once<F: Flow>(
    flows: &mut [F],
    share: &Share,
    prepare: &Prepare,
    control: &Control,
    begin: &dyn Fn(),
) -> Result<EndReport, Failure> {
    let interrupting = blocks(prepare).then(|| control.interrupter.block(look_every(prepare)));
    let interrupting = interrupting.transpose().map_err(system("handle SIGURG"))?;
    if prepare.is_active() {
        begin();
    }
    let clock = ThreadClock::start();
    control.interrupter.started();
    // The schedule begins with the run.
    let paced = if prepare.is_active() { pacer(prepare, share, control)? } else { None };
    let (carried, failed) = match (prepare.point.pattern, prepare.is_active()) {
        (Pattern::Stream, true) => (send(flows, prepare, paced, control), "cannot send the stream"),
        (Pattern::Stream, false) => (receive(flows, prepare, control), "cannot receive the stream"),
        (Pattern::PingPing, _) => {
            (lead_or_follow(flows, prepare, control), "the other end stopped sending")
        }
        (_, true) => (ask(flows, prepare, paced, control), "the other end stopped answering"),
        (_, false) => (answer(flows, prepare, control), "cannot answer"),
    };
    let thread = clock.read();
    let active = prepare.is_active().then(|| ended_after(thread.elapsed_ns));
    control.interrupter.ended();
    drop(interrupting);
    let of_flows = flows.iter_mut().filter_map(Flow::take_kernel_times);
    let kernel_times = of_flows.reduce(|sum, flow| sum.merged(&flow));
    Ok(EndReport { thread: Some(thread), active, kernel_times, ..carried.map_err(peer(failed))? })
}

/// Times of a load thread since its run began.
pub(crate) struct ThreadClock {
    delay_began_ns: Option<u64>,
    cpu_began_ns: u64,
    began_ns: u64,
}

impl ThreadClock {
    pub(crate) fn start() -> Self {
        let delay_began_ns = thread_run_delay_ns();
        Self { delay_began_ns, cpu_began_ns: thread_cpu_ns(), began_ns: now_ns() }
    }

    pub(crate) fn read(&self) -> ThreadTime {
        let cpu_ns = thread_cpu_ns() - self.cpu_began_ns;
        let elapsed_ns = now_ns() - self.began_ns;
        let delays = thread_run_delay_ns().zip(self.delay_began_ns);
        let run_delay_ns = delays.map(|(now, before)| now.saturating_sub(before));
        ThreadTime { cpu_ns, elapsed_ns, run_delay_ns }
    }
}

/// When a sender ran that has just ended.
pub(crate) fn ended_after(elapsed_ns: u64) -> ActiveTime {
    let ended_ns = machine_ns();
    ActiveTime { began_ns: ended_ns.saturating_sub(elapsed_ns), ended_ns }
}

/// Shuts down all flows, then serves all of them until the other end has received everything. Serving one after the
/// other would take the sum of their times.
pub(crate) fn finish<F: Flow>(flows: &mut [F]) -> io::Result<()> {
    flows.iter_mut().try_for_each(Flow::finish)?;
    let is_lingering = |flows: &mut [F]| flows.iter_mut().any(Flow::is_lingering);
    if !is_lingering(flows) {
        return Ok(());
    }
    let mut flow_set = FlowSet::of(flows, Interest::Read)?;
    while is_lingering(flows) {
        for ready in flow_set.wait(flows)? {
            flows[ready].tend()?;
        }
    }
    Ok(())
}

/// Whether calls are to be interrupted by orders: they may block indefinitely. Calls of io_uring and QUIC return by
/// themselves.
fn blocks(prepare: &Prepare) -> bool {
    let point = &prepare.point;
    point.wait != Wait::Spin && !point.path.is_uring() && point.transport.traits().blocks
}

/// Interval at which a blocked client is interrupted to look for lost responses or a silent server. `None` if this
/// end waits for no responses, or does not block (open loop).
fn look_every(prepare: &Prepare) -> Option<Duration> {
    let Prepare { point, .. } = prepare;
    let waits_for_answers =
        prepare.is_active() && point.pattern != Pattern::Stream && point.pace == Pace::Closed;
    waits_for_answers.then(|| parameters(prepare).look_every())
}

fn counted(counts: Counts) -> EndReport {
    EndReport { counts, ..EndReport::default() }
}

pub(crate) fn found(ClientResults { counts, rtt_ns, lost, .. }: ClientResults) -> EndReport {
    EndReport { rtt_ns: Some(rtt_ns), lost_round_trips: lost, ..counted(counts) }
}

/// Fairness among the flows; `None` for a single flow.
fn fairness(of_each: &[u64]) -> Option<Fairness> {
    (of_each.len() > 1).then(|| Fairness::of(of_each))
}

/// The only flow, if the thread waits in its calls instead of with epoll.
fn alone<'a, F>(flows: &'a mut [F], prepare: &Prepare) -> Option<&'a mut F> {
    match (prepare.point.wait, flows) {
        (Wait::Block | Wait::Spin | Wait::BusyPoll, [flow]) => Some(flow),
        _ => None,
    }
}

fn send<F: Flow>(
    flows: &mut [F],
    prepare: &Prepare,
    paced: Option<Pacer<'_>>,
    control: &Control,
) -> io::Result<EndReport> {
    let (mut payload, _) = messages(prepare);
    if let Some(pacer) = paced {
        let polls = prepare.point.wait == Wait::Epoll;
        let follow = Follow::of(&prepare.point.pace);
        // The largest buffers of both paths.
        let most = if matches!(prepare.point.path, Path::Mmsg | Path::Gso) { 64 } else { 1 };
        let (counts, of_each, pacing) =
            paced_stream::send(flows, &mut payload, pacer, follow, (polls, most), control)?;
        let fairness = fairness(&of_each);
        return Ok(EndReport { fairness, pacing: Some(pacing), ..counted(counts) });
    }
    if let Some(flow) = alone(flows, prepare) {
        return stream::send(flow, &mut payload, control).map(counted);
    }
    let (counts, of_each) = stream::send_many(flows, &mut payload, control)?;
    Ok(EndReport { fairness: Some(Fairness::of(&of_each)), ..counted(counts) })
}

/// The pacer of a thread's share of a run that has begun; `None` in a closed loop.
pub(crate) fn pacer<'a>(
    prepare: &Prepare,
    share: &Share,
    control: &'a Control,
) -> Result<Option<Pacer<'a>>, Failure> {
    let Prepare { point, seed, trace, .. } = prepare;
    let schedule = point
        .pace
        .schedule(point.payload, Stream::new(*seed, "pace"), trace.clone())
        .map_err(|error| Failure::Protocol(format!("the pace {}: {error}", point.pace)))?;
    let waiting = point.pace_wait.map(Waiting::from).unwrap_or_default();
    schedule
        .map(|schedule| schedule.of_turns(share.flows.clone(), share.of))
        .map(|schedule| Pacer::start(schedule, waiting, &control.stop))
        .transpose()
        // Where an agent limits rates, its sender catches up no further than its server.
        .map(|pacer| Some(pacer?.late_at_most(prepare.response_rate_max.map(|_| LATE_MAX))))
        .map_err(system("set the timer slack"))
}

fn receive<F: Flow>(
    flows: &mut [F],
    prepare: &Prepare,
    control: &Control,
) -> io::Result<EndReport> {
    let point = &prepare.point;
    let bytes = match (point.transport.traits().delivery, point.path) {
        (Delivery::Bytes, _) => STREAM_BUFFER_BYTES,
        // RDMA adapters write into registered memory of their own.
        _ if point.transport.is_verbs() => STREAM_BUFFER_BYTES,
        (Delivery::Datagrams | Delivery::Messages, Path::Trunc) => HEADER_BYTES,
        // One byte more than a datagram: a receiver that does not ask for lengths detects longer datagrams by it.
        (Delivery::Datagrams | Delivery::Messages, _) => point.payload.0 as usize + 1,
    };
    let mut buffer = Buffer::filled_with(0, bytes);
    let window = match (prepare.amount, &point.pace) {
        (Some(_), _) => Window::of_an_amount(),
        (None, Pace::Closed) if prepare.slice_ns.is_some() => {
            Window::of_a_slice(prepare.duration_ns)
        }
        (None, Pace::Closed) => Window::of(prepare.duration_ns, prepare.omit_ns, prepare.hold()),
        (None, _) if prepare.slice_ns.is_some() => {
            Window::of_a_scheduled_slice(prepare.duration_ns)
        }
        (None, _) => Window::of_a_schedule(prepare.omit_ns),
    };
    match alone(flows, prepare) {
        Some(flow) => stream::receive(flow, &mut buffer, window, control).map(counted),
        None => stream::receive_many(flows, &mut buffer, window, control).map(counted),
    }
}

/// Buffers of a request, or of one payload of it, and of its response.
pub(crate) fn messages(prepare: &Prepare) -> (Buffer, Buffer) {
    let point = &prepare.point;
    let response = point.response.unwrap_or(point.payload);
    // RDMA sends from registered memory: only the length of these buffers counts, and untouched pages cost nothing.
    let fill = if point.transport.is_verbs() { 0 } else { 0x5a };
    let of = |bytes: Bytes| Buffer::filled_with(fill, bytes.0 as usize);
    (of(point.payload), of(response))
}

fn ask<F: Flow>(
    flows: &mut [F],
    prepare: &Prepare,
    paced: Option<Pacer<'_>>,
    control: &Control,
) -> io::Result<EndReport> {
    let (mut request, mut response) = messages(prepare);
    let parameters = parameters(prepare);
    if let Some(pacer) = paced {
        let (results, of_each, pacing) =
            paced_rr::ask(flows, &mut request, &mut response, parameters, pacer, control)?;
        let fairness = fairness(&of_each);
        return Ok(EndReport { fairness, pacing: Some(pacing), ..found(results) });
    }
    if let Some(flow) = alone(flows, prepare) {
        let blocks = prepare.point.wait != Wait::Spin;
        return rr::ask(flow, &mut request, &mut response, parameters, blocks, control).map(found);
    }
    let (results, of_each) = rr::ask_many(flows, &mut request, &mut response, parameters, control)?;
    Ok(EndReport { fairness: Some(Fairness::of(&of_each)), ..found(results) })
}

fn lead_or_follow<F: Flow>(
    flows: &mut [F],
    prepare: &Prepare,
    control: &Control,
) -> io::Result<EndReport> {
    let (mut payload, mut buffer) = messages(prepare);
    // A ping-ping has one flow (`fabricmark_plan::resolve`).
    let flow = flows.first_mut().ok_or(io::ErrorKind::InvalidInput)?;
    if !prepare.is_active() {
        return ping_ping::follow(flow, &mut payload, &mut buffer, control).map(counted);
    }
    let blocks = prepare.point.wait != Wait::Spin;
    let parameters = parameters(prepare);
    ping_ping::lead(flow, &mut payload, &mut buffer, parameters, blocks, control).map(found)
}

fn parameters(prepare: &Prepare) -> ClientParameters {
    let Prepare { point, omit_ns, .. } = prepare;
    ClientParameters {
        outstanding: match point.pattern {
            Pattern::Burst => 1,
            _ => point.outstanding.unwrap_or(1) as usize,
        },
        payloads: point.payloads_per_request(),
        is_reliable: !point.transport.is_lossy(),
        ramp: *omit_ns,
        patience: prepare.patience(),
        least_rtt: prepare.least_rtt_ns,
    }
}

fn answer<F: Flow>(flows: &mut [F], prepare: &Prepare, control: &Control) -> io::Result<EndReport> {
    let (mut payload, mut response) = messages(prepare);
    let ClientParameters { payloads, outstanding, .. } = parameters(prepare);
    let limit = ResponseLimit::of(prepare, response.len(), control);
    let limit = limit.as_ref();
    let counts = match alone(flows, prepare) {
        Some(flow) => answer::answer(flow, payloads, &mut payload, &mut response, limit, control),
        None => {
            let of_each = (payloads, outstanding);
            answer::answer_many(flows, of_each, &mut payload, &mut response, limit, control)
        }
    };
    counts.map(counted)
}

/// Overhead of the instrument itself: a stream and a ping-pong over the null transport. Takes 0.1 s.
pub fn instrument() -> Instrument {
    const EACH: Duration = Duration::from_millis(50);
    let measure = |run: &dyn Fn(&Control) -> (u64, u64)| {
        let control = Control::default();
        let (calls, elapsed_ns) = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(EACH);
                control.end();
            });
            run(&control)
        });
        elapsed_ns as f64 / calls.max(1) as f64
    };
    let stream_call_ns = measure(&|control| {
        let counts = stream::send(&mut NullFlow::default(), black_box(&mut [0; 64]), control);
        counts.map_or((0, 0), |counts| (counts.calls, counts.elapsed_ns))
    });
    let ping_pong_ns = measure(&|control| {
        let (mut request, mut response) = ([0; 64], [0; 64]);
        let (request, response) = (black_box(&mut request), black_box(&mut response));
        let (ramp, patience) = (Nanos(0), Nanos(0));
        let parameters = ClientParameters {
            outstanding: 1,
            payloads: 1,
            is_reliable: true,
            ramp,
            patience,
            least_rtt: None,
        };
        let results =
            rr::ask(&mut NullFlow::default(), request, response, parameters, true, control);
        results.map_or((0, 0), |results| (results.counts.calls, results.counts.elapsed_ns))
    });
    Instrument { stream_call_ns, ping_pong_ns }
}
