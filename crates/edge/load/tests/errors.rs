//! Errors of a run when the host, the kernel or the other end refuses something: one line each, with the remedy.
//! Where this kernel would not refuse, a seccomp filter makes the call fail.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Failure, Prepare};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// One end of a run of these levels over loopback.
fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "pattern=stream,payload=512,family=4,link=loopback,congestion=cubic";
    fabricmark_testkit::prepare(role, &format!("{defaults},{levels}"))
}

/// Runs `run` in a thread in which this system call fails with this error; with conditions, only calls that meet one.
fn refusing<T: Send>(
    call: i64,
    conditions: Vec<SeccompRule>,
    error: i32,
    run: impl FnOnce() -> T + Send,
) -> T {
    let rules = BTreeMap::from([(call, conditions)]);
    let refuse = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&program).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

/// Asserts that an error is one line that contains these words.
fn says(error: &Failure, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    assert!(!text.contains('\n'), "{text}");
}

fn refused(levels: &str) -> Failure {
    Endpoint::prepare(prepare(Role::Client, levels)).unwrap_err()
}

#[test]
fn a_host_without_io_uring_is_named_with_the_remedy() {
    for (error, words) in [
        (libc::ENOSYS, ["no io_uring", "Linux 6.1", "path=copy"]),
        (libc::EPERM, ["not permitted", "io_uring_disabled", "seccomp"]),
        (libc::EINVAL, ["too old", "Linux 6.1", "path=copy"]),
    ] {
        for path in ["io-uring", "io-uring-zc"] {
            let levels = format!("transport=tcp,path={path}");
            let failure =
                refusing(libc::SYS_io_uring_setup, Vec::new(), error, || refused(&levels));
            assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
            says(&failure, &words);
        }
    }
}

/// A rule that all these arguments of a call, by position, have these values.
fn arguments(values: &[(u8, i32)]) -> Vec<SeccompRule> {
    let is = |&(place, value): &(u8, i32)| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap()
    };
    vec![SeccompRule::new(values.iter().map(is).collect()).unwrap()]
}

/// The error if the kernel refuses an option of SOL_SOCKET to an ordinary user.
fn without_privilege(option: i32, levels: &str) -> Failure {
    let option = arguments(&[(1, libc::SOL_SOCKET), (2, option)]);
    refusing(libc::SYS_setsockopt, option, libc::EPERM, || refused(levels))
}

fn start(levels: &str, peer: SocketAddr) -> Result<EndReport, Failure> {
    let start = Endpoint::prepare(prepare(Role::Client, levels)).unwrap();
    start.run(Some(peer), &Control::default())
}

