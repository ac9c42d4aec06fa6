//! recvmsg(2) and sendmsg(2) with fields of the IP header.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use fabricmark_units::Nanos;
use nix::cmsg_space;
use nix::sys::socket::sockopt::{
    Ipv4PacketInfo, Ipv4RecvTtl, Ipv6RecvHopLimit, Ipv6RecvPacketInfo, Ipv6RecvTClass,
    ReceiveTimestampns,
};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use socket2::SockRef;

/// A received datagram with its ancillary data.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Number of octets in the buffer.
    pub bytes: usize,
    /// Address from which it was sent.
    pub source: SocketAddr,
    /// Local address to which it was sent.
    pub destination: Option<IpAddr>,
    /// When the kernel received it, by CLOCK_REALTIME.
    pub at: Option<Nanos>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// Traffic class octet of the IP header: DSCP and ECN.
    pub traffic_class: Option<u8>,
}

/// Enables ancillary data for time, TTL, traffic class and destination. The first packets may have no timestamp: the
/// kernel starts to take them a moment after they are requested (net/core/dev.c, net_enable_timestamp).
pub fn tell_arrivals(socket: &UdpSocket) -> io::Result<()> {
    setsockopt(socket, ReceiveTimestampns, &true)?;
    // An IPv6 socket has IPv4's options too, for IPv4-mapped addresses.
    setsockopt(socket, Ipv4RecvTtl, &true)?;
    SockRef::from(socket).set_recv_tos_v4(true)?;
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6RecvHopLimit, &true)?;
        setsockopt(socket, Ipv6RecvTClass, &true)?;
    }
    tell_destinations(socket)
}

/// Enables ancillary data for the destination.
pub fn tell_destinations(socket: &UdpSocket) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(socket, Ipv4PacketInfo, &true)?;
    }
    Ok(())
}

/// Receives one datagram; blocks according to the socket's settings.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    // Room for a timestamp, an address and two integers of each family.
    let mut control =
        cmsg_space!(libc::timespec, libc::in_pktinfo, libc::in6_pktinfo, i32, i32, i32, i32);
    let mut parts = [IoSliceMut::new(buffer)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags)?;
    let address = message.address.ok_or(io::ErrorKind::InvalidData)?;
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    let v6 = address.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into()));
    let mut received = Received {
        bytes: message.bytes,
        source: v4.or(v6).ok_or(io::ErrorKind::InvalidData)?,
        destination: None,
        at: None,
        ttl: None,
        traffic_class: None,
    };
    for told in message.cmsgs().into_iter().flatten() {
        match told {
            ControlMessageOwned::ScmTimestampns(time) => {
                received.at = Some(Duration::from(time).into());
            }
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                received.ttl = Some(ttl as u8);
            }
            ControlMessageOwned::Ipv4Tos(class) => received.traffic_class = Some(class),
            ControlMessageOwned::Ipv6TClass(class) => received.traffic_class = Some(class as u8),
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                let octets = info.ipi_spec_dst.s_addr.to_ne_bytes();
                received.destination = Some(Ipv4Addr::from(octets).into());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                received.destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            _ => {}
        }
    }
    Ok(received)
}

/// Sends one datagram, with a traffic class and from a local address if they are given.
pub fn send(
    socket: &UdpSocket,
    octets: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
    traffic_class: Option<u8>,
) -> io::Result<()> {
    let wide_class = traffic_class.map(i32::from);
    let class = match to.ip().to_canonical().is_ipv4() {
        true => traffic_class.as_ref().map(ControlMessage::Ipv4Tos),
        false => wide_class.as_ref().map(ControlMessage::Ipv6TClass),
    };
    let (mut v4, mut v6) = (None, None);
    match from {
        Some(IpAddr::V4(from)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
            let ipi_addr = libc::in_addr { s_addr: 0 };
            v4 = Some(libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr });
        }
        Some(IpAddr::V6(from)) => {
            let ipi6_addr = libc::in6_addr { s6_addr: from.octets() };
            v6 = Some(libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 });
        }
        None => {}
    }
    let v4 = v4.as_ref().map(ControlMessage::Ipv4PacketInfo);
    let v6 = v6.as_ref().map(ControlMessage::Ipv6PacketInfo);
    let control: Vec<ControlMessage<'_>> = [class, v4, v6].into_iter().flatten().collect();
    let (parts, to) = ([IoSlice::new(octets)], SockaddrStorage::from(to));
    sendmsg(socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to))?;
    Ok(())
}
