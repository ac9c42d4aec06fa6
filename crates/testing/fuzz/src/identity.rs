//! Identities that the ends of a queue pair exchange.

use fabricmark_rdma::{IDENTITY_BYTES, Identity};

/// Parsing and emitting an identity gives the same bytes.
pub fn identity(bytes: &[u8]) {
    let Ok(bytes) = <&[u8; IDENTITY_BYTES]>::try_from(bytes) else { return };
    if let Some(identity) = Identity::parse(bytes) {
        assert_eq!(identity.emit(), *bytes);
    }
}
