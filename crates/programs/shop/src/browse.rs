//! Emulated browsers against a shop.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabricmark_bookstore::{Browser, Page, PageRequest, Workload};
use fabricmark_units as units;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::summary::{Sample, Tiers};

/// A load of emulated browsers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Address and port of the shop.
    pub at: SocketAddr,
    /// Number of browsers; in an open loop at most so many interactions are under way at once.
    pub browsers: u32,
    pub workload: Workload,
    /// Web interactions per second of an open loop, with exponential gaps; `None`: each browser thinks between its pages.
    pub arrivals_per_s: Option<f64>,
    pub seed: u64,
    /// When the measurement window begins, since the start.
    pub ramp_up: Duration,
    /// Length of the window; the load ends with it.
    pub window: Duration,
    /// Whether images of pages are fetched.
    pub images: bool,
}

impl Load {
    /// Length of the load.
    fn duration(&self) -> Duration {
        self.ramp_up + self.window
    }
}

/// What the browsers of a load did.
#[derive(Debug)]
pub struct Visits {
    /// Every web interaction.
    pub samples: Vec<Sample>,
    /// When the load ended: with its window, unless it was stopped before.
    pub ended: Duration,
    /// Whether it was stopped.
    pub is_stopped: bool,
    /// CPU time of this process in the window.
    pub cpu: Duration,
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

/// Runs browsers for the duration, or until `stop` is ready. `progress` gets the time since the start, about every second.
pub async fn browse(
    load: Load,
    stop: impl Future<Output = ()>,
    mut progress: impl FnMut(Duration),
) -> Visits {
    let began = Instant::now();
    let (cancel, cancelled) = watch::channel(false);
    let (sender, mut samples_of) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    match load.arrivals_per_s {
        Some(rate) => {
            tasks.spawn(open_loop(load, rate, began, cancelled.clone(), sender));
        }
        None => {
            for number in 0..load.browsers {
                tasks.spawn(closed_loop(load, number, began, cancelled.clone(), sender.clone()));
            }
            drop(sender);
        }
    }
    tokio::pin!(stop);
    let (mut samples, mut is_stopped) = (Vec::new(), false);
    let (mut cpu_before, mut cpu_after) = (None, None);
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let window_begins = tokio::time::sleep(load.ramp_up);
    let window_ends = tokio::time::sleep(load.duration());
    tokio::pin!(window_begins, window_ends);
    loop {
        tokio::select! {
            sample = samples_of.recv() => match sample {
                Some(sample) => samples.push(sample),
                None => break,
            },
            () = &mut window_begins, if cpu_before.is_none() => cpu_before = Some(cpu_time()),
            () = &mut window_ends, if cpu_after.is_none() => cpu_after = Some(cpu_time()),
            _ = tick.tick() => progress(began.elapsed()),
            () = &mut stop, if !is_stopped => {
                is_stopped = true;
                let _ = cancel.send(true);
            }
        }
    }
    let cpu =
        cpu_after.unwrap_or_else(cpu_time).saturating_sub(cpu_before.unwrap_or_else(cpu_time));
    // The last browser may have had its last page before the end of the window.
    let ended = if is_stopped { began.elapsed().min(load.duration()) } else { load.duration() };
    Visits { samples, ended, is_stopped, cpu }
}

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(clock.tv_sec.unsigned_abs(), clock.tv_nsec.unsigned_abs() as u32)
}

/// One browser, which thinks between its pages. Its last response may be later than the duration.
async fn closed_loop(
    load: Load,
    number: u32,
    began: Instant,
    mut cancelled: watch::Receiver<bool>,
    samples: mpsc::UnboundedSender<Sample>,
) {
    let mut visitor = Visitor::new(load, number);
    // By how much the think times so far were too long: tokio's timers have whole milliseconds.
    let mut excess = Duration::ZERO;
    loop {
        let request = visitor.next(began);
        let planned = Duration::from(request.think);
        let think = planned.saturating_sub(excess);
        let slept = Instant::now();
        if began.elapsed() + think >= load.duration() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(think) => {}
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => return,
        }
        excess = (excess + slept.elapsed()).saturating_sub(planned);
        let sample = visitor.visit(&request, began, began.elapsed()).await;
        let _ = samples.send(sample);
    }
}

