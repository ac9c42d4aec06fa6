//! `fabricmark lab simulate`: simulates one TCP connection over a link in virtual time. Nothing is sent.

mod against;
mod connection;
mod print;
mod run;

use std::fs;

use fabricmark_link::LinkOptions;
use fabricmark_tcpsim::Settings;
use fabricmark_units::{BitRate, Nanos};

use crate::exit::Failure;
use crate::options::simulate::{Law, Simulate, Window};
use crate::output::answer;

use connection::{Connection, UNLIMITED};
use run::Run;

/// Prints the prediction of the model, or its difference from measurements.
pub fn simulate(options: &Simulate) -> Result<(), Failure> {
    if let Some(folder) = &options.against {
        let found = against::Answer::of(options, folder)?;
        return answer(options.json, || against::as_json(&found), || against::as_text(&found));
    }
    let runs = connections(options)?
        .into_iter()
        .map(|connection| Run::of(connection, options))
        .collect::<Result<Vec<_>, _>>()?;
    answer(options.json, || print::as_json(&runs), || print::as_text(&runs))?;
    if let Some(file) = &options.plot {
        fs::write(file, print::chart(&runs)).map_err(Failure::output(file.display()))?;
        note!("chart    {}", file.display());
    }
    Ok(())
}

/// One connection for each rate and congestion control.
fn connections(options: &Simulate) -> Result<Vec<Connection>, Failure> {
    let both: LinkOptions = options.link_options.join(" ").parse().map_err(Failure::input)?;
    if options.ecn && !both.to_string().split(' ').any(|option| option == "ecn") {
        let message =
            "--ecn has no effect: no queue of the link marks packets; add ecn and discipline=codel";
        return Err(Failure::input(message));
    }
    let rates: Vec<Option<BitRate>> = match options.rate.as_slice() {
        [] => vec![None],
        rates => rates.iter().copied().map(Some).collect(),
    };
    let mut connections = Vec::new();
    for rate in rates {
        let mut forward = both.clone();
        if let Some(BitRate(bps)) = rate {
            forward.merge(&format!("rate={bps}").parse().map_err(Failure::input)?);
        }
        let mut reverse = forward.clone();
        if let Some(others) = &options.reverse {
            reverse.merge(others);
        }
        for &law in &options.congestion {
            let settings = settings(options, law, &forward);
            let name = match rate {
                Some(rate) => format!("{rate} {}", law.word()),
                None => law.word().to_owned(),
            };
            let (forward, reverse) = (forward.clone(), reverse.clone());
            connections.push(Connection::new(name, forward, reverse, settings, options.seed)?);
        }
    }
    Ok(connections)
}

fn settings(options: &Simulate, law: Law, link: &LinkOptions) -> Settings {
    let window_bytes = match options.window {
        Some(Window::Bytes(bytes)) => bytes.0,
        Some(Window::Unlimited) => UNLIMITED,
        None => Settings::default().window_bytes,
    };
    Settings {
        window_bytes,
        initial_segments: options.initial_window.into(),
        pacing: options.pacing,
        ecn: options.ecn,
        ..connection::as_linux(law, options.hystart, options.family, link.mtu())
    }
}

/// Bytes delivered between two times. The bytes of an interval that lies partly inside count in proportion.
fn delivered(stretches: &[Stretch], from: Nanos, until: Nanos) -> f64 {
    let part = |stretch: &Stretch| {
        let inside = stretch.end.min(until).0.saturating_sub(stretch.start.max(from).0);
        let length = stretch.end.0.saturating_sub(stretch.start.0).max(1);
        stretch.bytes as f64 * inside as f64 / length as f64
    };
    stretches.iter().map(part).sum()
}

/// Bytes delivered in an interval of a connection's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: Nanos,
    end: Nanos,
    bytes: u64,
}

/// Goodput between two times, in bit/s.
fn goodput_bps(stretches: &[Stretch], from: Nanos, until: Nanos) -> f64 {
    let length_s = Nanos(until.0.saturating_sub(from.0)).as_secs_f64();
    if length_s > 0.0 { 8.0 * delivered(stretches, from, until) / length_s } else { 0.0 }
}
