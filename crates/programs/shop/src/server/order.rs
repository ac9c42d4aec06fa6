//! The web interactions of ordering.

use axum::response::Response;
use fabricmark_bookstore::{
    CARDS, COUNTRIES, SHIPPINGS, STATES, shipping_cents, stock_after, tax_cents,
};
use sqlx::error::DatabaseError;

use super::PageError;
use super::context::{Context, Id, Post};
use super::page::{Admin, Buy, Cart, CartLine, Entry, Inquiry, Message, Order, Register, price};
use super::session::{Session, now_s};
use crate::database::{Sql, Transaction, execute, fetch, sql};
use crate::password::hash;

/// Most different books in a cart, and most copies of each: limits of this shop.
const LINES_MAX: usize = 100;
const COPIES_MAX: i64 = 99;

/// Item, title, copies, price in cents.
type LineRow = (i64, String, i64, i64);

fn lines(rows: Vec<LineRow>) -> Vec<CartLine> {
    let line =
        |(item, title, quantity, price_cents)| CartLine { item, title, quantity, price_cents };
    rows.into_iter().map(line).collect()
}

/// Amounts of a cart or an order.
struct Amounts {
    sub_total_cents: i64,
    tax_cents: i64,
    shipping_cents: i64,
}

impl Amounts {
    fn of(lines: &[CartLine]) -> Self {
        let sub_total_cents = lines.iter().map(|line| line.price_cents * line.quantity).sum();
        let shipping_cents = shipping_cents(lines.iter().map(|line| line.quantity).sum());
        Self { sub_total_cents, tax_cents: tax_cents(sub_total_cents), shipping_cents }
    }

    fn total_cents(&self) -> i64 {
        self.sub_total_cents + self.tax_cents + self.shipping_cents
    }
}

async fn cart_lines(context: &Context) -> Result<Vec<CartLine>, PageError> {
    let find = sql!("SELECT l.item, i.title, l.quantity, i.price_cents FROM cart_line l JOIN item i ON i.id = l.item \
                     WHERE l.cart = " [1] " ORDER BY l.item");
    let cart = &context.session.id;
    Ok(lines(context.timed(fetch!(Database, context.server.database, LineRow, find, cart)).await?))
}

pub async fn cart(context: Context) -> Result<Response, PageError> {
    let lines = cart_lines(&context).await?;
    let sub_total = price(Amounts::of(&lines).sub_total_cents);
    context.respond(&Cart { token: context.token(), lines, sub_total })
}

pub async fn change_cart(post: Post) -> Result<Response, PageError> {
    for (name, value) in post.fields() {
        if name == "add" {
            add_to_cart(&post.context, value.parse().map_err(|_| PageError::NotFound)?).await?;
        } else if let Some(item) = name.strip_prefix("quantity-") {
            let item = item.parse().map_err(|_| PageError::NotFound)?;
            set_copies(&post.context, item, value).await?;
        }
    }
    cart(post.context).await
}

async fn add_to_cart(context: &Context, item: i64) -> Result<(), PageError> {
    let have = cart_lines(context).await?;
    let copies = have.iter().find(|line| line.item == item).map_or(0, |line| line.quantity);
    if copies >= COPIES_MAX || (copies == 0 && have.len() >= LINES_MAX) {
        return Err(PageError::FullCart);
    }
    // A book that does not exist adds no row.
    const ADD: Sql = Sql {
        mariadb: "INSERT INTO cart_line SELECT ?, id, 1 FROM item WHERE id = ? \
                  ON DUPLICATE KEY UPDATE quantity = quantity + 1",
        postgresql: "INSERT INTO cart_line SELECT $1, id, 1 FROM item WHERE id = $2 \
                     ON CONFLICT (cart, item) DO UPDATE SET quantity = cart_line.quantity + 1",
    };
    let (database, cart) = (&context.server.database, &context.session.id);
    match context.timed(execute!(Database, *database, ADD, cart, item)).await? {
        0 => Err(PageError::NotFound),
        _ => Ok(()),
    }
}

async fn set_copies(context: &Context, item: i64, copies: &str) -> Result<(), PageError> {
    let (database, cart) = (&context.server.database, &context.session.id);
    match copies.parse::<i64>() {
        Ok(0) => {
            let remove = sql!("DELETE FROM cart_line WHERE cart = " [1] " AND item = " [2]);
            context.timed(execute!(Database, *database, remove, cart, item)).await?;
        }
        Ok(copies @ 1..=COPIES_MAX) => {
            let set = sql!("UPDATE cart_line SET quantity = " [1] " WHERE cart = " [2] " AND item = " [3]);
            context.timed(execute!(Database, *database, set, copies, cart, item)).await?;
        }
        _ => return Err(PageError::Form("the number of copies is from 0 to 99")),
    }
    Ok(())
}

