//! Loads the rows of the tables.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fabricmark_bookstore::{COUNTRIES, Line, Shop, password};
use sqlx::postgres::PgPoolCopyExt;

use super::schema::run;
use super::{Database, schema};
use crate::password::hash;

/// A value of a row.
#[derive(Debug)]
enum Value {
    Number(i64),
    Text(String),
    Null,
}

macro_rules! numbers {
    ($($number:ty),*) => { $(impl From<$number> for Value {
        fn from(number: $number) -> Self {
            Self::Number(number.into())
        }
    })* };
}

numbers!(u8, u16, u32, i32, i64);

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$(Value::from($value)),*] };
}

/// A table and how its rows are made.
struct Table {
    name: &'static str,
    columns: &'static str,
    /// Largest number from which rows are made; the smallest is 1.
    count: fn(&Shop) -> u32,
    /// The rows of a number.
    rows: fn(&Shop, u32) -> Vec<Vec<Value>>,
}

const TABLES: [Table; 9] = [
    Table {
        name: "country",
        columns: "id, name",
        count: |_| COUNTRIES.len() as u32,
        rows: |_, id| vec![row![id, COUNTRIES[id as usize - 1]]],
    },
    Table {
        name: "author",
        columns: "id, first_name, last_name, born, biography",
        count: |shop| shop.scale.authors(),
        rows: |shop, id| {
            let author = shop.author(id);
            vec![row![id, author.first_name, author.last_name, author.born, author.biography]]
        },
    },
    Table {
        name: "item",
        columns: "id, title, author, published, publisher, subject, description, list_price_cents, price_cents, available, \
                  stock, isbn, pages, binding, dimensions, image_kib",
        count: |shop| shop.scale.items,
        rows: |shop, id| {
            let item = shop.item(id);
            vec![row![
                id,
                item.title,
                item.author,
                item.published,
                item.publisher,
                item.subject,
                item.description,
                item.list_price_cents,
                item.price_cents,
                item.available,
                item.stock,
                item.isbn,
                item.pages,
                item.binding,
                item.dimensions,
                item.image_kib,
            ]]
        },
    },
    Table {
        name: "related",
        columns: "item, place, other",
        count: |shop| shop.scale.items,
        rows: |shop, id| {
            let related = shop.item(id).related;
            related.into_iter().zip(0_u8..).map(|(other, place)| row![id, place, other]).collect()
        },
    },
    Table {
        name: "address",
        columns: "id, street, city, state, postal_code, country",
        count: |shop| shop.scale.addresses(),
        rows: |shop, id| {
            let address = shop.address(id);
            vec![row![
                id,
                address.street,
                address.city,
                address.state,
                address.postal_code,
                address.country
            ]]
        },
    },
    Table {
        name: "customer",
        columns: "id, user_name, password, first_name, last_name, address, phone, email, since, discount_percent, \
                  balance_cents, spent_cents, born, notes",
        count: |shop| shop.scale.customers(),
        rows: |shop, id| {
            let customer = shop.customer(id);
            let hash = hash(&customer.user_name, &password(id));
            vec![row![
                id,
                customer.user_name,
                hash,
                customer.first_name,
                customer.last_name,
                customer.address,
                customer.phone,
                customer.email,
                customer.since,
                customer.discount_percent,
                customer.balance_cents,
                customer.spent_cents,
                customer.born,
                customer.notes,
            ]]
        },
    },
    Table {
        name: "orders",
        columns: "id, customer, at_s, sub_total_cents, tax_cents, total_cents, shipping, shipped_s, billing_address, \
                  shipping_address, state, confirmation",
        count: |shop| shop.scale.orders(),
        rows: |shop, id| {
            let order = shop.order(id);
            let mut row = row![
                id,
                order.customer,
                order.at_s,
                order.sub_total_cents,
                order.tax_cents,
                order.total_cents,
                order.shipping,
                order.shipped_s,
                order.billing_address,
                order.shipping_address,
                order.state,
            ];
            row.push(Value::Null);
            vec![row]
        },
    },
    Table {
        name: "order_line",
        columns: "orders, number, item, quantity, price_cents, discount_percent, comment",
        count: |shop| shop.scale.orders(),
        rows: |shop, id| {
            let row_of = |(line, number): (Line, u8)| {
                row![
                    id,
                    number,
                    line.item,
                    line.quantity,
                    line.price_cents,
                    line.discount_percent,
                    line.comment
                ]
            };
            shop.order(id).lines.into_iter().zip(1..).map(row_of).collect()
        },
    },
    Table {
        name: "payment",
        columns: "orders, card, last_digits, holder, authorisation, amount_cents, at_s",
        count: |shop| shop.scale.orders(),
        rows: |shop, id| {
            let order = shop.order(id);
            vec![row![
                id,
                order.card,
                order.card_last_digits,
                order.card_holder,
                order.authorisation,
                order.total_cents,
                order.at_s,
            ]]
        },
    },
];

