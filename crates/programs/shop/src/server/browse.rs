//! The interactions that browse.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use fabricmark_bookstore::{BINDINGS, SUBJECTS};
use serde::Deserialize;

use super::page::{Book, Entry, Home, List, Search, price};
use super::session::Session;
use super::{Account, Refused, Server};
use crate::database::{rows, sql};

/// Number, title, first and last name of the author, price.
type EntryRow = (i64, String, String, String, i64);

fn entries(rows: Vec<EntryRow>) -> Vec<Entry> {
    let entry = |(id, title, first, last, price_cents)| Entry {
        id,
        title,
        author: format!("{first} {last}"),
        price_cents,
    };
    rows.into_iter().map(entry).collect()
}

/// Books to promote: those related to one of the shop's, which changes from request to request.
async fn promotions(server: &Server, account: &Account) -> Result<Vec<Entry>, Refused> {
    let any = 1 + account.number() % server.items.max(1);
    let found = account.of(async {
        rows!(
            &server.database,
            EntryRow,
            sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM related r JOIN item i ON i.id = r.other \
                  JOIN author a ON a.id = i.author WHERE r.item = " [1] " ORDER BY r.place"),
            any
        )
    });
    Ok(entries(found.await?))
}

pub async fn home(
    State(server): State<Arc<Server>>,
    session: Session,
) -> Result<Response, Refused> {
    let account = Account::open();
    let promotions = promotions(&server, &account).await?;
    let page = Home { token: session.token(&server), promotions };
    account.close_for(&page, &session, &server)
}

fn subject(place: i64) -> Result<&'static str, Refused> {
    usize::try_from(place)
        .ok()
        .and_then(|place| SUBJECTS.get(place))
        .copied()
        .ok_or(Refused::NotFound)
}

pub async fn new_products(
    State(server): State<Arc<Server>>,
    session: Session,
    Path(place): Path<i64>,
) -> Result<Response, Refused> {
    let account = Account::open();
    let name = subject(place)?;
    let found = account.of(async {
        rows!(
            &server.database,
            EntryRow,
            sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM item i JOIN author a ON a.id = i.author \
                  WHERE i.subject = " [1] " ORDER BY i.published DESC LIMIT 50"),
            place
        )
    });
    let entries = entries(found.await?);
    let token = session.token(&server);
    let page =
        List { token, heading: format!("New in {name}"), empty: "Nothing is new here.", entries };
    account.close_for(&page, &session, &server)
}

/// Of these many last orders (TPC-W 1.8, clause 2.7).
const LAST_ORDERS: i64 = 3333;

pub async fn best_sellers(
    State(server): State<Arc<Server>>,
    session: Session,
    Path(place): Path<i64>,
) -> Result<Response, Refused> {
    let account = Account::open();
    let name = subject(place)?;
    let latest = account
        .of(async { rows!(&server.database, (Option<i64>,), sql!("SELECT MAX(id) FROM orders")) });
    let latest = latest.await?.first().and_then(|row| row.0).unwrap_or(0);
    // Sums first, so that MariaDB reads each line once (7 instead of 56 ms), and a range with both ends, so that
    // PostgreSQL uses the index.
    let found = account.of(async {
        rows!(
            &server.database,
            EntryRow,
            sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM (SELECT item, SUM(quantity) AS sold \
                  FROM order_line WHERE orders BETWEEN " [1] " AND " [2] " GROUP BY item) s JOIN item i ON i.id = s.item \
                  JOIN author a ON a.id = i.author WHERE i.subject = " [3] " ORDER BY s.sold DESC LIMIT 50"),
            latest - LAST_ORDERS + 1,
            latest,
            place
        )
    });
    let entries = entries(found.await?);
    let page = List {
        token: session.token(&server),
        heading: format!("Best sellers in {name}"),
        empty: "Nothing was sold here lately.",
        entries,
    };
    account.close_for(&page, &session, &server)
}

/// Title, author's first and last name, biography, publisher, subject, description, list price, price, stock, ISBN,
/// pages, binding, dimensions.
type BookRow =
    (String, String, String, String, String, i64, String, i64, i64, i64, String, i64, i64, String);

pub async fn book(
    State(server): State<Arc<Server>>,
    session: Session,
    Path(id): Path<i64>,
) -> Result<Response, Refused> {
    let account = Account::open();
    let found = account.of(async {
        rows!(
            &server.database,
            BookRow,
            sql!("SELECT i.title, a.first_name, a.last_name, a.biography, i.publisher, i.subject, i.description, \
                  i.list_price_cents, i.price_cents, i.stock, i.isbn, i.pages, i.binding, i.dimensions \
                  FROM item i JOIN author a ON a.id = i.author WHERE i.id = " [1]),
            id
        )
    });
    let Some(row) = found.await?.pop() else { return Err(Refused::NotFound) };
    let (
        title,
        first,
        last,
        biography,
        publisher,
        subject,
        description,
        list_price_cents,
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
    let list_price = (list_price_cents > price_cents).then(|| price(list_price_cents));
    let entry = Entry { id, title, author: format!("{first} {last}"), price_cents };
    let token = session.token(&server);
    let page = Book {
        token,
        entry,
        subject: subject as usize,
        description,
        biography,
        list_price,
        stock,
        facts,
    };
    account.close_for(&page, &session, &server)
}

pub async fn search(
    State(server): State<Arc<Server>>,
    session: Session,
) -> Result<Response, Refused> {
    let account = Account::open();
    let promotions = promotions(&server, &account).await?;
    let page = Search { token: session.token(&server), promotions };
    account.close_for(&page, &session, &server)
}

/// What is searched for.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    by: String,
    #[serde(rename = "for")]
    what: String,
}

pub async fn search_results(
    State(server): State<Arc<Server>>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Refused> {
    let account = Account::open();
    let Wanted { by, what } = wanted;
    let found = match by.as_str() {
        "title" => {
            let found = account.of(async {
                rows!(
                    &server.database,
                    EntryRow,
                    sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM item i \
                          JOIN author a ON a.id = i.author WHERE i.title LIKE " [1] " ORDER BY i.title LIMIT 50"),
                    begins_with(&what)
                )
            });
            found.await?
        }
        "author" => {
            let found = account.of(async {
                rows!(
                    &server.database,
                    EntryRow,
                    sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM author a \
                          JOIN item i ON i.author = a.id WHERE a.last_name LIKE " [1] " ORDER BY i.title LIMIT 50"),
                    begins_with(&what)
                )
            });
            found.await?
        }
        "subject" => {
            let place: i64 = what.parse().map_err(|_| Refused::NotFound)?;
            subject(place)?;
            let found = account.of(async {
                rows!(
                    &server.database,
                    EntryRow,
                    sql!("SELECT i.id, i.title, a.first_name, a.last_name, i.price_cents FROM item i \
                          JOIN author a ON a.id = i.author WHERE i.subject = " [1] " ORDER BY i.title LIMIT 50"),
                    place
                )
            });
            found.await?
        }
        _ => return Err(Refused::NotFound),
    };
    let shown = if by == "subject" { subject(what.parse().unwrap_or(0))?.to_owned() } else { what };
    let heading = format!("Books by {by}: {shown}");
    let token = session.token(&server);
    let page = List { token, heading, empty: "No book was found.", entries: entries(found) };
    account.close_for(&page, &session, &server)
}

/// A pattern of LIKE for texts that begin with this one, whose own wildcards mean themselves.
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
