//! The departures of each pace, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::iter::from_fn;

use fabricmark_plan::{Lengths, Pace, Rate, Schedule, Trace};
use fabricmark_units::{BitRate, Bytes, Nanos, Stream};
use proptest::prelude::*;

fn schedule(pace: &str, payload: u64, seed: u64) -> Schedule {
    let pace: Pace = pace.parse().unwrap();
    pace.schedule(Bytes(payload), Stream::new(seed, "pace"), None).unwrap().unwrap()
}

fn departures(pace: &str, payload: u64, count: usize) -> Vec<u64> {
    let mut schedule = schedule(pace, payload, 1);
    from_fn(|| schedule.next_departure_ns()).take(count).collect()
}

#[test]
fn a_fixed_rate_is_kept_exactly_over_a_million_departures() {
    // 8 bits at 3 Mbit/s take 2666.67 ns: a rounded interval would be 0.3 ms off after a million.
    let departures = departures("fixed:3M", 1, 1_000_001);
    for (k, &at) in departures.iter().enumerate() {
        assert_eq!(at, k as u64 * 8_000 / 3, "departure {k}");
    }
    assert_eq!(departures[1_000_000], 2_666_666_666);
}

#[test]
fn a_rate_in_payloads_does_not_depend_on_their_size() {
    assert_eq!(departures("fixed:1000/s", 64, 3), [0, 1_000_000, 2_000_000]);
    assert_eq!(departures("fixed:1000/s", 9_000, 3), [0, 1_000_000, 2_000_000]);
    assert_eq!(departures("fixed:1G", 1_250, 3), [0, 10_000, 20_000]);
}

#[test]
fn poisson_gaps_have_the_mean_the_variance_and_the_shape_of_exponential_ones() {
    // 1250 bytes at 1 Gbit/s: a mean gap of 10 us.
    let count = 1_000_000;
    let departures = departures("poisson:1G", 1_250, count);
    let gaps = || departures.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 10_000.0);
    let n = gaps().count() as f64;
    let mean = gaps().sum::<f64>() / n;
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    let longer = gaps().filter(|gap| *gap > 1.0).count() as f64 / n;
    // Five standard errors: the variance of the variance is 8/n, that of a share p is p(1-p)/n.
    assert!((mean - 1.0).abs() < 0.005, "{mean}");
    assert!((variance - 1.0).abs() < 0.0142, "{variance}");
    assert!((longer - (-1f64).exp()).abs() < 0.0025, "{longer}");
}

#[test]
fn poisson_gaps_below_a_nanosecond_keep_their_rate() {
    // A mean gap of 0.4 ns; five standard errors of a million gaps are 2000 ns.
    let last = *departures("poisson:2500000000/s", 1, 1_000_000).last().unwrap();
    assert!(last.abs_diff(400_000) < 2_000, "{last}");
}

#[test]
fn one_seed_gives_one_schedule() {
    let departures = |seed| {
        let mut schedule = schedule("poisson:1000/s", 64, seed);
        from_fn(move || schedule.next_departure_ns()).take(1_000).collect::<Vec<_>>()
    };
    assert_eq!(departures(7), departures(7));
    assert_ne!(departures(7), departures(8));
}

#[test]
fn model_100_of_p5_sends_its_file_in_four_bursts() {
    // 240,118 bytes in bursts of 62,487 bytes every 5,995 us (P5, figure 8).
    let departures = departures("burst:62487/5995us", 1, 240_118);
    let sent_at = |at| departures.iter().filter(|&&departure| departure == at).count();
    assert_eq!(sent_at(0), 62_487);
    assert_eq!(sent_at(5_995_000), 62_487);
    assert_eq!(sent_at(11_990_000), 62_487);
    assert_eq!(sent_at(17_985_000), 52_657);
}

