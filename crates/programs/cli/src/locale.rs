//! Text as a terminal can show it: without control characters, and in ASCII if its locale is not UTF-8 (locale(7)).

use std::borrow::Cow;
use std::env;

/// The text with `?` in place of control characters, except line ends and tabs: names and messages may come from other
/// hosts and files, and would move the cursor, or with those of UAX #9 change the order in which text is read.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_bidi_control(c);
    if text.contains(is_harmful) { text.replace(is_harmful, "?").into() } else { text.into() }
}

/// Bidi_Control of Unicode (UAX #9).
fn is_bidi_control(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The text as a terminal can show it: unchanged with a UTF-8 locale, otherwise in ASCII.
pub fn shown(text: &str) -> Cow<'_, str> {
    // The first one that is set to a value decides.
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let set =
        names.into_iter().filter_map(|name| env::var(name).ok()).find(|value| !value.is_empty());
    match set {
        Some(locale) if is_utf8(&locale) => text.into(),
        _ => ascii(text),
    }
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut found = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => found.push(c),
            '·' | '−' | '–' | '—' | '─' | '━' => found.push('-'),
            '│' | '├' => found.push('|'),
            '└' => found.push('`'),
            'µ' | 'μ' => found.push('u'),
            '±' => found.push_str("+-"),
            '×' => found.push('x'),
            '≤' => found.push_str("<="),
            '≥' => found.push_str(">="),
            '→' => found.push_str("->"),
            '…' => found.push_str("..."),
            _ => found.push('?'),
        }
    }
    found.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_others_are_not_shown() {
        assert_eq!(harmless("\u{1b}[2Jnode\r\u{9b}2\u{7}"), "?[2Jnode??2?");
        assert_eq!(harmless("one\u{202e}two\u{2069}"), "one?two?");
        assert_eq!(harmless("µs\n\ttwo"), "µs\n\ttwo");
    }

    #[test]
    fn signs_have_an_ascii_form() {
        assert_eq!(ascii("9.8 ± 0.1 µs · −3 %"), "9.8 +- 0.1 us - -3 %");
        assert_eq!(ascii("├─ a\n│  └─ b"), "|- a\n|  `- b");
        assert_eq!(ascii("plain"), "plain");
    }

    #[test]
    fn utf8_locales_are_known_by_their_codeset() {
        let is = ["C.UTF-8", "en_GB.utf8", "de_DE.UTF-8"].map(is_utf8);
        assert_eq!(is, [true; 3]);
        assert_eq!(["C", "POSIX", "en_GB.ISO-8859-1"].map(is_utf8), [false; 3]);
    }
}
