//! Evaluates the rounds of a row: medians, paired ratios, and whether a goal is met.

use std::collections::{BTreeMap, BTreeSet};

use fabricmark_stats::{Better, Estimate, StopRule, THROUGHPUT_TIE, median, paired};

use crate::rows::{Against, Goal, OURS, Question};
use crate::work::{Figure, Values};

/// Results of one round by contender: its figures, or the reason for a failure.
pub type Round = BTreeMap<String, Result<Values, String>>;

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// A goal of 1.00 is met by an interval from 0.99 on: a smaller difference cannot be distinguished.
const TOLERANCE: f64 = 0.01;

/// Relative half-width of the interval of a ratio at which a row ends.
const HALF_WIDTH: f64 = 0.02;

/// Number of rounds before the first check of the intervals of a row.
pub const ROUNDS_LEAST: usize = 10;

/// Share of the best peer's figure below which a peer is dropped, from a number of rounds on. An arbitrary choice, wider
/// than the intervals of the medians of as many rounds on a noisy machine.
const KEPT_FROM: [(usize, f64); 2] = [(3, 0.6), (HALVED_FROM, 0.85)];

/// Verdict on a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The whole interval is within the goal.
    Met,
    /// The interval is not wholly within the goal.
    Missed,
    /// There is no goal.
    Shown,
    /// There is nothing to compare, with the reason.
    NotComparable(String),
}

/// The answer to a question of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub question: Question,
    /// Name of the contender with which fabricmark is compared.
    pub other: Option<String>,
    /// Ratio of fabricmark's figure to the other's, or the median of the figure itself.
    pub value: Option<Estimate>,
    pub verdict: Verdict,
}

/// Median of a contender's figure over the rounds in which it has one.
pub fn median_of(rounds: &[Round], who: &str, figure: Figure) -> Option<f64> {
    median(&samples(rounds, who, figure), CONFIDENCE).map(|estimate| estimate.value)
}

fn samples(rounds: &[Round], who: &str, figure: Figure) -> Vec<f64> {
    rounds.iter().filter_map(|round| sample(round, who, figure)).collect()
}

fn sample(round: &Round, who: &str, figure: Figure) -> Option<f64> {
    round.get(who)?.as_ref().ok()?.get(&figure).copied()
}

/// The peer with the best median.
pub fn best_peer(rounds: &[Round], peers: &[&str], figure: Figure) -> Option<String> {
    let medians = peers.iter().filter_map(|&peer| Some((peer, median_of(rounds, peer, figure)?)));
    let best = if figure.is_rate() {
        medians.max_by(|a, b| a.1.total_cmp(&b.1))
    } else {
        medians.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    best.map(|(peer, _)| peer.to_owned())
}

/// Fewest rounds of which each half can choose the best peer: with fewer, one failure would decide.
const HALVED_FROM: usize = 6;

/// The best peer for each round: by its median over the other half of the rounds, so that none is chosen for its luck in
/// the rounds that judge it.
fn best_peers(rounds: &[Round], peers: &[&str], figure: Figure) -> Vec<Option<String>> {
    if rounds.len() < HALVED_FROM {
        return vec![best_peer(rounds, peers, figure); rounds.len()];
    }
    let half = |first| rounds.iter().skip(first).step_by(2).cloned().collect::<Vec<Round>>();
    let by_other_half = [1, 0].map(|first| best_peer(&half(first), peers, figure));
    (0..rounds.len()).map(|number| by_other_half[number % 2].clone()).collect()
}

/// The peers that are far behind the best one after enough rounds: their further runs would decide nothing.
pub fn dropped<'a>(rounds: &[Round], peers: &[&'a str], figure: Figure) -> Vec<&'a str> {
    let rounds = &with_peers(rounds, peers);
    let best = best_peer(rounds, peers, figure);
    let best = best.and_then(|best| median_of(rounds, &best, figure));
    let kept_from = KEPT_FROM.iter().rfind(|(least, _)| rounds.len() >= *least);
    let (Some(best), Some((_, kept_from))) = (best, kept_from) else { return Vec::new() };
    let is_dropped = |peer: &&str| {
        median_of(rounds, peer, figure).is_some_and(|of| match figure.is_rate() {
            true => of / best < *kept_from,
            false => best / of < *kept_from,
        })
    };
    peers.iter().copied().filter(is_dropped).collect()
}

