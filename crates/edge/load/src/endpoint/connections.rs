//! One connection per request (crr): client and server, over any transport that supports it.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use fabricmark_plan::{Role, Timestamps, Wait};
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_record::{Counts, Fairness};
use fabricmark_units::{Bytes, Nanos};
use socket2::{Domain, Socket, Type};

use super::Run;
use crate::amount::Amount;
use crate::carry::{ThreadClock, ended_after, found, messages, pacer};
use crate::control::Control;
use crate::failure::{peer, system};
use crate::opening::{self, Connection, Listener, NOT_OPEN, accept_all};
use crate::pacer::Pacer;
use crate::pattern::crr::{self, Departures, Patience};
use crate::pattern::crr_many;
use crate::pattern::rr::ClientResults;
use crate::response_limit::ResponseLimit;
use crate::sockets::{ClientSockets, bound, peer_within, side};
use crate::threads::{Share, on_threads};
use crate::transport::bytes::{ByteStream, PathStream};
use crate::watch::watched;
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;
use fabricmark_telemetry::stamp::{self, Arrivals, Trips, enable_receive};

impl Run<'_> {
    /// Each load thread has its share of the connections that are open at once. It serves one at a time in calls that
    /// block, or waits for all of its own with epoll.
    pub(super) fn crr<C: Connection>(&self, socket: Socket) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        let does_block = prepare.point.wait != Wait::Epoll;
        if let (Role::Client, Some(peer_at)) = (prepare.role, self.peer_at) {
            let first = self.open::<C>(socket)?;
            let amount = amount(prepare, control);
            let sockets = ClientSockets::to(peer_at, prepare);
            return self.by_shares(first, |share, begin, gauge| {
                if does_block {
                    let connect = || {
                        let socket = sockets.open()?;
                        opening::connect_until_interrupted::<C>(socket, peer_at, prepare, control)
                    };
                    return ask(prepare, control, share, begin, &amount, gauge, connect);
                }
                let run = (prepare, control, peer_at);
                ask_many::<C>(run, &sockets, share, begin, &amount, gauge)
            });
        }
        let listener = Listener::new::<C>(socket, prepare)?;
        let first = accept_all::<C>(&listener, control)?;
        if does_block { listener.wait_for_orders() } else { listener.does_not_block() }?;
        self.by_shares(first, |_, _, gauge| {
            if !does_block {
                return answer_many::<C>(prepare, control, &listener, gauge);
            }
            answer(prepare, control, gauge, || {
                let mut connection: C = listener.accept()?;
                if C::HAS_KEYS {
                    let shake = || connection.shake_hands(&prepare.point);
                    opening::in_time(NOT_OPEN, peer_within(prepare), control, shake)
                        .map_err(io::Error::other)?;
                }
                Ok(connection)
            })
        })
    }

    /// [`Self::crr`] over TCP whose times are split by packet timestamps, one connection at a time.
    pub(super) fn stamped_crr(
        &self,
        socket: Socket,
        source: Timestamps,
    ) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        let failed = || system("set SO_TIMESTAMPING");
        if let (Role::Client, Some(peer_at)) = (prepare.role, self.peer_at) {
            let first = self.open::<TcpStream>(socket)?;
            // The kernel stamps what it receives while any socket asks for it, and connections of crr are short.
            let stamping = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(failed())?;
            enable_receive(stamping.as_fd()).map_err(failed())?;
            let trips = RefCell::new(Trips::by(source));
            let connect = |socket| {
                let stream = opening::connect_until_interrupted::<TcpStream>(
                    socket, peer_at, prepare, control,
                )?;
                stamp::enable(stream.as_fd(), source == Timestamps::Hardware).map_err(failed())?;
                trips.borrow_mut().reconnects();
                Ok(PathStream { path: &trips, stream })
            };
            let report = self.ask_by_connections(first, connect)?;
            return Ok(EndReport { kernel_times: Some(trips.borrow_mut().finish()), ..report });
        }
        enable_receive(socket.as_fd()).map_err(failed())?;
        let listener = Listener::new::<TcpStream>(socket, prepare)?;
        let first = accept_all::<TcpStream>(&listener, control)?;
        listener.wait_for_orders()?;
        let arrivals = RefCell::new(Arrivals::default());
        let report = self.answer_by_connections(first, || {
            let stream: TcpStream = listener.accept()?;
            Ok(PathStream { path: &arrivals, stream })
        })?;
        Ok(EndReport { kernel_times: Some(arrivals.borrow_mut().finish()), ..report })
    }

    /// Sends a request over each new connection, one after the other. Closes `first`, which only opened the flow.
    pub(super) fn ask_by_connections<S: ByteStream>(
        &self,
        first: Vec<impl AsFd>,
        connect: impl Fn(Socket) -> Result<S, Failure>,
    ) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        let amount = amount(prepare, control);
        self.counted(first, |gauges| {
            let connect = || bound(prepare, 0).and_then(&connect);
            ask(prepare, control, &Share::whole(1), self.begin, &amount, &gauges[0], connect)
        })
    }

    /// Answers a request over each new connection. Closes `first`, which only opened the flow.
    pub(super) fn answer_by_connections<S: ByteStream>(
        &self,
        first: Vec<impl AsFd>,
        accept: impl Fn() -> io::Result<S>,
    ) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        self.counted(first, |gauges| answer(prepare, control, &gauges[0], accept))
    }

    /// Runs `carry` on each load thread.
    fn by_shares(
        &self,
        first: Vec<impl AsFd>,
        carry: impl Fn(&Share, &dyn Fn(), &Gauge) -> Result<EndReport, Failure> + Sync,
    ) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        let mut connections = vec![(); prepare.point.flows as usize];
        self.counted(first, |gauges| {
            on_threads(&mut connections, prepare, control, self.begin, |_, share, begin| {
                carry(share, begin, &gauges[share.thread])
            })
        })
    }

    /// Runs `carry`, in intervals if the plan asks for them: without TCP_INFO, since no single connection represents the
    /// run. `first` supplies the socket options of the report, and is closed: the server may serve one connection at a
    /// time.
    fn counted(
        &self,
        first: Vec<impl AsFd>,
        carry: impl FnOnce(&[Gauge]) -> Result<EndReport, Failure>,
    ) -> Result<EndReport, Failure> {
        let prepare = self.prepare;
        let side = first.first().map(|first| side(first, prepare.cpu)).unwrap_or_default();
        drop(first);
        let gauges: Vec<Gauge> =
            (0..prepare.point.load_threads()).map(|_| Gauge::default()).collect();
        let (report, series) = match prepare.interval_ns {
            Some(interval) => {
                let planned = Some(prepare.start_ns + prepare.duration_ns);
                watched(interval, planned, None, self.control, &gauges, || carry(&gauges))
            }
            None => (carry(&gauges), None),
        };
        Ok(EndReport { side, series, ..report? })
    }
}

