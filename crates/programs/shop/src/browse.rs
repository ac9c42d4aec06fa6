//! Emulated browsers against a shop.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabricmark_bookstore::{Browser, Page, PageRequest, Workload};
use fabricmark_units::{self as units};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::summary::{Sample, Tiers};

/// A load of emulated browsers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Address and port of the shop.
    pub at: SocketAddr,
    pub browsers: u32,
    pub workload: Workload,
    pub seed: u64,
    pub duration: Duration,
    /// Whether images of pages are fetched.
    pub images: bool,
}

/// Connections of a browser to the shop: as many as the University of Wisconsin's browser has.
const CONNECTIONS: usize = 4;

/// Longest page or image.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a browser waits for a page.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Connect(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("{path}: {status}")]
    Status { path: String, status: StatusCode },
    #[error("the request cannot be written: {0}")]
    Request(String),
    #[error("no page within 60 s")]
    Late,
}

/// Runs browsers for the duration, or until `stop` is ready. Returns a sample of each web interaction, with times since
/// the start, and when the run ended.
pub async fn browse(load: Load, stop: impl Future<Output = ()>) -> (Vec<Sample>, Duration) {
    let began = Instant::now();
    let (cancel, cancelled) = watch::channel(false);
    let mut browsers = JoinSet::new();
    for number in 0..load.browsers {
        browsers.spawn(one(load, number, began, cancelled.clone()));
    }
    tokio::pin!(stop);
    let (mut samples, mut is_stopped) = (Vec::new(), false);
    loop {
        tokio::select! {
            ended = browsers.join_next() => match ended {
                Some(ended) => samples.extend(ended.unwrap_or_default()),
                None => break,
            },
            () = &mut stop, if !is_stopped => {
                is_stopped = true;
                let _ = cancel.send(true);
            }
        }
    }
    (samples, began.elapsed().min(load.duration))
}

/// The samples of one browser. Its last response may be later than the duration.
async fn one(
    load: Load,
    number: u32,
    began: Instant,
    mut cancelled: watch::Receiver<bool>,
) -> Vec<Sample> {
    let mut browser = Browser::new(load.workload, load.seed, number);
    let mut context = BrowserContext::new(load);
    let mut samples = Vec::new();
    let mut page: Option<Page> = None;
    loop {
        let now = units::Instant(began.elapsed().as_nanos() as u64);
        let request = browser.next(now, page.as_ref());
        let think = Duration::from(request.think);
        if began.elapsed() + think >= load.duration {
            return samples;
        }
        tokio::select! {
            () = tokio::time::sleep(think) => {}
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => return samples,
        }
        if request.starts_session {
            context = BrowserContext::new(load);
        }
        let at = began.elapsed();
        let result = tokio::time::timeout(ANSWERS_WITHIN, context.get_page(&request)).await;
        let response = began.elapsed() - at;
        let (error, tiers, bytes) = match result.unwrap_or(Err(RequestError::Late)) {
            Ok((found, tiers, bytes)) => {
                page = Some(found);
                (None, tiers, bytes)
            }
            Err(error) => {
                page = None;
                (Some(error.to_string()), Tiers::default(), 0)
            }
        };
        samples.push(Sample {
            interaction: request.interaction,
            at,
            response,
            error,
            tiers,
            bytes,
        });
    }
}

/// State of a browser during a session: connections, cookie, cached images.
pub struct BrowserContext {
    load: Load,
    connections: [Option<SendRequest<Full<Bytes>>>; CONNECTIONS],
    cookie: Option<String>,
    cached: BTreeSet<String>,
}

impl BrowserContext {
    pub fn new(load: Load) -> Self {
        Self {
            load,
            connections: [const { None }; CONNECTIONS],
            cookie: None,
            cached: BTreeSet::new(),
        }
    }

    /// Fetches a page and its images; returns the page, the time that the tiers report, and the bytes of all.
    async fn get_page(
        &mut self,
        request: &PageRequest,
    ) -> Result<(Page, Tiers, u64), RequestError> {
        let mut first = self.connections[0].take();
        let answer = self
            .load
            .get(&mut first, &request.path, request.form.as_ref(), self.cookie.as_deref())
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

    /// Fetches the images that are not cached, over all connections at once.
    async fn images(&mut self, page: &Page) -> Result<u64, RequestError> {
        let wanted: Vec<String> = page
            .images
            .iter()
            .filter(|image| self.cached.insert((*image).clone()))
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
                Ok::<_, RequestError>((place, connection, bytes))
            });
        }
        let mut bytes = 0;
        while let Some(fetched) = fetches.join_next().await {
            let fetched = fetched.map_err(|error| RequestError::Request(error.to_string()))?;
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
    ) -> Result<Answer, RequestError> {
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
                    .map_err(|error| RequestError::Request(error.to_string()))?
            }
            None => String::new(),
        };
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| RequestError::Request(error.to_string()))?;
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
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await
            .map_err(RequestError::Body)?
            .to_bytes();
        if parts.status != StatusCode::OK {
            return Err(RequestError::Status { path: path.to_owned(), status: parts.status });
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

#[cfg(test)]
impl BrowserContext {
    /// Sends a form, or a GET request if it has no fields; returns the token of the page.
    pub async fn send(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, RequestError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let form = (!fields.is_empty()).then(|| fields.iter().map(owned).collect());
        let request = PageRequest {
            interaction: fabricmark_bookstore::Interaction::Home,
            think: units::Nanos(0),
            starts_session: false,
            path: path.to_owned(),
            form,
        };
        let (page, ..) = self.get_page(&request).await?;
        Ok(page.token.unwrap_or_default())
    }

    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    pub fn set_cookie(&mut self, cookie: &str) {
        self.cookie = Some(cookie.to_owned());
    }
}
