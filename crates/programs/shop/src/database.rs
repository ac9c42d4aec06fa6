//! The shop's database: MariaDB or PostgreSQL.

pub mod audit;
pub mod load;
pub mod private;
pub mod schema;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

/// A pool of connections to the database.
#[derive(Clone, Debug)]
pub enum Database {
    MariaDb(MySqlPool),
    PostgreSql(PgPool),
}

/// Where a database is: `mariadb://user@host:port/name` or `postgresql://user@host:port/name`.
#[derive(Clone, Debug)]
pub enum Place {
    MariaDb(Box<MySqlConnectOptions>),
    PostgreSql(Box<PgConnectOptions>),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let wrong = |error: sqlx::Error| format!("`{url}` is no address of a database: {error}");
        match url.split_once("://") {
            Some(("mariadb" | "mysql", _)) => {
                let options = MySqlConnectOptions::from_str(url).map_err(wrong)?;
                // Settings of a session cost a statement each when it connects; the defaults are those wanted.
                Ok(Self::MariaDb(Box::new(options.timezone(None))))
            }
            Some(("postgresql" | "postgres", _)) => {
                Ok(Self::PostgreSql(Box::new(PgConnectOptions::from_str(url).map_err(wrong)?)))
            }
            _ => Err(format!(
                "`{url}` is no address of a database: use mariadb://... or postgresql://..."
            )),
        }
    }
}

/// How long a request waits for a connection of the pool.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

impl Database {
    /// Opens a pool of at most `connections`.
    pub async fn open(place: &Place, connections: u32) -> Result<Self, sqlx::Error> {
        // Without a test of each connection before its use, which costs a round trip; a broken one fails one request.
        Ok(match place {
            Place::MariaDb(options) => Self::MariaDb(
                MySqlPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(CONNECTS_WITHIN)
                    .test_before_acquire(false)
                    .connect_with(options.as_ref().clone())
                    .await?,
            ),
            Place::PostgreSql(options) => Self::PostgreSql(
                PgPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(CONNECTS_WITHIN)
                    .test_before_acquire(false)
                    .connect_with(options.as_ref().clone())
                    .await?,
            ),
        })
    }
}

/// A transaction; dropped without [`Self::commit`], it is rolled back.
#[derive(Debug)]
pub enum Transaction {
    MariaDb(sqlx::Transaction<'static, sqlx::MySql>),
    PostgreSql(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Database {
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::MariaDb(pool) => Transaction::MariaDb(pool.begin().await?),
            Self::PostgreSql(pool) => Transaction::PostgreSql(pool.begin().await?),
        })
    }
}

impl Transaction {
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::MariaDb(transaction) => transaction.commit().await,
            Self::PostgreSql(transaction) => transaction.commit().await,
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::MariaDb(_) => "MariaDB",
            Self::PostgreSql(_) => "PostgreSQL",
        })
    }
}

/// A statement in the dialects of both databases.
#[derive(Clone, Copy, Debug)]
pub struct Sql {
    pub mariadb: &'static str,
    pub postgresql: &'static str,
}

/// A statement; `[1]` is its first parameter.
macro_rules! sql {
    (@mariadb $number:literal) => { "?" };
    ($($text:literal $([$number:literal])?)*) => {
        $crate::database::Sql {
            mariadb: concat!($($text, $($crate::database::sql!(@mariadb $number),)?)*),
            postgresql: concat!($($text, $("$", $number,)?)*),
        }
    };
}
pub(crate) use sql;

/// Rows of a statement as tuples.
macro_rules! rows {
    ($database:expr, $row:ty, $sql:expr $(, $bind:expr)*) => {
        match $database {
            $crate::database::Database::MariaDb(pool) => {
                sqlx::query_as::<_, $row>($sql.mariadb)$(.bind($bind))*.fetch_all(pool).await
            }
            $crate::database::Database::PostgreSql(pool) => {
                sqlx::query_as::<_, $row>($sql.postgresql)$(.bind($bind))*.fetch_all(pool).await
            }
        }
    };
}
pub(crate) use rows;

/// Carries out a statement; returns how many rows it changed.
macro_rules! change {
    ($database:expr, $sql:expr $(, $bind:expr)*) => {
        match $database {
            $crate::database::Database::MariaDb(pool) => {
                sqlx::query($sql.mariadb)$(.bind($bind))*.execute(pool).await.map(|done| done.rows_affected())
            }
            $crate::database::Database::PostgreSql(pool) => {
                sqlx::query($sql.postgresql)$(.bind($bind))*.execute(pool).await.map(|done| done.rows_affected())
            }
        }
    };
}
pub(crate) use change;

/// [`rows!`] inside a transaction.
macro_rules! rows_in {
    ($transaction:expr, $row:ty, $sql:expr $(, $bind:expr)*) => {
        match $transaction {
            $crate::database::Transaction::MariaDb(open) => {
                sqlx::query_as::<_, $row>($sql.mariadb)$(.bind($bind))*.fetch_all(&mut **open).await
            }
            $crate::database::Transaction::PostgreSql(open) => {
                sqlx::query_as::<_, $row>($sql.postgresql)$(.bind($bind))*.fetch_all(&mut **open).await
            }
        }
    };
}
pub(crate) use rows_in;

/// [`change!`] inside a transaction.
macro_rules! change_in {
    ($transaction:expr, $sql:expr $(, $bind:expr)*) => {
        match $transaction {
            $crate::database::Transaction::MariaDb(open) => sqlx::query($sql.mariadb)
                $(.bind($bind))*
                .execute(&mut **open)
                .await
                .map(|done| done.rows_affected()),
            $crate::database::Transaction::PostgreSql(open) => sqlx::query($sql.postgresql)
                $(.bind($bind))*
                .execute(&mut **open)
                .await
                .map(|done| done.rows_affected()),
        }
    };
}
pub(crate) use change_in;
