//! TLS 1.3 between two hosts of which each knows the other's key.

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

/// What is spoken over the connection (ALPN, RFC 7301): a certificate of another protocol's end is
/// worth nothing here.
pub const PROTOCOL: &[u8] = b"fabricmark/1";

/// Settings of the end that answers. It asks for the other's certificate and ends the handshake when
/// there is none, or one that is neither trusted nor its own. Nothing is sent before that, and no
/// session is resumed: each connection is judged by the file as it stands.
///
/// A refusal is an alert, which is lost when the socket is closed while bytes of the caller are unread
/// (the kernel resets the connection then): write what the connection still wants to write, shut the
/// sending side, read to the end within a time limit.
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

/// Settings of the end that calls.
///
/// In TLS 1.3 the caller is done before the other has seen its certificate, so that a refusal comes
/// with the first read. Who calls believes itself admitted when the other has sent something.
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

/// A connection of the end that calls, before its first byte.
pub fn client_connection(config: &Arc<ClientConfig>) -> Result<ClientConnection, TrustError> {
    // Pinning looks at keys, not at names, and the name is not sent; rustls asks for one.
    let name = ServerName::try_from(SUBJECT)
        .map_err(|error| TrustError::Tls(Error::General(error.to_string())))?;
    Ok(ClientConnection::new(Arc::clone(config), name)?)
}

/// A connection of the end that answers, before its first byte.
pub fn server_connection(config: &Arc<ServerConfig>) -> Result<ServerConnection, TrustError> {
    Ok(ServerConnection::new(Arc::clone(config))?)
}

/// The key that the other end has proved to hold, once the handshake is over.
pub fn peer_fingerprint(connection: &CommonState) -> Result<Fingerprint, TrustError> {
    let over = !connection.is_handshaking() && connection.alpn_protocol() == Some(PROTOCOL);
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.filter(|_| over).ok_or(TrustError::OtherProtocol)?;
    Ok(Fingerprint::of(certificate))
}

/// Admits the keys of a file, and the own one: who holds a copy of this host's key file can sign as
/// this host anyway. What else certificates say (names, dates, authorities) is not looked at.
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

/// What both roles of a verifier do with signatures.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            // Without this a certificate, which everybody may have seen, would do without its key.
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
