//! Settings of network cards by ethtool netlink.

use fabricmark_ethtool::{Coalescing, Ethtool, EthtoolError, Feature, Offload, Rings, on_off};
use serde::{Deserialize, Serialize};

use crate::error::Cause;

/// Value of an offload of which no feature is requested.
const NONE: &str = "none";

/// An offload. Its value is the list of its features that are requested, not of those in use: the kernel switches a
/// requested feature off while one that it needs is off, and on again together with that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Group(pub Offload);

impl Group {
    fn changeable(self, ethtool: &mut Ethtool, device: &str) -> Result<Vec<Feature>, Cause> {
        let mut features = ethtool.features(device).map_err(Cause::from)?;
        features.retain(|feature| self.0.has(&feature.name) && !feature.is_fixed);
        if features.is_empty() {
            let reason = format!("the device does not let {} be changed", self.0.name());
            return Err(Cause::NoSetting(reason));
        }
        Ok(features)
    }

    pub fn read(self, ethtool: &mut Ethtool, device: &str) -> Result<String, Cause> {
        let features = self.changeable(ethtool, device)?;
        Ok(named(features.iter().filter(|feature| feature.is_requested)))
    }

    /// The features that are requested when the offload is on or off.
    pub fn resolve(
        self,
        ethtool: &mut Ethtool,
        device: &str,
        is_on: bool,
    ) -> Result<String, Cause> {
        let features = self.changeable(ethtool, device)?;
        Ok(named(features.iter().filter(|_| is_on)))
    }

    pub fn write(self, ethtool: &mut Ethtool, device: &str, value: &str) -> Result<(), Cause> {
        let features = self.changeable(ethtool, device)?;
        let is_wanted = |name: &str| value.split(' ').any(|wanted| wanted == name);
        let wanted: Vec<(&str, bool)> =
            features.iter().map(|feature| (&*feature.name, is_wanted(&feature.name))).collect();
        match ethtool.set_features(device, &wanted) {
            // Of features that exclude each other only one is in use (`netdev_fix_features` in net/core/dev.c).
            Ok(()) | Err(EthtoolError::Kept { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let (wanted, kept) = (value != NONE, self.0.is_on(&ethtool.features(device)?));
        if kept == Some(wanted) {
            return Ok(());
        }
        Err(Cause::Kept {
            wanted: on_off(wanted).to_owned(),
            kept: on_off(kept.unwrap_or_default()).to_owned(),
        })
    }
}

fn named<'a>(features: impl Iterator<Item = &'a Feature>) -> String {
    let names: Vec<&str> = features.map(|feature| &*feature.name).collect();
    if names.is_empty() { NONE.to_owned() } else { names.join(" ") }
}

impl TryFrom<String> for Group {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Offload::ALL.into_iter().find(|offload| offload.name() == name);
        found.map(Self).ok_or_else(|| format!("`{name}` is no offload"))
    }
}

impl From<Group> for String {
    fn from(Group(offload): Group) -> Self {
        offload.name().to_owned()
    }
}

/// A parameter of interrupt coalescing or of the rings, named as in ethtool(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Parameter {
    RxUsecs,
    TxUsecs,
    AdaptiveRx,
    AdaptiveTx,
    RxRing,
    TxRing,
}

impl Parameter {
    pub fn read(self, ethtool: &mut Ethtool, device: &str) -> Result<String, Cause> {
        let word = |is_on: Option<bool>| is_on.map(|is_on| on_off(is_on).to_owned());
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let value = match self {
            Self::RxUsecs => number(ethtool.coalescing(device)?.rx_usecs),
            Self::TxUsecs => number(ethtool.coalescing(device)?.tx_usecs),
            Self::AdaptiveRx => word(ethtool.coalescing(device)?.adaptive_rx),
            Self::AdaptiveTx => word(ethtool.coalescing(device)?.adaptive_tx),
            Self::RxRing => number(ethtool.rings(device)?.rx),
            Self::TxRing => number(ethtool.rings(device)?.tx),
        };
        value.ok_or_else(|| Cause::NoSetting("the driver does not report it".to_owned()))
    }

    pub fn write(self, ethtool: &mut Ethtool, device: &str, value: &str) -> Result<(), Cause> {
        let (number, is_on) = (value.parse::<u32>().ok(), Some(value == "on"));
        let (coalescing, rings) = (Coalescing::default(), Rings::default());
        match self {
            Self::RxUsecs => {
                ethtool.set_coalescing(device, &Coalescing { rx_usecs: number, ..coalescing })
            }
            Self::TxUsecs => {
                ethtool.set_coalescing(device, &Coalescing { tx_usecs: number, ..coalescing })
            }
            Self::AdaptiveRx => {
                ethtool.set_coalescing(device, &Coalescing { adaptive_rx: is_on, ..coalescing })
            }
            Self::AdaptiveTx => {
                ethtool.set_coalescing(device, &Coalescing { adaptive_tx: is_on, ..coalescing })
            }
            Self::RxRing => ethtool.set_rings(device, &Rings { rx: number, ..rings }),
            Self::TxRing => ethtool.set_rings(device, &Rings { tx: number, ..rings }),
        }
        .map_err(Cause::from)
    }
}

impl From<EthtoolError> for Cause {
    fn from(error: EthtoolError) -> Self {
        let text = error.to_string();
        match error {
            EthtoolError::NoDevice { .. } => Self::NoDevice,
            EthtoolError::NoPrivilege { .. } => Self::NoPrivilege(text),
            EthtoolError::Kept { wanted, found, .. } => Self::Kept { wanted, kept: found },
            EthtoolError::NoFamily => Self::NoSetting(text),
            error if error.is_unsupported() => Self::NoSetting(text),
            _ => Self::Refused(text),
        }
    }
}
