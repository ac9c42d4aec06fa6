//! iperf3 clients against our server.

use std::net::Ipv6Addr;
use std::thread;

use fabricmark_interop::Guard;
use serde_json::Value;

use super::support::{Ours, V4, V6, has};

/// Checks a receiver's sum.
fn assert_received(arguments: &str, sum: &Value) {
    assert!(sum["bits_per_second"].as_f64().unwrap() > 0.0, "{arguments}: {sum}");
    assert!(sum["bytes"].as_u64().unwrap() > 0, "{arguments}: {sum}");
    if arguments.contains("-u") {
        let (lost, packets) = (sum["lost_packets"].as_i64(), sum["packets"].as_i64());
        assert!(packets > Some(0) && lost >= Some(0) && lost <= packets, "{arguments}: {sum}");
    }
}

/// Bytes received according to the client's output, whichever end received them.
fn received(end: &Value) -> u64 {
    let sum = if end["sum_received"].is_null() { &end["sum"] } else { &end["sum_received"] };
    sum["bytes"].as_u64().unwrap()
}

/// Runs clients with these arguments at one server for each family, all at once.
fn assert_served(test: &str, clients: &[&str]) {
    if !has(test, &["iperf3"]) {
        return;
    }
    for address in [V4, V6] {
        let ours = Ours::new(address, Guard::default(), None);
        thread::scope(|scope| {
            for &arguments in clients {
                let ours = &ours;
                scope.spawn(move || {
                    let end = ours.end(arguments);
                    let udp = arguments.contains("-u");
                    let sum = if udp { &end["sum"] } else { &end["sum_received"] };
                    assert_received(arguments, sum);
                    if arguments.contains("--bidir") {
                        let name =
                            if udp { "sum_bidir_reverse" } else { "sum_received_bidir_reverse" };
                        assert_received(arguments, &end[name]);
                    }
                });
            }
        });
    }
}

#[test]
fn tcp_clients_are_served_in_every_direction_at_once() {
    assert_served(
        "tcp_clients_are_served_in_every_direction_at_once",
        &[
            "-t 1 -b 20M",
            "-t 1 -R -b 20M",
            "-t 1 --bidir -b 20M",
            "-t 1 -P 8 -b 2M",
            "-t 1 -R -P 8 -b 2M",
        ],
    );
}

#[test]
fn udp_clients_are_served_in_every_direction_at_once() {
    assert_served(
        "udp_clients_are_served_in_every_direction_at_once",
        &[
            "-u -t 1 -b 5M",
            "-u -t 1 -R -b 5M",
            "-u -t 1 --bidir -b 2M",
            "-u -t 1 -P 8 -b 1M",
            "-u -t 1 --udp-counters-64bit",
        ],
    );
}

#[test]
fn amounts_and_options_are_served() {
    assert_served(
        "amounts_and_options_are_served",
        &[
            "-n 1M",
            "-n 1M -R",
            "-k 20 -l 10K",
            "-n 1M --bidir -b 50M",
            "-n 100K -u -b 10M",
            "-n 100K -u -R -b 10M",
            "-n 1M -w 200K -M 1000 -N -S 16 -Z",
            "-n 100K -u -b 10M --dont-fragment -l 500 -w 300K",
            "-n 1M -C cubic -R --get-server-output",
        ],
    );
}

#[test]
fn a_port_of_both_families_serves_both() {
    if !has("a_port_of_both_families_serves_both", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(Ipv6Addr::UNSPECIFIED.into(), Guard::default(), None);
    for host in ["127.0.0.1", "::1"] {
        for kind in ["", "-R", "-u -b 10M", "-u -b 10M -R"] {
            let end = ours.end(&format!("-c {host} -n 100K {kind}"));
            assert!(received(&end) >= 50_000, "{host} {kind}: {end}");
        }
    }
}

#[test]
fn every_byte_of_an_amount_arrives() {
    if !has("every_byte_of_an_amount_arrives", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard::default(), None);
    for arguments in ["-n 5M -l 100K", "-n 5M -l 100K -R", "-n 5M -l 100K -R -P 3"] {
        let end = ours.end(arguments);
        let (sent, received) = (end["sum_sent"]["bytes"].as_u64().unwrap(), received(&end));
        assert!(sent >= 5 << 20, "{arguments}: {end}");
        // A client that has received its amount does not read the rest of the last blocks.
        let least = if arguments.contains("-R") { 5 << 20 } else { sent };
        assert!((least..=sent).contains(&received), "{arguments}: {end}");
    }
}

#[test]
fn an_unpaced_stream_has_results_of_both_ends() {
    if !has("an_unpaced_stream_has_results_of_both_ends", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard::default(), None);
    let end = ours.end("-t 1 -R");
    assert!(end["sum_sent"]["retransmits"].as_i64().unwrap() >= 0, "{end}");
    assert!(end["sender_tcp_congestion"].as_str().is_some_and(|name| !name.is_empty()), "{end}");
    let remote = end["cpu_utilization_percent"]["remote_total"].as_f64().unwrap();
    assert!(remote > 0.0, "{end}");
}

#[test]
fn what_is_omitted_does_not_count() {
    if !has("what_is_omitted_does_not_count", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard::default(), None);
    let end = ours.end("-t 1 -O 1 -b 8M -l 10K");
    // A million bytes in the counted second, and as many before; the two ends' seconds do not begin at the same time.
    let received = received(&end);
    assert!(received > 200_000 && received < 1_800_000, "{end}");
    let udp = ours.end("-u -t 1 -O 1 -b 8M -l 1000");
    let packets = udp["sum"]["packets"].as_u64().unwrap();
    assert!(packets > 0 && packets < 1_800, "{udp}");
}

#[test]
fn a_stopping_server_tells_its_clients() {
    if !has("a_stopping_server_tells_its_clients", &["iperf3"]) {
        return;
    }
    use std::io::Read;
    use std::net::TcpStream;

    let mut ours = Ours::new(V4, Guard::default(), None);
    let mut client = TcpStream::connect(ours.at).unwrap();
    std::io::Write::write_all(&mut client, &[b'a'; 36]).unwrap();
    std::io::Write::write_all(&mut client, &[0]).unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [9]);
    ours.stop();
    client.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [11]);
    assert_eq!(client.read(&mut byte).unwrap(), 0);
}
