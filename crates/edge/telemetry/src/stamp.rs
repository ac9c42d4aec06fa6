//! Packet timestamps of the kernel or the network device: SO_TIMESTAMPING (Documentation/networking/timestamping.rst
//! of the kernel).
//!
//! A transmit timestamp is taken when the packet is passed to the device, a receive timestamp when the device passes
//! it on: neither includes the time that a program waits to be scheduled.

mod device;
mod realtime;
#[expect(unsafe_code, reason = "calls of devices that no safe crate offers")]
mod sys;
mod trips;

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::RecvFlags;

use crate::sys::{plain, receive, set};

pub use device::check_hardware;
pub use trips::{Arrivals, Trips};

/// When a packet was sent or received. At least one of the two times is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// By the kernel, in nanoseconds of CLOCK_REALTIME.
    pub software_ns: Option<u64>,
    /// By the network device, in nanoseconds of its own clock, which agrees with no clock of this machine unless it
    /// is synchronised.
    pub hardware_ns: Option<u64>,
}

/// Flags of SO_TIMESTAMPING (linux/net_tstamp.h).
mod flag {
    pub use libc::{
        SOF_TIMESTAMPING_OPT_ID as OPT_ID, SOF_TIMESTAMPING_OPT_ID_TCP as OPT_ID_TCP,
        SOF_TIMESTAMPING_OPT_TSONLY as OPT_TSONLY, SOF_TIMESTAMPING_OPT_TX_SWHW as OPT_TX_SWHW,
        SOF_TIMESTAMPING_RAW_HARDWARE as RAW_HARDWARE, SOF_TIMESTAMPING_RX_HARDWARE as RX_HARDWARE,
        SOF_TIMESTAMPING_RX_SOFTWARE as RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE as SOFTWARE,
        SOF_TIMESTAMPING_TX_HARDWARE as TX_HARDWARE, SOF_TIMESTAMPING_TX_SCHED as TX_SCHED,
        SOF_TIMESTAMPING_TX_SOFTWARE as TX_SOFTWARE,
    };
}

/// Enables timestamps of what a UDP socket or a connected TCP socket sends and receives from now on; with `hardware`
/// also those of the device, if it supports them and they are switched on (SIOCSHWTSTAMP, which affects all its users
/// and is not done here).
///
/// The first packets may lack a receive timestamp: the kernel starts these a moment after it is asked
/// (net/core/dev.c, net_enable_timestamp).
pub fn enable(fd: BorrowedFd<'_>, hardware: bool) -> io::Result<()> {
    const SOFTWARE: u32 = flag::TX_SCHED
        | flag::TX_SOFTWARE
        | flag::RX_SOFTWARE
        | flag::SOFTWARE
        | flag::OPT_ID
        | flag::OPT_TSONLY;
    const HARDWARE: u32 =
        flag::TX_HARDWARE | flag::RX_HARDWARE | flag::RAW_HARDWARE | flag::OPT_TX_SWHW;
    let flags = if hardware { SOFTWARE | HARDWARE } else { SOFTWARE };
    // Since Linux 6.2: count bytes from now on, not from the last byte acknowledged.
    let ask = |flags| set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags);
    match ask(flags | flag::OPT_ID_TCP) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => ask(flags),
        result => result,
    }
}

/// Enables receive timestamps of the kernel for what a socket receives from now on; sockets that a listening one accepts
/// have them, too.
pub fn enable_receive(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flag::RX_SOFTWARE | flag::SOFTWARE)
}

/// Where a packet was when its transmit timestamp was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It entered the queueing discipline (SCM_TSTAMP_SCHED): socket, transport and network layer are behind it.
    Queue,
    /// It was passed to the device (SCM_TSTAMP_SND).
    Device,
}

/// A transmit timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Number of the packet.
    pub id: u32,
    /// Where it was taken.
    pub place: Place,
    /// When.
    pub stamp: Stamp,
}

