//! What `rtt --json` prints.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use fabricmark_proto::stamp::Counts;
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::rtts::HostRtts;

/// What `rtt --json` prints, by protocol. Values are in the unit that their key names; counts have no unit.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RttResults {
    /// STAMP and TWAMP-Light.
    Stamp(StampResults),
    /// Paper P5's protocol: one entry for each host that answered, or for the target.
    Apdu(Vec<ApduResults>),
    /// NTP.
    Ntp(NtpResults),
}

/// Results of STAMP or TWAMP-Light.
#[derive(Serialize, JsonSchema)]
pub struct StampResults {
    #[serde(flatten)]
    pub counts: Counts,
    /// RTTs without the time at the reflector.
    pub rtt: HostRtts,
    /// One-way delays; `null` unless both clocks follow UTC.
    pub one_way: Option<OneWay>,
    /// TTLs or hop limits on arrival.
    pub ttl: BothWays,
    /// Traffic class octets on arrival: DSCP (upper 6 bits) and ECN (lower 2).
    pub traffic_class: BothWays,
}

/// One-way delays by the clocks of both ends.
#[derive(Serialize, JsonSchema)]
pub struct OneWay {
    /// Number of replies.
    pub answers: u64,
    /// From here to the reflector.
    pub forward: Delays,
    /// From the reflector to here.
    pub backward: Delays,
    /// Largest error of both, with opposite signs.
    pub uncertainty_ns: Nanos,
    /// Whether this end's clock followed UTC at every packet.
    pub sender_synchronised: bool,
    /// Whether the reflector's clock followed UTC at every packet.
    pub reflector_synchronised: bool,
}

/// Delays; negative if the clocks differ by more than the delay.
#[derive(Serialize, JsonSchema)]
pub struct Delays {
    /// Minimum.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Maximum.
    pub max_ns: i64,
}

/// Values of a header field that occurred in each direction.
#[derive(Serialize, JsonSchema)]
pub struct BothWays {
    /// At the reflector.
    pub forward: BTreeSet<u8>,
    /// Here.
    pub backward: BTreeSet<u8>,
}

/// Results of paper P5's protocol with a host.
#[derive(Serialize, JsonSchema)]
pub struct ApduResults {
    /// Address and port of the host.
    pub from: SocketAddr,
    /// Messages sent.
    pub sent: u64,
    /// Messages that were answered.
    pub answered: u64,
    /// Messages that were not.
    pub lost: u64,
    /// Messages that arrived twice.
    pub duplicates: u64,
    /// Messages that arrived after one with a higher number.
    pub reordered: u64,
    /// Messages whose RTT would be negative, or whose frequency is 0.
    pub implausible: u64,
    /// Messages that answer none that was sent.
    pub unknown: u64,
    /// Cost of one reading of the clock; an RTT contains four.
    pub clock_read_ns: f64,
    /// RTTs.
    pub rtt: HostRtts,
}

/// Results of NTP.
#[derive(Serialize, JsonSchema)]
pub struct NtpResults {
    /// Requests sent.
    pub sent: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests without any answer.
    pub lost: u64,
    /// Packets that answer nothing.
    pub ignored: u64,
    /// Answers with a negative RTT: a clock was set.
    pub implausible: u64,
    /// Answers of a server that is not synchronised, or refuses.
    pub unsynchronised: u64,
    /// The answer with the smallest RTT.
    pub best: Option<NtpBest>,
    /// RTTs without the time at the server.
    pub rtt: HostRtts,
}

/// An answer of an NTP server.
#[derive(Serialize, JsonSchema)]
pub struct NtpBest {
    /// RTT without the time at the server.
    pub rtt_ns: i64,
    /// The server's clock minus this one.
    pub offset_ns: i64,
    /// Largest error of the offset: half of the RTT.
    pub offset_error_ns: f64,
    /// 1: the server has a reference clock; 2 to 15: it follows another server.
    pub stratum: u8,
    /// Resolution of the server's clock.
    pub precision_ns: f64,
    /// Largest error of the server's clock against its reference.
    pub root_distance_ns: f64,
}
