//! Labs that are up, as a command uses them.

use std::fs::{self, File};
use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use fabricmark_link::LinkOptions;
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::message::{self, Order, Reply, Report, Request};
use super::place::{Named, Place};
use super::{HeldError, VARIABLE};
use crate::topology::Source;

/// Time for a holder to answer: it serves others first, and gives processes a second to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    pub(super) named: Named,
    pub(super) stream: UnixStream,
}

/// Starts a process that holds a lab: `start` starts one that calls [`super::hold`] with its end of a socket.
/// Returns when the lab is up.
pub fn ask_to_hold(
    place: &Place,
    name: &str,
    topology: Source,
    seed: u64,
    start: impl FnOnce(UnixStream) -> io::Result<()>,
) -> Result<(), HeldError> {
    // Without the lock, two commands at once would both find the name unused.
    let folder = File::open(place.folder())?;
    flock(&folder, FlockOperation::LockExclusive).map_err(io::Error::from)?;
    let lab = Named::new(name)?;
    if is_up(place, name)? {
        return Err(HeldError::Refused(format!(
            "a lab `{name}` is already up: run `fabricmark lab down --lab {name}`, or give the new \
             one another name with --name"
        )));
    }
    let order = Order { lab, folder: place.folder().to_owned(), topology, seed };
    message::check_length(&order)?;
    let (ours, theirs) = UnixStream::pair()?;
    start(theirs)?;
    message::write(&ours, &order)?;
    message::read::<Reply>(&ours)?.result().map(|_| ())
}

/// Whether a lab of this name answers. A holder that was killed accepts connections until the kernel has ended it;
/// then `Place::labs` ends what it leaves.
fn is_up(place: &Place, name: &str) -> Result<bool, HeldError> {
    while let Some(lab) = place.labs()?.into_iter().find(|lab| lab.name() == name) {
        match lab.report() {
            Err(HeldError::Lost(error))
                if matches!(error.kind(), ConnectionReset | BrokenPipe | UnexpectedEof) => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}

impl Lab {
    /// The lab of this name; without a name, the only lab that is up.
    pub fn find(place: &Place, name: Option<&str>) -> Result<Self, HeldError> {
        let mut labs = place.labs()?;
        let names = labs.iter().map(Self::name).collect::<Vec<_>>().join(", ");
        let refused = |message: String| Err(HeldError::Refused(message));
        let Some(name) = name else {
            return match labs.pop() {
                Some(lab) if labs.is_empty() => Ok(lab),
                Some(_) => {
                    refused(format!("several labs are up ({names}): choose one with --lab NAME"))
                }
                None => refused("no lab is up: start one with `fabricmark lab up FILE`".to_owned()),
            };
        };
        let others = if names.is_empty() { names } else { format!("; there are {names}") };
        let found = labs.into_iter().find(|lab| lab.name() == name);
        found.map_or_else(|| refused(format!("no lab `{name}` is up{others}")), Ok)
    }

    /// Name that the user gave it.
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Its parts and their counters.
    pub fn report(&self) -> Result<Report, HeldError> {
        match self.ask(&Request::Show)? {
            Reply::Report(report) => Ok(report),
            _ => Err(HeldError::Lost(InvalidData.into())),
        }
    }

    /// Changes the options of a link for packets from one of its ends, or from both. Traces are read here, relative to the current folder of this process.
    pub fn change(&self, link: &str, from: Option<&str>, options: &str) -> Result<(), HeldError> {
        // The holder rejects options that cannot be parsed.
        let parsed = options.parse::<LinkOptions>().unwrap_or_default();
        let read = |file: &str| {
            let refused =
                |error| HeldError::Refused(format!("cannot read the trace {file}: {error}"));
            Ok((file.to_owned(), fs::read_to_string(file).map_err(refused)?))
        };
        let traces = parsed.files().map(read).collect::<Result<_, HeldError>>()?;
        let (link, from, options) = (link.to_owned(), from.map(str::to_owned), options.to_owned());
        let request = Request::Change { link, from, options, traces };
        message::check_length(&request)?;
        self.ask(&request).map(|_| ())
    }

    /// Ends the lab and the processes in it. When this returns, its devices are gone.
    pub fn down(self) -> Result<(), HeldError> {
        self.ask(&Request::Down).map(|_| ())
    }

    /// Moves this process into the network namespace of a node. It must have one thread only. Returns the name and
    /// value of the variable that processes there must have in their environment.
    pub fn enter(&self, node: &str) -> Result<(&'static str, String), HeldError> {
        self.ask(&Request::Enter { node: node.to_owned() })?;
        let [user, network] = message::receive_descriptors(&self.stream)?;
        let go = |namespace: BorrowedFd<'_>, kind| {
            move_into_link_name_space(namespace, Some(kind)).map_err(io::Error::from)
        };
        // A process cannot enter the user namespace that it is in.
        if !is_same(user.as_fd(), Path::new("/proc/self/ns/user"))? {
            go(user.as_fd(), LinkNameSpaceType::User)?;
        }
        go(network.as_fd(), LinkNameSpaceType::Network)?;
        Ok((VARIABLE, self.named.to_string()))
    }

    fn ask(&self, request: &Request) -> Result<Reply, HeldError> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        message::write(&self.stream, request)?;
        message::read::<Reply>(&self.stream)?.result()
    }
}

fn is_same(namespace: BorrowedFd<'_>, path: &Path) -> io::Result<bool> {
    let (one, other) = (fstat(namespace)?, fstat(File::open(path)?)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