pub async fn register(context: Context) -> Result<Response, PageError> {
    context.respond(&Register { token: context.token() })
}

/// The customer with the user name and password of a form.
async fn sign_in(post: &Post) -> Result<i64, PageError> {
    let (user, given) = (post.field("user"), hash(post.field("user"), post.field("password")));
    let find = sql!("SELECT id, password FROM customer WHERE user_name = "[1]);
    let context = &post.context;
    let found =
        context.timed(fetch!(Database, context.server.database, (i64, String), find, user)).await?;
    let customer = found.into_iter().find(|(_, kept)| *kept == given);
    customer.map(|(id, _)| id).ok_or(PageError::SignIn)
}

/// Creates the customer of a form.
async fn create_customer(post: &Post) -> Result<i64, PageError> {
    let first = post.text("first-name", 20, "the first name has 1 to 20 characters")?;
    let last = post.text("last-name", 20, "the last name has 1 to 20 characters")?;
    let street = post.text("street", 60, "the street has 1 to 60 characters")?;
    let city = post.text("city", 40, "the city has 1 to 40 characters")?;
    let postal_code = post.text("postal-code", 10, "the postal code has 1 to 10 characters")?;
    let email = post.text("email", 60, "the e-mail address has 1 to 60 characters")?;
    let password = post.text("new-password", 60, "the password has 8 to 60 characters")?;
    if password.chars().count() < 8 {
        return Err(PageError::Form("the password has 8 to 60 characters"));
    }
    let country: i64 = post.field("country").parse().unwrap_or(0);
    if !(1..=COUNTRIES.len() as i64).contains(&country) {
        return Err(PageError::Form("the country is one of the list"));
    }
    let user = format!("N{}", &Session::new(None)?.id[..16]);
    let (kept, today) = (hash(&user, password), now_s() as i64 / 86_400);
    let context = &post.context;
    let mut open = context.timed(context.server.database.begin()).await?;
    let add_address = sql!("INSERT INTO address (street, city, state, postal_code, country) VALUES (" [1] ", " [2] ", '', " [3]
                           ", " [4] ") RETURNING id");
    let added = fetch!(Transaction, open, (i64,), add_address, street, city, postal_code, country);
    let address = context.timed(added).await?.first().map_or(0, |row| row.0);
    let add = sql!("INSERT INTO customer (user_name, password, first_name, last_name, address, phone, email, since, \
                    discount_percent, balance_cents, spent_cents, born, notes) VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5]
                   ", '', " [6] ", " [7] ", 0, 0, 0, 0, '') RETURNING id");
    let added =
        fetch!(Transaction, open, (i64,), add, &user, &kept, first, last, address, email, today);
    let id = context.timed(added).await?.first().map_or(0, |row| row.0);
    context.timed(open.commit()).await?;
    Ok(id)
}

/// First name, last name, user name, discount, address number, street, city, postal code.
type CustomerRow = (String, String, String, i64, i64, String, String, String);

async fn customer(context: &Context, id: i64) -> Result<CustomerRow, PageError> {
    let find = sql!(
        "SELECT c.first_name, c.last_name, c.user_name, c.discount_percent, a.id, a.street, a.city, \
                     a.postal_code FROM customer c JOIN address a ON a.id = c.address WHERE c.id = "
            [1]
    );
    let found =
        context.timed(fetch!(Database, context.server.database, CustomerRow, find, id)).await?;
    found.into_iter().next().ok_or(PageError::Anonymous)
}

/// Reduces prices by a customer's discount.
fn discounted(mut lines: Vec<CartLine>, percent: i64) -> Vec<CartLine> {
    for line in &mut lines {
        line.price_cents = line.price_cents * (100 - percent) / 100;
    }
    lines
}

pub async fn buy(mut post: Post) -> Result<Response, PageError> {
    let id = if post.field("user").is_empty() {
        create_customer(&post).await?
    } else {
        sign_in(&post).await?
    };
    // A new session, against session fixation; it takes the cart.
    let before = std::mem::replace(&mut post.context.session, Session::new(Some(id))?);
    let context = post.context;
    let take = sql!("UPDATE cart_line SET cart = " [1] " WHERE cart = " [2]);
    let (new, old) = (&context.session.id, &before.id);
    context.timed(execute!(Database, context.server.database, take, new, old)).await?;
    let (first, last, user_name, discount_percent, _, street, city, postal_code) =
        customer(&context, id).await?;
    let lines = discounted(cart_lines(&context).await?, discount_percent);
    if lines.is_empty() {
        return Err(PageError::EmptyCart);
    }
    let amounts = Amounts::of(&lines);
    let page = Buy {
        token: context.token(),
        name: format!("{first} {last}"),
        user_name,
        address: format!("{street}, {postal_code} {city}"),
        lines,
        sub_total: price(amounts.sub_total_cents),
        discount_percent,
        tax: price(amounts.tax_cents),
        shipping_costs: price(amounts.shipping_cents),
        total: price(amounts.total_cents()),
    };
    context.respond(&page)
}

