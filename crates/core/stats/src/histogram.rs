//! Histograms of latencies: mergeable, in a format that other tools read.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest latency that is distinguished from larger ones: 60 s.
const MAX_NS: u64 = 60_000_000_000;

/// A bucket is at most a thousandth of its values wide.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Maximum encoded size in bytes; a full histogram with the largest counts stays below 300 KB.
const MAX_ENCODED: usize = 1 << 20;

/// Maximum number of operations in an encoded histogram: ten million a second for ten months. Sums of counts stay far
/// from overflow.
const MAX_LEN: u64 = 1 << 48;

/// Bytes of a V2 header; the counts follow.
const HEADER: usize = 40;

/// Latencies in nanoseconds, from 1 ns to 60 s with three significant digits.
///
/// Quantiles have a bucket error of at most 0.1 %; the mean is exact. Allocates about 220 KB at creation.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Encoded", into = "Encoded")]
#[schemars(with = "Encoded")]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum_ns: u64,
    clamped: u64,
}

/// A histogram in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
struct Encoded {
    /// The counts in HdrHistogram's V2 format, not compressed, in base64.
    v2_base64: String,
    /// The exact sum of all latencies in nanoseconds.
    sum_ns: u64,
    /// How many latencies were longer than 60 s and are counted as 60 s.
    clamped: u64,
}

/// Why a text is not a histogram of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More than 1 MiB.
    #[error("the histogram is longer than 1 MiB")]
    TooLong,
    /// Not base64 with padding.
    #[error("the histogram is not in base64")]
    NotBase64,
    /// Not the V2 format, or another range or precision.
    #[error("not an uncompressed V2 histogram of 1 ns to 60 s with 3 digits")]
    ForeignHeader,
    /// The counts are truncated, out of range or too many.
    #[error("the counts of the histogram are damaged")]
    DamagedCounts,
    /// The sum or the clamped count contradicts the counts.
    #[error("the sum or the clamped count of the histogram contradicts its counts")]
    Contradiction,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS);
        Self { counts: counts.expect("constant bounds are valid"), sum_ns: 0, clamped: 0 }
    }

    /// Counts one latency of `ns` nanoseconds without allocation.
    ///
    /// More than 60 s counts as 60 s, but adds to the mean in full.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.clamped += u64::from(ns > MAX_NS);
    }

    /// Adds the counts of `other`, as if they had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.clamped += other.clamped;
    }

    /// The latencies recorded since `earlier`, a copy of this histogram at that time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut rest = self.clone();
        // If `earlier` is not a copy of this one, it may have more counts; then nothing is subtracted.
        if rest.counts.subtract(&earlier.counts).is_ok() {
            rest.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
            rest.clamped = self.clamped.saturating_sub(earlier.clamped);
        }
        rest
    }

    /// Number of latencies recorded.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of latencies above 60 s, counted as 60 s.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Upper end in nanoseconds of the bucket with the latency of rank `ceil(q n)`.
    ///
    /// `None` for an empty histogram and unless `0 <= q <= 1`.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let valid = !self.is_empty() && (0.0..=1.0).contains(&q);
        valid.then(|| self.counts.value_at_quantile(q))
    }

    /// Mean latency in nanoseconds, without bucket error; `None` for an empty histogram.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.len() as f64)
    }

    /// Sample standard deviation in nanoseconds, with each latency at the middle of its bucket; `None` for fewer than
    /// two.
    pub fn deviation_ns(&self) -> Option<f64> {
        let len = self.len();
        // hdrhistogram divides by n, not n - 1.
        let sample = (len as f64 / (len.max(2) - 1) as f64).sqrt();
        (len > 1).then(|| self.counts.stdev() * sample)
    }

    /// Lower end in nanoseconds of the lowest bucket in use; `None` for an empty histogram.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.counts.min())
    }

    /// Upper end in nanoseconds of the highest bucket in use; `None` for an empty histogram.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.counts.max())
    }

    /// The counts in HdrHistogram's V2 format, uncompressed, in base64.
    ///
    /// Other tools read this form. It has no exact sum; the serde form adds it.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.counts, &mut bytes)
            .expect("a vector takes all bytes, and counts stay below 2^63");
        STANDARD.encode(bytes)
    }

    /// Reads the output of [`encode`](Self::encode). The mean then has the bucket error, and no latency counts as
    /// clamped.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        if text.len() > MAX_ENCODED.div_ceil(3) * 4 {
            return Err(DecodeError::TooLong);
        }
        let bytes = STANDARD.decode(text).map_err(|_| DecodeError::NotBase64)?;
        let counts = decode_counts(&bytes)?;
        let sum_ns = (counts.mean() * counts.len() as f64) as u64;
        Ok(Self { counts, sum_ns, clamped: 0 })
    }

    /// Whether `sum_ns` is consistent with the counts, within the bucket error.
    fn is_plausible(&self, sum_ns: u64, clamped: u64) -> bool {
        let (len, sum) = (u128::from(self.len()), u128::from(sum_ns));
        let low = len * u128::from(self.min().unwrap_or(0));
        let high = len * u128::from(self.max().unwrap_or(0));
        let saturated = sum_ns == u64::MAX;
        clamped <= self.len() && (sum >= low || saturated) && (sum <= high || clamped > 0)
    }
}

