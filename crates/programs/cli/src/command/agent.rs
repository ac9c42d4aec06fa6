//! `fabricmark agent`: runs the remote end of measurements on this host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fabricmark_control::{AGENT_PORT, Load, Settings, THIS_PROGRAM};
use fabricmark_host::{Memory, allow_files};
use fabricmark_proto::Quota;
use fabricmark_trust::{Identity, server_config};
use fabricmark_units::Bytes;
use sd_notify::NotifyState;

use crate::addresses::address;
use crate::command::hosts::recover;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::key;
use crate::options::Agent;
use crate::output;
use crate::services::Services;

/// Serves until it is stopped.
pub fn agent(options: &Agent) -> Result<(), Failure> {
    if options.new_key {
        return new_key(options);
    }
    let addresses = addresses(&options.listen)?;
    let (identity, trusted) = key::load(&options.key)?;
    let memory_max = options.memory_total.unwrap_or_else(half_of_the_memory);
    let settings = Settings {
        tls: server_config(&identity, trusted)?,
        quota: Quota {
            flows_max: options.flows,
            rate_max: options.rate,
            duration_max: options.duration,
            memory_max: options.memory.min(memory_max),
            ports: options.ports,
            allows_clients: options.allow_client,
            allows_relays: options.allow_relay,
            allows_settings: options.allow_settings,
            allows_shop: options.allow_shop,
            ..Quota::default()
        },
        slots: if options.exclusive { 1 } else { options.at_once },
        connections_max: options.connections,
        memory_max,
        program: THIS_PROGRAM.into(),
    };
    allow_files();
    recover();
    let stop = interruptions()?;
    let agent = fabricmark_control::Agent::listen(&addresses, settings).map_err(|error| {
        let at: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        not_bound(&format!("listen at {}", at.join(", ")), &error)
    })?;
    let services = Services::start(options, &stop)?;
    for address in agent.addresses() {
        note!("listening at {address}");
    }
    tell(&[NotifyState::Ready]);
    let mut last = Load::default();
    let mut look = |load: Load| {
        tell(&[NotifyState::Watchdog]);
        if load != last {
            last = load;
            let Load { connections, busy, waiting } = load;
            let status = format!(
                "{connections} connections, {busy} coordinators measuring, {waiting} waiting"
            );
            tell(&[NotifyState::Status(&status)]);
        }
    };
    let served = agent.serve(&stop, &mut look);
    tell(&[NotifyState::Stopping]);
    services.join()?;
    served.map_err(|error| Failure::internal(format!("the agent failed: {error}")))
}

/// Notifies systemd, if it started this process.
pub fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

fn new_key(options: &Agent) -> Result<(), Failure> {
    let path = key::path(&options.key)?;
    let identity = Identity::generate()?;
    identity.save_new(&path)?;
    output::print(&format!(
        "key {}\nfingerprint {}\nhosts that share this file trust each other; hosts with different keys need \
         `fabricmark pair`\n",
        path.display(),
        identity.fingerprint()
    ))
}

/// Addresses to listen at. Default: all IPv4 and IPv6 addresses.
fn addresses(words: &[String]) -> Result<Vec<SocketAddr>, Failure> {
    if words.is_empty() {
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        return Ok(any.map(|address| SocketAddr::new(address, AGENT_PORT)).to_vec());
    }
    words.iter().map(|word| address(word, AGENT_PORT)).collect()
}

/// Half of the memory that is free now.
fn half_of_the_memory() -> Bytes {
    let free = Memory::now().map_or(u64::MAX, |memory| memory.available_bytes);
    Bytes(free / 2)
}

/// The failure to bind a socket for what the agent does.
pub fn not_bound(doing: &str, error: &io::Error) -> Failure {
    let (code, help) = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            (Code::Missing, "; a port below 1024 needs root or CAP_NET_BIND_SERVICE")
        }
        io::ErrorKind::AddrInUse => {
            (Code::RunFailed, "; another agent may use the port: see `ss -lntup`")
        }
        _ => (Code::RunFailed, ""),
    };
    Failure::new(code, format!("cannot {doing}: {error}{help}"))
}
