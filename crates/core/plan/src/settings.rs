//! A plan without a file: one setting, or several that are compared with the first.

use fabricmark_stats::StopRule;
use fabricmark_units::Nanos;

use crate::factor::{Factor, Section, Where};
use crate::invalid::Invalid;
use crate::plan::{Plan, Testbed};
use crate::presentation::Presentation;
use crate::resolve::resolve;

fn known() -> String {
    let named = Factor::ALL.iter().filter(|factor| factor.spec().section.is_measured());
    named.map(|factor| factor.key()).collect::<Vec<_>>().join(", ")
}

/// Parses `factor=level[,factor=level]` into levels to be laid over others. In the name of a factor a dash equals
/// an underscore.
pub fn overlay(text: &str) -> Result<Where, Invalid> {
    let mut levels = Where::new();
    // Some levels contain commas. A part without `=` continues the previous level; after a link or settings of hosts, so
    // does a part whose name is no factor.
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        let name = part.split_once('=').map(|(name, _)| name.replace('-', "_"));
        let starts = |last: &String| {
            ["link=", "host_settings=", "host-settings="].iter().any(|name| last.starts_with(name))
        };
        let has_parts = parts.last().is_some_and(starts);
        match (&name, parts.last_mut()) {
            (Some(name), Some(last)) if has_parts && Factor::named(name).is_none() => {
                last.push_str(&format!(",{part}"));
            }
            (None, Some(last)) => last.push_str(&format!(",{part}")),
            _ => parts.push(part.to_owned()),
        }
    }
    for part in parts {
        let (name, level) = part.split_once('=').ok_or_else(|| {
            Invalid(format!("`{text}` is not of the form factor=level[,factor=level]"))
        })?;
        let name = name.replace('-', "_");
        let factor = Factor::named(&name)
            .filter(|factor| factor.spec().section != Section::Group)
            .ok_or_else(|| Invalid(format!("unknown factor `{name}`; use one of {}", known())))?;
        let level = factor.level(level).map_err(|error| Invalid(format!("{factor}: {error}")))?;
        levels.insert(factor, level);
    }
    Ok(levels)
}

/// The plan of a base with each of `variants` laid over it. All points are in one comparison group, so that their
/// runs are interleaved. Without variants: the base alone.
pub fn settings(
    base: &Where,
    variants: &[Where],
    duration_ns: Nanos,
    warm_up_ns: Nanos,
    stop: StopRule,
) -> Result<Plan, Invalid> {
    let nothing = [Where::new()];
    let variants = if variants.is_empty() { &nothing } else { variants };
    let mut points = Vec::new();
    for variant in variants {
        let mut levels = base.clone();
        levels.extend(variant.clone());
        let point = resolve(&levels)?;
        if points.contains(&point) {
            return Err(Invalid(format!(
                "two settings are the same point ({}); add label=a and label=b to compare it with itself",
                point.key()
            )));
        }
        points.push(point);
    }
    Ok(Plan {
        testbed: Testbed::Lab,
        topology: None,
        is_in_guest: false,
        wires: Vec::new(),
        groups: Vec::new(),
        has_interference: false,
        peer: None,
        launcher: None,
        seed: 1,
        duration_ns,
        omit_ns: Nanos(0),
        amount: None,
        warm_up_ns,
        interval_ns: None,
        steady: None,
        slices: false,
        stop,
        budget_ns: None,
        port: 0,
        cpus: None,
        comparison_groups: vec![(0..points.len()).collect()],
        pairs: Vec::new(),
        points,
        compare: Vec::new(),
        traces: std::collections::BTreeMap::new(),
        link_traces: std::collections::BTreeMap::new(),
        presentation: Presentation::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Where {
        overlay("pattern=stream,transport=udp,family=4,payload=1KiB,link=loopback").unwrap()
    }

    fn of(variants: &[&str]) -> Result<Plan, Invalid> {
        let variants: Vec<Where> = variants.iter().map(|text| overlay(text).unwrap()).collect();
        settings(&base(), &variants, Nanos(1), Nanos(0), StopRule::of_runs(0.95, 2))
    }

    #[test]
    fn variants_lie_over_the_base_and_run_in_one_group() {
        let plan = of(&["path=copy", "path=gso,receive-buffer=1MiB"]).unwrap();
        assert_eq!(plan.points[1].level(Factor::Path), "gso");
        assert_eq!(plan.points[1].level(Factor::ReceiveBuffer), "1048576");
        assert_eq!(plan.comparison_groups, [[0, 1]]);
        assert_eq!(of(&[]).unwrap().points.len(), 1);
    }

    #[test]
    fn levels_keep_their_commas() {
        let levels = "link=ethernet:10G,mtu=9000,emulate=loss=ge:1e-3,0.099,payload=64";
        let levels = overlay(levels).unwrap();
        assert_eq!(levels[&Factor::Link], "ethernet:10G,mtu=9000");
        assert_eq!(levels[&Factor::Emulate], "loss=ge:0.001,0.099,0,1");
        assert_eq!(levels[&Factor::Payload], "64");
        let levels = overlay("host-settings=mtu=9000,tso=off,flows=2").unwrap();
        assert_eq!(levels[&Factor::HostSettings], "mtu=9000,tso=off");
        assert_eq!(levels[&Factor::Flows], "2");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |text: &str| overlay(text).unwrap_err().to_string();
        assert!(refusal("fast").contains("factor=level"));
        assert!(
            refusal("speed=9").starts_with("unknown factor `speed`; use one of pattern, transport")
        );
        assert!(refusal("path=warp").contains("is not one of copy, trunc"));
        let same = of(&["path=copy", "family=4"]).unwrap_err().to_string();
        assert!(same.contains("the same point"), "{same}");
        let mixed = of(&["path=sendfile"]).unwrap_err().to_string();
        assert!(mixed.contains("use transport=tcp"), "{mixed}");
    }
}
