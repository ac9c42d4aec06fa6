//! What groups of flows that run at once share: the sum of their goodputs, the share of each, how fair that is, and
//! the interference, which is the change from each group alone to all of them together.

use std::collections::BTreeMap;

use fabricmark_plan::{Factor, Figure, Interference, Level, Plan, Point};
use fabricmark_record::{Alignment, Fairness, MachineUsage, Provenance, Record};
use fabricmark_stats::Estimate;
use fabricmark_wire::{Ceiling, Input, Kind};

use crate::grid::PlainTable;
use crate::number::{self, Scale, fixed, share};
use crate::runs::{ByPoint, Runs};
use crate::table::Change;
use crate::{Experiment, label, results, select, summary};

/// The groups of one combination of levels, all of them together.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    /// Levels that differ from those of other combinations.
    levels: Vec<(Factor, Level)>,
    provenance: Vec<Provenance>,
    groups: Vec<Group>,
    /// `None` if a group has no goodput.
    sum: Option<Sum>,
    /// Over all runs: the largest distances, and the smallest overlap.
    alignment: Option<Alignment>,
    /// CPU time of the machine of the first group's client in the runs of all groups together.
    cpu: Option<Cpu>,
}

/// One group.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    figure: Figure,
    together: Estimate,
    /// `None` if the plan has no `[interference]`.
    alone: Option<Estimate>,
    /// From alone to together.
    change: Option<Estimate>,
    /// Part of the sum of all goodputs.
    share: Option<Estimate>,
    /// CPU time of the machine in the runs of this group alone.
    cpu: Option<Cpu>,
}

/// All groups together.
#[derive(Clone, Debug)]
struct Sum {
    goodput_bps: Estimate,
    /// Change from each group alone to the sum, by group.
    against: Vec<(String, Estimate)>,
    /// Jain's index of the goodputs.
    jain: Estimate,
    /// Goodput of the group with most, divided by that of the group with least, and their names.
    ratio: (Estimate, [String; 2]),
    /// What the groups share, and how much of it they used.
    medium: Option<(Medium, Estimate)>,
}

/// What all groups cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Bus,
    Link,
}

/// CPU time of a machine: means over runs.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// Share of all CPUs' time that was busy.
    busy: f64,
    /// The same of the busiest CPU, and its share of soft interrupts.
    busiest: f64,
    softirq_max: f64,
}

/// One entry for each combination of levels of a plan with several groups.
pub(crate) fn sharing(e: &Experiment<'_>) -> Vec<Sharing> {
    let plan = e.plan;
    if plan.groups.len() < 2 {
        return Vec::new();
    }
    let runs = ByPoint::of(e.records);
    let together: Vec<Vec<&Point>> = plan
        .firsts()
        .map(|first| plan.at_once(first).map(|point| &plan.points[point]).collect::<Vec<_>>())
        .filter(|points| points.len() > 1)
        .collect();
    let firsts: Vec<&Point> = together.iter().map(|points| points[0]).collect();
    let varied = select::missing_factors(&firsts, &[]);
    let of = |points: &Vec<&Point>| {
        let levels = select::levels_of(points[0], &varied);
        let levels = varied.iter().copied().zip(levels).collect();
        Sharing::of(points, levels, &runs, plan)
    };
    together.iter().filter_map(of).collect()
}

/// Values of a figure by block.
fn by_block(runs: &Runs<'_>, figure: Figure) -> BTreeMap<u32, f64> {
    let value = |record: &&Record| Some((record.place.block, record.figures.value(figure)?));
    runs.counted.iter().filter_map(value).collect()
}