/// Numbers of a batch: about a megabyte of text, well below the largest packet of MariaDB (16 MiB).
const BATCH: u32 = 2_000;

/// Batches that are loaded at once, each over a connection of its own.
pub const LOADERS: u32 = 4;

/// Why a database was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it already has a shop: drop the database, create it again, and load it")]
    HasShop,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Creates the tables and fills them. Calls `progress` with the numbers of loaded batches and of all.
pub async fn load(
    database: &Database,
    shop: Shop,
    progress: impl Fn(u64, u64) + Send + Sync,
) -> Result<(), Error> {
    if !schema::migrate(database).await? {
        return Err(Error::HasShop);
    }
    let batches: Vec<(usize, u32)> = (0..TABLES.len())
        .flat_map(|table| {
            (1..=(TABLES[table].count)(&shop))
                .step_by(BATCH as usize)
                .map(move |from| (table, from))
        })
        .collect();
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let batches = Arc::new(batches);
    let mut loaders = tokio::task::JoinSet::new();
    for _ in 0..LOADERS {
        let (database, batches, next, done) =
            (database.clone(), batches.clone(), next.clone(), done.clone());
        loaders.spawn(async move {
            while let Some(&(table, from)) = batches.get(next.fetch_add(1, Relaxed)) {
                batch(&database, &TABLES[table], &shop, from).await?;
                done.fetch_add(1, Relaxed);
            }
            Ok::<_, sqlx::Error>(())
        });
    }
    let all = batches.len() as u64;
    let mut every = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tokio::select! {
            ended = loaders.join_next() => match ended {
                Some(ended) => ended.map_err(|error| sqlx::Error::Protocol(error.to_string()))??,
                None => break,
            },
            _ = every.tick() => progress(done.load(Relaxed) as u64, all),
        }
    }
    schema::index(database).await?;
    progress(all, all);
    Ok(())
}

async fn batch(
    database: &Database,
    table: &Table,
    shop: &Shop,
    from: u32,
) -> Result<(), sqlx::Error> {
    let to = (from + BATCH - 1).min((table.count)(shop));
    let rows = (from..=to).flat_map(|id| (table.rows)(shop, id));
    let Table { name, columns, .. } = table;
    match database {
        Database::MariaDb(_) => {
            let mut statement = format!("INSERT INTO {name} ({columns}) VALUES ");
            for (place, row) in rows.enumerate() {
                statement.push_str(if place == 0 { "(" } else { ",(" });
                write_row(
                    &mut statement,
                    &row,
                    ",",
                    |out, text| {
                        out.push('\'');
                        out.push_str(&text.replace('\\', "\\\\").replace('\'', "''"));
                        out.push('\'');
                    },
                    "NULL",
                );
                statement.push(')');
            }
            run(database, statement).await
        }
        Database::PostgreSql(pool) => {
            let mut text = String::new();
            for row in rows {
                // No text of a row has a tab, a line break or a backslash.
                write_row(&mut text, &row, "\t", String::push_str, "\\N");
                text.push('\n');
            }
            let mut copy = pool.copy_in_raw(&format!("COPY {name} ({columns}) FROM STDIN")).await?;
            copy.send(text.into_bytes()).await?;
            copy.finish().await.map(|_| ())
        }
    }
}

fn write_row(
    out: &mut String,
    row: &[Value],
    between: &str,
    quoted: impl Fn(&mut String, &str),
    null: &str,
) {
    for (place, value) in row.iter().enumerate() {
        if place > 0 {
            out.push_str(between);
        }
        match value {
            Value::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Value::Text(text) => quoted(out, text),
            Value::Null => out.push_str(null),
        }
    }
}