#[test]
fn a_burst_that_is_no_multiple_of_the_payload_carries_the_difference_on() {
    // 1000 bytes a period in payloads of 400: three, two, three, two.
    let periods: Vec<u64> =
        departures("burst:1000/1us", 400, 10).iter().map(|at| at / 1_000).collect();
    assert_eq!(periods, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
    // Payloads of 2500 bytes: two in five periods.
    assert_eq!(departures("burst:1000/1us", 2_500, 5), [0, 2_000, 5_000, 7_000, 10_000]);
}

#[test]
fn a_trace_departs_as_listed_and_then_ends() {
    let trace = Trace::parse("5us\n5us\n20us\n").unwrap();
    let pace = Pace::Trace("file".to_owned());
    let mut schedule =
        pace.schedule(Bytes(64), Stream::new(1, "pace"), Some(trace)).unwrap().unwrap();
    assert_eq!(schedule.interval_ns(), 7_500);
    let listed: Vec<u64> = from_fn(|| schedule.next_departure_ns()).collect();
    assert_eq!(listed, [5_000, 5_000, 20_000]);
    assert_eq!(schedule.next_departure_ns(), None);
}

#[test]
fn the_interval_is_the_time_that_a_departure_may_take() {
    for (pace, payload, ns) in [
        ("fixed:3M", 1, 2_667),
        ("poisson:1000/s", 64, 1_000_000),
        ("burst:64KiB/10ms", 1_024, 10_000_000),
        ("burst:1000/1us", 2_500, 3_000),
        ("fixed:5000000000/s", 1, 1),
    ] {
        assert_eq!(schedule(pace, payload, 1).interval_ns(), ns, "{pace}");
    }
}

#[test]
fn the_interval_of_a_part_of_the_flows_is_as_many_times_longer() {
    let interval = |pace, payload, own| schedule(pace, payload, 1).of_turns(own, 4).interval_ns();
    assert_eq!(interval("fixed:1000/s", 64, 0..4), 1_000_000);
    assert_eq!(interval("fixed:1000/s", 64, 2..4), 2_000_000);
    assert_eq!(interval("poisson:1000/s", 64, 3..4), 4_000_000);
    // Each flow has some of the ten payloads of a burst.
    assert_eq!(interval("burst:640/1ms", 64, 0..1), 1_000_000);
    // Two payloads: each flow has one of them in every second burst.
    assert_eq!(interval("burst:128/1ms", 64, 0..1), 2_000_000);
}

#[test]
fn an_on_off_source_departs_at_its_rate_in_periods_and_pauses_between_them() {
    for lengths in ["", "/pareto"] {
        // 1,000 departures per period of 1 ms on average, then pauses of 3 ms.
        let departures = departures(&format!("on-off:1000000/s/1ms/3ms{lengths}"), 64, 400_000);
        let gaps: Vec<u64> = departures.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps.iter().all(|&gap| gap >= 999), "none is faster than the rate");
        let pauses = gaps.iter().filter(|&&gap| gap > 1_001).count();
        assert!((200..1_000).contains(&pauses), "{lengths}: {pauses} pauses");
        let mean_ns = *departures.last().unwrap() as f64 / departures.len() as f64;
        // The mean of the exponential lengths converges; that of Pareto ones has no standard error.
        if lengths.is_empty() {
            assert!((mean_ns / 4_000.0 - 1.0).abs() < 0.2, "a quarter of the rate: {mean_ns} ns");
        }
    }
}

#[test]
fn an_on_off_source_is_on_at_the_start_as_often_as_at_any_other_time() {
    let is_on = |seed| {
        let mut schedule = schedule("on-off:1000/s/1s/3s", 64, seed);
        schedule.next_departure_ns().unwrap() == 1_000_000
    };
    let on = (0..1_000).filter(|&seed| is_on(seed)).count();
    // A quarter; four standard errors are 55.
    assert!((195..=305).contains(&on), "{on}");
}

#[test]
fn a_closed_loop_intends_no_departures() {
    let schedule = Pace::Closed.schedule(Bytes(64), Stream::new(1, "pace"), None).unwrap();
    assert!(schedule.is_none());
}

