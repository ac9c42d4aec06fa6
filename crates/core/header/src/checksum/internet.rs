//! The Internet checksum (RFC 1071).

/// Incremental Internet checksum: the complement of the one's complement sum of 16-bit words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Internet {
    /// Sum in native byte order, which affects the result only by a final swap (RFC 1071, 2 B).
    sum: u64,
}

impl Internet {
    /// Checksum of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`. A part of odd length is padded with a zero byte, so only the last part may have one.
    ///
    /// Up to 16 GB in all: 2^32 words of 32 bits do not overflow the sum.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let sum: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Self { sum: self.sum.wrapping_add(sum).wrapping_add(u32::from_ne_bytes(last).into()) }
    }

    /// Value for the checksum field; 0 if the summed bytes include a correct checksum.
    #[inline]
    pub fn finish(self) -> u16 {
        let fold = |sum: u64| (sum >> 16) + (sum & 0xffff);
        let sum = fold(fold(fold(fold(self.sum)))) as u16;
        !sum.to_be()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_has_the_sum_of_its_table() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Internet::new().with(&bytes).finish(), !0xddf2);
    }

    proptest! {
        #[test]
        fn it_is_the_complement_of_the_sum_of_words(bytes: Vec<u8>, cut: prop::sample::Index) {
            let mut sum = 0u32;
            for pair in bytes.chunks(2) {
                let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
                sum += u32::from(word);
                sum = (sum & 0xffff) + (sum >> 16);
            }
            prop_assert_eq!(Internet::new().with(&bytes).finish(), !(sum as u16));

            let (one, two) = bytes.split_at(cut.index(bytes.len() + 1) & !1);
            prop_assert_eq!(Internet::new().with(one).with(two).finish(), !(sum as u16));
        }
    }
}