#[test]
fn an_unknown_congestion_control_names_those_of_the_kernel() {
    let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = std::fs::read_to_string(known).unwrap();
    let failure = refused("transport=tcp,congestion=nonesuch");
    assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
    says(&failure, &["nonesuch", "use one of these", "modprobe tcp_nonesuch"]);
    says(&failure, &known.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn a_transport_that_the_kernel_lacks_is_named_with_the_remedy() {
    for (transport, protocol, remedy) in [
        ("sctp", libc::IPPROTO_SCTP, "modprobe sctp"),
        ("mptcp", libc::IPPROTO_MPTCP, "CONFIG_MPTCP"),
    ] {
        let levels = format!("transport={transport}");
        let protocol = arguments(&[(2, protocol)]);
        let failure =
            refusing(libc::SYS_socket, protocol, libc::EPROTONOSUPPORT, || refused(&levels));
        assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
        says(&failure, &["does not support", transport, remedy]);
    }
}

#[test]
fn mptcp_that_is_switched_off_is_named_with_the_switch() {
    let protocol = arguments(&[(2, libc::IPPROTO_MPTCP)]);
    let refused = || refused("transport=mptcp");
    let failure = refusing(libc::SYS_socket, protocol, libc::ENOPROTOOPT, refused);
    assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
    says(&failure, &["disabled", "net.mptcp.enabled=1"]);
}

#[test]
fn what_needs_a_privilege_says_which() {
    for (option, levels, words) in [
        (
            libc::SO_BUSY_POLL,
            "transport=tcp,wait=busy-poll",
            ["busy polling", "net.core.busy_read"],
        ),
        (libc::SO_MARK, "transport=udp,mark=7", ["mark 7", "CAP_NET_ADMIN"]),
        (libc::SO_BINDTODEVICE, "transport=tcp,device=lo", ["device lo", "CAP_NET_RAW"]),
    ] {
        let failure = without_privilege(option, levels);
        assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
        says(&failure, &words);
    }
}

#[test]
fn a_congestion_control_that_ordinary_users_may_not_use_says_who_may() {
    let option = arguments(&[(1, libc::IPPROTO_TCP), (2, libc::TCP_CONGESTION)]);
    let refused = || refused("transport=tcp,congestion=cubic");
    let failure = refusing(libc::SYS_setsockopt, option, libc::EPERM, refused);
    assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
    says(&failure, &["cubic", "unprivileged users may use", "run as root"]);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let failure = refused("transport=udp,device=nonesuch0");
    assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
    says(&failure, &["no device nonesuch0", "ip link"]);
}

#[test]
fn an_address_of_another_host_is_named_with_the_command_that_shows_ours() {
    // TEST-NET-1 (RFC 5737).
    says(&refused("transport=udp,source=192.0.2.1"), &["192.0.2.1", "ip address"]);
}

#[test]
fn a_buffer_above_the_limit_is_granted_in_part_and_the_grant_is_reported() {
    let forced = arguments(&[(1, libc::SOL_SOCKET), (2, libc::SO_RCVBUFFORCE)]);
    let levels = "pattern=ping-pong,transport=udp,receive_buffer=1GiB";
    let (start, answer) = refusing(libc::SYS_setsockopt, forced, libc::EPERM, || {
        let answering = Endpoint::prepare(prepare(Role::Server, levels)).unwrap();
        let peer = SocketAddr::new("127.0.0.1".parse().unwrap(), answering.port());
        let control = Control::default();
        thread::scope(|scope| {
            let answering = scope.spawn(|| answering.run(None, &control));
            let start = start(levels, peer);
            control.drain(0, 0);
            (start.unwrap(), answering.join().unwrap().unwrap())
        })
    });
    for report in [start, answer] {
        let granted_bytes = report.side.receive_buffer_bytes.unwrap();
        assert!(granted_bytes > 0 && granted_bytes < 1 << 30, "{granted_bytes}");
    }
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    for transport in ["tcp", "mptcp"] {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failure = start(&format!("transport={transport}"), closed).unwrap_err();
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
        says(&failure, &[&closed.to_string(), "refused", "nothing listens"]);
    }
}

#[test]
fn an_address_that_cannot_be_reached_is_named_with_the_command_that_shows_why() {
    // The broadcast address of loopback, to which no connection leads.
    let failure = start("transport=tcp", "127.255.255.255:9".parse().unwrap()).unwrap_err();
    says(&failure, &["127.255.255.255:9", "unreachable", "ip route get 127.255.255.255"]);
}

#[test]
fn a_connection_that_is_not_made_in_time_says_how_long_that_was() {
    // Nothing accepts, and the queue is full after the first connection.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let at = listener.local_addr().unwrap().as_socket().unwrap();
    let _first = std::net::TcpStream::connect(at).unwrap();
    let failure = start("transport=tcp,connect_timeout=30ms", at).unwrap_err();
    says(&failure, &[&at.to_string(), "30 ms", "connect_timeout"]);
}

#[test]
fn a_datagram_too_large_for_the_path_names_its_mtu() {
    for path in ["copy", "io-uring"] {
        // 65,527 bytes fit into a datagram, but with the IPv6 header not into the MTU of loopback.
        let levels = format!("transport=udp,family=6,payload=65527,dont_fragment=true,path={path}");
        let answering = Endpoint::prepare(prepare(Role::Server, &levels)).unwrap();
        let peer = SocketAddr::new("::1".parse().unwrap(), answering.port());
        let control = Control::default();
        let failure = thread::scope(|scope| {
            let answering = scope.spawn(|| answering.run(None, &control));
            let failure = start(&levels, peer).unwrap_err();
            control.give_up();
            assert_eq!(answering.join().unwrap(), Err(Failure::Aborted));
            failure
        });
        says(&failure, &["65527 bytes", "MTU of 65536", "at most 65488", "dont_fragment"]);
    }
}
