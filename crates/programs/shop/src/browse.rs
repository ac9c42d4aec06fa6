//! Emulated browsers against a shop.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabricmark_bookstore::{Behaviour, Browser, Page, Visit};
use fabricmark_units::{self as units};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::summary::{Sample, Tiers};

/// How a load is offered.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub at: SocketAddr,
    pub browsers: u32,
    pub behaviour: Behaviour,
    pub seed: u64,
    pub ramp_up: Duration,
    pub measure: Duration,
    pub ramp_down: Duration,
    /// Whether images of pages are fetched.
    pub images: bool,
}

/// Connections of a browser to the shop, as many as the University of Wisconsin's.
const CONNECTIONS: usize = 4;

/// Longest page or image.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a browser waits for an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Why a visit failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Connect(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer was {0}")]
    Status(StatusCode),
    #[error("the request cannot be written: {0}")]
    Request(String),
    #[error("no answer within 60 s")]
    Late,
}

/// Runs browsers until the time is over, or `stop` is set; returns the samples with times since the start.
pub async fn browse(load: Load, stop: Arc<AtomicBool>) -> Vec<Sample> {
    let began = Instant::now();
    let ends = began + load.ramp_up + load.measure + load.ramp_down;
    let mut browsers = JoinSet::new();
    for number in 0..load.browsers {
        browsers.spawn(one(load, number, began, ends, stop.clone()));
    }
    browsers.join_all().await.into_iter().flatten().collect()
}

async fn one(
    load: Load,
    number: u32,
    began: Instant,
    ends: Instant,
    stop: Arc<AtomicBool>,
) -> Vec<Sample> {
    let mut browser = Browser::new(load.behaviour, load.seed, number);
    let mut window = Window::new(load);
    let mut samples = Vec::new();
    let mut page: Option<Page> = None;
    let now = || units::Instant(began.elapsed().as_nanos() as u64);
    loop {
        let visit = browser.next(now(), page.as_ref());
        let think = Duration::from(visit.think);
        let left = ends.saturating_duration_since(Instant::now());
        if think >= left || stop.load(Relaxed) {
            return samples;
        }
        tokio::time::sleep(think).await;
        if visit.is_first {
            window = Window::new(load);
        }
        let at = began.elapsed();
        let result = tokio::time::timeout(ANSWERS_WITHIN, window.visit(&visit))
            .await
            .unwrap_or(Err(Failed::Late));
        let response = began.elapsed() - at;
        let (error, tiers, bytes) = match result {
            Ok((found, tiers, bytes)) => {
                page = Some(found);
                (None, tiers, bytes)
            }
            Err(error) => {
                page = None;
                (Some(error.to_string()), Tiers::default(), 0)
            }
        };
        samples.push(Sample { interaction: visit.interaction, at, response, error, tiers, bytes });
    }
}

/// What a browser keeps in a session: connections, a cookie, images.
struct Window {
    load: Load,
    connections: [Option<SendRequest<Full<Bytes>>>; CONNECTIONS],
    cookie: Option<String>,
    seen: BTreeSet<String>,
}

impl Window {
    fn new(load: Load) -> Self {
        Self {
            load,
            connections: [const { None }; CONNECTIONS],
            cookie: None,
            seen: BTreeSet::new(),
        }
    }

    /// Fetches a page and its images; returns the page, the time that the tiers report, and the bytes of all.
    async fn visit(&mut self, visit: &Visit) -> Result<(Page, Tiers, u64), Failed> {
        let mut first = self.connections[0].take();
        let answer = self
            .load
            .get(&mut first, &visit.path, visit.form.as_ref(), self.cookie.as_deref())
            .await?;
        self.connections[0] = first;
        if let Some(cookie) = answer.cookie {
            self.cookie = Some(cookie);
        }
        let page = Page::read(&String::from_utf8_lossy(&answer.body));
        let mut bytes = answer.body.len() as u64;
        if self.load.images {
            bytes += self.images(&page).await?;
        }
        Ok((page, answer.tiers, bytes))
    }

    /// Fetches the images that the browser does not have, over all connections at once.
    async fn images(&mut self, page: &Page) -> Result<u64, Failed> {
        let wanted: Vec<String> = page
            .images
            .iter()
            .filter(|image| self.seen.insert((*image).clone()))
            .cloned()
            .collect();
        let load = self.load;
        let mut fetches = JoinSet::new();
        for (place, slot) in self.connections.iter_mut().enumerate() {
            let mine: Vec<String> =
                wanted.iter().skip(place).step_by(CONNECTIONS).cloned().collect();
            if mine.is_empty() {
                continue;
            }
            let mut connection = slot.take();
            fetches.spawn(async move {
                let mut bytes = 0;
                for path in mine {
                    bytes += load.get(&mut connection, &path, None, None).await?.body.len() as u64;
                }
                Ok::<_, Failed>((place, connection, bytes))
            });
        }
        let mut bytes = 0;
        while let Some(fetched) = fetches.join_next().await {
            let fetched = fetched.map_err(|error| Failed::Request(error.to_string()))?;
            let (place, connection, more) = fetched?;
            self.connections[place] = connection;
            bytes += more;
        }
        Ok(bytes)
    }
}

/// An answer with its body.
struct Answer {
    body: Bytes,
    cookie: Option<String>,
    tiers: Tiers,
}

impl Load {
    /// Sends a request over a connection, which is opened if there is none, or if the server has closed it.
    async fn get(
        &self,
        connection: &mut Option<SendRequest<Full<Bytes>>>,
        path: &str,
        form: Option<&Vec<(String, String)>>,
        cookie: Option<&str>,
    ) -> Result<Answer, Failed> {
        let mut request = Request::builder().uri(path).header(HOST, self.at.to_string());
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, cookie);
        }
        let body = match form {
            Some(fields) => {
                request = request
                    .method(Method::POST)
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                serde_urlencoded::to_string(fields)
                    .map_err(|error| Failed::Request(error.to_string()))?
            }
            None => String::new(),
        };
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failed::Request(error.to_string()))?;
        let kept = match connection.take() {
            Some(mut open) => open.ready().await.is_ok().then_some(open),
            None => None,
        };
        let usable = match kept {
            Some(open) => open,
            None => {
                let stream = TcpStream::connect(self.at).await?;
                stream.set_nodelay(true)?;
                let (sender, driver) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(driver);
                sender
            }
        };
        let sender = connection.insert(usable);
        let response = sender.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body =
            Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(Failed::Body)?.to_bytes();
        if parts.status != StatusCode::OK {
            return Err(Failed::Status(parts.status));
        }
        let text = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value: &hyper::header::HeaderValue| value.to_str().ok())
        };
        let cookie = text(SET_COOKIE).and_then(|value| value.split(';').next()).map(str::to_owned);
        let tiers = parts
            .headers
            .get("server-timing")
            .and_then(|value| value.to_str().ok())
            .map(Tiers::read);
        Ok(Answer { body, cookie, tiers: tiers.unwrap_or_default() })
    }
}
