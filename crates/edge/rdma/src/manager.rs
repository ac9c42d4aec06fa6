//! RDMA's communication manager (IBTA volume 1, section 12), by librdmacm: it finds the way to the other end and agrees
//! with it on what both queue pairs have to know. These are of this program, which brings them into their states.

#[expect(unsafe_code, reason = "librdmacm is a C library")]
mod sys;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockAddr;

pub(crate) use sys::Id;
use sys::{Channel, Event, Told};

use crate::endpoint::Endpoint;

/// Bytes by which both ends know each other.
const TOKEN_BYTES: usize = 16;

/// Time for an address or a route to be found.
const FOUND_WITHIN_MS: i32 = 2000;

/// One end of a connection that is being made, or that has been: it is over when this is dropped.
#[derive(Debug)]
pub struct Manager {
    /// What listens or dials; of a listener what it accepted is beside it.
    id: Id,
    accepted: Option<Id>,
    channel: Arc<Channel>,
}

impl Manager {
    /// Listens at a free port of an address.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, u16)> {
        let (channel, id) = sys::new()?;
        id.bind(&SockAddr::from(at))?;
        id.listen()?;
        let port = id.port();
        Ok((Self { id, accepted: None, channel }, port))
    }

    /// Dials what listens there, from an address of this machine.
    pub fn dial(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let (channel, id) = sys::new()?;
        id.resolve_address(&SockAddr::from(from), &SockAddr::from(to), FOUND_WITHIN_MS)?;
        Ok(Self { id, accepted: None, channel })
    }

    /// Does what is next, waiting for it for so long; an error of [`io::ErrorKind::WouldBlock`] until the
    /// queue pair of an endpoint is connected with that of who has the same token.
    pub fn advance(
        &mut self,
        endpoint: &Endpoint,
        token: &[u8; TOKEN_BYTES],
        within: Duration,
    ) -> io::Result<()> {
        let within = Timespec::try_from(within).map_err(io::Error::other)?;
        poll(&mut [PollFd::new(&self.channel.as_fd(), PollFlags::IN)], Some(&within))?;
        let Some(Event { told, status, request }) = self.channel.next()? else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        match told {
            Told::AddressResolved => self.id.resolve_route(FOUND_WITHIN_MS)?,
            Told::RouteResolved => self.id.connect(endpoint.pair.number(), token)?,
            Told::Response => {
                endpoint.connect_by(&self.id)?;
                return self.id.establish();
            }
            Told::Request => {
                if let Some((id, said)) = request {
                    // Whoever is not the other end of this run is refused, and the listener goes on.
                    if !said.starts_with(token) || self.accepted.is_some() {
                        id.reject();
                    } else {
                        endpoint.connect_by(&id)?;
                        id.accept(endpoint.pair.number())?;
                        self.accepted = Some(id);
                    }
                }
            }
            Told::Established => return Ok(()),
            Told::Other(event) => {
                let message = format!("the communication manager says {event} (status {status})");
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}
