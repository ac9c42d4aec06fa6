//! The rows of the shop's tables, each a function of a seed and its number.

mod places;
mod text;

use fabricmark_units::Stream;

pub use places::COUNTRIES;

use crate::{Scale, last_name, title_word, user_name, word};

/// Subjects of books.
pub const SUBJECTS: [&str; 24] = [
    "Arts",
    "Biographies",
    "Business",
    "Children",
    "Computers",
    "Cooking",
    "Health",
    "History",
    "Home",
    "Humour",
    "Literature",
    "Mystery",
    "Non-fiction",
    "Parenting",
    "Politics",
    "Reference",
    "Religion",
    "Romance",
    "Self-help",
    "Science and nature",
    "Science fiction",
    "Sports",
    "Youth",
    "Travel",
];

/// Bindings of books.
pub const BINDINGS: [&str; 5] = ["Hardback", "Paperback", "Used", "Audio", "Limited edition"];

/// Ways of shipping an order.
pub const SHIPPINGS: [&str; 6] = ["Air", "Courier", "Express", "Mail", "Ship", "Truck"];

/// States of an order.
pub const STATES: [&str; 4] = ["Processing", "Shipped", "Pending", "Denied"];

/// Kinds of credit cards.
pub const CARDS: [&str; 5] = ["Visa", "Mastercard", "Discover", "Amex", "Diners"];

/// A shop whose rows can be generated in any order. Ranges of numbers are those of the University of Wisconsin's
/// `TPCW_Populate`, except prices (there up to $999.99) and dates.
#[derive(Clone, Copy, Debug)]
pub struct Shop {
    /// How large it is.
    pub scale: Scale,
    /// Two shops of one scale with the same seed have the same rows.
    pub seed: u64,
    /// The day on which it opens, in days since 1970: no row is of a later one.
    pub today: i32,
}

/// A book.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's ITEM")]
pub struct Item {
    pub id: u32,
    pub title: String,
    pub author: u32,
    /// Days since 1970.
    pub published: i32,
    pub publisher: String,
    /// Place in [`SUBJECTS`].
    pub subject: u8,
    pub description: String,
    pub related: [u32; 5],
    /// Suggested retail price in cents.
    pub list_price_cents: i64,
    pub price_cents: i64,
    /// Days since 1970.
    pub available: i32,
    pub stock: i32,
    pub isbn: String,
    pub pages: i32,
    /// Place in [`BINDINGS`].
    pub binding: u8,
    pub dimensions: String,
    /// Size of the large image in KiB: 5, 10, 50, 100 or 250.
    pub image_kib: u16,
}

/// Different covers of a shop; books whose numbers have the same last two digits share one, so that the images of
/// any shop fit into the memory of a web server.
pub const COVERS: u32 = 100;

/// Size of the large image of a book in KiB, with the shares of the University of Wisconsin's implementation.
pub fn cover_kib(item: u32) -> u16 {
    // A multiplier without a common factor mixes the sizes.
    match item % COVERS * 37 % COVERS {
        0..45 => 5,
        45..80 => 10,
        80..95 => 50,
        95..99 => 100,
        _ => 250,
    }
}

/// An author.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's AUTHOR")]
pub struct Author {
    pub id: u32,
    pub first_name: String,
    pub last_name: String,
    /// Days since 1970.
    pub born: i32,
    pub biography: String,
}

/// A customer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's CUSTOMER")]
pub struct Customer {
    pub id: u32,
    pub user_name: String,
    pub first_name: String,
    pub last_name: String,
    pub address: u32,
    pub phone: String,
    pub email: String,
    /// Days since 1970.
    pub since: i32,
    pub discount_percent: i32,
    pub balance_cents: i64,
    pub spent_cents: i64,
    /// Days since 1970.
    pub born: i32,
    pub notes: String,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's ADDRESS")]
pub struct Address {
    pub id: u32,
    pub street: String,
    pub city: String,
    pub state: String,
    pub postal_code: String,
    /// Place in [`COUNTRIES`], from 1.
    pub country: u8,
}

/// An order with its lines and its payment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's ORDERS, ORDER_LINE and CC_XACTS")]
pub struct Order {
    pub id: u32,
    pub customer: u32,
    /// Seconds since 1970.
    pub at_s: i64,
    pub sub_total_cents: i64,
    pub tax_cents: i64,
    pub total_cents: i64,
    /// Place in [`SHIPPINGS`].
    pub shipping: u8,
    pub shipped_s: i64,
    pub billing_address: u32,
    pub shipping_address: u32,
    /// Place in [`STATES`].
    pub state: u8,
    pub lines: Vec<Line>,
    /// Place in [`CARDS`].
    pub card: u8,
    pub card_last_digits: String,
    pub card_holder: String,
    pub authorisation: String,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are those of TPC-W's ORDER_LINE")]
pub struct Line {
    pub item: u32,
    pub quantity: i32,
    /// Price of one copy, discount included.
    pub price_cents: i64,
    pub discount_percent: i32,
    pub comment: String,
}

const DAY_S: i64 = 86_400;

impl Shop {
    /// The book `id`, from 1 to the number of items.
    pub fn item(&self, id: u32) -> Item {
        let mut random = self.row("item", id);
        let Scale { items, .. } = self.scale;
        let list_price_cents = between(&mut random, 100, 9_999);
        let discount_percent = between(&mut random, 0, 50);
        let subject = random.below(24) as u8;
        let published = self.today - between(&mut random, 1, 365 * 70) as i32;
        Item {
            id,
            title: text::title(&title_word((id - 1) % self.scale.title_keys()), &mut random),
            author: (id - 1) % self.scale.authors() + 1,
            published,
            publisher: text::publisher(&mut random),
            subject,
            description: text::description(&mut random),
            related: others(id, items, &mut random),
            list_price_cents,
            price_cents: list_price_cents * (100 - discount_percent) / 100,
            available: published + between(&mut random, 1, 30) as i32,
            stock: between(&mut random, 10, 30) as i32,
            isbn: text::isbn(&mut random),
            pages: between(&mut random, 20, 9_999) as i32,
            binding: random.below(5) as u8,
            dimensions: text::dimensions(&mut random),
            image_kib: cover_kib(id),
        }
    }

