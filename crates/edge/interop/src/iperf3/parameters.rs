//! Converts a run to iperf3's parameters.

use fabricmark_plan::{Direction, Pace, Path, Pattern, Point, Rate, Transport};
use fabricmark_proto::iperf3::{Kind, Parameters, STREAMS_MAX};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_units::{BitRate, Bytes, Nanos};

/// Refuses what iperf3 does not support in a run of streams in these directions at once.
pub fn check(directions: &[&Point], omit_ns: Nanos, has_amount: bool) -> Result<(), Failure> {
    for point in directions {
        check_stream(point)?;
        block_bytes(kind(point), point.payload)?;
        rate(point, point.direction == Some(Direction::Reverse))?;
    }
    if directions.len() > 1 && has_amount {
        return Err(cannot("an amount in both directions at once: use a duration"));
    }
    omit_s(omit_ns).map(|_| ())
}

/// The parameters of a run, without a token. Fails if iperf3 does not support something in the run.
pub(super) fn of(directions: &[&Prepare]) -> Result<Parameters, Failure> {
    let points: Vec<&Point> = directions.iter().map(|prepare| &prepare.point).collect();
    for prepare in directions {
        check(&points, prepare.omit_ns, prepare.amount.is_some())?;
    }
    // All parameters but the buffers concern what the server sends.
    let is_reverse = |prepare: &&&Prepare| prepare.point.direction == Some(Direction::Reverse);
    let prepare = directions.iter().find(is_reverse).or(directions.first());
    let prepare = *prepare.ok_or(Failure::Aborted)?;
    let point = &prepare.point;
    let is_bidirectional = directions.len() > 1;
    let kind = kind(point);
    let is_reverse = point.direction == Some(Direction::Reverse);
    let counts_ns = prepare.duration_ns.0.saturating_sub(prepare.omit_ns.0);
    // The client itself ends the test, and the server does not expect the end before this time.
    let time_s = u32::try_from(counts_ns.div_ceil(Nanos::from_secs(1).0)).unwrap_or(u32::MAX);
    // iperf3 sets both buffers of the server to one value: use the buffer of the direction that carries data. It fails if
    // its kernel grants less (iperf_udp_buffercheck), so a default that nobody asked for is left out.
    let default = point.transport.traits().receive_buffer;
    let receive_buffer = point.receive_buffer.filter(|_| point.receive_buffer != default);
    let buffer = match (is_bidirectional, is_reverse) {
        (true, _) => point.send_buffer.max(receive_buffer),
        (_, true) => point.send_buffer,
        (_, false) => receive_buffer,
    };
    let window = u32::try_from(buffer.map_or(0, |Bytes(bytes)| bytes));
    Ok(Parameters {
        kind,
        omit_s: omit_s(prepare.omit_ns)?,
        time_s: if prepare.amount.is_some() { 0 } else { time_s.max(1) },
        bytes: prepare.amount.map_or(0, |Bytes(bytes)| bytes),
        parallel: point.flows,
        block_bytes: block_bytes(kind, point.payload)?,
        is_reverse: is_reverse && !is_bidirectional,
        is_bidirectional,
        is_nodelay: kind == Kind::Tcp && point.nodelay == Some(true),
        mss: if kind == Kind::Tcp { point.mss.unwrap_or(0) } else { 0 },
        window_bytes: window.map_err(|_| cannot("buffers of 4 GiB"))?,
        rate: rate(point, is_reverse)?,
        // DSCP is the upper six bits of the octet (RFC 2474).
        tos: point.dscp.unwrap_or(0) << 2,
        is_unfragmented: kind == Kind::Udp && point.dont_fragment == Some(true),
        has_wide_counters: kind == Kind::Udp,
        // Congestion control matters only at the sender.
        congestion: point.congestion.clone().filter(|_| is_reverse && kind == Kind::Tcp),
        ..Parameters::default()
    })
}

fn cannot(what: impl std::fmt::Display) -> Failure {
    Failure::Protocol(format!("iperf3 does not support {what}"))
}

/// Refuses options that no parameter of iperf3 expresses.
fn check_stream(point: &Point) -> Result<(), Failure> {
    if point.pattern != Pattern::Stream {
        return Err(cannot(format!("pattern={}: use stream", point.pattern)));
    }
    if !matches!(point.transport, Transport::Tcp | Transport::Udp) {
        return Err(cannot(format!("transport={}: use tcp or udp", point.transport)));
    }
    if point.direction == Some(Direction::Both) {
        return Err(cannot("direction=both in one stream"));
    }
    if point.flows == 0 || point.flows > STREAMS_MAX {
        return Err(cannot(format!("flows={}: use 1 to {STREAMS_MAX}", point.flows)));
    }
    if point.path != Path::Copy {
        return Err(cannot(format!("path={}: use copy", point.path)));
    }
    let is_reverse = point.direction == Some(Direction::Reverse);
    for (name, is_set) in [
        ("timestamps", point.timestamps.is_some()),
        ("quickack", point.quickack.is_some()),
        ("receive_lowat", point.receive_lowat.is_some()),
        ("host_settings", point.host_settings.is_some()),
        ("threads", point.threads.is_some_and(|threads| threads > 1)),
        ("pacing_rate in reverse", is_reverse && point.pacing_rate.is_some()),
        ("cork in reverse", is_reverse && point.cork == Some(true)),
        ("window", point.window.is_some()),
        ("notsent_lowat in reverse", is_reverse && point.notsent_lowat.is_some()),
    ] {
        if is_set {
            return Err(cannot(format!("{name}: leave it out")));
        }
    }
    Ok(())
}

