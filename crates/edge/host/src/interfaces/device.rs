//! What the kernel reports about the devices of a network namespace by netlink and ioctl.

use std::os::fd::OwnedFd;

use fabricmark_ethtool::netlink::{NetlinkError, string};
use fabricmark_ethtool::{Channels, Coalescing, Ethtool, Feature, Rings};
use rustix::net::{AddressFamily, SocketType, socket};

use super::address::addresses;
use super::link::{Link, link_named, links};
use crate::sys;

/// A device; what its driver does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    pub link: Link,
    /// Addresses in CIDR form.
    pub addresses: Vec<String>,
    pub driver: Option<Driver>,
    pub features: Vec<Feature>,
    pub coalescing: Option<Coalescing>,
    pub rings: Option<Rings>,
    pub channels: Option<Channels>,
    pub speed: fabricmark_ethtool::Link,
}

/// `struct ethtool_drvinfo` of linux/ethtool.h: `ethtool -i`. An empty field is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Driver {
    pub name: Option<String>,
    pub firmware: Option<String>,
}

/// Lengths of `ETHTOOL_BUSINFO_LEN` and `ETHTOOL_FWVERS_LEN`, and offsets in the structure.
const STRING_BYTES: usize = 32;
const DRIVER_AT: usize = 4;
const FIRMWARE_AT: usize = DRIVER_AT + 2 * STRING_BYTES;

impl Driver {
    pub fn of(info: &[u8; sys::DRIVER_INFO_BYTES]) -> Self {
        let field = |at: usize| {
            let text = string(&info[at..at + STRING_BYTES])?.trim();
            // Drivers without firmware leave it empty, or say so.
            (!matches!(text, "" | "N/A" | "n/a")).then(|| text.to_owned())
        };
        Self { name: field(DRIVER_AT), firmware: field(FIRMWARE_AT) }
    }
}

/// The devices of the network namespace of the calling thread.
pub(super) fn devices() -> Result<Vec<Device>, NetlinkError> {
    let (all, mut settings) = (addresses()?, Settings::open());
    let complete = |link: Link| {
        let own = all.iter().filter(|address| address.index == link.index);
        let addresses = own.map(|address| format!("{}/{}", address.ip, address.prefix)).collect();
        Device { addresses, ..settings.of(link) }
    };
    Ok(links()?.into_iter().map(complete).collect())
}

/// The device of this name in the network namespace of the calling thread, without its addresses.
pub(super) fn device(name: &str) -> Result<Device, NetlinkError> {
    Ok(Settings::open().of(link_named(name)?))
}

/// Sockets that read the settings of devices; `None` if the kernel does not have them.
struct Settings {
    ethtool: Option<Ethtool>,
    ioctl: Option<OwnedFd>,
}

impl Settings {
    fn open() -> Self {
        let ioctl = socket(AddressFamily::INET, SocketType::DGRAM, None).ok();
        Self { ethtool: Ethtool::open().ok(), ioctl }
    }

    fn of(&mut self, link: Link) -> Device {
        let name = link.name.clone();
        let of = |socket: &OwnedFd| sys::driver_info(socket, &name).ok();
        let driver = self.ioctl.as_ref().and_then(of).map(|info| Driver::of(&info));
        let device = Device { link, driver, ..Device::default() };
        let Some(ethtool) = &mut self.ethtool else { return device };
        Device {
            features: ethtool.features(&name).unwrap_or_default(),
            coalescing: ethtool.coalescing(&name).ok(),
            rings: ethtool.rings(&name).ok(),
            channels: ethtool.channels(&name).ok(),
            speed: ethtool.link(&name).unwrap_or_default(),
            ..device
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_has_a_name_and_its_device_a_firmware() {
        let mut info = [0; sys::DRIVER_INFO_BYTES];
        info[4..11].copy_from_slice(b"mlx4_en");
        info[36..40].copy_from_slice(b"4.0-");
        info[68..77].copy_from_slice(b"2.42.5000");
        let expected =
            Driver { name: Some("mlx4_en".to_owned()), firmware: Some("2.42.5000".to_owned()) };
        assert_eq!(Driver::of(&info), expected);
        info[68..77].copy_from_slice(b"N/A\0\0\0\0\0\0");
        assert_eq!(Driver::of(&info).firmware, None);
        assert_eq!(Driver::of(&[0xff; sys::DRIVER_INFO_BYTES]), Driver::default());
    }

    #[test]
    fn the_loopback_has_an_address_and_features() {
        let devices = devices().unwrap();
        let lo = devices.iter().find(|device| device.link.name == "lo").unwrap();
        assert!(lo.addresses.contains(&"127.0.0.1/8".to_owned()), "{lo:?}");
        assert!(!lo.features.is_empty());
        assert_eq!(lo.coalescing, None);
    }
}