    /// The author `id`, from 1 to the number of authors.
    pub fn author(&self, id: u32) -> Author {
        let mut random = self.row("author", id);
        Author {
            id,
            first_name: text::first_name(&mut random),
            last_name: last_name((id - 1) % self.scale.author_keys()),
            born: self.today - between(&mut random, 365 * 20, 365 * 200) as i32,
            biography: text::biography(&mut random),
        }
    }

    /// The customer `id`, from 1 to the number of customers.
    pub fn customer(&self, id: u32) -> Customer {
        let mut random = self.row("customer", id);
        let user_name = user_name(id);
        let first_name = text::first_name(&mut random);
        Customer {
            id,
            email: format!("{}@example.com", user_name.to_lowercase()),
            user_name,
            last_name: word::name(&mut random),
            first_name,
            address: 1 + random.below(u64::from(self.scale.addresses())) as u32,
            phone: text::digits(10, &mut random),
            since: self.today - between(&mut random, 1, 730) as i32,
            discount_percent: between(&mut random, 0, 50) as i32,
            balance_cents: 0,
            spent_cents: between(&mut random, 0, 99_999),
            born: self.today - between(&mut random, 365 * 18, 365 * 120) as i32,
            notes: text::description(&mut random),
        }
    }

    /// The address `id`, from 1 to the number of addresses.
    pub fn address(&self, id: u32) -> Address {
        let mut random = self.row("address", id);
        Address {
            id,
            street: text::street(&mut random),
            city: word::name(&mut random),
            state: word::name(&mut random),
            postal_code: text::digits(5, &mut random),
            country: 1 + random.below(COUNTRIES.len() as u64) as u8,
        }
    }

    /// The order `id`, from 1 to the number of orders.
    pub fn order(&self, id: u32) -> Order {
        let mut random = self.row("order", id);
        let lines: Vec<_> = (0..between(&mut random, 1, 5))
            .map(|_| {
                let item = 1 + random.below(u64::from(self.scale.items)) as u32;
                let discount_percent = between(&mut random, 0, 30);
                Line {
                    item,
                    quantity: between(&mut random, 1, 300) as i32,
                    price_cents: self.item(item).price_cents * (100 - discount_percent) / 100,
                    discount_percent: discount_percent as i32,
                    comment: text::comment(&mut random),
                }
            })
            .collect();
        // The latest orders have the largest numbers.
        let age =
            60.0 * DAY_S as f64 * (1.0 - f64::from(id) / f64::from(self.scale.orders().max(1)));
        let at_s = i64::from(self.today) * DAY_S - age as i64;
        let sub_total_cents =
            lines.iter().map(|line| line.price_cents * i64::from(line.quantity)).sum();
        let tax_cents = tax_cents(sub_total_cents);
        let copies = lines.iter().map(|line| i64::from(line.quantity)).sum();
        let addresses = u64::from(self.scale.addresses());
        Order {
            id,
            customer: 1 + random.below(u64::from(self.scale.customers())) as u32,
            at_s,
            sub_total_cents,
            tax_cents,
            total_cents: sub_total_cents + tax_cents + shipping_cents(copies),
            shipping: random.below(SHIPPINGS.len() as u64) as u8,
            shipped_s: at_s + between(&mut random, 0, 7) * DAY_S,
            billing_address: 1 + random.below(addresses) as u32,
            shipping_address: 1 + random.below(addresses) as u32,
            state: random.below(STATES.len() as u64) as u8,
            lines,
            card: random.below(CARDS.len() as u64) as u8,
            card_last_digits: text::digits(4, &mut random),
            card_holder: format!("{} {}", text::first_name(&mut random), word::name(&mut random)),
            authorisation: text::digits(15, &mut random),
        }
    }

