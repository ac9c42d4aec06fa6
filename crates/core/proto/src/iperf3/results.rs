//! Results of one end: the second JSON block.

use serde_json::{Map, Value, json};

use super::STREAMS_MAX;
use super::reader::{Malformed, Reader, fraction, integer, text};

/// Longest block of results in bytes: 256 streams take 65 KB. The server's text output, maybe longer, is not
/// requested.
pub(super) const RESULTS_BYTES_MAX: usize = 256 << 10;

/// Results of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// CPU utilization in percent: total, user, system.
    pub cpu_percent: [f64; 3],
    /// Whether this end counts retransmissions; `None` at an end that sends nothing.
    pub has_retransmits: Option<bool>,
    /// Congestion control in use.
    pub congestion: Option<String>,
    /// Results of each stream.
    pub streams: Vec<StreamResults>,
}

/// Results of one stream at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResults {
    /// ID of the stream, see [`super::stream_id`].
    pub id: u32,
    /// Application bytes, without the omitted part.
    pub bytes: u64,
    /// Retransmitted segments, at a sender that counts them.
    pub retransmits: Option<u64>,
    /// Interarrival jitter in seconds (RFC 3550), at a receiver of datagrams.
    pub jitter_s: f64,
    /// Lost datagrams, omitted part included.
    pub errors: u64,
    /// Datagrams sent at a sender, highest counter at a receiver; omitted part included.
    pub packets: u64,
    /// Datagrams lost in the omitted part; `None` from old versions.
    pub omitted_errors: Option<u64>,
    /// Datagrams of the omitted part; `None` from old versions.
    pub omitted_packets: Option<u64>,
    /// Length of the measured part in seconds; `None` from versions before 3.2.
    pub duration_s: Option<f64>,
}

impl StreamResults {
    /// Datagrams received, without the omitted part.
    pub fn received(&self) -> u64 {
        self.packets.saturating_sub(self.omitted_packets.unwrap_or(0)).saturating_sub(self.lost())
    }

    /// Datagrams lost, without the omitted part.
    pub fn lost(&self) -> u64 {
        self.errors.saturating_sub(self.omitted_errors.unwrap_or(0))
    }

    fn emit(&self) -> Value {
        json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(-1, u64::cast_signed),
            "jitter": self.jitter_s,
            "errors": self.errors,
            "omitted_errors": self.omitted_errors.unwrap_or(0),
            "packets": self.packets,
            "omitted_packets": self.omitted_packets.unwrap_or(0),
            "start_time": 0,
            "end_time": self.duration_s.unwrap_or(0.0),
        })
    }

    fn parse(object: &Map<String, Value>) -> Result<Self, Malformed> {
        let count = |key| integer(object, key).map(|count| u64::try_from(count).ok());
        let needed = |key| Ok(count(key).ok_or(Malformed)?.unwrap_or(0));
        let times = fraction(object, "start_time").zip(fraction(object, "end_time"));
        Ok(Self {
            id: u32::try_from(needed("id")?).map_err(|_| Malformed)?,
            bytes: needed("bytes")?,
            retransmits: count("retransmits").ok_or(Malformed)?,
            jitter_s: fraction(object, "jitter").ok_or(Malformed)?,
            errors: needed("errors")?,
            packets: needed("packets")?,
            omitted_errors: count("omitted_errors").flatten(),
            omitted_packets: count("omitted_packets").flatten(),
            duration_s: times
                .map(|(start, end)| end - start)
                .filter(|length| (0.0..f64::INFINITY).contains(length)),
        })
    }
}

impl Results {
    /// Consumes the next results block, once it is complete.
    pub(super) fn next(input: &mut Reader) -> Result<Option<Self>, Malformed> {
        input.block(RESULTS_BYTES_MAX)?.map(|block| Self::parse(&block)).transpose()
    }

