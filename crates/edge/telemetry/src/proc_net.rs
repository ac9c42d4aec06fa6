//! Files of `/proc/net` as text: a counter by its name or column.

/// A column, from 0, of `  veth1: bytes packets errs drop ...`.
pub(crate) fn device_column(text: &str, device: &str, column: usize) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

/// A line of names, then a line of values, both headed by the protocol.
pub(crate) fn parse_snmp(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let column = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// A name and a value on each line.
pub(crate) fn parse_snmp6(text: &str, name: &str) -> Option<u64> {
    let mut words = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_device_are_read_by_their_column() {
        let text = "Inter-|   Receive\n face |bytes packets errs drop\n    lo: 1 2 3 4\n veth1: 10 20 30 40 50\n";
        assert_eq!(device_column(text, "veth1", 3), Some(40));
        assert_eq!(device_column(text, "veth1", 0), Some(10));
        assert_eq!(device_column(text, "lo", 4), None);
        assert_eq!(device_column(text, "veth", 3), None);
    }

    #[test]
    fn failures_are_read_by_the_name_of_their_column() {
        let v4 = "Ip: Forwarding ReasmFails\nIp: 1 7\nTcp: RtoMin\nTcp: 2\n";
        assert_eq!(parse_snmp(v4, "Ip:", "ReasmFails"), Some(7));
        let v6 = "Ip6InReceives   5\nIp6ReasmFails   9\n";
        assert_eq!(parse_snmp6(v6, "Ip6ReasmFails"), Some(9));
    }
}
