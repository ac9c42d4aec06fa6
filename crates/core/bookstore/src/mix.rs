//! Mixes of web interactions: their shares, and the Markov chains that produce them.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::Stream;

use crate::Interaction;
use crate::Interaction::{
    AdminConfirm as ADMC, AdminRequest as ADMR, BestSellers as BESS, BuyConfirm as BUYC,
    BuyRequest as BUYR, CustomerRegistration as CREG, Home as HOME, NewProducts as NEWP,
    OrderDisplay as ORDD, OrderInquiry as ORDI, ProductDetail as PROD, SearchRequest as SREQ,
    SearchResults as SRES, ShoppingCart as SHOP,
};

/// A mix of browsing and ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// 95 % browsing (TPC-W's WIPSb).
    Browsing,
    /// 80 % browsing (WIPS).
    Shopping,
    /// 50 % browsing (WIPSo).
    Ordering,
}

/// Draws are from 1 to this number.
const DRAWS: u64 = 9999;

/// The pages that may follow one page, each with the largest draw that leads to it.
type Row = (Interaction, &'static [(Interaction, u64)]);

impl Mix {
    /// All mixes.
    pub const ALL: [Self; 3] = [Self::Browsing, Self::Shopping, Self::Ordering];

    /// Name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Browsing => "browsing",
            Self::Shopping => "shopping",
            Self::Ordering => "ordering",
        }
    }

    /// Share of an interaction in percent, as published.
    pub fn published_percent(self, interaction: Interaction) -> f64 {
        let [browsing, shopping, ordering] = match interaction {
            HOME => [29.00, 16.00, 9.12],
            NEWP | BESS => [11.00, 5.00, 0.46],
            PROD => [21.00, 17.00, 12.35],
            SREQ => [12.00, 20.00, 14.53],
            SRES => [11.00, 17.00, 13.08],
            SHOP => [2.00, 11.60, 13.53],
            CREG => [0.82, 3.00, 12.86],
            BUYR => [0.75, 2.60, 12.73],
            BUYC => [0.69, 1.20, 10.18],
            ORDI => [0.30, 0.75, 0.25],
            ORDD => [0.25, 0.66, 0.22],
            ADMR => [0.10, 0.10, 0.12],
            ADMC => [0.09, 0.09, 0.11],
        };
        match self {
            Self::Browsing => browsing,
            Self::Shopping => shopping,
            Self::Ordering => ordering,
        }
    }

    /// Draws the page that follows another.
    pub fn next(self, from: Interaction, random: &mut Stream) -> Interaction {
        let draw = 1 + random.below(DRAWS);
        let follows = self.follows(from);
        follows.iter().find(|(_, largest)| draw <= *largest).map_or(HOME, |(page, _)| *page)
    }

    /// Probability that `to` follows `from`.
    pub fn probability(self, from: Interaction, to: Interaction) -> f64 {
        let mut below = 0;
        for &(page, largest) in self.follows(from) {
            if page == to {
                return (largest - below) as f64 / DRAWS as f64;
            }
            below = largest;
        }
        0.0
    }

    /// Share of each interaction in percent after many pages, in the order of [`Interaction::ALL`]: the stationary
    /// distribution of the table.
    pub fn stationary_percent(self) -> [f64; 14] {
        let mut share = [1.0 / 14.0; 14];
        // The tables have cycles of several lengths, so the distribution converges; in 1,000 steps to below 1e-9.
        for _ in 0..1000 {
            let mut next = [0.0; 14];
            for (from, &share) in Interaction::ALL.into_iter().zip(&share) {
                for (to, sum) in Interaction::ALL.into_iter().zip(&mut next) {
                    *sum += share * self.probability(from, to);
                }
            }
            share = next;
        }
        share.map(|share| 100.0 * share)
    }

    fn follows(self, from: Interaction) -> &'static [(Interaction, u64)] {
        let table = match self {
            Self::Browsing => &BROWSING,
            Self::Shopping => &SHOPPING,
            Self::Ordering => &ORDERING,
        };
        table.iter().find(|(page, _)| *page == from).map_or(&[], |(_, follows)| *follows)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mix| mix.name() == text);
        found.ok_or_else(|| format!("`{text}` is no mix: use browsing, shopping or ordering"))
    }
}

/// The University of Wisconsin's tables.
const BROWSING: [Row; 14] = [
    (ADMC, &[(HOME, 9877), (SREQ, 9999)]),
    (ADMR, &[(ADMC, 8999), (HOME, 9999)]),
    (BESS, &[(HOME, 4607), (PROD, 5259), (SREQ, 9942), (SHOP, 9999)]),
    (BUYC, &[(HOME, 342), (SREQ, 9999)]),
    (BUYR, &[(BUYC, 9199), (HOME, 9595), (SHOP, 9999)]),
    (CREG, &[(BUYR, 9145), (HOME, 9619), (SREQ, 9999)]),
    (HOME, &[(BESS, 3792), (NEWP, 7585), (ORDI, 7688), (SREQ, 9559), (SHOP, 9999)]),
    (NEWP, &[(HOME, 299), (PROD, 9867), (SREQ, 9941), (SHOP, 9999)]),
    (ORDD, &[(HOME, 802), (SREQ, 9999)]),
    (ORDI, &[(HOME, 523), (ORDD, 8856), (SREQ, 9999)]),
    (PROD, &[(ADMR, 47), (HOME, 8346), (PROD, 9749), (SREQ, 9890), (SHOP, 9999)]),
    (SREQ, &[(HOME, 788), (SRES, 9955), (SHOP, 9999)]),
    (SRES, &[(HOME, 3674), (PROD, 9868), (SREQ, 9942), (SHOP, 9999)]),
    (SHOP, &[(CREG, 4099), (HOME, 8883), (SHOP, 9999)]),
];