    /// Serializes to JSON, without the length prefix.
    pub fn emit(&self) -> Vec<u8> {
        let [total, user, system] = self.cpu_percent;
        let streams: Vec<Value> = self.streams.iter().map(StreamResults::emit).collect();
        let mut object = json!({
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": self.has_retransmits.map_or(-1, i64::from),
            "streams": streams,
        });
        if let Some(congestion) = &self.congestion {
            object["congestion_used"] = congestion.as_str().into();
        }
        object.to_string().into_bytes()
    }

    /// Parses the other end's results; keys that iperf3 requires must be present.
    pub fn parse(json: &[u8]) -> Result<Self, Malformed> {
        let object: Map<String, Value> = serde_json::from_slice(json).map_err(|_| Malformed)?;
        let percent = |key| fraction(&object, key).ok_or(Malformed);
        let [total, user, system] =
            ["cpu_util_total", "cpu_util_user", "cpu_util_system"].map(percent);
        let streams = object.get("streams").and_then(Value::as_array).ok_or(Malformed)?;
        if streams.len() > 2 * STREAMS_MAX as usize {
            return Err(Malformed);
        }
        let stream =
            |stream: &Value| stream.as_object().ok_or(Malformed).and_then(StreamResults::parse);
        let has_retransmits = integer(&object, "sender_has_retransmits").ok_or(Malformed)?;
        Ok(Self {
            cpu_percent: [total?, user?, system?],
            has_retransmits: (has_retransmits >= 0).then_some(has_retransmits > 0),
            congestion: text(&object, "congestion_used"),
            streams: streams.iter().map(stream).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sent by a server of version 3.12 after five datagrams.
    const UDP: &[u8] = br#"{"cpu_util_total":0.39262493325376135,"cpu_util_user":0.38634293432170114,"cpu_util_system":0,"sender_has_retransmits":18446744073709551615,"streams":[{"id":1,"bytes":5000,"retransmits":18446744073709551615,"jitter":1.9845184326171877e-05,"errors":0,"packets":5,"start_time":0,"end_time":0.031824}]}"#;

    #[test]
    fn what_the_original_sent_is_read() {
        let results = Results::parse(UDP).unwrap();
        let stream = StreamResults {
            id: 1,
            bytes: 5_000,
            jitter_s: 1.9845184326171877e-05,
            packets: 5,
            duration_s: Some(0.031824),
            ..StreamResults::default()
        };
        assert_eq!(results.streams, [stream]);
        assert_eq!((results.has_retransmits, results.congestion), (None, None));
        assert_eq!(results.cpu_percent[0], 0.39262493325376135);
    }

    #[test]
    fn results_survive_the_wire() {
        let stream = StreamResults {
            id: 3,
            bytes: 1 << 40,
            retransmits: Some(7),
            errors: 2,
            packets: 9,
            omitted_errors: Some(1),
            omitted_packets: Some(3),
            duration_s: Some(1.5),
            ..StreamResults::default()
        };
        assert_eq!((stream.received(), stream.lost()), (5, 1));
        let results = Results {
            cpu_percent: [3.0, 1.0, 2.0],
            has_retransmits: Some(true),
            congestion: Some("cubic".to_owned()),
            streams: vec![stream],
        };
        assert_eq!(Results::parse(&results.emit()), Ok(results));
    }

    #[test]
    fn a_missing_key_is_refused() {
        let text = std::str::from_utf8(UDP).unwrap();
        for key in ["cpu_util_user", "sender_has_retransmits", "streams", "jitter", "packets", "id"]
        {
            let without = text.replacen(&format!("\"{key}\""), "\"other\"", 1);
            assert_eq!(Results::parse(without.as_bytes()), Err(Malformed), "{key}");
        }
    }

    #[test]
    fn a_length_beyond_all_numbers_is_none() {
        let text = std::str::from_utf8(UDP).unwrap();
        let endless = text
            .replace(r#""start_time":0"#, r#""start_time":-1.7e308"#)
            .replace(r#""end_time":0.031824"#, r#""end_time":1.7e308"#);
        let results = Results::parse(endless.as_bytes()).unwrap();
        assert_eq!(results.streams[0].duration_s, None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            let _ = Results::parse(&bytes);
            let _ = super::super::Parameters::parse(&bytes);
        }
    }
}
