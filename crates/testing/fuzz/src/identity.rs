//! What ends of a queue pair tell each other.

use fabricmark_rdma::{IDENTITY_BYTES, Identity};

/// An identity that is understood is written again as it came.
pub fn identity(bytes: &[u8]) {
    let Ok(bytes) = <&[u8; IDENTITY_BYTES]>::try_from(bytes) else { return };
    if let Some(identity) = Identity::parse(bytes) {
        assert_eq!(identity.emit(), *bytes);
    }
}
