//! Link options: text, values and the elements they build.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_link::{
    Counters, Discipline, Distribution, Id, Invalid, Length, Limit, LinkOptions, LinkOptionsError,
    Losses, Net, Order, Packet, Port, Reason,
};
use fabricmark_units::{Instant, Nanos};
use proptest::prelude::*;

fn options(text: &str) -> LinkOptions {
    text.parse().unwrap()
}

fn refused(text: &str) -> LinkOptionsError {
    text.parse::<LinkOptions>().unwrap_err()
}

/// The error of options that parse but cannot be built.
fn unbuilt(text: &str) -> Invalid {
    match options(text).build::<u32>(1, "link") {
        Ok(_) => panic!("`{text}` was built"),
        Err(invalid) => invalid,
    }
}

/// The chain of elements of the options.
fn net(options: &LinkOptions) -> (Net<u32>, Vec<Id>) {
    let mut net = Net::new();
    let ids: Vec<Id> =
        options.build(1, "link").unwrap().into_iter().map(|element| net.add(element)).collect();
    net.chain(&ids);
    (net, ids)
}

/// Departure times and numbers of packets of 1500 bytes that arrive at instant 0, and the counters of the elements.
fn sent(text: &str, packets: u32) -> (Vec<(u64, u32)>, Vec<Counters>) {
    let (mut net, ids) = net(&options(text));
    let first: Port = (ids[0], 0);
    for number in 0..packets {
        net.arrive(Instant(0), first, Packet::new(number, Length::packet(1500)));
    }
    let mut left = Vec::new();
    while let Some(departure) = net.next(Instant(u64::MAX - 1)) {
        left.push((departure.at.0, departure.packet.payload));
    }
    (left, ids.iter().map(|&id| *net.counters(id)).collect())
}

#[test]
fn a_round_trip_is_half_in_each_direction() {
    assert_eq!(sent("rtt=400ms", 1).0, [(200_000_000, 0)]);
    assert_eq!(sent("delay=10ms", 1).0, [(10_000_000, 0)]);
    assert_eq!(options("rtt=3ns").delay(), Nanos(2));
    assert_eq!(options("").delay(), Nanos(0));
    assert!(options("").build::<u32>(1, "link").unwrap().is_empty());
}

#[test]
fn a_technology_gives_rate_framing_and_mtu() {
    // 1526 bytes of 8 ns, and a gap of 12 bytes before the second.
    assert_eq!(sent("link=ethernet:1G", 2).0, [(12_208, 0), (24_512, 1)]);
    // A VLAN tag adds 4 bytes; the rate of the framing link does not matter.
    assert_eq!(sent("rate=1G framing=ethernet:40G,vlan=1", 1).0, [(12_240, 0)]);
    assert_eq!(sent("rate=1G framing=none", 1).0, [(12_000, 0)]);
    assert_eq!(sent("rate=1G", 1).0, [(12_000, 0)]);
    assert_eq!(sent("link=ethernet:1G framing=none", 1).0, [(12_000, 0)]);
    // A slower circuit on the same interface.
    assert_eq!(sent("link=ethernet:10G rate=1G", 1).0, [(12_208, 0)]);
    for (text, mtu) in [
        ("", 1500),
        ("link=ethernet:10G,mtu=9000", 9000),
        ("link=ethernet:10G,mtu=9000 mtu=1400", 1400),
        ("link=ipoib:4X-FDR,mode=datagram", 2044),
        ("mtu=9000", 9000),
    ] {
        assert_eq!(options(text).mtu(), mtu, "{text}");
    }
}

#[test]
fn a_queue_holds_what_was_asked_for_or_a_round_trip_of_the_wire() {
    // One packet is on the wire, the others wait.
    for (text, held) in [
        ("rate=1G queue=7p", 7),
        ("rate=1G queue=15KB", 10),
        // 1 ms of 1 Gbit/s are 125,000 bytes.
        ("rate=1G queue=1ms", 83),
        ("rate=1G", 1000),
        ("rate=1G rtt=10ms", 1042),
        // 24 ms of 1 Gbit/s are 3 MB; with a quarter more, 2500 packets. Of jumbo frames that is fewer than 1000.
        ("rate=1G rtt=24ms", 2500),
        ("rate=1G delay=12ms", 2500),
        ("rate=1G rtt=24ms mtu=9000", 1000),
        // Ten leave at once and the next has started; two periods are less than the minimum queue.
        ("schedule=15000B/12ms delay=12ms", 1010),
    ] {
        let (_, counters) = sent(text, 4000);
        let dropped = counters[0].dropped(Reason::Overflow).packets;
        assert_eq!(4000 - dropped, held + 1, "{text}");
    }
}

