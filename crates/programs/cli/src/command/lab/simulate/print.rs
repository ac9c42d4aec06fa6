//! Prints simulated connections as text, JSON or a chart.

use fabricmark_report::{Curve, Side, course_chart, fixed, grid};
use fabricmark_tcpsim::{Congestion, HyStart, Interval, Settings};
use fabricmark_units::Nanos;
use fabricmark_wire::lfn::WINDOW_MAX;
use serde_json::{Value as Json, json};

use super::run::Run;
use crate::command::ceiling::number::{bytes, time};

/// Maximum rows of an interval table; more intervals are merged.
const ROWS_MAX: usize = 20;
/// Maximum points of a curve.
const DOTS_MAX: usize = 60;

/// Mbit/s, as in tables.
fn mbps(bps: f64) -> String {
    fixed(bps / 1e6, 1)
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{} %", fixed(100.0 * share, 1))
}

/// A summary row for each connection, then the course over time.
pub fn as_text(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let through_time = match runs {
        [run] => one_through_time(run),
        _ => several_through_time(runs),
    };
    format!(
        "{}\n{}\nsteady: mean of the second half; limit: set by wire, window and pacing for any \
         congestion control\n\n{through_time}",
        heading(first, runs),
        headline(runs)
    )
}

fn heading(first: &Run, runs: &[Run]) -> String {
    let connection = &first.connection;
    let settings = &connection.settings;
    let forward = common_options(runs);
    let reverse = match connection.reverse == connection.forward {
        true => "same".to_owned(),
        false => connection.reverse.to_string(),
    };
    let window = match connection.window_bytes() {
        Some(window) => format!("a window of {}", bytes(window as f64)),
        None => format!("an unlimited window (TCP's maximum is {})", bytes(WINDOW_MAX as f64)),
    };
    let pacing = settings.pacing.map(|rate| format!(", paced at {rate}")).unwrap_or_default();
    let hystart = runs.iter().find_map(|run| hystart(&run.connection.settings));
    let exit = match hystart {
        Some(HyStart::Linux) => "\n         cubic leaves slow start with the HyStart of Linux",
        Some(HyStart::LinuxDelay) => {
            "\n         cubic leaves slow start with the HyStart of Linux, delay detection only"
        }
        Some(HyStart::PlusPlus) => "\n         cubic leaves slow start with HyStart++ (RFC 9406)",
        None => "",
    };
    format!(
        "modelled: one TCP connection in virtual time; nothing was sent\n\
         forward  {forward}\n\
         reverse  {reverse}\n\
         sender   segments of {}, {window}, initial window of {} segments{pacing}{exit}\n",
        bytes(settings.mss_bytes.into()),
        settings.initial_segments,
    )
}

/// Link options common to all runs.
fn common_options(runs: &[Run]) -> String {
    let all: Vec<String> = runs.iter().map(|run| run.connection.forward.to_string()).collect();
    let Some(first) = all.first() else { return String::new() };
    if all.iter().all(|options| options == first) {
        return first.clone();
    }
    let without_rate = first.split(' ').filter(|word| !word.starts_with("rate="));
    format!("{}, several rates", without_rate.collect::<Vec<_>>().join(" "))
}

fn hystart(settings: &Settings) -> Option<HyStart> {
    match settings.congestion {
        Congestion::Reno => None,
        Congestion::Cubic { hystart, .. } => hystart,
    }
}

fn headline(runs: &[Run]) -> String {
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let (outcome, connection) = (&run.outcome, &run.connection);
            let limit = connection.limit();
            let land_speed =
                run.land_speed.map_or(String::new(), |(_, speed)| fixed(speed / 1e12, 0));
            vec![
                connection.name.clone(),
                mbps(run.steady_bps),
                run.share_of_wire().map(percent).unwrap_or_default(),
                limit.map(|(_, bps)| mbps(bps)).unwrap_or_default(),
                limit.map(|(what, _)| what.to_owned()).unwrap_or_default(),
                outcome.ramp.map_or("never left".to_owned(), |ramp| time(ramp.0 as f64)),
                fixed(outcome.retransmitted_segments as f64, 0),
                outcome.reductions.to_string(),
                outcome.timeouts.to_string(),
                land_speed,
            ]
        })
        .collect();
    grid(
        &[
            ("connection", Side::Left),
            ("steady (Mbit/s)", Side::Right),
            ("of wire", Side::Right),
            ("limit (Mbit/s)", Side::Right),
            ("limited by", Side::Left),
            ("slow start", Side::Right),
            ("retransmitted", Side::Right),
            ("reductions", Side::Right),
            ("time-outs", Side::Right),
            ("land speed (Tbit·m/s)", Side::Right),
        ],
        &rows,
    )
}

/// Consecutive intervals merged into one.
struct Stretched {
    end: Nanos,
    goodput_bps: f64,
    retransmitted_segments: u64,
    last: Interval,
}

/// Merges intervals into at most `most` rows.
fn stretched(intervals: &[Interval], most: usize) -> Vec<Stretched> {
    let each = intervals.len().div_ceil(most).max(1);
    let join = |part: &[Interval]| {
        let last = *part.last()?;
        let length: u64 = part.iter().map(|interval| interval.length.0).sum();
        let delivered: u64 = part.iter().map(|interval| interval.delivered_bytes).sum();
        Some(Stretched {
            end: Nanos(last.start.0 + last.length.0),
            goodput_bps: 8.0 * delivered as f64 / Nanos(length).as_secs_f64(),
            retransmitted_segments: part.iter().map(|i| i.retransmitted_segments).sum(),
            last,
        })
    };
    intervals.chunks(each).filter_map(join).collect()
}

