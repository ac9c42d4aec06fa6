//! CPU lists in the kernel's format: `0-3,8`.

/// Largest CPU number accepted from a file (the maximum of CONFIG_NR_CPUS is 8192).
const CPU_MAX: u32 = 8191;

/// Parses a CPU list; malformed parts are skipped.
pub(crate) fn parse_cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { continue };
        cpus.extend(first..=last.min(CPU_MAX));
    }
    cpus
}

/// Formats CPUs, given in ascending order, as a CPU list.
pub(crate) fn cpu_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written() {
        assert_eq!(parse_cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(cpu_list(&[]), "");
    }

    #[test]
    fn garbage_is_an_empty_list_and_no_range_is_endless() {
        assert!(parse_cpu_list("all, 3-, -1,5-2").is_empty());
        assert_eq!(parse_cpu_list("8190-4294967295"), [8190, 8191]);
    }
}
