//! Random points: point `k` of seed `s` is a pure function of both.

use std::collections::BTreeMap;

use fabricmark_units::Stream;

use super::point::Point;

/// Minimum and maximum rate in bit/s.
pub const RATE_BPS: (u64, u64) = (1_000_000, 10_000_000_000);
/// Maximum RTT in us.
pub const RTT_MAX_US: u64 = 500_000;
/// Maximum payload and response in bytes.
pub const PAYLOAD_MAX: u64 = 64 << 20;
/// Minimum and maximum duration of a run in ms.
pub const DURATION_MS: (u64, u64) = (10, 2_000);
/// Maximum number of flows.
pub const FLOWS_MAX: u64 = 16;

/// Maximum serialization time of a message, or of all outstanding messages, in s. Without it, most runs over slow wires
/// would be one message long. One point in thirty has no such limit.
const MESSAGE_S: f64 = 2.0;

/// Assumed rate of loopback and veth, which have no wire, in bit/s.
const NO_WIRE_BPS: u64 = 2_000_000_000;

/// Point `k` of a seed.
pub fn point(seed: u64, k: u64) -> Point {
    Drawing { stream: Stream::new(seed, &format!("point {k}")), options: BTreeMap::new() }.draw()
}

struct Drawing {
    stream: Stream,
    options: BTreeMap<String, String>,
}

impl Drawing {
    fn chance(&mut self, probability: f64) -> bool {
        self.stream.unit() < probability
    }

