//! Addresses and names of hosts that are no agents.

use std::net::{IpAddr, SocketAddr};

use fabricmark_control::look_up;

use crate::exit::{Code, Failure};

/// The first address of a host.
pub fn first_address(text: &str, port: u16) -> Result<SocketAddr, Failure> {
    let unknown = || Failure::new(Code::Unreachable, format!("{text} has no address"));
    look_up(text, port)?.first().copied().ok_or_else(unknown)
}

/// An address of this host, with its port or else `port`; a name is not resolved.
pub fn address(word: &str, port: u16) -> Result<SocketAddr, Failure> {
    let bare = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
    let alone = || bare.parse().map(|address: IpAddr| SocketAddr::new(address, port));
    word.parse().or_else(|_| alone()).map_err(|_| {
        let message = format!(
            "`{word}` is not an address: write 192.0.2.1, 192.0.2.1:{port}, [2001:db8::1]:{port}, or \
             0.0.0.0 and [::] for all"
        );
        Failure::input(message)
    })
}
