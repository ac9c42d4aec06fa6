//! Plans that compare a level with itself in slices until decided: how often do they report a difference?

use std::fmt::Write as _;
use std::sync::LazyLock;

use fabricmark_stats::{Better, Comparison, Sample, StopRule, Verdict, holm, paired_ratios};
use fabricmark_units::Stream;

/// Simulated plans, and the comparisons of each, which form one family.
const PLANS: usize = 400;
const ROWS: usize = 10;

/// Counted rounds of a block; the shipped plan has 8 to 10 (`plans/ipv6-vs-ipv4.toml`).
const ROUNDS: usize = 8;

/// The rule of the shipped plan.
fn rule(confidence: f64) -> StopRule {
    StopRule { confidence, half_width: None, runs_min: 8, runs_max: 64, decides: true }
}

/// Two standard errors of a share of 5 % of the plans.
const NOISE: f64 = 0.022;

/// Tie band.
const TIE: f64 = 0.02;

/// True differences: none, the edge of the tie band, which is hardest to decide, and one that is found.
const EFFECTS: [f64; 3] = [0.0, TIE, 0.05];

/// Disturbances of a machine, shared by both levels.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    /// Standard deviation of independent noise per slice.
    noise: f64,
    /// Standard deviation of a random walk's step per slice.
    drift: f64,
    /// Autocorrelated part: correlation with the previous slice, and standard deviation.
    follows: (f64, f64),
    /// Share of slices at which a burst of steal time starts. It halves six slices on average.
    steal: f64,
    /// Standard deviation between the connections of a level in different blocks.
    connections: f64,
}

const QUIET: Machine = Machine {
    name: "independent slices",
    noise: 0.05,
    drift: 0.0,
    follows: (0.0, 0.0),
    steal: 0.0,
    connections: 0.005,
};

const MACHINES: [Machine; 5] = [
    QUIET,
    Machine { name: "drift", drift: 0.01, ..QUIET },
    Machine { name: "autocorrelated slices", follows: (0.8, 0.1), ..QUIET },
    Machine { name: "bursts of steal", steal: 0.02, ..QUIET },
    Machine { name: "all of these", drift: 0.01, follows: (0.8, 0.1), steal: 0.02, ..QUIET },
];

/// State of a simulated machine.
struct Work {
    machine: Machine,
    walk: f64,
    following: f64,
    is_stolen: bool,
}

impl Work {
    fn new(machine: Machine) -> Self {
        Self { machine, walk: 0.0, following: 0.0, is_stolen: false }
    }

    /// Result of a slice of a level whose long-term mean is 1.
    fn slice(&mut self, stream: &mut Stream) -> f64 {
        let Machine { noise, drift, follows: (phi, spread), steal, .. } = self.machine;
        self.walk += drift * stream.normal();
        self.following = phi * self.following + spread * (1.0 - phi * phi).sqrt() * stream.normal();
        let changes = stream.unit() < if self.is_stolen { 1.0 / 6.0 } else { steal };
        self.is_stolen ^= changes;
        let log = self.walk + self.following + noise * stream.normal();
        log.exp() * if self.is_stolen { 0.5 } else { 1.0 }
    }

    /// Slices of two levels in a block and their sums; the second level is better by `effect`.
    fn block(&mut self, effect: f64, stream: &mut Stream) -> [Sample; 2] {
        let of_connections = [0, 1].map(|_| (self.machine.connections * stream.normal()).exp());
        let better = [1.0, 1.0 + effect];
        let mut samples = [Sample::default(), Sample::default()];
        for _ in 0..ROUNDS {
            let first = usize::from(stream.unit() < 0.5);
            for level in [first, 1 - first] {
                let slice = self.slice(stream) * of_connections[level] * better[level];
                samples[level].value += slice;
                samples[level].slices.push(slice);
            }
        }
        samples
    }
}

/// A comparison at the check that decides it, or at `runs_max`.
fn decided(work: &mut Work, effect: f64, rule: &StopRule, stream: &mut Stream) -> Comparison {
    let mut ratios = Vec::new();
    loop {
        let [a, b] = work.block(effect, stream);
        ratios.push(a.log_ratio_to(&b).expect("all are positive"));
        if !rule.is_look(ratios.len()) {
            continue;
        }
        let found = paired_ratios(&ratios, rule, Better::Higher, TIE).expect("two and more");
        let is_decided =
            found.verdict == Verdict::Same || found.p_t * ROWS as f64 <= 1.0 - rule.confidence;
        if is_decided || ratios.len() >= rule.runs_max {
            return found;
        }
    }
}

