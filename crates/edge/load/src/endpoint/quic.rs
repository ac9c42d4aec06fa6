//! A run over QUIC: its own way of opening, the same patterns.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use fabricmark_plan::{Pace, Pattern, Role, Wait};
use fabricmark_proto::{EndReport, Failure, Opening, Prepare};
use fabricmark_record::QuicCounters;
use socket2::{SockRef, Socket};

use super::Endpoint;
use crate::carry::carry;
use crate::control::Control;
use crate::failure::{peer, system};
use crate::opening;
use crate::sockets::{bound, bound_beside, side};
use crate::sys;
use crate::transport::bytes::{ByteFlow, ByteStream};
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
        let is_connect_exchange = point.pattern == Pattern::Crr;
        if let (Role::Client, Some(peer_at)) = (role, peer_at) {
            if is_connect_exchange {
                let (first, rtt_ns) = self.open_quic(socket, peer_at, 0, control)?;
                return self.ask_by_quic(first, rtt_ns, peer_at, control, begin);
            }
            let (flows, rtt_ns) = self.open_all_quic(socket, peer_at, control)?;
            return self.carry_quic(flows, rtt_ns, control, begin);
        }
        if is_connect_exchange {
            let listener = QuicListener::new(socket, quic::answering(point)?, &self.prepare)?;
            let opening = opening::opening(&self.prepare, 0);
            let mut first = listener.admit(opening, &mut [], control)?;
            accept(&mut first, opening)?;
            return self.answer_by_quic(&listener, first, control);
        }
        self.carry_quic(self.accept_all_quic(socket, control)?, 0, control, begin)
    }

    /// Opens a flow; gives the time that its opening took.
    fn open_quic(
        &self,
        socket: Socket,
        peer_at: SocketAddr,
        flow: u32,
        control: &Control,
    ) -> Result<(QuicStream, u64), Failure> {
        let mut stream = quic::connect(socket, peer_at, &self.prepare, control)?;
        let rtt_ns = opening::open(&mut stream, &self.prepare, flow, control)?;
        Ok((stream, rtt_ns))
    }

    /// Opens every flow, each a connection from a socket of its own; gives the time that the first
    /// opening took.
    fn open_all_quic(
        &self,
        socket: Socket,
        peer_at: SocketAddr,
        control: &Control,
    ) -> Result<(Vec<QuicStream>, u64), Failure> {
        let (first, rtt_ns) = self.open_quic(socket, peer_at, 0, control)?;
        let mut flows = vec![first];
        for flow in 1..self.prepare.point.flows {
            control.check()?;
            flows.push(self.open_quic(bound(&self.prepare, 0)?, peer_at, flow, control)?.0);
        }
        Ok((flows, rtt_ns))
    }

    /// Waits for every flow to open, and connects a socket to each other end: the kernel then knows
    /// whose datagrams are whose.
    fn accept_all_quic(
        &self,
        socket: Socket,
        control: &Control,
    ) -> Result<Vec<QuicStream>, Failure> {
        let Prepare { point, .. } = &self.prepare;
        let port = socket.local_addr().ok().and_then(|at| at.as_socket()).map_or(0, |at| at.port());
        let settings = quic::answering(point)?;
        let mut flows = Vec::with_capacity(point.flows as usize);
        let mut waiting = socket;
        for flow in 0..point.flows {
            let listener = QuicListener::new(waiting, Arc::clone(&settings), &self.prepare)?;
            let opening = opening::opening(&self.prepare, flow);
            let mut stream = listener.admit(opening, &mut flows, control)?;
            listener.connect(&stream).map_err(system("connect to the other end"))?;
            // The next flow opens as soon as this one is accepted.
            let next =
                (flow + 1 < point.flows).then(|| bound_beside(&self.prepare, port)).transpose()?;
            accept(&mut stream, opening)?;
            flows.push(stream);
            match next {
                Some(next) => waiting = next,
                None => break,
            }
        }
        Ok(flows)
    }

    fn carry_quic(
        &self,
        mut flows: Vec<QuicStream>,
        opening_rtt_ns: u64,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let point = &self.prepare.point;
        // Whoever asks in an open loop waits for departures, too.
        let is_paced = point.pace != Pace::Closed && point.pattern != Pattern::Stream;
        let does_wait = point.wait == Wait::Block && !(is_paced && self.prepare.is_active());
        flows.iter_mut().for_each(|flow| flow.set_wait(does_wait));
        let mut flows: Vec<_> = flows.into_iter().map(ByteFlow::new).collect();
        let mut report = carry(&mut flows, &self.prepare, control, begin)?;
        report.opening_rtt_ns = opening_rtt_ns;
        let streams = || flows.iter().map(ByteFlow::stream);
        if let Some(first) = streams().next() {
            report.side = side(&SockRef::from(first), self.prepare.cpu);
        }
        if self.prepare.is_active() {
            report.quic = QuicCounters::of(streams().map(QuicStream::counters));
        }
        for stream in streams() {
            report.socket_drops +=
                sys::socket_drops(stream.as_fd()).map_err(system("read SO_MEMINFO"))?;
        }
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
            quic::connect(socket, peer_at, &self.prepare, control).map_err(io::Error::other)
        };
        begin();
        self.ask_by_connections(connect, control, &mut report)?;
        Ok(report)
    }

    fn answer_by_quic(
        &self,
        listener: &QuicListener<'_>,
        mut first: QuicStream,
        control: &Control,
    ) -> Result<EndReport, Failure> {
        let side = side(&SockRef::from(&first), self.prepare.cpu);
        first.finish().and_then(|()| first.linger()).map_err(peer("the flow did not open"))?;
        drop(first);
        let accept = || listener.accept(control);
        let mut report = EndReport { side, ..EndReport::default() };
        self.answer_by_connections(accept, control, &mut report)?;
        Ok(report)
    }
}