impl Sharing {
    fn of(
        points: &[&Point],
        levels: Vec<(Factor, Level)>,
        runs: &ByPoint<'_>,
        plan: &Plan,
    ) -> Option<Self> {
        let rule = &plan.stop;
        let together: Vec<&Runs<'_>> =
            points.iter().map(|point| runs.get(point)).collect::<Option<_>>()?;
        let figures: Vec<Figure> = points.iter().map(|point| Figure::deciding(point)).collect();
        // Blocks in which all groups have a goodput.
        let goodputs: Option<Vec<BTreeMap<u32, f64>>> = figures
            .iter()
            .all(|&figure| figure == Figure::Goodput)
            .then(|| together.iter().map(|runs| by_block(runs, Figure::Goodput)).collect());
        let blocks: Vec<Vec<f64>> = goodputs.as_deref().map(in_all).unwrap_or_default();
        let over = |value: &dyn Fn(&[f64]) -> f64| {
            rule.estimate(&blocks.iter().map(|block| value(block)).collect::<Vec<f64>>())
        };
        let mut groups = Vec::new();
        let mut alones = Vec::new();
        for (place, (point, figure)) in points.iter().zip(&figures).enumerate() {
            let alone = point.interference.and_then(|_| {
                let interference = Some(Interference::Alone);
                runs.get(&Point { interference, ..Point::clone(point) })
            });
            let estimate = |runs: &Runs<'_>| rule.estimate(&runs.values(*figure));
            let change = |alone: &Runs<'_>| {
                Some(Change::paired(alone, together[place], *figure, rule).comparison?.change)
            };
            groups.push(Group {
                name: point.group.clone().unwrap_or_default(),
                figure: *figure,
                together: estimate(together[place])?,
                alone: alone.and_then(estimate),
                change: alone.and_then(change),
                share: over(&|block| block[place] / block.iter().sum::<f64>()),
                cpu: alone.and_then(Cpu::of),
            });
            alones.push(alone);
        }
        let name = |place: usize| groups[place].name.clone();
        let means = || groups.iter().map(|group| group.together.value).enumerate();
        let most = means().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let least = means().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let against = |place: usize| {
            let alone = by_block(alones[place]?, Figure::Goodput);
            let sums = sums(goodputs.as_deref()?);
            let ratio = |(block, sum): (&u32, &f64)| Some((sum / alone.get(block)?).ln());
            let ratios: Vec<f64> = sums.iter().filter_map(ratio).collect();
            let (better, tie) = Figure::Goodput.judged_by();
            Some((name(place), fabricmark_stats::paired_ratios(&ratios, rule, better, tie)?.change))
        };
        let sum = over(&|block| block.iter().sum()).and_then(|goodput_bps| {
            Some(Sum {
                goodput_bps,
                against: (0..points.len()).filter_map(against).collect(),
                jain: over(&|block| {
                    let counts: Vec<u64> = block.iter().map(|&bps| bps as u64).collect();
                    Fairness::of(&counts).jain
                })?,
                ratio: (over(&|block| block[most] / block[least])?, [most, least].map(name)),
                medium: Medium::of(plan, points, &together).and_then(|(medium, bounds)| {
                    let used = |block: &[f64]| block.iter().zip(&bounds).map(|(a, b)| a / b).sum();
                    Some((medium, over(&used)?))
                }),
            })
        });
        let alignments = || together[0].counted.iter().filter_map(|record| record.alignment);
        let most_ns = |value: fn(Alignment) -> u64| alignments().map(value).max();
        let alignment = most_ns(|one| one.starts_apart_ns).map(|starts_apart_ns| Alignment {
            starts_apart_ns,
            ends_apart_ns: most_ns(|one| one.ends_apart_ns).unwrap_or(0),
            overlap_ns: alignments().map(|one| one.overlap_ns).min().unwrap_or(0),
            uncertainty_ns: most_ns(|one| one.uncertainty_ns).unwrap_or(0),
        });
        let cells = together.iter().zip(&figures);
        let origins = cells.filter_map(|(runs, &figure)| runs.counted.first()?.figures.get(figure));
        Some(Self {
            levels,
            provenance: label::distinct(origins.map(|sourced| sourced.provenance)),
            groups,
            sum,
            alignment,
            cpu: Cpu::of(together[0]),
        })
    }

    /// `Groups at once, 2 flows (emulated)`
    fn title(&self) -> String {
        let levels = self.levels.iter().map(|(factor, level)| label::level(*factor, level));
        let words: Vec<String> = ["Groups at once".to_owned()].into_iter().chain(levels).collect();
        format!("{}{}", words.join(", "), label::origin(&self.provenance))
    }

    fn table(&self) -> PlainTable {
        let has_alone = self.groups.iter().any(|group| group.alone.is_some());
        let has_share = self.sum.is_some();
        let mut columns = vec!["group", "together"];
        if has_alone {
            columns.extend(["alone", "change"]);
        }
        if has_share {
            columns.push("share");
        }
        let percent = |estimate: &Estimate| {
            let half = estimate.half_width().map(|half| format!(" ± {}", fixed(100.0 * half, 1)));
            format!("{}{} %", fixed(100.0 * estimate.value, 1), half.unwrap_or_default())
        };
        let row = |group: &Group| {
            let figure = |estimate: &Estimate| written(estimate, group.figure);
            let mut row = vec![group.name.clone(), figure(&group.together)];
            if has_alone {
                row.push(group.alone.as_ref().map(figure).unwrap_or_default());
                let change = group.change.as_ref().map(|change| number::change(change).to_string());
                row.push(change.unwrap_or_default());
            }
            row.extend(group.share.as_ref().map(percent));
            row
        };
        let mut rows: Vec<Vec<String>> = self.groups.iter().map(row).collect();
        let mut notes = Vec::new();
        if let Some(sum) = &self.sum {
            let mut row = vec!["sum".to_owned(), written(&sum.goodput_bps, Figure::Goodput)];
            row.resize(columns.len(), String::new());
            rows.push(row);
            let against: Vec<String> = sum
                .against
                .iter()
                .map(|(name, change)| format!("{} against {name} alone", number::change(change)))
                .collect();
            if !against.is_empty() {
                notes.push(format!("sum: {}", against.join(", ")));
            }
            if let Some((medium, used)) = &sum.medium {
                notes.push(format!("utilisation of the {}: {}", medium.words(), percent(used)));
            }
            let (ratio, [most, least]) = &sum.ratio;
            let half = ratio.half_width().map(|half| format!(" ± {}", fixed(half, 2)));
            notes.push(format!(
                "fairness: Jain's index {}; {most} has {}{} times the goodput of {least}",
                fixed(sum.jain.value, 3),
                fixed(ratio.value, 2),
                half.unwrap_or_default()
            ));
        }
        if let Some(at) = &self.alignment {
            let ms = |ns: u64| fixed(ns as f64 / 1e6, 2);
            let clocks = match at.uncertainty_ns {
                0 => String::new(),
                ns => format!(", with a clock error of at most {} ms", ms(ns)),
            };
            notes.push(format!(
                "senders started at most {} ms apart and ended at most {} ms apart{clocks}; all were \
                 active at the same time for at least {} ms of each run",
                ms(at.starts_apart_ns),
                ms(at.ends_apart_ns),
                fixed(at.overlap_ns as f64 / 1e6, 1)
            ));
        }
        if let Some(cpu) = self.cpu {
            let alone = self.groups.iter().filter_map(|group| {
                Some(format!(", {} alone {} %", group.name, share(group.cpu?.busy)))
            });
            notes.push(format!(
                "CPUs of the client's machine: together {} % busy{}; together the busiest CPU {} %, and \
                 soft interrupts up to {} % of a CPU",
                share(cpu.busy),
                alone.collect::<String>(),
                share(cpu.busiest),
                share(cpu.softirq_max)
            ));
        }
        PlainTable { title: self.title(), columns, rows, notes }
    }
}

