//! A record as JSON, read by the paths of docs/record.schema.json: nothing of the program is used.

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

/// A number by its path, such as `/received/bytes`.
fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

/// A text by its path; empty where there is none.
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

    /// A figure of the times of this pattern, such as `mean_ns`: of round trips, or of steps of ping-ping.
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

    /// Whether data flows one way.
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
        self.number("/point/payload").unwrap_or(0.0)
    }

    /// Bytes of a response: as the payload where the pattern has none of its own.
    pub fn response(&self) -> f64 {
        self.number("/point/response").unwrap_or_else(|| self.payload())
    }

    /// Requests of a flow that may be under way.
    pub fn outstanding(&self) -> f64 {
        let asked = self.number("/point/outstanding").filter(|_| self.pattern() == "rr");
        asked.unwrap_or(1.0)
    }

    pub fn payloads_per_request(&self) -> f64 {
        let asked = || self.number("/point/outstanding").unwrap_or(64.0);
        if self.pattern() == "burst" { asked() } else { 1.0 }
    }

    /// The round trip that was asked for, in ns.
    pub fn rtt_ns(&self) -> Option<f64> {
        self.number("/point/rtt")
    }

    /// The value of a word of the emulated link; empty for a switch; `None` where it is not there.
    pub fn word(&self, key: &str) -> Option<&'a str> {
        let words = self.text("/point/emulate").split_whitespace();
        words
            .filter_map(|word| word.split_once('=').or(Some((word, ""))))
            .find_map(|(name, value)| (name == key && value != "none").then_some(value))
    }

    pub fn word_ns(&self, key: &str) -> Option<f64> {
        self.word(key).and_then(nanos).map(|ns| ns as f64)
    }

    /// Whether packets may be late, doubled or overtaken by chance.
    pub fn has_chance(&self) -> bool {
        ["jitter", "reorder", "duplicate", "coalesce"].iter().any(|key| self.word(key).is_some())
    }

    /// Whether the emulator carried it.
    pub fn is_emulated(&self) -> bool {
        self.0.get("emulation").is_some_and(Value::is_object)
    }

    /// The wire, where the link is an Ethernet.
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

    /// How long the longer end of the run was watched, in ns: connections, ramp and drain are in it. Of a stream
    /// both ways only one direction's ends stand in the record, so that nothing is known of the other.
    pub fn watched_ns(&self) -> Option<f64> {
        if self.text("/point/direction") == "both" {
            return None;
        }
        self.nodes().filter_map(|node| number(node, "/usage/elapsed_ns")).reduce(f64::max)
    }

    /// How much later than due the latest packet was delivered, in ns.
    pub fn late_ns(&self) -> f64 {
        let ways = ["there", "back"].map(|way| format!("/emulation/{way}/late_max_ns"));
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

    /// What an end counted, `sent` or `received`: 0 where it is absent.
    pub fn count(&self, end: &str, name: &str) -> f64 {
        self.number(&format!("/{end}/{name}")).unwrap_or(0.0)
    }

    /// What counts at an end after the ramp and before the tail: `bytes` or `calls`.
    pub fn counted(&self, end: &str, name: &str) -> f64 {
        let left_out = ["ramp", "tail"].map(|part| self.count(end, &format!("{part}_{name}")));
        self.count(end, name) - left_out.iter().sum::<f64>()
    }

    /// Seconds that an end counted.
    pub fn seconds(&self, end: &str) -> f64 {
        self.count(end, "elapsed_ns") / 1e9
    }

    /// A histogram by its path, with its exact sum.
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
    /// The counts, with three significant digits.
    pub counts: Histogram<u64>,
    /// The exact sum.
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

    /// The shortest, as exact as the histogram is.
    pub fn min_ns(&self) -> f64 {
        self.counts.min() as f64
    }

    /// The longest, as exact as the histogram is.
    pub fn max_ns(&self) -> f64 {
        self.counts.max() as f64
    }

    /// A quantile, as exact as the histogram is.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        self.counts.value_at_quantile(quantile) as f64
    }
}
