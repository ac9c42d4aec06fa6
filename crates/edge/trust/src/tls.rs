//! TLS 1.3 between two hosts that know each other's key.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, Resumption};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, CommonState, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};

use crate::identity::SUBJECT;
use crate::{Fingerprint, Identity, TrustError, Trusted};

/// ALPN protocol ID (RFC 7301): connections of any other protocol are refused.
pub const PROTOCOL: &[u8] = b"fabricmark/1";

/// Settings of the server. It requires a client certificate, and ends the handshake if that is missing or neither
/// trusted nor its own. It sends no data before that, and resumes no session: the file is read for each connection.
///
/// A refusal is an alert, which is lost if the socket is closed while data of the client are unread, since the kernel
/// then resets the connection: write the remaining output, shut down sending, and read to the end within a time
/// limit.
pub fn server_config(
    identity: &Identity,
    trusted: Arc<Trusted>,
) -> Result<Arc<ServerConfig>, TrustError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(Pinned::new(identity, trusted)))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Settings of the client.
///
/// In TLS 1.3 the client is done before the server has seen its certificate, so a refusal arrives with the first
/// read. The client is admitted once the server has sent data.
pub fn client_config(
    identity: &Identity,
    trusted: Arc<Trusted>,
) -> Result<Arc<ClientConfig>, TrustError> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(identity, trusted)))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// A connection of the client, before its first byte.
pub fn client_connection(config: &Arc<ClientConfig>) -> Result<ClientConnection, TrustError> {
    // Pinning checks keys, not names, and the name is not sent; rustls requires one.
    let name = ServerName::try_from(SUBJECT)
        .map_err(|error| TrustError::Tls(Error::General(error.to_string())))?;
    Ok(ClientConnection::new(Arc::clone(config), name)?)
}

/// A connection of the server, before its first byte.
pub fn server_connection(config: &Arc<ServerConfig>) -> Result<ServerConnection, TrustError> {
    Ok(ServerConnection::new(Arc::clone(config))?)
}

/// The key that the other end has proved to have, once the handshake is complete.
pub fn peer_fingerprint(connection: &CommonState) -> Result<Fingerprint, TrustError> {
    let over = !connection.is_handshaking() && connection.alpn_protocol() == Some(PROTOCOL);
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.filter(|_| over).ok_or(TrustError::OtherProtocol)?;
    Ok(Fingerprint::of(certificate))
}

/// Accepts the keys of a file, and its own: whoever has a copy of this host's key file can sign as this host
/// anyway. All other content of certificates (names, dates, authorities) is ignored.
#[derive(Debug)]
struct Pinned {
    own: Fingerprint,
    trusted: Arc<Trusted>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(identity: &Identity, trusted: Arc<Trusted>) -> Pinned {
        let algorithms = default_provider().signature_verification_algorithms;
        Pinned { own: identity.fingerprint(), trusted, algorithms }
    }

    fn admits(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Fingerprint::of(certificate);
        if shown == self.own {
            return Ok(());
        }
        match self.trusted.knows(&shown) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Err(error) => Err(Error::General(error.to_string())),
        }
    }
}

/// Checks of signatures, the same for both traits.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not supported".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            // Without this check a certificate, which is public, would suffice without its key.
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Pinned {
    tls13_signatures!();

    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.admits(certificate).map(|()| ServerCertVerified::assertion())
    }
}

impl ClientCertVerifier for Pinned {
    tls13_signatures!();

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.admits(certificate).map(|()| ClientCertVerified::assertion())
    }
}