/// A figure with its unit.
fn written(estimate: &Estimate, figure: Figure) -> String {
    let unit = Scale::of(figure);
    format!("{} {}", number::estimate(estimate, unit), unit.name)
}

/// The values of all groups in each block that all of them have.
fn in_all(goodputs: &[BTreeMap<u32, f64>]) -> Vec<Vec<f64>> {
    let Some(first) = goodputs.first() else { return Vec::new() };
    let of_block = |block: &u32| goodputs.iter().map(|one| one.get(block).copied()).collect();
    first.keys().filter_map(of_block).collect()
}

/// The sum of all groups in each block that all of them have.
fn sums(goodputs: &[BTreeMap<u32, f64>]) -> BTreeMap<u32, f64> {
    let Some(first) = goodputs.first() else { return BTreeMap::new() };
    let sum = |block: &u32| {
        let sum: Option<f64> = goodputs.iter().map(|one| one.get(block)).sum();
        Some((*block, sum?))
    };
    first.keys().filter_map(sum).collect()
}

impl Medium {
    /// What all points cross, and the bound that it sets to each of them alone.
    fn of(plan: &Plan, points: &[&Point], runs: &[&Runs<'_>]) -> Option<(Self, Vec<f64>)> {
        let limits = |runs: &Runs<'_>| Some(runs.counted.first()?.limits.ceilings.clone());
        let all: Vec<Vec<Ceiling>> = runs.iter().map(|runs| limits(runs)).collect::<Option<_>>()?;
        let bps = |ceiling: &Ceiling| ceiling.goodput_bps.as_f64();
        let bus = |ceilings: &Vec<Ceiling>| {
            let is_bound = |ceiling: &&Ceiling| ceiling.kind == Kind::Bound;
            let mut bounds = ceilings.iter().filter(is_bound);
            bounds.find_map(|one| Some((one.inputs.get("bus")?.clone(), bps(one))))
        };
        let buses: Option<Vec<(Input, f64)>> = all.iter().map(bus).collect();
        let same_way = |point: &&Point| point.direction == points[0].direction;
        if !points.iter().all(same_way) {
            return None;
        }
        if let Some(buses) = buses
            && buses.iter().all(|(place, _)| *place == buses[0].0)
        {
            return Some((Self::Bus, buses.into_iter().map(|(_, bound)| bound).collect()));
        }
        // Without wires of their own, all groups between the same nodes cross the same link.
        let is_same = |point: &&Point| {
            point.link == points[0].link && plan.nodes(point) == plan.nodes(points[0])
        };
        let has_names = all.iter().flatten().any(|ceiling| ceiling.inputs.contains_key("path"));
        let is_of_link = |ceiling: &&Ceiling| {
            let is_other = |input: &str| ceiling.inputs.contains_key(input);
            ceiling.kind == Kind::Bound && !is_other("bus") && !is_other("window_bytes")
        };
        let bound = |ceilings: &Vec<Ceiling>| Some(bps(ceilings.iter().find(is_of_link)?));
        let bounds = all.iter().map(bound).collect::<Option<_>>()?;
        let is_link = points[0].link.rate().is_some() && points.iter().all(is_same);
        (is_link && !has_names).then_some((Self::Link, bounds))
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Bus => "shared host bus",
            Self::Link => "shared link",
        }
    }
}

