//! Ceilings in Mbit/s.

use fabricmark_wire::{Family, Input, Kind, Stack, goodput, stream_goodput};

use super::{assert_prints, link, tcp, udp};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Payload in bytes; for IPv4 and IPv6 the ceiling and the packets of a message.
type Row = (u64, [(f64, u64); 2]);

/// Payload in bytes; the ceilings for IPv4 and IPv6.
type Plain = (u64, [f64; 2]);

fn assert_table(text: &str, stack: fn(Family) -> Stack, table: &[Row]) {
    for &(payload, cells) in table {
        for (family, (printed, packets)) in FAMILIES.into_iter().zip(cells) {
            let case = format!("{text} {family} {payload}");
            let ceiling = goodput(link(text), stack(family), payload).unwrap();
            assert_prints(ceiling.goodput_bps, 1e6, printed, 2, &case);
            assert_eq!(ceiling.inputs["packets"], Input::Number(packets), "{case}");
        }
    }
}

fn assert_plain(text: &str, stack: fn(Family) -> Stack, table: &[Plain]) {
    for &(payload, cells) in table {
        for (family, printed) in FAMILIES.into_iter().zip(cells) {
            let ceiling = goodput(link(text), stack(family), payload).unwrap();
            let case = format!("{text} {family} {payload}");
            assert_prints(ceiling.goodput_bps, 1e6, printed, 2, &case);
        }
    }
}

#[test]
fn messages_over_ethernet_have_the_ceilings_of_the_worked_tables() {
    assert_table("ethernet:10G", udp, &UDP_ETHERNET);
    assert_plain("ethernet:10G,mtu=9000", udp, &UDP_ETHERNET_9000);
    assert_table("ethernet:10G", tcp, &TCP_ETHERNET);
    assert_plain("ethernet:10G,mtu=9000", tcp, &TCP_ETHERNET_9000);
}

#[test]
fn messages_over_ipoib_have_the_ceilings_of_the_worked_tables() {
    assert_table("ipoib:4X-FDR", udp, &UDP_IPOIB);
    assert_table("ipoib:4X-FDR", tcp, &TCP_IPOIB);
    assert_plain("ipoib:4X-FDR,mode=connected,mtu=65520", udp, &UDP_CONNECTED_65520);
    assert_plain("ipoib:4X-FDR,mode=connected", udp, &UDP_CONNECTED_2044);
}

#[test]
fn a_connection_beats_datagrams_at_every_payload() {
    let datagram = link("ipoib:4X-FDR");
    for connected in ["ipoib:4X-FDR,mode=connected,mtu=65520", "ipoib:4X-FDR,mode=connected"] {
        for payload in (2..16).map(|power| 1 << power) {
            for family in FAMILIES {
                let rate = |link| goodput(link, udp(family), payload).unwrap().goodput_bps;
                assert!(rate(link(connected)) > rate(datagram), "{family} {payload}");
            }
        }
    }
}

#[test]
fn streams_have_the_ceilings_of_the_worked_tables() {
    for (text, printed) in [
        ("ethernet:10G", [9492.85, 9414.82, 9362.81, 9284.79]),
        ("ethernet:10G,mtu=9000", [9913.70, 9900.42, 9891.57, 9878.29]),
        ("ipoib:4X-FDR", [52_501.96, 52_187.58, 51_977.99, 51_663.61]),
    ] {
        let stacks = FAMILIES.map(|family| {
            [(0, Kind::Bound), (12, Kind::Conditional)]
                .map(|(option_bytes, kind)| (Stack::Tcp { family, option_bytes }, kind))
        });
        for ((stack, kind), printed) in stacks.into_iter().flatten().zip(printed) {
            let ceiling = stream_goodput(link(text), stack).unwrap();
            assert_eq!(ceiling.kind, kind);
            assert_prints(ceiling.goodput_bps, 1e6, printed, 2, &format!("{text} {stack:?}"));
        }
    }
}

/// 10-gigabit Ethernet, MTU 1500.
const UDP_ETHERNET: [Row; 14] = [
    (4, [(476.19, 1), (444.44, 1)]),
    (8, [(952.38, 1), (851.06, 1)]),
    (16, [(1904.76, 1), (1568.63, 1)]),
    (32, [(3265.31, 1), (2711.86, 1)]),
    (64, [(4923.08, 1), (4266.67, 1)]),
    (128, [(6597.94, 1), (5981.31, 1)]),
    (256, [(7950.31, 1), (7485.38, 1)]),
    (512, [(8858.13, 1), (8561.87, 1)]),
    (1024, [(9394.50, 1), (9225.23, 1)]),
    (2048, [(9429.10, 2), (9192.10, 2)]),
    (4096, [(9574.57, 3), (9390.19, 3)]),
    (8192, [(9583.53, 6), (9398.81, 6)]),
    (16_384, [(9588.01, 12), (9403.12, 12)]),
    (32_768, [(9606.57, 23), (9428.55, 23)]),
];

/// 10-gigabit Ethernet, MTU 9000.
const UDP_ETHERNET_9000: [Plain; 14] = [
    (4, [476.19, 444.44]),
    (8, [952.38, 851.06]),
    (16, [1904.76, 1568.63]),
    (32, [3265.31, 2711.86]),
    (64, [4923.08, 4266.67]),
    (128, [6597.94, 5981.31]),
    (256, [7950.31, 7485.38]),
    (512, [8858.13, 8561.87]),
    (1024, [9394.50, 9225.23]),
    (2048, [9687.80, 9597.00]),
    (4096, [9841.42, 9794.36]),
    (8192, [9920.08, 9896.11]),
    (16_384, [9924.88, 9891.33]),
    (32_768, [9927.29, 9893.72]),
];

