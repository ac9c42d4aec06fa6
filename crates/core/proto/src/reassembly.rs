//! Reassembly of requests that consist of several payloads, at the server.
//!
//! Payloads are numbered from 0 across requests: request `n` of `k` payloads has the numbers from `n * k` to below
//! `n * k + k`. Ordered transports need no numbers. Datagrams carry them: one of an earlier request is late and
//! ignored, one of a later request means that the client has given up the earlier one.

use crate::sequence::ahead;

/// State of the request that is being received.
#[derive(Debug)]
pub struct Reassembly {
    /// Payloads per request.
    payloads: u32,
    /// Number of the first payload of this request.
    first: u64,
    arrived: u32,
    /// Bitmap of the datagrams of this request that have arrived.
    seen: Vec<u64>,
}

impl Reassembly {
    /// For requests of `payloads` payloads, at least 1.
    pub fn new(payloads: u32) -> Self {
        let words = if payloads > 1 { payloads.div_ceil(64) } else { 0 };
        Self { payloads, first: 0, arrived: 0, seen: vec![0; words as usize] }
    }

    /// Adds the next payload of an ordered transport; returns its number if it completes the request.
    pub fn arrive_in_order(&mut self) -> Option<u64> {
        if self.payloads == 1 {
            let number = self.first;
            self.first += 1;
            return Some(number);
        }
        self.arrived += 1;
        self.whole()
    }

    /// Adds a datagram by the low 32 bits of its number; returns the last number of the request when that is
    /// complete.
    ///
    /// With one payload per request, each datagram completes a request, whatever arrived before: requests may be
    /// reordered, and duplicates are answered again.
    pub fn arrive(&mut self, carried: u64) -> Option<u64> {
        if self.payloads == 1 {
            return Some(carried);
        }
        let number = self.first.checked_add_signed(ahead(carried, self.first))?;
        let place = number.checked_sub(self.first)?;
        let payloads = u64::from(self.payloads);
        if place >= payloads {
            self.begin(number - number % payloads);
        }
        let place = number - self.first;
        let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
        if self.seen[word] & bit != 0 {
            return None;
        }
        self.seen[word] |= bit;
        self.arrived += 1;
        self.whole()
    }

    fn whole(&mut self) -> Option<u64> {
        if self.arrived < self.payloads {
            return None;
        }
        let next = self.first + u64::from(self.payloads);
        self.begin(next);
        Some(next - 1)
    }

    fn begin(&mut self, first: u64) {
        self.first = first;
        self.arrived = 0;
        self.seen.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Last payload numbers of the requests that these arrivals complete.
    fn whole(payloads: u32, arrivals: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut reassembly = Reassembly::new(payloads);
        arrivals.into_iter().filter_map(|number| reassembly.arrive(number)).collect()
    }

    #[test]
    fn a_request_is_whole_when_each_of_its_payloads_is_there() {
        for (payloads, arrivals, expected) in [
            (3, &[0, 1, 2, 3, 4, 5][..], &[2, 5][..]),
            // Reordered.
            (3, &[2, 0, 1], &[2]),
            // A duplicate does not count.
            (3, &[0, 1, 1], &[]),
            (3, &[0, 1, 1, 2], &[2]),
            // 1 is lost: the second request begins, and a late 1 is ignored.
            (3, &[0, 2, 3, 1, 4, 5], &[5]),
            // The first two requests are lost completely.
            (3, &[7, 6, 8], &[8]),
            // All payloads of a completed request are late.
            (3, &[0, 1, 2, 0, 1, 2, 3, 4, 5], &[2, 5]),
            // A single datagram is a request, in any order, each time that it arrives.
            (1, &[0, 2, 1, 1], &[0, 2, 1, 1]),
        ] {
            assert_eq!(whole(payloads, arrivals.iter().copied()), expected, "{arrivals:?}");
        }
    }

    #[test]
    fn payloads_in_order_need_no_number() {
        let mut reassembly = Reassembly::new(3);
        let answers: Vec<_> = (0..7).map(|_| reassembly.arrive_in_order()).collect();
        assert_eq!(answers, [None, None, Some(2), None, None, Some(5), None]);
        assert_eq!(Reassembly::new(1).arrive_in_order(), Some(0));
    }

    #[test]
    fn numbers_go_on_after_the_wrap_of_their_32_bits() {
        let first = (1 << 32) / 3 * 3;
        let mut reassembly = Reassembly::new(3);
        reassembly.begin(first);
        let carried = (first..first + 6).map(|number| number & 0xffff_ffff);
        let answers: Vec<_> = carried.filter_map(|number| reassembly.arrive(number)).collect();
        assert_eq!(answers, [first + 2, first + 5]);
    }

    proptest! {
        #[test]
        fn a_request_is_answered_once_and_only_when_it_is_whole(
            payloads in 2u32..200,
            arrivals in prop::collection::vec(0u64..1000, 0..2000),
        ) {
            let mut reassembly = Reassembly::new(payloads);
            let mut seen = std::collections::BTreeSet::new();
            let mut answered = std::collections::BTreeSet::new();
            for number in arrivals {
                seen.insert(number);
                if let Some(last) = reassembly.arrive(number) {
                    let of_it = last + 1 - u64::from(payloads)..=last;
                    prop_assert!(of_it.clone().all(|number| seen.contains(&number)));
                    prop_assert_eq!(last % u64::from(payloads), u64::from(payloads) - 1);
                    prop_assert!(answered.insert(last));
                }
            }
        }

        #[test]
        fn each_request_whose_payloads_arrive_among_themselves_is_answered(
            payloads in 1u32..200,
            requests in 1u64..10,
            seed: u64,
        ) {
            let k = u64::from(payloads);
            // The payloads of each request arrive rotated; those of every second request also backwards.
            let arrivals = (0..requests).flat_map(|request| {
                (0..k).map(move |place| {
                    let turned = (place + seed.wrapping_add(request) % k) % k;
                    request * k + if request % 2 == 0 { turned } else { k - 1 - turned }
                })
            });
            let expected: Vec<u64> = if payloads == 1 {
                (0..requests).collect()
            } else {
                (1..=requests).map(|request| request * k - 1).collect()
            };
            prop_assert_eq!(whole(payloads, arrivals), expected);
        }
    }
}
