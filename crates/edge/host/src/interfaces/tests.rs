//! Interfaces of hosts built in `tests/fixtures`, with answers of the kernel that fit them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fabricmark_ethtool::{Channels, Coalescing, Connector, Duplex, Feature, Rings};
use fabricmark_record::{Host, Interface, InterfaceFacts, Technology};
use serde_json::json;
use tempfile::TempDir;

use super::device::{Device, Driver};
use super::link::Link;
use super::{all, complete, described, facts, text};

/// The files of a fixture in a folder (`tests/fixtures/README.md`).
fn root(name: &str) -> TempDir {
    let path = format!("{}/tests/fixtures/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let folder = TempDir::new().unwrap();
    for line in fs::read_to_string(path).unwrap().lines() {
        let below = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        if let Some((path, text)) = line.split_once(" = ") {
            fs::write(below(path), text.replace("\\n", "\n") + "\n").unwrap();
        } else if let Some((path, target)) = line.split_once(" -> ") {
            symlink(target, below(path)).unwrap();
        } else {
            fs::create_dir_all(below(line)).unwrap();
        }
    }
    folder
}

/// A device that is up, with the queueing discipline of a card with several queues.
fn device(name: &str, index: u32, address: &str) -> Device {
    let address = address.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let link = Link {
        name: name.to_owned(),
        index,
        hardware: libc::ARPHRD_ETHER,
        flags: (libc::IFF_UP | libc::IFF_RUNNING) as u32,
        address,
        state: Some(6),
        qdisc: Some("mq".to_owned()),
        ..Link::default()
    };
    Device { link, ..Device::default() }
}

fn mtu(device: &mut Device, mtu: u32, min: u32, max: u32) {
    (device.link.mtu, device.link.mtu_min, device.link.mtu_max) = (Some(mtu), Some(min), Some(max));
}

fn driver(name: &str, firmware: Option<&str>) -> Option<Driver> {
    Some(Driver { name: Some(name.to_owned()), firmware: firmware.map(str::to_owned) })
}

/// Features with TSO, GSO, GRO and checksums on, and LRO off and fixed.
fn features() -> Vec<Feature> {
    let names = [
        "tx-checksum-ip-generic",
        "tx-tcp-segmentation",
        "tx-generic-segmentation",
        "rx-gro",
        "rx-lro",
        "rx-checksum",
    ];
    let feature = |name: &str| Feature {
        name: name.to_owned(),
        is_on: name != "rx-lro",
        is_requested: name != "rx-lro",
        is_fixed: name == "rx-lro",
    };
    names.map(feature).to_vec()
}

fn interfaces(fixture: &str, devices: &[Device]) -> Vec<Interface> {
    complete(root(fixture).path(), devices)
}

/// The IPoIB interface of the fixture `mlx4`.
fn connectx_3_ipoib() -> Device {
    let address = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:ee:ae:01";
    let mut ib0 = device("ib0", 5, address);
    ib0.link.hardware = libc::ARPHRD_INFINIBAND;
    ib0.link.kind = Some("ipoib".to_owned());
    (ib0.link.pkey, ib0.link.mode) = (Some(0xffff), Some(1));
    mtu(&mut ib0, 65520, 0, 65520);
    ib0.driver = driver("ib_ipoib", Some("2.42.5000"));
    ib0.addresses = vec!["10.1.0.1/24".to_owned()];
    // What ethtool reports for IPoIB is rounded; the port has the rate.
    ib0.speed.speed_bps = Some(32_000_000_000);
    ib0
}

#[test]
fn a_connectx_3_has_an_ipoib_and_an_ethernet_port_on_one_pci_function() {
    let ib0 = connectx_3_ipoib();
    let mut eth2 = device("eth2", 6, "00:02:c9:ee:ae:02");
    mtu(&mut eth2, 1500, 68, 9216);
    eth2.driver = driver("mlx4_en", Some("2.42.5000"));
    eth2.speed = fabricmark_ethtool::Link {
        speed_bps: Some(10_000_000_000),
        lanes: None,
        duplex: Some(Duplex::Full),
        connector: Some(Connector::Fibre),
    };
    eth2.features = features();
    eth2.coalescing = Some(Coalescing {
        rx_usecs: Some(16),
        rx_frames: Some(44),
        tx_usecs: Some(16),
        tx_frames: Some(16),
        adaptive_rx: Some(true),
        adaptive_tx: None,
    });
    eth2.rings =
        Some(Rings { rx: Some(1024), rx_max: Some(8192), tx: Some(512), tx_max: Some(8192) });
    eth2.channels = Some(Channels {
        rx: Some(8),
        rx_max: Some(128),
        tx: Some(16),
        tx_max: Some(32),
        ..Channels::default()
    });
    let expected = "\
ib0: IPoIB (connected, P_Key 0xffff), up
  speed       40 Gbit/s, 4 lanes, QDR
  MTU         65520 bytes (0 to 65520)
  address     80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:ee:ae:01
  IP          10.1.0.1/24
  RDMA        mlx4_0 port 1: InfiniBand, ACTIVE, 40 Gb/sec (4X QDR)
  driver      ib_ipoib, firmware 2.42.5000
  PCI         0000:03:00.0, 8 GT/s x8 (at most 8 GT/s x8)
  NUMA node   0
  qdisc       mq
  IRQs        61 on CPUs 0-15; 62 on CPU 0; 63 on CPU 1

eth2: Ethernet, up
  speed       10 Gbit/s, full duplex, fibre
  MTU         1500 bytes (68 to 9216)
  address     00:02:c9:ee:ae:02
  RDMA        mlx4_0 port 2: RoCE v1 and RoCE v2, ACTIVE, 10 Gb/sec (1X QDR)
  driver      mlx4_en, firmware 2.42.5000
  PCI         0000:03:00.0, 8 GT/s x8 (at most 8 GT/s x8)
  NUMA node   0
  qdisc       mq
  channels    rx 8 (at most 128), tx 16 (at most 32)
  rings       rx 1024 (at most 8192), tx 512 (at most 8192)
  coalescing  rx-usecs 16, rx-frames 44, tx-usecs 16, tx-frames 16, adaptive-rx on
  offloads    tso on, gso on, gro on, lro off [fixed], rx on, tx on
  IRQs        61 on CPUs 0-15; 62 on CPU 0; 63 on CPU 1
";
    let interfaces = interfaces("mlx4", &[eth2, ib0]);
    assert_eq!(text(&interfaces), expected);
    let names: Vec<_> = interfaces[0].irqs.iter().map(|irq| irq.name.as_deref()).collect();
    let expected = [
        Some("mlx4-async@pci:0000:03:00.0"),
        Some("mlx4-1@0000:03:00.0"),
        Some("mlx4-2@0000:03:00.0"),
    ];
    assert_eq!(names, expected);
    assert_eq!(interfaces[0].irqs[0].effective_cpus, [0]);
    let json = serde_json::to_value(&interfaces[1]).unwrap();
    assert_eq!(json["coalescing"]["rx_delay_ns"], 16_000);
    assert_eq!(json["pci"]["transfers_per_s"], 8_000_000_000_u64);
    assert_eq!(json["technology"], "ethernet");
    assert_eq!(json["ipoib"], serde_json::Value::Null);
}

#[test]
fn a_connectx_6_has_a_pci_function_for_each_port() {
    let mut ib =
        device("ibp129s0f0", 4, "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:1a:2b:3c");
    ib.link.hardware = libc::ARPHRD_INFINIBAND;
    mtu(&mut ib, 2044, 68, 4092);
    // Neither link data nor a driver's answer: sysfs has mode, P_Key and firmware.
    let mut ethernet = device("enp129s0f1np1", 5, "b8:3f:d2:1a:2b:3d");
    mtu(&mut ethernet, 9000, 68, 9978);
    ethernet.driver = driver("mlx5_core", Some("20.43.1014 (MT_0000000224)"));
    ethernet.speed.speed_bps = Some(100_000_000_000);
    ethernet.speed.lanes = Some(4);
    let expected = "\
ibp129s0f0: IPoIB (datagram, P_Key 0xffff), up
  speed       200 Gbit/s, 4 lanes, HDR
  MTU         2044 bytes (68 to 4092)
  address     00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:1a:2b:3c
  RDMA        mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)
  driver      mlx5_core, firmware 20.43.1014
  PCI         0000:81:00.0, 16 GT/s x16 (at most 16 GT/s x16)
  NUMA node   1
  qdisc       mq
  IRQs        120 on CPUs 16-31; 121 on CPU 16; 122 on CPU 17

enp129s0f1np1: Ethernet, up
  speed       100 Gbit/s, 4 lanes
  MTU         9000 bytes (68 to 9978)
  address     b8:3f:d2:1a:2b:3d
  RDMA        mlx5_1 port 1: RoCE v1 and RoCE v2, ACTIVE, 100 Gb/sec (4X EDR)
  driver      mlx5_core, firmware 20.43.1014 (MT_0000000224)
  PCI         0000:81:00.1, 16 GT/s x16 (at most 16 GT/s x16)
  NUMA node   1
  qdisc       mq
  IRQs        130 on CPUs 16-31; 131 on CPU 16; 132 on CPU 17
";
    assert_eq!(text(&interfaces("mlx5", &[ib, ethernet])), expected);
}

