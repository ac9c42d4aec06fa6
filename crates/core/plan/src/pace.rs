//! Pace: when payloads depart, as text and as a value.
//!
//! Pattern, transport and pace are independent of each other. With `closed` (a closed loop) the next payload
//! departs when the last one is done. Every other pace is an open loop: its departures are fixed before the run
//! starts, except those that follow TCP_INFO, and a [`Schedule`] lists them.

mod schedule;
mod trace;

use std::fmt;
use std::str::FromStr;

use fabricmark_link::Model;
use fabricmark_units::{BitRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use schedule::Schedule;
pub use trace::Trace;

use crate::invalid::Invalid;

/// When the payloads of a flow depart. As text: `closed`, `fixed:1G`, `poisson:1000/s`,
/// `burst:64KiB/10ms`, `on-off:1G/10ms/40ms/pareto`, `follow-rtt`, `follow-delivery:8KiB/1ms`, `trace:FILE`, and P5's `model-1`, `model-2` and
/// `model-100`, which are bursts.
///
/// A value that the grammar would refuse, such as a rate of 0, has no schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Pace {
    /// The next payload goes when the last one is done.
    #[default]
    Closed,
    /// Departures at equal intervals, the first at the start.
    Fixed(Rate),
    /// Random departures with exponential gaps, the first after one gap.
    Poisson(Rate),
    /// Payloads back to back, then silence until the end of the period: an on/off departure schedule of P5 (its
    /// figure 8; Model 100 is `burst:62487/5995us`).
    ///
    /// Payloads are not split. A period sends the payloads whose first byte falls into its share of the byte
    /// stream, which is `bytes` give or take less than one payload. The difference is carried over, so that the
    /// mean rate is exact. If payloads are larger than `bytes`, some periods send nothing.
    Burst {
        /// Application bytes per period.
        bytes: Bytes,
        /// Time from the start of a burst to the start of the next.
        period: Nanos,
    },
    /// Random periods in which payloads depart at equal intervals, and random pauses between them: an on/off source.
    OnOff {
        /// Rate during a period.
        rate: Rate,
        /// Mean length of a period.
        on: Nanos,
        /// Mean length of a pause.
        off: Nanos,
        /// Distribution of both.
        lengths: Lengths,
    },
    /// Bursts of `bytes`, at first every `period`, whose period then follows a measurement of the connection.
    Follow {
        /// What it follows.
        law: Law,
        /// Application bytes per period.
        bytes: Bytes,
        /// Time from the start of a burst to the start of the next, until there is a measurement.
        period: Nanos,
    },
    /// Departures listed in a file; see [`Trace`].
    Trace(String),
}

/// Distribution of the periods and pauses of [`Pace::OnOff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lengths {
    /// Exponential.
    Exponential,
    /// Pareto with shape 1.5, whose variance is infinite: many such sources together are self-similar, as traffic of local
    /// networks is (Willinger, Taqqu, Sherman and Wilson 1997: shapes between 1 and 2).
    Pareto,
}

impl Lengths {
    const ALL: [Self; 2] = [Self::Exponential, Self::Pareto];

    fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Pareto => "pareto",
        }
    }
}

/// What [`Pace::Follow`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// TCP's smoothed RTT, as P5 proposes: a rate of 2 x 8 x 1024 bit / RTT. It measures latency, not what the network
    /// has room for.
    Rtt,
    /// The delivery rate that TCP measures.
    Delivery,
}

impl Law {
    const ALL: [Self; 2] = [Self::Rtt, Self::Delivery];

    fn name(self) -> &'static str {
        match self {
            Self::Rtt => "follow-rtt",
            Self::Delivery => "follow-delivery",
        }
    }
}

impl FromStr for Pace {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let unknown = || {
            Invalid(format!(
                "`{text}` is not a pace; use closed, fixed:RATE, poisson:RATE, burst:BYTES/PERIOD, model-1, \
                 model-2, model-100, on-off:RATE/ON/OFF, follow-rtt, follow-delivery or trace:FILE"
            ))
        };
        if text == "closed" {
            return Ok(Self::Closed);
        }
        if let Some(Model { bytes, period, .. }) = Model::named(text) {
            return Ok(Self::Burst { bytes, period });
        }
        if let Some(law) = Law::ALL.into_iter().find(|law| law.name() == text) {
            let Self::Burst { bytes, period } = "model-100".parse()? else { return Err(unknown()) };
            return Ok(Self::Follow { law, bytes, period });
        }
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        if let Some(law) = Law::ALL.into_iter().find(|law| law.name() == kind) {
            let Self::Burst { bytes, period } = burst(rest)? else { return Err(unknown()) };
            return Ok(Self::Follow { law, bytes, period });
        }
        match kind {
            "fixed" => rest.parse().map(Self::Fixed),
            "poisson" => rest.parse().map(Self::Poisson),
            "burst" => burst(rest),
            "on-off" => on_off(rest),
            // The key of a point separates levels by spaces.
            "trace" if rest.is_empty() || rest.contains(|c: char| c.is_whitespace()) => {
                Err(Invalid(format!("`{rest}` is not a file name without spaces")))
            }
            "trace" => Ok(Self::Trace(rest.to_owned())),
            _ => Err(unknown()),
        }
    }
}

