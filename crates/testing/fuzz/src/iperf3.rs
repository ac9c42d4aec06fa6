//! Both ends of iperf3's control connection, and its messages.

use fabricmark_proto::iperf3::{
    Arrivals, Client, ClientAction, Header, Limits, Parameters, Results, Server, ServerAction,
    StreamResults, Token,
};
use fabricmark_units::{BitRate, Instant, Nanos};

const LIMITS: Limits = Limits { duration_max: Nanos::from_secs(60), rate_max: BitRate(1 << 40) };

/// Duration of a silence.
const SILENCE: Nanos = Nanos::from_secs(5);

/// Longest wait for a message: the duration of a test plus 10 s.
const WAIT_MAX: Nanos = Nanos::from_secs(70);

fn own_results() -> Results {
    let stream = StreamResults { id: 1, bytes: 1_000, ..StreamResults::default() };
    Results { streams: vec![stream], ..Results::default() }
}

/// Splits bytes into pieces as they arrive. A byte before each piece gives its length, and whether actions are executed
/// before the next piece. An empty piece is a silence.
fn pieces(bytes: &[u8]) -> Vec<(&[u8], bool)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((&how, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(how & 0x7f)));
        found.push((piece, how & 0x80 == 0));
        rest = behind;
    }
    found
}

/// Bytes on a server's control connection.
pub fn iperf3_server(bytes: &[u8]) {
    let mut now = Instant(0);
    let mut server = Server::new(now, LIMITS);
    let mut ends = 0;
    for (piece, acts) in pieces(bytes) {
        if piece.is_empty() {
            now = now + SILENCE;
            server.on_timeout(now);
        }
        server.on_bytes(now, piece);
        if acts {
            ends += serve(now, &mut server);
        }
        assert!(server.deadline().is_none_or(|deadline| deadline - now <= WAIT_MAX));
    }
    server.on_closed();
    ends += serve(now, &mut server);
    assert_eq!((ends, server.deadline()), (1, None));
}

/// Executes the server's actions; returns how many of them end the test.
fn serve(now: Instant, server: &mut Server) -> u32 {
    let mut ends = 0;
    while let Some(action) = server.poll_action() {
        match action {
            ServerAction::Await(parameters) => {
                check_parameters(&parameters);
                assert_eq!(parameters.check(&LIMITS), Ok(()));
                server.on_ready();
                server.on_streams(now);
            }
            ServerAction::Run => {}
            ServerAction::Stop => server.on_results(now, own_results()),
            ServerAction::End(_) => ends += 1,
        }
    }
    while server.poll_output().is_some() {}
    ends
}

/// Bytes on a client's control connection.
pub fn iperf3_client(bytes: &[u8]) {
    let mut now = Instant(0);
    let mut client = Client::new(now, &[0; 37], Parameters::default());
    let mut ends = 0;
    for (piece, acts) in pieces(bytes) {
        if piece.is_empty() {
            now = now + SILENCE;
            client.on_timeout(now);
        }
        client.on_bytes(now, piece);
        if acts {
            ends += ask(now, &mut client);
        }
        assert!(client.deadline().is_none_or(|deadline| deadline - now <= WAIT_MAX));
    }
    client.on_closed();
    ends += ask(now, &mut client);
    assert_eq!((ends, client.deadline()), (1, None));
}

/// Executes the client's actions; returns how many of them end the test.
fn ask(now: Instant, client: &mut Client) -> u32 {
    let mut ends = 0;
    while let Some(action) = client.poll_action() {
        match action {
            ClientAction::Open => client.on_streams(now),
            ClientAction::Run => client.end(now),
            ClientAction::Report => client.on_results(now, &own_results()),
            ClientAction::End(result) => {
                ends += 1;
                if let Ok(results) = result {
                    check_results(&results);
                }
            }
        }
    }
    while client.poll_output().is_some() {}
    ends
}

/// The first byte selects the parser: parameters, results, datagrams with 32-bit or 64-bit counters, or a decrypted
/// token.
pub fn iperf3_words(bytes: &[u8]) {
    let Some((&what, bytes)) = bytes.split_first() else { return };
    match what % 5 {
        0 => {
            if let Ok(parameters) = Parameters::parse(bytes) {
                check_parameters(&parameters);
            }
        }
        1 => {
            if let Ok(results) = Results::parse(bytes) {
                check_results(&results);
            }
        }
        2 => arrivals(bytes, false),
        3 => arrivals(bytes, true),
        _ => {
            let token = str::from_utf8(bytes).ok().and_then(Token::parse);
            let again = token.as_ref().and_then(|token| Token::parse(&token.emit().ok()?));
            assert_eq!(token, again);
        }
    }
}

/// Asserts that parameters are within iperf3's bounds, and unchanged by emitting and parsing.
fn check_parameters(parameters: &Parameters) {
    assert!((1..=128).contains(&parameters.parallel) && parameters.streams() <= 256);
    assert!((1..=1 << 20).contains(&parameters.block_bytes));
    assert!(parameters.duration().is_none_or(|duration| duration <= Nanos::from_secs(87_000)));
    assert_eq!(Parameters::parse(&parameters.emit()).as_ref(), Ok(parameters));
}

/// Asserts that results are unchanged by emitting and parsing, except for fields that old versions omit.
fn check_results(results: &Results) {
    let mut whole = results.clone();
    for stream in &mut whole.streams {
        assert!(stream.received() <= stream.packets && stream.lost() <= stream.errors);
        stream.omitted_errors.get_or_insert(0);
        stream.omitted_packets.get_or_insert(0);
        stream.duration_s.get_or_insert(0.0);
    }
    assert_eq!(Results::parse(&results.emit()), Ok(whole));
}

/// Datagrams of 16 bytes, each followed by the time since the previous one. Their counters must be consistent.
fn arrivals(bytes: &[u8], is_wide: bool) {
    let mut arrivals = Arrivals::default();
    let mut now_us = 0u64;
    let mut count = 0;
    for piece in bytes.chunks(20) {
        let (datagram, step) = piece.split_at(piece.len().min(16));
        let Some(header) = Header::parse(datagram, is_wide) else { return };
        // A header with microseconds of 1,000,000 or more is emitted in normal form.
        if datagram[4..8] < 1_000_000u32.to_be_bytes()[..] {
            let mut written = datagram.to_vec();
            header.emit(&mut written, is_wide);
            assert_eq!(written, datagram);
        }
        now_us = step
            .iter()
            .fold(now_us, |now_us, &byte| now_us.rotate_left(8).wrapping_add(u64::from(byte)));
        let before = arrivals;
        arrivals.arrive(header, now_us, is_wide);
        count += 1;
        assert!(arrivals.packets >= before.packets && arrivals.errors <= arrivals.packets);
        let is_new = arrivals.packets > before.packets;
        assert_eq!(arrivals.out_of_order - before.out_of_order, u64::from(!is_new));
        assert!(arrivals.out_of_order <= count);
        assert!(arrivals.jitter.jitter_ns.is_finite() && arrivals.jitter.jitter_ns >= 0.0);
    }
}
