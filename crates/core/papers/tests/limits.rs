//! Compares the limits of published figures with worked tables, which were computed independently with exact
//! fractions and printed to two decimals (ceilings, percent) or three (floors).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_papers::{Cell, Limit, cells, limit, papers};
use fabricmark_wire::Kind;

fn cell(paper: &str, place: &str, row: &str, column: &str) -> &'static Cell {
    let is_it = |c: &&Cell| c.place == place && c.row == row && c.column == column;
    cells(paper).iter().find(is_it).unwrap()
}

fn limit_of(paper: &str, place: &str, row: &str, column: &str) -> Limit {
    limit(paper, cell(paper, place, row, column)).unwrap()
}

#[test]
fn every_ceiling_floor_and_efficiency_of_p1_is_that_of_the_worked_tables() {
    let mut count = 0;
    for line in csv::Reader::from_reader(include_str!("limits.csv").as_bytes()).into_records() {
        let line = line.unwrap();
        let [place, row, column, expected, percent] = [0, 1, 2, 3, 4].map(|i| &line[i]);
        let cell = cell("P1", place, row, column);
        let found = limit("P1", cell).unwrap();
        let expected = expected.replace(',', "");
        if found.is_floor {
            assert_eq!(format!("{:.3}", found.value), expected, "{line:?}");
        } else {
            assert_eq!(format!("{:.2}", found.value), expected, "{line:?}");
            let efficiency = found.efficiency(cell.value) * 100.0;
            assert_eq!(format!("{efficiency:.2}"), percent, "{line:?}");
        }
        count += 1;
    }
    assert_eq!(count, 252);
}

#[test]
fn no_figure_of_p1_to_p4_beats_a_limit() {
    for paper in papers().iter().filter(|paper| paper.name != "P5") {
        for cell in cells(paper.name) {
            if let Some(limit) = limit(paper.name, cell) {
                assert!(limit.efficiency(cell.value) < 1.0, "{} {cell:?} {limit:?}", paper.name);
            }
        }
    }
}

#[test]
fn every_figure_of_p5_that_beats_its_limit_is_in_doubt() {
    for cell in cells("P5") {
        if let Some(limit) = limit("P5", cell) {
            let beats = limit.efficiency(cell.value) > 1.0;
            assert!(!beats || cell.doubts.contains(&24), "{cell:?} {limit:?}");
        }
    }
}

#[test]
fn limits_of_figures_in_the_text_are_those_of_the_worked_claims() {
    let [least, whole] = ["latency of RDMA Write: least", "verbs: bandwidth: most"];
    let both = "10GigE and IPoIB: aggregate bandwidth: most";
    let rtt = ["Seattle - Tokyo", "Chicago - Tokyo", "Seattle - Tokyo - Chicago - Tokyo"]
        .map(|loop_| format!("slide Tokyo - {loop_}"));
    for (paper, place, row, expected, decimals) in [
        ("P2", "section V.A", least, "0.021", 3),
        ("P2", "section V.A", whole, "15799", 0),
        ("P2", "section V.A", "10GigE: bandwidth: most", "9913.70", 2),
        ("P2", "section V.A", "IPoIB: bandwidth of one stream: most", "15401", 0),
        ("P2", "section V.B", both, "16000", 0),
        ("P3", &rtt[0], "RTT", "151.4", 1),
        ("P3", &rtt[1], "RTT", "198.7", 1),
        ("P3", &rtt[2], "RTT", "350.2", 1),
        ("P5", "section V", "overall throughput: to", "47.46", 2),
        ("P5", "caption of table 1", "sending throughput over IPv4", "94.93", 2),
        ("P5", "caption of table 2", "sending throughput over IPv6", "93.63", 2),
    ] {
        let value = limit_of(paper, place, row, "").value;
        assert_eq!(format!("{value:.decimals$}"), expected, "{paper} {place} {row}");
    }
}

#[test]
fn a_limit_says_how_firm_it_is_and_what_was_assumed() {
    let udp = limit_of("P1", "table IV", "1024", "10GbE IPv4");
    assert_eq!((udp.kind, udp.is_floor), (Kind::Bound, false));
    assert_eq!(udp.over, "UDP over ethernet:10G,mtu=1500");
    assert_eq!(udp.assumed, "the default MTU of Ethernet");
    assert_eq!(limit_of("P1", "table VI", "1024", "10GbE IPv4").kind, Kind::Conditional);
    assert_eq!(limit("P1", cell("P1", "table I", "4X data", "FDR")), None);
    assert_eq!(limit("P1", cell("P1", "section IV", "InfiniBand MTU", "")), None);
}

#[test]
fn limits_stand_beside_rates_and_times_only() {
    let count = |paper: &str, is_table: bool| {
        let found = cells(paper).iter().filter(|cell| cell.column.is_empty() != is_table);
        found.filter(|cell| limit(paper, cell).is_some()).count()
    };
    assert_eq!(["P1", "P2", "P3", "P4", "P5"].map(|paper| count(paper, true)), [336, 0, 0, 0, 45]);
    assert_eq!(["P1", "P2", "P3", "P4", "P5"].map(|paper| count(paper, false)), [0, 9, 10, 0, 8]);
}
