//! Switches and hubs, at which links meet.

use std::fmt;

use fabricmark_link::{Forwarding, LinkOptions};
use fabricmark_units::Nanos;
use fabricmark_wire::{Link, MTU_DEFAULT};
use serde::Deserialize;

/// A switch or a hub. Hosts and routers attached to it are in one network.
#[derive(Clone, Debug)]
pub enum Junction {
    /// Forwards each packet to the port that leads to its destination.
    Switch {
        /// When it starts to forward a packet.
        forwarding: Forwarding,
        /// Delay of each packet inside.
        delay: Nanos,
    },
    /// Carries one packet at a time, whichever link it comes from.
    Hub {
        /// Technology of the medium.
        link: Link,
    },
}

/// Preamble and destination address of an Ethernet frame: a cut-through switch forwards after these bytes.
const LOOK_BYTES: u32 = 14;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSwitch {
    #[serde(default)]
    forwarding: FileForwarding,
    delay: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileForwarding {
    #[default]
    Store,
    CutThrough,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileHub {
    link: String,
}

impl FileSwitch {
    pub(super) fn check(self) -> Result<Junction, String> {
        let forwarding = match self.forwarding {
            FileForwarding::Store => Forwarding::Store,
            FileForwarding::CutThrough => Forwarding::CutThrough { look_bytes: LOOK_BYTES },
        };
        let delay = self.delay.map_or(Ok(Nanos(0)), |text| text.parse());
        let delay = delay.map_err(|error| format!("`delay`: {error}"))?;
        Ok(Junction::Switch { forwarding, delay })
    }
}

impl FileHub {
    pub(super) fn check(self) -> Result<Junction, String> {
        let link: Link = self.link.parse().map_err(|error| format!("`link`: {error}"))?;
        if fabricmark_link::Line::of(link).is_none() {
            return Err(format!("`link`: {link} has no rate: give one such as ethernet:100M"));
        }
        Ok(Junction::Hub { link })
    }
}

impl Junction {
    /// `switch` or `hub`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "switch",
            Self::Hub { .. } => "hub",
        }
    }

    /// Default options of its links: the MTU of a hub.
    pub(super) fn options_of_links(&self) -> LinkOptions {
        let mut options = LinkOptions::default();
        if let Self::Hub { link } = self
            && link.mtu() != MTU_DEFAULT
        {
            // Options accept each MTU that a link can have.
            let _ = options.set("mtu", &link.mtu().to_string());
        }
        options
    }
}

impl fmt::Display for Junction {
    /// Its settings, as in a topology file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch { forwarding, delay } => {
                let forwarding = match forwarding {
                    Forwarding::Store => "store",
                    Forwarding::CutThrough { .. } => "cut-through",
                };
                write!(f, "forwarding={forwarding} delay={delay}")
            }
            Self::Hub { link } => write!(f, "link={link}"),
        }
    }
}
