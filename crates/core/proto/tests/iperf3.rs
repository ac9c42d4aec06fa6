//! iperf3's conversation: against captured messages of iperf3, and with both sides joined in virtual time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_proto::iperf3::{
    Client, ClientAction, ClientError, Kind, Limits, Parameters, Refusal, Results, Server,
    ServerAction, ServerEnd, StreamResults,
};
use fabricmark_units::{BitRate, Instant, Nanos};

const COOKIE: &[u8; 37] = b"bwjzhebf6kt53j5jtiepar7x47v63j6skvqv\0";

/// `iperf3 -c 127.0.0.1 -n 200000 -l 100000`, both of version 3.12.
const CLIENT_PARAMETERS: &str = r#"{"tcp":true,"omit":0,"time":0,"num":200000,"blockcount":0,"parallel":1,"len":100000,"pacing_timer":1000,"client_version":"3.12"}"#;
const CLIENT_RESULTS: &str = r#"{"cpu_util_total":44.791666666666671,"cpu_util_user":0,"cpu_util_system":44.753086419753089,"sender_has_retransmits":1,"congestion_used":"bbr","streams":[{"id":1,"bytes":200000,"retransmits":0,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":0.000238}]}"#;
const SERVER_RESULTS: &str = r#"{"cpu_util_total":3.14787701317716,"cpu_util_user":0,"cpu_util_system":3.0746705710102491,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":200000,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":0.001357}]}"#;

fn limits() -> Limits {
    Limits { duration_max: Nanos::from_secs(60), rate_max: BitRate(1_000_000_000) }
}

fn block(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Nanos::from_secs(seconds)
}

fn said(mut next: impl FnMut() -> Option<Vec<u8>>) -> Vec<u8> {
    std::iter::from_fn(&mut next).flatten().collect()
}

fn results(bytes: u64) -> Results {
    let stream = StreamResults { id: 1, bytes, duration_s: Some(1.0), ..StreamResults::default() };
    Results { streams: vec![stream], ..Results::default() }
}

#[test]
fn the_server_answers_the_original_client_as_the_original_server_does() {
    let mut server = Server::new(at(0), limits());
    assert_eq!(said(|| server.poll_output()), [9]);
    // Byte by byte: it must not matter how the stream is segmented.
    for byte in block(CLIENT_PARAMETERS) {
        assert_eq!(server.poll_action(), None);
        server.on_bytes(at(0), &[byte]);
    }
    let Some(ServerAction::Await(parameters)) = server.poll_action() else { panic!("no test") };
    assert_eq!((parameters.bytes, parameters.block_bytes), (200_000, 100_000));
    server.on_ready();
    assert_eq!(said(|| server.poll_output()), [10]);
    server.on_streams(at(1));
    assert_eq!(said(|| server.poll_output()), [1, 2]);
    assert_eq!(server.poll_action(), Some(ServerAction::Run));
    server.on_bytes(at(2), &[[4].to_vec(), block(CLIENT_RESULTS)].concat());
    assert_eq!(said(|| server.poll_output()), [13]);
    assert_eq!(server.poll_action(), Some(ServerAction::Stop));
    server.on_results(at(2), results(200_000));
    let output = said(|| server.poll_output());
    let (length, rest) = output.split_at(4);
    let (own, last) = rest.split_at(rest.len() - 1);
    assert_eq!(
        (u32::from_be_bytes(length.try_into().unwrap()) as usize, last),
        (own.len(), &[14][..])
    );
    assert_eq!(
        Results::parse(own),
        Ok(results(200_000)).map(|mut own| {
            (own.streams[0].omitted_errors, own.streams[0].omitted_packets) = (Some(0), Some(0));
            own
        })
    );
    server.on_bytes(at(2), &[16]);
    let Some(ServerAction::End(ServerEnd::Done(theirs))) = server.poll_action() else {
        panic!("not done")
    };
    assert_eq!(theirs.streams[0].bytes, 200_000);
    assert_eq!(server.deadline(), None);
}

