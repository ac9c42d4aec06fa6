//! Socket options of a point, except buffers and those of TCP, and remedies if the kernel refuses them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use fabricmark_plan::{Pattern, Point, Role, Transport};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_units::Bytes;
use fabricmark_wire::Family;
use rustix::net::sockopt::{ip_mtu, ipv6_mtu, set_tcp_quickack};
use socket2::Socket;

use crate::failure::system;
use crate::sockets;
use crate::transport::bytes::TcpPath;
use crate::window::at_most;
use fabricmark_telemetry::sys;

/// Sets the options that must precede bind(2).
pub(crate) fn set(socket: &Socket, prepare: &Prepare) -> Result<(), Failure> {
    let Prepare { point, role, .. } = prepare;
    if let Some(Bytes(bytes)) = point.notsent_lowat {
        // At most 1 GiB.
        socket.set_tcp_notsent_lowat(bytes as u32).map_err(system("set TCP_NOTSENT_LOWAT"))?;
    }
    if let Some(is_set) = point.cork {
        socket.set_tcp_cork(is_set).map_err(system("set TCP_CORK"))?;
    }
    if point.pattern == Pattern::Crr && point.nodelay == Some(true) && exceeds_segment(point) {
        // Accepted connections inherit it. Flows of other patterns have it set once they are open.
        socket.set_tcp_nodelay(true).map_err(system("set TCP_NODELAY"))?;
    }
    if let Some(is_set) = point.dont_fragment {
        set_dont_fragment(socket, point.family == Family::V6, is_set)
            .map_err(system("set whether packets may be fragmented"))?;
    }
    if let Some(mark) = point.mark {
        socket.set_mark(mark).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Failure::Missing(format!(
                "mark {mark} is refused ({error}): run as root or with CAP_NET_ADMIN"
            )),
            _ => system(format!("set mark {mark}"))(error),
        })?;
    }
    if *role == Role::Server {
        return Ok(());
    }
    if let Some(label) = point.flow_label {
        // The label itself is part of the destination address.
        sys::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1)
            .map_err(system(format!("set flow label {label}")))?;
    }
    if let Some(device) = &point.device {
        socket.bind_device(Some(device.as_bytes())).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EPERM) => Failure::Missing(format!(
                    "device {device} is refused ({error}): run as root or with CAP_NET_RAW"
                )),
                Some(libc::ENODEV) => Failure::Missing(format!(
                    "there is no device {device} on this host: see `ip \
                                              link`"
                )),
                _ => system(format!("open flows through device {device}"))(error),
            }
        })?;
    }
    Ok(())
}

/// Whether a request or response may need several segments. Nagle's algorithm delays only the last one of several: a
/// message of one segment is sent at once over a new connection (RFC 9293, section 3.7.4), so that it needs no system call
/// for the option.
fn exceeds_segment(point: &Point) -> bool {
    /// Default MSS of IPv4, smaller than that of IPv6, and maximum length of TCP options (RFC 9293, sections 3.7.1, 3.1).
    const MSS: u32 = 536;
    const OPTIONS: u32 = 40;
    let longest = point.response.map_or(point.payload, |response| response.max(point.payload));
    longest.0 > u64::from(point.mss.unwrap_or(MSS).saturating_sub(OPTIONS))
}

/// Sets how many bytes wake up the receiver of a stream (SO_RCVLOWAT), once its flow is open: the opening has fewer bytes
/// and would not be received.
pub(crate) fn set_receive_lowat(stream: &TcpStream, point: &Point) -> Result<(), Failure> {
    let Some(bytes) = point.receive_lowat.map(at_most) else { return Ok(()) };
    sys::set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
        .map_err(system("set SO_RCVLOWAT"))
}

/// Sets whether packets of a socket may be fragmented, here or on the path (IP_MTU_DISCOVER, ip(7)).
pub fn set_dont_fragment(socket: &impl AsFd, is_v6: bool, is_set: bool) -> io::Result<()> {
    let (level, option, [off, on]) = match is_v6 {
        false => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            [libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_DO],
        ),
        true => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            [libc::IPV6_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DO],
        ),
    };
    sys::set(socket.as_fd(), level, option, if is_set { on } else { off })
}

/// Local address of a socket. At a client, the point's `source` replaces the address, and its `source_port` port 0.
pub(crate) fn local(prepare: &Prepare, port: u16) -> SocketAddr {
    let Prepare { point, role, address, .. } = prepare;
    match role {
        Role::Client => prepare.reaches(
            point.source.unwrap_or(*address),
            if port == 0 { point.source_port.unwrap_or(0) } else { port },
        ),
        Role::Server => prepare.reaches(*address, port),
    }
}