impl Cpu {
    fn of(runs: &Runs<'_>) -> Option<Self> {
        let machine = |record: &&Record| record.nodes.first()?.usage.as_ref()?.machine.clone();
        let all: Vec<MachineUsage> = runs.counted.iter().filter_map(machine).collect();
        let mean = |value: &dyn Fn(&MachineUsage) -> f64| {
            all.iter().map(value).sum::<f64>() / all.len() as f64
        };
        let most = |usage: &MachineUsage, of: &dyn Fn(&fabricmark_record::CpuShares) -> f64| {
            usage.per_cpu.iter().map(|cpu| of(&cpu.shares)).fold(0.0, f64::max)
        };
        (!all.is_empty()).then(|| Self {
            busy: mean(&|usage| usage.all.busy()),
            busiest: mean(&|usage| most(usage, &|shares| shares.busy())),
            softirq_max: mean(&|usage| most(usage, &|shares| shares.softirq)),
        })
    }

    fn result(self) -> results::Cpu {
        results::Cpu {
            busy_share: self.busy,
            busiest_cpu_share: self.busiest,
            softirq_max_share: self.softirq_max,
        }
    }
}

/// The groups as tables.
pub(crate) fn tables(all: &[Sharing]) -> Vec<PlainTable> {
    all.iter().map(Sharing::table).collect()
}

/// The groups in `results.json`.
pub(crate) fn results(all: &[Sharing]) -> Vec<results::Sharing> {
    let of = |one: &Sharing| results::Sharing {
        levels: summary::levels(&one.levels),
        provenance: one.provenance.clone(),
        groups: one.groups.iter().map(Group::result).collect(),
        sum: one.sum.as_ref().map(Sum::result),
        alignment: one.alignment,
        cpu: one.cpu.map(Cpu::result),
    };
    all.iter().map(of).collect()
}

impl Group {
    fn result(&self) -> results::FlowGroup {
        let key = self.figure.spec().key;
        let estimates = [
            (format!("together_{key}"), Some((&self.together).into())),
            (format!("alone_{key}"), self.alone.as_ref().map(Into::into)),
        ];
        results::FlowGroup {
            group: self.name.clone(),
            figure: self.figure,
            estimates: estimates.into(),
            change: self.change.as_ref().map(Into::into),
            share: self.share.as_ref().map(Into::into),
            cpu_alone: self.cpu.map(Cpu::result),
        }
    }
}

impl Sum {
    fn result(&self) -> results::Sum {
        let (ratio, [most, least]) = &self.ratio;
        let against = |(group, change): &(String, Estimate)| results::AgainstAlone {
            group: group.clone(),
            change: change.into(),
        };
        let medium = |(medium, used): &(Medium, Estimate)| results::SharedMedium {
            shared: medium.words().to_owned(),
            used_share: used.into(),
        };
        results::Sum {
            goodput_bps: (&self.goodput_bps).into(),
            against_alone: self.against.iter().map(against).collect(),
            jain: (&self.jain).into(),
            ratio: results::GroupRatio { of: most.clone(), to: least.clone(), value: ratio.into() },
            medium: self.medium.as_ref().map(medium),
        }
    }
}