fn burst(text: &str) -> Result<Pace, Invalid> {
    let parsed = || {
        let (bytes, period) = text.split_once('/')?;
        let (bytes, period): (Bytes, Nanos) = (bytes.parse().ok()?, period.parse().ok()?);
        (bytes.0 > 0 && period.0 > 0).then_some(Pace::Burst { bytes, period })
    };
    parsed().ok_or_else(|| {
        Invalid(format!(
            "`{text}` is not a burst such as 64KiB/10ms, with bytes and period above 0"
        ))
    })
}

fn on_off(text: &str) -> Result<Pace, Invalid> {
    let parsed = || {
        let mut parts = text.splitn(4, '/');
        let mut rate = parts.next()?.to_owned();
        let mut next = parts.next()?;
        // A rate in payloads has a slash of its own: 1000/s.
        if next == "s" {
            rate += "/s";
            next = parts.next()?;
        }
        let rest: Vec<&str> = parts.flat_map(|part| part.split('/')).collect();
        let (off, lengths) = match rest.as_slice() {
            [off] => (off, Lengths::Exponential),
            [off, lengths] => {
                (off, Lengths::ALL.into_iter().find(|known| known.name() == *lengths)?)
            }
            _ => return None,
        };
        let (rate, on, off): (Rate, Nanos, Nanos) =
            (rate.parse().ok()?, next.parse().ok()?, off.parse().ok()?);
        (on.0 > 0 && off.0 > 0).then_some(Pace::OnOff { rate, on, off, lengths })
    };
    parsed().ok_or_else(|| {
        Invalid(format!(
            "`{text}` is not an on/off source such as 1G/10ms/40ms or 1G/10ms/40ms/pareto: rate, mean period, mean \
             pause, and their distribution"
        ))
    })
}

impl fmt::Display for Pace {
    /// The shortest exact form that the parser reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "closed"),
            Self::Fixed(rate) => write!(f, "fixed:{rate}"),
            Self::Poisson(rate) => write!(f, "poisson:{rate}"),
            Self::OnOff { rate, on, off, lengths } => {
                write!(f, "on-off:{rate}/{on}/{off}")?;
                match lengths {
                    Lengths::Exponential => Ok(()),
                    Lengths::Pareto => write!(f, "/{}", lengths.name()),
                }
            }
            Self::Burst { bytes, period } => match Model::of(*bytes, *period) {
                Some(model) => f.write_str(model.name),
                None => write!(f, "burst:{bytes}/{period}"),
            },
            Self::Follow { law, bytes, period } => {
                f.write_str(law.name())?;
                match Model::of(*bytes, *period) {
                    Some(Model { name: "model-100", .. }) => Ok(()),
                    _ => write!(f, ":{bytes}/{period}"),
                }
            }
            Self::Trace(file) => write!(f, "trace:{file}"),
        }
    }
}

impl TryFrom<String> for Pace {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Pace> for String {
    fn from(pace: Pace) -> Self {
        pace.to_string()
    }
}

/// Rate of departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// Application bits per second.
    Bits(BitRate),
    /// Payloads per second.
    PerSecond(u64),
}

impl FromStr for Rate {
    type Err = Invalid;