/// Card and way of shipping of an order.
struct Payment<'a> {
    /// Places in [`CARDS`] and [`SHIPPINGS`].
    card: i64,
    shipping: i64,
    number: &'a str,
    last_digits: &'a str,
    holder: &'a str,
}

impl<'a> Payment<'a> {
    fn of(post: &'a Post) -> Result<Self, PageError> {
        // The first one, if a form does not say.
        let place = |name: &str, count: usize| {
            let text = Some(post.field(name)).filter(|text| !text.is_empty()).unwrap_or("0");
            text.parse::<i64>().ok().filter(|place| (0..count as i64).contains(place))
        };
        let card =
            place("kind", CARDS.len()).ok_or(PageError::Form("the card is one of the list"))?;
        let shipping = place("shipping", SHIPPINGS.len())
            .ok_or(PageError::Form("the way of shipping is one of the list"))?;
        let number = post.field("card");
        // ISO/IEC 7812: at most 19 digits.
        if !(12..=19).contains(&number.len()) || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(PageError::Form("a card number has 12 to 19 digits"));
        }
        let holder = post.text("holder", 45, "the name on the card has 1 to 45 characters")?;
        let last_digits = &number[number.len() - 4..];
        Ok(Self { card, shipping, number, last_digits, holder })
    }
}

