//! Live output of `measure`: a line for each interval.

use std::io::{Write, stdout};

use fabricmark_control::{AgentError, Position, Progress};
use fabricmark_plan::{Direction, Pattern, Point, Role, Step};
use fabricmark_record::{Interval, Record, TcpSample};
use fabricmark_report::RateUnit;
use fabricmark_units::Nanos;
use fabricmark_wire::{Stack, stream_goodput};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::progress::Line;

/// Format of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// No intervals.
    Quiet,
    /// A line of text for each.
    Text,
    /// A line of JSON for each.
    Json,
}

/// A progress line on standard error, and intervals on standard output.
pub struct Watch {
    line: Line,
    telling: Telling,
    rates: RateUnit,
    /// Whether only this end has intervals.
    is_server_silent: bool,
    /// Requested interval; 0 without.
    interval_ns: u64,
    /// The current run; `None` during a warm-up.
    run: Option<Run>,
}

struct Run {
    block: u32,
    /// One load, or one in each direction.
    loads: Vec<Load>,
}

struct Load {
    pattern: Pattern,
    direction: Option<Direction>,
    /// Payload in bytes.
    payload_bytes: f64,
    /// Whether another load runs at the same time, so that lines are marked with the direction.
    is_one_of_two: bool,
    /// The end whose intervals are printed: the receiver of a stream if it has any, otherwise the client.
    counting: Role,
    /// The sender of a stream, otherwise the client.
    sending: Role,
    /// Goodput limit of the wire for a TCP stream in bit/s; `None` if there is none.
    wire_bps: Option<f64>,
    /// Latest TCP_INFO sample of the sending end, and its retransmitted segments one interval before.
    tcp: Option<TcpSample>,
    retransmitted: u64,
}

/// A line of `measure --json --interval`.
#[derive(Serialize, JsonSchema)]
pub struct ToldInterval<'a> {
    /// Number of the run, from 0.
    run: u32,
    /// Which end counted.
    end: Role,
    /// Direction of the stream, seen from the client; null for other patterns.
    direction: Option<Direction>,
    /// What it counted.
    interval: &'a Interval,
}

impl Watch {
    /// `is_server_silent`: the server is another program, which reports no intervals.
    pub fn new(
        telling: Telling,
        rates: RateUnit,
        is_server_silent: bool,
        interval: Option<Nanos>,
    ) -> Self {
        let interval_ns = interval.map_or(0, |interval| interval.0);
        Self { line: Line::new(), telling, rates, is_server_silent, interval_ns, run: None }
    }

    /// Erases the progress line.
    pub fn clear(&self) {
        self.line.clear();
    }
}

impl Progress for Watch {
    fn begins(&mut self, position: Position, point: &Point, step: &Step) {
        self.line.begins(position, point, step);
        let loads = point.loads();
        let is_one_of_two = loads.len() > 1;
        let of_one = |load| match Load::of(load, is_one_of_two) {
            load if self.is_server_silent => Load { counting: Role::Client, ..load },
            load => load,
        };
        let loads = loads.iter().map(of_one).collect();
        self.run = (!step.warm_up).then_some(Run { block: step.block, loads });
    }

    fn interval(&mut self, load: &Point, end: Role, interval: &Interval) {
        let Some(run) = &mut self.run else { return };
        if self.telling == Telling::Json {
            let told = ToldInterval { run: run.block, end, direction: load.direction, interval };
            say(&json!(told).to_string());
            return;
        }
        let Some(load) = run.loads.iter_mut().find(|known| known.direction == load.direction)
        else {
            return;
        };
        if end == load.sending {
            load.tcp.clone_from(&interval.tcp);
        }
        let is_rest = interval.is_rest(self.interval_ns);
        if self.telling == Telling::Quiet || end != load.counting || is_rest {
            return;
        }
        let text = load.line(interval, self.rates);
        self.line.clear();
        say(&text);
    }

    fn waits(&mut self, place: u32) {
        self.line.waits(place);
    }

    fn loses(&mut self, error: &AgentError) {
        self.line.loses(error);
    }

    fn ends(&mut self, record: &Record) {
        self.run = None;
        self.line.ends(record);
    }
}

impl Load {
    fn of(point: &Point, is_one_of_two: bool) -> Self {
        let is_reverse = point.direction == Some(Direction::Reverse);
        let sending = if is_reverse { Role::Server } else { Role::Client };
        let counting = if point.pattern == Pattern::Stream { sending.other() } else { sending };
        let stack = Stack::Tcp { family: point.family, option_bytes: 0 };
        let wire = stream_goodput(point.link, stack)
            .ok()
            .filter(|_| point.pattern == Pattern::Stream && point.transport.has_tcp());
        Self {
            pattern: point.pattern,
            direction: point.direction,
            payload_bytes: point.payload.0 as f64,
            is_one_of_two,
            counting,
            sending,
            wire_bps: wire.map(|ceiling| ceiling.goodput_bps.as_f64()),
            tcp: None,
            retransmitted: 0,
        }
    }

