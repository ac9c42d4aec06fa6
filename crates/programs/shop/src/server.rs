//! The application server: one page for each interaction.

mod browse;
mod order;
mod page;
mod session;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::database::{Database, Sql, change, rows, sql};
use page::Failed;
use session::Session;

/// What all requests share.
#[derive(Debug)]
pub struct Server {
    database: Database,
    /// Number of books.
    items: i64,
    /// Signs cookies and forms. It is in the database, so that sessions survive a restart of the server.
    key: Vec<u8>,
}

impl Server {
    /// A server for the shop in a database.
    pub async fn new(database: Database) -> Result<Self, sqlx::Error> {
        let counted = rows!(&database, (Option<i64>,), sql!("SELECT MAX(id) FROM item"))?;
        let items = counted.first().and_then(|row| row.0).unwrap_or(0);
        let secret = Session::new(None).map_err(sqlx::Error::Io)?.id;
        let put = Sql {
            mariadb: "INSERT IGNORE INTO secret VALUES (1, ?)",
            postgresql: "INSERT INTO secret VALUES (1, $1) ON CONFLICT DO NOTHING",
        };
        change!(&database, put, secret)?;
        let kept = rows!(&database, (String,), sql!("SELECT value FROM secret WHERE id = 1"))?;
        let key = kept.into_iter().next().map(|row| row.0.into_bytes()).unwrap_or_default();
        Ok(Self { database, items, key })
    }

    /// Serves until `stop`; requests under way are completed.
    pub async fn serve(
        self,
        at: SocketAddr,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let pages = Router::new()
            .route("/", get(browse::home))
            .route("/new/{subject}", get(browse::new_products))
            .route("/best/{subject}", get(browse::best_sellers))
            .route("/book/{id}", get(browse::book))
            .route("/search", get(browse::search))
            .route("/search/results", get(browse::search_results))
            .route("/cart", get(order::cart).post(order::change_cart))
            .route("/register", get(order::register))
            .route("/buy", post(order::buy))
            .route("/confirm", post(order::confirm))
            .route("/orders", get(order::inquiry).post(order::display))
            .route("/admin/{id}", get(order::admin).post(order::change_item))
            .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
            .route("/static/shop.css", get(style))
            .fallback(async || Refused::NotFound)
            .with_state(Arc::new(self));
        let listener = TcpListener::bind(at).await?;
        axum::serve(listener, pages).with_graceful_shutdown(stop).await
    }
}

/// Longest form.
const FORM_BYTES_MAX: usize = 64 * 1024;

async fn style() -> impl IntoResponse {
    (
        [("content-type", "text/css"), ("cache-control", "max-age=3600")],
        include_str!("../templates/shop.css"),
    )
}

/// Why a request gets no page.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("There is no such page.")]
    NotFound,
    #[error(
        "This form has expired, or was not sent from this shop. Please go back and reload the page."
    )]
    Token,
    #[error("Please check the form: {0}.")]
    Form(&'static str),
    #[error("User name and password do not match.")]
    SignIn,
    #[error("Please sign in first.")]
    Anonymous,
    #[error("The cart is empty.")]
    EmptyCart,
    #[error("A cart holds at most 100 different books, and 99 of each.")]
    FullCart,
    #[error("The shop has no random numbers.")]
    Random(#[from] std::io::Error),
    #[error("The shop is out of order. Please try again in a moment.")]
    Database(#[from] sqlx::Error),
    #[error("The page could not be written.")]
    Page(#[from] askama::Error),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Token | Self::SignIn | Self::Anonymous => StatusCode::FORBIDDEN,
            Self::Form(_) | Self::EmptyCart | Self::FullCart => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Database(_) | Self::Page(_) | Self::Random(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let message = self.to_string();
        let html = askama::Template::render(&Failed { message: &message });
        (status, Html(html.unwrap_or(message))).into_response()
    }
}

/// Number of the next request.
static NUMBER: AtomicI64 = AtomicI64::new(0);

/// Time and statements of one request.
#[derive(Debug)]
struct Account {
    began: Instant,
    in_database_ns: AtomicU64,
    statements: AtomicU32,
}

impl Account {
    fn open() -> Self {
        Self {
            began: Instant::now(),
            in_database_ns: AtomicU64::new(0),
            statements: AtomicU32::new(0),
        }
    }

    /// A number that differs from request to request.
    fn number(&self) -> i64 {
        NUMBER.fetch_add(1, Relaxed)
    }

    /// Waits for a statement.
    async fn of<T>(&self, statement: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = statement.await;
        self.in_database_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
        self.statements.fetch_add(1, Relaxed);
        result
    }

    /// The page with its times (Server-Timing, W3C) in milliseconds, the number of statements, and the cookie of a new
    /// session.
    fn close_for(
        &self,
        page: &impl askama::Template,
        session: &Session,
        server: &Server,
    ) -> Result<Response, Refused> {
        let cookie = session.cookie(server);
        let html = page.render()?;
        let all_ms = self.began.elapsed().as_secs_f64() * 1e3;
        let database_ms = self.in_database_ns.load(Relaxed) as f64 / 1e6;
        let statements = self.statements.load(Relaxed);
        let times = format!(
            "app;dur={:.3}, db;dur={database_ms:.3};desc={statements}",
            all_ms - database_ms
        );
        let mut headers = HeaderMap::new();
        if let Ok(times) = HeaderValue::try_from(times) {
            headers.insert("server-timing", times);
        }
        if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
            headers.insert("set-cookie", cookie);
        }
        Ok((headers, Html(html)).into_response())
    }
}
