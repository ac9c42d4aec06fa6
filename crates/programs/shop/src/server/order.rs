//! The interactions that order.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Form, Path, State};
use axum::response::Response;
use fabricmark_bookstore::{CARDS, COUNTRIES, SHIPPINGS, STATES, tax_cents};
use sqlx::error::DatabaseError;

use super::page::{Admin, Buy, Cart, CartLine, Entry, Failed, Inquiry, Order, Register, price};
use super::session::{Session, now_s};
use super::{Account, Refused, Server};
use crate::database::{Sql, Transaction, change, change_in, rows, rows_in, sql};
use crate::password::hash;

/// Most different books in a cart (TPC-W 1.8, clause 2.4), and most copies of each.
const LINES_MAX: usize = 100;
const COPIES_MAX: i64 = 99;

type Fields = Form<Vec<(String, String)>>;

/// Fields of a form by name.
fn by_name(fields: &[(String, String)]) -> HashMap<&str, &str> {
    fields.iter().map(|(name, value)| (name.as_str(), value.trim())).collect()
}

/// Item, title, copies, price in cents.
type LineRow = (i64, String, i64, i64);

fn lines(rows: Vec<LineRow>) -> Vec<CartLine> {
    rows.into_iter()
        .map(|(item, title, quantity, price_cents)| CartLine { item, title, quantity, price_cents })
        .collect()
}

fn sum_cents(lines: &[CartLine]) -> i64 {
    lines.iter().map(|line| line.price_cents * line.quantity).sum()
}

const CART: Sql = sql!("SELECT l.item, i.title, l.quantity, i.price_cents FROM cart_line l JOIN item i ON i.id = l.item \
                        WHERE l.cart = " [1] " ORDER BY l.item");

async fn lines_of(
    server: &Server,
    session: &Session,
    account: &Account,
) -> Result<Vec<CartLine>, Refused> {
    Ok(lines(account.of(async { rows!(&server.database, LineRow, CART, &session.id) }).await?))
}

async fn show_cart(
    server: &Server,
    session: &Session,
    account: &Account,
) -> Result<Response, Refused> {
    let lines = lines_of(server, session, account).await?;
    let sub_total = price(sum_cents(&lines));
    account.close_for(&Cart { token: session.token(server), lines, sub_total }, session, server)
}

pub async fn cart(
    State(server): State<Arc<Server>>,
    session: Session,
) -> Result<Response, Refused> {
    show_cart(&server, &session, &Account::open()).await
}

pub async fn change_cart(
    State(server): State<Arc<Server>>,
    session: Session,
    Form(fields): Fields,
) -> Result<Response, Refused> {
    let account = Account::open();
    session.check(&server, by_name(&fields).get("token").copied())?;
    let wrong = Refused::Form("a number of copies is from 0 to 99");
    for (name, value) in &fields {
        if name == "add" {
            let item: i64 = value.parse().map_err(|_| Refused::NotFound)?;
            let have = lines_of(&server, &session, &account).await?;
            let copies = have.iter().find(|line| line.item == item).map_or(0, |line| line.quantity);
            if copies >= COPIES_MAX || (copies == 0 && have.len() >= LINES_MAX) {
                return Err(Refused::FullCart);
            }
            // Only books that exist.
            const ADD: Sql = Sql {
                mariadb: "INSERT INTO cart_line SELECT ?, id, 1 FROM item WHERE id = ? \
                          ON DUPLICATE KEY UPDATE quantity = quantity + 1",
                postgresql: "INSERT INTO cart_line SELECT $1, id, 1 FROM item WHERE id = $2 \
                             ON CONFLICT (cart, item) DO UPDATE SET quantity = cart_line.quantity + 1",
            };
            if account.of(async { change!(&server.database, ADD, &session.id, item) }).await? == 0 {
                return Err(Refused::NotFound);
            }
        } else if let Some(item) = name.strip_prefix("quantity-") {
            let item: i64 = item.parse().map_err(|_| Refused::NotFound)?;
            match value.parse::<i64>() {
                Ok(0) => {
                    let remove = sql!("DELETE FROM cart_line WHERE cart = " [1] " AND item = " [2]);
                    account
                        .of(async { change!(&server.database, remove, &session.id, item) })
                        .await?;
                }
                Ok(copies @ 1..=COPIES_MAX) => {
                    let set = sql!("UPDATE cart_line SET quantity = " [1] " WHERE cart = " [2] " AND item = " [3]);
                    account
                        .of(async { change!(&server.database, set, copies, &session.id, item) })
                        .await?;
                }
                _ => return Err(wrong),
            }
        }
    }
    show_cart(&server, &session, &account).await
}

