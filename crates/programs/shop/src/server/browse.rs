//! The web interactions of browsing.

use std::sync::atomic::Ordering::Relaxed;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use fabricmark_bookstore::{BINDINGS, SUBJECTS};
use serde::Deserialize;

use super::PageError;
use super::context::{Context, Id};
use super::page::{Book, Entry, Home, List, Search, price};
use crate::database::{fetch, sql};

/// Number, title, author's first and last name, price.
type EntryRow = (i64, String, String, String, i64);

/// Books of a list: the statement from the list of tables on, which call the book `i` and its author `a`.
macro_rules! entries {
    ($context:expr, [$($from:tt)*] $(, $bind:expr)*) => {{
        let sql = sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM " $($from)*);
        let rows = $context.timed(fetch!(Database, $context.server.database, EntryRow, sql $(, $bind)*)).await?;
        let entry = |(id, title, first, last, price_cents): EntryRow| Entry {
            id,
            title,
            author: format!("{first} {last}"),
            price_cents,
        };
        rows.into_iter().map(entry).collect::<Vec<_>>()
    }};
}

/// The books related to one, as promotions.
async fn promotions(context: &Context) -> Result<Vec<Entry>, PageError> {
    let server = &context.server;
    let item = 1 + server.promotions.fetch_add(1, Relaxed) % server.items.max(1);
    Ok(entries!(
        context,
        ["related r JOIN item i ON i.id = r.other JOIN author a ON a.id = i.author WHERE r.item = " [1]
         " ORDER BY r.place"],
        item
    ))
}

pub async fn home(context: Context) -> Result<Response, PageError> {
    let promotions = promotions(&context).await?;
    context.respond(&Home { token: context.token(), promotions })
}

/// The name of a subject.
fn subject(place: i64) -> Result<&'static str, PageError> {
    let name = usize::try_from(place).ok().and_then(|place| SUBJECTS.get(place));
    name.copied().ok_or(PageError::NotFound)
}

pub async fn new_products(context: Context, Id(place): Id) -> Result<Response, PageError> {
    let heading = format!("New in {}", subject(place)?);
    let entries = entries!(
        context,
        ["item i JOIN author a ON a.id = i.author WHERE i.subject = " [1] " ORDER BY i.published DESC LIMIT 50"],
        place
    );
    context.respond(&List {
        token: context.token(),
        heading,
        empty: "Nothing is new here.",
        entries,
    })
}

/// Best sellers are those of this number of last orders (University of Wisconsin).
const LAST_ORDERS: i64 = 3333;

pub async fn best_sellers(context: Context, Id(place): Id) -> Result<Response, PageError> {
    let heading = format!("Best sellers in {}", subject(place)?);
    let latest = sql!("SELECT MAX(id) FROM orders");
    let latest =
        context.timed(fetch!(Database, context.server.database, (Option<i64>,), latest)).await?;
    let latest = latest.first().and_then(|row| row.0).unwrap_or(0);
    // The sums are computed first, so that MariaDB reads each line once (7 instead of 56 ms with 10,000 books and
    // 778,000 lines), over a range with both ends, so that PostgreSQL uses the index.
    let entries = entries!(
        context,
        ["(SELECT item, SUM(quantity) AS sold FROM order_line WHERE orders BETWEEN " [1] " AND " [2]
         " GROUP BY item) s JOIN item i ON i.id = s.item JOIN author a ON a.id = i.author WHERE i.subject = " [3]
         " ORDER BY s.sold DESC LIMIT 50"],
        latest - LAST_ORDERS + 1,
        latest,
        place
    );
    context.respond(&List {
        token: context.token(),
        heading,
        empty: "Nothing was sold here lately.",
        entries,
    })
}

/// Title, author's first and last name, biography, publisher, subject, description, list price, price, stock, ISBN,
/// pages, binding, dimensions.
type BookRow =
    (String, String, String, String, String, i64, String, i64, i64, i64, String, i64, i64, String);

pub async fn book(context: Context, Id(id): Id) -> Result<Response, PageError> {
    let find = sql!(
        "SELECT i.title, a.first_name, a.last_name, a.biography, i.publisher, i.subject, i.description, \
                     i.list_price_cents, i.price_cents, i.stock, i.isbn, i.pages, i.binding, i.dimensions \
                     FROM item i JOIN author a ON a.id = i.author WHERE i.id = "[1]
    );
    let found = context.timed(fetch!(Database, context.server.database, BookRow, find, id)).await?;
    let Some(row) = found.into_iter().next() else { return Err(PageError::NotFound) };
    let (
        title,
        first,
        last,
        biography,
        publisher,
        place,
        description,
        list_cents,
        price_cents,
        stock,
        ..,
    ) = row;
    let (isbn, pages, binding, dimensions) = (row.10, row.11, row.12, row.13);
    let binding = BINDINGS.get(binding as usize).copied().unwrap_or_default();
    let facts = vec![
        ("Publisher", publisher),
        ("Binding", binding.to_owned()),
        ("Pages", pages.to_string()),
        ("Dimensions", dimensions),
        ("ISBN", isbn),
    ];
    let page = Book {
        token: context.token(),
        entry: Entry { id, title, author: format!("{first} {last}"), price_cents },
        subject: place as usize,
        description,
        biography,
        list_price: (list_cents > price_cents).then(|| price(list_cents)),
        stock,
        facts,
    };
    context.respond(&page)
}

pub async fn search(context: Context) -> Result<Response, PageError> {
    let promotions = promotions(&context).await?;
    context.respond(&Search { token: context.token(), promotions })
}

/// A search.
#[derive(Debug, Deserialize)]
pub struct Terms {
    by: String,
    #[serde(rename = "for")]
    text: String,
}

pub async fn search_results(
    context: Context,
    terms: Result<Query<Terms>, QueryRejection>,
) -> Result<Response, PageError> {
    let Ok(Query(Terms { by, text })) = terms else { return Err(PageError::NotFound) };
    let pattern = begins_with(&text);
    let (entries, shown) = match by.as_str() {
        "title" => {
            let from = entries!(
                context,
                ["item i JOIN author a ON a.id = i.author WHERE i.title LIKE " [1] " ORDER BY i.title LIMIT 50"],
                &pattern
            );
            (from, text)
        }
        "author" => {
            let from = entries!(
                context,
                ["author a JOIN item i ON i.author = a.id WHERE a.last_name LIKE " [1] " ORDER BY i.title LIMIT 50"],
                &pattern
            );
            (from, text)
        }
        "subject" => {
            let place: i64 = text.parse().map_err(|_| PageError::NotFound)?;
            let name = subject(place)?;
            let from = entries!(
                context,
                ["item i JOIN author a ON a.id = i.author WHERE i.subject = " [1] " ORDER BY i.title LIMIT 50"],
                place
            );
            (from, name.to_owned())
        }
        _ => return Err(PageError::NotFound),
    };
    let heading = format!("Books by {by}: {shown}");
    context.respond(&List { token: context.token(), heading, empty: "No book was found.", entries })
}

/// A pattern of LIKE for texts that begin with this one. Wildcards in it are escaped.
fn begins_with(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars().take(60) {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_of_a_search_are_escaped() {
        assert_eq!(begins_with(r"50%_\"), r"50\%\_\\%");
    }
}
