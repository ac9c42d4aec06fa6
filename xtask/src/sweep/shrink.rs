//! Shrinks a failing point to a simpler one that still fails.

use super::point::Point;

/// Runs per candidate, because results vary.
pub const TRIES: usize = 3;

/// Simpler values of options, in the order in which they are tried.
const SIMPLER: [(&str, &[&str]); 9] = [
    ("payload", &["64", "1000", "65536"]),
    ("response", &["64", "1000"]),
    ("duration", &["1s", "500ms", "200ms", "100ms"]),
    ("rtt", &["0ms", "20ms", "100ms"]),
    ("flows", &["2", "4"]),
    ("outstanding", &["2", "16"]),
    ("omit", &["10ms", "100ms"]),
    ("pace", &["fixed:100/s", "fixed:1000/s", "poisson:1000/s"]),
    ("interval", &["100ms", "10ms"]),
];

/// Targets, simplest first.
const TARGETS: [&str; 5] =
    ["loopback", "lab:veth", "lab:ethernet:100M", "lab:ethernet:1G", "lab:ethernet:10M"];

/// Resets one option after another to its default or a simpler value while the point still fails. A candidate fails if
/// one of [`TRIES`] runs does; at most `runs` runs in all.
pub fn shrink(point: &Point, mut runs: usize, mut fails: impl FnMut(&Point) -> bool) -> Point {
    let mut best = point.clone();
    let mut try_one = |best: &mut Point, candidate: Point| {
        for _ in 0..TRIES {
            if runs == 0 {
                return false;
            }
            runs -= 1;
            if fails(&candidate) {
                *best = candidate;
                return true;
            }
        }
        false
    };
    loop {
        let mut is_smaller = false;
        for candidate in smaller(&best) {
            // Apply each step to the best point so far.
            if is_step(&best, &candidate) {
                let next = candidate.applied(&best);
                is_smaller |= try_one(&mut best, next);
            }
        }
        if !is_smaller {
            return best;
        }
    }
}

/// A step towards a simpler point.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Without(String),
    With(String, String),
    Target(String),
}

impl Step {
    fn applied(&self, point: &Point) -> Point {
        match self {
            Self::Without(name) => point.without(name),
            Self::With(name, value) => point.with(name, value),
            Self::Target(target) => Point { target: target.clone(), ..point.clone() },
        }
    }
}

/// Whether a step still simplifies the point.
fn is_step(point: &Point, step: &Step) -> bool {
    match step {
        Step::Without(name) => point.option(name).is_some(),
        Step::With(name, value) => {
            let (_, simpler) = SIMPLER.iter().find(|(key, _)| key == name).unwrap_or(&("", &[]));
            let place = |text: &str| simpler.iter().position(|simple| *simple == text);
            match (point.option(name), place(value)) {
                (Some(now), Some(to)) => place(now).is_none_or(|now| to < now),
                // A link specification with one option less.
                (Some(now), None) => now != value && now.len() > value.len(),
                (None, _) => false,
            }
        }
        Step::Target(target) => {
            let place = |text: &str| TARGETS.iter().position(|simple| *simple == text);
            match (place(&point.target), place(target)) {
                (Some(now), Some(to)) => to < now,
                (None, Some(_)) => true,
                _ => point.target.len() > target.len(),
            }
        }
    }
}

/// Possible steps from a point, largest first.
fn smaller(point: &Point) -> Vec<Step> {
    let names = point.options.keys().filter(|name| *name != "duration" && *name != "transport");
    let mut steps: Vec<Step> = names.cloned().map(Step::Without).collect();
    if point.option("transport") != Some("tcp") {
        steps.push(Step::Without("transport".to_owned()));
    }
    steps.extend(TARGETS.iter().map(|target| Step::Target((*target).to_owned())));
    // A link without its tag, or with the default MTU.
    steps.extend(with_one_less(&point.target, ",").skip(1).map(Step::Target));
    let emulate = with_one_less(point.option("emulate").unwrap_or_default(), " ");
    let emulate = emulate.filter(|words| !words.is_empty());
    steps.extend(emulate.map(|words| Step::With("emulate".to_owned(), words)));
    for (name, values) in SIMPLER {
        let with = |value: &&str| Step::With(name.to_owned(), (*value).to_owned());
        steps.extend(values.iter().map(with).filter(|_| point.option(name).is_some()));
    }
    steps
}

/// All variants of a list with one element removed.
fn with_one_less<'a>(words: &'a str, between: &'a str) -> impl Iterator<Item = String> + 'a {
    let words: Vec<&str> = words.split(between).collect();
    (0..words.len())
        .map(move |left_out| [&words[..left_out], &words[left_out + 1..]].concat().join(between))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn point() -> Point {
        let options = [
            ("transport", "udp"),
            ("duration", "1932ms"),
            ("emulate", "queue=20p loss=0.01"),
            ("payload", "31415"),
            ("rtt", "123456us"),
            ("wait", "spin"),
        ];
        let options =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let target = "lab:ethernet:71200K,mtu=9000,vlan=1".to_owned();
        Point { pattern: "stream".to_owned(), target, options }
    }

    /// A simulated bug that needs large payloads and loss.
    fn has_fault(point: &Point) -> bool {
        let payload = point.option("payload").and_then(|text| text.parse().ok()).unwrap_or(64);
        point.option("emulate").is_some_and(|words| words.contains("loss")) && payload >= 1000
    }

    #[test]
    fn what_does_not_matter_for_a_fault_goes_and_what_does_stays() {
        let small = shrink(&point(), 1000, has_fault);
        assert_eq!(
            small.to_string(),
            "fabricmark measure stream loopback --duration 1s --emulate loss=0.01 --payload 1000"
        );
    }

    #[test]
    fn a_fault_that_shows_once_in_three_runs_is_shrunk_as_well() {
        let run = Cell::new(0);
        let small = shrink(&point(), 1000, |candidate| {
            run.set(run.get() + 1);
            has_fault(candidate) && run.get() % 3 == 0
        });
        assert_eq!(small.option("wait"), None);
        assert_eq!(small.option("payload"), Some("1000"));
    }

    #[test]
    fn a_fault_that_never_shows_again_leaves_the_point_and_the_runs_are_bounded() {
        let run = Cell::new(0);
        let same = shrink(&point(), 40, |_| {
            run.set(run.get() + 1);
            false
        });
        assert_eq!((same, run.get()), (point(), 40));
    }
}