fn amount<'a>(prepare: &Prepare, control: &'a Control) -> Amount<'a> {
    Amount::new(prepare.amount.map_or(u64::MAX, |Bytes(bytes)| bytes), control)
}

/// Makes the transactions of a thread one after the other.
fn ask<S: ByteStream>(
    prepare: &Prepare,
    control: &Control,
    share: &Share,
    begin: &dyn Fn(),
    amount: &Amount<'_>,
    gauge: &Gauge,
    connect: impl Fn() -> Result<S, Failure>,
) -> Result<EndReport, Failure> {
    let connect = || connect().map_err(io::Error::other);
    let (request, mut response) = messages(prepare);
    let patience = Patience::new(peer_within(prepare), control);
    run_client(prepare, control, share, begin, amount, |departures, results| {
        let results =
            crr::ask(connect, &request, &mut response, departures, results, patience, gauge);
        results.map(|results| (results, None))
    })
}

/// Makes the transactions of a thread, as many at once as its share has flows.
fn ask_many<C: Connection>(
    (prepare, control, peer_at): (&Prepare, &Control, SocketAddr),
    sockets: &ClientSockets<'_>,
    share: &Share,
    begin: &dyn Fn(),
    amount: &Amount<'_>,
    gauge: &Gauge,
) -> Result<EndReport, Failure> {
    let connecting = |socket| opening::connecting::<C>(socket, peer_at, prepare, control);
    let connect = || sockets.open().and_then(connecting).map_err(io::Error::other);
    let (mut request, mut response) = messages(prepare);
    let buffers = (&mut request[..], &mut response[..]);
    run_client(prepare, control, share, begin, amount, |departures, results| {
        let (flows, run) = (share.len(), (prepare, control, peer_at));
        let results = crr_many::ask(flows, connect, buffers, departures, results, run, gauge);
        results.map(|(results, of_each)| (results, Some(Fairness::of(&of_each))))
    })
}