fn kind(point: &Point) -> Kind {
    if point.transport == Transport::Udp { Kind::Udp } else { Kind::Tcp }
}

fn omit_s(omit: Nanos) -> Result<u32, Failure> {
    let second = Nanos::from_secs(1).0;
    let whole = u32::try_from(omit.0 / second).ok().filter(|_| omit.0.is_multiple_of(second));
    whole.ok_or_else(|| cannot(format!("omit={omit}: use whole seconds")))
}

fn block_bytes(kind: Kind, Bytes(bytes): Bytes) -> Result<u32, Failure> {
    let range = match kind {
        Kind::Tcp => 1..=1 << 20,
        Kind::Udp => 16..=65_507,
    };
    if range.contains(&bytes) {
        return Ok(bytes as u32);
    }
    Err(cannot(format!("payload={bytes}: use {} to {}", range.start(), range.end())))
}

/// Rate of each stream; 0 for no limit. If this end sends, it does its own pacing.
fn rate(point: &Point, is_reverse: bool) -> Result<BitRate, Failure> {
    let total = match &point.pace {
        Pace::Closed => return Ok(BitRate(0)),
        Pace::Fixed(Rate::Bits(BitRate(bps))) => *bps,
        Pace::Fixed(Rate::PerSecond(count)) => {
            count.saturating_mul(point.payload.0).saturating_mul(8)
        }
        _ if !is_reverse => return Ok(BitRate(0)),
        pace => return Err(cannot(format!("pace={pace} in reverse: use fixed"))),
    };
    Ok(BitRate(total.div_ceil(u64::from(point.flows))))
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::Role;

    use super::*;

    fn parameters(levels: &str) -> Result<Parameters, Failure> {
        let levels = format!("link=loopback,family=4,{levels}");
        let prepare = Prepare {
            duration_ns: Nanos::from_millis(2_500),
            omit_ns: Nanos::from_secs(1),
            ..fabricmark_testkit::prepare(Role::Client, &levels)
        };
        of(&[&prepare])
    }

    #[test]
    fn a_run_is_said_in_iperf3s_words() {
        let parameters = parameters(
            "pattern=stream,transport=tcp,payload=1000,direction=reverse,flows=3,pace=fixed:10M,\
             congestion=cubic,nodelay=true,mss=1400,dscp=10,send_buffer=65536",
        );
        let expected = Parameters {
            omit_s: 1,
            time_s: 2,
            parallel: 3,
            block_bytes: 1_000,
            is_reverse: true,
            is_nodelay: true,
            mss: 1_400,
            window_bytes: 65_536,
            rate: BitRate(3_333_334),
            tos: 40,
            congestion: Some("cubic".to_owned()),
            ..Parameters::default()
        };
        assert_eq!(parameters, Ok(expected));
    }

    #[test]
    fn a_server_is_asked_for_a_buffer_only_if_the_user_asked() {
        let window = |levels: &str| {
            let levels = format!("pattern=stream,transport=udp,payload=1000,{levels}");
            parameters(&levels).unwrap().window_bytes
        };
        assert_eq!(window("direction=forward"), 0);
        assert_eq!(window("direction=forward,receive_buffer=65536"), 65_536);
    }

    #[test]
    fn both_directions_at_once_are_a_bidirectional_test() {
        let levels = "link=loopback,family=4,pattern=stream,transport=tcp,payload=1000,flows=3,congestion=cubic,\
                      receive_buffer=65536";
        let prepare = |direction| {
            fabricmark_testkit::prepare(Role::Client, &format!("{levels},direction={direction}"))
        };
        let [forward, reverse] = ["forward", "reverse"].map(prepare);
        let parameters = of(&[&forward, &reverse]).unwrap();
        assert!(parameters.is_bidirectional && !parameters.is_reverse);
        assert_eq!((parameters.streams(), parameters.congestion.as_deref()), (6, Some("cubic")));
        assert_eq!(parameters.window_bytes, 65_536);
        let amount = Prepare { amount: Some(Bytes(1)), ..reverse };
        let failure = of(&[&forward, &amount]).unwrap_err().to_string();
        assert!(failure.contains("an amount in both directions at once"), "{failure}");
    }

    #[test]
    fn what_iperf3_cannot_do_is_named_with_what_it_can() {
        for (levels, expected) in [
            ("pattern=ping-pong,transport=udp,payload=64", "pattern=ping-pong: use stream"),
            (
                "pattern=stream,transport=tls,payload=64,congestion=cubic",
                "transport=tls: use tcp or udp",
            ),
            ("pattern=stream,transport=udp,payload=15", "payload=15: use 16 to 65507"),
            ("pattern=stream,transport=udp,payload=64,flows=129", "flows=129: use 1 to 128"),
            (
                "pattern=stream,transport=udp,payload=64,direction=reverse,pace=poisson:1M",
                "pace=poisson:1M in reverse: use fixed",
            ),
        ] {
            let failure = parameters(levels).unwrap_err().to_string();
            assert!(
                failure.starts_with(&format!("iperf3 does not support {expected}")),
                "{failure}"
            );
        }
    }
}