fn one_through_time(run: &Run) -> String {
    let row = |stretch: Stretched| {
        vec![
            fixed(stretch.end.as_secs_f64(), 2),
            mbps(stretch.goodput_bps),
            fixed(stretch.last.cwnd_segments, 0),
            fixed(stretch.last.in_flight_segments as f64, 0),
            time(stretch.last.rtt.0 as f64),
            fixed(stretch.retransmitted_segments as f64, 0),
        ]
    };
    let rows: Vec<_> = stretched(&run.outcome.intervals, ROWS_MAX).into_iter().map(row).collect();
    grid(
        &[
            ("until (s)", Side::Right),
            ("goodput (Mbit/s)", Side::Right),
            ("window (segments)", Side::Right),
            ("in flight", Side::Right),
            ("RTT", Side::Right),
            ("retransmitted", Side::Right),
        ],
        &rows,
    )
}

fn several_through_time(runs: &[Run]) -> String {
    let columns: Vec<Vec<Stretched>> =
        runs.iter().map(|run| stretched(&run.outcome.intervals, ROWS_MAX)).collect();
    let rows = columns.first().map_or(0, Vec::len);
    let row = |index: usize| {
        let end = columns.first().map(|column| fixed(column[index].end.as_secs_f64(), 2));
        let goodputs = columns.iter().map(|column| mbps(column[index].goodput_bps));
        end.into_iter().chain(goodputs).collect()
    };
    let rows: Vec<Vec<String>> = (0..rows).map(row).collect();
    let names = runs.iter().map(|run| (run.connection.name.as_str(), Side::Right));
    let columns: Vec<_> = [("until (s)", Side::Right)].into_iter().chain(names).collect();
    format!("goodput (Mbit/s)\n{}", grid(&columns, &rows))
}

/// JSON with units in the keys, and all intervals.
pub fn as_json(runs: &[Run]) -> Json {
    json!({ "provenance": "modelled", "runs": runs.iter().map(run_json).collect::<Vec<_>>() })
}

fn run_json(run: &Run) -> Json {
    let Run { connection, outcome, .. } = run;
    let settings = &connection.settings;
    let congestion = match settings.congestion {
        Congestion::Reno => "reno",
        Congestion::Cubic { .. } => "cubic",
    };
    let hystart = hystart(settings).map(|hystart| match hystart {
        HyStart::Linux => "linux",
        HyStart::LinuxDelay => "delay",
        HyStart::PlusPlus => "rfc9406",
    });
    let limits: Vec<Json> = connection
        .limits
        .iter()
        .map(|(what, bps)| json!({ "limit": what, "goodput_bps": bps }))
        .collect();
    json!({
        "name": connection.name,
        "forward": connection.forward.to_string(),
        "reverse": connection.reverse.to_string(),
        "congestion": congestion,
        "hystart": hystart,
        "mss_bytes": settings.mss_bytes,
        "header_bytes": settings.header_bytes,
        "window_bytes": connection.window_bytes(),
        "initial_segments": settings.initial_segments,
        "pacing_bps": settings.pacing,
        "ecn": settings.ecn,
        "seed": connection.seed,
        "duration_ns": run.duration,
        "interval_ns": run.interval,
        "rtt_ns": connection.rtt(),
        "goodput_bps": run.steady_bps,
        "share_of_wire": run.share_of_wire(),
        "limits": limits,
        "limited_by": connection.limit().map(|(what, _)| what),
        "slow_start_ns": outcome.ramp,
        "delivered_bytes": outcome.delivered_segments * u64::from(settings.mss_bytes),
        "sent_segments": outcome.sent_segments,
        "retransmitted_segments": outcome.retransmitted_segments,
        "reductions": outcome.reductions,
        "timeouts": outcome.timeouts,
        "distance_m": run.land_speed.map(|(metres, _)| metres),
        "land_speed_bit_m_per_s": run.land_speed.map(|(_, speed)| speed),
        "intervals": outcome.intervals.iter().map(interval_json).collect::<Vec<_>>(),
    })
}

fn interval_json(interval: &Interval) -> Json {
    json!({
        "start_ns": interval.start.0,
        "length_ns": interval.length,
        "delivered_bytes": interval.delivered_bytes,
        "goodput_bps": interval.goodput_bps(),
        "cwnd_segments": interval.cwnd_segments,
        "in_flight_segments": interval.in_flight_segments,
        "srtt_ns": interval.rtt,
        "retransmitted_segments": interval.retransmitted_segments,
    })
}

/// Chart of goodput over time: one curve per connection.
pub fn chart(runs: &[Run]) -> String {
    let course = |run: &Run| Curve {
        label: format!("{} (modelled)", run.connection.name),
        points: stretched(&run.outcome.intervals, DOTS_MAX)
            .iter()
            .map(|stretch| (stretch.end, stretch.goodput_bps))
            .collect(),
    };
    let courses: Vec<_> = runs.iter().map(course).collect();
    course_chart(&format!("One TCP connection, modelled: {}", common_options(runs)), &courses)
}