    /// A log-uniform integer.
    fn log(&mut self, least: u64, most: u64) -> u64 {
        let (least, most) = (least.max(1) as f64, most.max(1) as f64 + 1.0);
        let drawn = (least.ln() + self.stream.unit() * (most / least).ln()).exp();
        (drawn as u64).clamp(least as u64, most as u64 - 1)
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.stream.below(words.len() as u64) as usize]
    }

    fn weighted<'a>(&mut self, words: &[(&'a str, u64)]) -> &'a str {
        let mut at = self.stream.below(words.iter().map(|(_, weight)| weight).sum());
        for (word, weight) in words {
            if at < *weight {
                return word;
            }
            at -= weight;
        }
        words[0].0
    }

    fn put<T: ToString + ?Sized>(&mut self, name: &str, value: &T) {
        self.options.insert(name.to_owned(), value.to_string());
    }

    fn put_one_of(&mut self, name: &str, words: &[&str]) {
        let word = self.pick(words);
        self.put(name, word);
    }

    fn draw(mut self) -> Point {
        let pattern = self.weighted(&[
            ("stream", 42),
            ("rr", 22),
            ("ping-pong", 11),
            ("burst", 10),
            ("ping-ping", 7),
            ("crr", 8),
        ]);
        // Ping-ping needs a lossless transport, crr a connection.
        let has_datagrams = !matches!(pattern, "ping-ping" | "crr");
        let udp = if has_datagrams { 28 } else { 1 };
        let transport = self.weighted(&[
            ("tcp", 36),
            ("udp", udp),
            ("mptcp", 6),
            ("tls", 8),
            ("quic", 10),
            ("unix", 4),
            ("sctp", 2),
            ("null", 2),
            ("smc", 1),
            ("rsocket", 1),
            ("rc", 1),
            ("uc", 1),
            ("ud", 1),
        ]);
        let family = if self.chance(0.3) { 6 } else { 4 };
        let is_local = matches!(transport, "unix" | "null") || self.chance(0.12);
        let (target, rate_bps) =
            if is_local { ("loopback".to_owned(), NO_WIRE_BPS) } else { self.link(family) };
        let is_local = target == "loopback";
        self.put("transport", transport);
        if family == 6 {
            self.put("family", &6);
        }
        let duration_ms = self.log(DURATION_MS.0, DURATION_MS.1);
        self.put("duration", &format!("{duration_ms}ms"));
        if self.chance(0.8) {
            self.put("warm-up", "0s");
        }
        let flows = self.flows(pattern);
        let payload = self.sizes(pattern, transport, family, rate_bps, flows);
        if !is_local {
            self.impairments(target != "lab:veth");
        }
        self.pace(pattern, rate_bps, payload);
        self.socket(pattern, transport);
        self.count(duration_ms);
        Point { pattern: pattern.to_owned(), target, options: self.options }
    }

    /// A link of a lab, and its rate.
    fn link(&mut self, family: u64) -> (String, u64) {
        if self.chance(0.08) {
            return ("lab:veth".to_owned(), NO_WIRE_BPS);
        }
        if self.chance(0.02) {
            let link = self.pick(&["lab:ipoib:4X-FDR", "lab:ipoib:4X-QDR,mode=connected"]);
            return (link.to_owned(), NO_WIRE_BPS);
        }
        let rate_bps = rounded(self.log(RATE_BPS.0, RATE_BPS.1));
        let mut link = format!("lab:ethernet:{}", rate(rate_bps));
        let mtu = match self.stream.below(20) {
            0..=10 => 1500,
            11..=15 => 9000,
            16 => 1280,
            17 => 4096,
            18 => 65_535,
            _ => self.log(if family == 6 { 1280 } else { 1300 }, 16_000),
        };
        link.push_str(&format!(",mtu={mtu}"));
        if self.chance(0.1) {
            link.push_str(",vlan=1");
        }
        (link, rate_bps)
    }

    fn flows(&mut self, pattern: &str) -> u64 {
        let may_have_many = pattern != "ping-ping";
        if self.chance(if may_have_many { 0.35 } else { 0.02 }) {
            let flows = 2 + self.stream.below(FLOWS_MAX - 1);
            self.put("flows", &flows);
            return flows;
        }
        1
    }

    /// Draws payload, response and outstanding; returns the payload.
    fn sizes(
        &mut self,
        pattern: &str,
        transport: &str,
        family: u64,
        rate_bps: u64,
        flows: u64,
    ) -> u64 {
        let is_free = self.chance(1.0 / 30.0);
        let most = match transport {
            "udp" if family == 6 => 65_527,
            "udp" => 65_507,
            _ => PAYLOAD_MAX,
        };
        let mut under_way = flows;
        let has_outstanding = matches!(pattern, "rr" | "burst");
        if has_outstanding && self.chance(0.5) {
            let outstanding = self.log(1, 256);
            self.put("outstanding", &outstanding);
            under_way *= outstanding;
        } else if pattern == "burst" {
            under_way *= 64;
        }
        let in_time = MESSAGE_S * rate_bps as f64 / 8.0 / under_way as f64;
        let most = if is_free { most } else { most.min(in_time as u64).max(1) };
        let default = if pattern == "stream" { 131_072 } else { 64 };
        let payload = if self.chance(0.7) {
            let payload = self.log(1, most);
            self.put("payload", &payload);
            payload
        } else {
            default
        };
        if matches!(pattern, "rr" | "burst" | "crr") && self.chance(0.5) {
            let response = self.log(1, most);
            self.put("response", &response);
        }
        payload
    }

    /// Draws RTT and impairments of an emulated link.
    fn impairments(&mut self, has_wire: bool) {
        let rtt_us = match self.stream.below(100) {
            0..=24 => None,
            25..=39 => Some(0),
            40..=59 => Some(self.log(10, 2_000)),
            60..=89 => Some(self.log(2_000, 100_000)),
            _ => Some(self.log(100_000, RTT_MAX_US)),
        };
        if let Some(us) = rtt_us {
            self.put("rtt", &format!("{us}us"));
        }
        let mut words: Vec<String> = Vec::new();
        match self.stream.below(10) {
            _ if !has_wire => {}
            0 | 1 => words.push("queue=20p".to_owned()),
            2 => words.push("queue=50ms".to_owned()),
            3 => words.push("queue=500ms".to_owned()),
            _ => {}
        }
        match self.stream.below(10) {
            0 => words.push("loss=0.0001".to_owned()),
            1 => words.push("loss=0.001".to_owned()),
            2 => words.push("loss=0.01".to_owned()),
            _ => {}
        }
        if rtt_us.is_some_and(|us| us > 0) && self.chance(0.08) {
            let us = self.log(10, (rtt_us.unwrap_or(0) / 10).max(100));
            words.push(format!("jitter={us}us"));
            if self.chance(0.5) {
                words.push("order=free".to_owned());
            }
        }
        if self.chance(0.04) {
            let us = self.log(100, 20_000);
            words.push(format!("reorder=0.01:{us}us"));
        }
        if self.chance(0.03) {
            words.push("duplicate=0.01".to_owned());
        }
        if self.chance(0.02) {
            words.push("corrupt=0.001".to_owned());
        }
        if has_wire && self.chance(0.02) {
            words.push("discipline=codel".to_owned());
        }
        if !words.is_empty() {
            self.put("emulate", &words.join(" "));
        }
        let is_emulated = rtt_us.is_some() || !words.is_empty();
        if is_emulated && self.chance(0.25) {
            let is_single = ["loss", "jitter", "reorder", "duplicate", "corrupt", "codel"];
            let is_single =
                is_single.iter().any(|word| words.iter().any(|said| said.contains(word)));
            let levels: &[&str] =
                if is_single { &["hosts", "off"] } else { &["on", "hosts", "off"] };
            let offload = self.pick(levels);
            self.put("offload", offload);
        }
        if self.chance(0.02) {
            self.put_one_of("bus", &["pci-x:133", "pcie:1x8", "2G"]);
        }
    }

    fn pace(&mut self, pattern: &str, rate_bps: u64, payload: u64) {
        let is_paced = match pattern {
            "stream" | "rr" => self.chance(0.4),
            "ping-pong" | "crr" => self.chance(0.3),
            _ => self.chance(0.02),
        };
        if !is_paced {
            return;
        }
        // From a hundredth to 1.5 times the rate of the wire, and at most as many departures as a thread can make.
        let most_per_s = (1.5 * rate_bps as f64 / 8.0 / payload as f64).clamp(1.0, 100_000.0);
        let least_per_s = (most_per_s / 150.0).max(1.0);
        let per_s = self.log(least_per_s as u64, most_per_s as u64);
        let pace = match self.stream.below(5) {
            0 => format!("fixed:{}", rate(rounded((8 * payload * per_s).max(1000)))),
            1 => format!("fixed:{per_s}/s"),
            2 | 3 => format!("poisson:{per_s}/s"),
            _ => {
                let period_ms = self.log(1, 500);
                let bytes = (payload * per_s * period_ms / 1000).max(1);
                format!("burst:{bytes}/{period_ms}ms")
            }
        };
        self.put("pace", &pace);
        if self.chance(0.3) {
            self.put_one_of("pace-wait", &["sleep", "sleep-spin", "spin"]);
        }
    }

    fn socket(&mut self, pattern: &str, transport: &str) {
        let may_wait = !self.options.contains_key("flows") && pattern != "crr";
        if may_wait && self.chance(0.35) {
            let waits: &[&str] = match (pattern, transport) {
                ("ping-ping", _) => &["block", "spin"],
                (_, "quic") => &["block", "epoll", "spin"],
                _ => &["block", "epoll", "spin", "busy-poll"],
            };
            self.put_one_of("wait", waits);
        }
        self.path(pattern, transport);
        if matches!(transport, "tcp" | "mptcp" | "tls" | "quic") {
            self.put_one_of("congestion", &["cubic", "reno", "bbr"]);
            if self.chance(0.1) {
                self.put_one_of("nodelay", &["true", "false"]);
            }
            if self.chance(0.03) {
                let mss = self.log(100, 9000);
                self.put("mss", &mss);
            }
            if self.chance(0.03) {
                self.put("cork", "true");
            }
            if transport == "tcp" && self.chance(0.03) {
                self.put("quickack", "true");
            }
        }
        if transport == "tcp" && self.chance(0.2) {
            let has_product = self.options.get("rtt").is_some_and(|rtt| rtt != "0us");
            let least = if has_product { 0 } else { 2 };
            self.put_one_of("tcp-window", &["2bdp", "1bdp", "64KiB", "4MiB", "64MiB"][least..]);
        }
        if self.chance(0.04) {
            self.put_one_of("window", &["16KiB", "256KiB", "4MiB"]);
        }
        if pattern == "stream" {
            let direction = self.weighted(&[("forward", 6), ("reverse", 2), ("both", 2)]);
            if direction != "forward" {
                self.put("direction", direction);
            }
        } else if self.chance(0.06) {
            self.put("timestamps", "software");
        }
        if self.chance(0.04) {
            let probe = self.pick(&["probe=udp", "probe=tcp"]);
            self.put(probe, "");
        }
    }

    /// Draws a path: usually a valid one for this pattern, transport and pace, sometimes any.
    fn path(&mut self, pattern: &str, transport: &str) {
        let is_open = self.options.contains_key("pace");
        let has_flows = self.options.contains_key("flows");
        let is_stream = pattern == "stream";
        let paths: &[&str] = match transport {
            _ if self.chance(0.03) => &[
                "trunc",
                "mmsg",
                "gso",
                "zerocopy",
                "sendfile",
                "splice",
                "io-uring",
                "io-uring-zc",
            ],
            "tcp" | "udp" | "unix" if !is_stream && !is_open => &["io-uring"],
            "udp" if is_open && is_stream => &["trunc"],
            "udp" if is_stream => &["trunc", "mmsg", "gso", "io-uring", "io-uring-zc"],
            "tcp" if is_open && is_stream => &["zerocopy"],
            "tcp" if is_stream && has_flows => &["zerocopy", "io-uring", "io-uring-zc"],
            "tcp" if is_stream => {
                &["trunc", "zerocopy", "sendfile", "splice", "io-uring", "io-uring-zc"]
            }
            "unix" if is_stream => &["sendfile", "io-uring"],
            _ => return,
        };
        if self.chance(0.4) {
            self.put_one_of("path", paths);
        }
    }

    /// Draws what is counted and reported.
    fn count(&mut self, duration_ms: u64) {
        if self.chance(0.15) {
            let omit_ms = self.log(1, duration_ms);
            self.put("omit", &format!("{omit_ms}ms"));
        }
        if self.chance(0.25) {
            let parts = self.log(1, 20);
            self.put("interval", &format!("{}ms", (duration_ms / parts).max(1)));
        }
        if self.chance(0.05) && !self.options.contains_key("omit") {
            let count = self.log(1, 10_000);
            self.put("count", &count);
        } else if self.chance(0.03) && !self.options.contains_key("omit") {
            let bytes = self.log(1, 1 << 26);
            self.put("bytes", &bytes);
        }
    }
}

