//! A run over QUIC: its own way of opening, the same patterns.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use fabricmark_plan::Pattern;
use fabricmark_proto::{EndReport, Failure, Prepare, Role};
use socket2::{SockRef, Socket};

use super::Endpoint;
use crate::carry::carry;
use crate::control::Control;
use crate::opening;
use crate::sockets::{bound, peer, side, system};
use crate::sys;
use crate::transport::bytes::{ByteFlow, ByteStream};
use crate::transport::is_timeout;
use crate::transport::quic::{self, QuicListener, QuicStream};

impl Endpoint {
    pub(super) fn quic(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let Prepare { point, role, .. } = &self.prepare;
        let is_connect_exchange = point.pattern == Pattern::ConnectExchange;
        if let (Role::Start, Some(peer_at)) = (role, peer_at) {
            let mut first = quic::connect(socket, peer_at, point)?;
            let rtt_ns = opening::open(&mut first, &self.prepare, 0)?;
            return match is_connect_exchange {
                true => self.ask_by_quic(first, rtt_ns, peer_at, control, begin),
                false => self.carry_quic(first, rtt_ns, control, begin),
            };
        }
        let listener = QuicListener::new(socket, point)?;
        let mut first = loop {
            match listener.accept() {
                Ok(first) => break first,
                Err(error) if is_timeout(&error) => control.check()?,
                Err(error) => return Err(peer("the flow did not open")(error)),
            }
        };
        opening::admit(&mut first, &self.prepare, 0)?;
        if is_connect_exchange {
            return self.answer_by_quic(&listener, first, control);
        }
        listener.connect(&first).map_err(system("connect to the other end"))?;
        self.carry_quic(first, 0, control, begin)
    }

    fn carry_quic(
        &self,
        mut stream: QuicStream,
        opening_rtt_ns: u64,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        stream.set_wait(&self.prepare.point);
        let mut flows = [ByteFlow::new(stream)];
        let mut report = carry(&mut flows, &self.prepare, control, begin)?;
        let stream = flows[0].stream();
        report.opening_rtt_ns = opening_rtt_ns;
        report.side = side(&SockRef::from(stream), self.prepare.cpu);
        report.quic = self.prepare.is_active().then(|| stream.counters());
        report.socket_drops =
            sys::socket_drops(stream.as_fd()).map_err(system("read SO_MEMINFO"))?;
        Ok(report)
    }

    /// Each exchange has a socket of its own, too, as over TCP.
    fn ask_by_quic(
        &self,
        first: QuicStream,
        opening_rtt_ns: u64,
        peer_at: SocketAddr,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let mut report = EndReport {
            opening_rtt_ns,
            side: side(&SockRef::from(&first), self.prepare.cpu),
            ..EndReport::default()
        };
        // The other end has one connection at a time.
        drop(first);
        let connect = || {
            let socket = bound(&self.prepare, 0).map_err(io::Error::other)?;
            quic::connect(socket, peer_at, &self.prepare.point).map_err(io::Error::other)
        };
        begin();
        self.ask_by_connections(connect, control, &mut report)?;
        Ok(report)
    }

    fn answer_by_quic(
        &self,
        listener: &QuicListener,
        mut first: QuicStream,
        control: &Control,
    ) -> Result<EndReport, Failure> {
        let side = side(&SockRef::from(&first), self.prepare.cpu);
        first.finish().map_err(peer("the flow did not open"))?;
        drop(first);
        let accept = || listener.accept();
        let mut report = EndReport { side, ..EndReport::default() };
        self.answer_by_connections(accept, control, &mut report)?;
        Ok(report)
    }
}