#[derive(Default)]
struct Row {
    machine: &'static str,
    /// Share of plans with any false difference, and share of comparisons.
    wrong_plans: f64,
    wrong: f64,
    /// Share of comparisons whose interval contains the true value, at both confidences, over all of [`EFFECTS`].
    held: [f64; 2],
    /// Mean number of blocks of comparisons of equal levels.
    blocks: f64,
    /// Share of comparisons of levels at the edge of the tie band that call them the same.
    same: f64,
    /// Share of comparisons of levels 5 % apart that find it, and that find the opposite.
    found: f64,
    contrary: f64,
}

fn simulate(machine: Machine) -> Row {
    let mut stream = Stream::new(1, machine.name);
    let mut work = Work::new(machine);
    let mut row = Row { machine: machine.name, ..Row::default() };
    let share = 1.0 / (PLANS * ROWS) as f64;
    for _ in 0..PLANS {
        for (place, confidence) in [0.95, 0.995].into_iter().enumerate() {
            let rule = rule(confidence);
            for effect in EFFECTS {
                let mut rows: Vec<Comparison> =
                    (0..ROWS).map(|_| decided(&mut work, effect, &rule, &mut stream)).collect();
                holm(rows.iter_mut());
                let holds = |row: &&Comparison| {
                    row.change.interval.is_some_and(|i| i.low <= effect && effect <= i.high)
                };
                let held = rows.iter().filter(holds).count();
                row.held[place] += held as f64 * share / EFFECTS.len() as f64;
                if place > 0 {
                    continue;
                }
                let count =
                    |verdict| rows.iter().filter(|row| row.verdict == verdict).count() as f64;
                let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
                if effect == 0.0 {
                    row.wrong += (faster + slower) * share;
                    row.wrong_plans += f64::from(faster + slower > 0.0) / PLANS as f64;
                    row.blocks += rows.iter().map(|row| row.change.n as f64).sum::<f64>() * share;
                } else if effect == TIE {
                    row.same += count(Verdict::Same) * share;
                } else {
                    row.found += faster * share;
                    row.contrary += slower * share;
                }
            }
        }
    }
    row
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| MACHINES.map(simulate).into());

const INTRODUCTION: &str = "
# How often a level differs from itself

A plan compares 10 pairs in slices until each is decided, as `plans/ipv6-vs-ipv4.toml` does: after 8, 16, 32 and 64 blocks. 400
plans for each machine and each true difference: 0, 2 % (the edge of the tie band) and 5 %. *Plans* is the share of plans that
find a difference where there is none, *rows* that of their comparisons; at most 5 % of the plans may (two standard errors: 2.2
points). P-values are corrected for the four checks (Bonferroni) and for the ten rows (Holm). *Held* is how often the interval
at the deciding check contains the true difference, over all three differences. *Blocks* is the mean number of blocks where
there is no difference, *same* how many differences of 2 % are called the same, *found* how many differences of 5 % are found,
*contrary* how many of these with the wrong sign.

| machine | plans | rows | 95 % held | 99.5 % held | blocks | same | found | contrary |
|---|---|---|---|---|---|---|---|---|
";

/// The table as text.
pub(super) fn table() -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut text = INTRODUCTION.to_owned();
    for row in TABLE.iter() {
        let shares =
            [row.wrong_plans, row.wrong, row.held[0], row.held[1]].map(percent).join(" | ");
        let verdicts = [row.same, row.found, row.contrary].map(percent).join(" | ");
        let (machine, blocks) = (row.machine, row.blocks);
        let _ = writeln!(text, "| {machine} | {shares} | {blocks:.1} | {verdicts} |");
    }
    text
}

#[test]
fn at_most_one_of_twenty_plans_finds_a_difference_where_there_is_none() {
    for row in TABLE.iter() {
        assert!(row.wrong_plans <= 0.05 + NOISE, "{}: {}", row.machine, row.wrong_plans);
    }
}

#[test]
fn intervals_at_the_look_that_decides_hold_the_truth_as_often_as_promised() {
    for row in TABLE.iter() {
        let [usual, strict] = row.held;
        assert!((usual - 0.95).abs() <= 0.01, "{}: {usual}", row.machine);
        assert!((strict - 0.995).abs() <= 0.01, "{}: {strict}", row.machine);
    }
}

#[test]
fn levels_at_the_edge_of_the_tie_band_are_rarely_called_the_same() {
    for row in TABLE.iter() {
        assert!(row.same <= 0.05 + NOISE, "{}: {}", row.machine, row.same);
    }
}

#[test]
fn a_difference_of_five_percent_is_never_found_the_wrong_way_round() {
    for row in TABLE.iter() {
        assert!(row.contrary == 0.0 && row.found > 0.5, "{}: {}", row.machine, row.found);
    }
}
