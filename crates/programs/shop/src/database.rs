//! The shop's database: MariaDB or PostgreSQL.

pub mod audit;
pub mod instance;
pub mod load;
pub mod schema;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, Connection};

/// A pool of connections to the database.
#[derive(Clone, Debug)]
pub enum Database {
    MariaDb(MySqlPool),
    PostgreSql(PgPool),
}

/// Address of a database: `mariadb://USER@HOST:PORT/NAME` or `postgresql://USER@HOST:PORT/NAME`.
#[derive(Clone, Debug)]
pub struct Url {
    text: String,
    options: Options,
}

#[derive(Clone, Debug)]
enum Options {
    MariaDb(Box<MySqlConnectOptions>),
    PostgreSql(Box<PgConnectOptions>),
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: sqlx::Error| format!("`{text}` is no address of a database: {error}");
        let options = match text.split_once("://") {
            Some(("mariadb" | "mysql", _)) => {
                let options = MySqlConnectOptions::from_str(text).map_err(wrong)?;
                // Setting the time zone of a session would cost a statement; no column depends on it.
                Options::MariaDb(Box::new(options.timezone(None)))
            }
            Some(("postgresql" | "postgres", _)) => {
                Options::PostgreSql(Box::new(PgConnectOptions::from_str(text).map_err(wrong)?))
            }
            _ => {
                return Err(format!(
                    "`{text}` is no address of a database: use mariadb://USER@HOST:PORT/NAME or \
                     postgresql://USER@HOST:PORT/NAME"
                ));
            }
        };
        Ok(Self { text: text.to_owned(), options })
    }
}

impl Url {
    /// The address with its password.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password, since this is for messages.
        let (before, after) = self.text.split_once('@').unwrap_or(("", &self.text));
        let (scheme, user) = before.split_once("://").unwrap_or((before, ""));
        let user = user.split_once(':').map_or(user, |(user, _)| user);
        write!(out, "{scheme}://{user}@{after}")
    }
}

/// How long a request waits for a connection of the pool.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

impl Database {
    /// Opens a pool of at most `connections`.
    pub async fn open(url: &Url, connections: u32) -> Result<Self, sqlx::Error> {
        // A pool tries again until its time is over, and then does not say why.
        match &url.options {
            Options::MariaDb(options) => options.connect().await?.close().await?,
            Options::PostgreSql(options) => options.connect().await?.close().await?,
        }
        Ok(match &url.options {
            Options::MariaDb(options) => {
                Self::MariaDb(pool(connections).connect_with(options.as_ref().clone()).await?)
            }
            Options::PostgreSql(options) => {
                Self::PostgreSql(pool(connections).connect_with(options.as_ref().clone()).await?)
            }
        })
    }

    /// Begins a transaction.
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::MariaDb(pool) => Transaction::MariaDb(pool.begin().await?),
            Self::PostgreSql(pool) => Transaction::PostgreSql(pool.begin().await?),
        })
    }
}

/// Connections are not tested before their use, which would cost a round trip; a broken one fails one request.
fn pool<DB: sqlx::Database>(connections: u32) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(CONNECTS_WITHIN)
        .test_before_acquire(false)
}

/// A transaction; dropped without [`Self::commit`], it is rolled back.
#[derive(Debug)]
pub enum Transaction {
    MariaDb(sqlx::Transaction<'static, sqlx::MySql>),
    PostgreSql(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Transaction {
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::MariaDb(transaction) => transaction.commit().await,
            Self::PostgreSql(transaction) => transaction.commit().await,
        }
    }
}

/// An SQL statement for both databases.
#[derive(Clone, Copy, Debug)]
pub struct Sql {
    pub mariadb: &'static str,
    pub postgresql: &'static str,
}

/// An SQL statement for both databases; `[1]` stands for its first parameter, `?` or `$1`.
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

/// A future of the rows of a statement, as tuples. The first word is the type of what it runs on.
macro_rules! fetch {
    (Database, $on:expr, $row:ty, $sql:expr $(, $bind:expr)*) => {
        async {
            match &$on {
                $crate::database::Database::MariaDb(pool) => {
                    sqlx::query_as::<_, $row>($sql.mariadb)$(.bind($bind))*.fetch_all(pool).await
                }
                $crate::database::Database::PostgreSql(pool) => {
                    sqlx::query_as::<_, $row>($sql.postgresql)$(.bind($bind))*.fetch_all(pool).await
                }
            }
        }
    };
    (Transaction, $on:expr, $row:ty, $sql:expr $(, $bind:expr)*) => {
        async {
            match &mut $on {
                $crate::database::Transaction::MariaDb(open) => {
                    sqlx::query_as::<_, $row>($sql.mariadb)$(.bind($bind))*.fetch_all(&mut **open).await
                }
                $crate::database::Transaction::PostgreSql(open) => {
                    sqlx::query_as::<_, $row>($sql.postgresql)$(.bind($bind))*.fetch_all(&mut **open).await
                }
            }
        }
    };
}
pub(crate) use fetch;

/// A future of the number of rows that a statement changes, as [`fetch!`].
macro_rules! execute {
    (Database, $on:expr, $sql:expr $(, $bind:expr)*) => {
        async {
            match &$on {
                $crate::database::Database::MariaDb(pool) => {
                    let done = sqlx::query($sql.mariadb)$(.bind($bind))*.execute(pool).await;
                    done.map(|done| done.rows_affected())
                }
                $crate::database::Database::PostgreSql(pool) => {
                    let done = sqlx::query($sql.postgresql)$(.bind($bind))*.execute(pool).await;
                    done.map(|done| done.rows_affected())
                }
            }
        }
    };
    (Transaction, $on:expr, $sql:expr $(, $bind:expr)*) => {
        async {
            match &mut $on {
                $crate::database::Transaction::MariaDb(open) => {
                    let done = sqlx::query($sql.mariadb)$(.bind($bind))*.execute(&mut **open).await;
                    done.map(|done| done.rows_affected())
                }
                $crate::database::Transaction::PostgreSql(open) => {
                    let done = sqlx::query($sql.postgresql)$(.bind($bind))*.execute(&mut **open).await;
                    done.map(|done| done.rows_affected())
                }
            }
        }
    };
}
pub(crate) use execute;
