//! The departure schedules of paper P5, by name.

use fabricmark_units::{Bytes, Nanos};

/// A departure schedule of P5 (figure 8): bytes that leave at the start of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// `model-100`
    pub name: &'static str,
    /// Bytes per period.
    pub bytes: Bytes,
    /// Length of a period.
    pub period: Nanos,
}

/// Model 2 is 104.5 Mbit/s, and not the 100 Mbit/s that the paper states: its period is rounded.
const MODELS: [Model; 3] = [
    Model { name: "model-1", bytes: Bytes(15_582), period: Nanos(5_947_000) },
    Model { name: "model-2", bytes: Bytes(209), period: Nanos(16_000) },
    Model { name: "model-100", bytes: Bytes(62_487), period: Nanos(5_995_000) },
];

impl Model {
    /// The model with this name.
    pub fn named(name: &str) -> Option<Self> {
        MODELS.into_iter().find(|model| model.name == name)
    }

    /// The model with these bytes and this period.
    pub fn of(bytes: Bytes, period: Nanos) -> Option<Self> {
        MODELS.into_iter().find(|model| (model.bytes, model.period) == (bytes, period))
    }
}
