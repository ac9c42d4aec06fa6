//! Connection tracking and packet filters, which process every packet.

use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};

pub(super) const CONNTRACK: Check = Check {
    name: "connection-tracking",
    why: "Each tracked packet needs a table lookup, and a full table drops packets of new \
          connections.",
};

pub(super) const PACKET_FILTER: Check = Check {
    name: "packet-filter",
    why: "Packet filter rules cost CPU time for each packet, so hosts with and without rules are \
          not comparable.",
};

/// Fraction of the conntrack table in use above which a test with many short connections can fill it.
const FULL: f64 = 0.8;

/// Kernel modules that hold filter rules (the kernel's net/ipv4/netfilter and net/netfilter).
const FILTERS: [&str; 5] = ["nf_tables", "ip_tables", "ip6_tables", "ebtables", "arp_tables"];

pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        conntrack(
            &tree.files_in("/proc/sys/net/netfilter", ["nf_conntrack_count", "nf_conntrack_max"]),
        ),
        packet_filter(
            &tree.file("/proc/modules"),
            &tree.files_in("/proc/net", ["ip_tables_names", "ip6_tables_names"]),
        ),
    ]
}

/// Judges the number of connections tracked in this network namespace against the table size.
fn conntrack([count, max]: &[File; 2]) -> Finding {
    let found = CONNTRACK.found(count);
    if count.is_missing() {
        return found.fine("Connection tracking is off: nf_conntrack is not loaded");
    }
    let Some(tracked) = count.count() else {
        return found.not_observable("Connection tracking: cannot be read");
    };
    let found = found.found(max);
    let room = max.count().unwrap_or(u64::MAX);
    if tracked == 0 {
        found.fine("No connection is tracked")
    } else if tracked as f64 >= FULL * room as f64 {
        let larger = room.saturating_mul(4);
        found
            .problem(format!("The connection tracking table is nearly full: {tracked} of {room}"))
            .fixed_by(format!("sysctl -w net.netfilter.nf_conntrack_max={larger}"))
    } else {
        found.warning(format!("{tracked} connections are tracked"))
    }
}

/// Judges the module list, `name size uses by state address` (proc_modules(5)), and the names of tables that have
/// rules.
fn packet_filter(modules: &File, tables: &[File; 2]) -> Finding {
    let lines = modules.text().unwrap_or_default().lines();
    let loaded: Vec<&str> = lines
        .filter(|line| line.split_whitespace().next().is_some_and(|name| FILTERS.contains(&name)))
        .collect();
    let names = |file: &File| Evidence::new(&file.path, names(file));
    let used = tables.iter().filter(|file| file.text().is_some_and(|names| !names.is_empty()));
    let used: Vec<Evidence> = used.map(names).collect();
    if loaded.is_empty() && used.is_empty() {
        return match modules.text() {
            Some(_) => PACKET_FILTER
                .found(Evidence::new(&modules.path, "none"))
                .fine("No packet filter is loaded"),
            None => PACKET_FILTER
                .found(modules)
                .found(names(&tables[0]))
                .not_observable("Packet filters: neither modules nor rules can be read"),
        };
    }
    let loaded = loaded.into_iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let uses = words.get(2).copied().unwrap_or("?");
        Evidence::new(&modules.path, format!("{}, {uses} uses", words[0]))
    });
    PACKET_FILTER
        .found_all(loaded)
        .found_all(used)
        .note("A packet filter is loaded (nft list ruleset, iptables-save)")
}

fn names(file: &File) -> String {
    match &file.text {
        Ok(text) if text.is_empty() => "empty".to_owned(),
        Ok(text) => text.split_whitespace().collect::<Vec<_>>().join(", "),
        Err(reason) => format!("cannot be read: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Problem, Warning};
    use super::*;

    #[test]
    fn tracking_is_judged_by_what_the_table_holds() {
        let judge = |count: &str, max: &str| {
            conntrack(&[File::of("/nf_conntrack_count", count), File::of("/nf_conntrack_max", max)])
        };
        assert_eq!(judge("0", "262144").severity, Fine);
        assert_eq!(judge("310", "262144").severity, Warning);
        let finding = judge("65000", "65536");
        assert_eq!(finding.severity, Problem);
        let command = "sysctl -w net.netfilter.nf_conntrack_max=262144";
        assert_eq!(finding.remedy.as_deref(), Some(command));
        assert_eq!(judge("?", "").severity, NotObservable);
        let none = File::missing("/none");
        assert_eq!(conntrack(&[none.clone(), none]).severity, Fine);
    }

    #[test]
    fn filters_are_found_among_the_modules_or_by_their_tables() {
        let none = || File::missing("/none");
        let modules = File::of(
            "/proc/modules",
            "nft_chain_nat 12288 2 - Live 0x0\nnf_tables 372736 123 nft_chain_nat, Live 0x0\n",
        );
        let finding = packet_filter(&modules, &[none(), none()]);
        assert_eq!(finding.severity, Note);
        let expected = [Evidence::new("/proc/modules", "nf_tables, 123 uses")];
        assert_eq!(finding.evidence, expected);
        let tables = File::of("/proc/net/ip_tables_names", "nat\nfilter\n");
        let expected = [Evidence::new(&tables.path, "nat, filter")];
        assert_eq!(packet_filter(&none(), &[tables, none()]).evidence, expected);
        let others = File::of("/m", "veth 1 0");
        assert_eq!(packet_filter(&others, &[none(), none()]).severity, Fine);
        assert_eq!(packet_filter(&none(), &[none(), none()]).severity, NotObservable);
    }
}
