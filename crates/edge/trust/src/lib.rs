//! Authentication of hosts.
//!
//! - [`Identity`] is a host's key and the file that stores it; its [`Fingerprint`] identifies the host.
//! - [`Trusted`] is the file of the other hosts' keys that this host trusts.
//! - [`server_config`] and [`client_config`] set up TLS 1.3 in which each end proves a key that the other trusts;
//!   [`peer_fingerprint`] returns it.
//! - [`pair_wait`] and [`pair_with`] exchange the keys of two hosts by a short [`Code`]; [`pairing`] is the protocol.
//!
//! There is no certificate authority and no password: a key is trusted because its fingerprint is in the file.
//! docs/security.md describes what that protects and what not.

mod code;
mod error;
mod fingerprint;
mod identity;
mod meeting;
mod name;
pub mod pairing;
mod tls;
mod trusted;

pub use code::{Code, CodeError};
pub use error::TrustError;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use identity::{Identity, default_key_path, key_path};
pub use meeting::{PairError, WAIT_MAX, pair_wait, pair_with};
pub use name::HostName;
pub use tls::{
    PROTOCOL, client_config, client_connection, peer_fingerprint, server_config, server_connection,
};
pub use trusted::Trusted;
