//! Settings of the hosts of a run: which end makes them, and a worker that holds them while the run lasts.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use fabricmark_plan::{Plan, Point, Testbed};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_record::Carrier;
use fabricmark_settings::{Applied, Change, Journal, Restored, Setting};
use fabricmark_wire::Link;

use crate::attachment::NodeFacts;
use crate::error::PlanError;

/// How long a link may take to come back after its device was set: an estimate of the autonegotiation of Ethernet.
pub(crate) const LINK_WITHIN: Duration = Duration::from_secs(3);

/// Interval at which the link is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Rejects settings that no host has, and those that a lab has elsewhere.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    for point in &plan.points {
        for text in point.settings_of_hosts() {
            let change: Change = text
                .parse()
                .map_err(|error| PlanError::Input(format!("host_settings: {error}")))?;
            let is_in_lab = plan.testbed == Testbed::Lab && point.link != Link::Loopback;
            if is_in_lab && change.setting().to_string() == "mtu" {
                let message = "host_settings: the MTU of a lab is that of its links: write \
                               link = \"ethernet:10G,mtu=9000\"";
                return Err(PlanError::Input(message.to_owned()));
            }
        }
    }
    Ok(())
}

/// Puts back what killed processes have changed on this host, in this network namespace.
pub fn recover_settings() -> Vec<Restored> {
    // Without a journal nothing has been changed.
    let journal = Journal::existing().ok().flatten();
    journal.and_then(|journal| journal.recover().ok()).unwrap_or_default()
}

/// Settings that are made already by an end of the same run.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeSet<String>);

impl Claims {
    /// The settings of a point that an end makes: those that no earlier end has made for the same device, network
    /// namespace or machine.
    pub(crate) fn take(&mut self, point: &Point, facts: &NodeFacts, device: &str) -> Vec<String> {
        // Two nodes may be at one agent; whether an agent on this machine is in our namespace is not known.
        let machine = facts.boot.as_deref().unwrap_or_default();
        let is_remote = facts.carrier != Carrier::LocalSocket;
        let namespace = facts.namespace.as_deref().unwrap_or_default();
        let is_new = |text: &&str| {
            let setting = text.split_once('=').and_then(|(name, _)| name.parse::<Setting>().ok());
            let scope = match setting {
                Some(setting) if setting.is_of_machine() => String::new(),
                Some(setting) if setting.is_of_device() => {
                    format!("{is_remote} {namespace} {device}")
                }
                _ => format!("{is_remote} {namespace}"),
            };
            self.0.insert(format!("{machine} {scope} {text}"))
        };
        point.settings_of_hosts().filter(is_new).map(str::to_owned).collect()
    }
}

/// Settings of this host that are in force until this value is dropped. The thread that holds them stays in the network
/// namespace in which it began.
#[derive(Debug)]
pub(crate) struct InForce {
    end: Option<Sender<()>>,
    holder: Option<JoinHandle<Result<(), Failure>>>,
}

impl InForce {
    /// Makes the settings of a run; `None` if it has none.
    pub(crate) fn begin(prepare: &Prepare) -> Result<Option<Self>, Failure> {
        if prepare.host_settings.is_empty() {
            return Ok(None);
        }
        let changes: Result<Vec<Change>, _> =
            prepare.host_settings.iter().map(|text| text.parse()).collect();
        let changes =
            changes.map_err(|error| Failure::Protocol(format!("host_settings: {error}")))?;
        let device = prepare.device.clone();
        if device.is_empty() {
            let address = prepare.address;
            return Err(Failure::Missing(format!(
                "no device of this host has the address {address}"
            )));
        }
        let (made, is_made) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let hold = move || {
            let mut journal = match Journal::of_this_user() {
                Ok(journal) => journal,
                Err(error) => {
                    let _ = made.send(Err(error.to_string()));
                    return Ok(());
                }
            };
            let mut applied = journal.begin();
            let all = make(&mut applied, &device, &changes);
            let is_over = all.is_err();
            let _ = made.send(all);
            if !is_over {
                // An error: whoever waits has ended.
                let _ = ended.recv();
            }
            let had_link = has_link(&device).unwrap_or(false);
            let restored = applied.put_back().map_err(|error| not_put_back(&error))?;
            if let Some(Restored { change, outcome, .. }) =
                restored.iter().find(|one| one.outcome.remains())
            {
                let change = change.as_deref().unwrap_or("a setting");
                return Err(not_put_back(&format!("{change}: {outcome}")));
            }
            wait_for_link(&device, had_link).map_err(Failure::Missing)
        };
        let holder = thread::spawn(hold);
        let all = is_made.recv().unwrap_or_else(|_| Err("the thread of settings ended".to_owned()));
        let this = Self { end: Some(end), holder: Some(holder) };
        // A point whose settings are refused is skipped, unless that leaves the host changed.
        match all {
            Ok(()) => Ok(Some(this)),
            Err(why) => this.end().and(Err(Failure::Missing(why))),
        }
    }

