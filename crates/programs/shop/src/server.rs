//! The application server: one handler for each web interaction.

mod browse;
mod context;
mod order;
mod page;
pub mod session;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::database::{Database, Sql, execute, fetch, sql};
use crate::payment;
use page::Message;

/// What all requests share.
#[derive(Debug)]
pub struct Server {
    database: Database,
    /// Number of books.
    items: i64,
    /// Number of promotions shown: each request shows those of another book.
    promotions: AtomicI64,
    /// Asked before an order is placed; `None`: orders are placed without.
    payment: Option<payment::Client>,
    /// Signs cookies and forms. It is in the database, so that sessions survive a restart of the server.
    key: Vec<u8>,
}

/// Longest form.
const FORM_BYTES_MAX: usize = 64 * 1024;

impl Server {
    /// A server for the shop in a database.
    pub async fn new(
        database: Database,
        payment: Option<payment::Client>,
    ) -> Result<Self, sqlx::Error> {
        let largest = sql!("SELECT MAX(id) FROM item");
        let counted = fetch!(Database, database, (Option<i64>,), largest).await?;
        let items = counted.first().and_then(|row| row.0).unwrap_or(0);
        let put = Sql {
            mariadb: "INSERT IGNORE INTO secret VALUES (1, ?)",
            postgresql: "INSERT INTO secret VALUES (1, $1) ON CONFLICT DO NOTHING",
        };
        let secret = session::secret().map_err(sqlx::Error::Io)?;
        execute!(Database, database, put, &secret).await?;
        let kept =
            fetch!(Database, database, (String,), sql!("SELECT value FROM secret WHERE id = 1"))
                .await?;
        let key = kept.into_iter().next().map(|row| row.0.into_bytes()).unwrap_or_default();
        Ok(Self { database, items, promotions: AtomicI64::new(0), payment, key })
    }

    /// Serves until `stop` is ready; requests under way are completed.
    pub async fn serve(
        self,
        listener: TcpListener,
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
            .route("/sign-out", post(order::sign_out))
            .route("/orders", get(order::inquiry).post(order::display))
            .route("/admin/{id}", get(order::admin).post(order::change_item))
            .route("/static/shop.css", get(style))
            .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
            .fallback(async || PageError::NotFound)
            .with_state(Arc::new(self));
        axum::serve(listener, pages).with_graceful_shutdown(stop).await
    }
}

async fn style() -> impl IntoResponse {
    let headers = [(CONTENT_TYPE, "text/css"), (CACHE_CONTROL, "max-age=3600")];
    (headers, include_str!("../templates/shop.css"))
}

/// Why a request gets no page. The text is for the user; what the database says goes to standard error.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
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
    #[error("A cart holds at most 100 different books, and 99 copies of each.")]
    FullCart,
    #[error("The bank does not authorize the payment. Please check the card.")]
    Declined,
    #[error("The bank does not answer. Please try again in a moment.")]
    Payment(payment::Error),
    #[error("The shop is out of order. Please try again in a moment.")]
    Database(#[from] sqlx::Error),
    #[error("The shop is out of order. Please try again in a moment.")]
    Template(#[from] askama::Error),
    #[error("The shop is out of order. Please try again in a moment.")]
    Random(#[from] std::io::Error),
}

impl PageError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Token | Self::SignIn | Self::Anonymous => StatusCode::FORBIDDEN,
            Self::Declined => StatusCode::PAYMENT_REQUIRED,
            Self::Form(_) | Self::EmptyCart | Self::FullCart => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Payment(_) => StatusCode::BAD_GATEWAY,
            Self::Database(_) | Self::Template(_) | Self::Random(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl From<payment::Error> for PageError {
    fn from(error: payment::Error) -> Self {
        match error {
            payment::Error::Refused(_) => Self::Declined,
            error => Self::Payment(error),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let cause = match &self {
            Self::Payment(error) => Some(error.to_string()),
            _ => std::error::Error::source(&self).map(ToString::to_string),
        };
        if let Some(cause) = cause {
            eprintln!("fabricmark-shop: a page failed: {cause}");
        }
        let message = self.to_string();
        let html = askama::Template::render(&Message { heading: "Sorry", message: &message });
        (self.status(), Html(html.unwrap_or(message))).into_response()
    }
}
