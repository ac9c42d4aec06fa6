//! RDMA communication manager (IBTA volume 1, section 12) by librdmacm: it resolves the route to the other end, and
//! negotiates what both queue pairs must know. The queue pairs belong to this program, which changes their states.

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

/// Length of the token by which the ends recognise each other.
const TOKEN_BYTES: usize = 16;

/// Timeout for the resolution of an address or a route.
const FOUND_WITHIN_MS: i32 = 2000;

/// One end of a connection of the communication manager. Dropping it ends the connection.
#[derive(Debug)]
pub struct Manager {
    /// The listening or connecting ID; the ID of a connection that a listener has accepted follows.
    id: Id,
    accepted: Option<Id>,
    channel: Arc<Channel>,
}

impl Manager {
    /// Listens at a free port of an address, which is also returned.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, u16)> {
        let (channel, id) = sys::new()?;
        id.bind(&SockAddr::from(at))?;
        id.listen()?;
        let port = id.port();
        Ok((Self { id, accepted: None, channel }, port))
    }

    /// Connects to a listener, from an address of this machine.
    pub fn dial(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let (channel, id) = sys::new()?;
        id.resolve_address(&SockAddr::from(from), &SockAddr::from(to), FOUND_WITHIN_MS)?;
        Ok(Self { id, accepted: None, channel })
    }

    /// Handles the next event, and waits for it for up to `within`. Fails with [`io::ErrorKind::WouldBlock`] until
    /// the queue pair of the endpoint is connected with that of the end that has the same token.
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
                    // A request without the token of this run is rejected, and the listener continues.
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
                let message = format!(
                    "the RDMA communication manager reports {event} (status \
                                       {status})"
                );
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}
