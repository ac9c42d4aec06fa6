//! CPUs that load threads are pinned to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;

/// CPUs of the load threads of an end, in their order: `0`, `0-3` or `0-3+8`. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Cpus(Vec<u32>);

/// A single CPU is stored as a number.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    One(u32),
    Several(Vec<u32>),
}

impl Cpus {
    /// The largest number of CPUs, and one more than the largest CPU number: the maximum of CONFIG_NR_CPUS.
    const MAX: u32 = 8192;

    /// The CPUs, in the order of the threads.
    pub fn list(&self) -> &[u32] {
        &self.0
    }

    /// The CPU of each thread; threads beyond the list share the CPUs from the first on.
    pub fn of_threads(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied().cycle()
    }
}

impl TryFrom<Stored> for Cpus {
    type Error = Invalid;

    fn try_from(stored: Stored) -> Result<Self, Invalid> {
        match stored {
            Stored::One(cpu) => Ok(Self(vec![cpu])),
            Stored::Several(cpus) if cpus.is_empty() => Err(Invalid("no CPU".to_owned())),
            Stored::Several(cpus) => Ok(Self(cpus)),
        }
    }
}

impl From<Cpus> for Stored {
    fn from(Cpus(cpus): Cpus) -> Self {
        match cpus[..] {
            [cpu] => Self::One(cpu),
            _ => Self::Several(cpus),
        }
    }
}

impl FromStr for Cpus {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&cpu| cpu < Self::MAX);
        let mut cpus = Vec::new();
        for part in text.split('+') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(Invalid("use CPU numbers, such as 0, 0-3 or 0-3+8".to_owned())),
            }
        }
        match cpus.len() > Self::MAX as usize {
            false => Ok(Self(cpus)),
            true => Err(Invalid(format!("use at most {} CPUs", Self::MAX))),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = &self.0[..];
        while let [first, ..] = *left {
            let follow = left.iter().zip(first..).take_while(|&(cpu, next)| *cpu == next).count();
            let (range, rest) = left.split_at(follow);
            let plus = if rest.is_empty() { "" } else { "+" };
            match range.len() {
                1 => write!(f, "{first}{plus}")?,
                more => write!(f, "{first}-{}{plus}", first + more as u32 - 1)?,
            }
            left = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_and_gives_each_thread_a_cpu() {
        for (text, list, written) in [
            ("0", vec![0], "0"),
            ("0-3", vec![0, 1, 2, 3], "0-3"),
            ("8+0-2", vec![8, 0, 1, 2], "8+0-2"),
            ("1+2+4", vec![1, 2, 4], "1-2+4"),
            ("0+0", vec![0, 0], "0+0"),
        ] {
            let cpus: Cpus = text.parse().unwrap();
            assert_eq!((cpus.list(), cpus.to_string()), (&list[..], written.to_owned()));
            let stored = serde_json::to_string(&cpus).unwrap();
            assert_eq!(serde_json::from_str::<Cpus>(&stored).unwrap(), cpus);
        }
        let cpus: Cpus = "4+6".parse().unwrap();
        assert_eq!(cpus.of_threads().take(3).collect::<Vec<_>>(), [4, 6, 4]);
        assert_eq!(serde_json::from_str::<Cpus>("7").unwrap(), "7".parse().unwrap());
        assert_eq!(serde_json::to_string(&cpus).unwrap(), "[4,6]");
        assert!(serde_json::from_str::<Cpus>("[]").is_err());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "a", "-1", "3-1", "0+", "0-4294967295", "8192"] {
            assert!(text.parse::<Cpus>().is_err(), "{text}");
        }
        assert!(["0-8191"; 2].join("+").parse::<Cpus>().is_err());
    }
}
