//! Names made of syllables.

use fabricmark_units::Stream;

/// Syllables of the decimal digits (TPC-W 1.8, clause 4.6.2.9).
const DIGITS: [&str; 10] = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"];

/// Syllables of titles and last names. TPC-W spells numbers with those of [`DIGITS`]; these make words that a person can
/// read, with the same number of books for each.
const SYLLABLES: [&str; 40] = [
    "bel", "ber", "bor", "cor", "dal", "dan", "del", "dor", "fal", "fen", "gar", "gil", "hal",
    "hol", "kar", "kel", "lan", "len", "lin", "lor", "mar", "mel", "mir", "mor", "nal", "nor",
    "per", "ral", "ran", "ros", "sar", "sel", "sol", "tal", "tan", "tor", "van", "ven", "ver",
    "win",
];

/// User name of a customer.
pub fn user_name(customer: u32) -> String {
    customer.to_string().bytes().map(|digit| DIGITS[usize::from(digit - b'0')]).collect()
}

/// Password of a customer whom the generator made.
pub fn password(customer: u32) -> String {
    user_name(customer).to_lowercase()
}

/// First word of the titles with this key; different for all keys.
pub fn title_word(key: u32) -> String {
    // Odd and no multiple of 5: successive keys are scattered, and no two have the same word.
    spell(key, 16_183)
}

/// Last name of the authors with this key; different for all keys.
pub fn last_name(key: u32) -> String {
    spell(key, 39_541)
}

/// A name that means nothing: of a person, a place or a firm.
pub(crate) fn name(random: &mut Stream) -> String {
    spell(random.below(SHORT_WORDS) as u32, 1)
}

/// Words of three syllables; longer ones have five.
const SHORT_WORDS: u64 = 40 * 40 * 40;

fn spell(key: u32, multiplier: u64) -> String {
    let key = u64::from(key);
    let (mut left, syllables) =
        if key < SHORT_WORDS { (key * multiplier % SHORT_WORDS, 3) } else { (key, 5) };
    let mut word = String::new();
    for _ in 0..syllables {
        word += SYLLABLES[(left % 40) as usize];
        left /= 40;
    }
    word[..1].to_uppercase() + &word[1..]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_user_name_spells_the_number_and_the_password_is_in_lower_case() {
        assert_eq!((user_name(1), user_name(2_880)), ("OG".to_owned(), "ALININBA".to_owned()));
        assert_eq!(password(109), "ogbang");
    }

    #[test]
    fn keys_have_different_words() {
        let words: BTreeSet<String> = (0..200_000).map(title_word).collect();
        assert_eq!(words.len(), 200_000);
        assert_ne!(title_word(7), last_name(7));
    }
}
