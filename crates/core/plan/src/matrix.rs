//! Expands levels into points: every combination that no `[[exclude]]` removes, and the comparison groups.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::choice::Interference;
use crate::factor::{Factor, Filter, Levels, Named, Point, Section, Where};
use crate::level::{Level, NONE};
use crate::nodes::NamedGroup;
use crate::pair::Pair;
use crate::plan::{Compare, points_each};
use crate::problem::Contradiction;
use crate::reading::Reader;
use crate::resolve::resolve;

/// Largest number of points of a plan: at one second each, ten runs of all of them take eleven days.
pub(crate) const POINTS_MAX: usize = 100_000;

/// Levels whose combinations are points: those of the plan, or those of one `[[add]]`.
#[derive(Clone)]
pub(crate) struct Cross {
    pub(crate) levels: Levels,
    /// Position of the `[[add]]` in the file; empty for the plan's own levels.
    pub(crate) span: Range<usize>,
}

impl Cross {
    /// The plan's levels, except that those of this cross replace them.
    pub(crate) fn over(self, plan: &Levels) -> Self {
        let mut levels = plan.clone();
        levels.extend(self.levels);
        Self { levels, span: self.span }
    }

    /// Keeps, of each factor that `quick` names, only the levels in `quick`, in the order of `quick`. One that it may replace
    /// is replaced.
    pub(crate) fn keep(&mut self, quick: &Levels) {
        for (factor, wanted) in quick {
            if let Some(own) = self.levels.get_mut(factor) {
                if is_replaced(*factor, own, wanted) {
                    own.clone_from(wanted);
                    continue;
                }
                let known = std::mem::take(own);
                let has = |level: &Level| known.iter().any(|(name, _)| name == level);
                *own = wanted.iter().filter(|(level, _)| has(level)).cloned().collect();
            }
        }
    }

    fn count(&self) -> usize {
        self.levels.values().map(Vec::len).fold(1, usize::saturating_mul)
    }
}

/// Whether `[quick]` may name a level that the plan does not have: the size of a bookstore and its load.
pub(crate) fn is_replaced(factor: Factor, own: &[Named], wanted: &[Named]) -> bool {
    factor.spec().section == Section::Shop && own.len() == 1 && wanted.len() == 1
}

impl Reader<'_, '_> {
    /// The points of all crosses, those of the plan first. Each combination of levels gives one point per group. A
    /// combination whose points are already listed is skipped.
    pub(crate) fn points(
        &mut self,
        crosses: &[Cross],
        excludes: &[Filter],
        groups: &[NamedGroup],
        has_interference: bool,
    ) -> Option<Vec<Point>> {
        let plan = &crosses.first()?.levels;
        let is_of_groups = |factor: Factor| {
            !groups.is_empty() && groups.iter().all(|group| group.levels.contains_key(&factor))
        };
        if Factor::required()
            .any(|factor| plan.get(&factor).is_none_or(Vec::is_empty) && !is_of_groups(factor))
        {
            return None;
        }
        let each = points_each(groups.len(), has_interference);
        let count = crosses.iter().map(Cross::count).fold(0, usize::saturating_add);
        let count = count.saturating_mul(each);
        if count > POINTS_MAX {
            let message = format!("the plan has {count} points");
            return self.refuse(0..0, message, format!("use at most {POINTS_MAX}"));
        }
        let all = crosses.iter().flat_map(|cross| &cross.levels);
        let mut varied: Vec<Factor> = Vec::new();
        for (&factor, named) in all {
            let is_varied = named.len() > 1 || plan.get(&factor).is_none_or(|own| own != named);
            if is_varied && !varied.contains(&factor) {
                varied.push(factor);
            }
        }
        let mut points: Vec<Point> = Vec::new();
        let mut known = BTreeSet::new();
        // --quick can remove all levels of an [[add]], which then has no points.
        for cross in crosses.iter().filter(|cross| cross.count() > 0) {
            let added = self.matrix(cross, excludes, groups, has_interference, &varied)?;
            for at_once in added.chunks(each) {
                let keys: Vec<String> = at_once.iter().map(Point::key).collect();
                if known.insert(keys) {
                    points.extend_from_slice(at_once);
                }
            }
        }
        Some(points)
    }