/// The rounds in which the peers of a row took part; all if it has none.
fn with_peers(rounds: &[Round], peers: &[&str]) -> Vec<Round> {
    let took_part =
        |round: &&Round| peers.is_empty() || peers.iter().any(|&peer| round.contains_key(peer));
    rounds.iter().filter(took_part).cloned().collect()
}

/// Whether the ratios that have a goal are known within [`HALF_WIDTH`].
pub fn are_known(rounds: &[Round], peers: &[&str], questions: &[Question]) -> bool {
    let is_ratio =
        |question: &&Question| question.goal.is_some() && question.against != Against::Itself;
    questions.iter().filter(is_ratio).all(|question| {
        let interval = answer(rounds, peers, question).value.and_then(|value| value.interval);
        // Without a pair so far there will hardly be any.
        interval.is_none_or(|interval| (interval.high / interval.low).ln() / 2.0 <= HALF_WIDTH)
    })
}

/// Ratio of two figures over the rounds that have both, with the other's name for each round; Student's t interval on
/// the logarithms. `None` below two such rounds.
fn ratio(rounds: &[Round], others: &[Option<String>], figure: Figure) -> Option<Estimate> {
    let pair = |(round, other): (_, &Option<String>)| {
        Some((sample(round, other.as_deref()?, figure)?, sample(round, OURS, figure)?))
    };
    let pairs = rounds.iter().zip(others).filter_map(pair);
    let (theirs, ours): (Vec<f64>, Vec<f64>) = pairs.unzip();
    // Widened where the rounds may have ended because it was narrow.
    let rule = StopRule {
        confidence: CONFIDENCE,
        half_width: Some(HALF_WIDTH),
        runs_min: ROUNDS_LEAST,
        runs_max: usize::MAX,
        decides: false,
    };
    let better = if figure.is_rate() { Better::Higher } else { Better::Lower };
    Some(paired(&theirs, &ours, &rule, better, THROUGHPUT_TIE)?.ratio())
}

pub fn answer(rounds: &[Round], peers: &[&str], question: &Question) -> Answer {
    let figure = question.figure;
    let with_peers = (question.against == Against::BestPeer).then(|| with_peers(rounds, peers));
    let rounds = with_peers.as_deref().unwrap_or(rounds);
    let others = match &question.against {
        Against::Itself => Vec::new(),
        Against::One(name) => vec![Some((*name).to_owned()); rounds.len()],
        Against::BestPeer => {
            let dropped = dropped(rounds, peers, figure);
            let kept: Vec<&str> =
                peers.iter().copied().filter(|peer| !dropped.contains(peer)).collect();
            best_peers(rounds, &kept, figure)
        }
    };
    let value = match &question.against {
        Against::Itself => median(&samples(rounds, OURS, figure), CONFIDENCE),
        Against::One(_) | Against::BestPeer => ratio(rounds, &others, figure),
    };
    let names: BTreeSet<&str> = others.iter().flatten().map(String::as_str).collect();
    let other = (!names.is_empty()).then(|| Vec::from_iter(names).join(" or "));
    let verdict = match (&value, question.goal) {
        (None, _) => Verdict::NotComparable(why_not(rounds, &others, figure)),
        (Some(_), None) => Verdict::Shown,
        (Some(value), Some(goal)) => {
            // With too few rounds for a median's interval, all of them must be within the limit.
            let all = || samples(rounds, OURS, figure).into_iter();
            let whole_range = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
            let (low, high) =
                value.interval.map_or(whole_range, |interval| (interval.low, interval.high));
            let is_met = match goal {
                Goal::AtLeast(goal) => low >= goal - TOLERANCE,
                Goal::AtMost(goal) => high <= goal + TOLERANCE,
                Goal::Between(least, most) => low >= least && high <= most,
                Goal::Below(limit) => high < limit,
                Goal::Above(limit) => low >= limit,
            };
            if is_met { Verdict::Met } else { Verdict::Missed }
        }
    };
    Answer { question: question.clone(), other, value, verdict }
}

