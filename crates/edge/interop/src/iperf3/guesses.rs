//! How often an address may try passwords.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fabricmark_units::{Instant, Nanos};

/// Wrong passwords of one address within [`WITHIN`], after which none of it is looked at. Each look takes up to two
/// processes of `openssl`.
const GUESSES_MAX: u32 = 10;

const WITHIN: Nanos = Nanos::from_secs(60);

/// Most addresses that are remembered: the one whose first guess is oldest is forgotten for another.
const ADDRESSES_MAX: usize = 1024;

/// Wrong passwords of each address, and when the first of them was.
#[derive(Debug, Default)]
pub(super) struct Guesses(Mutex<BTreeMap<IpAddr, (u32, Instant)>>);

impl Guesses {
    /// Checks a password by `admits`, unless the address has tried too many. It counts as wrong until it is found to be
    /// right, so that many at once are no more than one after the other; beyond [`GUESSES_MAX`] right ones at once are
    /// refused, too.
    pub fn admit(&self, now: Instant, address: IpAddr, admits: impl FnOnce() -> bool) -> bool {
        let address = host(address);
        if !self.count(now, address) {
            return false;
        }
        let is_admitted = admits();
        if is_admitted && let Some((count, _)) = self.lock().get_mut(&address) {
            *count = count.saturating_sub(1);
        }
        is_admitted
    }

    /// Counts a guess; false if the address has had its maximum.
    fn count(&self, now: Instant, address: IpAddr) -> bool {
        let mut wrong = self.lock();
        wrong.retain(|_, (_, since)| now - *since < WITHIN);
        if wrong.len() >= ADDRESSES_MAX && !wrong.contains_key(&address) {
            let oldest =
                wrong.iter().min_by_key(|(_, (_, since))| *since).map(|(&oldest, _)| oldest);
            oldest.map(|oldest| wrong.remove(&oldest));
        }
        let (count, _) = wrong.entry(address).or_insert((0, now));
        let has_more = *count < GUESSES_MAX;
        *count += u32::from(has_more);
        has_more
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, (u32, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address, or the /64 of an IPv6 address: a host has all addresses of its subnet (RFC 4291, section 2.5.4).
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0) + Nanos::from_secs(seconds)
    }

    #[test]
    fn an_address_may_guess_ten_times_a_minute_and_others_are_not_affected() {
        let guesses = Guesses::default();
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        for _ in 0..10 {
            assert!(guesses.admit(at(1), a, || true));
            assert!(!guesses.admit(at(1), a, || false));
        }
        assert!(!guesses.admit(at(2), a, || panic!("looked at the password")));
        assert!(guesses.admit(at(2), b, || true));
        assert!(guesses.admit(at(61), a, || true));
    }

    #[test]
    fn guesses_at_the_same_time_are_no_more_than_one_after_the_other() {
        let (guesses, address) = (Guesses::default(), "192.0.2.1".parse().unwrap());
        let looks = std::sync::atomic::AtomicU32::new(0);
        let all = std::sync::Barrier::new(10);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    guesses.admit(at(1), address, || {
                        looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        // None has an answer before ten have been asked.
                        all.wait();
                        false
                    })
                });
            }
        });
        assert_eq!(looks.into_inner(), 10);
    }

    #[test]
    fn a_subnet_of_ipv6_is_one_host_and_many_hosts_keep_nobody_out() {
        let guesses = Guesses::default();
        for number in 0..10u128 {
            let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) + number);
            assert!(!guesses.admit(at(1), address.into(), || false));
        }
        let last = "2001:db8::ffff".parse().unwrap();
        assert!(!guesses.admit(at(1), last, || panic!("looked at the password")));
        for number in 1..2000u128 {
            let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) + (number << 64));
            assert!(!guesses.admit(at(2), address.into(), || false));
        }
        assert_eq!(guesses.lock().len(), ADDRESSES_MAX);
        assert!(guesses.admit(at(3), "2001:db8:1::1".parse().unwrap(), || true));
    }
}
