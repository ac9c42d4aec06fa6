//! `fabricmark rtt`: measures the RTT to a STAMP or TWAMP-Light reflector, of another vendor or of an agent, or by paper
//! P5's protocol.

mod results;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_interop::stamp::{
    self, MeasureError, Measured, Protocol, Session, Settings, Spread, Wanted,
};
use fabricmark_interop::{apdu, ntp};
use fabricmark_telemetry::clock;
use fabricmark_units::Nanos;
use serde_json::json;

use crate::addresses::first_address;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::options::rtt::{Rtt, RttProtocol};
use crate::rtts::{HostRtts, Rtts, us};
use crate::{output, services};
use results::{ApduResults, BothWays, Delays, NtpBest, NtpResults, OneWay, StampResults};

pub use results::RttResults;

/// Measures and prints.
pub fn rtt(options: &Rtt) -> Result<(), Failure> {
    let default = match options.protocol {
        RttProtocol::Stamp(_) => stamp::PORT,
        RttProtocol::Apdu => apdu::PORT,
        RttProtocol::Ntp => ntp::PORT,
    };
    let target = first_address(&options.target, default)?;
    match options.protocol {
        RttProtocol::Stamp(protocol) => by_stamp(options, target, protocol),
        RttProtocol::Apdu => by_apdu(options, target),
        RttProtocol::Ntp => by_ntp(options, target),
    }
}

impl Rtt {
    /// For NTP the eight packets at intervals of 2 s of a burst (RFC 5905, appendix A.1.1: BCOUNT, BTIME).
    fn packets(&self) -> u32 {
        self.count.unwrap_or(if self.protocol == RttProtocol::Ntp { 8 } else { 100 })
    }

    fn pause(&self) -> Nanos {
        let is_ntp = self.protocol == RttProtocol::Ntp;
        self.interval.unwrap_or(if is_ntp { Nanos::from_secs(2) } else { Nanos::from_millis(10) })
    }
}

fn by_ntp(options: &Rtt, target: SocketAddr) -> Result<(), Failure> {
    let is_plain = options.transport == apdu::Transport::Udp
        && options.device.is_none()
        && options.stamp_key.is_none()
        && options.answer_dscp.is_none();
    if !is_plain || options.padding != 0 || options.dscp != 0 || options.identifier != 0 {
        let message =
            "--protocol ntp supports only --count, --interval, --timeout, --csv, --plot and --json";
        return Err(Failure::input(message));
    }
    let settings = ntp::Settings {
        target,
        packets: options.packets(),
        interval: options.pause(),
        timeout: options.timeout,
    };
    let stop = interruptions()?;
    let mut rtts = Rtts::new(options)?;
    let measured = ntp::measure(&settings, &stop, &mut |ns| rtts.add(target, ns));
    let finished = rtts.finish();
    let measured = measured.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::new(
            Code::Unreachable,
            format!("nothing answers at UDP port {} of {}", target.port(), target.ip()),
        ),
        _ => Failure::new(code_of(&error), format!("cannot send to {target}: {error}")),
    })?;
    let json = || json!(RttResults::Ntp(ntp_results(&measured, rtts.results(target))));
    let text = || ntp_as_text(&measured, rtts.as_lines(target));
    output::answer(options.json, json, text)?;
    finished?;
    check_whole(&stop)?;
    if measured.answered == 0 {
        let message = match measured.unsynchronised {
            0 => format!("no reply to {} requests from {target}", measured.sent),
            _ => format!("{target} has no synchronised clock, or refuses requests"),
        };
        return Err(Failure::new(Code::Unreachable, message));
    }
    Ok(())
}

/// Fails if Ctrl-C ended the measurement.
fn check_whole(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Relaxed) {
        return Err(Failure::interrupted());
    }
    Ok(())
}

/// Requests without any answer.
fn lost(measured: &ntp::Measured) -> u64 {
    measured.sent - measured.answered - measured.implausible - measured.unsynchronised
}

