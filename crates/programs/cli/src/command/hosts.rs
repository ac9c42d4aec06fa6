//! `fabricmark hosts`: hosts, their network interfaces and settings.

mod restore;

pub use restore::recover;

use fabricmark_control::interfaces_of;
use fabricmark_host::facts;
use fabricmark_host::interfaces::{self, text};
use fabricmark_record::{Host, Interface};
use serde_json::json;

use crate::exit::Failure;
use crate::key;
use crate::options::hosts::{Hosts, Show};
use crate::output::answer;

/// Carries out a subcommand.
pub fn hosts(command: &Hosts) -> Result<(), Failure> {
    match command {
        Hosts::Show(options) => show(options),
        Hosts::Restore(options) => restore::restore(options),
    }
}

/// Prints the interfaces of a host, or those that were named.
fn show(options: &Show) -> Result<(), Failure> {
    let mut host = match &options.host {
        None => Host { host: facts(), interfaces: interfaces::all()? },
        Some(host) => interfaces_of(&key::access(host, None, &options.key)?)?,
    };
    host.interfaces = chosen(host.interfaces, &options.interfaces)?;
    answer(options.json, || json!(host), || text(&host.interfaces))
}

/// The interfaces with these names; all without any name.
fn chosen(mut all: Vec<Interface>, names: &[String]) -> Result<Vec<Interface>, Failure> {
    let is_known = |name: &&String| all.iter().any(|interface| interface.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
        return Err(Failure::input(format!(
            "there is no network interface `{unknown}`; use one of {}",
            known.join(", ")
        )));
    }
    all.retain(|interface| names.is_empty() || names.contains(&interface.name));
    Ok(all)
}