#[test]
fn a_card_in_a_narrow_slot_shows_both_widths() {
    let mut eno49 = device("eno49", 2, "90:e2:ba:a2:1b:89");
    eno49.link.state = Some(2);
    eno49.driver = driver("ixgbe", Some("0x80000887, 1.2688.0"));
    eno49.channels =
        Some(Channels { combined: Some(2), combined_max: Some(63), ..Channels::default() });
    let expected = "\
eno49: Ethernet, no carrier
  address     90:e2:ba:a2:1b:89
  driver      ixgbe, firmware 0x80000887, 1.2688.0
  PCI         0000:04:00.0, 5 GT/s x4 (at most 5 GT/s x8)
  NUMA node   0
  qdisc       mq
  channels    combined 2 (at most 63)
  IRQs        70 on CPU 0; 71 on CPU 1; 72 on CPUs 0-15
";
    assert_eq!(text(&interfaces("ixgbe", &[eno49])), expected);
}

#[test]
fn a_virtio_card_has_the_interrupts_of_the_pci_function_above_it() {
    let mut eth0 = device("eth0", 4, "02:fc:00:00:00:01");
    mtu(&mut eth0, 1400, 68, 65535);
    eth0.link.qdisc = Some("pfifo_fast".to_owned());
    let interfaces = interfaces("virtio", &[eth0]);
    let expected = "\
eth0: virtio, up
  MTU         1400 bytes (68 to 65535)
  address     02:fc:00:00:00:01
  driver      virtio_net
  PCI         0000:00:03.0
  qdisc       pfifo_fast
  IRQs        37-39 on CPUs 0-1
";
    assert_eq!(text(&interfaces), expected);
    assert_eq!(interfaces[0].numa_node, None);
}

