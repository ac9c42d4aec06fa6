//! Converts the counts of both ends of a test to reports of a run.

use fabricmark_proto::EndReport;
use fabricmark_proto::iperf3::{Kind, Parameters, Results, StreamResults, stream_id};
use fabricmark_record::{Counts, TcpCounters};
use fabricmark_units::Nanos;

use super::account::Account;

/// This end's report of one direction, without the omitted part, which the server omits too.
pub(super) fn own(mut report: EndReport, account: &Account, sends: bool) -> EndReport {
    let (bytes, blocks) = account.omitted(sends);
    let counts = &mut report.counts;
    counts.bytes = counts.bytes.saturating_sub(bytes);
    counts.calls = counts.calls.saturating_sub(blocks);
    counts.ramp_bytes = counts.ramp_bytes.saturating_sub(bytes);
    counts.ramp_calls = counts.ramp_calls.saturating_sub(blocks);
    if sends {
        let Nanos(omit_ns) = Nanos::from_secs(u64::from(account.parameters.omit_s));
        counts.elapsed_ns = counts.elapsed_ns.saturating_sub(omit_ns);
    }
    if !sends {
        report.sequence = account.sequence();
        report.socket_drops = account.socket_drops();
        report.jitter_ns = account.jitter_ns();
    }
    report
}

/// The server's report of the direction in which the client sends, or receives. `waited_ns` is the time at the end in
/// which the client did not send.
pub(super) fn theirs(
    results: &Results,
    parameters: &Parameters,
    client_sends: bool,
    waited_ns: u64,
) -> EndReport {
    let sent: Vec<u32> = (0..parameters.streams())
        .filter(|&place| parameters.client_sends(place) == client_sends)
        .map(stream_id)
        .collect();
    let streams = || {
        let all = results.streams.iter();
        all.filter(|stream| !parameters.is_bidirectional || sent.contains(&stream.id))
    };
    // The server is not trusted: its numbers may be of any size.
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
    let bytes = sum(&mut streams().map(|stream| stream.bytes));
    let longest_s = streams().filter_map(|stream| stream.duration_s).fold(0.0, f64::max);
    let elapsed_ns = (longest_s * 1e9) as u64;
    let calls = match (parameters.kind, client_sends) {
        // iperf3 does not report its number of calls.
        (Kind::Tcp, _) => u64::div_ceil(bytes, u64::from(parameters.block_bytes)),
        (Kind::Udp, true) => sum(&mut streams().map(StreamResults::received)),
        (Kind::Udp, false) => sum(&mut streams()
            .map(|stream| stream.packets.saturating_sub(stream.omitted_packets.unwrap_or(0)))),
    };
    let retransmitted =
        streams().filter_map(|stream| stream.retransmits).reduce(u64::saturating_add);
    // The server sends until the end.
    let waited_ns = if client_sends { waited_ns } else { 0 };
    let tcp = retransmitted.filter(|_| !client_sends && parameters.kind == Kind::Tcp);
    let is_receiver = parameters.kind == Kind::Udp && client_sends;
    let jitters = || streams().map(|stream| stream.jitter_s);
    // Ignore values that no network has (negative, or an hour and more): the server is not trusted.
    let is_sound = jitters().all(|jitter_s| (0.0..3600.0).contains(&jitter_s));
    let jitter_s = jitters().sum::<f64>() / streams().count().max(1) as f64;
    EndReport {
        jitter_ns: (is_receiver && is_sound).then_some(jitter_s * 1e9),
        counts: Counts {
            calls,
            bytes,
            elapsed_ns: elapsed_ns.saturating_sub(waited_ns),
            ..Counts::default()
        },
        tcp: tcp.map(|retransmitted| TcpCounters {
            congestion: results.congestion.clone().unwrap_or_default(),
            retransmitted,
            ..TcpCounters::default()
        }),
        ..EndReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_report_sums_its_streams() {
        let stream = StreamResults {
            bytes: 5_000,
            packets: 7,
            errors: 2,
            retransmits: Some(3),
            duration_s: Some(1.5),
            ..StreamResults::default()
        };
        let results = Results { streams: vec![stream; 2], ..Results::default() };
        let udp = Parameters { kind: Kind::Udp, ..Parameters::default() };
        let counts = theirs(&results, &udp, true, 500_000_000).counts;
        assert_eq!((counts.calls, counts.bytes, counts.elapsed_ns), (10, 10_000, 1_000_000_000));
        let reverse = Parameters { is_reverse: true, ..Parameters::default() };
        assert_eq!(theirs(&results, &reverse, false, 0).tcp.unwrap().retransmitted, 6);
        assert_eq!(theirs(&results, &Parameters::default(), true, 0).tcp, None);
    }

    #[test]
    fn a_servers_report_of_one_direction_has_its_streams_by_their_numbers() {
        let stream = |place: usize, bytes, retransmits| StreamResults {
            id: stream_id(place),
            bytes,
            retransmits,
            ..StreamResults::default()
        };
        // Two streams from the client, then two to it; the server lists them in an order of its own.
        let streams = vec![
            stream(2, 400, Some(7)),
            stream(0, 10, None),
            stream(3, 800, Some(1)),
            stream(1, 20, None),
        ];
        let results = Results { streams, ..Results::default() };
        let parameters = Parameters {
            parallel: 2,
            is_bidirectional: true,
            block_bytes: 10,
            ..Parameters::default()
        };
        let [forward, reverse] = [true, false].map(|sends| theirs(&results, &parameters, sends, 0));
        assert_eq!((forward.counts.bytes, forward.tcp), (30, None));
        assert_eq!((reverse.counts.bytes, reverse.tcp.unwrap().retransmitted), (1_200, 8));
        let longest = StreamResults { duration_s: Some(2.0), ..stream(2, u64::MAX, None) };
        let results =
            Results { streams: vec![longest, stream(3, u64::MAX, None)], ..Results::default() };
        let reverse = theirs(&results, &parameters, false, 500_000_000).counts;
        assert_eq!((reverse.bytes, reverse.elapsed_ns), (u64::MAX, 2_000_000_000));
    }

    #[test]
    fn a_servers_jitter_is_the_mean_of_its_streams_unless_no_network_has_it() {
        let udp = Parameters { kind: Kind::Udp, ..Parameters::default() };
        let jitter_ns = |jitters_s: [f64; 2]| {
            let stream = |jitter_s| StreamResults { jitter_s, ..StreamResults::default() };
            let results = Results { streams: jitters_s.map(stream).into(), ..Results::default() };
            theirs(&results, &udp, true, 0).jitter_ns
        };
        assert_eq!(jitter_ns([0.25, 0.75]), Some(0.5e9));
        assert_eq!(jitter_ns([0.25, -0.25]), None);
        assert_eq!(jitter_ns([0.25, 1e300]), None);
        assert_eq!(jitter_ns([0.25, f64::NAN]), None);
    }
}
