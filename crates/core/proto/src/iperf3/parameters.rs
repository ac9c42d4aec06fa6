//! What a client asks for: the first block of JSON.

use fabricmark_units::{BitRate, Nanos};
use serde_json::{Map, Value, json};

use super::STREAMS_MAX;
use super::reader::{integer, is_true, text};
use super::state::Refusal;

/// Longest block of parameters (MAX_PARAMS_JSON_STRING).
pub(super) const PARAMETERS_BYTES_MAX: usize = 8 << 10;

/// The original's own limits (`iperf.h`).
const TIME_MAX_S: i64 = 86_400;
const OMIT_MAX_S: i64 = 600;
const BLOCK_MAX: i64 = 1 << 20;
const DATAGRAM_MIN: i64 = 16;
const DATAGRAM_MAX: i64 = 65_507;
const BUFFER_MAX: i64 = 512 << 20;
const MSS_MAX: i64 = 9 * 1024;

/// Lengths where the client names none: 128 KiB of TCP, and an Ethernet frame of UDP.
const BLOCK_DEFAULT: i64 = 128 << 10;
const DATAGRAM_DEFAULT: i64 = 1_460;

/// What carries the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `tcp`.
    Tcp,
    /// `udp`.
    Udp,
}

/// What a server allows beside the original's own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest test, the omitted part included.
    pub duration_max: Nanos,
    /// Application bits per second of all streams of a test.
    pub rate_max: BitRate,
}

/// A test as its client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// What carries the streams.
    pub kind: Kind,
    /// Seconds that do not count, before those that do.
    pub omit_s: u32,
    /// Seconds that count; 0 where an amount, or nothing, ends the test.
    pub time_s: u32,
    /// Bytes after which a sender of a direction ends; 0 for none.
    pub bytes: u64,
    /// Writes or datagrams after which it ends; 0 for none.
    pub blocks: u64,
    /// Streams in one direction.
    pub parallel: u32,
    /// Bytes of a write or datagram.
    pub block_bytes: u32,
    /// From the server to the client.
    pub is_reverse: bool,
    /// In both directions at once.
    pub is_bidirectional: bool,
    /// TCP_NODELAY.
    pub is_nodelay: bool,
    /// TCP_MAXSEG; 0 for the kernel's choice.
    pub mss: u32,
    /// Both socket buffers; 0 for the kernel's choice.
    pub window_bytes: u32,
    /// Application bits per second of each stream; 0 for no limit.
    pub rate: BitRate,
    /// The octet of the type of service.
    pub tos: u32,
    /// No packet is fragmented.
    pub is_unfragmented: bool,
    /// Counters of datagrams have 64 bits.
    pub has_wide_counters: bool,
    /// Congestion control of the streams.
    pub congestion: Option<String>,
    /// User and password, encrypted.
    pub token: Option<String>,
}

impl Default for Parameters {
    /// The original's: 10 s of one TCP stream to the server.
    fn default() -> Self {
        Self::parse(b"{}").expect("no key is required")
    }
}

impl Parameters {
    /// The JSON text, without its length.
    pub fn emit(&self) -> Vec<u8> {
        let kind = match self.kind {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
        };
        let mut object = json!({
            kind: true,
            "omit": self.omit_s,
            "time": self.time_s,
            "num": self.bytes,
            "blockcount": self.blocks,
            "parallel": self.parallel,
            "len": self.block_bytes,
            "pacing_timer": 1000,
            "client_version": "3.12",
        });
        // What is false, 0 or absent is left out.
        let flag = |is_set: bool| is_set.then(|| Value::from(true));
        let number = |number: u64| (number > 0).then(|| Value::from(number));
        for (key, value) in [
            ("reverse", flag(self.is_reverse)),
            ("bidirectional", flag(self.is_bidirectional)),
            ("nodelay", flag(self.is_nodelay)),
            ("MSS", number(self.mss.into())),
            ("window", number(self.window_bytes.into())),
            ("bandwidth", number(self.rate.0)),
            ("TOS", number(self.tos.into())),
            ("dont_fragment", number(self.is_unfragmented.into())),
            ("udp_counters_64bit", number(self.has_wide_counters.into())),
            ("congestion", self.congestion.as_deref().map(Value::from)),
            ("authtoken", self.token.as_deref().map(Value::from)),
        ] {
            if let Some(value) = value {
                object[key] = value;
            }
        }
        object.to_string().into_bytes()
    }

