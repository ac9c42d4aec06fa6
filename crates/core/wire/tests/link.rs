//! The link grammar: parsing, printing and errors.

use fabricmark_units::BitRate;
use fabricmark_wire::{Exact, IB_MTUS, Ib, Ipoib, IpoibMode, Lanes, Link, MTU_MIN, Speed};
use proptest::prelude::*;

fn ethernet(rate: u64, mtu: u16, vlan: u8) -> Link {
    Link::Ethernet { rate: BitRate(rate), mtu, vlan }
}

#[test]
fn links_are_read_as_people_write_them_and_printed_without_defaults() {
    for (text, link, printed) in [
        ("loopback", Link::Loopback, "loopback"),
        ("veth", Link::Veth { mtu: 1500 }, "veth"),
        ("veth,mtu=9000", Link::Veth { mtu: 9000 }, "veth,mtu=9000"),
        ("ethernet:1G", ethernet(1_000_000_000, 1500, 0), "ethernet:1G"),
        (
            "ethernet:10Gbit/s,vlan=1,mtu=9000",
            ethernet(10_000_000_000, 9000, 1),
            "ethernet:10G,mtu=9000,vlan=1",
        ),
        ("ethernet:2.5G,mtu=1500,vlan=0", ethernet(2_500_000_000, 1500, 0), "ethernet:2500M"),
    ] {
        assert_eq!(text.parse(), Ok(link), "{text}");
        assert_eq!(link.to_string(), printed);
    }
}

#[test]
fn infiniband_links_have_the_defaults_of_their_mode() {
    let lanes = Lanes::new(4).unwrap();
    let (datagram, connected) = (IpoibMode::Datagram, IpoibMode::Connected);
    let fdr = |mode, ib_mtu, mtu, grh| {
        Link::Ipoib(Ipoib { lanes, speed: Speed::Fdr, mode, ib_mtu, mtu, grh })
    };
    let hdr = |mtu, grh| Link::Ib(Ib { lanes, speed: Speed::Hdr, mtu, grh });
    for (text, link, printed) in [
        ("ipoib:4X-FDR", fdr(datagram, 2048, 2044, false), "ipoib:4X-FDR"),
        (
            "ipoib:4x-fdr,mode=datagram,ib-mtu=4096",
            fdr(datagram, 4096, 4092, false),
            "ipoib:4X-FDR,ib-mtu=4096",
        ),
        (
            "ipoib:4X-FDR,grh,mode=connected",
            fdr(connected, 2048, 2044, true),
            "ipoib:4X-FDR,mode=connected,grh",
        ),
        (
            "ipoib:4X-FDR,mode=connected,mtu=65520",
            fdr(connected, 2048, 65_520, false),
            "ipoib:4X-FDR,mode=connected,mtu=65520",
        ),
        ("ib:4X-HDR", hdr(4096, false), "ib:4X-HDR"),
        ("ib:4X-HDR,grh,mtu=256", hdr(256, true), "ib:4X-HDR,mtu=256,grh"),
    ] {
        assert_eq!(text.parse(), Ok(link), "{text}");
        assert_eq!(link.to_string(), printed);
    }
}

#[test]
fn rdma_over_ethernet_takes_the_largest_packet_that_leaves_room_for_headers() {
    for (mtu, path_mtu) in
        [(352, 256), (1500, 1024), (2143, 1024), (2144, 2048), (4192, 4096), (9000, 4096)]
    {
        for kind in ["rocev1", "rocev2"] {
            let link: Link = format!("{kind}:25G,mtu={mtu}").parse().unwrap();
            assert_eq!(link.path_mtu(), Some(path_mtu), "{link}");
        }
    }
    for (text, path_mtu) in
        [("ib:1X-SDR,mtu=512", Some(512)), ("ipoib:4X-FDR", None), ("ethernet:1G", None)]
    {
        assert_eq!(text.parse::<Link>().unwrap().path_mtu(), path_mtu, "{text}");
    }
}

#[test]
fn a_rate_is_exact_on_every_wire() {
    for (text, numerator, denominator) in [
        ("ipoib:4X-FDR", 600_000_000_000, 11),
        ("ib:12X-EDR", 300_000_000_000, 1),
        ("ib:2X-HDR", 100_000_000_000, 1),
        ("rocev2:25G", 25_000_000_000, 1),
        ("ethernet:10G", 10_000_000_000, 1),
    ] {
        let rate = text.parse::<Link>().unwrap().rate_bps();
        assert_eq!(rate, Exact::new(numerator, denominator), "{text}");
    }
    assert_eq!(Link::Loopback.rate_bps(), None);
}