    /// Reads `1G`, `10Mbit/s` (bits) and `1000/s` (payloads).
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bits = || text.parse().ok().map(Self::Bits);
        let per_second = || text.strip_suffix("/s")?.parse().ok().map(Self::PerSecond);
        bits()
            .or_else(per_second)
            .filter(|rate| !matches!(rate, Self::Bits(BitRate(0)) | Self::PerSecond(0)))
            .ok_or_else(|| {
                Invalid(format!("`{text}` is not a rate above 0 such as 100M, 1G or 1000/s"))
            })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(rate) => write!(f, "{rate}"),
            Self::PerSecond(count) => write!(f, "{count}/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paces_are_read_as_people_write_them() {
        let gigabit = Rate::Bits(BitRate(1_000_000_000));
        for (text, pace) in [
            ("closed", Pace::Closed),
            ("fixed:1G", Pace::Fixed(gigabit)),
            ("fixed:1Gbit/s", Pace::Fixed(gigabit)),
            ("poisson:10Mbit", Pace::Poisson(Rate::Bits(BitRate(10_000_000)))),
            ("poisson:1000/s", Pace::Poisson(Rate::PerSecond(1000))),
            (
                "burst:64KiB/10ms",
                Pace::Burst { bytes: Bytes(65_536), period: Nanos::from_millis(10) },
            ),
            ("model-100", Pace::Burst { bytes: Bytes(62_487), period: Nanos(5_995_000) }),
            ("model-2", Pace::Burst { bytes: Bytes(209), period: Nanos(16_000) }),
            (
                "on-off:1G/10ms/40ms",
                Pace::OnOff {
                    rate: gigabit,
                    on: Nanos::from_millis(10),
                    off: Nanos::from_millis(40),
                    lengths: Lengths::Exponential,
                },
            ),
            (
                "on-off:1000/s/1s/2s/pareto",
                Pace::OnOff {
                    rate: Rate::PerSecond(1000),
                    on: Nanos::from_secs(1),
                    off: Nanos::from_secs(2),
                    lengths: Lengths::Pareto,
                },
            ),
            ("trace:departures.txt", Pace::Trace("departures.txt".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(pace), "{text}");
        }
        assert_eq!(Pace::default(), Pace::Closed);
    }

    #[test]
    fn what_is_no_pace_is_refused_with_what_would_be_one() {
        for (text, message) in [
            (
                "open",
                "`open` is not a pace; use closed, fixed:RATE, poisson:RATE, burst:BYTES/PERIOD, \
                 model-1, model-2, model-100, on-off:RATE/ON/OFF, follow-rtt, follow-delivery or trace:FILE",
            ),
            ("fixed:0", "`0` is not a rate above 0 such as 100M, 1G or 1000/s"),
            ("poisson:0/s", "`0/s` is not a rate above 0 such as 100M, 1G or 1000/s"),
            ("fixed:1.5/s", "`1.5/s` is not a rate above 0 such as 100M, 1G or 1000/s"),
            (
                "burst:64KiB",
                "`64KiB` is not a burst such as 64KiB/10ms, with bytes and period above 0",
            ),
            (
                "burst:0/10ms",
                "`0/10ms` is not a burst such as 64KiB/10ms, with bytes and period above 0",
            ),
            (
                "burst:1K/0ns",
                "`1K/0ns` is not a burst such as 64KiB/10ms, with bytes and period above 0",
            ),
            (
                "on-off:1G/10ms/40ms/normal",
                "`1G/10ms/40ms/normal` is not an on/off source such as 1G/10ms/40ms or 1G/10ms/40ms/pareto: rate, mean \
                 period, mean pause, and their distribution",
            ),
            ("trace:", "`` is not a file name without spaces"),
            ("trace:a b", "`a b` is not a file name without spaces"),
        ] {
            assert_eq!(text.parse::<Pace>().unwrap_err().to_string(), message, "{text}");
        }
        assert!("closed:1G".parse::<Pace>().is_err());
        assert!("".parse::<Pace>().is_err());
    }

    #[test]
    fn a_pace_travels_as_text() {
        let pace = Pace::Fixed(Rate::PerSecond(1000));
        let json = serde_json::to_string(&pace).unwrap();
        assert_eq!(json, r#""fixed:1000/s""#);
        assert_eq!(serde_json::from_str::<Pace>(&json).unwrap(), pace);
        assert!(serde_json::from_str::<Pace>(r#""fixed:0""#).is_err());
        let schema = serde_json::to_value(schemars::schema_for!(Pace)).unwrap();
        assert_eq!(schema["type"], "string");
    }

    fn rate() -> impl Strategy<Value = Rate> {
        prop_oneof![
            (1u64..).prop_map(|bps| Rate::Bits(BitRate(bps))),
            (1u64..).prop_map(Rate::PerSecond),
        ]
    }

    fn pace() -> impl Strategy<Value = Pace> {
        prop_oneof![
            Just(Pace::Closed),
            rate().prop_map(Pace::Fixed),
            rate().prop_map(Pace::Poisson),
            (1u64.., 1u64..).prop_map(|(bytes, period)| Pace::Burst {
                bytes: Bytes(bytes),
                period: Nanos(period)
            }),
            (rate(), 1u64.., 1u64.., 0..2_usize).prop_map(|(rate, on, off, lengths)| Pace::OnOff {
                rate,
                on: Nanos(on),
                off: Nanos(off),
                lengths: Lengths::ALL[lengths],
            }),
            "[^\\s]{1,40}".prop_map(Pace::Trace),
        ]
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_pace(pace in pace()) {
            prop_assert_eq!(pace.to_string().parse(), Ok(pace));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(fixed:|poisson:|burst:|on-off:|trace:)?.{0,24}") {
            let _ = text.parse::<Pace>();
        }
    }
}
