//! `fabricmark relay`: moves connections or datagrams from one address to another, and times them.

use std::io::{Write, stdout};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_relay::{
    Board, Counters, Ended, Protocol, RelayError, Settings, Stop, Times, Transfer,
};
use fabricmark_stats::Histogram;
use fabricmark_units::BitRate;
use sd_notify::NotifyState;
use serde_json::{Value, json};

use crate::addresses::{address, first_address};
use crate::command::agent::tell;
use crate::exit::{Code, Failure};
use crate::interrupt::flags;
use crate::options::relay::Relay;
use crate::rtts::us;

/// Quantiles in the output.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Relays until it is stopped; prints the counters at each SIGUSR1 and at the end.
pub fn relay(options: &Relay) -> Result<(), Failure> {
    let relay = fabricmark_relay::Relay::listen(settings(options)?)?;
    let at = relay.address().map_err(|error| {
        Failure::internal(format!("cannot read the address of the listening socket: {error}"))
    })?;
    let [drains, aborts] = flags()?;
    let stop = Stop { drains, aborts };
    let is_asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&is_asked))
        .map_err(|error| Failure::internal(format!("cannot catch SIGUSR1: {error}")))?;
    let most = relay.connections_max();
    note!("relaying {at} to {}, at most {most} connections", options.forward);
    tell(&[NotifyState::Ready]);
    let (mut is_draining, mut written) = (false, Ok(()));
    let mut look = |board: &Board<'_>| {
        tell(&[NotifyState::Watchdog]);
        if stop.drains.load(Relaxed) && !is_draining {
            is_draining = true;
            tell(&[NotifyState::Stopping]);
            let open = board.counters().open();
            if open > 0 && options.transport == Protocol::Tcp {
                note!("waiting for {open} open connections; Ctrl-C again to reset them");
            }
        }
        let ended: String = board.ended().map(|ended| line(options, &ended)).collect();
        let counters = is_asked.swap(false, Relaxed).then(|| text(options, &board.counters()));
        // Nobody may read any more; that is reported at the end and stops nothing.
        let print = || {
            let mut out = stdout().lock();
            out.write_all(ended.as_bytes())?;
            out.write_all(counters.unwrap_or_default().as_bytes())?;
            out.flush()
        };
        written = std::mem::replace(&mut written, Ok(())).and(print());
    };
    let counters = relay
        .serve(&stop, &mut look)
        .map_err(|error| Failure::new(Code::RunFailed, format!("the relay failed: {error}")))?;
    written
        .and_then(|()| stdout().write_all(text(options, &counters).as_bytes()))
        .map_err(Failure::output("standard output"))?;
    match stop.aborts.load(Relaxed) {
        true => Err(Failure::new(Code::Interrupted, "interrupted; open connections were reset")),
        false => Ok(()),
    }
}

fn settings(options: &Relay) -> Result<Settings, Failure> {
    let listen = address(&options.listen, 0)?;
    let forward = first_address(&options.forward, 0)?;
    for (name, at, text) in
        [("--listen", listen, &options.listen), ("--forward", forward, &options.forward)]
    {
        if at.port() == 0 && !text.ends_with(":0") || at.port() == 0 && name == "--forward" {
            let host = match text.parse::<Ipv6Addr>() {
                Ok(address) => format!("[{address}]"),
                Err(_) => text.trim_end_matches(":0").to_owned(),
            };
            return Err(Failure::input(format!("{name} {text} has no port: write {host}:9000")));
        }
    }
    if options.transport == Protocol::Udp && (options.log || options.line.is_some()) {
        return Err(Failure::input(
            "--log and --line are for TCP, because UDP flows have no end: leave them out",
        ));
    }
    Ok(Settings {
        protocol: options.transport,
        path: options.path,
        buffer_bytes: usize::try_from(options.buffer.0).unwrap_or(usize::MAX),
        burst: options.pace,
        threads: options.threads,
        connections_max: options.connections,
        connect_timeout: options.connect_timeout.into(),
        idle_timeout: options.idle_timeout.map(Into::into),
        drain_timeout: options.drain_timeout.into(),
        sends_proxy: options.send_proxy,
        accepts_proxy: options.accept_proxy,
        untimed_bytes: options.untimed.0,
        reports_ended: options.log,
        ..Settings::new(listen, forward)
    })
}

impl From<RelayError> for Failure {
    fn from(error: RelayError) -> Self {
        let code = match &error {
            RelayError::Invalid(_) => Code::Input,
            RelayError::Descriptors { .. } | RelayError::Ring(_) => Code::Missing,
            RelayError::Listen { .. } => Code::RunFailed,
        };
        Self::new(code, error.to_string())
    }
}