fn ntp_results(measured: &ntp::Measured, rtt: HostRtts) -> NtpResults {
    let best = measured.best.map(|best| NtpBest {
        rtt_ns: best.rtt_ns,
        offset_ns: best.offset_ns,
        offset_error_ns: best.rtt_ns as f64 / 2.0,
        stratum: best.stratum,
        precision_ns: best.precision_ns,
        root_distance_ns: best.root_distance_ns,
    });
    NtpResults {
        sent: measured.sent,
        answered: measured.answered,
        lost: lost(measured),
        ignored: measured.ignored,
        implausible: measured.implausible,
        unsynchronised: measured.unsynchronised,
        best,
        rtt,
    }
}

fn ntp_as_text(measured: &ntp::Measured, rtt: Vec<(&'static str, String)>) -> String {
    let (sent, answered, lost) = (measured.sent, measured.answered, lost(measured));
    let share = 100.0 * lost as f64 / sent.max(1) as f64;
    let packets = format!("{sent} sent, {answered} answered, {lost} lost ({share:.1} %)");
    let mut lines = vec![("packets", packets)];
    for (what, count) in [
        ("ignored", measured.ignored),
        ("implausible", measured.implausible),
        ("not synchronised", measured.unsynchronised),
    ] {
        if count > 0 {
            lines.push((what, count.to_string()));
        }
    }
    lines.extend(rtt);
    if let Some(best) = measured.best {
        let (sign, offset) =
            if best.offset_ns < 0 { ("-", -best.offset_ns) } else { ("+", best.offset_ns) };
        let error = us(best.rtt_ns as f64 / 2.0);
        lines.push((
            "clock offset",
            format!("{sign}{} ± {error}: half of the shortest RTT", us(offset as f64)),
        ));
        let distance = us(best.root_distance_ns);
        lines.push((
            "server",
            format!(
                "stratum {}, precision {:.0} ns, {distance} from its reference",
                best.stratum, best.precision_ns
            ),
        ));
    }
    lines.into_iter().map(|(what, value)| format!("{what:<15} {value}\n")).collect()
}

/// The exit code for a socket's error: what the network, a firewall or the other host says is no failure of this one.
fn code_of(error: &io::Error) -> Code {
    use io::ErrorKind::{
        ConnectionReset, HostUnreachable, NetworkUnreachable, TimedOut, UnexpectedEof,
    };
    match error.kind() {
        HostUnreachable | NetworkUnreachable | TimedOut | ConnectionReset | UnexpectedEof => {
            Code::Unreachable
        }
        _ => Code::RunFailed,
    }
}

fn by_stamp(options: &Rtt, target: SocketAddr, protocol: Protocol) -> Result<(), Failure> {
    if options.transport == apdu::Transport::Tcp || options.device.is_some() {
        return Err(Failure::input("--transport tcp and --device are options of --protocol apdu"));
    }
    let is_of_stamp =
        options.stamp_key.is_some() || options.answer_dscp.is_some() || options.identifier != 0;
    if protocol != Protocol::Stamp && is_of_stamp {
        let message = "--stamp-key, --answer-dscp and --identifier are options of --protocol stamp";
        return Err(Failure::input(message));
    }
    let session = Session {
        protocol,
        key: options.stamp_key.as_deref().map(services::stamp_key).transpose()?,
        identifier: options.identifier,
        wanted: Wanted {
            timestamp_information: protocol == Protocol::Stamp,
            answer_dscp: options.answer_dscp,
            padding_bytes: options.padding,
        },
        packets: options.packets(),
        interval: options.pause(),
        timeout: options.timeout,
    };
    let stop = interruptions()?;
    let settings = Settings { target, session, dscp: options.dscp };
    let mut rtts = Rtts::new(options)?;
    let measured = stamp::measure(&settings, &stop, &mut |ns| rtts.add(target, ns));
    let finished = rtts.finish();
    let measured = measured.map_err(|error| {
        let code = match &error {
            MeasureError::Closed(_) => Code::Unreachable,
            MeasureError::Socket { error, .. } => code_of(error),
        };
        Failure::new(code, error.to_string())
    })?;
    let json = || json!(RttResults::Stamp(stamp_results(&measured, rtts.results(target))));
    let as_text = || as_text(&measured, rtts.as_lines(target));
    output::answer(options.json, json, as_text)?;
    finished?;
    check_whole(&stop)?;
    if measured.counts.answered == 0 {
        let message = format!(
            "no reply to {} packets: no reflector listens at {target}, it has another key, or a \
             firewall drops them",
            measured.counts.sent
        );
        return Err(Failure::new(Code::Unreachable, message));
    }
    Ok(())
}

fn by_apdu(options: &Rtt, target: SocketAddr) -> Result<(), Failure> {
    /// Padding of P5's longer APDU.
    const PADDING: u16 = 999;
    let refuse = |message: &str| Err(Failure::input(message));
    if ![0, PADDING].contains(&options.padding) {
        return refuse("an APDU has 25 or 1024 bytes: use --padding 0 or --padding 999");
    }
    let is_of_stamp = options.stamp_key.is_some() || options.answer_dscp.is_some();
    if options.dscp != 0 || is_of_stamp || options.identifier != 0 {
        return refuse(
            "--dscp, --answer-dscp, --identifier and --stamp-key are not options of --protocol apdu",
        );
    }
    if options.device.is_some() && !target.ip().is_multicast() {
        return refuse("--device is supported only with a multicast group: leave it out");
    }
    if target.ip().is_multicast() && options.transport == apdu::Transport::Tcp {
        return refuse("TCP has no multicast; use --transport udp");
    }
    if target.ip().is_multicast() && options.padding != 0 {
        return refuse("a multicast APDU has 11 bytes and no padding: leave --padding out");
    }
    let settings = apdu::Settings {
        target,
        transport: options.transport,
        is_padded: options.padding == PADDING,
        packets: options.packets(),
        interval: options.pause(),
        timeout: options.timeout,
        device: options.device.clone(),
    };
    let stop = interruptions()?;
    let mut rtts = Rtts::new(options)?;
    let members = apdu::measure(&settings, &stop, &mut |from, ns| rtts.add(from, ns));
    let finished = rtts.finish();
    let members = members.map_err(|error| {
        let code = match &error {
            apdu::MeasureError::Closed { .. } => Code::Unreachable,
            apdu::MeasureError::Socket { error, .. } => code_of(error),
        };
        Failure::new(code, error.to_string())
    })?;
    let json = || {
        let members = members.iter().map(|(&from, counts)| apdu_results(from, counts, &rtts));
        json!(RttResults::Apdu(members.collect()))
    };
    let text = || members.iter().map(|(&from, counts)| apdu_as_text(from, counts, &rtts)).collect();
    output::answer(options.json, json, text)?;
    finished?;
    check_whole(&stop)?;
    if members.values().all(|counts| counts.answered == 0) {
        let message = format!(
            "no reply from {target}: start `fabricmark agent --apdu` there, with --apdu-group for a \
             multicast and with --allow for other hosts"
        );
        return Err(Failure::new(Code::Unreachable, message));
    }
    Ok(())
}

fn apdu_results(from: SocketAddr, counts: &apdu::ApduCounts, rtts: &Rtts) -> ApduResults {
    ApduResults {
        from,
        sent: counts.sent,
        answered: counts.answered,
        lost: counts.sent - counts.answered.min(counts.sent),
        duplicates: counts.duplicates,
        reordered: counts.reordered,
        implausible: counts.implausible,
        unknown: counts.unknown,
        clock_read_ns: clock::facts().read_cost_ns,
        rtt: rtts.results(from),
    }
}

fn apdu_as_text(from: SocketAddr, counts: &apdu::ApduCounts, rtts: &Rtts) -> String {
    let lost = counts.sent - counts.answered.min(counts.sent);
    let share = 100.0 * lost as f64 / counts.sent.max(1) as f64;
    let packets =
        format!("{} sent, {} answered, {lost} lost ({share:.1} %)", counts.sent, counts.answered);
    let mut lines = vec![("from", from.to_string()), ("packets", packets)];
    for (what, count) in [
        ("duplicates", counts.duplicates),
        ("reordered", counts.reordered),
        ("implausible", counts.implausible),
        ("unknown", counts.unknown),
    ] {
        if count > 0 {
            lines.push((what, count.to_string()));
        }
    }
    lines.extend(rtts.as_lines(from));
    let cost_ns = clock::facts().read_cost_ns;
    lines.push(("clock", format!("CLOCK_MONOTONIC, four readings of {cost_ns:.0} ns")));
    lines.into_iter().map(|(what, value)| format!("{what:<15} {value}\n")).collect()
}

fn stamp_results(measured: &Measured, rtt: HostRtts) -> StampResults {
    let Measured { counts, forward, backward, .. } = measured;
    let delays = |&Spread { min_ns, mean_ns, max_ns }: &Spread| Delays { min_ns, mean_ns, max_ns };
    let one_way = measured.one_way.as_ref().map(|ways| OneWay {
        answers: ways.answers,
        forward: delays(&ways.forward),
        backward: delays(&ways.backward),
        uncertainty_ns: ways.uncertainty,
        sender_synchronised: ways.is_sender_synchronised,
        reflector_synchronised: ways.is_reflector_synchronised,
    });
    StampResults {
        counts: *counts,
        rtt,
        one_way,
        ttl: BothWays { forward: forward.ttl.clone(), backward: backward.ttl.clone() },
        traffic_class: BothWays {
            forward: forward.traffic_class.clone(),
            backward: backward.traffic_class.clone(),
        },
    }
}

fn min_mean_max(min_ns: f64, mean_ns: f64, max_ns: f64) -> String {
    format!("min {}, mean {}, max {}", us(min_ns), us(mean_ns), us(max_ns))
}

fn as_text(measured: &Measured, rtt: Vec<(&'static str, String)>) -> String {
    let Measured { counts, .. } = measured;
    let share = 100.0 * counts.lost as f64 / counts.sent.max(1) as f64;
    let (sent, answered, lost) = (counts.sent, counts.answered, counts.lost);
    let packets = format!("{sent} sent, {answered} answered, {lost} lost ({share:.1} %)");
    let mut lines = vec![("packets", packets)];
    for (what, count) in [
        ("late", counts.late),
        ("duplicates", counts.duplicates),
        ("reordered", counts.reordered),
        ("implausible", counts.implausible),
    ] {
        if count > 0 {
            lines.push((what, count.to_string()));
        }
    }
    lines.extend(rtt);
    let spread =
        |spread: &Spread| min_mean_max(spread.min_ns as f64, spread.mean_ns, spread.max_ns as f64);
    match &measured.one_way {
        Some(ways) => {
            lines.push(("forward", spread(&ways.forward)));
            lines.push(("backward", spread(&ways.backward)));
            lines.push(("uncertainty", us(ways.uncertainty.0 as f64)));
        }
        None if answered > 0 => {
            lines.push((
                "one-way delay",
                "not shown: the clocks of the ends are not synchronised \
                                          to UTC"
                    .to_owned(),
            ));
        }
        None => {}
    }
    let list =
        |values: &BTreeSet<u8>| values.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    if answered > 0 {
        let (there, here) = (list(&measured.forward.ttl), list(&measured.backward.ttl));
        lines.push(("TTL on arrival", format!("{there} at the reflector, {here} here")));
    }
    lines.into_iter().map(|(what, value)| format!("{what:<15} {value}\n")).collect()
}
