//! Requests of one flow of an open loop: intended and actual departures, and which are unanswered. Reads no clock.

use std::collections::VecDeque;

#[derive(Debug)]
struct Request {
    number: u64,
    /// The intended departure.
    due_ns: u64,
    departed_ns: u64,
}

/// Requests without a response, oldest first.
#[derive(Debug)]
pub(super) struct Requests {
    under_way: VecDeque<Request>,
    most: usize,
    lost_after_ns: u64,
    next: u64,
    heard_ns: u64,
}

impl Requests {
    /// At most `most` are outstanding; one that is outstanding for longer than `lost_after_ns` is given up.
    pub(super) fn new(most: usize, lost_after_ns: u64) -> Self {
        Self { under_way: VecDeque::new(), most, lost_after_ns, next: 0, heard_ns: 0 }
    }

    /// Whether another request may depart.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < self.most
    }

    /// Whether every request is answered or given up.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Number of the last request that departed.
    pub(super) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// When the last response arrived; 0 before the first.
    pub(super) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Records a departure at `now_ns` that was due at `due_ns`.
    pub(super) fn depart(&mut self, due_ns: u64, now_ns: u64) {
        self.under_way.push_back(Request { number: self.next, due_ns, departed_ns: now_ns });
        self.next += 1;
    }

    /// Records a response to the request with this number, or to the oldest. Returns the time since its intended
    /// departure; `None` for a request that was given up.
    pub(super) fn answer(&mut self, number: Option<u64>, now_ns: u64) -> Option<u64> {
        self.heard_ns = now_ns;
        let place = match number {
            Some(number) => self.under_way.iter().position(|asked| asked.number == number)?,
            None => 0,
        };
        let answered = self.under_way.remove(place)?;
        Some(now_ns.saturating_sub(answered.due_ns))
    }

    /// Gives up requests that have been outstanding for too long; returns how many.
    pub(super) fn expire(&mut self, now_ns: u64) -> u64 {
        let lost = self
            .under_way
            .iter()
            .take_while(|asked| now_ns.saturating_sub(asked.departed_ns) > self.lost_after_ns)
            .count();
        self.under_way.drain(..lost);
        lost as u64
    }

    /// For how long the other end has owed a response and sent nothing.
    pub(super) fn silence_ns(&self, now_ns: u64) -> u64 {
        let since = |asked: &Request| now_ns.saturating_sub(asked.departed_ns.max(self.heard_ns));
        self.under_way.front().map_or(0, since)
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_proto::DatagramHeader;
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn latency_counts_from_the_intended_departure() {
        let mut requests = Requests::new(8, u64::MAX);
        // Due at 10 ms, departed at 13 ms, answered at 14 ms: its user has waited for 4 ms.
        requests.depart(10 * MS, 13 * MS);
        assert_eq!(requests.answer(None, 14 * MS), Some(4 * MS));
        assert_eq!(requests.heard_ns(), 14 * MS);
    }

    #[test]
    fn a_server_that_stalls_is_seen_in_every_request_of_its_stall() {
        // One request per millisecond, at most one outstanding, and one response that takes 100 ms instead of 0.1 ms:
        // a closed loop would have seen a single slow one in a thousand (coordinated omission).
        let mut requests = Requests::new(1, u64::MAX);
        let mut free_ns = 0;
        let latencies: Vec<u64> = (0..1_000)
            .map(|k| {
                let due_ns = k * MS;
                let departed_ns = due_ns.max(free_ns);
                requests.depart(due_ns, departed_ns);
                assert!(!requests.has_room());
                free_ns = departed_ns + if k == 500 { 100 * MS } else { MS / 10 };
                requests.answer(Some(k), free_ns).unwrap()
            })
            .collect();
        let slow = latencies.iter().filter(|&&ns| ns > MS).count();
        // The stall of 100 ms delays 99 departures, which are caught up with at 0.9 ms each.
        assert_eq!(slow, 110);
        assert_eq!(latencies[500], 100 * MS);
        assert_eq!(latencies[501], 99 * MS + MS / 10);
        assert_eq!(latencies[999], MS / 10);
    }

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let mut requests = Requests::new(3, u64::MAX);
        for k in 0..3 {
            requests.depart(k, k);
        }
        assert!(!requests.has_room());
        assert_eq!(requests.last(), 2);
        assert_eq!(requests.answer(Some(2), 12), Some(10));
        assert_eq!(requests.answer(None, 10), Some(10));
        assert_eq!(requests.answer(Some(7), 20), None);
        assert_eq!(requests.answer(Some(1), 11), Some(10));
        assert!(requests.is_empty());
    }

    #[test]
    fn a_request_is_lost_by_the_time_since_it_departed_not_since_it_was_due() {
        let mut requests = Requests::new(8, 200 * MS);
        requests.depart(0, 300 * MS);
        requests.depart(MS, 400 * MS);
        assert_eq!(requests.expire(500 * MS), 0);
        assert_eq!(requests.expire(501 * MS), 1);
        assert_eq!(requests.answer(None, 510 * MS), Some(509 * MS));
    }

    #[test]
    fn a_pause_of_the_schedule_is_no_silence_of_the_other_end() {
        let mut requests = Requests::new(8, u64::MAX);
        requests.depart(0, 0);
        requests.answer(None, MS);
        assert_eq!(requests.silence_ns(9_000 * MS), 0);
        requests.depart(9_000 * MS, 9_000 * MS);
        assert_eq!(requests.silence_ns(9_003 * MS), 3 * MS);
    }

    proptest! {
        /// Half of the numbers are outstanding, over a path that loses requests and keeps the order of the others,
        /// which take up to twice the time after which they are given up.
        #[test]
        fn an_answer_with_the_low_bits_of_a_number_is_that_of_its_own_request_or_of_none(
            bytes in 1usize..=2,
            path in prop::collection::vec((prop::bool::weighted(0.2), 0..=400u64), 0..2_000),
        ) {
            let bits = DatagramHeader::sequence_bits(bytes);
            let lost_after_ns = 200 * MS;
            let mut requests = Requests::new(1 << (bits - 1), lost_after_ns);
            let mut on_path: VecDeque<(u64, Vec<u8>, u64)> = VecDeque::new();
            let mut reached_ns = 0;
            for (k, (is_lost, takes_ms)) in path.into_iter().enumerate() {
                let now_ns = k as u64 * MS;
                while let Some((arrives_ns, response, due_ns)) = on_path.pop_front_if(|a| a.0 <= now_ns) {
                    requests.expire(arrives_ns);
                    let carried = DatagramHeader::parse(&response).unwrap().sequence;
                    let number = DatagramHeader::number_until(requests.last(), carried, bits);
                    if let Some(latency_ns) = requests.answer(Some(number), arrives_ns) {
                        prop_assert_eq!(latency_ns, arrives_ns - due_ns);
                    }
                }
                requests.expire(now_ns);
                if requests.has_room() {
                    requests.depart(now_ns, now_ns);
                    let mut response = vec![0; bytes];
                    DatagramHeader { sequence: requests.last(), sent_ns: 0 }.emit(&mut response);
                    if !is_lost {
                        reached_ns = reached_ns.max(now_ns + takes_ms * MS);
                        on_path.push_back((reached_ns, response, now_ns));
                    }
                }
            }
        }
    }
}
