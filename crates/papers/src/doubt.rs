//! Where the papers contradict themselves.

use std::sync::LazyLock;

use serde::Deserialize;

/// One contradiction inside a paper.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Doubt {
    /// Its number, by which cells name it.
    pub number: u8,
    /// Short name of the paper.
    pub paper: String,
    /// Where in the paper it stands; places that contradict each other are separated by `;`.
    pub place: String,
    /// What contradicts what.
    pub contradiction: String,
    /// The arithmetic that shows it, from the printed numbers.
    pub arithmetic: String,
}

static DOUBTS: LazyLock<Vec<Doubt>> = LazyLock::new(|| {
    let text = include_str!("../data/doubts.csv");
    csv::Reader::from_reader(text.as_bytes()).deserialize().filter_map(Result::ok).collect()
});

/// All doubts, by number.
pub fn doubts() -> &'static [Doubt] {
    &DOUBTS
}

/// The doubt with number `n`.
pub fn doubt(n: u8) -> Option<&'static Doubt> {
    DOUBTS.iter().find(|doubt| doubt.number == n)
}