#[test]
fn what_the_medium_loses_has_taken_its_time_on_the_wire() {
    let (left, counters) = sent("loss=every:2 rate=1G rtt=2us", 4);
    assert_eq!(left, [(13_000, 0), (37_000, 2)]);
    assert_eq!(counters[0].departed.packets, 4);
    assert_eq!(counters[1].dropped(Reason::Loss).packets, 2);
}

#[test]
fn coalescing_comes_last() {
    // Three leave the wire 12 us apart and arrive 1 us later; the host receives two at once.
    let (left, _) = sent("coalesce=2:50us rate=1G delay=1us", 3);
    assert_eq!(left, [(25_000, 0), (25_000, 1), (87_000, 2)]);
    assert_eq!(sent("coalesce=adaptive", 1).0, [(16_000, 0)]);
}

#[test]
fn every_word_makes_its_element() {
    for text in [
        "delay=1ms jitter=10us",
        "delay=1ms jitter=10us dist=pareto order=free",
        "delay=1ms jitter=0ns dist=pareto",
        "rate=10G discipline=codel:20ms,400ms ecn",
        "rate=10G discipline=red ecn queue=1MB",
        "rate=10G pause",
        "schedule=62487B/5995us queue=100p discipline=red",
        "up=10s down=1s",
        "loss=0.1%",
        "loss=ge:0.01,0.1",
        "corrupt=1e-6",
        "duplicate=0.01",
        "reorder=0.01:5ms",
        "reorder=0.01:5ms:3",
    ] {
        assert_eq!(options(text).build::<u32>(1, "link").unwrap().len(), 1, "{text}");
    }
    let all =
        "rtt=1ms rate=1G up=1s down=1s loss=0 corrupt=0 duplicate=0 reorder=0:1s coalesce=1:0ns";
    let (left, counters) = sent(all, 1);
    assert_eq!((left, counters.len()), (vec![(512_000, 0)], 8));
}

#[test]
fn a_trace_is_named_here_and_read_by_the_caller() {
    let mut link = options("trace=/traces/Verizon-LTE.up queue=100p");
    assert_eq!(link.files().collect::<Vec<_>>(), ["/traces/Verizon-LTE.up"]);
    assert_eq!(link.build::<u32>(1, "link").err(), Some(Invalid::Unread));
    assert!(link.read_files(|_| Ok("2\n1\n".to_owned())).is_err());
    let missing = link.read_files(|_| Err("it is gone".to_owned()));
    assert_eq!(missing, Err("cannot read the trace /traces/Verizon-LTE.up: it is gone".to_owned()));
    link.read_files(|_| Ok("1\n2\n".to_owned())).unwrap();
    let (mut net, ids) = net(&link);
    net.arrive(Instant(0), (ids[0], 0), Packet::new(0, Length::packet(1500)));
    assert_eq!(net.next(Instant(1_000_000_000)).unwrap().at, Instant(1_000_000));
    assert_eq!(options("rate=1G").files().next(), None);
}

#[test]
fn traces_of_delays_and_losses_hold_for_one_packet_after_the_other() {
    let mut link = options("delay=trace:d loss=trace:l order=free");
    assert_eq!(link.to_string(), "delay=trace:d order=free loss=trace:l");
    assert!(link.has_jitter() && link.needs_single_packets());
    assert_eq!(link.build::<u32>(1, "link").err(), Some(Invalid::Unread));
    let text = |file: &str| if file == "d" { "30ms\n10ms\n" } else { "010" };
    link.read_files(|file| Ok(text(file).to_owned())).unwrap();
    assert_eq!((link.delay(), link.jitter()), (Nanos::from_millis(20), None));
    let (mut net, ids) = net(&link);
    for number in 0..6 {
        net.arrive(Instant(0), (ids[0], 0), Packet::new(number, Length::packet(100)));
    }
    let mut left = Vec::new();
    while let Some(delivered) = net.next(Instant(1_000_000_000)) {
        left.push((delivered.at.0 / 1_000_000, delivered.packet.payload));
    }
    // Packets 1 and 4 are lost; those that pass have 30, 10, 30 and 10 ms.
    left.sort_unstable();
    assert_eq!(left, [(10, 2), (10, 5), (30, 0), (30, 3)]);
    assert!(unbuilt("delay=trace:d jitter=1ms").to_string().contains("not read"));
    link.merge(&options("delay=5ms"));
    assert_eq!(
        (link.to_string().as_str(), link.delay()),
        ("delay=5ms order=free loss=trace:l", Nanos::from_millis(5))
    );
}

