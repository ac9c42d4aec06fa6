//! The physical network cards: link and frame size.

use super::System;
use super::ethtool;
use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};

pub(super) const LINK: Check = Check {
    name: "link",
    why: "A link that agreed on less than it can do, or on half duplex, is a ceiling nobody asked \
          for.",
};

pub(super) const MTU: Check = Check {
    name: "mtu",
    why: "The frame size decides on the ceiling and on the packets a second; both ends and every \
          switch must agree on it.",
};

/// Checks that need a card with a link.
pub(super) const OF_A_CARD: [Check; 6] = [
    MTU,
    ethtool::OFFLOADS,
    ethtool::COALESCING,
    super::interrupts::PLACEMENT,
    super::steering::STEERING,
    super::counters::ERRORS,
];

/// A physical network card with a link.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    /// Its name.
    pub name: String,
}

impl Interface {
    /// Its folder in sysfs.
    pub fn folder(&self) -> String {
        format!("/sys/class/net/{}", self.name)
    }
}

/// The physical cards that have a link, and findings on the link of each card. A physical card has
/// a `device`; bridges, tunnels and veth have none.
pub(super) fn links(tree: &Tree) -> (Vec<Interface>, Vec<Finding>) {
    let folder = "/sys/class/net";
    let (mut linked, mut findings) = (Vec::new(), Vec::new());
    for name in tree.names(folder) {
        let file = |leaf: &str| tree.file(&format!("{folder}/{name}/{leaf}"));
        if !tree.has(&format!("{folder}/{name}/device")) {
            continue;
        }
        let carrier = file("carrier");
        findings.push(link(&name, &carrier, &file("speed"), &file("duplex")));
        if carrier.number() == Some(1) {
            linked.push(Interface { name });
        }
    }
    if findings.is_empty() {
        let evidence = Evidence::new(format!("{folder}/*/device"), "none");
        findings.push(
            LINK.not_observable("Network cards: there is none in this namespace").found(evidence),
        );
    }
    if linked.is_empty() {
        let evidence = || Evidence::new(format!("{folder}/*/carrier"), "no card with 1");
        findings.extend(OF_A_CARD.map(|check| {
            let title = format!("{}: no network card with a link", check.name);
            check.not_observable(title).found(evidence())
        }));
    }
    (linked, findings)
}

/// Reads and judges the cards that have a link.
pub(super) fn examine(tree: &Tree, system: &System, interfaces: &[Interface]) -> Vec<Finding> {
    let judge = |interface: &Interface| {
        let file = |leaf: &str| tree.file(&format!("{}/{leaf}", interface.folder()));
        let settings = (system.settings)(&interface.name);
        [
            mtu(&interface.name, &file("mtu"), &file("speed")),
            ethtool::offloads(&interface.name, &settings),
            ethtool::coalescing(&interface.name, &settings),
        ]
    };
    interfaces.iter().flat_map(judge).collect()
}

/// Judges carrier, speed in Mbit/s and duplex (Documentation/ABI/testing/sysfs-class-net in the
/// kernel). A card that is down refuses to say.
fn link(name: &str, carrier: &File, speed: &File, duplex: &File) -> Finding {
    let mbps = speed.number().filter(|mbps| *mbps > 0);
    let finding = if carrier.number() != Some(1) {
        LINK.note(format!("{name} has no link; its settings are not judged"))
    } else if duplex.text() == Some("half") {
        LINK.problem(format!("{name} is half duplex")).fixed_by(format!("ethtool -r {name}"))
    } else {
        match mbps {
            None => LINK.not_observable(format!("Speed of {name}: its driver does not say")),
            Some(mbps @ ..1000) => LINK
                .warning(format!("{name} runs at {mbps} Mbit/s only"))
                .fixed_by(format!("ethtool -r {name}")),
            Some(mbps) => LINK.fine(format!("{name} runs at {mbps} Mbit/s")),
        }
    };
    finding.found(carrier).found(speed).found(duplex)
}

/// Judges the MTU against Ethernet's 1,500 bytes (IEEE 802.3, 3.2.7).
fn mtu(name: &str, mtu: &File, speed: &File) -> Finding {
    let Some(bytes) = mtu.count() else {
        return MTU.not_observable(format!("MTU of {name}: cannot be read")).found(mtu);
    };
    let is_fast = speed.number().is_some_and(|mbps| mbps >= 10_000);
    let title = format!("{name} has an MTU of {bytes}");
    let finding = if bytes < 1500 {
        // No command: a smaller MTU is mostly that of a tunnel underneath.
        MTU.warning(format!("{title}, less than Ethernet's 1500"))
    } else if bytes < 9000 && is_fast {
        MTU.note(format!("{title}; jumbo frames, where all switches pass them, need less CPU"))
            .fixed_by(format!("ip link set dev {name} mtu 9000"))
    } else {
        MTU.fine(title)
    };
    finding.found(mtu)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Problem, Warning};
    use super::*;

    #[test]
    fn a_link_is_judged_by_carrier_speed_and_duplex() {
        let judge = |carrier: &str, speed: &str, duplex: &str| {
            let [carrier, speed, duplex] =
                [carrier, speed, duplex].map(|text| File::of("/f", text));
            link("eth0", &carrier, &speed, &duplex).severity
        };
        assert_eq!(judge("1", "10000", "full"), Fine);
        assert_eq!(judge("1", "100", "full"), Warning);
        assert_eq!(judge("1", "1000", "half"), Problem);
        assert_eq!(judge("1", "-1", "unknown"), NotObservable);
        assert_eq!(judge("0", "-1", "unknown"), Note);
    }

    #[test]
    fn an_mtu_below_ethernets_may_spoil_and_jumbo_frames_are_proposed_to_fast_links() {
        let judge = |bytes: &str, mbps: &str| {
            mtu("eth0", &File::of("/mtu", bytes), &File::of("/speed", mbps)).severity
        };
        assert_eq!(judge("1400", "-1"), Warning);
        assert_eq!(judge("1500", "1000"), Fine);
        assert_eq!(judge("1500", "25000"), Note);
        assert_eq!(judge("9000", "25000"), Fine);
        assert_eq!(judge("", "25000"), NotObservable);
    }
}
