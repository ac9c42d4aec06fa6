//! Contradictions within the papers.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A contradiction within a paper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Number by which cells refer to it.
    pub number: u8,
    /// Name of the paper, such as `P1`.
    pub paper: String,
    /// Places in the paper; those that contradict each other are separated by `;`.
    pub place: String,
    /// Description of the contradiction.
    pub contradiction: String,
    /// Calculation from the printed numbers that shows it.
    pub arithmetic: String,
}

static DOUBTS: LazyLock<Vec<Doubt>> = LazyLock::new(|| {
    let text = include_str!("../data/doubts.csv");
    csv::Reader::from_reader(text.as_bytes()).deserialize().filter_map(Result::ok).collect()
});

/// All contradictions, by number.
pub fn doubts() -> &'static [Doubt] {
    &DOUBTS
}

/// Looks up a contradiction by number.
pub fn doubt(n: u8) -> Option<&'static Doubt> {
    DOUBTS.iter().find(|doubt| doubt.number == n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, cells};

    /// The printed value in base units.
    fn base(paper: &str, place: &str, row: &str, column: &str) -> f64 {
        let is_it = |c: &&Cell| c.place == place && c.row == row && c.column == column;
        let cell = cells(paper).iter().find(is_it);
        cell.unwrap_or_else(|| panic!("{paper} {place} {row} {column}")).base_value()
    }

    fn p1(table: &str, row: &str, column: &str) -> f64 {
        base("P1", table, row, column)
    }

    fn text(paper: &str, place: &str, row: &str) -> f64 {
        base(paper, place, row, "")
    }

    fn p2(section: &str, row: &str) -> f64 {
        text("P2", section, row)
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} {expected}");
    }

    fn truncated(value: f64, decimals: i32) -> f64 {
        (value * 10f64.powi(decimals)).floor() / 10f64.powi(decimals)
    }

    fn rounded(value: f64, decimals: i32) -> f64 {
        (value * 10f64.powi(decimals)).round() / 10f64.powi(decimals)
    }

    #[test]
    fn there_are_31_doubts_in_order_each_about_a_paper() {
        assert!(doubts().iter().map(|doubt| doubt.number).eq(1..=31));
        for doubt in doubts() {
            assert!(crate::paper(&doubt.paper).is_some(), "{doubt:?}");
            assert!(!doubt.contradiction.is_empty() && !doubt.arithmetic.is_empty(), "{doubt:?}");
        }
        assert_eq!(doubt(32), None);
    }

    #[test]
    fn doubt_1_is_the_only_shared_cell_of_tables_ii_and_iv_that_differs() {
        let mut different = Vec::new();
        for (others, shared) in [("table II", "table IV"), ("table III", "table V")] {
            for cell in cells("P1").iter().filter(|c| c.place == others) {
                let Some(family) = cell.column.strip_prefix("IPoIB datagram ") else { continue };
                let again = p1(shared, &cell.row, &format!("IPoIB/FDR {family}"));
                if again != cell.base_value() {
                    different.push((cell.row.as_str(), cell.value, again / 1e6, &cell.doubts));
                }
            }
        }
        assert_eq!(different, [("32", 119.04, 109.04, &vec![1])]);
    }

    #[test]
    fn doubt_2_stands_at_the_rates_that_no_one_rule_of_rounding_gives() {
        for (lanes, is_rounded, is_truncated) in
            [(1.0, true, false), (4.0, false, true), (8.0, true, true), (12.0, false, true)]
        {
            let exact = lanes * 14.0625 * 64.0 / 66.0;
            let printed = p1("table I", &format!("{lanes}X data"), "FDR") / 1e9;
            assert_eq!(rounded(exact, 2) == printed, is_rounded, "{lanes}");
            assert_eq!(truncated(exact, 2) == printed, is_truncated, "{lanes}");
        }
    }

    #[test]
    fn doubt_3_stands_where_the_packet_rate_grows_with_the_payload() {
        let mut counts = Vec::new();
        let mut largest = 0.0f64;
        for (table, columns) in
            [("table II", "IPoIB connected"), ("table IV", ""), ("table VI", "")]
        {
            let mut count = 0;
            let is_it = |c: &&Cell| c.place == table && c.column.starts_with(columns);
            for cell in cells("P1").iter().filter(is_it) {
                let payload: u32 = cell.row.parse().unwrap();
                let ratio = if payload == 4 {
                    0.0
                } else {
                    cell.base_value() / p1(table, &(payload / 2).to_string(), &cell.column)
                };
                assert_eq!(ratio > 2.02, cell.doubts.contains(&3), "{cell:?} {ratio}");
                count += usize::from(ratio > 2.02);
                largest = largest.max(ratio);
            }
            counts.push(count);
        }
        assert_eq!(counts, [6, 13, 15]);
        assert_near(largest, 2.476, 0.0005);
    }

    #[test]
    fn doubt_4_the_packet_rate_of_connected_mode_falls_and_rises() {
        let rate = |payload: u32| {
            let bps = p1("table II", &payload.to_string(), "IPoIB connected IPv4");
            (bps / 8.0 / f64::from(payload)).round()
        };
        assert_eq!([64, 4096, 8192].map(rate), [348_965.0, 46_215.0, 52_166.0]);
    }

    #[test]
    fn doubt_7_headers_do_not_explain_the_distance_of_ipv6_from_ipv4() {
        let measured = p1("table IV", "256", "10GbE IPv6") / p1("table IV", "256", "10GbE IPv4");
        assert_near(measured, 0.610, 0.0005);
        assert_near(322.0 / 342.0, 0.942, 0.0005);
    }

    #[test]
    fn doubt_9_ipv6_is_slower_by_the_same_time_at_every_small_payload() {
        for (technology, least, most) in
            [("10GbE", 4.89e-6, 5.70e-6), ("IPoIB/FDR", 3.55e-6, 4.89e-6)]
        {
            let differences: Vec<f64> = (2..=10)
                .map(|power| (1 << power).to_string())
                .map(|payload| {
                    p1("table V", &payload, &format!("{technology} IPv6"))
                        - p1("table V", &payload, &format!("{technology} IPv4"))
                })
                .collect();
            assert_near(differences.iter().copied().fold(f64::MAX, f64::min), least, 1e-12);
            assert_near(differences.iter().copied().fold(f64::MIN, f64::max), most, 1e-12);
        }
    }

    #[test]
    fn doubts_10_to_12_printed_gains_are_not_those_of_the_printed_peaks() {
        let peak = p2("section V.A", "IPoIB, several streams: bandwidth: most");
        let one = p2("section V.A", "IPoIB: bandwidth of one stream: most");
        let large = p2("section V.A", "IPoIB: bandwidth of one stream: average of large messages");
        let ethernet = p2("section V.A", "10GigE: bandwidth: most");
        let gain = p2("section V.A", "IPoIB, several streams: gain over one stream");
        assert_near(peak / one, 1.283, 0.0005);
        assert_near(peak / large, 1.400, 0.0005);
        assert_near(peak / (1.0 + gain), 8301e6, 0.5e6);
        assert_near(one * (1.0 + gain), 10_948e6, 0.5e6);

        let gain = p2("section V.A", "IPoIB, several streams: gain over 10GigE");
        assert_near(peak / ethernet, 1.091, 0.0005);
        assert_near(ethernet * (1.0 + gain), 10_850e6, 0.5e6);

        let both = p2("section V.B", "10GigE and IPoIB: aggregate bandwidth: most");
        let gain = p2("section V.B", "10GigE and IPoIB: gain over 10GigE");
        assert_near(both / ethernet, 1.141, 0.0005);
        assert_near(both / (1.0 + gain), 10_062e6, 0.5e6);
    }

    #[test]
    fn doubt_13_two_printed_shares_are_two_rates() {
        let verbs = p2("section V.A", "verbs: bandwidth: most");
        let ethernet = p2("section V.A", "10GigE: bandwidth: most");
        let below = verbs * (1.0 - p2("section V.B", "10GigE and SDP: aggregate below verbs"));
        let above = ethernet * (1.0 + p2("section V.B", "10GigE and SDP: gain over 10GigE"));
        assert_near(below, 12_498e6, 0.5e6);
        assert_near(below / ethernet, 1.262, 0.0005);
        assert_near(above, 12_543e6, 0.5e6);
        assert_near(1.0 - above / verbs, 0.0084, 0.00005);
    }

    #[test]
    fn doubts_14_and_16_printed_shares_differ_from_place_to_place() {
        let reduction = |place| {
            p2(
                place,
                &format!(
                    "reduction in latency{}",
                    match place {
                        "abstract" => "",
                        _ => ": average",
                    }
                ),
            )
        };
        assert_eq!(rounded(reduction("abstract"), 4), 0.545);
        assert_eq!(rounded(reduction("section I"), 4), 0.544);
        assert_eq!(rounded(reduction("section VI"), 4), 0.544);
        let ethernet = p2("section V.C", "10GigE: web interactions");
        assert_near(p2("section V.C", "IPoIB: web interactions") / ethernet, 1.049, 0.0005);
        assert_near(p2("section V.C", "SDP: web interactions") / ethernet, 1.024, 0.0005);
    }

    const LOOPS: [&str; 3] = [
        "slide Tokyo - Seattle - Tokyo",
        "slide Tokyo - Chicago - Tokyo",
        "slide Tokyo - Seattle - Tokyo - Chicago - Tokyo",
    ];

    #[test]
    fn doubt_17_the_longest_path_had_less_than_three_products_of_rtt_and_rate() {
        let products = LOOPS.map(|place| {
            let bits = text("P3", place, "RTT") * text("P3", place, "rate");
            8.0 * text("P3", place, "window") / bits
        });
        for (found, expected) in products.into_iter().zip([3.86, 3.98, 2.56]) {
            assert_near(found, expected, 0.005);
        }
        assert_near(products[2] * 1.024 * 1.024, 2.68, 0.005);
    }

    #[test]
    fn doubts_18_and_19_the_record_and_the_claim_are_about_other_lengths() {
        let [seattle, chicago, both] = LOOPS.map(|place| text("P3", place, "distance"));
        let claimed = text("P3", "slide Overview", "length of the real network: more than");
        assert!(seattle < claimed && chicago < claimed && both > claimed);
        assert_eq!(seattle + chicago, both);
        let rate = text("P3", "slide Concluding Remarks", "land speed record: rate");
        let distance = text("P3", "slide Concluding Remarks", "land speed record: distance");
        assert_near(rate * distance, 168_000e12, 1e6);
        assert_near(rate * both, 200_228e12, 1e6);
    }

    fn p5(table: &str, row: &str, column: &str) -> f64 {
        base("P5", table, row, column)
    }

    #[test]
    fn doubt_21_is_the_only_speed_that_is_not_truncated() {
        let bits = 8.0 * text("P5", "section II", "Testfile1");
        for (table, family) in [("table 1", "IPv4"), ("table 2", "IPv6")] {
            let speeds = format!("switching speed {family}");
            for cell in cells("P5").iter().filter(|c| c.place == table && c.column == speeds) {
                let exact = bits / p5(table, &cell.row, &format!("switching time {family}")) / 1e6;
                let is_truncated = truncated(exact, 2) == cell.value;
                assert_eq!(is_truncated, !cell.doubts.contains(&21), "{cell:?} {exact}");
            }
        }
        assert_near(bits / 111.0, 575.856, 0.0005);
    }

    #[test]
    fn doubt_22_ipv6_is_faster_at_one_size_only() {
        let ratio = |row| {
            p5("table 2", row, "switching time IPv6") / p5("table 1", row, "switching time IPv4")
        };
        let ratios = ["8192", "5000", "3000", "750", "375"].map(|row| rounded(ratio(row), 2));
        assert_eq!(ratios, [0.53, 1.19, 1.46, 1.33, 1.50]);
        let file = text("P5", "section II", "Testfile1");
        let a_block = |row: &str| {
            let blocks = (file / row.parse::<f64>().unwrap()).ceil();
            (p5("table 2", row, "switching time IPv6") / blocks * 1e6).floor()
        };
        let blocks = ["8192", "5000", "3000", "750", "375"].map(a_block);
        assert_eq!(blocks, [59.0, 158.0, 162.0, 113.0, 118.0]);
    }

    #[test]
    fn doubt_23_table_2_has_no_row_of_the_stated_threshold() {
        let has_row = |table: &str, row: &str| {
            cells("P5").iter().any(|cell| cell.place == table && cell.row == row)
        };
        assert!(has_row("table 1", "1500") && !has_row("table 2", "1500"));
    }

    #[test]
    fn doubt_24_times_of_buffers_give_more_than_the_medium_carries() {
        let medium = 100e6 * 1460.0 / 1538.0;
        let bits = 8.0 * text("P5", "section II", "Testfile1");
        assert_near(medium, 94.93e6, 0.005e6);
        // Five full segments and one of 690 bytes, each with preamble, headers, FCS and gap.
        assert_eq!(5 * 1538 + 690 + 78, 8458);
        assert_near(8.0 * 8458.0 / 100e6, 676.6e-6, 0.05e-6);
        let receiving = p5("table 1", "8192", "receiving time IPv4");
        assert_near(bits / receiving, 294.6e6, 0.05e6);
        for cell in cells("P5").iter().filter(|cell| matches!(&*cell.place, "table 1" | "table 2"))
        {
            let value = cell.base_value();
            let rate = if cell.unit == "us" { bits / value } else { value };
            assert_eq!(rate > medium, cell.doubts.contains(&24), "{cell:?} {rate}");
        }
    }

    #[test]
    fn doubt_25_model_2_is_no_schedule_of_100_mbps() {
        let burst = text("P5", "section IV", "Model 2: burst");
        let period = text("P5", "section IV", "Model 2: period");
        let file = text("P5", "section II", "Testfile2");
        assert_near(8.0 * burst / period, 104.5e6, 1.0);
        assert_near(8.0 * burst / 100e6, 16.72e-6, 1e-12);
        let bursts = (file / burst).floor();
        let rest = 8.0 * (file - bursts * burst) / 100e6;
        assert_eq!(bursts, 1148.0);
        assert_near(rest, 14.88e-6, 1e-12);
        assert_near(bursts * period + rest, 18_383e-6, 0.5e-6);
    }

    #[test]
    fn doubt_26_no_frame_of_an_apdu_takes_the_stated_time() {
        let bytes = |family| {
            let row = format!("transmission delay of an APDU over {family}");
            text("P5", "section IV", &row) * 100e6 / 8.0
        };
        assert_near(bytes("IPv4"), 170.0, 1e-9);
        assert_near(bytes("IPv6"), 210.0, 1e-9);
        let apdu = text("P5", "section III", "APDU without PAD");
        let frame = |ip_header: f64| apdu + 20.0 + ip_header + 18.0;
        assert_eq!([frame(20.0), frame(40.0)], [83.0, 103.0]);
    }

    #[test]
    fn doubts_27_and_29_a_period_and_a_rate() {
        let clock = text("P5", "section II", "clock of the server");
        assert_near(1.0 / clock, text("P5", "section II", "accuracy: clock period"), 1e-15);
        let rtt = text("P5", "section IV", "second RTT");
        let exact = 2.0 * 8.0 * text("P5", "section IV", "first RTT: message") / rtt / 1e6;
        assert_eq!([truncated(exact, 2), rounded(exact, 2)], [35.15, 35.16]);
    }

    #[test]
    fn doubt_31_a_relay_on_a_hub_has_half_of_the_medium() {
        let relay = 100e6 * 1460.0 / 1538.0 / 2.0;
        assert_near(relay, 47.46e6, 0.005e6);
        assert_near(100e6 * 1460.0 / (2.0 * (1538.0 + 84.0 / 2.0)), 46.20e6, 0.005e6);
        let share = |row| text("P5", "section V", row) / relay;
        assert_near(share("overall throughput: from"), 0.65, 0.005);
        assert_near(share("overall throughput: to"), 0.67, 0.005);
    }
}
