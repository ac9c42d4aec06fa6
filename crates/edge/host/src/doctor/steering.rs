//! Movement of interrupts and packets between CPUs: irqbalance, RPS and XPS.

use super::finding::{Check, Evidence, Finding};
use super::interface::folder;
use super::tree::{File, Tree, grouped};
use crate::stat::Process;

pub(super) const IRQBALANCE: Check = Check {
    name: "irqbalance",
    why: "irqbalance moves interrupts between CPUs every ten seconds, also during runs.",
};

pub(super) const STEERING: Check = Check {
    name: "packet-steering",
    why: "Steered packets move to another CPU, which increases the rate with few queues and adds \
          some microseconds of delay.",
};

pub(super) fn examine(tree: &Tree, cards: &[String], processes: &[Process]) -> Vec<Finding> {
    let of_cards = cards.iter().map(|name| {
        let queues = format!("{}/queues", folder(name));
        steering(
            name,
            &tree.files(&format!("{queues}/rx-*/rps_cpus")),
            &tree.files(&format!("{queues}/tx-*/xps_cpus")),
        )
    });
    [irqbalance(processes)].into_iter().chain(of_cards).collect()
}

/// Looks for irqbalance among the processes visible in this PID namespace.
fn irqbalance(processes: &[Process]) -> Finding {
    let found = |value: &str| IRQBALANCE.found(Evidence::new("/proc/*/stat", value));
    if processes.is_empty() {
        return found("only this process")
            .not_observable("irqbalance: other processes are not visible");
    }
    match processes.iter().find(|process| process.name == "irqbalance") {
        Some(process) => found(&format!("irqbalance (pid {})", process.pid))
            .warning("irqbalance is running")
            .fixed_by("systemctl stop irqbalance"),
        None => found(&format!("none of {} processes", processes.len()))
            .fine("irqbalance is not running"),
    }
}

/// Reports whether CPU masks are set for receiving (RPS) and sending (XPS) (Documentation/networking/scaling.rst in
/// the kernel).
fn steering(name: &str, receive: &[File], send: &[File]) -> Finding {
    if receive.is_empty() {
        return STEERING
            .found(Evidence::new(format!("{}/queues/rx-*", folder(name)), "none"))
            .not_observable(format!("Packet steering of {name}: no receive queues in sysfs"));
    }
    let is_set = |file: &File| {
        file.text().is_some_and(|mask| mask.chars().any(|digit| !matches!(digit, '0' | ',')))
    };
    let found = STEERING.found_all(grouped(receive)).found_all(grouped(send));
    if receive.iter().any(is_set) {
        let zero = format!("echo 0 | tee {}/queues/rx-*/rps_cpus", folder(name));
        found.note(format!("Received packets of {name} are steered (RPS)")).fixed_by(zero)
    } else {
        found.fine(format!("Received packets of {name} are not steered"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    #[test]
    fn irqbalance_is_known_by_its_name() {
        let process = |name: &str| Process { pid: 7, name: name.to_owned(), ticks: 0 };
        assert_eq!(irqbalance(&[process("irqbalance")]).severity, Warning);
        assert_eq!(irqbalance(&[process("init")]).severity, Fine);
        assert_eq!(irqbalance(&[]).severity, NotObservable);
    }

    #[test]
    fn a_mask_with_any_bit_steers() {
        let judge = |mask: &str| steering("eth0", &[File::of("/rps_cpus", mask)], &[]).severity;
        assert_eq!(judge("00000000,00000000"), Fine);
        assert_eq!(judge("00000000,0000000f"), Note);
        assert_eq!(steering("eth0", &[], &[]).severity, NotObservable);
    }
}