    /// Reads what a client sent. Keys that are absent, or of another type than the original writes, have
    /// their defaults; what is out of the original's bounds is refused by its number.
    pub fn parse(json: &[u8]) -> Result<Self, Refusal> {
        let object: Map<String, Value> =
            serde_json::from_slice(json).map_err(|_| Refusal::Parameters)?;
        let within = |key, range: std::ops::RangeInclusive<i64>, absent: i64, refusal| {
            let number = integer(&object, key).unwrap_or(absent);
            let fits = range.contains(&number);
            u32::try_from(number).ok().filter(|_| fits).ok_or(refusal)
        };
        let amount = |key| {
            let number = integer(&object, key).unwrap_or(0);
            u64::try_from(number).map_err(|_| Refusal::Parameters)
        };
        let is_set = |key| is_true(&object, key) || integer(&object, key).unwrap_or(0) != 0;
        let kind = match (is_true(&object, "tcp"), is_true(&object, "udp")) {
            _ if is_true(&object, "sctp") || is_true(&object, "mptcp") => {
                return Err(Refusal::Protocol);
            }
            (_, true) => Kind::Udp,
            _ => Kind::Tcp,
        };
        let named = integer(&object, "len").unwrap_or(0);
        let block_bytes = match (kind, named) {
            (Kind::Udp, 0) => DATAGRAM_DEFAULT,
            (Kind::Tcp, 0) => BLOCK_DEFAULT,
            (Kind::Udp, DATAGRAM_MIN..=DATAGRAM_MAX) | (Kind::Tcp, 1..=BLOCK_MAX) => named,
            (Kind::Udp, _) => return Err(Refusal::DatagramSize),
            (Kind::Tcp, _) => return Err(Refusal::BlockSize),
        };
        Ok(Self {
            kind,
            omit_s: within("omit", 0..=OMIT_MAX_S, 0, Refusal::Omit)?,
            time_s: within("time", 0..=TIME_MAX_S, 10, Refusal::Duration)?,
            bytes: amount("num")?,
            blocks: amount("blockcount")?,
            parallel: within("parallel", 1..=i64::from(STREAMS_MAX), 1, Refusal::Streams)?,
            block_bytes: block_bytes as u32,
            is_reverse: is_true(&object, "reverse"),
            is_bidirectional: is_true(&object, "bidirectional"),
            is_nodelay: is_true(&object, "nodelay"),
            mss: within("MSS", 0..=MSS_MAX, 0, Refusal::Mss)?,
            window_bytes: within("window", 0..=BUFFER_MAX, 0, Refusal::Buffer)?,
            rate: BitRate(amount("bandwidth")?),
            tos: within("TOS", 0..=255, 0, Refusal::Tos)?,
            is_unfragmented: is_set("dont_fragment"),
            has_wide_counters: is_set("udp_counters_64bit"),
            congestion: text(&object, "congestion"),
            token: text(&object, "authtoken"),
        })
    }