    /// The points of every combination of levels that no `[[exclude]]` removes.
    fn matrix(
        &mut self,
        cross: &Cross,
        excludes: &[Filter],
        groups: &[NamedGroup],
        has_interference: bool,
        varied: &[Factor],
    ) -> Option<Vec<Point>> {
        let Cross { levels, span } = cross;
        let mut combinations: Vec<Where> = vec![Where::new()];
        // The payload varies fastest, so that the points of one table are adjacent.
        let mut factors: Vec<Factor> =
            Factor::ALL.into_iter().filter(|f| *f != Factor::Payload).collect();
        factors.push(Factor::Payload);
        for factor in factors {
            let Some(choice) = levels.get(&factor) else {
                continue;
            };
            combinations = combinations
                .into_iter()
                .flat_map(|known| {
                    choice.iter().map(move |(level, _)| {
                        let mut next = known.clone();
                        next.insert(factor, level.clone());
                        next
                    })
                })
                .collect();
        }
        let matches = |levels: &Where, rule: &Filter| {
            let has = |factor: &Factor, wanted: &[Level]| match levels.get(factor) {
                Some(level) => wanted.contains(level),
                None => {
                    let is_of_groups = groups.iter().any(|group| group.levels.contains_key(factor));
                    let is_unset = factor.has_none() && !is_of_groups;
                    is_unset && wanted.iter().any(|level| level == NONE)
                }
            };
            !rule.is_empty() && rule.iter().all(|(factor, wanted)| has(factor, wanted))
        };
        combinations.retain(|levels| !excludes.iter().any(|rule| matches(levels, rule)));
        if combinations.is_empty() {
            let help = "drop or narrow an [[exclude]]";
            return self.refuse(span.clone(), "every point is excluded", help);
        }
        let mut seen = BTreeSet::new();
        let mut points = Vec::new();
        for combination in combinations {
            let mut at_once = Vec::new();
            for group in groups {
                let known = [levels, &group.levels];
                let mut point = self.point(&group.over(&combination), &known)?;
                point.beside = group.beside(varied, &combination, &point);
                at_once.push(point);
            }
            if has_interference {
                let levels = [Interference::Alone, Interference::Together].map(Some);
                let of_level = |interference| {
                    at_once.iter().map(move |point| Point { interference, ..Point::clone(point) })
                };
                at_once = levels.into_iter().flat_map(of_level).collect();
            }
            if groups.is_empty() {
                at_once.push(self.point(&combination, &[levels])?);
            }
            if !seen.insert(at_once.iter().map(Point::key).collect::<Vec<_>>()) {
                // A barrier has no payload, and a ping-pong has two ranks, whatever other benchmarks of the plan have.
                if at_once.iter().all(|point| point.benchmark.is_some()) {
                    continue;
                }
                let message = format!("two combinations give the same point: {}", at_once[0].key());
                let help = "a factor has no effect there: [[exclude]] all but one of its levels";
                return self.refuse(span.clone(), message, help);
            }
            points.extend(at_once);
        }
        Some(points)
    }

    fn point(&mut self, combination: &Where, levels: &[&Levels]) -> Option<Point> {
        match resolve(combination) {
            Ok(point) => Some(point),
            Err(Contradiction { factor, message, help }) => {
                let wanted = combination.get(&factor);
                let mut named =
                    levels.iter().rev().filter_map(|levels| levels.get(&factor)).flatten();
                let place = named
                    .find(|(level, _)| Some(level) == wanted)
                    .map_or(0..0, |(_, span)| span.clone());
                self.refuse(place, message, help)
            }
        }
    }
}

/// Groups points that agree in every factor that is not compared, and points that are compared with each other although
/// other levels follow from the compared ones. Each `each` consecutive points are one combination of levels; the first
/// of them decides the comparison group of all.
pub(crate) fn comparison_groups(
    points: &[Point],
    each: usize,
    compare: &[Compare],
    pairs: &[Pair],
) -> Vec<Vec<usize>> {
    let compared: BTreeSet<Factor> = compare.iter().map(|c| c.factor).collect();
    // `beside` depends on all factors of the other groups, so that all points are comparable.
    let is_all = compared.contains(&Factor::Beside);
    // The group of each combination of levels, and the group that each group belongs to, which is not after it.
    let (mut groups, mut lead): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut places: BTreeMap<Vec<Level>, usize> = BTreeMap::new();
    for at_once in points.chunks(each) {
        let rest = Factor::ALL
            .into_iter()
            .filter(|factor| !compared.contains(factor) && !is_all)
            .map(|factor| at_once[0].level(factor));
        let place = *places.entry(rest.collect()).or_insert(lead.len());
        if place == lead.len() {
            lead.push(place);
        }
        groups.push(place);
    }
    let first = |lead: &[usize], mut group: usize| {
        while lead[group] != group {
            group = lead[group];
        }
        group
    };
    for pair in pairs {
        let both = [pair.baseline, pair.candidate];
        let [a, b] = both.map(|point| first(&lead, groups[point / each]));
        lead[a.max(b)] = a.min(b);
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for point in 0..points.len() {
        members.entry(first(&lead, groups[point / each])).or_default().push(point);
    }
    members.into_values().collect()
}
