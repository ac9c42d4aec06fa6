//! A record as JSON, read by the paths of docs/record.schema.json, without code of the program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::Value;

use super::point::nanos;
use super::wire::Wire;

#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(pub &'a Value);

#[derive(Clone, Copy, Debug)]
pub struct Flow<'a>(pub &'a Value);

/// The number at a path such as `/received/bytes`.
fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

/// The text at a path; empty if absent.
fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Record<'a> {
    pub fn number(&self, path: &str) -> Option<f64> {
        number(self.0, path)
    }

    pub fn text(&self, path: &str) -> &'a str {
        text(self.0, path)
    }

    pub fn figure(&self, name: &str) -> Option<f64> {
        self.number(&format!("/figures/{name}/value"))
    }

    /// A figure of this pattern's times, such as `mean_ns`: of RTTs, or of steps of ping-ping.
    pub fn time_figure(&self, name: &str) -> Option<f64> {
        let times = if self.pattern() == "ping-ping" { "step" } else { "rtt" };
        self.figure(&format!("{times}_{name}"))
    }

    pub fn flows(&self, group: &'a str) -> impl Iterator<Item = Flow<'a>> + use<'a> {
        let flows = self.0.pointer("/flows").and_then(Value::as_array);
        flows.into_iter().flatten().map(Flow).filter(move |flow| flow.text("/group") == group)
    }

    pub fn loads(&self) -> impl Iterator<Item = Flow<'a>> + use<'a> {
        self.flows("load")
    }

    pub fn pattern(&self) -> &'a str {
        self.text("/point/pattern")
    }

    pub fn transport(&self) -> &'a str {
        self.text("/point/transport")
    }

    /// Whether the pattern is a stream.
    pub fn is_stream(&self) -> bool {
        self.pattern() == "stream"
    }

    pub fn is_closed(&self) -> bool {
        self.text("/point/pace") == "closed"
    }

    /// Flows of the load in each direction.
    pub fn flow_count(&self) -> f64 {
        self.number("/point/flows").unwrap_or(1.0)
    }

    pub fn payload(&self) -> f64 {
        self.number("/point/payload_bytes").unwrap_or(0.0)
    }

    /// Bytes of a response; the payload if the pattern has no response size.
    pub fn response(&self) -> f64 {
        self.number("/point/response_bytes").unwrap_or_else(|| self.payload())
    }

    /// Maximum outstanding requests per flow.
    pub fn outstanding(&self) -> f64 {
        let asked = self.number("/point/outstanding").filter(|_| self.pattern() == "rr");
        asked.unwrap_or(1.0)
    }

    pub fn payloads_per_request(&self) -> f64 {
        let asked = || self.number("/point/outstanding").unwrap_or(64.0);
        if self.pattern() == "burst" { asked() } else { 1.0 }
    }

    /// Requested RTT in ns.
    pub fn rtt_ns(&self) -> Option<f64> {
        self.number("/point/rtt_ns")
    }

    /// Value of an option of the emulated link; empty for a switch; `None` if absent.
    pub fn word(&self, key: &str) -> Option<&'a str> {
        let words = self.text("/point/emulate").split_whitespace();
        words
            .filter_map(|word| word.split_once('=').or(Some((word, ""))))
            .find_map(|(name, value)| (name == key && value != "none").then_some(value))
    }

    pub fn word_ns(&self, key: &str) -> Option<f64> {
        self.word(key).and_then(nanos).map(|ns| ns as f64)
    }

    /// Whether packets may have random delays, duplicates or reordering.
    pub fn has_chance(&self) -> bool {
        ["jitter", "reorder", "duplicate", "coalesce"].iter().any(|key| self.word(key).is_some())
    }

    /// Whether the emulator carried the traffic.
    pub fn is_emulated(&self) -> bool {
        self.0.get("emulation").is_some_and(Value::is_object)
    }

    /// The wire, if the link is Ethernet.
    pub fn wire(&self) -> Option<Wire> {
        let family = self.number("/point/family").unwrap_or(4.0);
        Wire::of(self.text("/point/link"), family as u64)
    }

    pub fn warns(&self, kind: &str) -> bool {
        self.warning_kinds().any(|known| known == kind)
    }

    /// The kinds of its warnings, for messages.
    pub fn warnings(&self) -> String {
        self.warning_kinds().collect::<Vec<_>>().join(",")
    }

    fn warning_kinds(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let warnings = self.0.pointer("/warnings").and_then(Value::as_array);
        warnings.into_iter().flatten().map(|warning| text(warning, "/kind"))
    }

    pub fn nodes(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.0.pointer("/nodes").and_then(Value::as_array).into_iter().flatten()
    }

    /// Observed time of the end that was observed longer, in ns, including connection setup, ramp and drain. `None`
    /// for a bidirectional stream, whose record has the ends of only one direction.
    pub fn watched_ns(&self) -> Option<f64> {
        if self.text("/point/direction") == "both" {
            return None;
        }
        self.nodes().filter_map(|node| number(node, "/usage/elapsed_ns")).reduce(f64::max)
    }

    /// Maximum lateness of a packet in the emulator, in ns.
    pub fn late_ns(&self) -> f64 {
        let ways = ["forward", "reverse"].map(|way| format!("/emulation/{way}/late_max_ns"));
        ways.iter().filter_map(|path| self.number(path)).fold(0.0, f64::max)
    }

    pub fn duration_ns(&self) -> f64 {
        self.number("/duration_ns").unwrap_or(0.0)
    }
}

impl<'a> Flow<'a> {
    pub fn number(&self, path: &str) -> Option<f64> {
        number(self.0, path)
    }

    pub fn text(&self, path: &str) -> &'a str {
        text(self.0, path)
    }

    /// A count at an end, `sent` or `received`; 0 if absent.
    pub fn count(&self, end: &str, name: &str) -> f64 {
        self.number(&format!("/{end}/{name}")).unwrap_or(0.0)
    }

    /// The counted `bytes` or `calls` of an end, without ramp and tail.
    pub fn counted(&self, end: &str, name: &str) -> f64 {
        let left_out = ["ramp", "tail"].map(|part| self.count(end, &format!("{part}_{name}")));
        self.count(end, name) - left_out.iter().sum::<f64>()
    }

    /// Counted time of an end, in seconds.
    pub fn seconds(&self, end: &str) -> f64 {
        self.count(end, "elapsed_ns") / 1e9
    }

    /// The histogram at a path, with its exact sum.
    pub fn histogram(&self, path: &str) -> Option<Times> {
        let value = self.0.pointer(path).filter(|value| value.is_object())?;
        let bytes = STANDARD.decode(text(value, "/v2_base64")).ok()?;
        let counts = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
        Some(Times { counts, sum_ns: number(value, "/sum_ns")? })
    }
}

/// Times of a run, in ns.
#[derive(Clone, Debug)]
pub struct Times {
    /// Counts, with three significant digits.
    pub counts: Histogram<u64>,
    /// Exact sum in ns.
    pub sum_ns: f64,
}

impl Times {
    pub fn len(&self) -> f64 {
        self.counts.len() as f64
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.len()
    }

    /// Minimum, with the histogram's precision.
    pub fn min_ns(&self) -> f64 {
        self.counts.min() as f64
    }

    /// Maximum, with the histogram's precision.
    pub fn max_ns(&self) -> f64 {
        self.counts.max() as f64
    }

    /// A quantile, with the histogram's precision.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        self.counts.value_at_quantile(quantile) as f64
    }
}