    /// Formats an interval, with the latest TCP_INFO sample of the sending end.
    fn line(&mut self, interval: &Interval, rates: RateUnit) -> String {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (from, to) = (seconds(interval.start_ns), seconds(interval.end_ns));
        let per_second = interval.calls as f64 / seconds(interval.length_ns().max(1));
        let mut text = format!("{from:7.2} to {to:6.2} s");
        if let Some(direction) = self.direction.filter(|_| self.is_one_of_two) {
            text += &format!("  {direction}");
        }
        let rate = |bps: f64| {
            let decimals = if rates.size_bps > 1e8 { 3 } else { 1 };
            format!("{:10.decimals$} {}", bps / rates.size_bps, rates.name)
        };
        match (self.pattern, interval.rate_bps()) {
            (Pattern::Stream, Some(rate_bps)) => {
                let payloads = rate_bps / 8.0 / self.payload_bytes;
                text += &format!("  {}  {payloads:9.0} payloads/s", rate(rate_bps));
            }
            (Pattern::Burst, Some(rate_bps)) => {
                text += &format!("  {}  {per_second:9.0} bursts/s", rate(rate_bps));
            }
            _ => text += &format!("  {per_second:10.0} transactions/s"),
        }
        if let Some(jitter_ns) = interval.jitter_ns {
            text += &format!("  jitter {:.1} us", jitter_ns / 1e3);
        }
        if let Some(lost) = interval.lost {
            // Those of earlier intervals that arrived late may be more.
            let lost = u64::try_from(lost).unwrap_or(0);
            let all = lost.saturating_add(interval.calls);
            let share = 100.0 * lost as f64 / all.max(1) as f64;
            text += &format!("  lost {lost} of {all} ({share:.2} %)");
        }
        // A retransmission delivers everything queued behind it at once (head-of-line blocking).
        let is_burst =
            interval.rate_bps().zip(self.wire_bps).is_some_and(|(rate, wire)| rate > wire);
        let note = if is_burst {
            "  above line rate: queued behind a lost segment or at the receiver"
        } else {
            ""
        };
        let Some(tcp) = &self.tcp else { return text + note };
        if let Some(all) = tcp.retransmitted_segments {
            text += &format!("  {} retransmits", all.saturating_sub(self.retransmitted));
            self.retransmitted = all;
        }
        if let Some(srtt_ns) = tcp.srtt_ns {
            text += &format!("  srtt {:.0} us", seconds(srtt_ns) * 1e6);
        }
        if let Some(cwnd) = tcp.cwnd_segments {
            text += &format!("  cwnd {cwnd}");
        }
        text + note
    }
}

/// Ignores errors: the reader may have closed the pipe.
fn say(text: &str) {
    let mut out = stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_datagrams_has_jitter_and_loss() {
        let levels = "pattern=stream,transport=udp,family=4,payload=1000,link=veth";
        let mut load = Load::of(&fabricmark_testkit::point(levels), false);
        let mut line = |calls, lost, jitter_ns| {
            let (end_ns, bytes) = (1_000_000_000, 1000 * calls);
            let rest = Interval::default();
            load.line(&Interval { end_ns, bytes, calls, lost, jitter_ns, ..rest }, RateUnit::MBIT)
        };
        assert!(
            line(990, Some(10), Some(12_340.0))
                .ends_with("  jitter 12.3 us  lost 10 of 1000 (1.00 %)")
        );
        assert!(line(990, Some(-2), None).ends_with(" payloads/s  lost 0 of 990 (0.00 %)"));
        assert!(line(990, None, None).ends_with(" payloads/s"));
    }

    #[test]
    fn rates_have_the_unit_that_was_asked_for() {
        let levels = "pattern=stream,transport=udp,family=4,payload=1024,link=veth";
        let mut load = Load::of(&fabricmark_testkit::point(levels), false);
        let interval = Interval { end_ns: 1_000_000_000, bytes: 10 << 20, ..Interval::default() };
        for (letter, rate) in
            [("k", " 83886.1 kbit/s "), ("g", " 0.084 Gbit/s "), ("M", " 10.0 MiB/s ")]
        {
            let line = load.line(&interval, RateUnit::parse(letter).unwrap());
            assert!(line.contains(rate), "{line}");
        }
        assert!(RateUnit::parse("x").is_err());
    }

    #[test]
    fn an_interval_above_line_rate_says_why() {
        let levels = "pattern=stream,transport=tcp,family=4,payload=1000,congestion=cubic";
        let link = "link=ethernet:100M,mtu=1500";
        let mut load = Load::of(&fabricmark_testkit::point(&format!("{levels},{link}")), false);
        let mut line = |bytes: u64| {
            let interval = Interval { end_ns: 250_000_000, bytes, ..Interval::default() };
            load.line(&interval, RateUnit::MBIT)
        };
        // 2.96 MB in 250 ms are 94.8 Mbit/s, and 7.7 MB are 246, in payloads of 1,000 bytes.
        assert!(line(2_962_500).ends_with("94.8 Mbit/s      11850 payloads/s"));
        assert!(
            line(7_690_000)
                .ends_with("  above line rate: queued behind a lost segment or at the receiver")
        );
    }
}
