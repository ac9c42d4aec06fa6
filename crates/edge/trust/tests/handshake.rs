//! Complete TLS handshakes in memory: who is admitted, who is refused, and what each end reports.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;

use fabricmark_trust::{
    Fingerprint, Identity, TrustError, Trusted, client_config, client_connection, peer_fingerprint,
    server_config, server_connection,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Connection, Error, ProtocolVersion,
    RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use tempfile::TempDir;

/// A host: its key and its file of trusted keys.
struct Host {
    identity: Identity,
    trusted: Arc<Trusted>,
    folder: TempDir,
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let trusted = Arc::new(Trusted::at(folder.path().join("trusted")));
        Host { identity: Identity::generate().unwrap(), trusted, folder }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    fn trusts(&self, other: &Host) {
        self.trusted.add(&other.fingerprint(), &"other".parse().unwrap()).unwrap();
    }

    fn calling(&self) -> ClientConfig {
        let config = client_config(&self.identity, Arc::clone(&self.trusted)).unwrap();
        Arc::unwrap_or_clone(config)
    }

    fn answering(&self) -> ServerConfig {
        let config = server_config(&self.identity, Arc::clone(&self.trusted)).unwrap();
        Arc::unwrap_or_clone(config)
    }

    /// Its certificate and its private key, from a key file.
    fn parts(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let path = self.folder.path().join("key.pem");
        self.identity.save_new(&path).unwrap();
        let pem = fs::read(path).unwrap();
        (
            CertificateDer::from_pem_slice(&pem).unwrap(),
            PrivateKeyDer::from_pem_slice(&pem).unwrap(),
        )
    }
}

/// Two hosts that trust each other.
fn acquainted() -> (Host, Host) {
    let (calling, answering) = (Host::new(), Host::new());
    calling.trusts(&answering);
    answering.trusts(&calling);
    (calling, answering)
}

/// `certificate` with the private key of another host.
fn stolen(certificate: &Host, key: &Host) -> Arc<SingleCertAndKey> {
    let signing = default_provider().key_provider.load_private_key(key.parts().1).unwrap();
    let certified = CertifiedKey::new(vec![certificate.parts().0], signing);
    Arc::new(SingleCertAndKey::from(certified))
}

/// A client of the public web, without a certificate.
fn without_certificate(version: &'static SupportedProtocolVersion) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// Result of a handshake at each end: the key that the other proved, or the error.
struct Ended {
    calling: Result<Fingerprint, TrustError>,
    answering: Result<Fingerprint, TrustError>,
}

/// Joins two ends in memory until neither has output.
fn join(calling: ClientConfig, answering: ServerConfig) -> (Connection, Connection, Ended) {
    let mut calling = Connection::from(client_connection(&Arc::new(calling)).unwrap());
    let mut answering = Connection::from(server_connection(&Arc::new(answering)).unwrap());
    let (mut at_calling, mut at_answering) = (Ok(()), Ok(()));
    loop {
        let moved = carry(&mut calling, &mut answering, &mut at_answering);
        if moved + carry(&mut answering, &mut calling, &mut at_calling) == 0 {
            break;
        }
    }
    let end = |result: Result<(), Error>, connection: &Connection| {
        result.map_err(TrustError::from).and_then(|()| peer_fingerprint(connection))
    };
    let ended =
        Ended { calling: end(at_calling, &calling), answering: end(at_answering, &answering) };
    (calling, answering, ended)
}

/// Passes the output of one end to the other; returns its length. The first error of the other end is kept.
fn carry(from: &mut Connection, to: &mut Connection, result: &mut Result<(), Error>) -> usize {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while result.is_ok() && !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        *result = to.process_new_packets().map(|_| ());
    }
    bytes.len()
}

#[test]
fn two_hosts_that_know_each_other_talk_over_tls_1_3() {
    let (a, b) = acquainted();
    let (mut calling, mut answering, ended) = join(a.calling(), b.answering());
    assert_eq!(ended.calling.unwrap(), b.fingerprint());
    assert_eq!(ended.answering.unwrap(), a.fingerprint());
    assert_eq!(calling.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(calling.alpn_protocol(), Some(b"fabricmark/1".as_slice()));
    calling.writer().write_all(b"hello").unwrap();
    carry(&mut calling, &mut answering, &mut Ok(()));
    let mut heard = [0; 5];
    answering.reader().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

#[test]
fn a_stranger_that_calls_is_refused_and_both_ends_say_so() {
    let (a, b) = (Host::new(), Host::new());
    a.trusts(&b);
    let (.., ended) = join(a.calling(), b.answering());
    assert!(matches!(ended.answering, Err(TrustError::Stranger)));
    let there = ended.calling.unwrap_err();
    assert!(matches!(there, TrustError::StrangerThere));
    let expected = "it does not know this host's key: run fabricmark pair on both hosts";
    assert_eq!(there.to_string(), expected);
}

#[test]
fn a_stranger_that_answers_is_refused_and_both_ends_say_so() {
    let (a, b) = (Host::new(), Host::new());
    b.trusts(&a);
    let (.., ended) = join(a.calling(), b.answering());
    assert!(matches!(ended.calling, Err(TrustError::Stranger)));
    assert!(matches!(ended.answering, Err(TrustError::StrangerThere)));
}

#[test]
fn a_trusted_certificate_without_its_key_admits_nobody_that_calls() {
    let (a, b) = acquainted();
    let mut calling = a.calling();
    calling.client_auth_cert_resolver = stolen(&a, &Host::new());
    let (.., ended) = join(calling, b.answering());
    let refused = ended.answering.unwrap_err();
    let bad = Error::InvalidCertificate(rustls::CertificateError::BadSignature);
    assert!(matches!(refused, TrustError::Tls(error) if error == bad));
    assert!(ended.calling.is_err());
}

#[test]
fn a_trusted_certificate_without_its_key_admits_nobody_that_answers() {
    let (a, b) = acquainted();
    let mut answering = b.answering();
    answering.cert_resolver = stolen(&b, &Host::new());
    let (.., ended) = join(a.calling(), answering);
    let refused = ended.calling.unwrap_err();
    let bad = Error::InvalidCertificate(rustls::CertificateError::BadSignature);
    assert!(matches!(refused, TrustError::Tls(error) if error == bad));
    assert!(ended.answering.is_err());
}

#[test]
fn who_shows_no_certificate_is_refused() {
    let (a, b) = acquainted();
    let mut calling = a.calling();
    calling.client_auth_cert_resolver = without_certificate(&TLS13).client_auth_cert_resolver;
    let (.., ended) = join(calling, b.answering());
    let refused = ended.answering.unwrap_err();
    assert!(matches!(refused, TrustError::Tls(Error::NoCertificatesPresented)), "{refused}");
}

#[test]
fn tls_1_2_is_refused() {
    let (_, b) = acquainted();
    let (.., ended) = join(without_certificate(&TLS12), b.answering());
    let refused = ended.answering.unwrap_err();
    assert!(matches!(refused, TrustError::Tls(Error::PeerIncompatible(_))), "{refused}");
    let alert = ended.calling.unwrap_err();
    let version = AlertDescription::ProtocolVersion;
    assert!(matches!(alert, TrustError::Tls(Error::AlertReceived(it)) if it == version));
}

#[test]
fn another_protocol_under_a_trusted_key_is_refused() {
    let (a, b) = acquainted();
    for other in [vec![b"h2".to_vec()], Vec::new()] {
        let mut calling = a.calling();
        calling.alpn_protocols = other;
        let (.., ended) = join(calling, b.answering());
        assert!(ended.answering.is_err());
    }
}

#[test]
fn copies_of_one_key_file_talk_without_pairing() {
    let (a, mut b) = (Host::new(), Host::new());
    let path = a.folder.path().join("key.pem");
    a.identity.save_new(&path).unwrap();
    b.identity = Identity::load(&path).unwrap();
    let (.., ended) = join(a.calling(), b.answering());
    assert_eq!(ended.calling.unwrap(), a.fingerprint());
    assert_eq!(ended.answering.unwrap(), a.fingerprint());
}

#[test]
fn a_running_host_sees_who_came_and_who_was_removed() {
    let (a, b) = (Host::new(), Host::new());
    a.trusts(&b);
    let running = b.answering();
    assert!(join(a.calling(), running.clone()).2.answering.is_err());
    b.trusts(&a);
    assert!(join(a.calling(), running.clone()).2.answering.is_ok());
    fs::write(b.trusted.path(), "").unwrap();
    assert!(join(a.calling(), running).2.answering.is_err());
}

#[test]
fn a_connection_that_is_not_over_its_handshake_has_no_peer() {
    let (a, _) = acquainted();
    let connection: ClientConnection = client_connection(&Arc::new(a.calling())).unwrap();
    assert!(matches!(peer_fingerprint(&connection), Err(TrustError::OtherProtocol)));
}