/// Address of the other end, with the flow label of the packets sent there.
pub(crate) fn labelled(peer_at: SocketAddr, point: &Point) -> SocketAddr {
    match (peer_at, point.flow_label) {
        (SocketAddr::V6(mut at), Some(label)) => {
            // In network byte order (ipv6(7)).
            at.set_flowinfo(label.to_be());
            SocketAddr::V6(at)
        }
        _ => peer_at,
    }
}

/// Rejects datagrams longer than the path MTU if they must not be fragmented.
pub(crate) fn check_mtu(socket: &impl AsFd, point: &Point, bytes: usize) -> Result<(), Failure> {
    if point.transport != Transport::Udp || point.dont_fragment != Some(true) {
        return Ok(());
    }
    let is_v6 = point.family == Family::V6;
    let mtu = if is_v6 { ipv6_mtu(socket) } else { ip_mtu(socket) };
    let mtu = mtu.map_err(|error| system("read the path's MTU")(error.into()))?;
    // Headers of IPv4 (RFC 791), IPv6 (RFC 8200) and UDP (RFC 768).
    let room = mtu.saturating_sub(if is_v6 { 40 } else { 20 } + 8);
    if bytes <= room as usize {
        return Ok(());
    }
    Err(Failure::System(format!(
        "a datagram of {bytes} bytes does not fit the path's MTU of {mtu} with dont_fragment: use a \
         payload of at most {room}, or leave out dont_fragment"
    )))
}

/// Sets TCP_QUICKACK again after each receive: to the kernel it is a hint, which the next packet may reset (tcp(7)).
/// Costs one system call per receive.
#[derive(Debug)]
pub(crate) struct QuickAck {
    is_set: bool,
}

impl QuickAck {
    /// Also sets the option now, for the first acknowledgements.
    pub(crate) fn of(stream: &TcpStream, is_set: bool) -> io::Result<Self> {
        set_tcp_quickack(stream, is_set)?;
        Ok(Self { is_set })
    }
}

