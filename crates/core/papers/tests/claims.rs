//! Results of the claims on the papers' own numbers.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use Verdict::{Fails, FigureOnly, Holds, Tie, Unsupported};
use fabricmark_papers::claims::{
    Column, Figures, Judged, Load, Origin, Quantity, Set, Shows, Value, Verdict, judge,
};
use fabricmark_papers::papers;
use fabricmark_plan::{Interference, Point, overlay, resolve};
use fabricmark_wire::Family::{self, V4, V6};

/// Verdict of each claim, comparisons that hold, and all comparisons, worked out independently of the predicates.
const PUBLISHED: [(&str, Verdict, usize, usize); 71] = [
    ("P1-01", Holds, 28, 28),
    ("P1-02", Holds, 28, 28),
    ("P1-03", Holds, 56, 56),
    ("P1-04", Holds, 28, 28),
    ("P1-05", Holds, 28, 28),
    ("P1-06", Holds, 28, 28),
    ("P1-07a", Holds, 52, 52),
    ("P1-07b", Holds, 4, 4),
    ("P1-08", Holds, 4, 4),
    ("P1-09", Fails, 13, 20),
    ("P1-10", Holds, 56, 56),
    ("P1-11", FigureOnly, 0, 0),
    ("P1-12", Holds, 4, 4),
    ("P1-13", Fails, 16, 56),
    ("P1-13b", Fails, 10, 56),
    ("P1-14", Fails, 27, 28),
    ("P1-15", Holds, 28, 28),
    ("P1-16", Holds, 140, 140),
    ("P1-17", Holds, 140, 140),
    ("P1-18", Holds, 112, 112),
    ("P1-19", Holds, 104, 104),
    ("P1-20", Fails, 18, 20),
    ("P2-01", Holds, 1, 1),
    ("P2-02", Holds, 2, 2),
    ("P2-03", Holds, 1, 1),
    ("P2-04", Fails, 0, 1),
    ("P2-05", Fails, 0, 1),
    ("P2-06a", Holds, 1, 1),
    ("P2-06b", Fails, 0, 1),
    ("P2-07a", Holds, 1, 1),
    ("P2-07b", Fails, 0, 1),
    ("P2-08", Fails, 0, 2),
    ("P2-09", Holds, 1, 1),
    ("P2-10", Holds, 1, 1),
    ("P2-11", Holds, 3, 3),
    ("P2-12", Holds, 1, 1),
    ("P2-13", Holds, 3, 3),
    ("P2-14", FigureOnly, 0, 0),
    ("P2-15", FigureOnly, 0, 0),
    ("P3-01", Unsupported, 0, 0),
    ("P3-02", Fails, 2, 3),
    ("P3-02b", Holds, 3, 3),
    ("P3-03", Holds, 2, 2),
    ("P3-04", Holds, 3, 3),
    ("P3-05", Holds, 1, 1),
    ("P3-06", Unsupported, 0, 0),
    ("P3-07", Holds, 3, 3),
    ("P3-08", Holds, 2, 2),
    ("P3-09", Holds, 3, 3),
    ("P3-10", Holds, 1, 1),
    ("P4-01", FigureOnly, 0, 0),
    ("P4-02", FigureOnly, 0, 0),
    ("P4-03", FigureOnly, 0, 0),
    ("P4-04", FigureOnly, 0, 0),
    ("P4-05", FigureOnly, 0, 0),
    ("P4-06", FigureOnly, 0, 0),
    ("P4-07", FigureOnly, 0, 0),
    ("P4-08", FigureOnly, 0, 0),
    ("P4-09", FigureOnly, 0, 0),
    ("P5-01", Fails, 10, 11),
    ("P5-02", Holds, 11, 11),
    ("P5-03", Holds, 9, 9),
    ("P5-04", Fails, 0, 5),
    ("P5-05", Holds, 6, 6),
    ("P5-06", Holds, 2, 2),
    ("P5-06b", Fails, 0, 1),
    ("P5-07", Holds, 2, 2),
    ("P5-08", Fails, 0, 2),
    ("P5-09", Holds, 2, 2),
    ("P5-10", Fails, 14, 27),
    ("P5-11", Holds, 3, 3),
];