/// A veth pair as the kernel reports it, with the driver's invented speed.
fn veth_pair() -> [Device; 2] {
    [("v1", 2, "8a:87:f5:ab:6c:6c", 3), ("v0", 3, "ce:8d:4b:6e:c8:a4", 2)].map(
        |(name, index, address, peer)| {
            let mut device = device(name, index, address);
            device.link.kind = Some("veth".to_owned());
            device.link.lower = Some(peer);
            device.link.qdisc = Some("noqueue".to_owned());
            mtu(&mut device, 1500, 68, 65535);
            (device.link.rx_queues, device.link.tx_queues) = (Some(2), Some(2));
            device.driver = driver("veth", None);
            device.speed.speed_bps = Some(10_000_000_000);
            device
        },
    )
}

#[test]
fn a_veth_has_a_peer_and_soft_roce_and_no_speed() {
    let expected = "\
v1: veth (peer v0), up
  MTU         1500 bytes (68 to 65535)
  address     8a:87:f5:ab:6c:6c
  driver      veth
  qdisc       noqueue
  queues      rx 2, tx 2

v0: veth (peer v1), up
  MTU         1500 bytes (68 to 65535)
  address     ce:8d:4b:6e:c8:a4
  RDMA        rxe0 port 1: RoCE v2, ACTIVE, 2.5 Gb/sec (1X SDR)
  driver      veth
  qdisc       noqueue
  queues      rx 2, tx 2
";
    let interfaces = interfaces("veth", &veth_pair());
    assert_eq!(text(&interfaces), expected);
    assert_eq!(interfaces[0].speed_bps, None);
}

