//! Texts of rows.

use fabricmark_units::Stream;

use super::between;
use crate::word;

fn one_of(words: &[&'static str], random: &mut Stream) -> &'static str {
    words[random.below(words.len() as u64) as usize]
}

const ADJECTIVES: [&str; 20] = [
    "Glass", "Silent", "Northern", "Hidden", "Last", "Winter", "Golden", "Broken", "Distant",
    "Little", "Long", "Open", "Paper", "Quiet", "Red", "Salt", "Second", "Seventh", "Slow",
    "White",
];
const NOUNS: [&str; 24] = [
    "Sea",
    "Garden",
    "Harbour",
    "Mountain",
    "House",
    "Letter",
    "River",
    "Road",
    "Clock",
    "Library",
    "Island",
    "Window",
    "Orchard",
    "Bridge",
    "Map",
    "Lighthouse",
    "Forest",
    "Voyage",
    "Season",
    "Kitchen",
    "City",
    "Journey",
    "Tower",
    "Valley",
];
const FIRST_NAMES: [&str; 40] = [
    "Ada", "Alan", "Anna", "Barbara", "Ben", "Carla", "Claude", "Dana", "David", "Edith", "Elena",
    "Emil", "Eva", "Fatima", "Felix", "Grace", "Hana", "Hugo", "Ida", "Igor", "Ines", "Ivan",
    "Jane", "Jonas", "Karl", "Leila", "Lena", "Louis", "Maria", "Mark", "Mei", "Nina", "Noah",
    "Olga", "Omar", "Paul", "Rosa", "Samir", "Tomas", "Vera",
];
const OPENINGS: [&str; 8] = [
    "A patient account of",
    "An unlikely friendship in",
    "A first look at",
    "The story of",
    "A practical guide to",
    "Letters from",
    "A short history of",
    "Notes on",
];
const MIDDLES: [&str; 8] = [
    "told by one who was there",
    "with forty drawings",
    "from the first day to the last",
    "for readers of every age",
    "in the author's own words",
    "with an afterword",
    "in a new translation",
    "revised and enlarged",
];
const ENDINGS: [&str; 8] = [
    "Hard to put down.",
    "Warm, exact and often funny.",
    "A book to return to.",
    "Much praised, and rightly.",
    "With maps and an index.",
    "Winner of several awards.",
    "The standard work for years.",
    "Read it slowly.",
];

/// A title that begins with a word.
pub(super) fn title(first: &str, random: &mut Stream) -> String {
    let (adjective, noun) = (one_of(&ADJECTIVES, random), one_of(&NOUNS, random));
    let article = one_of(&["and the", "and a", "of the", "in the", "or: The"], random);
    format!("{first} {article} {adjective} {noun}")
}

/// A few sentences: TPC-W's descriptions have 100 to 500 characters.
pub(super) fn description(random: &mut Stream) -> String {
    let mut text = String::new();
    for _ in 0..between(random, 1, 4) {
        let (adjective, noun) = (one_of(&ADJECTIVES, random), one_of(&NOUNS, random));
        let (opening, middle, ending) =
            (one_of(&OPENINGS, random), one_of(&MIDDLES, random), one_of(&ENDINGS, random));
        let space = if text.is_empty() { "" } else { " " };
        let (adjective, noun) = (adjective.to_lowercase(), noun.to_lowercase());
        text += &format!(
            "{space}{opening} the {adjective} {noun} of {}, {middle}. {ending}",
            word::name(random)
        );
    }
    text
}

pub(super) fn biography(random: &mut Stream) -> String {
    let noun = one_of(&NOUNS, random).to_lowercase();
    format!(
        "Born in {}, lives beside the {noun} in {}, and has written for {} years. {}",
        word::name(random),
        word::name(random),
        between(random, 2, 60),
        one_of(&ENDINGS, random)
    )
}

pub(super) fn publisher(random: &mut Stream) -> String {
    format!(
        "{} {}",
        word::name(random),
        one_of(&["Press", "Books", "House", "& Sons", "University Press"], random)
    )
}

pub(super) fn first_name(random: &mut Stream) -> String {
    one_of(&FIRST_NAMES, random).to_owned()
}

pub(super) fn street(random: &mut Stream) -> String {
    let kind = one_of(&["Street", "Road", "Lane", "Avenue", "Square"], random);
    format!("{} {} {kind}", between(random, 1, 999), word::name(random))
}

/// TPC-W's comments have 20 to 100 characters.
pub(super) fn comment(random: &mut Stream) -> String {
    let ending = one_of(&ENDINGS, random);
    format!(
        "{} {ending}",
        one_of(
            &["For a friend.", "A gift: please wrap it.", "Second copy.", "For the library."],
            random
        )
    )
}

/// An ISBN of 13 digits with its check digit (ISO 2108).
pub(super) fn isbn(random: &mut Stream) -> String {
    let body = format!("978{}", digits(9, random));
    let sum: u32 = body
        .bytes()
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| u32::from(digit - b'0') * weight)
        .sum();
    format!("{body}{}", (10 - sum % 10) % 10)
}

/// Width, height and depth.
pub(super) fn dimensions(random: &mut Stream) -> String {
    let [width, height, depth] =
        [(10, 22), (15, 32), (1, 6)].map(|(from, to)| between(random, from, to));
    format!("{width} x {height} x {depth} cm")
}

pub(super) fn digits(count: usize, random: &mut Stream) -> String {
    (0..count).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isbn_has_the_check_digit_of_the_standard() {
        let mut random = Stream::new(1, "isbn");
        for _ in 0..100 {
            let isbn = isbn(&mut random);
            let weighted = isbn.bytes().zip([1, 3].into_iter().cycle());
            let sum: u32 = weighted.map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
            assert!(isbn.len() == 13 && sum.is_multiple_of(10), "{isbn}");
        }
    }

    #[test]
    fn descriptions_have_the_length_that_tpc_w_asks_for() {
        let mut random = Stream::new(1, "text");
        for _ in 0..1_000 {
            let text = description(&mut random);
            assert!((60..=600).contains(&text.len()), "{text}");
        }
    }
}