/// 10-gigabit Ethernet, MTU 1500.
const TCP_ETHERNET: [Row; 14] = [
    (4, [(425.53, 1), (350.88, 1)]),
    (8, [(816.33, 1), (677.97, 1)]),
    (16, [(1509.43, 1), (1269.84, 1)]),
    (32, [(2622.95, 1), (2253.52, 1)]),
    (64, [(4155.84, 1), (3678.16, 1)]),
    (128, [(5871.56, 1), (5378.15, 1)]),
    (256, [(7398.84, 1), (6994.54, 1)]),
    (512, [(8504.98, 1), (8231.51, 1)]),
    (1024, [(9192.10, 1), (9029.98, 1)]),
    (2048, [(9192.10, 2), (9029.98, 2)]),
    (4096, [(9381.58, 3), (9254.41, 3)]),
    (8192, [(9381.58, 6), (9254.41, 6)]),
    (16_384, [(9381.58, 12), (9254.41, 12)]),
    (32_768, [(9405.82, 23), (9283.25, 23)]),
];

/// 10-gigabit Ethernet, MTU 9000.
const TCP_ETHERNET_9000: [Plain; 14] = [
    (4, [425.53, 350.88]),
    (8, [816.33, 677.97]),
    (16, [1509.43, 1269.84]),
    (32, [2622.95, 2253.52]),
    (64, [4155.84, 3678.16]),
    (128, [5871.56, 5378.15]),
    (256, [7398.84, 6994.54]),
    (512, [8504.98, 8231.51]),
    (1024, [9192.10, 9029.98]),
    (2048, [9579.05, 9490.27]),
    (4096, [9785.00, 9738.47]),
    (8192, [9891.33, 9867.50]),
    (16_384, [9891.33, 9867.50]),
    (32_768, [9891.33, 9867.50]),
];

/// 4X FDR, datagram mode, IB MTU 2048.
const UDP_IPOIB: [Row; 14] = [
    (4, [(3116.88, 1), (2424.24, 1)]),
    (8, [(5896.81, 1), (4642.17, 1)]),
    (16, [(10_643.02, 1), (8556.15, 1)]),
    (32, [(17_810.76, 1), (14_791.99, 1)]),
    (64, [(26_853.15, 1), (23_272.73, 1)]),
    (128, [(35_988.75, 1), (32_625.32, 1)]),
    (256, [(43_365.33, 1), (40_829.35, 1)]),
    (512, [(48_317.08, 1), (46_701.12, 1)]),
    (1024, [(51_242.70, 1), (50_319.41, 1)]),
    (2048, [(51_431.44, 2), (50_138.73, 2)]),
    (4096, [(52_224.91, 3), (51_219.21, 3)]),
    (8192, [(52_630.90, 5), (51_777.10, 5)]),
    (16_384, [(52_836.27, 9), (52_060.63, 9)]),
    (32_768, [(52_939.56, 17), (52_203.56, 17)]),
];

/// 4X FDR, datagram mode, IB MTU 2048.
const TCP_IPOIB: [Row; 14] = [
    (4, [(2321.08, 1), (1913.88, 1)]),
    (8, [(4452.69, 1), (3698.00, 1)]),
    (16, [(8233.28, 1), (6926.41, 1)]),
    (32, [(14_307.00, 1), (12_291.93, 1)]),
    (64, [(22_668.24, 1), (20_062.70, 1)]),
    (128, [(32_026.69, 1), (29_335.37, 1)]),
    (256, [(40_357.33, 1), (38_152.01, 1)]),
    (512, [(46_390.82, 1), (44_899.15, 1)]),
    (1024, [(50_138.73, 1), (49_254.45, 1)]),
    (2048, [(50_138.73, 2), (49_254.45, 2)]),
    (4096, [(51_172.28, 3), (50_478.58, 3)]),
    (8192, [(51_705.20, 5), (51_113.75, 5)]),
    (16_384, [(51_975.85, 9), (51_437.36, 9)]),
    (32_768, [(52_112.24, 17), (51_600.71, 17)]),
];

/// 4X FDR, connected mode, MTU 65520.
const UDP_CONNECTED_65520: [Plain; 14] = [
    (4, [3519.06, 2660.75]),
    (8, [6611.57, 5074.00]),
    (16, [11_793.61, 9284.33]),
    (32, [19_393.94, 15_867.77]),
    (64, [28_614.01, 24_583.87]),
    (128, [37_536.66, 33_892.32]),
    (256, [44_470.18, 41_807.29]),
    (512, [48_995.22, 47_334.36]),
    (1024, [51_621.58, 50_684.71]),
    (2048, [52_396.38, 51_909.43]),
    (4096, [53_118.92, 52_867.53]),
    (8192, [53_487.71, 53_359.97]),
    (16_384, [53_674.04, 53_609.64]),
    (32_768, [53_767.69, 53_735.36]),
];

/// 4X FDR, connected mode, MTU 2044.
const UDP_CONNECTED_2044: [Plain; 14] = [
    (4, [3519.06, 2660.75]),
    (8, [6611.57, 5074.00]),
    (16, [11_793.61, 9284.33]),
    (32, [19_393.94, 15_867.77]),
    (64, [28_614.01, 24_583.87]),
    (128, [37_536.66, 33_892.32]),
    (256, [44_470.18, 41_807.29]),
    (512, [48_995.22, 47_334.36]),
    (1024, [51_621.58, 50_684.71]),
    (2048, [51_813.12, 50_501.40]),
    (4096, [52_519.55, 51_502.58]),
    (8192, [52_880.04, 52_018.20]),
    (16_384, [53_062.15, 52_279.91]),
    (32_768, [53_153.67, 52_411.75]),
];