#[test]
fn hardware_of_a_link_of_this_name_in_another_namespace_is_not_its_own() {
    let same = device("eth2", 6, "00:02:c9:ee:ae:02");
    assert!(complete(root("mlx4").path(), &[same])[0].pci.is_some());
    for other in [device("eth2", 7, "00:02:c9:ee:ae:02"), device("eth2", 6, "00:02:c9:ee:ae:03")] {
        let interface = &complete(root("mlx4").path(), &[other])[0];
        assert_eq!(
            (interface.pci.as_ref(), interface.rdma.len(), interface.irqs.len()),
            (None, 0, 0)
        );
    }
}

#[test]
fn a_record_has_what_is_known_of_an_interface() {
    let json = |fixture: &str, device: &Device| {
        serde_json::to_value(described(root(fixture).path(), device)).unwrap()
    };
    let expected = json!({
        "technology": "ipoib",
        "driver": "ib_ipoib",
        "firmware": "2.42.5000",
        "speed_bps": 40_000_000_000_u64,
        "lanes": 4,
        "signalling": "QDR",
        "ipoib_mode": "connected",
        "mtu_bytes": 65520,
        "qdisc": "mq",
        "offloads": {},
    });
    assert_eq!(json("mlx4", &connectx_3_ipoib()), expected);
    let mut eth = device("eth2", 6, "00:02:c9:ee:ae:02");
    eth.features = features();
    eth.rings = Some(Rings { rx: Some(1024), rx_max: Some(8192), ..Rings::default() });
    (eth.link.rx_queues, eth.link.tx_queues) = (Some(128), Some(2));
    let channels = |rx, combined| Some(Channels { rx, combined, ..Channels::default() });
    for (given, rx_queues) in [
        (channels(Some(8), None), 8),
        (channels(Some(8), Some(4)), 12),
        (channels(Some(0), Some(4)), 4),
        (None, 128),
    ] {
        eth.channels = given;
        let shown = json("mlx4", &eth);
        assert_eq!(shown["rx_queues"], rx_queues, "{given:?}");
        assert_eq!((&shown["rx_ring"], shown.get("tx_ring")), (&json!(1024), None));
        let offloads = json!({
            "tso": true, "gso": true, "gro": true, "lro": false, "rx_checksum": true, "tx_checksum": true
        });
        assert_eq!(shown["offloads"], offloads);
    }
}

