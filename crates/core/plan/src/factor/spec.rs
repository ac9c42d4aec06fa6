//! How a factor is declared.

use crate::level::{Kind, Level};

use super::Point;

/// Declaration of a factor.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub(super) key: &'static str,
    pub(super) earlier_key: Option<&'static str>,
    pub(super) about: &'static str,
    /// The table of `docs/plan-file.md` that lists it.
    pub section: Section,
    /// Form of its levels.
    pub kind: Kind,
    /// Whether every plan must set it.
    pub is_required: bool,
    /// Whether `none` is a level, so that a plan can have points with and without this factor.
    pub has_none: bool,
    /// The default, as text for the documentation.
    pub unset: &'static str,
    /// Format of a level in a heading; `{}` stands for the level.
    pub shown: &'static str,
    /// Heading above its levels; empty: the key.
    pub name: &'static str,
    /// Option of `measure`; empty if it equals the key.
    pub flag: &'static str,
    /// Letter of the short option, as in iperf3.
    pub letter: Option<char>,
    /// Whether the probe flow has the same level: true for factors of the network rather than of the load.
    pub is_shared: bool,
    pub(super) applies: fn(&Point) -> bool,
    pub(super) default: fn(&Point) -> Option<Level>,
}

/// A table of `docs/plan-file.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Factors that every plan must set.
    Required,
    /// Responses, direction, flows, pace and probe.
    Traffic,
    /// Emulated link: RTT, impairments, host bus and offload.
    Link,
    /// System calls, waiting and timestamps.
    Calls,
    /// Socket options.
    Socket,
    /// RDMA work requests and queue pairs.
    Rdma,
    /// MPI: the benchmark, its ranks and how they communicate.
    Mpi,
    /// The bookstore: its browsers, data, and the links between its tiers.
    Shop,
    /// Factors that `[[group]]` sets; no table lists them.
    Group,
}

impl Section {
    /// All tables, in the order of the page.
    pub const ALL: [Self; 8] = [
        Self::Required,
        Self::Traffic,
        Self::Link,
        Self::Calls,
        Self::Socket,
        Self::Rdma,
        Self::Mpi,
        Self::Shop,
    ];

    /// Whether its factors are options of `measure`. Those of MPI are options of `fabricmark-mpi`, those
    /// of the bookstore of `fabricmark shop`.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Group | Self::Mpi | Self::Shop)
    }

    pub(super) const fn of(self, kind: Kind) -> Spec {
        Spec {
            key: "",
            earlier_key: None,
            about: "",
            section: self,
            kind,
            is_required: matches!(self, Self::Required),
            has_none: false,
            unset: "none",
            shown: "",
            name: "",
            flag: "",
            letter: None,
            is_shared: false,
            applies: |_| true,
            default: |_| None,
        }
    }
}

impl Spec {
    /// A level in a heading: `4 flows`, `1 flow`. Empty if the factor has no format for it.
    pub fn heading(&self, level: &str) -> String {
        let text = self.shown.replace("{}", level);
        match text.strip_suffix('s') {
            Some(one) if level == "1" => one.to_owned(),
            _ => text,
        }
    }

    pub(super) const fn when(self, applies: fn(&Point) -> bool) -> Self {
        Self { applies, ..self }
    }

    pub(super) const fn unset(self, unset: &'static str) -> Self {
        Self { unset, ..self }
    }

    pub(super) const fn default(
        self,
        unset: &'static str,
        default: fn(&Point) -> Option<Level>,
    ) -> Self {
        Self { unset, default, ..self }
    }

    pub(super) const fn or_none(self) -> Self {
        Self { has_none: true, ..self }
    }

    pub(super) const fn shown(self, shown: &'static str) -> Self {
        Self { shown, ..self }
    }

    pub(super) const fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    pub(super) const fn letter(self, letter: char) -> Self {
        Self { letter: Some(letter), ..self }
    }

    pub(super) const fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }
}
