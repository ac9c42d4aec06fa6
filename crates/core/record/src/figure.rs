//! Figures and their provenance, and the limits of the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fabricmark_plan::Figure;
use fabricmark_wire::{Ceiling, Floor, Kind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Origin of a figure. Reports never mix figures of different provenance without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Measured with real sockets over a real path.
    Measured,
    /// Measured with real sockets over an emulated path.
    Emulated,
    /// Computed by a model.
    Modelled,
    /// Printed in a publication.
    Published,
}

/// A value and its provenance. The key that holds it names the unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sourced {
    /// Value in the base unit of its key.
    pub value: f64,
    /// Origin of the value.
    pub provenance: Provenance,
}

/// Results of a run: the figures that its pattern yields. In JSON an object with their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(BTreeMap<Figure, Sourced>);

/// What the wire allows for this point; empty on a link without a wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Upper bounds of the goodput, the hard bound first.
    pub ceilings: Vec<Ceiling>,
    /// Lower bound of the RTT. Absent if a token bucket emulates the wire, since it passes a message within its burst
    /// at once.
    pub rtt_floor: Option<Floor>,
}

impl Limits {
    /// Hard upper bound of the goodput in bit/s.
    pub fn bound_bps(&self) -> Option<f64> {
        Some(self.bound()?.goodput_bps.as_f64())
    }

    /// Upper bound in bit/s of the arrival rate over any interval. It is above the bound of the goodput behind a relay on a
    /// hub: bytes that the relay already holds cross the medium only once more.
    pub fn arrival_bound_bps(&self) -> Option<f64> {
        let bound = self.bound()?;
        Some(bound.goodput_bps.as_f64() * bound.crossings() as f64)
    }

    /// Whether the bound is that of two directions, each of which has half of it.
    pub fn is_of_both_ways(&self) -> bool {
        self.bound().is_some_and(Ceiling::is_of_both_ways)
    }

    fn bound(&self) -> Option<&Ceiling> {
        self.ceilings.iter().find(|ceiling| ceiling.kind == Kind::Bound)
    }
}

impl Figures {
    /// A figure; `None` if the pattern does not yield it.
    pub fn get(&self, figure: Figure) -> Option<Sourced> {
        self.0.get(&figure).copied()
    }

    /// A figure, for changes.
    pub fn get_mut(&mut self, figure: Figure) -> Option<&mut Sourced> {
        self.0.get_mut(&figure)
    }

    /// Value of a figure in its base unit.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        Some(self.get(figure)?.value)
    }

    /// Mean RTT, or mean step of ping-ping.
    pub fn time_mean(&self) -> Option<Sourced> {
        self.get(Figure::Rtt).or(self.get(Figure::Step))
    }

    /// Sets a figure. `None` removes it, and so does a value that is not finite: JSON has no infinity and no NaN.
    pub fn set(&mut self, figure: Figure, value: Option<Sourced>) {
        match value.filter(|sourced| sourced.value.is_finite()) {
            Some(value) => self.0.insert(figure, value),
            None => self.0.remove(&figure),
        };
    }
}

impl FromIterator<(Figure, Sourced)> for Figures {
    /// Values that are not finite are left out, as in [`Figures::set`].
    fn from_iter<I: IntoIterator<Item = (Figure, Sourced)>>(figures: I) -> Self {
        Self(figures.into_iter().filter(|(_, sourced)| sourced.value.is_finite()).collect())
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(figure, value)| (figure.spec().key, value)))
    }
}

impl<'de> Deserialize<'de> for Figures {
    /// `null` is accepted: earlier versions wrote it for figures that the pattern does not yield.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_finite_are_no_figures() {
        let of = |value| Sourced { value, provenance: Provenance::Measured };
        for value in [f64::INFINITY, f64::NAN] {
            let mut figures = Figures::from_iter([(Figure::Rtt, of(value))]);
            figures.set(Figure::Goodput, Some(of(value)));
            assert_eq!(figures, Figures::default());
        }
        let figures = Figures::from_iter([(Figure::Rtt, of(1.0))]);
        assert_eq!(figures.value(Figure::Rtt), Some(1.0));
    }
}