/// Accepts the flow that a stream has opened.
fn accept(stream: &mut QuicStream, opening: Opening) -> Result<(), Failure> {
    let accepted = stream.write_all(&opening.acceptance().emit());
    accepted.map_err(peer("cannot accept the flow"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::thread;

    use fabricmark_proto::OPENING_BYTES;
    use rustix::net::RecvFlags;

    use super::*;
    use crate::carry::finish;
    use crate::opening::in_time;
    use crate::options::tests::prepare;
    use crate::sockets::peer_within;
    use crate::transport::is_timeout;

    /// An end of four flows.
    fn end(role: Role) -> Endpoint {
        let prepare = prepare("transport=quic,family=4,flows=4");
        Endpoint::prepare(Prepare { role, token: [7; 16], ..prepare }).unwrap()
    }

    /// Reads to the end; gives the bytes.
    fn drain(stream: &mut QuicStream) -> usize {
        let (mut buffer, mut total) = ([0; 4096], 0);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return total,
                Ok(bytes) => total += bytes,
                Err(error) => assert!(is_timeout(&error), "after {total} bytes: {error}"),
            }
        }
    }

    #[test]
    fn a_flow_whose_acceptance_is_lost_opens_although_the_next_one_is_awaited() {
        let mut answering = end(Role::Server);
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), answering.port());
        let control = Control::default();
        let (accepted, is_accepted) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let accepted = accepted;
                let (prepare, port) = (&answering.prepare, answering.port);
                let settings = quic::answering(&prepare.point).unwrap();
                let socket = answering.socket.take().unwrap();
                let listener = QuicListener::new(socket, Arc::clone(&settings), prepare).unwrap();
                let opening = |flow| opening::opening(prepare, flow);
                let mut first = listener.admit(opening(0), &mut [], &control).unwrap();
                listener.connect(&first).unwrap();
                let next = bound_beside(prepare, port).unwrap();
                let next = QuicListener::new(next, settings, prepare).unwrap();
                accept(&mut first, opening(0)).unwrap();
                accepted.send(()).unwrap();
                next.admit(opening(1), &mut [first], &control).unwrap();
            });
            let starting = end(Role::Client);
            let prepare = &starting.prepare;
            let socket = bound(prepare, 0).unwrap();
            let mut first = quic::connect(socket, at, prepare, &control).unwrap();
            first.write_all(&opening::opening(prepare, 0).emit()).unwrap();
            is_accepted.recv().unwrap();
            // Whatever has come so far is lost.
            while rustix::net::recv(&first, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {}
            let mut heard = [0; OPENING_BYTES];
            let within = peer_within(prepare);
            let opened = in_time("opening", within, &control, || first.read_exact(&mut heard));
            if opened.is_err() {
                // Else the server would wait for ever.
                control.give_up();
            }
            opened.unwrap();
            let mut second =
                quic::connect(bound(prepare, 0).unwrap(), at, prepare, &control).unwrap();
            second.write_all(&opening::opening(prepare, 1).emit()).unwrap();
        });
    }

    #[test]
    fn flows_end_whole_in_whatever_order_the_other_end_reads_them() {
        let mut answering = end(Role::Server);
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), answering.port());
        let control = Control::default();
        let (written, read) = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let socket = answering.socket.take().unwrap();
                let mut streams = answering.accept_all_quic(socket, &control).unwrap();
                let mut read: Vec<usize> = streams.iter_mut().rev().map(drain).collect();
                read.reverse();
                read
            });
            let mut starting = end(Role::Client);
            let socket = starting.socket.take().unwrap();
            let (mut streams, _) = starting.open_all_quic(socket, at, &control).unwrap();
            // More than the first congestion window, so that whoever reads needs this end to go on.
            let fill = |stream: &mut QuicStream| {
                stream.set_wait(false);
                let mut written = 0;
                loop {
                    match stream.write(&[0; 1000]) {
                        Ok(bytes) => written += bytes,
                        Err(error) => {
                            assert!(is_timeout(&error), "{error}");
                            return written;
                        }
                    }
                }
            };
            let written: Vec<usize> = streams.iter_mut().map(fill).collect();
            finish(&mut streams.into_iter().map(ByteFlow::new).collect::<Vec<_>>()).unwrap();
            (written, reading.join().unwrap())
        });
        assert!(written.iter().all(|&bytes| bytes > 20_000), "{written:?}");
        assert_eq!(read, written);
    }
}