/// Why there is no ratio.
fn why_not(rounds: &[Round], others: &[Option<String>], figure: Figure) -> String {
    if samples(rounds, OURS, figure).is_empty() {
        return format!("no figure of {OURS}");
    }
    let is_silent = |other: &&String| samples(rounds, other, figure).is_empty();
    match others.iter().flatten().next() {
        None => "no peer".to_owned(),
        Some(other) if is_silent(&other) => format!("no figure of {other}"),
        Some(_) => "fewer than two pairs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::BARE;
    use crate::work::value;

    const RATE: Figure = Figure::TransactionsPerS;

    /// Rounds with figures of fabricmark and two peers.
    fn rounds(figures: &[[f64; 3]]) -> Vec<Round> {
        let round = |figures: &[f64; 3]| {
            let names = [OURS, "first", "second"].map(str::to_owned);
            names.into_iter().zip(figures.map(|rate| Ok(value(RATE, rate)))).collect()
        };
        figures.iter().map(round).collect()
    }

    fn against_peers(rounds: &[Round], goal: f64) -> Answer {
        let question =
            Question { figure: RATE, against: Against::BestPeer, goal: Some(Goal::AtLeast(goal)) };
        answer(rounds, &["first", "second"], &question)
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_highest_median() {
        let rounds = rounds(&[[9.0, 5.0, 6.0], [9.0, 5.0, 6.0], [9.0, 99.0, 6.0]]);
        assert_eq!(best_peer(&rounds, &["first", "second"], RATE).as_deref(), Some("second"));
        assert_eq!(best_peer(&rounds, &[], RATE), None);
    }

    #[test]
    fn a_goal_is_met_when_the_lower_end_reaches_it_within_the_tolerance() {
        // Logarithms of the ratios: mean ln 1.0 = 0; without spread the interval is a point.
        let equal = rounds(&[[100.0, 100.0, 50.0], [120.0, 120.0, 50.0], [90.0, 90.0, 50.0]]);
        let answer = against_peers(&equal, 1.0);
        assert_eq!((answer.other.as_deref(), answer.verdict), (Some("first"), Verdict::Met));
        assert_eq!(answer.value.unwrap().value, 1.0);
        assert_eq!(against_peers(&equal, 1.01).verdict, Verdict::Met);
        assert_eq!(against_peers(&equal, 1.02).verdict, Verdict::Missed);
    }

    #[test]
    fn a_wide_interval_misses_a_goal_that_the_ratio_itself_reaches() {
        // Ratios 1.3, 0.9, 1.1: mean logarithm 0.0841, standard deviation 0.1846, t(0.975, 2) =
        // 4.3027: half width 0.4585, so the interval is 0.688 to 1.720.
        let rounds = rounds(&[[130.0, 100.0, 1.0], [90.0, 100.0, 1.0], [110.0, 100.0, 1.0]]);
        let answer = against_peers(&rounds, 1.0);
        let ratio = answer.value.unwrap();
        let interval = ratio.interval.unwrap();
        assert!((ratio.value - 1.0878).abs() < 1e-3, "{ratio:?}");
        assert!((interval.low - 0.688).abs() < 2e-3 && (interval.high - 1.720).abs() < 2e-3);
        assert_eq!(answer.verdict, Verdict::Missed);
    }

    #[test]
    fn the_rounds_that_choose_the_best_peer_do_not_judge_it() {
        // Two peers as fast as fabricmark, each lucky in every other round of one half. Chosen by all rounds, the one
        // with the higher median would be compared in its own lucky rounds.
        let lucky_first = rounds(&[[100.0, 110.0, 100.0], [100.0, 100.0, 110.0]].repeat(4));
        let answer = against_peers(&lucky_first, 1.0);
        assert_eq!(answer.other.as_deref(), Some("first or second"));
        assert_eq!((answer.value.unwrap().value, answer.verdict), (1.0, Verdict::Met));
        // One that is always faster is chosen by both halves.
        let faster = rounds(&[[100.0, 110.0, 100.0]; 8]);
        assert_eq!(against_peers(&faster, 1.0).other.as_deref(), Some("first"));
        assert_eq!(against_peers(&faster, 1.0).verdict, Verdict::Missed);
    }

    #[test]
    fn a_peer_behind_the_best_is_dropped_after_six_rounds_and_one_far_behind_after_three() {
        let of = |count: usize, figures: [f64; 3]| rounds(&vec![figures; count]);
        let behind = |rounds: &[Round], figure| dropped(rounds, &["first", "second"], figure);
        assert_eq!(behind(&of(2, [90.0, 100.0, 50.0]), RATE), [""; 0]);
        assert_eq!(behind(&of(3, [90.0, 100.0, 50.0]), RATE), ["second"]);
        assert_eq!(behind(&of(5, [90.0, 100.0, 61.0]), RATE), [""; 0]);
        assert_eq!(behind(&of(6, [90.0, 100.0, 84.0]), RATE), ["second"]);
        assert_eq!(behind(&of(6, [90.0, 100.0, 86.0]), RATE), [""; 0]);
    }

    #[test]
    fn a_row_needs_rounds_until_its_ratios_are_known_within_two_percent() {
        let question = |against| Question { figure: RATE, against, goal: Some(Goal::AtLeast(1.0)) };
        let known = |rounds: &[Round], against| {
            are_known(rounds, &["first", "second"], &[question(against)])
        };
        // Ratios of 0.97 and 1.03 in turn: standard deviation 0.031 of the logarithms of ten, half width 0.022; of
        // twenty, 0.0144, widened by 1.06.
        let mut noisy = [[97.0, 100.0, 1.0], [103.0, 100.0, 1.0]].repeat(5);
        assert!(!known(&rounds(&noisy), Against::BestPeer));
        assert!(
            known(&rounds(&noisy), Against::Itself) && known(&rounds(&noisy), Against::One(BARE))
        );
        noisy.extend_from_within(..);
        assert!(known(&rounds(&noisy), Against::BestPeer));
    }

    #[test]
    fn rounds_without_peers_choose_drop_and_judge_none() {
        // A peer as fast as fabricmark, in every fifth round; fabricmark is slow in the others.
        let mut rounds = rounds(&[[50.0, 0.0, 0.0]; 30]);
        for (number, round) in rounds.iter_mut().enumerate() {
            let (ours, peers): (f64, &[(&str, f64)]) = match number % 5 {
                0 => (100.0, &[("first", 100.0), ("second", 70.0)]),
                _ => (50.0, &[]),
            };
            *round = [(OURS, ours)]
                .iter()
                .chain(peers)
                .map(|&(who, rate)| (who.to_owned(), Ok(value(RATE, rate))))
                .collect();
        }
        let answer = against_peers(&rounds, 1.0);
        assert_eq!((answer.other.as_deref(), answer.verdict), (Some("first"), Verdict::Met));
        assert_eq!(answer.value.unwrap().n, 6);
        let behind = |count| dropped(&rounds[..count], &["first", "second"], RATE);
        assert_eq!(behind(25), [""; 0]);
        assert_eq!(behind(26), ["second"]);
    }

    #[test]
    fn only_rounds_with_both_are_pairs() {
        let mut three = rounds(&[[100.0, 50.0, 1.0], [100.0, 50.0, 1.0], [100.0, 50.0, 1.0]]);
        three[1].insert("first".to_owned(), Err("its client ended".to_owned()));
        let answer = against_peers(&three, 1.0);
        let ratio = answer.value.unwrap();
        assert!(ratio.n == 2 && (ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn what_is_missing_is_said_instead_of_a_verdict() {
        let of = |rounds: &[Round]| against_peers(rounds, 1.0).verdict;
        let missing = |why: &str| Verdict::NotComparable(why.to_owned());
        assert_eq!(of(&rounds(&[[1.0, 1.0, 1.0]])), missing("fewer than two pairs"));
        let mut refused = rounds(&[[1.0, 1.0, 1.0]; 2]);
        for round in &mut refused {
            round.insert(OURS.to_owned(), Err("not offered".to_owned()));
        }
        assert_eq!(of(&refused), missing("no figure of fabricmark"));
        let question = Question { figure: RATE, against: Against::One(BARE), goal: None };
        let bare = answer(&rounds(&[[1.0, 1.0, 1.0]; 2]), &[], &question);
        assert_eq!(bare.verdict, missing("no figure of bare loop"));
        let alone = answer(
            &rounds(&[[1.0; 3]; 2]),
            &[],
            &Question { against: Against::BestPeer, ..question },
        );
        assert_eq!(alone.verdict, missing("no peer"));
    }

    #[test]
    fn a_limit_holds_for_the_worse_end_or_for_all_of_few_rounds() {
        let slip = |slip: f64| Round::from([(OURS.to_owned(), Ok(value(Figure::SlipP99Ns, slip)))]);
        let of = |figures: &[f64], goal| {
            let rounds: Vec<Round> = figures.iter().copied().map(slip).collect();
            let against = Against::Itself;
            let question = Question { figure: Figure::SlipP99Ns, against, goal: Some(goal) };
            answer(&rounds, &[], &question).verdict
        };
        assert_eq!(of(&[1000.0, 2000.0, 2999.0], Goal::Below(3000.0)), Verdict::Met);
        assert_eq!(of(&[1000.0, 2000.0, 3000.0], Goal::Below(3000.0)), Verdict::Missed);
        assert_eq!(of(&[3000.0, 4000.0, 5000.0], Goal::Above(3000.0)), Verdict::Met);
        assert_eq!(of(&[2999.0, 4000.0, 5000.0], Goal::Above(3000.0)), Verdict::Missed);
        // Ten rounds: the order-statistic interval is from the second to the ninth of them (binomial, 97.9 %).
        let with_last = |last: [f64; 2]| [&[1000.0; 8], last.as_slice()].concat();
        assert_eq!(of(&with_last([1000.0, 9000.0]), Goal::Below(3000.0)), Verdict::Met);
        assert_eq!(of(&with_last([9000.0; 2]), Goal::Below(3000.0)), Verdict::Missed);
        assert_eq!(of(&with_last([1000.0, 100.0]), Goal::Above(1000.0)), Verdict::Met);
        assert_eq!(of(&with_last([100.0; 2]), Goal::Above(1000.0)), Verdict::Missed);
    }

    #[test]
    fn less_is_better_for_what_is_no_rate() {
        let slip = |slip| Ok(value(Figure::SlipP99Ns, slip));
        let round = Round::from([
            (OURS.to_owned(), slip(110.0)),
            (BARE.to_owned(), slip(100.0)),
            ("other".to_owned(), slip(90.0)),
        ]);
        let rounds = vec![round; 3];
        let question = |most| Question {
            figure: Figure::SlipP99Ns,
            against: Against::One(BARE),
            goal: Some(Goal::AtMost(most)),
        };
        assert_eq!(answer(&rounds, &[], &question(1.1)).verdict, Verdict::Met);
        assert_eq!(answer(&rounds, &[], &question(1.05)).verdict, Verdict::Missed);
        let best = best_peer(&rounds, &[BARE, "other"], Figure::SlipP99Ns);
        assert_eq!(best.as_deref(), Some("other"));
    }
}