#[test]
fn what_is_not_a_link_is_refused_with_what_would_be_right() {
    for (text, message) in [
        (
            "wifi",
            "`wifi` is not a link: write loopback, veth[,mtu=N], \
             ethernet:RATE[,mtu=N][,vlan=N], ipoib:4X-FDR, ib:4X-HDR, rocev1:RATE or rocev2:RATE",
        ),
        (
            "ipoib:5X-FDR",
            "`ipoib:5X-FDR` has no width and speed: write ipoib:WIDTH-SPEED, such as \
             ipoib:4X-FDR, with 1X, 2X, 4X, 8X or 12X and SDR, DDR, QDR, FDR10, FDR, EDR, HDR, \
             NDR or XDR",
        ),
        (
            "ipoib:4X-FDR,mtu=2045",
            "`mtu=2045` is out of range: write mtu=68 to mtu=2044 (a datagram carries ib-mtu minus \
             4 bytes; mode=connected carries more)",
        ),
        (
            "ipoib:4X-FDR,mode=connected,mtu=65521",
            "`mtu=65521` is out of range: write mtu=68 to mtu=65520 (the maximum of Linux)",
        ),
        (
            "ipoib:4X-FDR,ib-mtu=1500",
            "`ib-mtu=1500` is not an InfiniBand MTU: write ib-mtu=256, 512, 1024, 2048 or 4096",
        ),
        (
            "ib:4X-FDR,mtu=x",
            "`mtu=x` is not an InfiniBand MTU: write mtu=256, 512, 1024, 2048 or 4096",
        ),
        (
            "ipoib:4X-FDR,mode=fast",
            "`mode=fast` is not an IPoIB mode: write mode=datagram or mode=connected",
        ),
        (
            "rocev2",
            "`rocev2` has no rate of 1 kbit/s or more: write rocev2:RATE, such as rocev2:100M or rocev2:10G",
        ),
        (
            "rocev1:10G,mtu=351",
            "`mtu=351` is out of range: write mtu=352 to mtu=65535 (at least 256 bytes of payload \
             and 96 of headers)",
        ),
        ("ib:4X-FDR,grh=1", "`grh=1` is not an option of ib: use mtu=N and grh"),
        (
            "ethernet",
            "`ethernet` has no rate of 1 kbit/s or more: write ethernet:RATE, such as ethernet:100M or ethernet:10G",
        ),
        (
            "ethernet:10",
            "`ethernet:10` has no rate of 1 kbit/s or more: write ethernet:RATE, such as ethernet:100M or ethernet:10G",
        ),
        ("veth:1G", "`veth:1G` has a rate, but veth has none: write veth or veth,mtu=N"),
        (
            "veth,mtu=1279",
            "`mtu=1279` is out of range: write mtu=1280 to mtu=65535 (IPv6 needs 1280)",
        ),
        (
            "ethernet:1G,mtu=65536",
            "`mtu=65536` is out of range: write mtu=1280 to mtu=65535 (IPv6 needs 1280)",
        ),
        (
            "ethernet:1G,vlan=3",
            "`vlan=3` is not a number of 802.1Q tags: write vlan=0, vlan=1 or vlan=2",
        ),
        ("veth,vlan=1", "`vlan=1` is not an option of veth: use mtu=N"),
        ("veth,", "`` is not an option of veth: use mtu=N"),
        ("veth,mtu=1500,mtu=1500", "`mtu` is given twice: give it once"),
    ] {
        let error = text.parse::<Link>().unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
    }
}

#[test]
fn a_link_is_its_text_in_json() {
    let link = ethernet(10_000_000_000, 9000, 0);
    let json = serde_json::to_string(&link).unwrap();
    assert_eq!(json, r#""ethernet:10G,mtu=9000""#);
    assert_eq!(serde_json::from_str::<Link>(&json).unwrap(), link);
    let schema = serde_json::to_value(schemars::schema_for!(Link)).unwrap();
    assert_eq!(schema["type"], "string");
}

#[test]
fn a_veth_pair_has_no_wire() {
    assert!(!Link::Veth { mtu: 1500 }.has_wire());
    assert!(ethernet(1, 1500, 0).has_wire());
}

proptest! {
    #[test]
    fn printing_and_reading_gives_the_same_link(
        rate in 1u64..,
        mtu in MTU_MIN..,
        vlan in 0u8..=2,
        lanes in prop::sample::select(&Lanes::ALL),
        speed in prop::sample::select(&Speed::ALL),
        ib_mtu in prop::sample::select(&IB_MTUS),
        grh: bool,
    ) {
        let rate = BitRate(rate);
        let connected = Ipoib { lanes, speed, mode: IpoibMode::Connected, ib_mtu, mtu, grh };
        let datagram = Ipoib { mode: IpoibMode::Datagram, mtu: mtu % 185 + 68, ..connected };
        for link in [
            Link::Loopback,
            Link::Veth { mtu },
            Link::Ethernet { rate, mtu, vlan },
            Link::RoceV1 { rate, mtu, vlan },
            Link::RoceV2 { rate, mtu, vlan },
            Link::Ipoib(connected),
            Link::Ipoib(datagram),
            Link::Ib(Ib { lanes, speed, mtu: ib_mtu, grh }),
        ] {
            let is_accepted = link.check().is_ok();
            prop_assert_eq!(link.to_string().parse().ok(), is_accepted.then_some(link));
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        text in ".{0,24}",
        near in "(ethernet|ipoib|ib|rocev1)?(:[0-9.GXFDR-]{0,8})?(,(mtu|ib-mtu|grh|é)?=?[0-9é-]{0,6}){0,3}",
    ) {
        let _ = (text.parse::<Link>(), near.parse::<Link>());
    }
}