#[test]
fn the_link_of_an_interface_has_the_rate_and_mtu_of_its_ceiling() {
    let ethernet = |name: &str, index, address: &str, speed_bps, mtu| {
        let mut device = device(name, index, address);
        (device.speed.speed_bps, device.link.mtu) = (speed_bps, Some(mtu));
        device
    };
    let mlx4 = |speed, mtu| ethernet("eth2", 6, "00:02:c9:ee:ae:02", speed, mtu);
    let ipoib = |index, address: &str, mode, mtu| {
        let mut ib = ethernet("ib0", index, address, Some(32_000_000_000), mtu);
        (ib.link.hardware, ib.link.mode) = (libc::ARPHRD_INFINIBAND, mode);
        ib
    };
    let ib0 = |mode, mtu| {
        ipoib(5, "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:ee:ae:01", mode, mtu)
    };
    let mut hdr =
        ipoib(4, "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:1a:2b:3c", None, 2044);
    hdr.link.name = "ibp129s0f0".to_owned();
    let [veth, _] = veth_pair();
    for (fixture, device, link) in [
        ("mlx4", mlx4(Some(10_000_000_000), 9000), "ethernet:10G,mtu=9000"),
        ("mlx4", mlx4(Some(10_000_000_000), 68), "ethernet:10G,mtu=1280"),
        ("mlx4", mlx4(Some(10_000_000_000), 70_000), "ethernet:10G,mtu=65535"),
        ("mlx4", mlx4(Some(0), 1500), "veth"),
        ("mlx4", mlx4(None, 9000), "veth,mtu=9000"),
        ("mlx4", ib0(Some(0), 2044), "ipoib:4X-QDR,ib-mtu=4096,mtu=2044"),
        ("mlx4", ib0(Some(0), 4092), "ipoib:4X-QDR,ib-mtu=4096"),
        ("mlx4", ib0(Some(1), 65520), "ipoib:4X-QDR,mode=connected,ib-mtu=4096,mtu=65520"),
        // A datagram cannot be so long.
        ("mlx4", ib0(Some(0), 65520), "veth,mtu=65520"),
        // sysfs has the mode if netlink has none.
        ("mlx5", hdr, "ipoib:4X-HDR,ib-mtu=4096,mtu=2044"),
        ("veth", veth, "veth"),
    ] {
        assert_eq!(described(root(fixture).path(), &device).link().to_string(), link, "{device:?}");
    }
}

#[test]
fn the_technology_follows_from_hardware_type_and_kind() {
    let of = |hardware: u16, kind: Option<&str>, has_driver: bool| {
        let mut device = device("x0", 9, "02:00:00:00:00:01");
        (device.link.hardware, device.link.kind) = (hardware, kind.map(str::to_owned));
        device.driver = has_driver.then(|| driver("some", None)).flatten();
        complete(Path::new("/nonexistent"), &[device])[0].technology
    };
    assert_eq!(of(libc::ARPHRD_LOOPBACK, None, false), Technology::Loopback);
    assert_eq!(of(libc::ARPHRD_NONE, Some("tun"), true), Technology::Tun);
    assert_eq!(of(libc::ARPHRD_ETHER, Some("tun"), true), Technology::Tap);
    assert_eq!(of(libc::ARPHRD_ETHER, Some("bridge"), true), Technology::Bridge);
    assert_eq!(of(libc::ARPHRD_ETHER, Some("vlan"), true), Technology::Virtual);
    assert_eq!(of(libc::ARPHRD_ETHER, None, true), Technology::Ethernet);
    assert_eq!(of(libc::ARPHRD_ETHER, None, false), Technology::Virtual);
}

#[test]
fn a_host_is_read_back_from_json() {
    let interfaces = interfaces("veth", &veth_pair());
    let host = Host { host: fabricmark_record::HostFacts::default(), interfaces };
    let json = serde_json::to_string(&host).unwrap();
    assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
}

#[test]
fn this_host_has_a_loopback() {
    let interfaces = all().unwrap();
    let lo = &interfaces[0];
    assert_eq!((lo.name.as_str(), lo.technology), ("lo", Technology::Loopback));
    assert!(lo.offloads.gso.is_some());
    assert_eq!((lo.coalescing, lo.speed_bps), (None, None));
    assert_eq!(facts("lo"), Some(InterfaceFacts::from(lo)));
    assert_eq!(facts("no-such-link"), None);
}
