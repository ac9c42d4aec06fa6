//! One connection per request (crr): client and server, over any transport that supports it.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::slice::from_ref;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_plan::{Role, Timestamps};
use fabricmark_proto::{EndReport, Failure};
use fabricmark_record::{Series, Side};
use fabricmark_units::{Bytes, Nanos};
use socket2::{Domain, Socket, Type};

use super::Run;
use crate::amount::Amount;
use crate::carry::{ended_after, found, messages, pacer};
use crate::failure::{peer, system};
use crate::interrupt::Blocking;
use crate::opening::{self, Connection, Listener, NOT_OPEN, accept_all};
use crate::pacer::Pacer;
use crate::pattern::crr::{self, Patience};
use crate::pattern::rr::Asked;
use crate::response_limit::ResponseLimit;
use crate::sockets::{bound, peer_within, side};
use crate::threads::Share;
use crate::transport::bytes::{ByteStream, PathStream};
use crate::watch::watched;
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;
use fabricmark_telemetry::stamp::{self, Arrivals, Trips, enable_receive};

impl Run<'_> {
    pub(super) fn crr<C: Connection>(&self, socket: Socket) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        if let (Role::Client, Some(peer_at)) = (prepare.role, self.peer_at) {
            // Only the first connection carries the token; later ones send only the request, as with other tools.
            let first = self.open::<C>(socket)?;
            return self.ask_by_connections(first, |socket| {
                opening::connect_until_interrupted::<C>(socket, peer_at, prepare, control)
            });
        }
        let listener = Listener::new::<C>(socket, prepare)?;
        let first = accept_all::<C>(&listener, control)?;
        listener.wait_for_orders()?;
        self.answer_by_connections(first, || {
            let mut connection: C = listener.accept()?;
            if C::HAS_KEYS {
                let shake = || connection.shake_hands(&prepare.point);
                opening::in_time(NOT_OPEN, peer_within(prepare), control, shake)
                    .map_err(io::Error::other)?;
            }
            Ok(connection)
        })
    }

    /// [`Self::crr`] over TCP whose times are split by packet timestamps.
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
            let asking = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(failed())?;
            enable_receive(asking.as_fd()).map_err(failed())?;
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

    fn side_of(&self, first: Option<&impl AsFd>) -> Side {
        first.map(|first| side(first, self.prepare.cpu)).unwrap_or_default()
    }

    /// Sends a request over each new connection, at the point's pace. Closes `first`, which only opened the flow.
    pub(super) fn ask_by_connections<S: Read + Write>(
        &self,
        first: Vec<impl AsFd>,
        connect: impl Fn(Socket) -> Result<S, Failure>,
    ) -> Result<EndReport, Failure> {
        let control = self.control;
        let side = self.side_of(first.first());
        // The server may serve one connection at a time.
        drop(first);
        (self.begin)();
        let began_ns = now_ns();
        let connect = || bound(self.prepare, 0).and_then(&connect).map_err(io::Error::other);
        let (request, mut response) = messages(self.prepare);
        let mut pacer = pacer(self.prepare, &Share::whole(1), control)?;
        let omit = self.prepare.omit_ns;
        let asked = match &pacer {
            Some(pacer) => Asked::open_loop(pacer.start_ns(), omit),
            None => Asked::closed_loop(now_ns(), omit),
        };
        let amount = Amount::new(self.prepare.amount.map_or(u64::MAX, |Bytes(b)| b), control);
        let _interrupted = self.interrupted()?;
        let patience = Patience::new(peer_within(self.prepare), control);
        let (asked, series) = self.counted(|gauge| {
            let departure = || {
                let departed_ns = match &mut pacer {
                    None => (!control.stop.load(Relaxed)).then(now_ns),
                    Some(pacer) => pacer.wait(),
                };
                amount.take(request.len() as u64);
                departed_ns
            };
            crr::ask(connect, &request, &mut response, departure, asked, patience, gauge)
        });
        let active = Some(ended_after(now_ns() - began_ns));
        control.check()?;
        let mut asked = asked.map_err(peer("a transaction failed"))?;
        let pacing = pacer.map(Pacer::finish);
        if let Some(pacing) = &pacing {
            // Transactions are sequential, so the RTT of the first belongs to the counted time.
            let least_rtt = self.prepare.least_rtt_ns.map(|_| Nanos(0));
            asked = asked.in_overload(pacing, omit, least_rtt);
        }
        Ok(EndReport { side, pacing, series, active, ..found(asked) })
    }

    /// Answers a request over each new connection. Closes `first`, which only opened the flow.
    pub(super) fn answer_by_connections<S: ByteStream>(
        &self,
        first: Vec<impl AsFd>,
        accept: impl Fn() -> io::Result<S>,
    ) -> Result<EndReport, Failure> {
        let side = self.side_of(first.first());
        drop(first);
        let (mut request, response) = messages(self.prepare);
        let _interrupted = self.interrupted()?;
        let patience = Patience::new(peer_within(self.prepare), self.control);
        let limit = ResponseLimit::of(self.prepare, response.len(), self.control);
        let limit = limit.as_ref();
        let (counts, series) = self
            .counted(|gauge| crr::answer(accept, &mut request, &response, limit, patience, gauge));
        let counts = counts.map_err(peer("cannot answer"))?;
        Ok(EndReport { counts, side, series, ..EndReport::default() })
    }

    /// Interrupts blocked calls at intervals, to detect a silent peer.
    fn interrupted(&self) -> Result<Blocking<'_>, Failure> {
        let look_every = peer_within(self.prepare) / 5;
        self.control.interrupter.block(Some(look_every)).map_err(system("handle a signal"))
    }

    /// Counts in intervals if the plan asks for them. Without TCP_INFO: no single connection represents the run.
    fn counted<R>(&self, carry: impl FnOnce(&Gauge) -> R) -> (R, Option<Series>) {
        let gauge = Gauge::default();
        match self.prepare.interval_ns {
            Some(interval) => {
                let planned = Some(self.prepare.start_ns + self.prepare.duration_ns);
                watched(interval, planned, None, self.control, from_ref(&gauge), || carry(&gauge))
            }
            None => (carry(&gauge), None),
        }
    }
}
