//! Converts a point of a plan to the model's parameters.

use clap::ValueEnum;
use fabricmark_link::LinkOptions;
use fabricmark_plan::{Direction, Factor, Pace, Pattern, Point, Transport};
use fabricmark_tcpsim::Settings;
use fabricmark_units::Nanos;

use super::super::connection::{Connection, UNLIMITED, as_linux};
use crate::exit::Failure;
use crate::options::simulate::{Law, Simulate, Window};

/// Options of the point's link; `None` if no link is emulated.
fn options_of(point: &Point) -> Option<LinkOptions> {
    let shaped =
        || format!("link={}", Some(point.link).filter(|link| link.has_wire())?).parse().ok();
    point.link_options().or_else(shaped)
}

/// Maximum window of the point's connection in bytes; `None` for the kernel's autotuning.
///
/// Linux doubles the requested buffer and reserves half of it for overhead (socket(7), tcp(7)), so the requested size
/// is the size of the window.
fn window_of(point: &Point) -> Option<u64> {
    let asked = [point.window_bytes(), point.receive_buffer, point.send_buffer];
    asked.into_iter().flatten().map(|bytes| bytes.0).min()
}

/// Congestion control of the point; `None` if it is not modelled.
fn law_of(point: &Point) -> Option<Law> {
    point.congestion.as_deref().and_then(|word| Law::from_str(word, false).ok())
}

/// Why a point has no model; `None` if it has one.
pub fn why_not(point: &Point) -> Option<String> {
    if point.pattern != Pattern::Stream || point.transport != Transport::Tcp {
        return Some(format!("{} over {} is not a TCP stream", point.pattern, point.transport));
    }
    if point.flows != 1 || point.direction == Some(Direction::Both) {
        return Some("several connections are not modelled".to_owned());
    }
    if point.pace != Pace::Closed {
        return Some("a stream with a pace is not modelled".to_owned());
    }
    if law_of(point).is_none() {
        let congestion = point.congestion.as_deref().unwrap_or("none");
        return Some(format!("congestion control {congestion} is not modelled"));
    }
    if let Some(bus) = &point.bus {
        return Some(format!("the bus {bus} is not modelled"));
    }
    let Some(link) = options_of(point) else {
        return Some(format!("{} is not emulated", point.link));
    };
    let is_limited =
        link.rate_bps().is_some() || link.delay() > Nanos(0) || point.pacing_rate.is_some();
    (!is_limited).then(|| "no rate, delay or pacing limits it".to_owned())
}

/// The point as a simulated connection.
pub fn connection(options: &Simulate, name: &str, point: &Point) -> Result<Connection, Failure> {
    let (Some(forward), Some(law)) = (options_of(point), law_of(point)) else {
        return Err(Failure::input(why_not(point).unwrap_or_default()));
    };
    let mut reverse = forward.clone();
    if let Some(others) = &options.reverse {
        reverse.merge(others);
    }
    let asked = match options.window {
        Some(Window::Bytes(bytes)) => Some(bytes.0),
        Some(Window::Unlimited) => Some(UNLIMITED),
        None => None,
    };
    let linux = as_linux(law, options.hystart, point.family, forward.mtu());
    let mss = point.mss.and_then(|mss| u16::try_from(mss).ok()).unwrap_or(u16::MAX);
    let settings = Settings {
        mss_bytes: linux.mss_bytes.min(mss),
        window_bytes: window_of(point).or(asked).unwrap_or(linux.window_bytes),
        initial_segments: options.initial_window.into(),
        pacing: point.pacing_rate,
        ecn: options.ecn,
        ..linux
    };
    if settings.window_bytes < settings.mss_bytes.into() {
        return Err(Failure::input(format!("{name}: the window is smaller than a segment")));
    }
    Connection::new(name.to_owned(), forward, reverse, settings, options.seed)
}

/// Names of the points: the levels in which they differ, or the link if there is only one.
pub fn names(points: &[Point]) -> Vec<String> {
    let differs = |factor: &Factor| {
        points.iter().any(|point| point.level(*factor) != points[0].level(*factor))
    };
    let factors: Vec<Factor> = Factor::ALL.into_iter().filter(differs).collect();
    let factors = if factors.is_empty() { vec![Factor::Link] } else { factors };
    let name = |point: &Point| {
        let levels = factors.iter().map(|factor| (factor, point.level(*factor)));
        let levels = levels.filter(|(_, level)| !level.is_empty());
        levels.map(|(factor, level)| format!("{factor}={level}")).collect::<Vec<_>>().join(" ")
    };
    points.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(levels: &str) -> Option<String> {
        let levels =
            format!("pattern=stream,transport=tcp,family=4,payload=1,congestion=cubic,{levels}");
        why_not(&fabricmark_testkit::point(&levels))
    }

    #[test]
    fn a_point_that_only_the_hosts_limit_has_no_model() {
        assert_eq!(reason("link=ethernet:1G,rtt=0ms"), None);
        assert_eq!(reason("link=veth,rtt=400ms,window=1073725440"), None);
        let hosts = reason("link=veth,rtt=0ms,window=1073725440").unwrap();
        assert_eq!(hosts, "no rate, delay or pacing limits it");
        let bus = reason("link=ethernet:1G,rtt=10ms,bus=pci-x:133").unwrap();
        assert_eq!(bus, "the bus pci-x:133 is not modelled");
    }
}
