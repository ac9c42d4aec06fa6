//! Offloads and interrupt coalescing of a network card.

use fabricmark_ethtool::{Coalescing, Ethtool, EthtoolError, Offload};

use super::finding::{Check, Evidence, Finding};

pub(super) const OFFLOADS: Check = Check {
    name: "offloads",
    why: "Without offloads the CPU processes every 1,500 bytes separately, with offloads up to 64 \
          KiB at once.",
};

pub(super) const COALESCING: Check = Check {
    name: "coalescing",
    why: "Interrupt coalescing delays received packets, which adds to every RTT. It reduces CPU \
          time at high packet rates.",
};

/// Longest coalescing delay that is not reported, in microseconds: more than this adds over a tenth to an RTT of
/// about 20 µs.
const RX_USECS_MAX: u32 = 2;

/// Ethtool settings of an interface; `None` if the driver does not report the setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// TCP segmentation offload, by the card.
    pub tso: Option<bool>,
    /// Generic segmentation offload, by the kernel just before the driver.
    pub gso: Option<bool>,
    /// Generic receive offload: merging of received segments by the kernel.
    pub gro: Option<bool>,
    /// Large receive offload: merging of received segments by the card.
    pub lro: Option<bool>,
    /// Receive interrupt coalescing delay (`rx-usecs`), in microseconds.
    pub rx_usecs: Option<u32>,
    /// Whether the card adapts `rx_usecs` to the load.
    pub adaptive_rx: Option<bool>,
}

/// Reads the settings of a device. Fails if there is no such device or no ethtool netlink.
pub fn settings(device: &str) -> Result<Settings, String> {
    read(device).map_err(|error| error.to_string())
}

fn read(device: &str) -> Result<Settings, EthtoolError> {
    let mut ethtool = Ethtool::open()?;
    let features = ethtool.features(device)?;
    let is_on = |offload: Offload| offload.is_on(&features);
    let Coalescing { rx_usecs, adaptive_rx, .. } = match ethtool.coalescing(device) {
        Err(EthtoolError::Refused { .. }) => Coalescing::default(),
        coalescing => coalescing?,
    };
    Ok(Settings {
        tso: is_on(Offload::Tso),
        gso: is_on(Offload::Gso),
        gro: is_on(Offload::Gro),
        lro: is_on(Offload::Lro),
        rx_usecs,
        adaptive_rx,
    })
}

const SOURCE: &str = "ethtool netlink";

fn word(setting: Option<bool>) -> &'static str {
    match setting {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

/// Judges segmentation and receive offloads.
pub(super) fn offloads(name: &str, settings: &Result<Settings, String>) -> Finding {
    let found = |value: &str| OFFLOADS.found(Evidence::new(format!("{SOURCE} {name}"), value));
    let Settings { tso, gso, gro, lro, .. } = match settings {
        Ok(settings) => *settings,
        Err(reason) => {
            let title = format!("Offloads of {name}: cannot be read");
            return found(reason).not_observable(title);
        }
    };
    let value =
        format!("tso {}, gso {}, gro {}, lro {}", word(tso), word(gso), word(gro), word(lro));
    let found = found(&value);
    let named = [("tso", tso), ("gso", gso), ("gro", gro)];
    let off: Vec<&str> =
        named.iter().filter(|(_, is_on)| *is_on == Some(false)).map(|(name, _)| *name).collect();
    if lro == Some(true) {
        found
            .warning(format!("{name} merges received packets irreversibly (LRO)"))
            .fixed_by(format!("ethtool -K {name} lro off"))
    } else if !off.is_empty() {
        found
            .warning(format!("Offloads of {name} are off: {}", off.join(", ")))
            .fixed_by(format!("ethtool -K {name} {} on", off.join(" on ")))
    } else if named.iter().all(|(_, is_on)| is_on.is_none()) {
        found.not_observable(format!("Offloads of {name}: not reported by the driver"))
    } else {
        found.fine(format!("Offloads of {name} are on"))
    }
}

/// Judges the receive interrupt coalescing delay.
pub(super) fn coalescing(name: &str, settings: &Result<Settings, String>) -> Finding {
    let found = |value: &str| COALESCING.found(Evidence::new(format!("{SOURCE} {name}"), value));
    let unseen = |why: &str| format!("Interrupt coalescing of {name}: {why}");
    let (rx_usecs, adaptive_rx) = match settings {
        Ok(Settings { rx_usecs: Some(rx_usecs), adaptive_rx, .. }) => (*rx_usecs, *adaptive_rx),
        Ok(_) => {
            let found = found("rx-usecs is not supported");
            return found.not_observable(unseen("not reported by the driver"));
        }
        Err(reason) => return found(reason).not_observable(unseen("cannot be read")),
    };
    let found = found(&format!("rx-usecs {rx_usecs}, adaptive-rx {}", word(adaptive_rx)));
    let command = format!("ethtool -C {name} adaptive-rx off rx-usecs 0");
    if adaptive_rx == Some(true) {
        found.warning(format!("{name} delays interrupts adaptively")).fixed_by(command)
    } else if rx_usecs > RX_USECS_MAX {
        found.warning(format!("{name} delays interrupts by {rx_usecs} µs")).fixed_by(command)
    } else {
        found.fine(format!("{name} delays interrupts by {rx_usecs} µs"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Warning};
    use super::*;

    #[test]
    fn the_loopback_says_what_it_offloads() {
        let settings = settings("lo").unwrap();
        assert!(settings.gso.is_some() && settings.gro.is_some());
        assert_eq!(settings.rx_usecs, None, "the loopback has no interrupts");
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        assert!(settings("no-such-device").is_err());
        assert!(settings("a-name-longer-than-any").is_err());
    }

    #[test]
    fn offloads_that_are_off_are_switched_on_by_one_command() {
        let on = Settings {
            tso: Some(true),
            gso: Some(true),
            gro: Some(true),
            lro: Some(false),
            ..Settings::default()
        };
        assert_eq!(offloads("eth0", &Ok(on)).severity, Fine);
        let off = Settings { tso: Some(false), gro: Some(false), ..on };
        let finding = offloads("eth0", &Ok(off));
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.remedy.as_deref(), Some("ethtool -K eth0 tso on gro on"));
        let merging = Settings { lro: Some(true), ..on };
        let remedy = offloads("eth0", &Ok(merging)).remedy;
        assert_eq!(remedy.as_deref(), Some("ethtool -K eth0 lro off"));
        assert_eq!(offloads("eth0", &Ok(Settings::default())).severity, NotObservable);
        assert_eq!(offloads("eth0", &Err("gone".to_owned())).severity, NotObservable);
    }

    #[test]
    fn interrupts_held_back_may_spoil() {
        let judge = |rx_usecs, adaptive_rx| {
            let settings = Settings { rx_usecs, adaptive_rx, ..Settings::default() };
            coalescing("eth0", &Ok(settings)).severity
        };
        assert_eq!(judge(Some(50), Some(false)), Warning);
        assert_eq!(judge(Some(0), Some(true)), Warning);
        assert_eq!(judge(Some(0), Some(false)), Fine);
        assert_eq!(judge(None, None), NotObservable);
    }
}