/// The University of Wisconsin's tables; its copies have 9992 instead of 9552 from the shopping cart to Home, which
/// contradicts the published shares.
const SHOPPING: [Row; 14] = [
    (ADMC, &[(HOME, 9952), (SREQ, 9999)]),
    (ADMR, &[(ADMC, 8999), (HOME, 9999)]),
    (BESS, &[(HOME, 167), (PROD, 472), (SREQ, 9927), (SHOP, 9999)]),
    (BUYC, &[(HOME, 84), (SREQ, 9999)]),
    (BUYR, &[(BUYC, 4614), (HOME, 6546), (SHOP, 9999)]),
    (CREG, &[(BUYR, 8666), (HOME, 8760), (SREQ, 9999)]),
    (HOME, &[(BESS, 3124), (NEWP, 6249), (ORDI, 6718), (SREQ, 7026), (SHOP, 9999)]),
    (NEWP, &[(HOME, 156), (PROD, 9735), (SREQ, 9784), (SHOP, 9999)]),
    (ORDD, &[(HOME, 69), (SREQ, 9999)]),
    (ORDI, &[(HOME, 72), (ORDD, 8872), (SREQ, 9999)]),
    (PROD, &[(ADMR, 58), (HOME, 832), (PROD, 1288), (SREQ, 8603), (SHOP, 9999)]),
    (SREQ, &[(HOME, 635), (SRES, 9135), (SHOP, 9999)]),
    (SRES, &[(HOME, 2657), (PROD, 9294), (SREQ, 9304), (SHOP, 9999)]),
    (SHOP, &[(CREG, 2585), (HOME, 9552), (SHOP, 9999)]),
];

/// The University of Wisconsin's tables.
const ORDERING: [Row; 14] = [
    (ADMC, &[(HOME, 8348), (SREQ, 9999)]),
    (ADMR, &[(ADMC, 8999), (HOME, 9999)]),
    (BESS, &[(HOME, 1), (PROD, 333), (SREQ, 9998), (SHOP, 9999)]),
    (BUYC, &[(HOME, 2), (SREQ, 9999)]),
    (BUYR, &[(BUYC, 7999), (HOME, 9453), (SHOP, 9999)]),
    (CREG, &[(BUYR, 9899), (HOME, 9901), (SREQ, 9999)]),
    (HOME, &[(BESS, 499), (NEWP, 999), (ORDI, 1269), (SREQ, 1295), (SHOP, 9999)]),
    (NEWP, &[(HOME, 504), (PROD, 9942), (SREQ, 9976), (SHOP, 9999)]),
    (ORDD, &[(HOME, 9939), (SREQ, 9999)]),
    (ORDI, &[(HOME, 1168), (ORDD, 9968), (SREQ, 9999)]),
    (PROD, &[(ADMR, 99), (HOME, 3750), (PROD, 5621), (SREQ, 6341), (SHOP, 9999)]),
    (SREQ, &[(HOME, 815), (SRES, 9815), (SHOP, 9999)]),
    (SRES, &[(HOME, 486), (PROD, 7817), (SREQ, 9998), (SHOP, 9999)]),
    (SHOP, &[(CREG, 9499), (HOME, 9918), (SHOP, 9999)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_yields_the_published_shares() {
        for mix in Mix::ALL {
            let shares = mix.stationary_percent();
            for (interaction, share) in Interaction::ALL.into_iter().zip(shares) {
                let published = mix.published_percent(interaction);
                // The published numbers have two decimals.
                assert!((share - published).abs() <= 0.01, "{mix} {interaction}: {share}");
            }
        }
    }

    #[test]
    fn the_published_shares_of_a_mix_add_up_and_browse_as_its_name_says() {
        for (mix, browsing) in Mix::ALL.into_iter().zip([95.0, 80.0, 50.0]) {
            let sum = |keep: fn(Interaction) -> bool| -> f64 {
                let kept = Interaction::ALL.into_iter().filter(|one| keep(*one));
                kept.map(|one| mix.published_percent(one)).sum()
            };
            assert!((sum(|_| true) - 100.0).abs() < 0.011, "{mix}");
            assert!((sum(Interaction::browses) - browsing).abs() < 0.011, "{mix}");
        }
    }

    #[test]
    fn every_page_has_a_row_whose_last_draw_is_the_largest() {
        for mix in Mix::ALL {
            for page in Interaction::ALL {
                let follows = mix.follows(page);
                assert!(follows.is_sorted_by(|a, b| a.1 < b.1), "{mix} {page}");
                assert_eq!(follows.last().map(|last| last.1), Some(DRAWS), "{mix} {page}");
            }
        }
    }

    #[test]
    fn drawn_pages_have_the_shares_of_the_table() {
        let mut random = Stream::new(1, "pages");
        let (mut page, mut visits) = (HOME, [0_u32; 14]);
        for _ in 0..1_000_000 {
            visits[page as usize] += 1;
            page = Mix::Shopping.next(page, &mut random);
        }
        for (interaction, count) in Interaction::ALL.into_iter().zip(visits) {
            let (percent, published) =
                (f64::from(count) / 1e4, Mix::Shopping.published_percent(interaction));
            // Successive pages depend on each other: five standard deviations of independent draws, twice as wide.
            let bound = 10.0 * (published * (100.0 - published) / 1e6).sqrt();
            assert!((percent - published).abs() < bound, "{interaction}: {percent}");
        }
    }
}