    /// Random numbers of a row.
    fn row(&self, table: &str, id: u32) -> Stream {
        // The state of the generator advances by a constant, so neighbouring seeds would have related numbers.
        let scattered = (self.seed ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Stream::new(scattered ^ (scattered >> 29), table)
    }
}

/// Five other books, all different if the shop has more than five.
fn others(id: u32, items: u32, random: &mut Stream) -> [u32; 5] {
    let mut chosen = [0; 5];
    for place in 0..5 {
        let mut other = 1 + random.below(u64::from(items)) as u32;
        while items > 5 && (other == id || chosen[..place].contains(&other)) {
            other = other % items + 1;
        }
        chosen[place] = other;
    }
    chosen
}

/// Sales tax on a sum: 8.25 % (the University of Wisconsin's `Cart`), rounded to whole cents, halves up.
pub fn tax_cents(sub_total_cents: i64) -> i64 {
    (sub_total_cents * 825 + 5_000) / 10_000
}

/// Shipping costs of an order: $3, and $1 for each copy (the University of Wisconsin's `Cart`).
pub fn shipping_cents(copies: i64) -> i64 {
    300 + 100 * copies
}

/// Stock of a book after copies of it were sold. If fewer than 10 would remain, 21 copies are added (the University of
/// Wisconsin's `TPCW_Database`), or the smallest multiple of that with which 10 remain.
pub fn stock_after(stock: i64, sold: i64) -> i64 {
    let left = stock - sold;
    let missing = (10 - left).max(0);
    left + (missing + 20) / 21 * 21
}

fn between(random: &mut Stream, from: i64, to: i64) -> i64 {
    from + random.below((to - from + 1) as u64) as i64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHOP: Shop = Shop { scale: Scale { items: 1_000, browsers: 1 }, seed: 1, today: 20_000 };

    #[test]
    fn a_row_is_the_same_whenever_it_is_generated() {
        let (item, order) = (SHOP.item(17), SHOP.order(2_592));
        SHOP.item(18);
        assert_eq!((SHOP.item(17), SHOP.order(2_592)), (item, order));
        assert_ne!(Shop { seed: 2, ..SHOP }.item(17), SHOP.item(17));
    }

    #[test]
    fn five_books_begin_with_each_key_and_each_author_has_four_of_them() {
        let items: Vec<_> = (1..=1_000).map(|id| SHOP.item(id)).collect();
        let with_key = |key| {
            let word = title_word(key) + " ";
            items.iter().filter(|item| item.title.starts_with(&word)).count()
        };
        assert!((0..200).all(|key| with_key(key) == 5));
        assert!(
            (1..=250).all(|author| items.iter().filter(|item| item.author == author).count() == 4)
        );
    }

    #[test]
    fn references_are_to_rows_that_exist() {
        let Scale { items, .. } = SHOP.scale;
        for id in 1..=1_000 {
            let item = SHOP.item(id);
            let related: BTreeSet<u32> =
                item.related.into_iter().filter(|&other| other != id).collect();
            assert!(
                related.len() == 5 && related.iter().all(|other| (1..=items).contains(other)),
                "{item:?}"
            );
            assert!((1..=SHOP.scale.authors()).contains(&item.author), "{item:?}");
            let order = SHOP.order(id);
            assert!((1..=SHOP.scale.customers()).contains(&order.customer), "{order:?}");
            assert!((1..=5).contains(&order.lines.len()), "{order:?}");
            let sum: i64 =
                order.lines.iter().map(|line| line.price_cents * i64::from(line.quantity)).sum();
            let copies = order.lines.iter().map(|line| i64::from(line.quantity)).sum();
            let total = sum + tax_cents(sum) + shipping_cents(copies);
            assert_eq!((order.sub_total_cents, order.total_cents), (sum, total));
            assert!(order.at_s <= i64::from(SHOP.today) * DAY_S, "{order:?}");
        }
    }

    #[test]
    fn images_have_the_published_sizes() {
        let shop = Shop { scale: Scale { items: 20_000, browsers: 1 }, ..SHOP };
        let mut sizes = [0_u32; 256];
        for id in 1..=1_000 {
            sizes[usize::from(shop.item(id).image_kib)] += 1;
        }
        for (kib, percent) in [(5, 45), (10, 35), (50, 15), (100, 4), (250, 1)] {
            assert_eq!(sizes[kib], 10 * percent, "{kib} KiB");
        }
    }

    #[test]
    fn stock_is_refilled_when_fewer_than_ten_copies_would_remain() {
        let after = [(30, 20), (30, 21), (10, 1), (10, 22), (10, 99)]
            .map(|(stock, sold)| stock_after(stock, sold));
        assert_eq!(after, [10, 30, 30, 30, 16]);
        assert!((0..300).all(|sold| (10..31).contains(&stock_after(20, sold))));
    }

    #[test]
    fn tax_is_rounded_to_whole_cents() {
        assert_eq!([0, 100, 6, 7].map(tax_cents), [0, 8, 0, 1]);
    }
}
