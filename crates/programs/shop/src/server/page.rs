//! Pages, each a template with what it shows.

use askama::Template;
use fabricmark_bookstore::{CARDS, COUNTRIES, SHIPPINGS, SUBJECTS};

/// A book in a list.
#[derive(Debug)]
pub struct Entry {
    pub id: i64,
    pub title: String,
    pub author: String,
    pub price_cents: i64,
}

impl Entry {
    fn price(&self) -> String {
        price(self.price_cents)
    }
}

/// An amount in dollars.
pub fn price(cents: i64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// Home.
#[derive(Debug, Template)]
#[template(path = "home.html")]
pub struct Home {
    pub token: String,
    pub promotions: Vec<Entry>,
}

/// New Products, Best Sellers and Search Results.
#[derive(Debug, Template)]
#[template(path = "list.html")]
pub struct List {
    pub token: String,
    pub heading: String,
    pub empty: &'static str,
    pub entries: Vec<Entry>,
}

/// Product Detail.
#[derive(Debug, Template)]
#[template(path = "book.html")]
pub struct Book {
    pub token: String,
    pub entry: Entry,
    pub subject: usize,
    pub description: String,
    pub biography: String,
    /// If it is above the price.
    pub list_price: Option<String>,
    pub stock: i64,
    pub facts: Vec<(&'static str, String)>,
}

/// Search Request.
#[derive(Debug, Template)]
#[template(path = "search.html")]
pub struct Search {
    pub token: String,
    pub promotions: Vec<Entry>,
}

/// A message, such as that of an error.
#[derive(Debug, Template)]
#[template(path = "message.html")]
pub struct Message<'a> {
    pub heading: &'a str,
    pub message: &'a str,
}

/// A line of a cart or of an order.
#[derive(Debug)]
pub struct CartLine {
    pub item: i64,
    pub title: String,
    pub quantity: i64,
    pub price_cents: i64,
}

impl CartLine {
    fn price(&self) -> String {
        price(self.price_cents)
    }

    fn total(&self) -> String {
        price(self.price_cents * self.quantity)
    }
}

/// Shopping Cart.
#[derive(Debug, Template)]
#[template(path = "cart.html")]
pub struct Cart {
    pub token: String,
    pub lines: Vec<CartLine>,
    pub sub_total: String,
}

/// Customer Registration.
#[derive(Debug, Template)]
#[template(path = "register.html")]
pub struct Register {
    pub token: String,
}

/// Buy Request.
#[derive(Debug, Template)]
#[template(path = "buy.html")]
pub struct Buy {
    pub token: String,
    pub name: String,
    pub user_name: String,
    pub address: String,
    pub lines: Vec<CartLine>,
    pub sub_total: String,
    pub discount_percent: i64,
    pub tax: String,
    pub shipping_costs: String,
    pub total: String,
}

/// Buy Confirm and Order Display.
#[derive(Debug, Template)]
#[template(path = "order.html")]
pub struct Order {
    pub heading: &'static str,
    pub number: i64,
    pub state: &'static str,
    pub lines: Vec<CartLine>,
    pub sub_total: String,
    pub tax: String,
    pub shipping_costs: String,
    pub total: String,
    pub shipping: &'static str,
    pub last_digits: String,
}

/// Order Inquiry.
#[derive(Debug, Template)]
#[template(path = "inquiry.html")]
pub struct Inquiry {
    pub token: String,
}

/// Admin Request.
#[derive(Debug, Template)]
#[template(path = "admin.html")]
pub struct Admin {
    pub token: String,
    pub entry: Entry,
}
