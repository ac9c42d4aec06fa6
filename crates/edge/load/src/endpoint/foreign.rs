//! One end of a stream whose flows are opened by the protocol of another tool.

use std::net::SocketAddr;
use std::time::Duration;

use fabricmark_proto::{EndReport, Failure, Prepare};
use socket2::Socket;

use super::{carry_out, check};
use crate::control::{Control, Event};
use crate::opening::unconnected;
use crate::options::labelled;
use crate::sockets::{bound, peer_within};
use crate::transport::{AnyFlow, Flow};

pub use crate::flow_set::poll_for;
pub use crate::options::set_dont_fragment;
pub use crate::sockets::{set_wait, socket_drops};

/// Opens a TCP or UDP socket with the options of the run's point and connects it to the other tool.
pub fn connect(prepare: &Prepare, peer_at: SocketAddr) -> Result<Socket, Failure> {
    let socket = bound(prepare, 0)?;
    let within = prepare.point.connect_timeout.map_or(peer_within(prepare), Duration::from);
    socket
        .connect_timeout(&labelled(peer_at, &prepare.point).into(), within)
        .map_err(unconnected(peer_at, within))?;
    Ok(socket)
}

/// Runs the pattern over open flows on the calling thread, which it pins to its CPU. A sender stops when the time or
/// the amount of the run is used up, a receiver when it is told to drain.
pub fn run<F: Flow + Send>(
    prepare: &Prepare,
    mut flows: Vec<F>,
    opening_rtt_ns: u64,
    control: &Control,
) -> Result<EndReport, Failure> {
    check(&prepare.point)?;
    carry_out(prepare, None, control, |run| {
        run.opening_rtt_ns.set(opening_rtt_ns);
        if !prepare.is_active() {
            control.tell(Event::Begun);
        }
        run.flows(&mut AnyFlow::of(&mut flows))
    })
}