impl TcpPath for QuickAck {
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = sockets::receive(stream, buffer)?;
        set_tcp_quickack(stream, self.is_set)?;
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, UdpSocket};

    use socket2::{Domain, Type};

    use super::*;
    use crate::sockets;

    /// The order of a client with these levels.
    pub(crate) fn prepare(levels: &str) -> Prepare {
        let levels = format!("pattern=stream,link=loopback,payload=1,congestion=cubic,{levels}");
        fabricmark_testkit::prepare(Role::Client, &levels)
    }

    /// A socket with the options of these levels.
    fn with_options(domain: Domain, kind: Type, levels: &str) -> Socket {
        let socket = Socket::new(domain, kind, None).unwrap();
        set(&socket, &prepare(levels)).unwrap();
        socket
    }

    #[test]
    fn the_kernel_holds_tcp_notsent_lowat_as_it_was_asked_for() {
        for (option, expected) in [("notsent_lowat=128KiB", 131_072), ("notsent_lowat=none", 0)] {
            let levels = format!("transport=tcp,family=4,{option}");
            let socket = with_options(Domain::IPV4, Type::STREAM, &levels);
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), expected, "{option}");
        }
    }

    #[test]
    fn the_kernel_holds_so_rcvlowat_as_it_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (option, expected) in [("receive_lowat=128KiB", 131_072), ("receive_lowat=none", 1)] {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let levels = format!("transport=tcp,family=4,{option}");
            set_receive_lowat(&stream, &prepare(&levels).point).unwrap();
            let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
            let held: libc::c_int = sys::get(stream.as_fd(), level, option, -1).unwrap().0;
            assert_eq!(held, expected, "{levels}");
        }
    }

    #[test]
    fn the_kernel_holds_tcp_cork_as_it_was_asked_for() {
        for (option, expected) in
            [("cork=true", true), ("cork=false", false), ("label=none", false)]
        {
            let levels = format!("transport=tcp,family=4,{option}");
            let socket = with_options(Domain::IPV4, Type::STREAM, &levels);
            assert_eq!(socket.tcp_cork().unwrap(), expected, "{option}");
        }
    }

    #[test]
    fn connections_of_crr_do_not_delay_the_last_segment_of_a_long_message() {
        for (levels, is_set) in [
            ("payload=64", false),
            ("payload=64,response=64KiB", true),
            ("payload=4KiB,response=1", true),
            ("payload=4KiB,nodelay=false", false),
        ] {
            let levels = format!(
                "pattern=crr,transport=tcp,congestion=cubic,family=4,link=loopback,{levels}"
            );
            let of = |role| fabricmark_testkit::prepare(role, &levels);
            let listener = sockets::waiting(&of(Role::Server)).unwrap();
            let client = sockets::bound(&of(Role::Client), 0).unwrap();
            client.connect(&listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let held = [client, accepted].map(|socket| socket.tcp_nodelay().unwrap());
            assert_eq!(held, [is_set; 2], "{levels}");
        }
    }

    #[test]
    fn a_client_that_connects_often_has_the_source_and_congestion_control_of_one_that_binds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        for levels in ["congestion=reno", "congestion=cubic", "congestion=reno,source=127.0.0.2"] {
            let levels =
                format!("pattern=crr,transport=tcp,family=4,link=loopback,payload=1,{levels}");
            let prepare = fabricmark_testkit::prepare(Role::Client, &levels);
            let connected = |socket: Socket| {
                socket.connect(&at.into()).unwrap();
                let source = socket.local_addr().unwrap().as_socket().unwrap().ip();
                (source, socket.tcp_congestion().unwrap())
            };
            let each = sockets::ClientSockets::to(at, &prepare).open().unwrap();
            let bound = sockets::bound(&prepare, 0).unwrap();
            assert_eq!(connected(each), connected(bound), "{levels}");
        }
    }

    #[test]
    fn the_kernel_holds_whether_packets_may_be_fragmented_as_it_was_asked_for() {
        for (transport, kind) in [("tcp", Type::STREAM), ("udp", Type::DGRAM)] {
            for (family, domain, level, option, values) in [
                (
                    4,
                    Domain::IPV4,
                    libc::IPPROTO_IP,
                    libc::IP_MTU_DISCOVER,
                    [libc::IP_PMTUDISC_DO, libc::IP_PMTUDISC_DONT],
                ),
                (
                    6,
                    Domain::IPV6,
                    libc::IPPROTO_IPV6,
                    libc::IPV6_MTU_DISCOVER,
                    [libc::IPV6_PMTUDISC_DO, libc::IPV6_PMTUDISC_DONT],
                ),
            ] {
                for (is_set, expected) in [true, false].into_iter().zip(values) {
                    let levels =
                        format!("transport={transport},family={family},dont_fragment={is_set}");
                    let socket = with_options(domain, kind, &levels);
                    let held: libc::c_int = sys::get(socket.as_fd(), level, option, -1).unwrap().0;
                    assert_eq!(held, expected, "{levels}");
                }
            }
        }
    }

    #[test]
    fn a_flow_label_stands_in_the_address_as_on_the_wire() {
        let at: SocketAddr = "[::1]:9".parse().unwrap();
        let point = prepare("transport=udp,family=6,flow_label=74565").point;
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        sys::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1).unwrap();
        socket.connect(labelled(at, &point)).unwrap();
        let Ok(SocketAddr::V6(peer)) = socket.peer_addr() else { panic!("no address of IPv6") };
        assert_eq!(peer.flowinfo().to_ne_bytes(), [0, 0x01, 0x23, 0x45]);
    }

    #[test]
    fn an_address_of_a_link_is_bound_and_reached_with_its_scope() {
        for (address, scope) in [("fe80::1", "%7"), ("2001:db8::1", "")] {
            let mut prepare = prepare("transport=tcp,family=6,label=none");
            prepare.address = address.parse().unwrap();
            prepare.scope_id = 7;
            for role in [Role::Client, Role::Server] {
                let prepare = Prepare { role, ..prepare.clone() };
                assert_eq!(local(&prepare, 9).to_string(), format!("[{address}{scope}]:9"));
            }
            let at = labelled(prepare.reaches(prepare.address, 9), &prepare.point);
            assert_eq!(at.to_string(), format!("[{address}{scope}]:9"));
        }
    }

    #[test]
    fn a_datagram_is_refused_that_is_longer_than_the_mtu_of_the_path() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("127.0.0.1:9").unwrap();
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        // No IPv4 packet is longer (RFC 791).
        let room = mtu.trim().parse::<usize>().unwrap().min(65_535) - 28;
        let point = prepare("transport=udp,family=4,dont_fragment=true").point;
        assert_eq!(check_mtu(&socket, &point, room), Ok(()));
        let said = check_mtu(&socket, &point, room + 1).unwrap_err().to_string();
        assert!(said.contains(&format!("at most {room}, ")), "{said}");
    }
}
