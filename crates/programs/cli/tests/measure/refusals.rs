//! What `measure` refuses, with its exit code and the remedy.

use super::*;

#[test]
fn what_cannot_be_measured_is_refused_with_what_could() {
    for (line, fragments) in [
        ("stream lab:token-ring", &["lab:token-ring", "ethernet"][..]),
        ("stroll loopback", &["stream", "ping-pong", "burst"]),
        ("burst loopback --rate 1M", &["use pace=closed"]),
        ("stream loopback --transport smoke", &["tcp", "udp"]),
        ("stream loopback --vs speed=9", &["unknown factor", "payload"]),
        (
            "stream loopback --vs path=splice",
            &["nothing to compare with", "--vs path=... --vs path=splice"],
        ),
        ("stream loopback --vs path=copy --vs path=copy", &["the same point", "label=a"]),
        ("stream loopback --path gso", &["use transport=udp"]),
        ("rr loopback --timestamps software --outstanding 2", &["use outstanding=1"]),
        (
            "stream loopback --transport udp --payload 70000",
            &["payload=70000 exceeds the maximum of 65507"],
        ),
        ("stream loopback --require fast", &["goodput>=9G"]),
        ("stream loopback --runs 0", &["1 to 10000"]),
        ("stream loopback --cpu a,b", &["0,1"]),
        ("stream loopback --duration 5", &["400ms"]),
    ] {
        expect(line, 64, fragments);
    }
}

#[test]
fn options_without_an_effect_are_refused() {
    for (line, says) in [
        ("rr loopback --reverse", "direction=reverse has no effect on rr over tcp"),
        ("stream loopback --transport udp --congestion cubic", "congestion=cubic has no effect"),
        (
            "stream loopback --flow-label 5",
            "flow_label=5 has no effect on stream over tcp and IPv4",
        ),
        ("stream loopback --response 64", "response=64 has no effect on stream over tcp"),
        (
            "stream loopback --vs transport=tcp,mss=1000 --vs transport=udp,mss=1000",
            "mss=1000 has no effect on stream over udp",
        ),
        ("rr loopback --require goodput>=1G", "rr over tcp in one flow has no goodput"),
        ("stream loopback --require loss<=1%", "stream over tcp in one flow has no loss"),
        ("stream loopback --require fairness>=0.9", "in one flow has no fairness"),
        ("stream loopback -t 0s", "use a duration above 0"),
        ("stream lab:veth --peer iperf3", "--peer iperf3 has no effect on this target"),
        ("stream loopback --wait spin --receive-lowat 1K", "use another wait, or leave it out"),
        ("stream loopback --rate 1M --receive-lowat 1K", "use a closed loop, or leave it out"),
        (
            "stream loopback --link ethernet:10G",
            "--link has no effect on this target: leave it out",
        ),
        ("stream loopback --control node2", "--control has no effect on this target: leave it out"),
        (
            "rr --ends 127.0.0.1,127.0.0.2 --rtt 0ms --vs offload=on --vs offload=off",
            "offload cannot be set between hosts: use a lab, or leave it out",
        ),
        (
            "rr --ends 127.0.0.1,127.0.0.2 --vs link=veth --vs link=ethernet:1G",
            "link cannot be set between hosts: use a lab, or leave it out (--link describes the network)",
        ),
        ("stream loopback --cpu 0,4095", "--cpu: there is no CPU 4095 here; use some of 0"),
    ] {
        expect(line, 64, &[says]);
    }
    // It has an effect on one of the settings.
    let both = "--vs transport=tcp --vs transport=udp";
    expect(&format!("stream loopback --congestion cubic {both} -t 50ms --runs 2"), 0, &["tcp"]);
}

#[test]
fn what_an_iperf3_server_does_not_support_is_refused_before_it_is_asked() {
    for (line, says) in [
        ("rr", "iperf3 does not support pattern=rr: use stream"),
        ("stream --transport quic", "iperf3 does not support transport=quic: use tcp or udp"),
        ("stream -P 129", "iperf3 does not support flows=129: use 1 to 128"),
        ("stream -l 2M", "iperf3 does not support payload=2000000: use 1 to 1048576"),
        ("stream --tcp-window 64KiB", "iperf3 does not support window: leave it out"),
        (
            "stream -R --notsent-lowat 128KiB",
            "iperf3 does not support notsent_lowat in reverse: leave it out",
        ),
        ("stream --omit 1500ms", "iperf3 does not support omit=1500ms: use whole seconds"),
        ("stream -n 1G --bidir", "iperf3 does not support an amount in both directions at once"),
        ("stream --probe", "an iperf3 server supports no probe: leave --probe out"),
    ] {
        expect(&format!("{line} 127.0.0.1 --peer iperf3 --port 1"), 64, &[says]);
    }
}

