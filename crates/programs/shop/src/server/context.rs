//! What every handler needs of its request.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use askama::Template;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{Html, IntoResponse, Response};

use super::session::Session;
use super::{PageError, Server};

/// A request: its session, and the number and time of its SQL statements.
#[derive(Debug)]
pub struct Context {
    pub server: Arc<Server>,
    pub session: Session,
    began: Instant,
    database_ns: AtomicU64,
    statements: AtomicU32,
}

impl Context {
    /// Waits for a statement, and counts it.
    pub async fn timed<T>(&self, statement: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = statement.await;
        self.database_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
        self.statements.fetch_add(1, Relaxed);
        result
    }

    /// The CSRF token of forms of this session.
    pub fn token(&self) -> String {
        self.session.token(&self.server)
    }

    /// The response: the page, the time in the application and in the database in milliseconds and the number of
    /// statements (Server-Timing, W3C), and the cookie of a new session.
    pub fn respond(&self, page: &impl Template) -> Result<Response, PageError> {
        let html = page.render()?;
        let all_ms = self.began.elapsed().as_secs_f64() * 1e3;
        let database_ms = self.database_ns.load(Relaxed) as f64 / 1e6;
        let statements = self.statements.load(Relaxed);
        let app_ms = all_ms - database_ms;
        let timing = format!("app;dur={app_ms:.3}, db;dur={database_ms:.3};desc={statements}");
        let mut headers = HeaderMap::new();
        let fields =
            [("server-timing", Some(timing)), ("set-cookie", self.session.cookie(&self.server))];
        for (name, value) in fields {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        }
        Ok((headers, Html(html)).into_response())
    }
}

impl FromRequestParts<Arc<Server>> for Context {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> Result<Self, PageError> {
        Ok(Self {
            server: server.clone(),
            session: Session::of_request(&parts.headers, server)?,
            began: Instant::now(),
            database_ns: AtomicU64::new(0),
            statements: AtomicU32::new(0),
        })
    }
}

/// A POST request whose form has the CSRF token of its session.
#[derive(Debug)]
pub struct Post {
    pub context: Context,
    fields: Vec<(String, String)>,
}

impl Post {
    /// All fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.trim()))
    }

    /// The value of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }

    /// The value of a field with 1 to `most` characters.
    pub fn text(&self, name: &str, most: usize, wrong: &'static str) -> Result<&str, PageError> {
        let value = self.field(name);
        if value.is_empty() || value.chars().count() > most {
            Err(PageError::Form(wrong))
        } else {
            Ok(value)
        }
    }
}

impl FromRequest<Arc<Server>> for Post {
    type Rejection = PageError;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, PageError> {
        let (mut parts, body) = request.into_parts();
        let context = Context::from_request_parts(&mut parts, server).await?;
        let form = Form::from_request(Request::from_parts(parts, body), &());
        let unread =
            |_: FormRejection| PageError::Form("it is longer than 64 KiB, or no form at all");
        let Form(fields) = form.await.map_err(unread)?;
        let post = Self { context, fields };
        if post.context.session.has_token(server, post.field("token")) {
            Ok(post)
        } else {
            Err(PageError::Token)
        }
    }
}

/// The number at the end of the path.
#[derive(Debug)]
pub struct Id(pub i64);

impl FromRequestParts<Arc<Server>> for Id {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Server>) -> Result<Self, PageError> {
        let last = parts.uri.path().rsplit('/').next().unwrap_or_default();
        last.parse().map(Self).map_err(|_| PageError::NotFound)
    }
}
