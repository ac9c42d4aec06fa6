//! The application server: one page for each interaction.

mod browse;
mod page;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::database::{Database, rows, sql};
use page::Failed;

/// What all requests share.
#[derive(Debug)]
pub struct Server {
    database: Database,
    /// Number of books.
    items: i64,
}

impl Server {
    /// A server for the shop in a database.
    pub async fn new(database: Database) -> Result<Self, sqlx::Error> {
        let counted = rows!(&database, (Option<i64>,), sql!("SELECT MAX(id) FROM item"))?;
        let items = counted.first().and_then(|row| row.0).unwrap_or(0);
        Ok(Self { database, items })
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
            .route("/static/shop.css", get(style))
            .fallback(async || Refused::NotFound)
            .with_state(Arc::new(self));
        let listener = TcpListener::bind(at).await?;
        axum::serve(listener, pages).with_graceful_shutdown(stop).await
    }
}

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
    #[error("The shop is out of order. Please try again in a moment.")]
    Database(#[from] sqlx::Error),
    #[error("The page could not be written.")]
    Page(#[from] askama::Error),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Database(_) | Self::Page(_) => StatusCode::INTERNAL_SERVER_ERROR,
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

    /// The page with its times (Server-Timing, W3C) in milliseconds, and the number of statements.
    fn close(&self, page: &impl askama::Template) -> Result<Response, Refused> {
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
        Ok((headers, Html(html)).into_response())
    }
}
