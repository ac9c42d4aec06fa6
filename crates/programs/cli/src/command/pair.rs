//! `fabricmark pair`: exchanges the keys of two hosts, authenticated by a short code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fabricmark_control::look_up;
use fabricmark_trust::pairing::Introduction;
use fabricmark_trust::{Code, HostName, Identity, Trusted, pair_wait, pair_with};
use rustix::io::Errno;

use crate::addresses::address;
use crate::exit::{self, Failure};
use crate::interrupt::interruptions;
use crate::key;
use crate::options::Pair;
use crate::output;

/// Port for pairing: one above that of the agent, which keeps running.
const PAIR_PORT: u16 = fabricmark_control::AGENT_PORT + 1;

/// Time-out of the TCP connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Waits for another host, or connects to one that waits.
pub fn pair(options: &Pair) -> Result<(), Failure> {
    let code: Option<Code> =
        options.code.as_deref().map(str::parse).transpose().map_err(Failure::input)?;
    let host = match &options.host {
        Some(name) => Some((name, look_up(name, PAIR_PORT)?)),
        None => None,
    };
    let path = key::path(&options.key)?;
    if !path.exists() {
        Identity::generate()?.save_new(&path)?;
        note!("created a key: {}", path.display());
    }
    let (identity, trusted) = key::load(&options.key)?;
    let Introduction { name, fingerprint } = match (host, code) {
        (Some((name, addresses)), Some(code)) => {
            pair_with(connect(name, &addresses)?, &code, &identity, &trusted)?
        }
        _ => wait(options, &identity, &trusted)?,
    };
    let list = trusted.path().display();
    output::print(&format!("{name} is now trusted: {fingerprint} was added to {list}\n"))
}

fn wait(options: &Pair, identity: &Identity, trusted: &Trusted) -> Result<Introduction, Failure> {
    let at = match &options.listen {
        Some(word) => address(word, PAIR_PORT)?,
        None => SocketAddr::new(IpAddr::from(Ipv6Addr::UNSPECIFIED), PAIR_PORT),
    };
    let stop = interruptions()?;
    let listener = TcpListener::bind(at).or_else(|error| match &options.listen {
        // A host without IPv6.
        None if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, PAIR_PORT))
        }
        _ => Err(error),
    });
    let listener = listener.map_err(|error| {
        Failure::new(exit::Code::RunFailed, format!("cannot listen at {at}: {error}"))
    })?;
    let code = Code::generate()?;
    let port = listener.local_addr().map_or(at.port(), |at| at.port());
    let port = if port == PAIR_PORT { String::new() } else { format!(":{port}") };
    let host = HostName::own();
    output::print(&format!(
        "run on the other host within 10 minutes:  fabricmark pair {host}{port} {code}\n"
    ))?;
    Ok(pair_wait(&listener, &code, identity, trusted, &stop)?)
}

fn connect(host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
    let fail = |why: String| Failure::new(exit::Code::Unreachable, format!("{host} {why}"));
    let mut last = fail("has no address".to_owned());
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                last = fail(format!(
                    "does not listen at {address} ({error}): run fabricmark pair there first"
                ));
            }
        }
    }
    Err(last)
}