pub async fn register(
    State(server): State<Arc<Server>>,
    session: Session,
) -> Result<Response, Refused> {
    Account::open().close_for(&Register { token: session.token(&server) }, &session, &server)
}

/// The customer whose user name and password these are.
async fn signed_in(
    server: &Server,
    account: &Account,
    user: &str,
    password: &str,
) -> Result<i64, Refused> {
    let find = sql!("SELECT id, password FROM customer WHERE user_name = "[1]);
    let found = account.of(async { rows!(&server.database, (i64, String), find, user) }).await?;
    let customer = found.into_iter().find(|(_, kept)| *kept == hash(user, password));
    customer.map(|(id, _)| id).ok_or(Refused::SignIn)
}

/// Creates a customer.
async fn registered(
    server: &Server,
    account: &Account,
    fields: &HashMap<&str, &str>,
) -> Result<i64, Refused> {
    let text = |name: &str, most: usize, wrong: &'static str| {
        let value = fields.get(name).copied().unwrap_or_default();
        if value.is_empty() || value.chars().count() > most {
            Err(Refused::Form(wrong))
        } else {
            Ok(value)
        }
    };
    let first = text("first-name", 20, "the first name has 1 to 20 letters")?;
    let last = text("last-name", 20, "the last name has 1 to 20 letters")?;
    let street = text("street", 60, "the street has 1 to 60 letters")?;
    let city = text("city", 40, "the city has 1 to 40 letters")?;
    let postal_code = text("postal-code", 10, "the postal code has 1 to 10 letters")?;
    let email = text("email", 60, "the e-mail address has 1 to 60 letters")?;
    let password = text("new-password", 60, "the password has 8 to 60 letters")?;
    let country: i64 = fields.get("country").and_then(|country| country.parse().ok()).unwrap_or(0);
    if password.chars().count() < 8 || !(1..=COUNTRIES.len() as i64).contains(&country) {
        return Err(Refused::Form(
            "the password has 8 to 60 letters, and the country is one of the list",
        ));
    }
    let user = format!("N{}", &Session::new(None)?.id[..16]);
    let today = now_s() as i64 / 86_400;
    let mut open = account.of(server.database.begin()).await?;
    let add_address = sql!("INSERT INTO address (street, city, state, postal_code, country) VALUES (" [1] ", " [2] ", '', " [3]
                           ", " [4] ") RETURNING id");
    let address = account
        .of(async { rows_in!(&mut open, (i64,), add_address, street, city, postal_code, country) })
        .await?;
    let address = address.first().map_or(0, |row| row.0);
    let add = sql!("INSERT INTO customer (user_name, password, first_name, last_name, address, phone, email, since, \
                    discount_percent, balance_cents, spent_cents, born, notes) VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5]
                   ", '', " [6] ", " [7] ", 0, 0, 0, 0, '') RETURNING id");
    let kept = hash(&user, password);
    let added = account
        .of(async {
            rows_in!(&mut open, (i64,), add, &user, &kept, first, last, address, email, today)
        })
        .await?;
    account.of(open.commit()).await?;
    added.first().map(|row| row.0).ok_or(Refused::Form("the customer was not created"))
}

/// First name, last name, discount, address number, street, city, postal code.
type CustomerRow = (String, String, i64, i64, String, String, String);

async fn customer(server: &Server, account: &Account, id: i64) -> Result<CustomerRow, Refused> {
    let find = sql!(
        "SELECT c.first_name, c.last_name, c.discount_percent, a.id, a.street, a.city, a.postal_code \
                     FROM customer c JOIN address a ON a.id = c.address WHERE c.id = "[1]
    );
    let found = account.of(async { rows!(&server.database, CustomerRow, find, id) }).await?;
    found.into_iter().next().ok_or(Refused::Anonymous)
}

