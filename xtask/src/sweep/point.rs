//! A point of the sweep: one command line of `fabricmark measure`.

use std::collections::BTreeMap;
use std::fmt;

/// A pattern, a target, and options by name without dashes; the value of a switch is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// `stream`, `rr` and so on.
    pub pattern: String,
    /// `loopback` or `lab:LINK`.
    pub target: String,
    /// Options, for example `rtt` with `20ms`.
    pub options: BTreeMap<String, String>,
}

impl Point {
    /// The arguments of `fabricmark`.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["measure".to_owned(), self.pattern.clone(), self.target.clone()];
        for (name, value) in &self.options {
            words.push(format!("--{name}"));
            if !value.is_empty() {
                words.push(value.clone());
            }
        }
        words
    }

    /// Value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// A copy with another value of an option.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.options.insert(name.to_owned(), value.to_owned());
        other
    }

    /// A copy without an option.
    pub fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.options.remove(name);
        other
    }

    /// Requested duration in ns. Default: 2 s.
    pub fn duration_ns(&self) -> u64 {
        self.option("duration").and_then(nanos).unwrap_or(2_000_000_000)
    }
}

/// A shell command line.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fabricmark")?;
        for word in self.words() {
            if word.contains(' ') { write!(f, " '{word}'")? } else { write!(f, " {word}")? }
        }
        Ok(())
    }
}

/// A time such as `10ms` in ns.
pub fn nanos(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_printed_as_a_shell_reads_it() {
        let options = [("emulate", "loss=0.01 queue=20p"), ("omit", "10ms"), ("reverse", "")];
        let options =
            options.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let (pattern, target) = ("stream".to_owned(), "lab:veth".to_owned());
        let point = Point { pattern, target, options };
        assert_eq!(
            point.to_string(),
            "fabricmark measure stream lab:veth --emulate 'loss=0.01 queue=20p' --omit 10ms --reverse"
        );
        assert_eq!(point.duration_ns(), 2_000_000_000);
        assert_eq!(point.with("duration", "1.5ms").duration_ns(), 1_500_000);
        assert_eq!(point.without("emulate").option("emulate"), None);
    }
}
