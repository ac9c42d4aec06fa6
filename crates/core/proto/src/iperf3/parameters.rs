//! The client's request: the first JSON block.

use fabricmark_units::{BitRate, Nanos};
use serde_json::{Map, Value, json};

use super::STREAMS_MAX;
use super::reader::{integer, is_true, text};
use super::state::Refusal;

/// Longest block of parameters in bytes (iperf3's MAX_PARAMS_JSON_STRING).
pub(super) const PARAMETERS_BYTES_MAX: usize = 8 << 10;

/// iperf3's own limits (`iperf.h`).
const TIME_MAX_S: i64 = 86_400;
const OMIT_MAX_S: i64 = 600;
const BLOCK_MAX: i64 = 1 << 20;
const DATAGRAM_MIN: i64 = 16;
const DATAGRAM_MAX: i64 = 65_507;
const BUFFER_MAX: i64 = 512 << 20;
const MSS_MAX: i64 = 9 * 1024;

/// Default block sizes in bytes: 128 KiB over TCP, an Ethernet frame over UDP.
const BLOCK_DEFAULT: i64 = 128 << 10;
const DATAGRAM_DEFAULT: i64 = 1_460;

/// Transport protocol of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `tcp`.
    Tcp,
    /// `udp`.
    Udp,
}

/// Limits of a server, in addition to iperf3's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest test, omitted part included.
    pub duration_max: Nanos,
    /// Highest application bit rate of a test, all streams together.
    pub rate_max: BitRate,
}

/// A test as its client requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Transport protocol of the streams.
    pub kind: Kind,
    /// Seconds omitted from the results, before `time_s`.
    pub omit_s: u32,
    /// Seconds measured; 0: an amount, or nothing, ends the test.
    pub time_s: u32,
    /// Bytes after which the sender of a direction stops; 0: no limit.
    pub bytes: u64,
    /// Writes or datagrams after which it stops; 0: no limit.
    pub blocks: u64,
    /// Streams per direction.
    pub parallel: u32,
    /// Bytes per write or datagram.
    pub block_bytes: u32,
    /// The server sends.
    pub is_reverse: bool,
    /// Both ends send at once.
    pub is_bidirectional: bool,
    /// TCP_NODELAY.
    pub is_nodelay: bool,
    /// TCP_MAXSEG in bytes; 0: kernel default.
    pub mss: u32,
    /// Size of both socket buffers in bytes; 0: kernel default.
    pub window_bytes: u32,
    /// Application bit rate of each stream; 0: no limit.
    pub rate: BitRate,
    /// Type of service octet.
    pub tos: u32,
    /// Packets are sent with DF set.
    pub is_unfragmented: bool,
    /// Datagram counters have 64 bits instead of 32.
    pub has_wide_counters: bool,
    /// Congestion control of the streams; `None`: kernel default.
    pub congestion: Option<String>,
    /// User and password, encrypted; `None`: no authentication.
    pub token: Option<String>,
}

impl Default for Parameters {
    /// iperf3's: one TCP stream to the server for 10 s.
    fn default() -> Self {
        Self::parse(b"{}").expect("no key is required")
    }
}

impl Parameters {
    /// Serializes to JSON, without the length prefix.
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
        // False, 0 and absent values are omitted.
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

    /// Parses a client's request. Keys that are absent, or of another type than iperf3 writes, get their defaults;
    /// values beyond iperf3's limits are refused with its error number.
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

    /// Checks the test against a server's limits.
    pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        if Nanos::from_secs(u64::from(self.omit_s) + u64::from(self.time_s)) > limits.duration_max {
            return Err(Refusal::TooLong);
        }
        let total = self.rate.0.saturating_mul(self.streams() as u64);
        if total > limits.rate_max.0 { Err(Refusal::TotalRate) } else { Ok(()) }
    }

    /// Streams of both directions together.
    pub fn streams(&self) -> usize {
        self.parallel as usize * if self.is_bidirectional { 2 } else { 1 }
    }

    /// Whether the client sends on this stream. In a bidirectional test its sending streams are opened first.
    pub fn client_sends(&self, place: usize) -> bool {
        if self.is_bidirectional { place < self.parallel as usize } else { !self.is_reverse }
    }

    /// Length of the test, omitted part included; `None` if an amount or the client ends it.
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