/// Reduces prices by a customer's discount.
fn discounted(mut lines: Vec<CartLine>, percent: i64) -> Vec<CartLine> {
    for line in &mut lines {
        line.price_cents = line.price_cents * (100 - percent) / 100;
    }
    lines
}

pub async fn buy(
    State(server): State<Arc<Server>>,
    session: Session,
    Form(fields): Fields,
) -> Result<Response, Refused> {
    let account = Account::open();
    let fields = by_name(&fields);
    session.check(&server, fields.get("token").copied())?;
    let id = match fields.get("user") {
        Some(user) => {
            let password = fields.get("password").copied().unwrap_or_default();
            signed_in(&server, &account, user, password).await?
        }
        None => registered(&server, &account, &fields).await?,
    };
    // Whoever knew the number of the session before signing in does not know this one.
    let own = Session::new(Some(id))?;
    let take = sql!("UPDATE cart_line SET cart = " [1] " WHERE cart = " [2]);
    account.of(async { change!(&server.database, take, &own.id, &session.id) }).await?;
    let (first, last, discount_percent, _, street, city, postal_code) =
        customer(&server, &account, id).await?;
    let lines = discounted(lines_of(&server, &own, &account).await?, discount_percent);
    if lines.is_empty() {
        return Err(Refused::EmptyCart);
    }
    let sub_total_cents = sum_cents(&lines);
    let tax = tax_cents(sub_total_cents);
    let page = Buy {
        token: own.token(&server),
        name: format!("{first} {last}"),
        address: format!("{street}, {postal_code} {city}"),
        lines,
        sub_total: price(sub_total_cents),
        discount_percent,
        tax: price(tax),
        total: price(sub_total_cents + tax),
    };
    account.close_for(&page, &own, &server)
}

/// What is paid with.
struct Card<'a> {
    kind: i64,
    last_digits: &'a str,
    holder: &'a str,
    shipping: i64,
}

impl<'a> Card<'a> {
    fn of(fields: &HashMap<&str, &'a str>) -> Result<Self, Refused> {
        let place = |name: &str, count: usize| {
            let place = fields.get(name).map_or(Ok(0), |value| value.parse::<i64>()).ok()?;
            (0..count as i64).contains(&place).then_some(place)
        };
        let kind =
            place("kind", CARDS.len()).ok_or(Refused::Form("the card is one of the list"))?;
        let shipping = place("shipping", SHIPPINGS.len())
            .ok_or(Refused::Form("the shipping is one of the list"))?;
        let number = fields.get("card").copied().unwrap_or_default();
        if !(12..=19).contains(&number.len()) || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refused::Form("a card number has 12 to 19 digits"));
        }
        let holder = fields.get("holder").copied().unwrap_or_default();
        if holder.is_empty() || holder.chars().count() > 45 {
            return Err(Refused::Form("the name on the card has 1 to 45 letters"));
        }
        Ok(Self { kind, last_digits: &number[number.len() - 4..], holder, shipping })
    }
}

