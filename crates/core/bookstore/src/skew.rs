//! Skewed choices of customers and items.

use fabricmark_units::Stream;

/// A customer from 1 to `customers`; some are chosen far more often than others.
pub fn nurand_customer(customers: u32, random: &mut Stream) -> u32 {
    let a = match customers {
        0..10_000 => 1023,
        10_000..40_000 => 4095,
        40_000..160_000 => 16_383,
        160_000..640_000 => 65_535,
        640_000..2_560_000 => 262_143,
        2_560_000..10_240_000 => 1_048_575,
        10_240_000..40_960_000 => 4_194_303,
        40_960_000..163_840_000 => 16_777_215,
        163_840_000.. => 67_108_863,
    };
    non_uniform(a, customers, random)
}

/// An item from 1 to `items`; some are chosen far more often than others.
pub fn nurand_item(items: u32, random: &mut Stream) -> u32 {
    let a = match items {
        0..10_000 => 63,
        10_000..100_000 => 511,
        100_000..1_000_000 => 4095,
        1_000_000..10_000_000 => 32_767,
        10_000_000.. => 524_287,
    };
    non_uniform(a, items, random)
}

/// TPC-W's NURand(A, 1, y) = ((rand(0..A) | rand(1..y)) mod y) + 1.
fn non_uniform(a: u32, y: u32, random: &mut Stream) -> u32 {
    let mut draw = |from: u32, to: u32| from + random.below(u64::from(to - from) + 1) as u32;
    let either = draw(0, a) | draw(1, y.max(1));
    either % y.max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_within_range_and_their_frequencies_differ() {
        let mut random = Stream::new(1, "items");
        let mut counts = vec![0_u32; 1001];
        for _ in 0..1_000_000 {
            counts[nurand_item(1000, &mut random) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        // A number whose low six bits are set is drawn 64 times as often as one whose low six bits are not.
        let (often, rarely) = (counts[1 + 511], counts[1 + 512]);
        assert!(often > 30 * rarely.max(1), "{often} and {rarely}");
    }

    #[test]
    fn every_size_of_a_shop_has_a_choice() {
        let mut random = Stream::new(1, "sizes");
        for customers in [1, 2880, 9_999, 28_800, 288_000, 2_880_000, 288_000_000] {
            let chosen = nurand_customer(customers, &mut random);
            assert!((1..=customers).contains(&chosen), "{chosen} of {customers}");
        }
    }
}