/// Browsers that begin their interactions at random times, whether earlier ones have been answered or not.
async fn open_loop(
    load: Load,
    rate_per_s: f64,
    began: Instant,
    mut cancelled: watch::Receiver<bool>,
    samples: mpsc::UnboundedSender<Sample>,
) {
    let mut gaps = units::Stream::new(load.seed, "arrivals");
    let (free, mut freed) = mpsc::unbounded_channel();
    for number in 0..load.browsers {
        let _ = free.send(Visitor::new(load, number));
    }
    let mut at = Duration::ZERO;
    loop {
        at += Duration::from_secs_f64(gaps.exponential() / rate_per_s);
        // A schedule that is behind does not go on after the load.
        if at.max(began.elapsed()) >= load.duration() {
            return;
        }
        let is_early = began.elapsed() < at;
        tokio::select! {
            () = tokio::time::sleep_until((began + at).into()) => {}
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => return,
        }
        // A timer that is late is no response time; a schedule that is behind is.
        let from = if is_early { began.elapsed() } else { at };
        // If all are under way, the response time includes the wait for one of them.
        let visitor = tokio::select! {
            visitor = freed.recv() => visitor,
            () = tokio::time::sleep_until((began + load.duration()).into()) => return,
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => return,
        };
        let Some(mut visitor) = visitor else { return };
        let (free, samples) = (free.clone(), samples.clone());
        tokio::spawn(async move {
            let request = visitor.next(began);
            let sample = visitor.visit(&request, began, from).await;
            let _ = samples.send(sample);
            let _ = free.send(visitor);
        });
    }
}

/// A browser with what it remembers.
struct Visitor {
    load: Load,
    browser: Browser,
    context: BrowserContext,
    page: Option<Page>,
}

impl Visitor {
    fn new(load: Load, number: u32) -> Self {
        let browser = Browser::new(load.workload, load.seed, number);
        Self { load, browser, context: BrowserContext::new(load), page: None }
    }

    /// Its next request.
    fn next(&mut self, began: Instant) -> PageRequest {
        let now = units::Instant(began.elapsed().as_nanos() as u64);
        self.browser.next(now, self.page.as_ref())
    }

    /// Carries out a request whose response time counts from `at`.
    async fn visit(&mut self, request: &PageRequest, began: Instant, at: Duration) -> Sample {
        if request.starts_session {
            self.context = BrowserContext::new(self.load);
        }
        let result = tokio::time::timeout(ANSWERS_WITHIN, self.context.get_page(request)).await;
        let response = began.elapsed().saturating_sub(at);
        let (error, found) = match result.unwrap_or(Err(RequestError::Late)) {
            Ok(found) => (None, found),
            Err(error) => (Some(error.to_string()), Found::default()),
        };
        self.page = error.is_none().then_some(found.page);
        Sample {
            interaction: request.interaction,
            at,
            response,
            images: found.images,
            error,
            tiers: found.tiers,
            bytes: found.bytes,
        }
    }
}

/// A page that was fetched, with its images.
#[derive(Debug, Default)]
struct Found {
    page: Page,
    tiers: Tiers,
    /// Bytes of page and images.
    bytes: u64,
    /// Time for the images.
    images: Duration,
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

    /// Fetches a page and its images.
    async fn get_page(&mut self, request: &PageRequest) -> Result<Found, RequestError> {
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
        let began = Instant::now();
        if self.load.images {
            bytes += self.images(&page).await?;
        }
        Ok(Found { page, tiers: answer.tiers, bytes, images: began.elapsed() })
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

impl BrowserContext {
    /// Sends a form, or a GET request if it has no fields; returns the page.
    pub async fn fetch(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Page, RequestError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let form = (!fields.is_empty()).then(|| fields.iter().map(owned).collect());
        let request = PageRequest {
            interaction: fabricmark_bookstore::Interaction::Home,
            think: units::Nanos(0),
            starts_session: false,
            path: path.to_owned(),
            form,
        };
        Ok(self.get_page(&request).await?.page)
    }
}

#[cfg(test)]
impl BrowserContext {
    /// Fetches a page; returns its token.
    pub async fn send(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, RequestError> {
        Ok(self.fetch(path, fields).await?.token.unwrap_or_default())
    }

    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    pub fn set_cookie(&mut self, cookie: &str) {
        self.cookie = Some(cookie.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use fabricmark_bookstore::{Mix, Scale};

    use super::*;

    #[tokio::test]
    async fn a_load_ends_with_its_window_although_its_last_page_was_before() {
        let think = units::Nanos::from_secs(600);
        let scale = Scale { items: 1000, browsers: 1 };
        let load = Load {
            at: ([127, 0, 0, 1], 1).into(),
            browsers: 1,
            workload: Workload { mix: Mix::Shopping, scale, think },
            arrivals_per_s: None,
            seed: 1,
            ramp_up: Duration::from_millis(500),
            window: Duration::from_millis(500),
            images: false,
        };
        let visits = browse(load, pending(), |_| ()).await;
        assert_eq!((visits.samples.len(), visits.ended), (0, Duration::from_secs(1)));
        assert!(!visits.is_stopped);
    }
}