/// Reads the pending transmit timestamps. Never blocks; none is not an error.
/// Numbers start at 0 with [`enable`] and wrap at 2^32: over UDP they count datagrams; over TCP they are the offset
/// of the last byte of a write, and of writes that the kernel put into one segment only the last has a timestamp. A
/// packet with timestamps of both kernel and device occurs once for each.
///
/// Unread timestamps occupy the receive buffer, and the kernel drops those that do not fit. Other messages of the
/// error queue (IP_RECVERR) are lost.
pub fn read_tx_stamps(fd: BorrowedFd<'_>) -> io::Result<Vec<Departure>> {
    let mut stamps = Vec::new();
    loop {
        match stamped(fd, &mut [], RecvFlags::ERRQUEUE) {
            Ok((_, Some(stamp), Some((id, place)))) => stamps.push(Departure { id, place, stamp }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(stamps),
            Err(error) => return Err(error),
        }
    }
}

/// Receives as recv(2) with these flags, and blocks as the socket is set to. Over TCP the timestamp is that of the
/// last byte received.
pub fn recv_with_stamp(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Option<Stamp>)> {
    let (bytes, stamp, _) = stamped(fd, buffer, flags)?;
    Ok((bytes, stamp))
}

/// Bytes, a timestamp, and number and place of a packet that was sent.
type Stamped = (usize, Option<Stamp>, Option<(u32, Place)>);

/// Calls recvmsg(2). Also returns the timestamp, and from the error queue the number and place of the packet whose
/// transmit timestamp it is.
fn stamped(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Stamped> {
    let (mut stamp, mut id) = (None, None);
    let bytes = receive(fd, buffer, flags, |kind, data| match kind {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp = plain(data).and_then(stamp_of),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
            id = plain(data).and_then(sent_id);
        }
        _ => {}
    })?;
    Ok((bytes, stamp, id))
}

/// `struct scm_timestamping` (linux/errqueue.h), whose second timestamp is deprecated; 0 for one that is not set.
fn stamp_of([software, _, hardware]: [libc::timespec; 3]) -> Option<Stamp> {
    let [software_ns, hardware_ns] = [software, hardware].map(|time| {
        Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).filter(|&ns| ns > 0)
    });
    software_ns.or(hardware_ns).map(|_| Stamp { software_ns, hardware_ns })
}

