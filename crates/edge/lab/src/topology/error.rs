//! Why a text describes no lab.

use super::networks::HOSTS_MAX;
use crate::network::LINKS_MAX;

/// Why a text describes no lab.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// It is no TOML, or has a key that nobody knows.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A name cannot be one.
    #[error(
        "{what} `{name}`: names have 1 to {NAME_MAX} letters, digits and dashes, as network devices do"
    )]
    Name {
        /// Of what.
        what: &'static str,
        /// As it stands there.
        name: String,
    },
    /// One name for a host and a router.
    #[error("`{0}` is a host and a router: a router is a host that forwards; name it once")]
    Twice(String),
    /// One name for a switch or a hub and something else.
    #[error("`{0}` is the name of two things: name each once")]
    TwoThings(String),
    /// A switch, a hub or the bus of a node cannot be as it was said.
    #[error("`{name}`: {error}")]
    Junction {
        /// Its name.
        name: String,
        /// What is wrong.
        error: String,
    },
    /// A link closes a circle.
    #[error(
        "link `{0}` makes a circle of switches and hubs, in which packets would have no one way: leave \
         it out"
    )]
    Circle(String),
    /// More than addresses reach.
    #[error("the network of link `{link}` has {nodes} ends: at most {HOSTS_MAX} have addresses")]
    TooManyEnds {
        /// The first of its links.
        link: String,
        /// How many ends at hosts and routers.
        nodes: usize,
    },
    /// A link ends nowhere.
    #[error("link `{link}` ends at `{node}`, which is no host, router, switch or hub{hint}")]
    NoNode {
        /// The link.
        link: String,
        /// What it names.
        node: String,
        /// The nearest name.
        hint: String,
    },
    /// A link ends where it begins.
    #[error("both ends of link `{0}` are at one node: name two")]
    Loop(String),
    /// What a link does cannot be read.
    #[error("link `{link}`: {error}")]
    Words {
        /// The link.
        link: String,
        /// What is wrong.
        error: String,
    },
    /// A setting that would not be the lab's alone.
    #[error(
        "node `{node}`: `{key}` is a setting of this machine, not of a node: only `net.` ones are"
    )]
    Sysctl {
        /// The node.
        node: String,
        /// The name of the setting.
        key: String,
    },
    /// More than addresses reach.
    #[error("a lab has at most {LINKS_MAX} links, this has {0}")]
    TooManyLinks(usize),
}

/// Longest name of a network device: IFNAMSIZ with its zero byte is 16.
pub(super) const NAME_MAX: usize = 15;
