//! Texts that a kind of setting accepts, and the form in which values are compared.

/// What values a kind of setting has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// A whole number in this range. A narrower range of the device is for the kernel to check.
    Number(u32, u32),
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A name of lower-case letters, digits, `_` and `-`.
    Name,
    /// A CPU mask: hexadecimal digits, with or without commas (`bitmap_parse` in lib/bitmap-str.c).
    Mask,
    /// Any printable words, as for sysctl(8).
    Text,
}

/// Hexadecimal digits of a part of a CPU mask, and of the longest one: 8192 CPUs, the most that Linux is built for
/// (NR_CPUS).
const MASK_PART: usize = 8;
const MASK_MAX: usize = 8192 / 4;

/// Longest text of a sysctl, in bytes.
const TEXT_MAX: usize = 1024;

impl Values {
    /// Brings a value that a user wrote into the form in which it is compared. The error says what is accepted.
    pub fn accept(self, text: &str) -> Result<String, String> {
        let text = text.trim();
        match self {
            Self::Number(least, most) => match text.parse::<u32>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                _ => Err(format!("a whole number from {least} to {most}")),
            },
            Self::Switch if matches!(text, "on" | "off") => Ok(text.to_owned()),
            Self::Switch => Err("`on` or `off`".to_owned()),
            Self::Words(words) if words.contains(&text) => Ok(text.to_owned()),
            Self::Words(words) => Err(format!("one of {}", words.join(", "))),
            Self::Name => {
                let is_name =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
                let fits = (1..=32).contains(&text.len()) && text.chars().all(is_name);
                let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
                if fits && starts {
                    Ok(text.to_owned())
                } else {
                    Err("a name such as `fq`".to_owned())
                }
            }
            Self::Mask => {
                mask(text).ok_or_else(|| "a CPU mask in hexadecimal digits, such as `f`".to_owned())
            }
            Self::Text => {
                let is_text = text.chars().all(|c| c == ' ' || c == '\t' || c.is_ascii_graphic());
                if is_text && (1..=TEXT_MAX).contains(&text.len()) {
                    Ok(words(text))
                } else {
                    Err("printable characters".to_owned())
                }
            }
        }
    }
}

/// Words with single spaces between them. The kernel separates the numbers of a sysctl by tabs.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The digits of a mask without commas and leading zeros. `None` if it is no mask.
pub(crate) fn mask(text: &str) -> Option<String> {
    let digits: String = text.trim().chars().filter(|&c| c != ',').collect();
    let is_mask = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    let digits = digits.trim_start_matches('0').to_ascii_lowercase();
    let digits = if digits.is_empty() { "0".to_owned() } else { digits };
    (is_mask && digits.len() <= MASK_MAX).then_some(digits)
}

/// A mask in parts of 32 bits with commas between them, which is the only form in which the kernel accepts long ones.
pub(crate) fn mask_in_parts(digits: &str) -> String {
    let first = digits.len() % MASK_PART;
    let mut parts: Vec<&str> = Vec::new();
    if first > 0 {
        parts.extend(digits.get(..first));
    }
    let mut from = first;
    while let Some(part) = digits.get(from..from + MASK_PART) {
        parts.push(part);
        from += MASK_PART;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_the_same_with_and_without_commas_and_zeros() {
        for text in ["3", "00000003", "00000000,00000003", "0,3\n"] {
            assert_eq!(mask(text).as_deref(), Some("3"), "{text}");
        }
        assert_eq!(mask("ff,FFFFFFFF").as_deref(), Some("ffffffffff"));
        assert_eq!(mask("0").as_deref(), Some("0"));
        for text in ["", ",", "g", "-1", "0x3"] {
            assert_eq!(mask(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_mask_is_written_in_parts_of_32_bits() {
        assert_eq!(mask_in_parts("3"), "3");
        assert_eq!(mask_in_parts("ffffffff"), "ffffffff");
        assert_eq!(mask_in_parts("1ffffffff"), "1,ffffffff");
        assert_eq!(mask_in_parts("1234567800000000ffffffff"), "12345678,00000000,ffffffff");
    }

    #[test]
    fn a_value_that_is_not_of_its_kind_is_refused_with_what_is() {
        let refused = [
            (Values::Number(68, 9000), "67", "a whole number from 68 to 9000"),
            (Values::Number(68, 9000), "9k", "a whole number from 68 to 9000"),
            (Values::Switch, "true", "`on` or `off`"),
            (Values::Words(&["a", "b"]), "c", "one of a, b"),
            (Values::Name, "fq limit 3", "a name such as `fq`"),
            (Values::Name, "-batch", "a name such as `fq`"),
            (Values::Text, "1\n2", "printable characters"),
        ];
        for (values, text, expected) in refused {
            assert_eq!(values.accept(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(
            Values::Text.accept(" 4096\t131072  6291456 ").as_deref(),
            Ok("4096 131072 6291456")
        );
        assert_eq!(Values::Number(68, 9000).accept("068").as_deref(), Ok("68"));
    }
}
