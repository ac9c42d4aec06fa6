//! The payment gateway: HTTPS, as the shop would ask a bank. It charges nobody.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::Listener;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::server::session::secret;

/// Name of the gateway in its certificate.
const NAME: &str = "payment";

/// Longest answer of a gateway: an authorization has 32 characters.
const ANSWER_BYTES_MAX: usize = 1024;

/// Largest amount that the gateway authorizes: twice a full cart, 99 copies of 100 books, at the highest price that Admin
/// Confirm accepts, which leaves room for tax and shipping.
const CENTS_MAX: i64 = 2 * 100 * 99 * 999_999;

/// How long a client may take for its handshake.
const SECURED_WITHIN: Duration = Duration::from_secs(10);

/// Most connections that wait to be served.
const WAITING_MAX: usize = 64;

/// Why a payment was not authorized, or a gateway not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot reach the payment gateway: {0}")]
    Io(#[from] io::Error),
    #[error("the payment gateway has another certificate, or speaks no TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the payment gateway's certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("the connection to the payment gateway failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("the payment gateway refused: {0}")]
    Refused(StatusCode),
    #[error("the request to the payment gateway cannot be written")]
    Request,
    #[error("the answer of the payment gateway cannot be read")]
    Answer,
}

/// What the shop asks.
#[derive(Debug, Serialize, Deserialize)]
struct Charge {
    card: String,
    cents: i64,
}

/// A gateway that listens.
pub struct Gateway {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    /// Its certificate, in DER.
    pub certificate: CertificateDer<'static>,
}

impl Gateway {
    /// Creates a key and a certificate, and listens.
    pub async fn listen(at: SocketAddr) -> Result<Self, Error> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        let certificate = cert.der().clone();
        let listener = TcpListener::bind(at).await?;
        Ok(Self { listener, acceptor: Arc::new(config).into(), certificate })
    }

    /// Its address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Authorizes payments until the task ends.
    pub async fn serve(self) -> io::Result<()> {
        let at = self.address()?;
        let (sender, connections) = mpsc::channel(WAITING_MAX);
        tokio::spawn(self.accept(sender));
        let connections = Connections { at, connections };
        axum::serve(connections, Router::new().route("/authorize", post(authorize))).await
    }

    /// Accepts connections. Each has a task for its TLS handshake, so that a client that stalls delays no other.
    async fn accept(self, connections: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>) {
        while !connections.is_closed() {
            let Ok((stream, from)) = self.listener.accept().await else { continue };
            let (acceptor, connections) = (self.acceptor.clone(), connections.clone());
            let secured = async move {
                // Without it the answer would wait for the acknowledgement of the session tickets.
                stream.set_nodelay(true)?;
                acceptor.accept(stream).await
            };
            tokio::spawn(async move {
                if let Ok(Ok(stream)) = timeout(SECURED_WITHIN, secured).await {
                    let _ = connections.send((stream, from)).await;
                }
            });
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Card numbers have a check digit (ISO/IEC 7812-1, annex B).
fn is_card(number: &str) -> bool {
    let digits: Option<Vec<u32>> = number.chars().map(|c| c.to_digit(10)).collect();
    let sum = |digits: Vec<u32>| -> u32 {
        let of = |(place, digit): (usize, u32)| match place % 2 {
            0 => digit,
            _ => (2 * digit) / 10 + (2 * digit) % 10,
        };
        digits.into_iter().rev().enumerate().map(of).sum()
    };
    (12..=19).contains(&number.len()) && digits.is_some_and(|digits| sum(digits).is_multiple_of(10))
}

async fn authorize(Form(Charge { card, cents }): Form<Charge>) -> Result<String, StatusCode> {
    if !is_card(&card) || !(1..=CENTS_MAX).contains(&cents) {
        return Err(StatusCode::PAYMENT_REQUIRED);
    }
    secret().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Connections of a gateway after their handshakes.
struct Connections {
    at: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl Listener for Connections {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.at)
    }
}

/// The way to a gateway.
#[derive(Clone)]
pub struct Client {
    at: SocketAddr,
    connector: TlsConnector,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.at)
    }
}

impl Client {
    /// A client that trusts this certificate, in DER, and no other.
    pub fn new(at: SocketAddr, certificate: &[u8]) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.into())?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { at, connector: Arc::new(config).into() })
    }

    /// Asks for an amount over a new connection; returns the authorization.
    pub async fn authorize(&self, card: &str, cents: i64) -> Result<String, Error> {
        let stream = TcpStream::connect(self.at).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(NAME).map_err(|_| Error::Request)?;
        let stream = self.connector.connect(name, stream).await?;
        let (mut sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        let charge = Charge { card: card.to_owned(), cents };
        let form = serde_urlencoded::to_string(charge).map_err(|_| Error::Request)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri("/authorize")
            .header(HOST, NAME)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(form)))
            .map_err(|_| Error::Request)?;
        let (parts, body) = sender.send_request(request).await?.into_parts();
        if parts.status != StatusCode::OK {
            return Err(Error::Refused(parts.status));
        }
        let body =
            Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| Error::Answer)?;
        String::from_utf8(body.to_bytes().to_vec()).map_err(|_| Error::Answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn gateway() -> Gateway {
        Gateway::listen(([127, 0, 0, 1], 0).into()).await.unwrap()
    }

    #[tokio::test]
    async fn a_gateway_authorizes_cards_with_a_check_digit_and_no_other_amounts() {
        let gateway = gateway().await;
        let client = Client::new(gateway.address().unwrap(), &gateway.certificate).unwrap();
        tokio::spawn(gateway.serve());
        assert_eq!(client.authorize("4111111111111111", 995).await.unwrap().len(), 32);
        for (card, cents) in
            [("4111111111111112", 995), ("4111", 995), ("4111111111111111", 0), ("x", 1)]
        {
            let refused = client.authorize(card, cents).await.unwrap_err();
            assert!(matches!(refused, Error::Refused(StatusCode::PAYMENT_REQUIRED)), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_gateway_with_another_certificate_gets_no_card_number() {
        let (ours, theirs) = (gateway().await, gateway().await);
        let at = theirs.address().unwrap();
        let client = Client::new(at, &ours.certificate).unwrap();
        tokio::spawn(theirs.serve());
        let refused = client.authorize("4111111111111111", 995).await.unwrap_err();
        assert!(refused.to_string().contains("certificate"), "{refused}");
        assert!(matches!(Client::new(at, b"none"), Err(Error::Tls(_))));
    }
}