#[test]
fn the_mean_and_the_deviation_of_a_delay_are_what_was_asked_for() {
    for text in ["delay=10ms jitter=1ms order=free", "delay=10ms jitter=1ms dist=pareto order=free"]
    {
        let delays: Vec<f64> =
            sent(text, 100_000).0.iter().map(|&(at, _)| at as f64 / 1e6).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance =
            delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        // Over 100,000 packets the mean varies by 3 us. The deviation of a Pareto of shape 11 varies by less than 3
        // %: its fourth moment is finite.
        assert!((mean - 10.0).abs() < 0.02, "{text}: {mean}");
        assert!((variance.sqrt() - 1.0).abs() < 0.03, "{text}: {variance}");
    }
}

#[test]
fn bursts_are_written_as_for_netem() {
    // p, r, h, k: to the bad state and back; a fifth of what is sent in the bad state is delivered.
    let (left, _) = sent("loss=ge:0.01,0.04,0.2,1", 200_000);
    // A fifth of the time is bad, so 16 % are lost. With bursts of 25 packets this varies by 0.4 %.
    let lost = 1.0 - left.len() as f64 / 200_000.0;
    assert!((lost - 0.16).abs() < 0.015, "{lost}");
    assert_eq!(options("loss=ge:0.01,0.1").to_string(), "loss=ge:0.01,0.1,0,1");
}

#[test]
fn a_live_change_replaces_what_it_speaks_of() {
    for (before, change, after) in [
        ("rtt=10ms rate=1G", "rtt=400ms loss=1e-6", "rtt=400ms rate=1G loss=1e-6"),
        ("rtt=10ms", "delay=1ms", "delay=1ms"),
        ("rate=1G loss=0.5", "loss=none", "rate=1G loss=none"),
        ("rate=1G", "schedule=100B/1ms", "schedule=100B/1ms"),
        // A new link brings its own rate, framing and MTU.
        (
            "rate=1G framing=ethernet:1G mtu=9000 loss=0.5",
            "link=ethernet:10G",
            "link=ethernet:10G loss=0.5",
        ),
        ("rate=1G", "link=ethernet:10G rate=2G", "link=ethernet:10G rate=2G"),
        ("link=ethernet:10G", "rate=2G", "link=ethernet:10G rate=2G"),
    ] {
        let mut options = options(before);
        options.merge(&change.parse().unwrap());
        assert_eq!(options, after.parse().unwrap(), "{before} + {change}");
    }
    let mut changed = options("rate=1G loss=1");
    changed.merge(&options("loss=none"));
    let (mut net, ids) = net(&changed);
    net.arrive(Instant(0), (ids[0], 0), Packet::new(0, Length::packet(1500)));
    assert!(net.next(Instant(1_000_000)).is_some());
}

#[test]
fn pairs_of_a_file_say_the_same_as_a_text() {
    let mut pairs = LinkOptions::default();
    for (key, value) in [("rate", "10G"), ("discipline", "codel"), ("ecn", "true")] {
        pairs.set(key, value).unwrap();
    }
    assert_eq!(pairs, options("rate=10G discipline=codel ecn"));
}

#[test]
fn options_about_single_packets_need_single_packets() {
    for (text, single) in [
        ("rtt=400ms rate=10G queue=1000p up=1s down=1s pause coalesce=64:50us", false),
        ("rate=10G discipline=drop-tail", false),
        ("loss=none", false),
        ("loss=1e-6", true),
        ("corrupt=1e-6", true),
        ("duplicate=1e-6", true),
        ("reorder=0.1:1ms", true),
        ("delay=1ms jitter=1us", true),
        ("rate=10G discipline=codel", true),
        ("rate=10G discipline=red", true),
    ] {
        assert_eq!(options(text).needs_single_packets(), single, "{text}");
    }
}

