//! A connection for each exchange: who connects and who accepts, over any transport that can.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_proto::{EndReport, Failure, Role};
use fabricmark_record::Series;
use fabricmark_units::Bytes;
use socket2::{SockRef, Socket};

use super::Endpoint;
use crate::amount::Amount;
use crate::carry::{messages, note_asked, pacer};
use crate::clock::now_ns;
use crate::control::Control;
use crate::gauge::Gauge;
use crate::opening::{self, Connection, Listener, accept_all, open_all};
use crate::pacer::Pacer;
use crate::pattern::connect_exchange;
use crate::sockets::{PEER_WITHIN, bound, peer, side};
use crate::transport::bytes::ByteStream;
use crate::watch::watched;

impl Endpoint {
    pub(super) fn connect_exchange<C: Connection>(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        if let (Role::Start, Some(peer_at)) = (self.prepare.role, peer_at) {
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
                opening::connect::<C>(socket, peer_at, &self.prepare).map_err(io::Error::other)
            };
            self.ask_by_connections(connect, control, &mut report)?;
            return Ok(report);
        }
        let listener = Listener::<C>::new(socket, self.prepare.point.transport)?;
        let first = accept_all(&listener, &self.prepare, control)?;
        let mut report = EndReport::default();
        if let Some(first) = first.first() {
            report.side = side(&SockRef::from(first), self.prepare.cpu);
        }
        drop(first);
        let accept = || {
            let mut connection = listener.accept()?;
            // It has the time-out of the listener, which is for looks at orders.
            SockRef::from(&connection).set_read_timeout(Some(PEER_WITHIN))?;
            connection.shake_hands(&self.prepare.point)?;
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
        let ramp = self.prepare.omit_ns;
        let amount = Amount::new(self.prepare.amount.map_or(u64::MAX, |Bytes(b)| b), control);
        let (asked, series) = self.counted(control, |gauge| {
            let departure = || {
                let departed_ns = match &mut pacer {
                    None => (!control.stop.load(Relaxed)).then(now_ns),
                    Some(pacer) => pacer.wait(),
                };
                amount.take(request.len() as u64);
                departed_ns
            };
            connect_exchange::ask(connect, &request, &mut response, departure, ramp, gauge)
        });
        note_asked(report, asked.map_err(peer("an exchange failed"))?);
        report.series = series;
        report.pacing = pacer.map(Pacer::finish);
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
        let (counts, series) = self.counted(control, |gauge| {
            connect_exchange::answer(accept, &mut request, &response, control, gauge)
        });
        report.counts = counts.map_err(peer("cannot answer"))?;
        report.series = series;
        Ok(())
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
