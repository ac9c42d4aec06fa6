//! Recorded answers of the kernel, and bytes that are none.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_ethtool::message::{channels, coalescing, connector, features, link_modes, rings};
use fabricmark_ethtool::netlink::messages;
use fabricmark_ethtool::{Channels, Coalescing, Feature, Link, Offload, Rings};
use proptest::prelude::*;

/// The attributes of the message in a recorded datagram.
fn recorded(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let digits: Vec<u8> = std::fs::read_to_string(path)
        .unwrap()
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    let datagram: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let message = messages(&datagram).next().unwrap().unwrap();
    message.body[4..].to_vec()
}

#[test]
fn features_have_their_name_state_and_whether_they_are_fixed() {
    let lo = features(&recorded("lo-features")).unwrap();
    let of = |features: &[Feature], name: &str| {
        let feature = features.iter().find(|feature| feature.name == name).unwrap();
        (feature.is_on, feature.is_requested, feature.is_fixed)
    };
    assert_eq!(of(&lo, "tx-tcp-segmentation"), (true, true, false));
    assert_eq!(of(&lo, "rx-checksum"), (true, false, true));
    assert_eq!(of(&lo, "rx-lro"), (false, false, true));
    let veth = features(&recorded("veth-features")).unwrap();
    assert_eq!(of(&veth, "tx-tcp-mangleid-segmentation"), (true, true, false));
    assert_eq!(of(&veth, "rx-gro"), (false, false, false));
    let eth0 = features(&recorded("eth0-features")).unwrap();
    assert_eq!(of(&eth0, "rx-gro"), (true, true, false));
    assert_eq!((lo.len(), veth.len(), eth0.len()), (60, 60, 60));
}

#[test]
fn an_offload_is_on_if_one_of_its_features_is() {
    let of = |device: &str| {
        let features = features(&recorded(device)).unwrap();
        Offload::ALL.map(|offload| offload.is_on(&features).unwrap())
    };
    // tso, gso, gro, lro, rx, tx
    assert_eq!(of("lo-features"), [true, true, true, false, true, true]);
    assert_eq!(of("veth-features"), [true, true, false, false, true, true]);
    assert_eq!(of("eth0-features"), [true, true, true, false, true, true]);
    let lo = features(&recorded("lo-features")).unwrap();
    let fixed = Offload::ALL.map(|offload| offload.is_fixed(&lo).unwrap());
    assert_eq!(fixed, [false, false, false, true, true, true]);
    assert_eq!(Offload::Tso.is_on(&[]), None);
}

#[test]
fn a_virtio_device_reports_coalescing_rings_and_channels() {
    let expected = Coalescing {
        rx_usecs: Some(0),
        rx_frames: Some(1),
        tx_usecs: Some(0),
        tx_frames: Some(1),
        adaptive_rx: Some(false),
        adaptive_tx: None,
    };
    assert_eq!(coalescing(&recorded("eth0-coalesce")), expected);
    let expected = Rings { rx: Some(256), rx_max: Some(256), tx: Some(256), tx_max: Some(256) };
    assert_eq!(rings(&recorded("eth0-rings")), expected);
    let expected = Channels { combined: Some(1), combined_max: Some(1), ..Channels::default() };
    assert_eq!(channels(&recorded("eth0-channels")), expected);
    // This one does not report the speed of the link.
    assert_eq!(link_modes(&recorded("eth0-linkmodes")), Link::default());
    assert_eq!(connector(&recorded("eth0-linkinfo")), None);
}

#[test]
fn a_veth_has_a_link_of_10_gbit_per_s() {
    let link = link_modes(&recorded("veth-linkmodes"));
    assert_eq!(link.speed_bps, Some(10_000_000_000));
    assert_eq!(link.duplex, Some(fabricmark_ethtool::Duplex::Full));
    let connector = connector(&recorded("veth-linkinfo"));
    assert_eq!(connector, Some(fabricmark_ethtool::Connector::TwistedPair));
    let expected = Channels {
        rx: Some(1),
        rx_max: Some(2),
        tx: Some(1),
        tx_max: Some(2),
        ..Channels::default()
    };
    assert_eq!(channels(&recorded("veth-channels")), expected);
}

fn parse_all(bytes: &[u8]) {
    let _ = features(bytes);
    let _ = (coalescing(bytes), rings(bytes), channels(bytes));
    let _ = (link_modes(bytes), connector(bytes));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        parse_all(&bytes);
    }

    #[test]
    fn a_changed_answer_is_parsed_without_panic(at in 0_usize..4000, byte: u8, end in 0_usize..4500) {
        let mut answer = recorded("veth-features");
        let at = at % answer.len();
        answer[at] = byte;
        answer.truncate(end);
        parse_all(&answer);
    }
}
