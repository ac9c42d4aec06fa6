//! A connection for each exchange: who connects and who accepts, over any transport that can.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Failure};
use fabricmark_record::Series;
use fabricmark_units::{Bytes, Nanos};
use socket2::{SockRef, Socket};

use super::Endpoint;
use crate::amount::Amount;
use crate::carry::{messages, note_asked, pacer};
use crate::control::Control;
use crate::failure::{peer, system};
use crate::interrupt::Blocking;
use crate::opening::{self, Connection, Listener, NOT_OPEN, accept_all, open_all};
use crate::pacer::Pacer;
use crate::pattern::crr::{self, Patience};
use crate::pattern::rr::Asked;
use crate::sockets::{bound, peer_within, side};
use crate::transport::bytes::ByteStream;
use crate::watch::watched;
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;

impl Endpoint {
    pub(super) fn crr<C: Connection>(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        if let (Role::Client, Some(peer_at)) = (self.prepare.role, peer_at) {
            // The first connection proves the token; those that follow are as bare as other tools'.
            let (first, rtt_ns) = open_all::<C>(socket, peer_at, &self.prepare, control)?;
            let mut report = EndReport { opening_rtt_ns: rtt_ns, ..EndReport::default() };
            if let Some(first) = first.first() {
                report.side = side(&SockRef::from(first), self.prepare.cpu);
            }
            drop(first);
            begin();
            let connect = || {
                let socket = bound(&self.prepare, 0).map_err(io::Error::other)?;
                opening::connect::<C>(socket, peer_at, &self.prepare, control)
                    .map_err(io::Error::other)
            };
            self.ask_by_connections(connect, control, &mut report)?;
            return Ok(report);
        }
        let listener = Listener::<C>::new(socket, &self.prepare)?;
        let first = accept_all(&listener, control)?;
        let mut report = EndReport::default();
        if let Some(first) = first.first() {
            report.side = side(&SockRef::from(first), self.prepare.cpu);
        }
        drop(first);
        let accept = || {
            let mut connection = listener.accept()?;
            // It has the time-out of the listener, which costs a timer in each call that sleeps.
            SockRef::from(&connection).set_read_timeout(None)?;
            if C::HAS_KEYS {
                let shake = || connection.shake_hands(&self.prepare.point);
                opening::in_time(NOT_OPEN, peer_within(&self.prepare), control, shake)
                    .map_err(io::Error::other)?;
            }
            Ok(connection)
        };
        self.answer_by_connections(accept, control, &mut report)?;
        Ok(report)
    }

    /// Asks over connections as they are made, at the point's pace.
    pub(super) fn ask_by_connections<S: Read + Write>(
        &self,
        connect: impl Fn() -> io::Result<S>,
        control: &Control,
        report: &mut EndReport,
    ) -> Result<(), Failure> {
        let (request, mut response) = messages(&self.prepare);
        let mut pacer = pacer(&self.prepare, control)?;
        let omit = self.prepare.omit_ns;
        let asked = match &pacer {
            Some(pacer) => Asked::open_loop(pacer.start_ns(), omit),
            None => Asked::closed_loop(now_ns(), omit),
        };
        let amount = Amount::new(self.prepare.amount.map_or(u64::MAX, |Bytes(b)| b), control);
        let _interrupted = self.interrupted(control)?;
        let patience = Patience::new(peer_within(&self.prepare), control);
        let (asked, series) = self.counted(control, |gauge| {
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
        control.check()?;
        let mut asked = asked.map_err(peer("an exchange failed"))?;
        if let Some(pacing) = pacer.map(Pacer::finish) {
            // Exchanges follow one another, so the first one's round trips belong to the time.
            let least_rtt = self.prepare.least_rtt_ns.map(|_| Nanos(0));
            asked = asked.over_schedule(&pacing, omit, least_rtt);
            report.pacing = Some(pacing);
        }
        note_asked(report, asked);
        report.series = series;
        Ok(())
    }

    /// Answers over connections as they come.
    pub(super) fn answer_by_connections<S: ByteStream>(
        &self,
        accept: impl Fn() -> io::Result<S>,
        control: &Control,
        report: &mut EndReport,
    ) -> Result<(), Failure> {
        let (mut request, response) = messages(&self.prepare);
        let _interrupted = self.interrupted(control)?;
        let patience = Patience::new(peer_within(&self.prepare), control);
        let (counts, series) = self.counted(control, |gauge| {
            crr::answer(accept, &mut request, &response, patience, gauge)
        });
        report.counts = counts.map_err(peer("cannot answer"))?;
        report.series = series;
        Ok(())
    }

    /// Lets calls end now and then, so that the other end's silence is seen.
    fn interrupted<'a>(&self, control: &'a Control) -> Result<Blocking<'a>, Failure> {
        let look_every = peer_within(&self.prepare) / 5;
        control.interrupter.block(Some(look_every)).map_err(system("handle a signal"))
    }

    /// In intervals where they are asked for; no one connection stands for all, so without TCP_INFO.
    fn counted<R>(
        &self,
        control: &Control,
        carry: impl FnOnce(&Gauge) -> R,
    ) -> (R, Option<Series>) {
        match self.prepare.interval_ns {
            Some(interval) => watched(interval, None, control, carry),
            None => (carry(&Gauge::default()), None),
        }
    }
}
