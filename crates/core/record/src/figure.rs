//! Figures with their provenance, and the limits beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fabricmark_plan::Figure;
use fabricmark_wire::{Ceiling, Floor, Kind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a figure comes from. Figures of different provenance are never mixed without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Real sockets over a real path.
    Measured,
    /// Real sockets over a path that imitates another one.
    Emulated,
    /// Computed.
    Modelled,
    /// Printed by somebody else.
    Published,
}

/// A value and where it comes from; the unit stands in the key that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sourced {
    /// The value in the base unit of its key.
    pub value: f64,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// What a run found: the figures that its pattern yields. In JSON an object with their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(BTreeMap<Figure, Sourced>);

/// What the wire allows for this point; empty on a link that has no wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Upper bounds of the goodput, the hard one first.
    pub ceilings: Vec<Ceiling>,
    /// Lower bound of the round trip; absent where a token bucket stands for the wire, since it
    /// passes a message that fits into it at once.
    pub rtt_floor: Option<Floor>,
}

impl Limits {
    /// The hard ceiling of the goodput in bit/s.
    pub fn bound_bps(&self) -> Option<f64> {
        let bound = self.ceilings.iter().find(|ceiling| ceiling.kind == Kind::Bound)?;
        Some(bound.goodput_bps.as_f64())
    }
}

impl Figures {
    /// A figure; `None` where the pattern does not yield it.
    pub fn get(&self, figure: Figure) -> Option<Sourced> {
        self.0.get(&figure).copied()
    }

    /// A figure to change.
    pub fn get_mut(&mut self, figure: Figure) -> Option<&mut Sourced> {
        self.0.get_mut(&figure)
    }

    /// Its value in the base unit.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        Some(self.get(figure)?.value)
    }

    /// Mean RTT, or mean step of ping-ping.
    pub fn time_mean(&self) -> Option<Sourced> {
        self.get(Figure::Rtt).or(self.get(Figure::Step))
    }

    /// Sets a figure; without a value it is not yielded.
    pub fn set(&mut self, figure: Figure, value: Option<Sourced>) {
        match value {
            Some(value) => self.0.insert(figure, value),
            None => self.0.remove(&figure),
        };
    }
}

impl FromIterator<(Figure, Sourced)> for Figures {
    fn from_iter<I: IntoIterator<Item = (Figure, Sourced)>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(figure, value)| (figure.spec().key, value)))
    }
}

impl<'de> Deserialize<'de> for Figures {
    /// Earlier versions wrote `null` for a figure that was not yielded.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found: BTreeMap<String, Option<Sourced>> = Deserialize::deserialize(deserializer)?;
        Ok(found
            .into_iter()
            .filter_map(|(key, value)| Some((Figure::keyed(&key)?, value?)))
            .collect())
    }
}

impl JsonSchema for Figures {
    fn schema_name() -> Cow<'static, str> {
        "Figures".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Sourced>();
        let properties: serde_json::Map<String, serde_json::Value> = Figure::ALL
            .into_iter()
            .map(|figure| {
                let mut property = value.clone();
                property.insert("description".to_owned(), figure.about().into());
                (figure.spec().key.to_owned(), property.to_value())
            })
            .collect();
        json_schema!({
            "description": "What a run found: the figures that its pattern yields.",
            "type": "object",
            "properties": properties,
        })
    }
}