#[test]
fn a_word_that_is_refused_says_what_would_do() {
    for (text, message) in [
        ("rtr=1ms", "unknown option `rtr`: did you mean `rtt`?"),
        ("dealy=1ms", "unknown option `dealy`: did you mean `delay`?"),
        ("rtt=400", "`rtt=400`: write a time such as 400ms or 20us"),
        (
            "loss=2",
            "`loss=2`: write a share such as 1e-6 or 0.1%, ge:p,r,h,k, every:1000 or trace:FILE",
        ),
        (
            "loss=ge:0.1",
            "`loss=ge:0.1`: write a share such as 1e-6 or 0.1%, ge:p,r,h,k, every:1000 or trace:FILE",
        ),
        ("queue=1000", "`queue=1000`: write packets, bytes or a time: 1000p, 1MB or 50ms"),
        ("ecn=yes", "`ecn=yes`: write the option without a value, or none"),
        ("mtu=1279", "`mtu=1279`: write bytes from 1280 (RFC 8200) to 65535"),
        ("link=ib:4X-HDR", "`link=ib:4X-HDR`: write a link that carries IP, such as ipoib:4X-FDR"),
        ("framing=veth", "`framing=veth`: write none, or a link with a wire that carries IP"),
        ("rtt=1ms delay=2ms", "`rtt=1ms` and `delay=2ms` set the same property: give one of them"),
        ("rate=1G trace=x", "`rate=1G` and `trace=x` set the same property: give one of them"),
    ] {
        assert_eq!(refused(text).to_string(), message);
    }
    assert!(refused("colour=red").to_string().contains("use one of delay, rtt, jitter"));
    assert!(refused("link=ethernet").to_string().contains("ethernet:10G"));
}

#[test]
fn a_word_without_effect_is_refused() {
    for (text, message) in [
        (
            "queue=10p",
            "`queue` has no effect without rate, schedule, trace or link: add that, or use queue=none",
        ),
        ("jitter=1ms", "`jitter` has no effect without delay: add that, or use jitter=none"),
        (
            "delay=1ms dist=pareto",
            "`dist` has no effect without jitter: add that, or use dist=none",
        ),
        (
            "rate=1G ecn",
            "`ecn` has no effect without discipline=codel or discipline=red: add that, or use \
             ecn=none",
        ),
        ("up=1s", "`up` has no effect without down: add that, or use up=none"),
        (
            "schedule=100B/1ms pause",
            "`pause` has no effect without rate or link: add that, or use pause=none",
        ),
        (
            "link=veth queue=10p",
            "`queue` has no effect without rate, schedule, trace or link: add that, or use queue=none",
        ),
        ("rate=0", "the rate is 0: give at least 1"),
        ("delay=0ns jitter=1ms dist=pareto", "the mean of a Pareto delay is 0: give at least 1"),
    ] {
        assert_eq!(unbuilt(text).to_string(), message, "{text}");
    }
}

#[test]
fn options_have_the_wire_that_they_build() {
    let stream_bps = |text: &str| {
        let mut options: LinkOptions = text.parse().unwrap();
        options.read_files(|_| Ok("1\n2\n3\n4\n".to_owned())).unwrap();
        options.line().map(|line| line.map(|line| line.stream_bps(40, 1460)))
    };
    // A packet of 1500 bytes with 1460 of payload, and 38 bytes of Ethernet.
    assert_eq!(stream_bps("rtt=1ms"), Ok(None));
    assert_eq!(stream_bps("rate=1500K"), Ok(Some(1_460_000.0)));
    assert_eq!(stream_bps("rate=1538K framing=ethernet:1G"), Ok(Some(1_460_000.0)));
    assert_eq!(stream_bps("link=ethernet:1G rate=1538K"), Ok(Some(1_460_000.0)));
    assert_eq!(stream_bps("schedule=1500B/1ms"), Ok(Some(11_680_000.0)));
    // An opportunity of 1500 bytes every ms.
    assert_eq!(stream_bps("trace=file"), Ok(Some(11_680_000.0)));
    assert_eq!("trace=file".parse::<LinkOptions>().unwrap().line(), Err(Invalid::Unread));
}