/// The line of a connection that has ended.
fn line(options: &Relay, ended: &Ended) -> String {
    if options.json {
        let transfer = |transfer: &Transfer| {
            let bps = transfer.switching_bps();
            json!({
                "bytes": transfer.bytes,
                "receives": transfer.receives,
                "receiving_ns": transfer.receiving_ns(),
                "sending_ns": transfer.sending_ns(),
                "switching_ns": transfer.switching_ns(),
                "switching_bps": bps,
                "switching_to_line": bps.zip(options.line).map(|(bps, line)| bps / line.0 as f64),
            })
        };
        let line = json!({
            "event": "connection",
            "client": ended.client.to_string(),
            "outcome": ended.outcome.key(),
            "elapsed_ns": ended.elapsed_ns,
            "upstream": transfer(&ended.upstream),
            "downstream": transfer(&ended.downstream),
        });
        return format!("{line}\n");
    }
    let transfer = |name: &str, transfer: &Transfer| match transfer.switching_ns() {
        None => format!("; {name} 0 bytes"),
        Some(ns) => {
            let bps = transfer.switching_bps().unwrap_or(0.0);
            let speed = BitRate(bps as u64);
            let ratio = options
                .line
                .map(|line| format!(" = {:.2} x the line", bps / line.0 as f64))
                .unwrap_or_default();
            format!("; {name} {} bytes in {}, {speed}{ratio}", transfer.bytes, us(ns as f64))
        }
    };
    format!(
        "{} {} after {}{}{}\n",
        ended.client,
        ended.outcome.key(),
        us(ended.elapsed_ns as f64),
        transfer("upstream", &ended.upstream),
        transfer("downstream", &ended.downstream),
    )
}

/// The counters, as text or as a line of JSON.
fn text(options: &Relay, counters: &Counters) -> String {
    if options.json { format!("{}\n", as_json(options, counters)) } else { as_text(counters) }
}

fn as_json(options: &Relay, counters: &Counters) -> Value {
    let histogram = |histogram: &Histogram| {
        let mut value = json!({
            "count": histogram.len(),
            "mean_ns": histogram.mean_ns(),
            "min_ns": histogram.min(),
            "max_ns": histogram.max(),
        });
        for (name, quantile) in QUANTILES {
            value[format!("{name}_ns")] = json!(histogram.quantile(quantile));
        }
        value
    };
    let times = |bytes: u64, times: &Times| {
        json!({
            "bytes": bytes,
            "switching": histogram(&times.switching_ns),
            "receiving": histogram(&times.receiving_ns),
            "sending": histogram(&times.sending_ns),
        })
    };
    json!({
        "event": "counters",
        "transport": if options.transport == Protocol::Tcp { "tcp" } else { "udp" },
        "path": options.path.word(),
        "buffer_bytes": options.buffer.0,
        "accepted": counters.accepted,
        "open": counters.open(),
        "ended": counters.ended,
        "reset": counters.reset,
        "refused": counters.refused,
        "idle": counters.idle,
        "rejected": counters.rejected,
        "aborted": counters.aborted,
        "exhausted": counters.exhausted,
        "dropped_datagrams": counters.dropped_datagrams,
        "unreported": counters.unreported,
        "connect": histogram(&counters.connect_ns),
        "upstream": times(counters.upstream_bytes, &counters.upstream),
        "downstream": times(counters.downstream_bytes, &counters.downstream),
    })
}

fn as_text(counters: &Counters) -> String {
    let mut states = format!("{} accepted, {} open", counters.accepted, counters.open());
    for (what, count) in [
        ("ended", counters.ended),
        ("reset", counters.reset),
        ("refused by the target", counters.refused),
        ("idle", counters.idle),
        ("without a PROXY header", counters.rejected),
        ("aborted", counters.aborted),
    ] {
        if count > 0 {
            states += &format!(", {count} {what}");
        }
    }
    let mut lines = vec![("connections", states)];
    if counters.exhausted > 0 {
        let times = counters.exhausted;
        lines.push(("", format!("descriptors or memory were missing {times} times")));
    }
    if counters.dropped_datagrams > 0 {
        lines.push(("", format!("{} datagrams dropped", counters.dropped_datagrams)));
    }
    let spread = |name: &str, histogram: &Histogram| {
        let (min, max) = (histogram.min()?, histogram.max()?);
        let of =
            |(name, quantile)| Some(format!("{name} {}", us(histogram.quantile(quantile)? as f64)));
        let quantiles = QUANTILES.into_iter().filter_map(of).collect::<Vec<_>>().join(", ");
        Some(format!("{name} min {}, {quantiles}, max {}", us(min as f64), us(max as f64)))
    };
    if let Some(connect) = spread("opened in", &counters.connect_ns) {
        lines.push(("target", connect));
    }
    for (name, bytes, times) in [
        ("upstream", counters.upstream_bytes, &counters.upstream),
        ("downstream", counters.downstream_bytes, &counters.downstream),
    ] {
        lines.push((name, format!("{bytes} bytes")));
        let spread = spread("switching time", &times.switching_ns);
        lines.extend(spread.map(|spread| ("", spread)));
    }
    lines.into_iter().map(|(what, value)| format!("{what:<12} {value}\n")).collect()
}
