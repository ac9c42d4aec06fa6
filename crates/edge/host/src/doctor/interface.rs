//! Link and MTU of the physical network cards.

use super::System;
use super::ethtool;
use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};

pub(super) const LINK: Check = Check {
    name: "link",
    why: "A link that negotiated a lower speed or half duplex limits the rate.",
};

pub(super) const MTU: Check = Check {
    name: "mtu",
    why: "The MTU determines the ceiling and the packet rate. Both ends and all switches need the \
          same MTU.",
};

/// Checks that apply only to a card with link.
pub(super) const OF_A_CARD: [Check; 6] = [
    MTU,
    ethtool::OFFLOADS,
    ethtool::COALESCING,
    super::interrupts::PLACEMENT,
    super::steering::STEERING,
    super::counters::ERRORS,
];

/// Sysfs directory of a network card.
pub(crate) fn folder(card: &str) -> String {
    format!("/sys/class/net/{card}")
}

/// Directory of the PCI function of a card: its device, or the directory above that of a virtio device. `None` if it is
/// on no PCI bus. Only PCI functions have a file `class` (sysfs-bus-pci).
pub(crate) fn pci_function(tree: &Tree, card: &str) -> Option<String> {
    let device = format!("{}/device", folder(card));
    let above = format!("{device}/..");
    [device, above].into_iter().find(|folder| tree.has(&format!("{folder}/class")))
}

/// Names of the physical cards that have link, and the link finding of each card. A physical card has a `device`
/// entry; bridges, tunnels and veth do not.
pub(super) fn links(tree: &Tree) -> (Vec<String>, Vec<Finding>) {
    let (mut linked, mut findings) = (Vec::new(), Vec::new());
    for name in tree.names("/sys/class/net") {
        let folder = folder(&name);
        if !tree.has(&format!("{folder}/device")) {
            continue;
        }
        let files = tree.files_in(&folder, ["carrier", "speed", "duplex"]);
        findings.push(link(&name, &files));
        if files[0].number() == Some(1) {
            linked.push(name);
        }
    }
    if findings.is_empty() {
        let found = LINK.found(Evidence::new("/sys/class/net/*/device", "none"));
        findings.push(found.not_observable("Network cards: none in this namespace"));
    }
    if linked.is_empty() {
        findings.extend(OF_A_CARD.map(|check| {
            let found = check.found(Evidence::new("/sys/class/net/*/carrier", "none is 1"));
            found.not_observable(format!("{}: no network card with a link", check.name))
        }));
    }
    (linked, findings)
}

pub(super) fn examine(tree: &Tree, system: &System, cards: &[String]) -> Vec<Finding> {
    let judge = |name: &String| {
        let settings = (system.settings)(name);
        [
            mtu(name, &tree.files_in(&folder(name), ["mtu", "speed"])),
            ethtool::offloads(name, &settings),
            ethtool::coalescing(name, &settings),
        ]
    };
    cards.iter().flat_map(judge).collect()
}

/// Judges carrier, speed in Mbit/s and duplex (Documentation/ABI/testing/sysfs-class-net in the kernel). Reading
/// these files fails if the card is down.
fn link(name: &str, files: &[File; 3]) -> Finding {
    let (found, [carrier, speed, duplex]) = (LINK.found_all(files), files);
    let again = format!("ethtool -r {name}");
    if carrier.number() != Some(1) {
        return found.note(format!("{name} has no link; its settings are not checked"));
    }
    if duplex.text() == Some("half") {
        return found.problem(format!("{name} is half duplex")).fixed_by(again);
    }
    match speed.number() {
        None | Some(..=0) => {
            found.not_observable(format!("Speed of {name}: not reported by the driver"))
        }
        Some(mbps @ ..1000) => {
            found.warning(format!("{name} runs at only {mbps} Mbit/s")).fixed_by(again)
        }
        Some(mbps) => found.fine(format!("{name} runs at {mbps} Mbit/s")),
    }
}

/// Judges the MTU against Ethernet's 1,500 bytes (IEEE 802.3, 3.2.7).
fn mtu(name: &str, [mtu, speed]: &[File; 2]) -> Finding {
    let found = MTU.found(mtu);
    let Some(bytes) = mtu.count() else {
        return found.not_observable(format!("MTU of {name}: cannot be read"));
    };
    let is_fast = speed.number().is_some_and(|mbps| mbps >= 10_000);
    let title = format!("{name} has an MTU of {bytes}");
    if bytes < 1500 {
        // No command: a smaller MTU usually belongs to an underlying tunnel.
        found.warning(format!("{title}, less than Ethernet's 1500"))
    } else if bytes < 9000 && is_fast {
        found
            .note(format!("{title}; jumbo frames need less CPU time, if all switches support them"))
            .fixed_by(format!("ip link set dev {name} mtu 9000"))
    } else {
        found.fine(title)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Problem, Warning};
    use super::*;

    #[test]
    fn a_link_is_judged_by_carrier_speed_and_duplex() {
        let judge = |carrier: &str, speed: &str, duplex: &str| {
            link("eth0", &[carrier, speed, duplex].map(|text| File::of("/f", text))).severity
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
            mtu("eth0", &[File::of("/mtu", bytes), File::of("/speed", mbps)]).severity
        };
        assert_eq!(judge("1400", "-1"), Warning);
        assert_eq!(judge("1500", "1000"), Fine);
        assert_eq!(judge("1500", "25000"), Note);
        assert_eq!(judge("9000", "25000"), Fine);
        assert_eq!(judge("", "25000"), NotObservable);
    }
}
