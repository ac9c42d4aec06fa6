//! Error and drop counters of the network cards.

use super::finding::{Check, Finding};
use super::interface::folder;
use super::tree::{File, Tree};

pub(super) const ERRORS: Check = Check {
    name: "interface-errors",
    why: "Packets that a network card drops or corrupts are lost, and TCP slows down after each \
          loss.",
};

/// Counters of errors and drops. `rx_errors` and `tx_errors` include the specific errors (linux/if_link.h).
const COUNTERS: [&str; 6] =
    ["rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_missed_errors", "collisions"];

/// Loss rate at which one TCP connection with an MSS of 1,460 bytes and an RTT of 1 ms falls below 10 Gbit/s:
/// (1.22 x 11,680 bits / 1 ms / 10 Gbit/s)^2 (Mathis et al., The Macroscopic Behavior of the TCP Congestion
/// Avoidance Algorithm, 1997).
const LOST_MAX: f64 = 2e-6;

pub(super) fn examine(tree: &Tree, cards: &[String]) -> Vec<Finding> {
    let judge = |name: &String| {
        let files = format!("{}/statistics", folder(name));
        let packets = tree.files_in(&files, ["rx_packets", "tx_packets"]);
        errors(name, &packets, &tree.files_in(&files, COUNTERS))
    };
    cards.iter().map(judge).collect()
}

fn errors(name: &str, packets: &[File], counters: &[File]) -> Finding {
    let sum =
        |files: &[File]| files.iter().filter_map(File::count).fold(0_u64, u64::saturating_add);
    if counters.iter().all(|file| file.count().is_none()) {
        let title = format!("Errors of {name}: cannot be read");
        return ERRORS.found_all(counters.iter().take(1)).not_observable(title);
    }
    let (packets_sum, lost) = (sum(packets), sum(counters));
    let not_zero = counters.iter().filter(|file| file.count().is_some_and(|count| count > 0));
    let found = ERRORS.found_all(packets.iter().chain(not_zero));
    let title = format!("{name} dropped or corrupted {lost} of {packets_sum} packets since boot");
    if lost == 0 {
        found.fine(format!("{name} dropped and corrupted no packets since boot"))
    } else if lost as f64 >= LOST_MAX * packets_sum as f64 {
        found.warning(title)
    } else {
        found.note(title)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Evidence;
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    #[test]
    fn losses_matter_by_their_share_of_the_packets() {
        let judge = |packets: &str, lost: &str| {
            errors("eth0", &[File::of("/rx_packets", packets)], &[File::of("/rx_dropped", lost)])
        };
        assert_eq!(judge("1000000", "0").severity, Fine);
        assert_eq!(judge("1000000", "1").severity, Note);
        let finding = judge("1000000", "3");
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "eth0 dropped or corrupted 3 of 1000000 packets since boot");
        assert_eq!(finding.evidence[1], Evidence::new("/rx_dropped", "3"));
        assert_eq!(judge("1000000", "?").severity, NotObservable);
    }
}