#[test]
fn what_has_no_departures_is_refused() {
    let refused = |pace: Pace, payload| {
        let schedule = pace.schedule(Bytes(payload), Stream::new(1, "pace"), None);
        schedule.err().map(|error| error.to_string())
    };
    let zero = Some("a rate, a burst, a period and a payload must be above 0".to_owned());
    let trace = Pace::Trace("file".to_owned());
    assert_eq!(refused(trace, 64), Some("the departures of the trace are missing".to_owned()));
    let fixed = Pace::Fixed(Rate::PerSecond(1));
    assert_eq!(refused(fixed, 0), zero);
    let short = "on-off:1/s/1ms/1ms".parse().unwrap();
    let message = "periods of 1ms are too short for a departure every 1000000000 ns";
    assert_eq!(refused(short, 64), Some(message.to_owned()));
    for pace in [
        Pace::Fixed(Rate::Bits(BitRate(0))),
        Pace::Poisson(Rate::PerSecond(0)),
        Pace::Burst { bytes: Bytes(0), period: Nanos(1) },
        Pace::Burst { bytes: Bytes(1), period: Nanos(0) },
    ] {
        assert_eq!(refused(pace, 64), zero);
    }
}

/// A source whose periods have room for a departure on average: shorter ones take a draw for each part of a gap.
fn on_off(per_s: u64, off: u64, lengths: Lengths) -> Pace {
    let rate = Rate::PerSecond(per_s);
    Pace::OnOff { rate, on: Nanos::from_secs(1), off: Nanos(off), lengths }
}

proptest! {
    #[test]
    fn no_burst_is_off_its_bytes_by_a_payload(burst in 1u64..5_000, payload in 1u64..5_000) {
        let departures = departures(&format!("burst:{burst}/1us"), payload, 200);
        for period in 0..departures[199] / 1_000 {
            let sent = departures.iter().filter(|&&at| at <= period * 1_000).count() as u64 * payload;
            let due = (period + 1) * burst;
            prop_assert!((due..due + payload).contains(&sent), "{sent} of {due}");
        }
    }

    #[test]
    fn parts_of_the_flows_have_together_the_departures_of_all(
        pace in prop::sample::select(vec![
            "fixed:3M", "poisson:1000/s", "burst:640/1ms", "on-off:1000/s/10ms/20ms",
        ]),
        flows in 1u64..9,
        threads in 1u64..9,
        seed: u64,
    ) {
        let all: Vec<u64> = {
            let mut schedule = schedule(pace, 64, seed);
            from_fn(|| schedule.next_departure_ns()).take(100).collect()
        };
        let threads = threads.min(flows);
        let bounds: Vec<u64> = (0..=threads).map(|k| k * flows / threads).collect();
        for own in bounds.windows(2) {
            let mut part = schedule(pace, 64, seed).of_turns(own[0]..own[1], flows);
            for (k, &at) in all.iter().enumerate() {
                if (own[0]..own[1]).contains(&(k as u64 % flows)) {
                    prop_assert_eq!(part.next_departure_ns(), Some(at), "departure {}", k);
                }
            }
        }
    }

    #[test]
    fn departures_never_go_back(kind in 0..5, a in 1u64.., b in 1u64.., payload in 1u64.., seed: u64) {
        let pace = match kind {
            0 => Pace::Fixed(Rate::Bits(BitRate(a))),
            1 => Pace::Poisson(Rate::PerSecond(a)),
            2 => Pace::Burst { bytes: Bytes(a), period: Nanos(b) },
            3 => on_off(a, b, Lengths::Exponential),
            _ => on_off(a, b, Lengths::Pareto),
        };
        let stream = Stream::new(seed, "pace");
        let mut schedule = pace.schedule(Bytes(payload), stream, None).unwrap().unwrap();
        prop_assert!(schedule.interval_ns() > 0);
        let departures: Vec<u64> = from_fn(|| schedule.next_departure_ns()).take(50).collect();
        prop_assert!(departures.is_sorted());
    }
}
