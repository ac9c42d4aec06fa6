//! A veth pair in a namespace of the test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::process::Command;

use fabricmark_ethtool::{Coalescing, Ethtool, EthtoolError, Offload, Rings};
use fabricmark_lab::Namespace;

/// Runs `test` in a namespace with the veth pair v0 and v1; counts it as skipped if namespaces cannot be created.
fn with_veth(name: &str, test: impl FnOnce(Ethtool) + Send) {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => return fabricmark_testkit::skip(name, &error.to_string()),
    };
    let mut command = Command::new("ip");
    command.args("link add v0 type veth peer name v1".split(' '));
    namespace.enter(&mut command);
    assert!(command.status().unwrap().success());
    let entered = || {
        test(Ethtool::open().unwrap());
        io::Result::Ok(())
    };
    namespace.within(entered).unwrap();
}

/// Switches all features of an offload that can be changed.
fn switch(ethtool: &mut Ethtool, offload: Offload, is_on: bool) {
    let features = ethtool.features("v0").unwrap();
    let features = features.iter().filter(|one| !one.is_fixed && offload.has(&one.name));
    let wanted: Vec<(&str, bool)> = features.map(|one| (one.name.as_str(), is_on)).collect();
    match ethtool.set_features("v0", &wanted) {
        Ok(()) | Err(EthtoolError::Kept { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn offloads_are_switched_off_and_on() {
    with_veth("offloads_are_switched_off_and_on", |mut ethtool| {
        for offload in [Offload::Tso, Offload::Gro, Offload::Gso, Offload::TxChecksum] {
            for is_on in [false, true, false, true] {
                switch(&mut ethtool, offload, is_on);
                let features = ethtool.features("v0").unwrap();
                assert_eq!(offload.is_on(&features), Some(is_on), "{offload:?}");
                let other = ethtool.features("v1").unwrap();
                assert_eq!(Offload::Gso.is_on(&other), Some(true), "the peer keeps its own");
            }
        }
    });
}

#[test]
fn features_are_put_back_as_they_were() {
    with_veth("features_are_put_back_as_they_were", |mut ethtool| {
        ethtool.set_features("v0", &[("tx-tcp-mangleid-segmentation", false)]).unwrap();
        let before = ethtool.features("v0").unwrap();
        switch(&mut ethtool, Offload::Tso, false);
        assert_ne!(ethtool.features("v0").unwrap(), before);
        let old: Vec<(&str, bool)> = before
            .iter()
            .filter(|feature| Offload::Tso.has(&feature.name))
            .map(|feature| (feature.name.as_str(), feature.is_on))
            .collect();
        ethtool.set_features("v0", &old).unwrap();
        assert_eq!(ethtool.features("v0").unwrap(), before);
        ethtool.set_features("v0", &[]).unwrap();
    });
}

#[test]
fn a_feature_that_keeps_its_state_is_an_error_with_both() {
    with_veth("a_feature_that_keeps_its_state_is_an_error_with_both", |mut ethtool| {
        let error = ethtool.set_features("v0", &[("rx-lro", true)]).unwrap_err();
        assert_eq!(error.to_string(), "v0: rx-lro is off after it was set to on");
        // TSO needs scatter-gather, which is off.
        ethtool.set_features("v0", &[("tx-scatter-gather", false)]).unwrap();
        let error = ethtool.set_features("v0", &[("tx-tcp-segmentation", true)]).unwrap_err();
        assert!(matches!(error, EthtoolError::Kept { .. }), "{error}");
        let features = ethtool.features("v0").unwrap();
        let tso = features.iter().find(|feature| feature.name == "tx-tcp-segmentation").unwrap();
        assert!(tso.is_requested && !tso.is_on && !tso.is_fixed);
    });
}

#[test]
fn a_refusal_has_the_reason_of_the_kernel() {
    with_veth("a_refusal_has_the_reason_of_the_kernel", |mut ethtool| {
        let error = ethtool.coalescing("v0").unwrap_err();
        assert!(error.is_unsupported());
        assert_eq!(error.to_string(), "v0: coalescing: Operation not supported");
        let wanted = Coalescing { rx_usecs: Some(0), ..Coalescing::default() };
        assert!(ethtool.set_coalescing("v0", &wanted).unwrap_err().is_unsupported());
        let wanted = Rings { rx: Some(64), ..Rings::default() };
        assert!(ethtool.set_rings("v0", &wanted).unwrap_err().is_unsupported());
        let error = ethtool.set_features("v0", &[("no-such-feature", true)]).unwrap_err();
        assert_eq!(error.to_string(), "v0: features: Operation not supported: bit name not found");
    });
}

#[test]
fn a_device_of_another_namespace_is_missing() {
    with_veth("a_device_of_another_namespace_is_missing", |mut ethtool| {
        for name in ["eth0", "v2", "", "v0\0", &"v".repeat(127), &"v".repeat(500)] {
            let error = ethtool.features(name).unwrap_err();
            assert!(
                matches!(&error, EthtoolError::NoDevice { device } if device == name),
                "{error}"
            );
        }
    });
}

#[test]
fn a_veth_has_a_link_and_channels() {
    with_veth("a_veth_has_a_link_and_channels", |mut ethtool| {
        assert_eq!(ethtool.link("v0").unwrap().speed_bps, Some(10_000_000_000));
        assert_eq!(ethtool.channels("v0").unwrap().rx, Some(1));
    });
}

#[test]
fn setting_without_cap_net_admin_is_an_error_of_its_own() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let name = "setting_without_cap_net_admin_is_an_error_of_its_own";
    with_veth(name, |mut ethtool| {
        // Of this thread only.
        let mut held = capabilities(None).unwrap();
        held.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, held).unwrap();
        let error = ethtool.set_features("v0", &[("tx-tcp-segmentation", false)]).unwrap_err();
        assert!(matches!(error, EthtoolError::NoPrivilege { .. }), "{error}");
        assert!(ethtool.features("v0").is_ok(), "everybody may read");
    });
}
