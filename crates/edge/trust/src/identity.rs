//! The key of a host, and its file.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fmt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::{Fingerprint, TrustError};

/// Subject of every certificate. It identifies nothing: a host is identified by its fingerprint.
pub(crate) const SUBJECT: &str = "fabricmark";

/// Largest key file, in bytes: an Ed25519 certificate with its key takes some 700.
const FILE_MAX: u64 = 64 * 1024;

/// A host's Ed25519 key pair (RFC 8032: its signatures need no randomness) in a self-signed certificate. The
/// certificate is a mere container: its dates, rcgen's 1975 to 4096, are ignored.
pub struct Identity {
    private_key: PrivatePkcs8KeyDer<'static>,
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl Identity {
    /// A new key pair from the system's random number generator.
    pub fn generate() -> Result<Identity, TrustError> {
        let failed = |error: rcgen::Error| TrustError::Generate(error.to_string());
        let pair = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
        let mut subject = CertificateParams::new([SUBJECT.to_owned()]).map_err(failed)?;
        subject.distinguished_name.push(DnType::CommonName, SUBJECT);
        let certificate = subject.self_signed(&pair).map_err(failed)?;
        let private_key = PrivatePkcs8KeyDer::from(pair.serialize_der());
        Ok(Identity::from_der(certificate.der().clone(), private_key)?)
    }

    /// Refuses a private key that does not belong to the certificate.
    fn from_der(
        certificate: CertificateDer<'static>,
        private_key: PrivatePkcs8KeyDer<'static>,
    ) -> Result<Identity, rustls::Error> {
        let fingerprint = Fingerprint::of(&certificate);
        let key = private_key.clone_key().into();
        let certified = CertifiedKey::from_der(vec![certificate], key, &default_provider())?;
        Ok(Identity { private_key, certified: Arc::new(certified), fingerprint })
    }

    /// Writes certificate and private key in PEM to a new file with mode 0600; creates a missing folder with mode
    /// 0700. Never overwrites a file: [`TrustError::KeyExists`].
    pub fn save_new(&self, path: &Path) -> Result<(), TrustError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| TrustError::file("create the folder", folder, error))?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TrustError::KeyExists(path.to_owned()),
            _ => TrustError::file("write", path, error),
        })?;
        let written = file.write_all(self.pem().as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // A partial key file would block the next attempt.
            let _ = fs::remove_file(path);
            TrustError::file("write", path, error)
        })
    }

    fn pem(&self) -> String {
        let certificates = self.certified.cert.iter();
        let certificates: String = certificates.map(|der| block("CERTIFICATE", der)).collect();
        certificates + &block("PRIVATE KEY", self.private_key.secret_pkcs8_der())
    }

    /// Reads a file that [`Identity::save_new`] wrote; refuses it if others than its owner may read or write it.
    pub fn load(path: &Path) -> Result<Identity, TrustError> {
        let pem = read_guarded(path, 0o077, "600", FILE_MAX)?;
        let pem = pem.ok_or_else(|| TrustError::NoKey(path.to_owned()))?;
        let not_a_key = |why: String| TrustError::NotAKey { path: path.to_owned(), why };
        let certificate = CertificateDer::from_pem_slice(&pem)
            .map_err(|error| not_a_key(format!("no certificate in PEM: {error}")))?;
        let private_key = PrivatePkcs8KeyDer::from_pem_slice(&pem)
            .map_err(|error| not_a_key(format!("no private key in PEM: {error}")))?;
        Identity::from_der(certificate, private_key).map_err(|error| not_a_key(error.to_string()))
    }

    /// Identifies this host to others.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Key with which rustls signs handshakes.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

/// Hides the private key, so that it does not get into logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.fingerprint).finish()
    }
}

/// A PEM block with lines of 64 characters (RFC 7468, section 2).
fn block(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are 64 characters.
    for line in der.chunks(48) {
        STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// Content of a file of at most `max` bytes; `None` if it does not exist. Fails if the file has a permission of
/// `forbidden`, which chmod(1) fixes with `mode`, or if another user than root could replace it.
pub(crate) fn read_guarded(
    path: &Path,
    forbidden: u32,
    mode: &'static str,
    max: u64,
) -> Result<Option<Vec<u8>>, TrustError> {
    let failed = |error| TrustError::file("read", path, error);
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let facts = file.metadata().map_err(failed)?;
    if facts.permissions().mode() & forbidden != 0 {
        return Err(TrustError::Exposed { path: path.to_owned(), mode });
    }
    check_owner(path, &facts, None)?;
    let real = fs::canonicalize(path).map_err(failed)?;
    real.ancestors().skip(1).try_for_each(check_folder)?;
    let mut content = Vec::new();
    let read = file.take(max + 1).read_to_end(&mut content).map_err(failed)?;
    if read as u64 > max {
        return Err(TrustError::TooLarge { path: path.to_owned(), max });
    }
    Ok(Some(content))
}

/// Fails if a folder belongs to another user than root, or lets others replace what is in it.
fn check_folder(folder: &Path) -> Result<(), TrustError> {
    // A sticky folder lets only the owner of a file replace it (unlink(2)).
    const STICKY: u32 = 0o1000;
    let facts = fs::metadata(folder).map_err(|error| TrustError::file("read", folder, error))?;
    let mode = facts.permissions().mode();
    if mode & 0o022 != 0 && mode & STICKY == 0 {
        return Err(TrustError::Exposed { path: folder.to_owned(), mode: "go-w" });
    }
    // In a user namespace root may have another number there.
    check_owner(folder, &facts, fs::metadata("/").ok().map(|top| top.uid()))
}

/// Fails if a file belongs to another user than root, this one or `other`.
fn check_owner(path: &Path, facts: &Metadata, other: Option<u32>) -> Result<(), TrustError> {
    let this = rustix::process::geteuid().as_raw();
    if [Some(this), Some(0), other].contains(&Some(facts.uid())) {
        return Ok(());
    }
    Err(TrustError::Foreign { path: path.to_owned(), owner: facts.uid() })
}

/// Default path of this user's key file.
pub fn default_key_path() -> Result<PathBuf, TrustError> {
    let [settings, home] = ["XDG_CONFIG_HOME", "HOME"].map(env::var_os);
    key_path(settings.as_deref(), home.as_deref())
}

/// `fabricmark/key.pem` in `XDG_CONFIG_HOME`, if that is absolute (XDG Base Directory Specification), else in
/// `.config` of `HOME`.
pub fn key_path(settings: Option<&OsStr>, home: Option<&OsStr>) -> Result<PathBuf, TrustError> {
    let absolute = |path: &OsStr| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let settings = settings.and_then(absolute);
    let folder = settings.or_else(|| Some(home.and_then(absolute)?.join(".config")));
    Ok(folder.ok_or(TrustError::NoHome)?.join("fabricmark/key.pem"))
}
