//! What is asked of a holder and what it answers: one line of JSON each, and descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::HeldError;
use super::place::Named;
use crate::path::Traffic;
use crate::qdisc::Backend;
use crate::topology::Source;

/// The lab that a new process is to hold.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    #[serde(flatten)]
    pub(crate) lab: Named,
    pub(crate) folder: std::path::PathBuf,
    pub(crate) topology: Source,
    pub(crate) seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Show,
    /// Descriptors of a node's network namespace and of the user namespace that owns it.
    Enter {
        node: String,
    },
    /// A link is to do something else.
    Change {
        link: String,
        /// Only what comes from this node.
        from: Option<String>,
        words: String,
        /// What stands in the file of their `trace`.
        trace: Option<String>,
    },
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Report(Report),
    /// Done; descriptors follow if any were asked for.
    Done,
    Failed(String),
    /// What this machine lacks for it.
    Missing(String),
}

impl Reply {
    pub(crate) fn of(error: &HeldError) -> Self {
        match error {
            HeldError::Lab(error) if error.is_missing() => Self::Missing(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }

    /// What was done, or why it was not.
    pub(crate) fn result(self) -> Result<Self, HeldError> {
        match self {
            Self::Failed(why) => Err(HeldError::Refused(why)),
            Self::Missing(what) => Err(HeldError::Missing(what)),
            reply => Ok(reply),
        }
    }
}

/// A lab that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// What it is, if its file says so.
    pub title: Option<String>,
    /// The process that holds it.
    pub holder_pid: u32,
    /// Hosts and routers, then switches and hubs.
    pub nodes: Vec<NodeReport>,
    /// Two for each link.
    pub paths: Vec<PathReport>,
    /// Switches and hubs, then the buses of nodes.
    pub shared: Vec<SharedReport>,
}

/// A host, a router, a switch or a hub.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// `host`, `router`, `switch` or `hub`.
    pub kind: String,
    /// Its addresses, link by link: of IPv4 and of IPv6.
    pub addresses: Vec<[std::net::IpAddr; 2]>,
}

/// Where links meet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedReport {
    /// Its name; that of the node where it is a bus.
    pub name: String,
    /// What it does.
    pub does: String,
    /// Packets of all links together; `departed` to the links to their destinations, or to the devices of a bus;
    /// `dropped` are those without a way to their destination, such as multicast, or without room.
    #[serde(flatten)]
    pub packets: Packets,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathReport {
    /// The link.
    pub link: String,
    /// The node whose packets it carries.
    pub from: String,
    /// The node to which it carries them.
    pub to: String,
    /// What carries its packets.
    pub backend: Backend,
    /// What it does.
    pub words: String,
    /// Packets from `from` to `to`.
    #[serde(flatten)]
    pub packets: Packets,
    /// Copies made on the way.
    pub duplicated: u64,
    /// Packets that never came in since the device of `from` was full: a super-packet is one here.
    pub device_drops: u64,
    /// Nanoseconds for which the queue stopped the device of `from`, as `pause` asks for.
    pub paused_ns: u64,
    /// Super-packets that came from `from`.
    pub trains: u64,
}

/// Packets of IP that crossed something; each segment of a super-packet is one:
/// `arrived + duplicated = departed + refused + dropped + held`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that came.
    pub arrived: u64,
    /// Bytes of IP in them.
    pub arrived_bytes: u64,
    /// Packets that were handed on.
    pub departed: u64,
    /// Bytes of IP in them.
    pub departed_bytes: u64,
    /// Packets on their way.
    pub held: u64,
    /// Packets dropped on the way, as asked for: losses, full queues, signals of congestion.
    pub dropped: u64,
    /// Packets that a device did not take.
    pub refused: u64,
}

impl From<&Traffic> for Packets {
    fn from(traffic: &Traffic) -> Self {
        Self {
            arrived: traffic.arrived.packets,
            arrived_bytes: traffic.arrived.bytes,
            departed: traffic.departed.packets,
            departed_bytes: traffic.departed.bytes,
            held: traffic.held.packets,
            dropped: traffic.dropped_packets(),
            refused: traffic.refused.packets,
        }
    }
}

/// Longest line that is read: a topology file of 256 links is below 100 KiB.
const LINE_MAX: usize = 1 << 20;

/// Refuses what whoever reads would cut.
pub(crate) fn check_length(value: &impl Serialize) -> Result<(), HeldError> {
    let bytes = serde_json::to_vec(value).map_err(io::Error::from)?.len();
    if bytes < LINE_MAX {
        return Ok(());
    }
    Err(HeldError::Refused(format!(
        "{bytes} bytes of topology and traces are more than the {LINE_MAX} that a lab takes at once: cut \
         the traces, they repeat"
    )))
}

pub(crate) fn write(mut to: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads a line, byte by byte: what is read beyond it would take descriptors along.
pub(crate) fn read<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<T> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        from.read_exact(&mut byte)?;
        if byte == *b"\n" || line.len() == LINE_MAX {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.extend(byte);
    }
}

/// Hands descriptors over, with one byte that carries them.
pub(crate) fn send_descriptors(to: &UnixStream, both: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&both));
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive_descriptors(from: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    descriptors.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}
