//! What looks at packets on their way: connection tracking and packet filters.

use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};

pub(super) const CONNTRACK: Check = Check {
    name: "connection-tracking",
    why: "A tracked packet is looked up in a table, and a full table drops the packets of new \
          connections.",
};

pub(super) const PACKET_FILTER: Check = Check {
    name: "packet-filter",
    why: "Rules of a packet filter are run for each packet, and a host with rules is compared \
          with one without.",
};

/// Part of the table beyond which many short connections fill it.
const FULL: f64 = 0.8;

/// Modules that hold rules (the kernel's net/ipv4/netfilter and net/netfilter).
const FILTERS: [&str; 5] = ["nf_tables", "ip_tables", "ip6_tables", "ebtables", "arp_tables"];

/// Reads and judges.
pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        conntrack(
            &tree.file("/proc/sys/net/netfilter/nf_conntrack_count"),
            &tree.file("/proc/sys/net/netfilter/nf_conntrack_max"),
        ),
        packet_filter(
            &tree.file("/proc/modules"),
            &tree.file("/proc/net/ip_tables_names"),
            &tree.file("/proc/net/ip6_tables_names"),
        ),
    ]
}

/// Judges the connections tracked in this network namespace, and how many fit.
fn conntrack(count: &File, max: &File) -> Finding {
    if count.is_missing() {
        return CONNTRACK
            .fine("Connections are not tracked: the kernel part is not loaded")
            .found(count);
    }
    let Some(tracked) = count.count() else {
        return CONNTRACK.not_observable("Connections tracked: cannot be read").found(count);
    };
    let room = max.count().unwrap_or(u64::MAX);
    let finding = if tracked == 0 {
        CONNTRACK.fine("No connection is tracked")
    } else if tracked as f64 >= FULL * room as f64 {
        let larger = room.saturating_mul(4);
        CONNTRACK
            .problem(format!("The table of connections is nearly full: {tracked} of {room}"))
            .fixed_by(format!("sysctl -w net.netfilter.nf_conntrack_max={larger}"))
    } else {
        CONNTRACK.warning(format!("Connections are tracked: {tracked} now"))
    };
    finding.found(count).found(max)
}

/// Judges the list of modules `name size uses by state address` (proc_modules(5)) and the names of
/// tables with rules.
fn packet_filter(modules: &File, tables4: &File, tables6: &File) -> Finding {
    let lines = modules.text().unwrap_or_default().lines();
    let loaded: Vec<&str> =
        lines.filter(|line| FILTERS.iter().any(|name| starts(line, name))).collect();
    let tables = [tables4, tables6]
        .into_iter()
        .filter(|file| file.text().is_some_and(|names| !names.is_empty()));
    let tables: Vec<Evidence> = tables.map(|file| Evidence::new(&file.path, names(file))).collect();
    if modules.text().is_none() && tables.is_empty() {
        return PACKET_FILTER
            .not_observable("Packet filters: neither a list of modules nor tables of rules")
            .found(modules)
            .found(Evidence::new(&tables4.path, names(tables4)));
    }
    let finding = if loaded.is_empty() && tables.is_empty() {
        PACKET_FILTER.fine("No packet filter is loaded").found(Evidence::new(&modules.path, "none"))
    } else {
        PACKET_FILTER.note("A packet filter is loaded (nft list ruleset, iptables-save)")
    };
    let loaded = loaded.into_iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let uses = words.get(2).copied().unwrap_or("?");
        Evidence::new(&modules.path, format!("{}, {uses} uses", words[0]))
    });
    finding.found_all(loaded).found_all(tables)
}

fn starts(line: &str, name: &str) -> bool {
    line.split_whitespace().next() == Some(name)
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
            conntrack(&File::of("/nf_conntrack_count", count), &File::of("/nf_conntrack_max", max))
        };
        assert_eq!(judge("0", "262144").severity, Fine);
        assert_eq!(judge("310", "262144").severity, Warning);
        let finding = judge("65000", "65536");
        assert_eq!(finding.severity, Problem);
        let command = "sysctl -w net.netfilter.nf_conntrack_max=262144";
        assert_eq!(finding.remedy.as_deref(), Some(command));
        assert_eq!(judge("?", "").severity, NotObservable);
        let none = File::missing("/none");
        assert_eq!(conntrack(&none, &none).severity, Fine);
    }

    #[test]
    fn filters_are_found_among_the_modules_or_by_their_tables() {
        let none = File::missing("/none");
        let modules = File::of(
            "/proc/modules",
            "nft_chain_nat 12288 2 - Live 0x0\nnf_tables 372736 123 nft_chain_nat, Live 0x0\n",
        );
        let finding = packet_filter(&modules, &none, &none);
        assert_eq!(finding.severity, Note);
        let expected = [Evidence::new("/proc/modules", "nf_tables, 123 uses")];
        assert_eq!(finding.evidence, expected);
        let tables = File::of("/proc/net/ip_tables_names", "nat\nfilter\n");
        let finding = packet_filter(&none, &tables, &none);
        assert_eq!(finding.evidence, [Evidence::new(&tables.path, "nat, filter")]);
        assert_eq!(packet_filter(&File::of("/m", "veth 1 0"), &none, &none).severity, Fine);
        assert_eq!(packet_filter(&none, &none, &none).severity, NotObservable);
    }
}