#[test]
fn the_client_answers_the_original_server_as_the_original_client_does() {
    let parameters = Parameters::parse(CLIENT_PARAMETERS.as_bytes()).unwrap();
    let mut client = Client::new(at(0), COOKIE, parameters);
    assert_eq!(said(|| client.poll_output()), COOKIE);
    client.on_bytes(at(0), &[9]);
    let asked = said(|| client.poll_output());
    let value = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
    assert_eq!(value(&asked[4..]), value(CLIENT_PARAMETERS.as_bytes()));
    client.on_bytes(at(0), &[10]);
    assert_eq!(client.poll_action(), Some(ClientAction::Open));
    client.on_streams(at(0));
    client.on_bytes(at(0), &[1, 2]);
    assert_eq!(client.poll_action(), Some(ClientAction::Run));
    client.end(at(1));
    assert_eq!(said(|| client.poll_output()), [4]);
    client.on_bytes(at(1), &[13]);
    assert_eq!(client.poll_action(), Some(ClientAction::Report));
    client.on_results(at(1), &results(200_000));
    assert!(said(|| client.poll_output()).len() > 100);
    client.on_bytes(at(1), &[block(SERVER_RESULTS), vec![14]].concat());
    assert_eq!(said(|| client.poll_output()), [16]);
    let Some(ClientAction::End(Ok(theirs))) = client.poll_action() else { panic!("not done") };
    assert_eq!((theirs.streams[0].bytes, theirs.streams[0].retransmits), (200_000, None));
}

/// Passes bytes between both sides until neither has output.
fn join(now: Instant, client: &mut Client, server: &mut Server) {
    loop {
        let there = said(|| client.poll_output());
        let back = said(|| server.poll_output());
        if there.is_empty() && back.is_empty() {
            return;
        }
        if !there.is_empty() {
            server.on_bytes(now, &there);
        }
        if !back.is_empty() {
            client.on_bytes(now, &back);
        }
    }
}

/// Both sides after the exchange of the parameters.
fn asked(parameters: Parameters) -> (Client, Server) {
    let mut client = Client::new(at(0), COOKIE, parameters);
    // The cookie is read by the code that accepts connections.
    assert_eq!(client.poll_output().unwrap(), COOKIE);
    let mut server = Server::new(at(0), limits());
    join(at(0), &mut client, &mut server);
    (client, server)
}

#[test]
fn both_sides_come_to_an_end_with_each_others_results() {
    let parameters = Parameters { kind: Kind::Udp, block_bytes: 1_000, ..Parameters::default() };
    let (mut client, mut server) = asked(parameters.clone());
    assert_eq!(server.poll_action(), Some(ServerAction::Await(Box::new(parameters))));
    server.on_ready();
    join(at(0), &mut client, &mut server);
    assert_eq!(client.poll_action(), Some(ClientAction::Open));
    client.on_streams(at(1));
    server.on_streams(at(1));
    join(at(1), &mut client, &mut server);
    client.end(at(11));
    join(at(11), &mut client, &mut server);
    server.on_results(at(11), results(1));
    client.on_results(at(11), &results(2));
    join(at(11), &mut client, &mut server);
    let actions: Vec<_> = std::iter::from_fn(|| client.poll_action()).collect();
    let [ClientAction::Run, ClientAction::Report, ClientAction::End(Ok(theirs))] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(theirs.streams[0].bytes, 1);
    let actions: Vec<_> = std::iter::from_fn(|| server.poll_action()).collect();
    let [ServerAction::Run, ServerAction::Stop, ServerAction::End(ServerEnd::Done(theirs))] =
        &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(theirs.streams[0].bytes, 2);
}

#[test]
fn a_refusal_reaches_the_client_by_its_number() {
    let (mut client, _) = asked(Parameters { time_s: 61, ..Parameters::default() });
    let refused = ClientError::Refused { number: 37, os: 0 };
    assert_eq!(
        refused.to_string(),
        "the iperf3 server refused: the duration asked for is longer than the server allows (error 37)"
    );
    assert_eq!(client.poll_action(), Some(ClientAction::End(Err(refused))));
}