/// Rounds down to three significant digits and whole kbit/s.
fn rounded(bps: u64) -> u64 {
    let digits = bps.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(2)).max(1000);
    (bps / unit).max(1) * unit
}

/// Formats a rate of whole kbit/s as in a plan.
fn rate(bps: u64) -> String {
    match bps {
        _ if bps.is_multiple_of(1_000_000_000) => format!("{}G", bps / 1_000_000_000),
        _ if bps.is_multiple_of(1_000_000) => format!("{}M", bps / 1_000_000),
        _ => format!("{}K", bps / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::super::point::nanos;
    use super::super::wire::rate_bps;
    use super::*;

    #[test]
    fn a_point_is_a_function_of_seed_and_number() {
        let points = |seed| (0..200).map(|k| point(seed, k)).collect::<Vec<_>>();
        assert_eq!(points(1), points(1));
        assert_ne!(points(1), points(2));
        // A point does not depend on the points drawn before it.
        assert_eq!(point(1, 150), points(1)[150]);
    }

    #[test]
    fn points_lie_in_the_stated_ranges() {
        for k in 0..3000 {
            let point = point(3, k);
            let number = |name: &str| point.option(name).and_then(|text| text.parse::<u64>().ok());
            for size in ["payload", "response"] {
                assert!(
                    number(size).is_none_or(|bytes| (1..=PAYLOAD_MAX).contains(&bytes)),
                    "{point}"
                );
            }
            assert!(
                number("flows").is_none_or(|flows| (2..=FLOWS_MAX).contains(&flows)),
                "{point}"
            );
            let rtt = point.option("rtt").and_then(nanos);
            assert!(rtt.is_none_or(|ns| ns <= 1000 * RTT_MAX_US), "{point}");
            let ms = point.duration_ns() / 1_000_000;
            assert!((DURATION_MS.0..=DURATION_MS.1).contains(&ms), "{point}");
            if let Some(link) = point.target.strip_prefix("lab:ethernet:") {
                let bps = rate_bps(link.split(',').next().unwrap()).unwrap();
                assert!((RATE_BPS.0 as f64..=RATE_BPS.1 as f64).contains(&bps), "{point}");
            }
            let is_datagram = point.option("transport") == Some("udp");
            assert!(
                !is_datagram || number("payload").is_none_or(|bytes| bytes <= 65_527),
                "{point}"
            );
        }
    }

    #[test]
    fn every_choice_is_drawn() {
        let points: Vec<Point> = (0..3000).map(|k| point(4, k)).collect();
        let has = |name: &str, value: &str| {
            points.iter().any(|point| point.option(name).is_some_and(|given| given.contains(value)))
        };
        for transport in ["tcp", "udp", "mptcp", "tls", "quic", "unix", "sctp", "null", "rc"] {
            assert!(has("transport", transport), "{transport}");
        }
        for path in ["trunc", "mmsg", "gso", "zerocopy", "sendfile", "splice", "io-uring-zc"] {
            assert!(has("path", path), "{path}");
        }
        for word in ["queue=20p", "queue=50ms", "loss=0.0001", "loss=0.01", "jitter", "reorder"] {
            assert!(has("emulate", word), "{word}");
        }
        for pace in ["fixed:", "poisson:", "burst:"] {
            assert!(has("pace", pace), "{pace}");
        }
        for pattern in ["stream", "rr", "ping-pong", "ping-ping", "burst", "crr"] {
            assert!(points.iter().any(|point| point.pattern == pattern), "{pattern}");
        }
        for target in ["loopback", "lab:veth", "lab:ethernet", "lab:ipoib"] {
            assert!(points.iter().any(|point| point.target.starts_with(target)), "{target}");
        }
    }
}