#[test]
fn hosts_that_are_none_are_refused_as_input() {
    for (host, says) in [
        ("node2:99999", "`node2:99999` has an invalid port"),
        ("node2:", "`node2:` has an invalid port"),
        (":7477", "`:7477` has no host name or address"),
        ("fe80::1", "`fe80::1` is a link-local address: add the network device"),
    ] {
        expect(&format!("stream {host} --peer iperf3"), 64, &[says]);
        expect(&format!("stream {host} --key-file /nowhere/key.pem"), 64, &[says]);
    }
    expect("stream no-such-host.invalid --peer iperf3", 65, &["cannot resolve the name"]);
    expect("stream 127.0.0.1 --peer iperf3 --port 1", 65, &["no iperf3 server at 127.0.0.1:1"]);
}

#[test]
fn a_host_needs_a_key_and_other_targets_are_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.args(["measure", "stream", "192.0.2.1"]).env("FABRICMARK_KEY_FILE", "/nowhere/key.pem");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(66), "{said}");
    for fragment in ["fabricmark agent --new-key", "loopback", "lab:veth"] {
        assert!(said.contains(fragment), "no {fragment} in {said}");
    }
}

#[test]
fn a_device_without_hardware_timestamps_is_named() {
    let line = "ping-pong loopback --transport udp --timestamps hardware -t 50ms";
    expect(line, 66, &["lo has no hardware timestamps", "timestamps=software"]);
}

#[test]
fn what_this_host_lacks_is_named_with_what_it_has_or_how_to_get_it() {
    for (line, fragments) in [
        (
            "stream loopback --congestion warp -t 50ms",
            ["cannot use congestion control warp", "this kernel has", "modprobe tcp_warp"],
        ),
        (
            "stream loopback --device nonesuch0 -t 50ms",
            ["no device nonesuch0", "on this host", "see `ip link`"],
        ),
    ] {
        expect(line, 66, &fragments);
    }
}

#[test]
fn a_datagram_too_large_for_the_path_is_named_with_what_fits() {
    // 65,527 bytes fill a datagram, and with an IPv6 header exceed the MTU of loopback.
    expect(
        "stream loopback --transport udp --family 6 --payload 65527 --dont-fragment true -t 50ms",
        67,
        &["65527 bytes", "MTU of 65536", "at most 65488", "dont_fragment"],
    );
}

#[test]
fn mptcp_that_is_switched_off_is_named_with_the_switch() {
    // net/mptcp/protocol.c, mptcp_init_sock.
    let socket = (libc::SYS_socket, vec![(2, libc::IPPROTO_MPTCP)]);
    let output = refusing(&[socket], libc::ENOPROTOOPT, "stream loopback --transport mptcp");
    says(&output, 66, &["mptcp is disabled", "sysctl net.mptcp.enabled=1"]);
}

#[test]
fn an_end_that_refuses_or_cannot_be_reached_is_named_with_what_to_look_at() {
    // An IPv4 address has 16 bytes (ip(7)); the program's own sockets are of other families.
    let connect = [(libc::SYS_connect, vec![(2, 16)])];
    for (error, fragments) in [
        (libc::ECONNREFUSED, ["127.0.0.1", "refused", "nothing listens"]),
        (libc::ENETUNREACH, ["127.0.0.1", "unreachable", "ip route get 127.0.0.1"]),
    ] {
        let text = says(&refusing(&connect, error, "stream loopback -t 50ms"), 65, &fragments);
        assert_eq!(text.lines().count(), 1, "{text}");
        let output = refusing(&connect, error, "stream loopback -t 50ms --json");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(65), "{answer}");
        assert_eq!(answer["records"][0]["outcome"]["kind"], "invalid", "{answer}");
    }
}
