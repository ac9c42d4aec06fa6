//! How much each client may have sent to it: a bucket of octets for each address.

use std::collections::HashMap;
use std::net::IpAddr;

use fabricmark_units::{BitRate, Instant};

/// Octets of a full bucket: the longest datagram, so that each length may be answered, and a
/// hundred packets without extensions at once beside it.
const FULL_BYTES: u64 = 65_536 + 100 * 44;

#[derive(Debug)]
struct Bucket {
    bytes: u64,
    /// When so many were in it.
    at: Instant,
}

/// What the clients have left. As many are remembered as were allowed; one whose bucket is full again
/// makes room, since nothing is forgotten with it.
#[derive(Debug)]
pub(super) struct Allowance {
    rate: BitRate,
    clients_max: usize,
    buckets: HashMap<IpAddr, Bucket>,
}

impl Allowance {
    pub(super) fn new(rate: BitRate, clients_max: usize) -> Self {
        Self { rate, clients_max, buckets: HashMap::new() }
    }

    /// Takes octets from the bucket of a client; says whether there were so many.
    pub(super) fn take(&mut self, client: IpAddr, bytes: usize, now: Instant) -> bool {
        let rate = self.rate;
        if !self.buckets.contains_key(&client) && self.buckets.len() >= self.clients_max {
            self.buckets.retain(|_, bucket| bucket.filled(rate, now) < FULL_BYTES);
            if self.buckets.len() >= self.clients_max {
                return false;
            }
        }
        let bucket = self.buckets.entry(client).or_insert(Bucket { bytes: FULL_BYTES, at: now });
        let Some(rest) = bucket.filled(rate, now).checked_sub(bytes as u64) else { return false };
        *bucket = Bucket { bytes: rest, at: now };
        true
    }
}

impl Bucket {
    fn filled(&self, BitRate(rate): BitRate, now: Instant) -> u64 {
        let ns = (now - self.at).0;
        let more = u128::from(rate) * u128::from(ns) / 8_000_000_000;
        let filled = u128::from(self.bytes).saturating_add(more);
        u64::try_from(filled).unwrap_or(u64::MAX).min(FULL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_units::Nanos;

    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    #[test]
    fn a_client_gets_a_full_bucket_and_then_its_rate() {
        let mut allowance = Allowance::new(BitRate(8_000_000), 2);
        assert!(allowance.take(client(1), FULL_BYTES as usize, at(0)));
        assert!(!allowance.take(client(1), 1, at(0)));
        assert!(allowance.take(client(2), 1, at(0)), "each client has its own");
        assert!(allowance.take(client(1), 1_000, at(1)));
        assert!(!allowance.take(client(1), 1, at(1)));
        assert!(!allowance.take(client(1), FULL_BYTES as usize + 1, at(1_000_000)));
    }

    #[test]
    fn often_refused_time_is_not_lost_to_rounding() {
        let mut allowance = Allowance::new(BitRate(8), 1);
        assert!(allowance.take(client(1), FULL_BYTES as usize, at(0)));
        assert!((1..1_000).all(|ms| !allowance.take(client(1), 1, at(ms))));
        assert!(allowance.take(client(1), 1, at(1_000)));
    }

    #[test]
    fn a_client_beyond_those_allowed_waits_until_a_bucket_is_full_again() {
        let mut allowance = Allowance::new(BitRate(8_000_000), 1);
        assert!(allowance.take(client(1), 1_000, at(0)));
        assert!(!allowance.take(client(2), 1, at(0)));
        assert!(allowance.take(client(2), 1, at(1)));
    }
}