fn published() -> Vec<Judged> {
    judge(&Figures::published(), &[])
}

fn of<'a>(judged: &'a [Judged], id: &str) -> &'a Judged {
    judged.iter().find(|judged| judged.claim.id == id).unwrap()
}

#[test]
fn every_claim_has_the_verdict_of_the_published_numbers() {
    let found: Vec<(&str, Verdict, usize, usize)> = published()
        .iter()
        .map(|Judged { claim, outcome }| {
            let (holds, of) = outcome.counts();
            (claim.id, outcome.verdict(), holds, of)
        })
        .collect();
    assert_eq!(found, PUBLISHED);
}

#[test]
fn columns_hold_a_claim_as_often_as_the_printed_cells_do() {
    let judged = published();
    for (id, expected) in [
        (
            "P1-09",
            vec![("UDP IPv4", 5, 5), ("UDP IPv6", 2, 5), ("TCP IPv4", 4, 5), ("TCP IPv6", 2, 5)],
        ),
        (
            "P1-13",
            vec![
                ("UDP 10GbE", 0, 14),
                ("UDP IPoIB/FDR", 7, 14),
                ("TCP 10GbE", 2, 14),
                ("TCP IPoIB/FDR", 7, 14),
            ],
        ),
        (
            "P1-13b",
            vec![
                ("UDP 10GbE", 0, 14),
                ("UDP IPoIB/FDR", 5, 14),
                ("TCP 10GbE", 1, 14),
                ("TCP IPoIB/FDR", 4, 14),
            ],
        ),
    ] {
        let parts = &of(&judged, id).outcome.parts;
        let found: Vec<(&str, usize, usize)> =
            parts.iter().map(|part| (part.name.as_str(), part.holds, part.of())).collect();
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn the_closest_calls_are_those_of_the_tables() {
    let judged = published();
    for (id, what, value, against) in [
        ("P1-01", "UDP IPoIB/FDR, 1,024 B", 3107.23, 3096.52),
        ("P1-02", "TCP IPoIB/FDR, 1,024 B", 3102.42, 3087.36),
        ("P1-04", "TCP 10GbE, 4,096 B", 51.82, 53.02),
        ("P1-05", "UDP IPv6, 16,384 B", 6414.42, 6301.15),
    ] {
        let evidence = &of(&judged, id).outcome.evidence;
        let closest = evidence.iter().find(|e| e.shows == Shows::Closest).unwrap();
        let found = (closest.what.as_str(), closest.value, closest.against);
        assert_eq!(found, (what, value, Some(against)), "{id}");
    }
}

#[test]
fn crossings_are_where_the_ratio_of_goodputs_is_one() {
    let judged = published();
    let besides: Vec<f64> = of(&judged, "P1-07b")
        .outcome
        .evidence
        .iter()
        .filter(|e| e.shows == Shows::Beside)
        .map(|e| (e.value / 100.0).round() / 10.0)
        .collect();
    assert_eq!(besides, [23.8, 18.3, 22.1, 18.3]);
}

#[test]
fn claims_are_named_by_paper_and_each_paper_has_some() {
    for paper in papers() {
        let judged = judge(&Figures::published(), &[paper.name.to_owned()]);
        assert!(!judged.is_empty());
        assert!(judged.iter().all(|j| j.claim.id.starts_with(paper.name)), "{}", paper.name);
    }
}

#[test]
fn json_says_what_the_text_says() {
    let judged = published();
    let json = serde_json::to_value(of(&judged, "P1-14")).unwrap();
    assert_eq!(json["id"], "P1-14");
    assert_eq!(json["verdict"], "FAILS");
    assert_eq!((json["holds"].as_u64(), json["of"].as_u64()), (Some(27), Some(28)));
    assert_eq!(json["evidence"][0]["value"], 119.04);
    assert_eq!(json["evidence"][0]["against"], 109.04);
}

/// New PingPong figures: RoCE's goodput as multiples of Ethernet's, by message size.
fn ping_pong(ratios: &[(u64, f64)]) -> Figures {
    let column = |network: &str, link: &str, factor: fn(f64) -> f64| Column {
        quantity: Quantity::GoodputMbps,
        load: Load::Mpi("PingPong"),
        set: Set::Technologies,
        network: network.to_owned(),
        link: link.to_owned(),
        family: V4,
        cells: ratios
            .iter()
            .map(|&(size, ratio)| (size, Value::exact(size as f64 * factor(ratio))))
            .collect(),
        point: None,
        limits: [].into(),
    };
    let columns = vec![
        column("Soft RoCE", "rocev1:1G", |ratio| ratio),
        column("Ethernet", "ethernet:1G", |_| 1.0),
    ];
    Figures { origin: Origin::Measured, columns }
}

#[test]
fn runs_over_rdma_are_judged_by_message_size() {
    let verdict = |ratios: &[(u64, f64)]| {
        let judged = judge(&ping_pong(ratios), &["P4".to_owned()]);
        of(&judged, "P4-01").outcome.verdict()
    };
    // Alike below 128 bytes, better from 128 to 8,192 bytes; nothing is claimed above.
    assert_eq!(verdict(&[(64, 1.05), (128, 1.2), (8192, 1.2), (16_384, 0.5)]), Holds);
    assert_eq!(verdict(&[(64, 1.2), (128, 1.2)]), Fails);
    assert_eq!(verdict(&[(64, 1.0), (128, 0.9)]), Fails);
    assert_eq!(verdict(&[(64, 1.0), (128, 1.01)]), Tie);
    assert_eq!(verdict(&[]), Unsupported);
}

/// New UDP goodput: link, IP version and Mb/s at one payload.
fn goodputs(payload: u64, columns: &[(&str, Family, f64)]) -> Figures {
    let column = |&(link, family, mbps): &(&str, Family, f64)| Column {
        quantity: Quantity::GoodputMbps,
        load: Load::Udp,
        set: Set::Technologies,
        network: format!("{link} (emulated)"),
        link: link.to_owned(),
        family,
        cells: [(payload, Value::exact(mbps))].into(),
        point: None,
        limits: BTreeMap::new(),
    };
    Figures { origin: Origin::Measured, columns: columns.iter().map(column).collect() }
}

#[test]
fn speeds_of_ipoib_are_compared_within_a_width_and_an_ip_version() {
    let figures = goodputs(
        1024,
        &[
            ("ipoib:1X-DDR", V4, 200.0),
            ("ipoib:1X-SDR", V4, 100.0),
            ("ipoib:4X-DDR", V4, 150.0),
            ("ipoib:4X-DDR", V6, 90.0),
            ("ipoib:4X-SDR", V4, 120.0),
            ("ipoib:4X-SDR", V6, 80.0),
            ("ipoib:4X-FDR,mode=connected", V4, 1.0),
        ],
    );
    let judged = judge(&figures, &["P1".to_owned()]);
    let outcome = &of(&judged, "P1-11").outcome;
    assert_eq!((outcome.verdict(), outcome.counts()), (Holds, (3, 3)));
    let one = goodputs(1024, &[("ipoib:1X-FDR", V4, 200.0), ("ipoib:4X-SDR", V4, 100.0)]);
    let judged = judge(&one, &["P1".to_owned()]);
    assert_eq!(of(&judged, "P1-11").outcome.verdict(), Unsupported);
}

#[test]
fn the_fastest_ipoib_that_is_faster_than_the_ethernet_has_the_place_of_fdr() {
    let ethernet = ("ethernet:10G", V4, 100.0);
    let (slower, faster) = (("ipoib:4X-SDR", V4, 90.0), ("ipoib:4X-DDR", V4, 110.0));
    let verdict = |columns: &[(&str, Family, f64)]| {
        let judged = judge(&goodputs(32_768, columns), &["P1".to_owned()]);
        let outcome = &of(&judged, "P1-07b").outcome;
        (outcome.verdict(), outcome.counts())
    };
    assert_eq!(verdict(&[ethernet, slower]), (Unsupported, (0, 0)));
    assert_eq!(verdict(&[ethernet, slower, faster]), (Holds, (1, 1)));
}

#[test]
fn modes_of_ipoib_are_compared_at_each_speed() {
    let figures = goodputs(
        1024,
        &[
            ("ipoib:4X-SDR", V4, 100.0),
            ("ipoib:4X-SDR,mode=connected,mtu=65520", V4, 120.0),
            ("ipoib:4X-FDR", V4, 300.0),
            ("ipoib:4X-FDR,mode=connected,mtu=65520", V4, 200.0),
        ],
    );
    let judged = judge(&figures, &["P1".to_owned()]);
    let parts = &of(&judged, "P1-05").outcome.parts;
    let found: Vec<(&str, usize, usize)> =
        parts.iter().map(|part| (part.name.as_str(), part.holds, part.of())).collect();
    assert_eq!(found, [("UDP ipoib:4X-SDR IPv4", 0, 1), ("UDP ipoib:4X-FDR IPv4", 1, 1)]);
}

/// A new column: its link, number of streams, group if it has one, and Mb/s by payload.
type Streams<'a> = (&'a str, u32, Option<(&'a str, Interference)>, &'a [(u64, f64)]);

/// New goodputs of TCP streams.
fn streams(columns: &[Streams<'_>]) -> Figures {
    let column = |&(link, flows, group, cells): &Streams<'_>| {
        let levels =
            "pattern=stream,transport=tcp,congestion=cubic,family=4,payload=65536,link=veth";
        let point = resolve(&overlay(levels).unwrap()).unwrap();
        let (group, interference) = group.unzip();
        let point = Point { flows, group: group.map(str::to_owned), interference, ..point };
        Column {
            quantity: Quantity::GoodputMbps,
            load: Load::Tcp,
            set: Set::Technologies,
            network: format!("{link} {flows} (emulated)"),
            link: link.to_owned(),
            family: V4,
            cells: cells.iter().map(|&(payload, mbps)| (payload, Value::exact(mbps))).collect(),
            point: Some(Box::new(point)),
            limits: BTreeMap::new(),
        }
    };
    Figures { origin: Origin::Measured, columns: columns.iter().map(column).collect() }
}

#[test]
fn p2s_claims_on_single_networks_are_judged_on_new_runs() {
    let jumbo = "ethernet:10G,mtu=9000";
    let figures = streams(&[
        (jumbo, 1, None, &[(1024, 3000.0), (65_536, 9800.0)]),
        (jumbo, 4, None, &[(1024, 7000.0), (65_536, 9850.0)]),
        ("ethernet:10G", 1, None, &[(1024, 3000.0), (65_536, 9000.0)]),
        ("ipoib:4X-DDR", 1, None, &[(1024, 9990.0), (65_536, 8000.0)]),
        ("ipoib:4X-DDR", 4, None, &[(1024, 2000.0), (65_536, 12_000.0)]),
    ]);
    let judged = judge(&figures, &["P2".to_owned()]);
    let counts = |id| {
        let outcome = &of(&judged, id).outcome;
        (outcome.verdict(), outcome.counts())
    };
    assert_eq!(counts("P2-04"), (Holds, (1, 1)), "12,000 against 9,990");
    assert_eq!(counts("P2-05"), (Holds, (1, 1)), "12,000 against 9,850");
    assert_eq!(counts("P2-10"), (Fails, (0, 1)), "8,000 against 9,000 from 64 KiB on");
    assert_eq!(counts("P2-13"), (Holds, (1, 1)), "9,800 against 8,000");
    assert_eq!(counts("P2-06b").0, Unsupported);
    assert_eq!(counts("P2-15").0, Unsupported);
}

#[test]
fn bookstores_that_differ_in_more_than_their_network_are_not_compared() {
    let shop = |link: &str, browsers: u32, per_s: f64| {
        let levels = "pattern=shop,transport=http,family=4,link=loopback,payload=0";
        let levels = format!("{levels},app_db={link},browsers={browsers},think_time=1s");
        Column {
            quantity: Quantity::InteractionsPerS,
            load: Load::Shop,
            set: Set::Technologies,
            network: format!("{link} {browsers} (emulated)"),
            link: link.to_owned(),
            family: V4,
            cells: BTreeMap::from([(0, Value::exact(per_s))]),
            point: Some(Box::new(resolve(&overlay(&levels).unwrap()).unwrap())),
            limits: BTreeMap::new(),
        }
    };
    let columns = vec![
        shop("ethernet:10G", 100, 50.0),
        shop("ethernet:10G", 300, 90.0),
        shop("ipoib:4X-DDR", 100, 60.0),
    ];
    let figures = Figures { origin: Origin::Measured, columns };
    let judged = judge(&figures, &["P2".to_owned()]);
    let outcome = &of(&judged, "P2-09").outcome;
    assert_eq!((outcome.verdict(), outcome.counts()), (Holds, (1, 1)));
}

#[test]
fn p2s_claims_on_both_networks_are_judged_on_groups_alone_and_together() {
    use Interference::{Alone, Together};
    let figures = streams(&[
        ("veth", 1, Some(("ethernet", Alone)), &[(1024, 5000.0), (4096, 9800.0)]),
        ("veth", 1, Some(("ethernet", Together)), &[(1024, 3000.0), (4096, 5000.0)]),
        ("veth", 1, Some(("ipoib", Together)), &[(1024, 1500.0), (4096, 5000.0)]),
        ("veth", 4, Some(("ethernet", Alone)), &[(1024, 5000.0), (4096, 9000.0)]),
        ("veth", 4, Some(("ethernet", Together)), &[(1024, 6000.0), (4096, 8000.0)]),
        ("veth", 4, Some(("ipoib", Together)), &[(1024, 3000.0), (4096, 4000.0)]),
    ]);
    let judged = judge(&figures, &["P2".to_owned()]);
    let counts = |id| {
        let outcome = &of(&judged, id).outcome;
        (outcome.verdict(), outcome.counts())
    };
    // Sums with one stream of each: 4,500 against 5,000, and 10,000 against 9,800, more than the tie band of 2 %; with
    // four 9,000 and 12,000 are above.
    assert_eq!(counts("P2-06b"), (Fails, (3, 4)));
    // At 1 KiB 2 to 1 with one and with four streams; at 4 KiB 2 to 1 after an even share.
    assert_eq!(counts("P2-15"), (Tie, (1, 2)));
}

/// New switching speeds: IP version, buffer and Mb/s.
fn speeds(cells: &[(Family, u64, f64)]) -> Figures {
    let column = |family: Family| Column {
        quantity: Quantity::SwitchingMbps,
        load: Load::Tcp,
        set: Set::Technologies,
        network: "veth (emulated)".to_owned(),
        link: "veth".to_owned(),
        family,
        cells: cells
            .iter()
            .filter(|(of, ..)| *of == family)
            .map(|&(_, buffer, mbps)| (buffer, Value::exact(mbps)))
            .collect(),
        point: None,
        limits: BTreeMap::new(),
    };
    Figures { origin: Origin::Measured, columns: vec![column(V4), column(V6)] }
}

#[test]
fn p5s_claims_on_buffers_are_judged_on_new_transfers() {
    let figures = speeds(&[(V4, 750, 80.0), (V4, 1500, 90.0), (V4, 3000, 200.0), (V6, 750, 100.0)]);
    let judged = judge(&figures, &["P5".to_owned()]);
    let counts = |id| {
        let outcome = &of(&judged, id).outcome;
        (outcome.verdict(), outcome.counts())
    };
    // 1500 bytes are slower than the line; 100 Mb/s are neither above nor clearly below it.
    assert_eq!(counts("P5-02"), (Fails, (2, 4)));
    assert_eq!(counts("P5-03"), (Holds, (2, 2)));
    assert_eq!(counts("P5-04"), (Fails, (0, 1)));
    assert_eq!(counts("P5-01").0, Unsupported);
}
