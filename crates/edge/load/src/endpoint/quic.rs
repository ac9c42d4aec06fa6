//! A run over QUIC: flows open in their own way, the patterns are the same.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use fabricmark_plan::{Pace, Pattern, Role, Wait};
use fabricmark_proto::{EndReport, Failure, Opening, Prepare};
use fabricmark_record::QuicCounters;
use socket2::Socket;

use super::{Run, add_socket_drops};
use crate::failure::{peer, system};
use crate::opening::{self, NOT_OPEN};
use crate::sockets::{bound, bound_beside};
use crate::transport::bytes::{ByteFlow, ByteStream};
use crate::transport::quic::{self, QuicListener, QuicStream};

impl Run<'_> {
    /// One connection per request, each from a socket of its own, as over TCP.
    pub(super) fn crr_over_quic(&self, socket: Socket) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        if let (Role::Client, Some(peer_at)) = (prepare.role, self.peer_at) {
            let first = self.open_quic(socket, peer_at, 0)?;
            let connect = |socket| quic::connect(socket, peer_at, prepare, control);
            return self.ask_by_connections(vec![first], connect);
        }
        let listener = QuicListener::new(socket, quic::answering(&prepare.point)?, prepare)?;
        let opening = opening::opening(prepare, 0);
        let mut first = listener.admit(opening, &mut [], control)?;
        accept(&mut first, opening)?;
        first.finish().and_then(|()| first.linger()).map_err(peer(NOT_OPEN))?;
        self.answer_by_connections(vec![first], || listener.accept(control))
    }

    /// Flows that are opened once.
    pub(super) fn quic(&self, socket: Socket) -> Result<EndReport, Failure> {
        let point = &self.prepare.point;
        let mut flows = match (self.prepare.role, self.peer_at) {
            (Role::Client, Some(peer_at)) => self.open_all_quic(socket, peer_at)?,
            _ => self.accept_all_quic(socket)?,
        };
        // An open-loop client also waits for departures, so its receives must not block.
        let is_paced = point.pace != Pace::Closed && point.pattern != Pattern::Stream;
        let does_wait = point.wait == Wait::Block && !(is_paced && self.prepare.is_active());
        flows.iter_mut().for_each(|flow| flow.set_wait(does_wait));
        let mut flows: Vec<_> = flows.into_iter().map(ByteFlow::new).collect();
        let mut report = self.carry_any(&mut flows)?;
        if self.prepare.is_active() {
            report.quic = QuicCounters::of(flows.iter().map(|flow| flow.stream().counters()));
        }
        add_socket_drops(&mut report, &flows)?;
        Ok(report)
    }

    fn open_quic(
        &self,
        socket: Socket,
        peer_at: SocketAddr,
        flow: u32,
    ) -> Result<QuicStream, Failure> {
        let mut stream = quic::connect(socket, peer_at, self.prepare, self.control)?;
        let rtt_ns = opening::open(&mut stream, self.prepare, flow, self.control)?;
        if flow == 0 {
            self.opening_rtt_ns.set(rtt_ns);
        }
        Ok(stream)
    }

    /// Opens all flows, each a connection from a socket of its own.
    fn open_all_quic(
        &self,
        socket: Socket,
        peer_at: SocketAddr,
    ) -> Result<Vec<QuicStream>, Failure> {
        let mut flows = vec![self.open_quic(socket, peer_at, 0)?];
        for flow in 1..self.prepare.point.flows {
            self.control.check()?;
            flows.push(self.open_quic(bound(self.prepare, 0)?, peer_at, flow)?);
        }
        Ok(flows)
    }

    /// Accepts all flows, and connects a socket to each client so that the kernel demultiplexes their datagrams.
    fn accept_all_quic(&self, socket: Socket) -> Result<Vec<QuicStream>, Failure> {
        let Prepare { point, .. } = self.prepare;
        let port = socket.local_addr().ok().and_then(|at| at.as_socket()).map_or(0, |at| at.port());
        let settings = quic::answering(point)?;
        let mut flows = Vec::with_capacity(point.flows as usize);
        let mut waiting = Some(socket);
        for flow in 0..point.flows {
            let Some(socket) = waiting.take() else { break };
            let listener = QuicListener::new(socket, Arc::clone(&settings), self.prepare)?;
            let opening = opening::opening(self.prepare, flow);
            let mut stream = listener.admit(opening, &mut flows, self.control)?;
            listener.connect(&stream).map_err(system("connect to the other end"))?;
            // The client opens the next flow as soon as this one is accepted.
            if flow + 1 < point.flows {
                waiting = Some(bound_beside(self.prepare, port)?);
            }
            accept(&mut stream, opening)?;
            flows.push(stream);
        }
        Ok(flows)
    }
}

fn accept(stream: &mut QuicStream, opening: Opening) -> Result<(), Failure> {
    let accepted = stream.write_all(&opening.acceptance().emit());
    accepted.map_err(peer("cannot accept the flow"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::thread;

    use fabricmark_proto::OPENING_BYTES;
    use rustix::net::RecvFlags;

    use super::super::Endpoint;
    use super::*;
    use crate::carry::finish;
    use crate::control::Control;
    use crate::opening::in_time;
    use crate::options::tests::prepare;
    use crate::sockets::peer_within;
    use crate::transport::is_timeout;

    /// One end of a run with four flows.
    fn end(role: Role) -> Endpoint {
        let prepare = prepare("transport=quic,family=4,flows=4");
        Endpoint::prepare(Prepare { role, token: [7; 16], ..prepare }).unwrap()
    }

    fn run<'a>(end: &'a Endpoint, control: &'a Control) -> Run<'a> {
        let opening_rtt_ns = Cell::new(0);
        Run { prepare: &end.prepare, peer_at: None, control, begin: &|| {}, opening_rtt_ns }
    }

    /// Reads to the end of the stream; returns the number of bytes.
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
            // Everything that has arrived so far is lost.
            while rustix::net::recv(&first, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {}
            let mut heard = [0; OPENING_BYTES];
            let within = peer_within(prepare);
            let opened = in_time("opening", within, &control, || first.read_exact(&mut heard));
            if opened.is_err() {
                // Otherwise the server would wait indefinitely.
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
                let mut streams = run(&answering, &control).accept_all_quic(socket).unwrap();
                let mut read: Vec<usize> = streams.iter_mut().rev().map(drain).collect();
                read.reverse();
                read
            });
            let mut starting = end(Role::Client);
            let socket = starting.socket.take().unwrap();
            let mut streams = run(&starting, &control).open_all_quic(socket, at).unwrap();
            // More than the initial congestion window, so that the reader depends on this end to continue.
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