/// Any valid link option.
fn word() -> impl Strategy<Value = String> {
    let time = (any::<u64>(), 0u32..60).prop_map(|(ns, shift)| Nanos(ns >> shift).to_string());
    let share = prop_oneof![
        Just("0".to_owned()),
        (0.0..=1.0f64).prop_map(|share| share.to_string()),
        (-30.0..0.0f64).prop_map(|exponent| format!("{:e}", 10f64.powf(exponent))),
        (0.0..=100.0f64).prop_map(|percent| format!("{percent}%")),
    ];
    let number = 1u32..;
    let key = prop::sample::select(&["rtt", "delay", "jitter", "up", "down", "queue"][..]);
    let shared = prop::sample::select(&["loss", "corrupt", "duplicate"][..]);
    let fixed = [
        "dist=normal",
        "dist=pareto",
        "order=kept",
        "order=free",
        "ecn",
        "pause",
        "link=veth,mtu=9000",
        "link=ethernet:10G,mtu=9000,vlan=1",
        "link=ipoib:4X-FDR",
        "framing=none",
        "framing=ethernet:1G",
        "discipline=drop-tail",
        "discipline=codel",
        "discipline=red",
        "coalesce=adaptive",
        "trace=a.b",
        "loss=none",
        "delay=none",
        "rate=none",
    ];
    prop_oneof![
        (key, time.clone()).prop_map(|(key, time)| format!("{key}={time}")),
        (shared, share.clone()).prop_map(|(key, share)| format!("{key}={share}")),
        prop::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        number.clone().prop_map(|bps| format!("rate={bps}")),
        (1280u16..).prop_map(|mtu| format!("mtu={mtu}")),
        number.clone().prop_map(|packets| format!("queue={packets}p")),
        number.clone().prop_map(|bytes| format!("queue={bytes}KiB")),
        number.clone().prop_map(|every| format!("loss=every:{every}")),
        prop::collection::vec(share.clone(), 2..5).prop_map(|s| format!("loss=ge:{}", s.join(","))),
        (number.clone(), 1u64..).prop_map(|(b, ns)| format!("schedule={b}B/{ns}ns")),
        (time.clone(), time.clone()).prop_map(|(a, b)| format!("discipline=codel:{a},{b}")),
        (share, 1u64.., number.clone())
            .prop_map(|(s, ns, gap)| format!("reorder={s}:{ns}ns:{gap}")),
        (number, time).prop_map(|(frames, time)| format!("coalesce={frames}:{time}")),
    ]
}

#[test]
fn options_say_what_share_is_lost_and_how_delays_spread() {
    for (text, share, independent) in [
        ("loss=1e-3", 0.001, true),
        ("loss=every:200", 0.005, false),
        // The bad state has a hundredth of the time and loses half of its packets.
        ("loss=ge:0.001,0.099,0.5", 0.005, false),
    ] {
        let losses = options(text).losses().unwrap();
        assert!((losses.mean() - share).abs() < 1e-12, "{text} {}", losses.mean());
        assert_eq!(losses.are_independent(), independent, "{text}");
    }
    assert_eq!(options("loss=none").losses(), None);
    assert_eq!(options("jitter=1ms").jitter(), Some(Nanos::from_millis(1)));
    assert_eq!(options("rtt=1ms").jitter(), None);
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(list in prop::collection::vec(word(), 0..12)) {
        let mut all = LinkOptions::default();
        for word in &list {
            let word: LinkOptions = word.parse().unwrap();
            prop_assert_eq!(&word.to_string().parse::<LinkOptions>().unwrap(), &word);
            all.merge(&word);
        }
        let printed = all.to_string();
        let back: LinkOptions = printed.parse().unwrap();
        prop_assert_eq!(&back, &all);
        prop_assert_eq!(back.to_string(), printed);
    }

    #[test]
    fn no_text_and_no_options_panic(text: String, list in prop::collection::vec(word(), 0..12)) {
        let _ = text.parse::<LinkOptions>();
        let mut all = LinkOptions::default();
        for word in &list {
            let _ = word.split_once('=').map(|(key, _)| all.set(key, &text));
            all.merge(&word.parse().unwrap());
        }
        let _ = (all.mtu(), all.delay(), all.build::<u32>(1, "link").map(|parts| parts.len()));
    }
}

#[test]
fn options_are_described_with_their_defaults() {
    let plain = options("").describe();
    assert_eq!((plain.delay, plain.jitter, plain.wire), (Nanos(0), Nanos(0), None));
    assert_eq!((plain.loss, plain.corrupt, plain.reorder), (None, 0.0, None));
    let full =
        options("rtt=20ms jitter=1ms link=ethernet:1G queue=50ms loss=ge:0.1,0.5 duplicate=1%")
            .describe();
    assert_eq!((full.delay, full.jitter), (Nanos::from_millis(10), Nanos::from_millis(1)));
    assert_eq!((full.distribution, full.order), (Distribution::Normal, Order::Kept));
    let wire = full.wire.unwrap();
    assert_eq!((wire.rate, wire.framing), ((1_000_000_000, 1), "ethernet:1G".parse().ok()));
    assert_eq!((wire.queue, wire.queue_bytes), (Limit::Bytes(6_250_000), 6_250_000));
    assert_eq!((wire.discipline, wire.ecn), (Discipline::DropTail, false));
    let Some(Losses::GilbertElliott(bursts)) = full.loss else { panic!("{:?}", full.loss) };
    assert_eq!((bursts.to_bad, bursts.loss_bad, bursts.loss_good), (0.1, 1.0, 0.0));
    assert_eq!(full.duplicate, 0.01);
    let wire = options("rate=1G rtt=200ms").describe().wire.unwrap();
    assert_eq!((wire.queue, wire.framing), (Limit::Packets(20_834), None));
}
