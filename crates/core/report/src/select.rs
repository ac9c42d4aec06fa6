//! Selects the points of a table or chart, and their rows and columns.

use fabricmark_plan::{Factor, Figure, Filter, Level, Plan, Point};
use fabricmark_units::Nanos;

use crate::label;

/// Points with `figure` that match `filter`.
pub(crate) fn points<'a>(plan: &'a Plan, figure: Figure, filter: &Filter) -> Vec<&'a Point> {
    let is_shown =
        |point: &&Point| figure.spec().patterns.contains(&point.pattern) && point.is_among(filter);
    plan.points.iter().filter(is_shown).collect()
}

/// Levels of a factor: sorted if they are numbers or durations, else in the plan's order.
pub(crate) fn levels(points: &[&Point], factor: Factor) -> Vec<Level> {
    let mut found = combinations(points, &[factor]).into_iter().flatten().collect::<Vec<_>>();
    if factor == Factor::Rtt {
        found.sort_by_key(|level| level.parse::<Nanos>().ok());
    } else if found.iter().all(|level| level.parse::<u64>().is_ok()) {
        found.sort_by_key(|level| level.parse::<u64>().ok());
    }
    found
}

/// Combinations of levels that occur, each factor in the order of [`levels`], the first outermost.
pub(crate) fn rows(points: &[&Point], factors: &[Factor]) -> Vec<Vec<Level>> {
    let order: Vec<Vec<Level>> = factors.iter().map(|&factor| levels(points, factor)).collect();
    let mut found = combinations(points, factors);
    found.sort_by_key(|row| {
        let places = row.iter().zip(&order);
        let place = |(level, order): (&Level, &Vec<Level>)| order.iter().position(|l| l == level);
        places.map(place).collect::<Vec<_>>()
    });
    found
}

/// Combinations of levels that occur, in the plan's order; without factors one empty combination.
pub(crate) fn combinations(points: &[&Point], factors: &[Factor]) -> Vec<Vec<Level>> {
    label::distinct(points.iter().map(|point| levels_of(point, factors)))
}

/// Levels of `factors` in one point.
pub(crate) fn levels_of(point: &Point, factors: &[Factor]) -> Vec<Level> {
    factors.iter().map(|&factor| point.level(factor)).collect()
}

/// Factors to add to `used` so that no two points share a cell.
pub(crate) fn missing_factors(points: &[&Point], used: &[Factor]) -> Vec<Factor> {
    let mut known = used.to_vec();
    let mut missing = Vec::new();
    for factor in Factor::ALL {
        if known.contains(&factor) {
            continue;
        }
        let mut with = known.clone();
        with.push(factor);
        if combinations(points, &with).len() > combinations(points, &known).len() {
            known.push(factor);
            missing.push(factor);
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_plan::{Size, parse};

    fn plan() -> Plan {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = ['tcp', 'udp']\n\
                    family = [4, 6]\npayload = [64, 4, 1024]\nlink = ['veth', 'ethernet:1G']\n\
                    [settings]\ncongestion = 'cubic'\n";
        parse("t", text, Size::Full, &[]).unwrap()
    }

    #[test]
    fn payloads_stand_in_the_order_of_their_numbers() {
        let plan = plan();
        let points = points(&plan, Figure::Goodput, &Filter::new());
        assert_eq!(levels(&points, Factor::Payload), ["4", "64", "1024"]);
        assert_eq!(levels(&points, Factor::Link), ["veth", "ethernet:1G"]);
    }

    #[test]
    fn rows_of_two_factors_are_in_the_order_of_the_first_then_of_the_second() {
        let plan = plan();
        let points = points(&plan, Figure::Goodput, &Filter::new());
        let found = rows(&points, &[Factor::Transport, Factor::Payload]);
        let found: Vec<String> = found.iter().map(|row| row.join(" ")).collect();
        assert_eq!(found, ["tcp 4", "tcp 64", "tcp 1024", "udp 4", "udp 64", "udp 1024"]);
    }

    #[test]
    fn a_factor_that_follows_from_another_makes_no_column() {
        let plan = plan();
        let points = points(&plan, Figure::Goodput, &Filter::new());
        let used = [Factor::Payload, Factor::Family, Factor::Transport];
        assert_eq!(missing_factors(&points, &used), [Factor::Link]);
    }
}
