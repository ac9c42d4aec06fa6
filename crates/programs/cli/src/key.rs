//! The key of this host, and the keys that it trusts.

use std::path::PathBuf;
use std::sync::Arc;

use fabricmark_control::{AgentAccess, AgentHost, check_syntax};
use fabricmark_trust::{Identity, Trusted, client_config, default_key_path};

use crate::exit::Failure;
use crate::options::Key;

/// Path of the key file.
pub fn path(key: &Key) -> Result<PathBuf, Failure> {
    Ok(key.key_file.clone().map_or_else(default_key_path, Ok)?)
}

/// The key, and the list of trusted keys in the same folder.
pub fn load(key: &Key) -> Result<(Identity, Arc<Trusted>), Failure> {
    let path = path(key)?;
    let identity = Identity::load(&path)?;
    Ok((identity, Arc::new(Trusted::beside(&path))))
}

/// An agent, and the TLS configuration to connect to it.
pub fn access(host: &str, control: Option<&str>, key: &Key) -> Result<AgentAccess, Failure> {
    check_syntax(host)?;
    let (identity, trusted) = load(key)?;
    let host = AgentHost::find(host, control)?;
    Ok(AgentAccess { host, tls: client_config(&identity, trusted)? })
}
