//! Who may talk to whom.
//!
//! - [`Identity`] is a host's key and the file that keeps it, [`Fingerprint`] its name.
//! - [`Trusted`] is the file of keys of other hosts that this one talks to.
//! - [`server_config`] and [`client_config`] are TLS 1.3 in which each end proves a key that the other
//!   trusts, [`peer_fingerprint`] says which.
//! - [`pair_wait`] and [`pair_with`] are how two hosts first write each other down, by a short [`Code`];
//!   [`pairing`] is the conversation.
//!
//! There is no certificate authority and no password: a key is trusted because its fingerprint stands
//! in the file. docs/security.md says what that protects and what not.

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
