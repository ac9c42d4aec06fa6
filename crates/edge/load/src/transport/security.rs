//! Common settings of secure transports: one cipher suite and one key exchange, so that runs on different machines
//! are comparable, and a server certificate for each run.

use std::sync::{Arc, LazyLock};

use fabricmark_proto::Failure;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

/// Server name in the certificate.
pub(crate) const NAME: &str = "fabricmark";

/// Client configuration. It contains nothing of a run or connection, so the whole process shares it.
static STARTING: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| {
    let provider = provider();
    let verifier = AnyCertificate(provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Every handshake is a full one.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
});

/// Client configuration.
pub(crate) fn starting() -> Result<Arc<ClientConfig>, Failure> {
    STARTING.as_ref().map(Arc::clone).map_err(unusable)
}

/// Server configuration, with a new certificate: ECDSA with P-256 and SHA-256.
pub(crate) fn answering() -> Result<Arc<ServerConfig>, Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
        .map_err(|error| Failure::System(format!("cannot make a certificate: {error}")))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)
        });
    let mut config = config.map_err(|error| unusable(&error))?;
    // Sessions are never resumed.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn unusable(error: &Error) -> Failure {
    Failure::System(format!("cannot set up TLS: {error}"))
}

/// TLS_AES_128_GCM_SHA256 is the suite that every implementation has (RFC 8446, section 9.1), X25519 the key exchange
/// of most handshakes.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    })
}

/// Accepts any server certificate: the token of the run authenticates the other end, and a certificate made for the
/// run has no issuer to trust. The signature of the handshake is verified, since its cost is part of every handshake.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

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
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
