//! Offloads and interrupt coalescing of a network card, read by the ethtool ioctl.

use std::io;

use rustix::net::{AddressFamily, SocketType, socket};

use super::finding::{Check, Evidence, Finding};
use crate::sys;

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

// Commands of linux/ethtool.h that need no privilege (`dev_ethtool` in net/ethtool/ioctl.c).
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;

/// LRO bit in the result of ETHTOOL_GFLAGS.
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Reads the settings of a device. Fails if there is no such device or no socket can be opened.
pub fn settings(device: &str) -> Result<Settings, String> {
    read(device).map_err(|error| error.to_string())
}

fn read(device: &str) -> io::Result<Settings> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // A setting that the driver does not support is `None`; a missing device is an error.
    let ask = |command: u32| {
        let mut words = [0; 23];
        words[0] = command;
        match sys::ask(&socket, device, &mut words) {
            Ok(()) => Ok(Some(words)),
            Err(error) if matches!(error.raw_os_error(), None | Some(libc::ENODEV)) => Err(error),
            Err(_) => Ok(None),
        }
    };
    // `struct ethtool_value` has its value in the second word.
    let is_on = |command| Ok::<_, io::Error>(ask(command)?.map(|words| words[1] != 0));
    // `struct ethtool_coalesce`: rx_coalesce_usecs is word 1, use_adaptive_rx_coalesce word 10.
    let coalescing = ask(ETHTOOL_GCOALESCE)?;
    Ok(Settings {
        tso: is_on(ETHTOOL_GTSO)?,
        gso: is_on(ETHTOOL_GGSO)?,
        gro: is_on(ETHTOOL_GGRO)?,
        lro: ask(ETHTOOL_GFLAGS)?.map(|words| words[1] & ETH_FLAG_LRO != 0),
        rx_usecs: coalescing.map(|words| words[1]),
        adaptive_rx: coalescing.map(|words| words[10] != 0),
    })
}

const SOURCE: &str = "ioctl SIOCETHTOOL";

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
            let found = found("ETHTOOL_GCOALESCE is not supported");
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
