//! Routers in a row, written as one.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::TopologyError;
use super::error::NAME_MAX;
use super::file::{FileLink, FileNode};
use crate::network::LINKS_MAX;
use crate::qdisc::Backend;

/// `routers` routers NAME-r1, NAME-r2 and so on between two nodes, and the links NAME-1, NAME-2 and so on
/// between them, all of the same words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileChain {
    between: [String; 2],
    routers: usize,
    #[serde(default)]
    words: String,
    #[serde(default)]
    there: String,
    #[serde(default)]
    back: String,
    single: Option<bool>,
    #[serde(default)]
    backend: Backend,
}

impl FileChain {
    /// Adds its routers and links to those that stand in the file.
    pub(super) fn expand(
        self,
        name: &str,
        routers: &mut BTreeMap<String, FileNode>,
        links: &mut BTreeMap<String, FileLink>,
    ) -> Result<(), TopologyError> {
        let Self { between: [first, last], routers: count, words, there, back, single, backend } =
            self;
        if count >= LINKS_MAX {
            return Err(TopologyError::TooManyLinks(count.saturating_add(1)));
        }
        let router = |number: usize| match number {
            0 => first.clone(),
            _ if number > count => last.clone(),
            _ => format!("{name}-r{number}"),
        };
        if count > 0 && router(count).len() > NAME_MAX {
            return Err(TopologyError::Name { what: "router of a chain", name: router(count) });
        }
        for number in 1..=count {
            if routers.insert(router(number), FileNode::default()).is_some() {
                return Err(TopologyError::TwoThings(router(number)));
            }
        }
        for number in 1..=count + 1 {
            let between = [router(number - 1), router(number)];
            let (words, there, back) = (words.clone(), there.clone(), back.clone());
            let link = format!("{name}-{number}");
            let file = FileLink { between, words, there, back, single, backend };
            if links.insert(link.clone(), file).is_some() {
                return Err(TopologyError::TwoThings(link));
            }
        }
        Ok(())
    }
}