/// The V2 header of all these histograms, without its length field (bytes 4 to 7).
fn header() -> Vec<u8> {
    let mut header = 0x1c84_9313_u32.to_be_bytes().to_vec();
    header.extend(0_u32.to_be_bytes());
    header.extend(u32::from(SIGNIFICANT_DIGITS).to_be_bytes());
    header.extend(1_u64.to_be_bytes());
    header.extend(MAX_NS.to_be_bytes());
    header.extend(1_f64.to_be_bytes());
    header
}

fn decode_counts(bytes: &[u8]) -> Result<hdrhistogram::Histogram<u64>, DecodeError> {
    let (head, body) = bytes.split_at_checked(HEADER).ok_or(DecodeError::ForeignHeader)?;
    // hdrhistogram would allocate for any range and length in the header.
    if [&head[..4], &head[8..]].concat() != header() {
        return Err(DecodeError::ForeignHeader);
    }
    let cut_off = head[4..8] != (body.len() as u32).to_be_bytes();
    // Nine bytes 0xff encode i64::MIN, whose negation overflows in hdrhistogram 7.6. Counts below 2^48 never have
    // more than six in a row.
    let overflows = body.windows(9).any(|window| window == [0xff; 9]);
    if cut_off || overflows {
        return Err(DecodeError::DamagedCounts);
    }
    Deserializer::new()
        .deserialize(&mut &*bytes)
        .ok()
        .filter(|counts: &hdrhistogram::Histogram<u64>| counts.len() <= MAX_LEN)
        .ok_or(DecodeError::DamagedCounts)
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    /// A summary instead of thousands of counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("len", &self.len())
            .field("sum_ns", &self.sum_ns)
            .field("clamped", &self.clamped)
            .field("min", &self.min())
            .field("max", &self.max())
            .finish()
    }
}

impl From<Histogram> for Encoded {
    fn from(histogram: Histogram) -> Self {
        Self { v2_base64: histogram.encode(), sum_ns: histogram.sum_ns, clamped: histogram.clamped }
    }
}

impl TryFrom<Encoded> for Histogram {
    type Error = DecodeError;

    fn try_from(encoded: Encoded) -> Result<Self, DecodeError> {
        let Encoded { v2_base64, sum_ns, clamped } = encoded;
        let decoded = Self::decode(&v2_base64)?;
        if !decoded.is_plausible(sum_ns, clamped) {
            return Err(DecodeError::Contradiction);
        }
        Ok(Self { sum_ns, clamped, ..decoded })
    }
}