    /// Puts the settings back.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Failure> {
        self.end = None;
        let ended = self.holder.take().map(JoinHandle::join);
        ended
            .unwrap_or(Ok(Ok(())))
            .unwrap_or_else(|_| Err(not_put_back(&"the thread of settings panicked")))
    }
}

fn not_put_back(why: &dyn Display) -> Failure {
    Failure::NotPutBack(format!(
        "a host setting was not put back: {why}; run fabricmark hosts restore as root"
    ))
}

impl Drop for InForce {
    fn drop(&mut self) {
        // An entry that could not be undone stays in the journal.
        let _ = self.put_back();
    }
}

/// Makes all changes, in order, and waits for the link of the device.
fn make(applied: &mut Applied<'_>, device: &str, changes: &[Change]) -> Result<(), String> {
    let had_link = has_link(device).unwrap_or(false);
    for change in changes {
        applied.change(Some(device), change).map_err(|error| error.to_string())?;
    }
    wait_for_link(device, had_link)
}

/// Waits until a device that had a link has it again: some drivers reset it with a ring or an MTU.
fn wait_for_link(device: &str, had_link: bool) -> Result<(), String> {
    let until = Instant::now() + LINK_WITHIN;
    while had_link && !has_link(device).unwrap_or(true) {
        if Instant::now() >= until {
            let seconds = LINK_WITHIN.as_secs();
            return Err(format!(
                "{device} has no link {seconds} s after its settings have changed"
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Whether a device has a link; an error if that is unknown, as for devices of a lab, which /sys does not show.
fn has_link(device: &str) -> io::Result<bool> {
    let carrier = fs::read_to_string(Path::new("/sys/class/net").join(device).join("carrier"))?;
    Ok(carrier.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(namespace: Option<&str>) -> NodeFacts {
        NodeFacts::here(namespace.map(str::to_owned))
    }

    #[test]
    fn ends_that_share_a_device_or_a_namespace_make_its_settings_once() {
        let point = fabricmark_testkit::point(
            "pattern=stream,transport=udp,family=4,payload=64,link=veth,\
             host_settings=tso=off,sysctl:net.core.rmem_max=1000,governor=performance",
        );
        let mut claims = Claims::default();
        let mut take =
            |facts: &NodeFacts, device: &str| claims.take(&point, facts, device).join(" ");
        let all = "tso=off sysctl:net.core.rmem_max=1000 governor=performance";
        assert_eq!(take(&facts(Some("client")), "eth"), all);
        // Another namespace of the same machine.
        let of_other = "tso=off sysctl:net.core.rmem_max=1000";
        assert_eq!(take(&facts(Some("server")), "eth"), of_other);
        // A second group of flows at the same nodes, over other devices.
        assert_eq!(take(&facts(Some("client")), "ib"), "tso=off");
        assert_eq!(take(&facts(Some("server")), "eth"), "");
        let agent = |boot: &str| NodeFacts {
            carrier: Carrier::Agent,
            boot: Some(boot.to_owned()),
            ..facts(None)
        };
        assert_eq!(take(&agent("one"), "eth"), all);
        assert_eq!(take(&agent("other"), "eth"), all);
        // Two nodes at one agent.
        assert_eq!(take(&agent("one"), "eth"), "");
    }
}
