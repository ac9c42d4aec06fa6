//! From levels to points: every combination that no rule excludes, and the groups they form.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::factor::{Factor, Level};
use crate::plan::{Compare, Where};
use crate::point::Point;
use crate::reading::Reader;
use crate::resolve::{Contradiction, resolve};

/// More points than this are refused: at a second each, ten runs take eleven days.
pub(crate) const POINTS_MAX: usize = 100_000;

/// The levels of each factor, with the place where each is written.
pub(crate) type Levels = BTreeMap<Factor, Vec<(Level, Range<usize>)>>;

impl Reader<'_, '_> {
    /// Every combination of levels that no rule excludes.
    pub(crate) fn matrix(&mut self, levels: &Levels, excludes: &[Where]) -> Option<Vec<Point>> {
        if Factor::REQUIRED.iter().any(|f| levels.get(f).is_none_or(Vec::is_empty)) {
            return None;
        }
        let count: usize = levels.values().map(|l| l.len().max(1)).product();
        if count > POINTS_MAX {
            let message = format!("the plan has {count} points");
            self.source.problem(0..0, message, format!("use at most {POINTS_MAX}"));
            return None;
        }
        let mut combinations: Vec<Where> = vec![Where::new()];
        // The payload varies fastest, so that the points of one table stand together.
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
        let is_excluded = |levels: &Where| {
            excludes
                .iter()
                .any(|rule| !rule.is_empty() && rule.iter().all(|(f, l)| levels.get(f) == Some(l)))
        };
        combinations.retain(|levels| !is_excluded(levels));
        if combinations.is_empty() {
            let help = "drop or narrow an [[exclude]]";
            self.source.problem(0..0, "every point is excluded", help);
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut points = Vec::new();
        for combination in combinations {
            let point = self.point(&combination, levels)?;
            if !seen.insert(point.key()) {
                let message = format!("two combinations give the same point: {}", point.key());
                let help = "a factor has no effect there: [[exclude]] all but one of its levels";
                self.source.problem(0..0, message, help);
                return None;
            }
            points.push(point);
        }
        Some(points)
    }

    fn point(&mut self, combination: &Where, levels: &Levels) -> Option<Point> {
        match resolve(combination) {
            Ok(point) => Some(point),
            Err(Contradiction { factor, message, help }) => {
                let wanted = combination.get(&factor);
                let place = levels
                    .get(&factor)
                    .and_then(|known| known.iter().find(|(level, _)| Some(level) == wanted))
                    .map_or(0..0, |(_, span)| span.clone());
                self.source.problem(place, message, help);
                None
            }
        }
    }
}

/// Points that agree in every factor that is not compared form a group.
pub(crate) fn groups(points: &[Point], compare: &[Compare]) -> Vec<Vec<usize>> {
    let compared: BTreeSet<Factor> = compare.iter().map(|c| c.factor).collect();
    let mut groups: Vec<(Vec<Level>, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Vec<Level>, usize> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let rest: Vec<Level> = Factor::ALL
            .into_iter()
            .filter(|factor| !compared.contains(factor))
            .map(|factor| point.level(factor))
            .collect();
        let place = *places.entry(rest.clone()).or_insert_with(|| {
            groups.push((rest, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(index);
    }
    groups.into_iter().map(|(_, members)| members).collect()
}