pub async fn confirm(mut post: Post) -> Result<Response, PageError> {
    let context = &post.context;
    let id = signed_in(context).await?;
    let payment = Payment::of(&post)?;
    // The id of the session identifies the order: a form that is sent again yields the same order.
    let order = match placed_before(context).await? {
        Some(order) => order,
        None => match place_order(context, id, &payment).await {
            // Sent twice at once: the other one came first, and may have emptied the cart.
            Err(PageError::EmptyCart) => {
                placed_before(context).await?.ok_or(PageError::EmptyCart)?
            }
            Err(PageError::Database(error)) if is_duplicate(&error) => {
                placed_before(context).await?.ok_or(PageError::EmptyCart)?
            }
            placed => placed?,
        },
    };
    post.context.session = Session::new(Some(id))?;
    let page = order_page(&post.context, order, "Thank you").await?;
    post.context.respond(&page)
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

/// The order of this session, if it has been placed.
async fn placed_before(context: &Context) -> Result<Option<i64>, PageError> {
    let find = sql!("SELECT id FROM orders WHERE confirmation = "[1]);
    let (database, confirmation) = (&context.server.database, &context.session.id);
    let found = context.timed(fetch!(Database, *database, (i64,), find, confirmation)).await?;
    Ok(found.first().map(|row| row.0))
}

/// Places an order in one transaction: order, lines, payment, stock, empty cart.
async fn place_order(context: &Context, id: i64, payment: &Payment<'_>) -> Result<i64, PageError> {
    let (.., discount_percent, address, _, _, _) = customer(context, id).await?;
    let mut open = context.timed(context.server.database.begin()).await?;
    // Rows are locked in the order of their numbers, so that two orders do not wait for each other.
    let lock = sql!("SELECT l.item, i.title, l.quantity, i.price_cents FROM cart_line l JOIN item i ON i.id = l.item \
                     WHERE l.cart = " [1] " ORDER BY l.item FOR UPDATE");
    let confirmation = &context.session.id;
    let found = context.timed(fetch!(Transaction, open, LineRow, lock, confirmation)).await?;
    let lines = discounted(lines(found), discount_percent);
    if lines.is_empty() {
        return Err(PageError::EmptyCart);
    }
    let amounts = Amounts::of(&lines);
    let (sub_total_cents, tax_cents, total_cents) =
        (amounts.sub_total_cents, amounts.tax_cents, amounts.total_cents());
    let (at_s, shipping) = (now_s() as i64, payment.shipping);
    let add = sql!("INSERT INTO orders (customer, at_s, sub_total_cents, tax_cents, total_cents, shipping, shipped_s, \
                    billing_address, shipping_address, state, confirmation) VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5]
                   ", " [6] ", 0, " [7] ", " [8] ", 0, " [9] ") RETURNING id");
    let added = fetch!(
        Transaction,
        open,
        (i64,),
        add,
        id,
        at_s,
        sub_total_cents,
        tax_cents,
        total_cents,
        shipping,
        address,
        address,
        confirmation
    );
    let order = context.timed(added).await?.first().map_or(0, |row| row.0);
    for (line, number) in lines.iter().zip(1_i64..) {
        add_line(context, &mut open, order, number, line, discount_percent).await?;
    }
    let authorization = match &context.server.payment {
        Some(gateway) => gateway.authorize(payment.number, total_cents).await?,
        None => confirmation.clone(),
    };
    let pay = sql!("INSERT INTO payment VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5] ", " [6] ", " [7] ")");
    let Payment { card, last_digits, holder, .. } = payment;
    let paid = execute!(
        Transaction,
        open,
        pay,
        order,
        card,
        last_digits,
        holder,
        authorization,
        total_cents,
        at_s
    );
    context.timed(paid).await?;
    let empty = sql!("DELETE FROM cart_line WHERE cart = "[1]);
    context.timed(execute!(Transaction, open, empty, confirmation)).await?;
    context.timed(open.commit()).await?;
    Ok(order)
}

async fn add_line(
    context: &Context,
    open: &mut Transaction,
    order: i64,
    number: i64,
    line: &CartLine,
    discount_percent: i64,
) -> Result<(), PageError> {
    let &CartLine { item, quantity, price_cents, .. } = line;
    let add = sql!("INSERT INTO order_line VALUES (" [1] ", " [2] ", " [3] ", " [4] ", " [5] ", " [6] ", '')");
    let added = execute!(
        Transaction,
        *open,
        add,
        order,
        number,
        item,
        quantity,
        price_cents,
        discount_percent
    );
    context.timed(added).await?;
    // The row is locked: nobody else sells a copy before this transaction ends.
    let find = sql!("SELECT stock FROM item WHERE id = "[1]);
    let found = context.timed(fetch!(Transaction, *open, (i64,), find, item)).await?;
    let stock = stock_after(found.first().map_or(0, |row| row.0), quantity);
    let set = sql!("UPDATE item SET stock = " [1] " WHERE id = " [2]);
    context.timed(execute!(Transaction, *open, set, stock, item)).await?;
    Ok(())
}

/// State, sum, tax, total, way of shipping, last digits of the card.
type OrderRow = (i64, i64, i64, i64, i64, String);

async fn order_page(
    context: &Context,
    order: i64,
    heading: &'static str,
) -> Result<Order, PageError> {
    let find = sql!(
        "SELECT o.state, o.sub_total_cents, o.tax_cents, o.total_cents, o.shipping, p.last_digits FROM orders o \
                     JOIN payment p ON p.orders = o.id WHERE o.id = "[1]
    );
    let found =
        context.timed(fetch!(Database, context.server.database, OrderRow, find, order)).await?;
    let Some((state, sub_total, tax, total, shipping, last_digits)) = found.into_iter().next()
    else {
        return Err(PageError::NotFound);
    };
    let find = sql!("SELECT l.item, i.title, l.quantity, l.price_cents FROM order_line l JOIN item i ON i.id = l.item \
                     WHERE l.orders = " [1] " ORDER BY l.number");
    let found =
        context.timed(fetch!(Database, context.server.database, LineRow, find, order)).await?;
    Ok(Order {
        heading,
        number: order,
        state: STATES.get(state as usize).copied().unwrap_or_default(),
        lines: lines(found),
        sub_total: price(sub_total),
        tax: price(tax),
        shipping_costs: price(total - sub_total - tax),
        total: price(total),
        shipping: SHIPPINGS.get(shipping as usize).copied().unwrap_or_default(),
        last_digits,
    })
}

pub async fn inquiry(context: Context) -> Result<Response, PageError> {
    context.respond(&Inquiry { token: context.token() })
}

pub async fn display(post: Post) -> Result<Response, PageError> {
    let id = sign_in(&post).await?;
    let context = &post.context;
    let find = sql!("SELECT MAX(id) FROM orders WHERE customer = "[1]);
    let found =
        context.timed(fetch!(Database, context.server.database, (Option<i64>,), find, id)).await?;
    match found.first().and_then(|row| row.0) {
        Some(order) => context.respond(&order_page(context, order, "Your last order").await?),
        None => context.respond(&Message {
            heading: "No order",
            message: "You have not bought anything yet.",
        }),
    }
}

/// Title, author's first and last name, price.
type ItemRow = (String, String, String, i64);

pub async fn admin(context: Context, Id(id): Id) -> Result<Response, PageError> {
    let find = sql!(
        "SELECT i.title, a.first_name, a.last_name, i.price_cents FROM item i \
                     JOIN author a ON a.id = i.author WHERE i.id = "[1]
    );
    let found = context.timed(fetch!(Database, context.server.database, ItemRow, find, id)).await?;
    let (title, first, last, price_cents) = found.into_iter().next().ok_or(PageError::NotFound)?;
    let entry = Entry { id, title, author: format!("{first} {last}"), price_cents };
    context.respond(&Admin { token: context.token(), entry })
}

/// Changes the price of a book, and relates it to those that its latest buyers have bought most.
pub async fn change_item(id: Id, post: Post) -> Result<Response, PageError> {
    let cents =
        cents(post.field("price")).ok_or(PageError::Form("a price is from 0.01 to 9999.99"))?;
    let context = post.context;
    let Id(item) = id;
    let bought = sql!("SELECT l.item FROM order_line l JOIN orders o ON o.id = l.orders WHERE l.item <> " [1]
                      " AND o.customer IN (SELECT b.customer FROM order_line m JOIN orders b ON b.id = m.orders \
                      WHERE m.item = " [2] " AND b.id > (SELECT MAX(id) - 10000 FROM orders)) \
                      GROUP BY l.item ORDER BY SUM(l.quantity) DESC, l.item LIMIT 5");
    let found = fetch!(Database, context.server.database, (i64,), bought, item, item);
    let mut related: Vec<i64> = context.timed(found).await?.into_iter().map(|row| row.0).collect();
    let mut open = context.timed(context.server.database.begin()).await?;
    let set = sql!("UPDATE item SET price_cents = " [1] " WHERE id = " [2]);
    context.timed(execute!(Transaction, open, set, cents, item)).await?;
    let before = sql!("SELECT other FROM related WHERE item = " [1] " ORDER BY place FOR UPDATE");
    let before = context.timed(fetch!(Transaction, open, (i64,), before, item)).await?;
    // Books with few buyers keep some of those that they had.
    for (other,) in before.iter().copied() {
        if related.len() < before.len() && !related.contains(&other) {
            related.push(other);
        }
    }
    for ((place, other), (old,)) in (0_i64..).zip(related).zip(before) {
        if other != old {
            let set =
                sql!("UPDATE related SET other = " [1] " WHERE item = " [2] " AND place = " [3]);
            context.timed(execute!(Transaction, open, set, other, item, place)).await?;
        }
    }
    context.timed(open.commit()).await?;
    admin(context, id).await
}

/// Ends a session: its cookie, which others may have, buys nothing any more.
pub async fn sign_out(mut post: Post) -> Result<Response, PageError> {
    let context = &post.context;
    let revoke = Sql {
        mariadb: "INSERT IGNORE INTO revoked VALUES (?, ?)",
        postgresql: "INSERT INTO revoked VALUES ($1, $2) ON CONFLICT DO NOTHING",
    };
    let (session, at_s) = (&context.session.id, now_s() as i64);
    context.timed(execute!(Database, context.server.database, revoke, session, at_s)).await?;
    post.context.session = Session::new(None)?;
    post.context.respond(&Message { heading: "Goodbye", message: "You are signed out." })
}

/// The customer who has signed in, and not out.
async fn signed_in(context: &Context) -> Result<i64, PageError> {
    let id = context.session.customer.ok_or(PageError::Anonymous)?;
    let find = sql!("SELECT session FROM revoked WHERE session = "[1]);
    let (database, session) = (&context.server.database, &context.session.id);
    let found = context.timed(fetch!(Database, *database, (String,), find, session)).await?;
    if found.is_empty() { Ok(id) } else { Err(PageError::Anonymous) }
}

/// An amount such as 12.30 in cents.
fn cents(text: &str) -> Option<i64> {
    let (dollars, rest) = text.split_once('.').unwrap_or((text, "00"));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !(1..=4).contains(&dollars.len())
        || rest.len() != 2
        || !is_number(dollars)
        || !is_number(rest)
    {
        return None;
    }
    let cents = dollars.parse::<i64>().ok()? * 100 + rest.parse::<i64>().ok()?;
    (cents > 0).then_some(cents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_dollars_and_cents() {
        let prices = ["12.30", "7", "0.01", "9999.99"].map(cents);
        assert_eq!(prices, [Some(1230), Some(700), Some(1), Some(999_999)]);
        for wrong in ["", ".5", "0", "0.00", "-1", "1.5", "12345", "1.234", "1e3"] {
            assert_eq!(cents(wrong), None, "{wrong}");
        }
    }
}
