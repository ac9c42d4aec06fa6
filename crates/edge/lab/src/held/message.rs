//! Messages to and from a holder: one line of JSON each, and descriptors beside it.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::HeldError;
use super::place::Named;
use crate::path::Traffic;
use crate::qdisc::Backend;
use crate::tool::LabError;
use crate::topology::Source;

/// The lab that a new process has to hold.
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
    /// Asks for descriptors of a node's network namespace and of the user namespace that owns it.
    Enter {
        node: String,
    },
    /// Changes the options of a link.
    Change {
        link: String,
        /// Only for packets from this node; `None`: in both directions.
        from: Option<String>,
        options: String,
        /// Texts of the traces that the options name, by file name.
        traces: BTreeMap<String, String>,
    },
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Report(Report),
    /// Done; descriptors follow if any were asked for.
    Done,
    Failed(String),
    /// What this machine lacks.
    Missing(String),
    /// What the system did not do.
    Broken(String),
}

impl Reply {
    pub(crate) fn of(error: &HeldError) -> Self {
        match error {
            HeldError::Lab(error) if error.is_missing() => Self::Missing(error.to_string()),
            HeldError::Missing(what) => Self::Missing(what.clone()),
            HeldError::Lab(LabError::Tool { .. } | LabError::System { .. } | LabError::Stopped)
            | HeldError::Broken(_)
            | HeldError::Lost(_) => Self::Broken(error.to_string()),
            HeldError::Lab(_) | HeldError::Refused(_) => Self::Failed(error.to_string()),
        }
    }

    /// The reply, or the error that it reports.
    pub(crate) fn result(self) -> Result<Self, HeldError> {
        match self {
            Self::Failed(why) => Err(HeldError::Refused(why)),
            Self::Missing(what) => Err(HeldError::Missing(what)),
            Self::Broken(what) => Err(HeldError::Broken(what)),
            reply => Ok(reply),
        }
    }
}

/// Parts and counters of a lab that is up: what `lab show --json` prints.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Name of the lab.
    pub name: String,
    /// Title in its file.
    pub title: Option<String>,
    /// Process id of its holder.
    pub holder_pid: u32,
    /// Hosts and routers, then switches and hubs.
    pub nodes: Vec<NodeReport>,
    /// Directions of the links, two for each link.
    pub paths: Vec<PathReport>,
    /// Switches and hubs, then the buses of nodes.
    pub shared: Vec<SharedReport>,
}

/// A host, a router, a switch or a hub.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Name in the topology.
    pub name: String,
    /// `host`, `router`, `switch` or `hub`.
    pub kind: String,
    /// IPv4 address on each of its links, and IPv6 address where the MTU allows one.
    pub addresses: Vec<Vec<std::net::IpAddr>>,
}

/// Counters of a switch, a hub or a bus.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SharedReport {
    /// Name; of a bus, that of its node.
    pub name: String,
    /// Its settings.
    pub does: String,
    /// Packets of all links together. `departed` are those handed to the link towards their destination, or to a
    /// device of a bus; `dropped` are those without a route or without room.
    #[serde(flatten)]
    pub packets: Packets,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// Name of the link.
    pub link: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// What carries its packets.
    pub backend: Backend,
    /// Options of the link in this direction.
    pub options: String,
    /// Packets from `from` to `to`.
    #[serde(flatten)]
    pub packets: Packets,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Packets dropped by the device of `from` because it was full, before the link; a super-packet counts as one.
    pub device_drops: u64,
    /// Nanoseconds for which the queue paused the device of `from` (option `pause`).
    pub paused_ns: u64,
    /// Super-packets sent by `from`.
    pub trains: u64,
}

/// IP packets that crossed a link, switch, hub or bus; each segment of a super-packet is one: `arrived + duplicated
/// = departed + refused + dropped + held`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Packets {
    /// Packets that arrived.
    pub arrived: u64,
    /// Bytes of IP in them.
    pub arrived_bytes: u64,
    /// Packets that were handed on.
    pub departed: u64,
    /// Bytes of IP in them.
    pub departed_bytes: u64,
    /// Packets in flight.
    pub held: u64,
    /// Packets dropped by options of the link: loss, full queues, congestion signals.
    pub dropped: u64,
    /// Packets that the receiving device did not accept.
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

/// Longest line in bytes: a topology file of 256 links is below 100 KiB.
const LINE_MAX: usize = 1 << 20;

/// Rejects messages that are too long for the reader.
pub(crate) fn check_length(value: &impl Serialize) -> Result<(), HeldError> {
    let bytes = serde_json::to_vec(value).map_err(io::Error::from)?.len();
    if bytes < LINE_MAX {
        return Ok(());
    }
    Err(HeldError::Refused(format!(
        "{bytes} bytes of topology and traces exceed the maximum of {LINE_MAX}: shorten the \
         traces, they repeat"
    )))
}

pub(crate) fn write(mut to: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads a line, byte by byte: reading beyond it would lose descriptors.
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

/// Sends descriptors, with the one byte that has to carry them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_holder_lacks_or_the_system_does_not_do_is_no_wrong_input() {
        let told = |error: HeldError| Reply::of(&error).result().unwrap_err();
        let missing = HeldError::Missing("a folder".to_owned());
        assert!(matches!(told(missing), HeldError::Missing(_)));
        assert!(matches!(told(HeldError::Lab(LabError::Stopped)), HeldError::Broken(_)));
        let lacks = HeldError::Lab(LabError::Lacks("TUN".to_owned()));
        assert!(matches!(told(lacks), HeldError::Missing(_)));
        let refused = HeldError::Refused("no such link".to_owned());
        assert!(matches!(told(refused), HeldError::Refused(_)));
    }
}
