//! Pages, each a template with what it shows.

use askama::Template;
use fabricmark_bookstore::SUBJECTS;

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
    pub promotions: Vec<Entry>,
}

/// New Products, Best Sellers and Search Results.
#[derive(Debug, Template)]
#[template(path = "list.html")]
pub struct List {
    pub heading: String,
    pub empty: &'static str,
    pub entries: Vec<Entry>,
}

/// Product Detail.
#[derive(Debug, Template)]
#[template(path = "book.html")]
pub struct Book {
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
    pub promotions: Vec<Entry>,
}

/// A request that gets no page.
#[derive(Debug, Template)]
#[template(path = "failed.html")]
pub struct Failed<'a> {
    pub message: &'a str,
}