/// Begins the run of a client at the point's pace, and evaluates its transactions.
fn run_client(
    prepare: &Prepare,
    control: &Control,
    share: &Share,
    begin: &dyn Fn(),
    amount: &Amount<'_>,
    carry: impl FnOnce(
        &mut Departures<'_>,
        ClientResults,
    ) -> io::Result<(ClientResults, Option<Fairness>)>,
) -> Result<EndReport, Failure> {
    begin();
    let clock = ThreadClock::start();
    control.interrupter.started();
    let pacer = pacer(prepare, share, control)?;
    let omit = prepare.omit_ns;
    let results = match &pacer {
        Some(pacer) => ClientResults::open_loop(pacer.start_ns(), omit),
        None => ClientResults::closed_loop(now_ns(), omit),
    };
    let request_bytes = prepare.point.payload.0;
    let mut departures = Departures { pacer, amount, request_bytes };
    let interrupted = control.interrupter.block(Some(peer_within(prepare) / 5));
    let interrupted = interrupted.map_err(system("handle SIGURG"))?;
    let results = carry(&mut departures, results);
    let thread = clock.read();
    control.interrupter.ended();
    drop(interrupted);
    control.check()?;
    let (mut results, fairness) = results.map_err(peer("a transaction failed"))?;
    let pacing = departures.pacer.map(Pacer::finish);
    if let Some(pacing) = &pacing {
        // Connections open within the counted time, so it is not known when the first response could arrive.
        let least_rtt = prepare.least_rtt_ns.map(|_| Nanos(0));
        results = results.in_overload(pacing, omit, least_rtt);
    }
    let active = Some(ended_after(thread.elapsed_ns));
    Ok(EndReport { fairness, pacing, active, thread: Some(thread), ..found(results) })
}

/// Answers the requests of one connection after the other.
fn answer<S: ByteStream>(
    prepare: &Prepare,
    control: &Control,
    gauge: &Gauge,
    accept: impl Fn() -> io::Result<S>,
) -> Result<EndReport, Failure> {
    let (mut request, response) = messages(prepare);
    let patience = Patience::new(peer_within(prepare), control);
    answering(prepare, control, response.len(), |limit| {
        crr::answer(accept, &mut request, &response, limit, patience, gauge)
    })
}

/// Answers the requests of many connections at once.
fn answer_many<C: Connection>(
    prepare: &Prepare,
    control: &Control,
    listener: &Listener<'_>,
    gauge: &Gauge,
) -> Result<EndReport, Failure> {
    let (mut request, mut response) = messages(prepare);
    answering(prepare, control, response.len(), |limit| {
        let buffers = (&mut request[..], &mut response[..]);
        crr_many::answer::<C>(listener, buffers, limit, (prepare, control), gauge)
    })
}

fn answering(
    prepare: &Prepare,
    control: &Control,
    response_bytes: usize,
    carry: impl FnOnce(Option<&ResponseLimit<'_>>) -> io::Result<Counts>,
) -> Result<EndReport, Failure> {
    let clock = ThreadClock::start();
    let interrupted = control.interrupter.block(Some(peer_within(prepare) / 5));
    let _interrupted = interrupted.map_err(system("handle SIGURG"))?;
    let limit = ResponseLimit::of(prepare, response_bytes, control);
    let counts = carry(limit.as_ref()).map_err(peer("cannot answer"))?;
    Ok(EndReport { counts, thread: Some(clock.read()), ..EndReport::default() })
}
