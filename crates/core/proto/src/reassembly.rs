//! Requests of several payloads at the server: one is whole when all its payloads are there.
//!
//! Payloads are numbered through, from 0, so that request `n` of `k` payloads has the numbers `n * k`
//! to `n * k + k - 1`. A transport that keeps the order needs no numbers. Datagrams carry theirs: one
//! of an earlier request is late and counts for nothing, one of a later request means that whoever
//! asks has given the earlier one up.

/// The payloads of the request that is arriving.
#[derive(Debug)]
pub struct Reassembly {
    /// Payloads of a request.
    payloads: u32,
    /// Number of the first payload of this request.
    first: u64,
    arrived: u32,
    /// Which datagrams of this request have arrived, a bit each.
    seen: Vec<u64>,
}

impl Reassembly {
    /// For requests of so many payloads, at least 1.
    pub fn new(payloads: u32) -> Self {
        let words = if payloads > 1 { payloads.div_ceil(64) } else { 0 };
        Self { payloads, first: 0, arrived: 0, seen: vec![0; words as usize] }
    }

    /// Notes the next payload of a transport that keeps the order; gives the number of the last payload
    /// when the request is whole.
    pub fn arrive_in_order(&mut self) -> Option<u64> {
        if self.payloads == 1 {
            let number = self.first;
            self.first += 1;
            return Some(number);
        }
        self.arrived += 1;
        self.whole()
    }

    /// Notes the datagram of this number, of which the low 32 bits count; gives the number of the last
    /// payload when the request is whole.
    ///
    /// A single datagram is a whole request, whichever was asked before: requests may overtake each
    /// other, and are answered once for each time that they arrive.
    pub fn arrive(&mut self, carried: u64) -> Option<u64> {
        if self.payloads == 1 {
            return Some(carried);
        }
        // The number nearest to the expected one (RFC 1982).
        let ahead = (carried as u32).wrapping_sub(self.first as u32) as i32;
        let number = self.first.checked_add_signed(i64::from(ahead))?;
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

    /// The last numbers of the requests that are whole after these arrivals.
    fn whole(payloads: u32, arrivals: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut reassembly = Reassembly::new(payloads);
        arrivals.into_iter().filter_map(|number| reassembly.arrive(number)).collect()
    }

    #[test]
    fn a_request_is_whole_when_each_of_its_payloads_is_there() {
        for (payloads, arrivals, expected) in [
            (3, &[0, 1, 2, 3, 4, 5][..], &[2, 5][..]),
            // In another order.
            (3, &[2, 0, 1], &[2]),
            // A duplicate is no other payload.
            (3, &[0, 1, 1], &[]),
            (3, &[0, 1, 1, 2], &[2]),
            // 1 is lost: the second request begins, and a late 1 counts for neither.
            (3, &[0, 2, 3, 1, 4, 5], &[5]),
            // The first two requests are lost altogether.
            (3, &[7, 6, 8], &[8]),
            // Of a request that is answered everything is late.
            (3, &[0, 1, 2, 0, 1, 2, 3, 4, 5], &[2, 5]),
            // A single datagram is a request, in any order, as often as it arrives.
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
            // Each request's payloads in an order of its own: a rotation, some backwards.
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