pub async fn confirm(
    State(server): State<Arc<Server>>,
    session: Session,
    Form(fields): Fields,
) -> Result<Response, Refused> {
    let account = Account::open();
    let fields = by_name(&fields);
    session.check(&server, fields.get("token").copied())?;
    let id = session.customer.ok_or(Refused::Anonymous)?;
    let card = Card::of(&fields)?;
    let customer = customer(&server, &account, id).await?;
    // The number of the session names the order, too: who sends the form again gets the same order.
    let order = match earlier(&server, &account, &session.id).await? {
        Some(order) => order,
        None => match place(&server, &account, &session, id, &customer, &card).await {
            // Sent twice at once: the other one came first.
            Err(Refused::Database(error)) if is_duplicate(&error) => {
                earlier(&server, &account, &session.id).await?.ok_or(Refused::EmptyCart)?
            }
            placed => placed?,
        },
    };
    let own = Session::new(Some(id))?;
    let page = shown(&server, &account, order, "Thank you").await?;
    account.close_for(&page, &own, &server)
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

async fn earlier(
    server: &Server,
    account: &Account,
    confirmation: &str,
) -> Result<Option<i64>, Refused> {
    let find = sql!("SELECT id FROM orders WHERE confirmation = "[1]);
    let found = account.of(async { rows!(&server.database, (i64,), find, confirmation) }).await?;
    Ok(found.first().map(|row| row.0))
}

/// Places an order: all of it, or nothing.
async fn place(
    server: &Server,
    account: &Account,
    session: &Session,
    id: i64,
    customer: &CustomerRow,
    card: &Card<'_>,
) -> Result<i64, Refused> {
    let mut open = account.of(server.database.begin()).await?;
    let lock = sql!("SELECT l.item, i.title, l.quantity, i.price_cents FROM cart_line l JOIN item i ON i.id = l.item \
                     WHERE l.cart = " [1] " ORDER BY l.item FOR UPDATE");
    let found = account.of(async { rows_in!(&mut open, LineRow, lock, &session.id) }).await?;
    let lines = discounted(lines(found), customer.2);
    if lines.is_empty() {
        return Err(Refused::EmptyCart);
    }
    let sub_total_cents = sum_cents(&lines);
    let tax = tax_cents(sub_total_cents);
    let at_s = now_s() as i64;
    let add = sql!("INSERT INTO orders (customer, at_s, sub_total_cents, tax_cents, total_cents, shipping, shipped_s, \
                    billing_address, shipping_address, state, confirmation) VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5]
                   ", " [6] ", 0, " [7] ", " [8] ", 0, " [9] ") RETURNING id");
    let total_cents = sub_total_cents + tax;
    let (address, shipping, confirmation) = (customer.3, card.shipping, &session.id);
    let added = account.of(async {
        rows_in!(
            &mut open,
            (i64,),
            add,
            id,
            at_s,
            sub_total_cents,
            tax,
            total_cents,
            shipping,
            address,
            address,
            confirmation
        )
    });
    let order = added.await?.first().map_or(0, |row| row.0);
    for (line, number) in lines.iter().zip(1_i64..) {
        add_line(account, &mut open, order, number, line, customer.2).await?;
    }
    let pay = sql!("INSERT INTO payment VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5] ", " [6] ", " [7] ")");
    let (kind, digits, holder) = (card.kind, card.last_digits, card.holder);
    account
        .of(async {
            change_in!(&mut open, pay, order, kind, digits, holder, confirmation, total_cents, at_s)
        })
        .await?;
    let empty = sql!("DELETE FROM cart_line WHERE cart = "[1]);
    account.of(async { change_in!(&mut open, empty, confirmation) }).await?;
    account.of(open.commit()).await?;
    Ok(order)
}

async fn add_line(
    account: &Account,
    open: &mut Transaction,
    order: i64,
    number: i64,
    line: &CartLine,
    discount_percent: i64,
) -> Result<(), Refused> {
    let add = sql!("INSERT INTO order_line VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5] ", " [6] ", '')");
    let (item, quantity, paid) = (line.item, line.quantity, line.price_cents);
    account
        .of(async { change_in!(open, add, order, number, item, quantity, paid, discount_percent) })
        .await?;
    // Below ten copies, 21 come from the publisher (TPC-W 1.8, clause 2.7). Orders of more come with a multiple.
    let sell = sql!("UPDATE item SET stock = CASE WHEN stock - " [1] " >= 10 THEN stock - " [2] " ELSE stock - " [3]
                    " + 21 * ((" [4] " - stock + 10 + 20) / 21) END WHERE id = " [5]);
    account
        .of(async { change_in!(open, sell, quantity, quantity, quantity, quantity, item) })
        .await?;
    Ok(())
}

/// State, sum, tax, total, shipping, last digits of the card.
type OrderRow = (i64, i64, i64, i64, i64, String);

async fn shown(
    server: &Server,
    account: &Account,
    order: i64,
    heading: &'static str,
) -> Result<Order, Refused> {
    let find = sql!(
        "SELECT o.state, o.sub_total_cents, o.tax_cents, o.total_cents, o.shipping, p.last_digits FROM orders o \
                     JOIN payment p ON p.orders = o.id WHERE o.id = "[1]
    );
    let found = account.of(async { rows!(&server.database, OrderRow, find, order) }).await?;
    let Some((state, sub_total, tax, total, shipping, last_digits)) = found.into_iter().next()
    else {
        return Err(Refused::NotFound);
    };
    let find = sql!("SELECT l.item, i.title, l.quantity, l.price_cents FROM order_line l JOIN item i ON i.id = l.item \
                     WHERE l.orders = " [1] " ORDER BY l.number");
    let lines = lines(account.of(async { rows!(&server.database, LineRow, find, order) }).await?);
    Ok(Order {
        heading,
        number: order,
        state: STATES.get(state as usize).copied().unwrap_or_default(),
        lines,
        sub_total: price(sub_total),
        tax: price(tax),
        total: price(total),
        shipping: SHIPPINGS.get(shipping as usize).copied().unwrap_or_default(),
        last_digits,
    })
}

pub async fn inquiry(
    State(server): State<Arc<Server>>,
    session: Session,
) -> Result<Response, Refused> {
    Account::open().close_for(&Inquiry { token: session.token(&server) }, &session, &server)
}

pub async fn display(
    State(server): State<Arc<Server>>,
    session: Session,
    Form(fields): Fields,
) -> Result<Response, Refused> {
    let account = Account::open();
    let fields = by_name(&fields);
    session.check(&server, fields.get("token").copied())?;
    let (user, password) = (fields.get("user").copied(), fields.get("password").copied());
    let id = signed_in(&server, &account, user.unwrap_or_default(), password.unwrap_or_default())
        .await?;
    let find = sql!("SELECT MAX(id) FROM orders WHERE customer = "[1]);
    let found = account.of(async { rows!(&server.database, (Option<i64>,), find, id) }).await?;
    let Some(order) = found.first().and_then(|row| row.0) else {
        let page = Failed { message: "You have not bought anything yet." };
        return account.close_for(&page, &session, &server);
    };
    let page = shown(&server, &account, order, "Your last order").await?;
    account.close_for(&page, &session, &server)
}

async fn entry(server: &Server, account: &Account, id: i64) -> Result<Entry, Refused> {
    let find = sql!(
        "SELECT i.title, a.first_name, a.last_name, i.price_cents FROM item i JOIN author a ON a.id = i.author \
                     WHERE i.id = "[1]
    );
    let found = account
        .of(async { rows!(&server.database, (String, String, String, i64), find, id) })
        .await?;
    let (title, first, last, price_cents) = found.into_iter().next().ok_or(Refused::NotFound)?;
    Ok(Entry { id, title, author: format!("{first} {last}"), price_cents })
}

pub async fn admin(
    State(server): State<Arc<Server>>,
    session: Session,
    Path(id): Path<i64>,
) -> Result<Response, Refused> {
    let account = Account::open();
    let entry = entry(&server, &account, id).await?;
    account.close_for(&Admin { token: session.token(&server), entry }, &session, &server)
}

pub async fn change_item(
    State(server): State<Arc<Server>>,
    session: Session,
    Path(id): Path<i64>,
    Form(fields): Fields,
) -> Result<Response, Refused> {
    let account = Account::open();
    let fields = by_name(&fields);
    session.check(&server, fields.get("token").copied())?;
    let cents = fields.get("price").and_then(|price| cents(price));
    let cents = cents.ok_or(Refused::Form("a price is from 0.01 to 9999.99"))?;
    let set = sql!("UPDATE item SET price_cents = " [1] " WHERE id = " [2]);
    account.of(async { change!(&server.database, set, cents, id) }).await?;
    let entry = entry(&server, &account, id).await?;
    account.close_for(&Admin { token: session.token(&server), entry }, &session, &server)
}

/// An amount such as 12.30 in cents.
fn cents(text: &str) -> Option<i64> {
    let (dollars, rest) = text.split_once('.').unwrap_or((text, "00"));
    let is_number = |part: &str, most| {
        (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_number(dollars, 4) || !is_number(rest, 2) || rest.len() != 2 {
        return None;
    }
    let cents = dollars.parse::<i64>().ok()? * 100 + rest.parse::<i64>().ok()?;
    (cents > 0).then_some(cents)
}