/// A server in each step, with the time at which it gives up and the resulting end.
fn servers() -> Vec<(Server, u64, ServerEnd)> {
    let fresh = || Server::new(at(0), limits());
    let opening = || {
        let mut server = fresh();
        server.on_bytes(at(0), &block(r#"{"tcp":true,"time":5}"#));
        server.poll_action();
        server
    };
    let running = || {
        let mut server = opening();
        server.on_streams(at(0));
        server.poll_action();
        server
    };
    let results_due = || {
        let mut server = running();
        server.on_bytes(at(5), &[4]);
        server.poll_action();
        server
    };
    let refused = ServerEnd::Refused;
    vec![
        (fresh(), 10, refused(Refusal::Silence)),
        (opening(), 30, refused(Refusal::AcceptStream)),
        (running(), 15, refused(Refusal::Expired)),
        (results_due(), 15, refused(Refusal::Silence)),
    ]
}

#[test]
fn a_silent_client_is_given_up_in_every_step() {
    for (mut server, seconds, end) in servers() {
        server.on_timeout(at(seconds - 1));
        assert_eq!(server.poll_action(), None);
        assert_eq!(server.deadline(), Some(at(seconds)));
        server.on_timeout(at(seconds));
        assert_eq!(server.poll_action(), Some(ServerAction::End(end)));
    }
}

#[test]
fn a_client_that_vanishes_stops_or_talks_nonsense_ends_its_test_in_every_step() {
    for (mut server, _, _) in servers() {
        server.on_closed();
        assert_eq!(server.poll_action(), Some(ServerAction::End(ServerEnd::Vanished)));
    }
    for (mut server, _, _) in servers().into_iter().skip(1).take(2) {
        server.on_bytes(at(5), &[12]);
        assert_eq!(server.poll_action(), Some(ServerAction::End(ServerEnd::Stopped)));
    }
    for (mut server, _, _) in servers() {
        server.on_bytes(at(5), &[0xee; 300 << 10]);
        assert!(matches!(server.poll_action(), Some(ServerAction::End(_))));
        assert_eq!(server.poll_action(), None);
    }
}

#[test]
fn an_amount_without_an_end_is_ended_by_the_servers_longest_time() {
    let mut server = Server::new(at(0), limits());
    server.on_bytes(at(0), &block(r#"{"tcp":true,"time":0}"#));
    server.on_streams(at(1));
    assert_eq!(server.deadline(), Some(at(61)));
}

#[test]
fn a_server_that_denies_stops_closes_or_falls_silent_is_an_error_that_says_so() {
    let fresh = || Client::new(at(0), COOKIE, Parameters::default());
    let error = |client: &mut Client| match client.poll_action() {
        Some(ClientAction::End(Err(error))) => error,
        other => panic!("{other:?}"),
    };
    for (bytes, expected) in [
        (&[0xff][..], ClientError::Busy),
        (&[11], ClientError::Terminated),
        (&[0xfe, 0, 0, 0, 27, 0, 0, 0, 5], ClientError::Refused { number: 27, os: 5 }),
        (&[14], ClientError::Malformed),
        (b"HTTP/1.1", ClientError::Malformed),
    ] {
        let mut client = fresh();
        client.on_bytes(at(0), bytes);
        assert_eq!(error(&mut client), expected);
    }
    let mut client = fresh();
    client.on_closed();
    assert_eq!(error(&mut client), ClientError::Closed);
    let mut client = fresh();
    client.on_bytes(at(0), &[0xfe, 0, 0, 0, 142]);
    client.on_closed();
    assert_eq!(error(&mut client), ClientError::Refused { number: 142, os: 0 });
    let mut client = fresh();
    client.on_timeout(at(10));
    assert_eq!(error(&mut client), ClientError::Silent(Nanos::from_secs(10)));
}

#[test]
fn a_stopping_server_says_so_once() {
    let (mut client, mut server) = asked(Parameters::default());
    server.terminate();
    server.terminate();
    join(at(0), &mut client, &mut server);
    assert_eq!(client.poll_action(), Some(ClientAction::End(Err(ClientError::Terminated))));
}