/// Number and place of a packet, if an error reports its timestamp (linux/errqueue.h).
fn sent_id(error: libc::sock_extended_err) -> Option<(u32, Place)> {
    const SCM_TSTAMP_SND: u32 = 0;
    const SCM_TSTAMP_SCHED: u32 = 1;
    let is_stamp =
        error.ee_errno == libc::ENOMSG as u32 && error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING;
    let place = match error.ee_info {
        SCM_TSTAMP_SND => Place::Device,
        SCM_TSTAMP_SCHED => Place::Queue,
        _ => return None,
    };
    is_stamp.then_some((error.ee_data, place))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::realtime::RealtimeOffset;
    use super::*;

    use crate::clock::now_ns;

    /// Time in which the kernel must have started receive timestamps.
    const WITHIN_NS: u64 = 10_000_000_000;

    /// One packet: its number, its timestamps in nanoseconds of CLOCK_REALTIME, and readings of our clock before
    /// and after.
    struct Passage {
        id: u32,
        before_ns: u64,
        queued_ns: u64,
        sent_ns: u64,
        received_ns: u64,
        after_ns: u64,
    }

    /// Sends until a packet has a receive timestamp, too, and returns that one.
    fn pass(
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        hardware: bool,
        mut send: impl FnMut(),
    ) -> Passage {
        enable(from, hardware).unwrap();
        enable(to, hardware).unwrap();
        assert_eq!(read_tx_stamps(from).unwrap(), [], "nothing was sent");
        let began_ns = now_ns();
        loop {
            let before_ns = now_ns();
            send();
            let sent = read_tx_stamps(from).unwrap();
            let [queued, sent] = sent.as_slice() else {
                panic!("one packet has one stamp at each place: {sent:?}")
            };
            assert_eq!((queued.place, sent.place), (Place::Queue, Place::Device));
            assert_eq!((queued.id, sent.stamp.hardware_ns), (sent.id, None));
            let (bytes, received) =
                recv_with_stamp(to, &mut [0; 2_000], RecvFlags::empty()).unwrap();
            let after_ns = now_ns();
            assert_eq!(bytes, 100);
            if let Some(received) = received {
                return Passage {
                    id: sent.id,
                    before_ns,
                    queued_ns: queued.stamp.software_ns.unwrap(),
                    sent_ns: sent.stamp.software_ns.unwrap(),
                    received_ns: received.software_ns.unwrap(),
                    after_ns,
                };
            }
            assert!(now_ns() - began_ns < WITHIN_NS, "the kernel stamps nothing that is received");
        }
    }

    fn check_order(passage: &Passage) {
        let offset = RealtimeOffset::read();
        let [queued_ns, received_ns] =
            [passage.queued_ns, passage.received_ns].map(|ns| offset.to_monotonic_ns(ns));
        assert!(passage.queued_ns <= passage.sent_ns && passage.sent_ns <= passage.received_ns);
        assert!(passage.before_ns <= queued_ns + offset.uncertainty_ns);
        assert!(received_ns <= passage.after_ns + offset.uncertainty_ns);
    }

    fn udp_pair(address: &str) -> (UdpSocket, UdpSocket) {
        let to = UdpSocket::bind(address).unwrap();
        let from = UdpSocket::bind(address).unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (from, to)
    }

    #[test]
    fn a_datagram_is_stamped_between_its_sending_and_its_receipt() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (from, to) = udp_pair(address);
            let mut sent = 0;
            let passage = pass(from.as_fd(), to.as_fd(), false, || {
                from.send(&[0; 100]).unwrap();
                sent += 1;
            });
            assert_eq!(passage.id, sent - 1, "datagrams are numbered from 0");
            check_order(&passage);
        }
    }

    #[test]
    fn a_write_over_tcp_is_stamped_under_the_place_of_its_last_byte() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (to, _) = listener.accept().unwrap();
            from.set_nodelay(true).unwrap();
            to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let fd = from.try_clone().unwrap();
            let mut bytes = 0;
            let passage = pass(fd.as_fd(), to.as_fd(), false, || {
                from.write_all(&[0; 100]).unwrap();
                bytes += 100;
            });
            assert_eq!(passage.id, bytes - 1);
            check_order(&passage);
        }
    }

    #[test]
    fn asking_for_hardware_does_not_take_the_stamps_of_the_kernel_away() {
        let (from, to) = udp_pair("127.0.0.1:0");
        let passage = pass(from.as_fd(), to.as_fd(), true, || {
            from.send(&[0; 100]).unwrap();
        });
        check_order(&passage);
    }

    #[test]
    fn stamps_wait_for_their_reader_in_the_order_of_sending() {
        let (from, _to) = udp_pair("127.0.0.1:0");
        enable(from.as_fd(), false).unwrap();
        (0..5).for_each(|_| assert_eq!(from.send(&[0; 10]).unwrap(), 10));
        let stamps = read_tx_stamps(from.as_fd()).unwrap();
        let ids: Vec<u32> = stamps.iter().map(|stamp| stamp.id).collect();
        assert_eq!(ids, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        assert!(stamps.is_sorted_by_key(|departure| departure.stamp.software_ns));
        assert_eq!(read_tx_stamps(from.as_fd()).unwrap(), []);
    }

    #[test]
    fn a_socket_that_was_not_asked_has_no_stamps() {
        let (from, to) = udp_pair("127.0.0.1:0");
        from.send(&[0; 10]).unwrap();
        let received = recv_with_stamp(to.as_fd(), &mut [0; 10], RecvFlags::empty());
        assert_eq!(received.unwrap(), (10, None));
        assert_eq!(read_tx_stamps(from.as_fd()).unwrap(), []);
    }
}