    /// Whether a server with such limits carries the test out.
    pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        if Nanos::from_secs(u64::from(self.omit_s) + u64::from(self.time_s)) > limits.duration_max {
            return Err(Refusal::TooLong);
        }
        let total = self.rate.0.saturating_mul(self.streams() as u64);
        if total > limits.rate_max.0 { Err(Refusal::TotalRate) } else { Ok(()) }
    }

    /// Streams in both directions together.
    pub fn streams(&self) -> usize {
        self.parallel as usize * if self.is_bidirectional { 2 } else { 1 }
    }

    /// Whether the client sends by the stream of that place. In both directions its sending streams are
    /// opened first.
    pub fn client_sends(&self, place: usize) -> bool {
        if self.is_bidirectional { place < self.parallel as usize } else { !self.is_reverse }
    }

    /// The longest that the test itself takes; nothing where an amount or the client ends it.
    pub fn duration(&self) -> Option<Nanos> {
        let ends_by_time = self.time_s > 0 && self.bytes == 0 && self.blocks == 0;
        ends_by_time.then(|| Nanos::from_secs(u64::from(self.omit_s) + u64::from(self.time_s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that iperf 3.12 sent.
    const TCP: &str = r#"{"tcp":true,"omit":0,"time":0,"num":200000,"blockcount":0,"parallel":1,"len":100000,"pacing_timer":1000,"client_version":"3.12"}"#;
    const BIDIRECTIONAL: &str = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"bidirectional":true,"len":20000,"bandwidth":1000000,"pacing_timer":1000,"client_version":"3.12"}"#;
    const UDP: &str = r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"reverse":true,"len":1000,"bandwidth":100000,"pacing_timer":1000,"client_version":"3.12"}"#;

    #[test]
    fn what_the_original_sent_is_read_and_written_again_the_same() {
        let tcp =
            Parameters { time_s: 0, bytes: 200_000, block_bytes: 100_000, ..Parameters::default() };
        let bidirectional = Parameters {
            time_s: 1,
            parallel: 2,
            is_bidirectional: true,
            block_bytes: 20_000,
            rate: BitRate(1_000_000),
            ..Parameters::default()
        };
        let udp = Parameters {
            kind: Kind::Udp,
            time_s: 1,
            is_reverse: true,
            block_bytes: 1_000,
            rate: BitRate(100_000),
            ..Parameters::default()
        };
        for (json, parameters) in [(TCP, tcp), (BIDIRECTIONAL, bidirectional), (UDP, udp)] {
            assert_eq!(Parameters::parse(json.as_bytes()).as_ref(), Ok(&parameters));
            let emitted: Value = serde_json::from_slice(&parameters.emit()).unwrap();
            assert_eq!(emitted, serde_json::from_str::<Value>(json).unwrap());
        }
    }

    #[test]
    fn keys_of_another_type_are_as_absent() {
        let json = br#"{"tcp":1,"udp":"true","time":"3","parallel":null,"reverse":1,"len":1e3,"authtoken":5}"#;
        let expected = Parameters { block_bytes: 1_000, ..Parameters::default() };
        assert_eq!(Parameters::parse(json), Ok(expected));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_the_originals_number() {
        for (json, number) in [
            (r#"{"time":86401}"#, 5),
            (r#"{"time":-1}"#, 5),
            (r#"{"parallel":129}"#, 6),
            (r#"{"parallel":0}"#, 6),
            (r#"{"len":1048577}"#, 7),
            (r#"{"udp":true,"len":15}"#, 20),
            (r#"{"udp":true,"len":65508}"#, 20),
            (r#"{"window":1e12}"#, 8),
            (r#"{"omit":601}"#, 12),
            (r#"{"TOS":256}"#, 21),
            (r#"{"MSS":9217}"#, 10),
            (r#"{"num":-1}"#, 114),
            (r#"{"sctp":true}"#, 131),
            ("[]", 114),
            ("{", 114),
        ] {
            let refusal = Parameters::parse(json.as_bytes()).unwrap_err();
            assert_eq!(refusal as i32, number, "{json}");
        }
    }

    #[test]
    fn a_server_allows_no_longer_and_no_faster_test_than_its_limits() {
        let limits = Limits { duration_max: Nanos::from_secs(10), rate_max: BitRate(1_000) };
        let asked = |json: &str| Parameters::parse(json.as_bytes()).unwrap().check(&limits);
        assert_eq!(asked(r#"{"time":10,"bandwidth":500,"parallel":2}"#), Ok(()));
        assert_eq!(asked(r#"{"time":10,"omit":1}"#), Err(Refusal::TooLong));
        assert_eq!(
            asked(r#"{"bandwidth":500,"parallel":2,"bidirectional":true}"#),
            Err(Refusal::TotalRate)
        );
        assert_eq!(
            asked(r#"{"bandwidth":9223372036854775807,"parallel":9}"#),
            Err(Refusal::TotalRate)
        );
    }
}
