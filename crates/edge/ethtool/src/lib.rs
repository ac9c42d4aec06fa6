//! Settings of network devices by ethtool netlink (Documentation/networking/ethtool-netlink.rst in the kernel): what
//! ethtool(8) shows with `-k`, `-c`, `-g` and `-l`, and sets with `-K`, `-C` and `-G`.
//!
//! After a setting the value is read again, because the kernel may keep another one without an error.

mod error;
pub mod message;
pub mod netlink;
mod offload;

use std::fmt::Display;

use libc::{CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL};
use netlink_packet_core::DefaultNla;

pub use error::EthtoolError;
pub use message::{Channels, Coalescing, Connector, Duplex, Feature, Link, Rings};
pub use offload::Offload;

use message::{
    BITSET_BIT_NAME, BITSET_BIT_VALUE, BITSET_BITS, BITSET_BITS_BIT, COALESCE_RX_MAX_FRAMES,
    COALESCE_RX_USECS, COALESCE_TX_MAX_FRAMES, COALESCE_TX_USECS, COALESCE_USE_ADAPTIVE_RX,
    COALESCE_USE_ADAPTIVE_TX, RINGS_RX, RINGS_TX,
};
use netlink::{Netlink, NetlinkError, attribute, bodies, encoded, nest, number, put, put_string};

/// `ETHTOOL_GENL_NAME` and `ETHTOOL_GENL_VERSION` of linux/ethtool_netlink.h.
const FAMILY: &str = "ethtool";
const VERSION: u8 = 1;

/// Length of `struct genlmsghdr` (linux/genetlink.h): command, version, and two reserved bytes.
const GENL_HEADER_BYTES: usize = 4;

// Commands `ETHTOOL_MSG_*` of linux/ethtool_netlink.h.
const LINKINFO_GET: u8 = 2;
const LINKMODES_GET: u8 = 4;
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const RINGS_GET: u8 = 15;
const RINGS_SET: u8 = 16;
const CHANNELS_GET: u8 = 17;
const COALESCE_GET: u8 = 19;
const COALESCE_SET: u8 = 20;

/// The header of all requests is their attribute 1, `ETHTOOL_A_*_HEADER`, with `ETHTOOL_A_HEADER_DEV_NAME`.
const HEADER: u16 = 1;
const HEADER_DEV_NAME: u16 = 2;
/// `ETHTOOL_A_FEATURES_WANTED`.
const FEATURES_WANTED: u16 = 3;

/// Longest name of a device that the kernel accepts, an alternative name: `ALTIFNAMSIZ` of linux/if.h without the
/// terminating zero.
const NAME_BYTES_MAX: usize = 127;

/// Reads and sets the settings of the devices of one network namespace.
#[derive(Debug)]
pub struct Ethtool {
    netlink: Netlink,
    family: u16,
}

/// A generic netlink request.
fn command(command: u8, version: u8, attributes: &[DefaultNla]) -> Vec<u8> {
    [&[command, version, 0, 0], &encoded(attributes)[..]].concat()
}

impl Ethtool {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn open() -> Result<Self, EthtoolError> {
        let mut netlink = Netlink::open(libc::NETLINK_GENERIC).map_err(EthtoolError::Netlink)?;
        let name = put_string(CTRL_ATTR_FAMILY_NAME as u16, FAMILY);
        let request = command(CTRL_CMD_GETFAMILY as u8, 1, &[name]);
        let answer = match netlink.request(GENL_ID_CTRL as u16, 0, &request) {
            Err(NetlinkError::Rejected { errno: libc::ENOENT, .. }) => {
                return Err(EthtoolError::NoFamily);
            }
            answer => answer.map_err(EthtoolError::Netlink)?,
        };
        let family = bodies(&answer).find_map(|message| {
            let attributes = message.body.get(GENL_HEADER_BYTES..)?;
            number(attribute(attributes, CTRL_ATTR_FAMILY_ID as u16)?).map(u16::from_ne_bytes)
        });
        Ok(Self { netlink, family: family.ok_or(EthtoolError::NoFamily)? })
    }

    /// Sends a request about a device, with attributes besides the header; returns the datagrams of the answer.
    fn ask(
        &mut self,
        device: &str,
        subject: &'static str,
        number: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<Vec<u8>>, EthtoolError> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&device.len()) && !device.contains('\0');
        if !is_name {
            return Err(EthtoolError::NoDevice { device: device.to_owned() });
        }
        let mut all = vec![nest(HEADER, &[put_string(HEADER_DEV_NAME, device)])];
        all.extend(attributes);
        self.netlink
            .request(self.family, 0, &command(number, VERSION, &all))
            .map_err(|error| EthtoolError::of(device, subject, error))
    }

    /// Reads with the command `number`, and parses the answer.
    fn get<T>(
        &mut self,
        device: &str,
        subject: &'static str,
        number: u8,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, EthtoolError> {
        let answer = self.ask(device, subject, number, Vec::new())?;
        let parsed = bodies(&answer).find_map(|message| {
            (message.kind == self.family).then(|| parse(message.body.get(GENL_HEADER_BYTES..)?))?
        });
        let device = device.to_owned();
        parsed.ok_or(EthtoolError::Malformed { device, subject })
    }

    /// All features of a device, in the kernel's order.
    pub fn features(&mut self, device: &str) -> Result<Vec<Feature>, EthtoolError> {
        self.get(device, "features", FEATURES_GET, message::features)
    }

    /// Switches features on or off in one request. Fails with [`EthtoolError::Kept`] if the device does not follow, such
    /// as for a fixed feature, or for one that needs another one.
    pub fn set_features(
        &mut self,
        device: &str,
        wanted: &[(&str, bool)],
    ) -> Result<(), EthtoolError> {
        let bits: Vec<DefaultNla> = wanted
            .iter()
            .map(|(name, is_on)| {
                let name = put_string(BITSET_BIT_NAME, name);
                let value = is_on.then(|| put(BITSET_BIT_VALUE, &[]));
                nest(
                    BITSET_BITS_BIT,
                    &[Some(name), value].into_iter().flatten().collect::<Vec<_>>(),
                )
            })
            .collect();
        let request = nest(FEATURES_WANTED, &[nest(BITSET_BITS, &bits)]);
        self.ask(device, "features", FEATURES_SET, vec![request])?;
        let features = self.features(device)?;
        for (name, is_on) in wanted {
            let found = features.iter().find(|feature| feature.name == *name);
            if let Some(found) = found.filter(|found| found.is_on != *is_on) {
                return Err(kept(device, name, on_off(*is_on), on_off(found.is_on)));
            }
        }
        Ok(())
    }

    /// Interrupt coalescing. Fails with [`EthtoolError::Refused`] and EOPNOTSUPP for devices without interrupts.
    pub fn coalescing(&mut self, device: &str) -> Result<Coalescing, EthtoolError> {
        let parse = |body: &[u8]| Some(message::coalescing(body));
        self.get(device, "coalescing", COALESCE_GET, parse)
    }

    /// Sets the values that are not `None`.
    pub fn set_coalescing(
        &mut self,
        device: &str,
        wanted: &Coalescing,
    ) -> Result<(), EthtoolError> {
        let Coalescing { rx_usecs, rx_frames, tx_usecs, tx_frames, adaptive_rx, adaptive_tx } =
            *wanted;
        let word = |kind, value: Option<u32>| value.map(|value| put(kind, &value.to_ne_bytes()));
        let truth = |kind, value: Option<bool>| value.map(|value| put(kind, &[value.into()]));
        let attributes = [
            word(COALESCE_RX_USECS, rx_usecs),
            word(COALESCE_RX_MAX_FRAMES, rx_frames),
            word(COALESCE_TX_USECS, tx_usecs),
            word(COALESCE_TX_MAX_FRAMES, tx_frames),
            truth(COALESCE_USE_ADAPTIVE_RX, adaptive_rx),
            truth(COALESCE_USE_ADAPTIVE_TX, adaptive_tx),
        ];
        let attributes = attributes.into_iter().flatten().collect();
        self.ask(device, "coalescing", COALESCE_SET, attributes)?;
        let found = self.coalescing(device)?;
        follows(device, "rx-usecs", rx_usecs, found.rx_usecs)?;
        follows(device, "rx-frames", rx_frames, found.rx_frames)?;
        follows(device, "tx-usecs", tx_usecs, found.tx_usecs)?;
        follows(device, "tx-frames", tx_frames, found.tx_frames)?;
        let word = |value: Option<bool>| value.map(on_off);
        follows(device, "adaptive-rx", word(adaptive_rx), word(found.adaptive_rx))?;
        follows(device, "adaptive-tx", word(adaptive_tx), word(found.adaptive_tx))
    }

    /// Sizes of the rings.
    pub fn rings(&mut self, device: &str) -> Result<Rings, EthtoolError> {
        self.get(device, "rings", RINGS_GET, |body| Some(message::rings(body)))
    }

    /// Sets the sizes that are not `None`; the maxima are ignored.
    pub fn set_rings(&mut self, device: &str, wanted: &Rings) -> Result<(), EthtoolError> {
        let sizes = [(RINGS_RX, wanted.rx), (RINGS_TX, wanted.tx)];
        let attributes =
            sizes.into_iter().filter_map(|(kind, size)| Some(put(kind, &size?.to_ne_bytes())));
        self.ask(device, "rings", RINGS_SET, attributes.collect())?;
        let found = self.rings(device)?;
        follows(device, "rx ring", wanted.rx, found.rx)?;
        follows(device, "tx ring", wanted.tx, found.tx)
    }

    /// Numbers of channels.
    pub fn channels(&mut self, device: &str) -> Result<Channels, EthtoolError> {
        self.get(device, "channels", CHANNELS_GET, |body| Some(message::channels(body)))
    }

    /// Speed, lanes, duplex mode and connector of the link.
    pub fn link(&mut self, device: &str) -> Result<Link, EthtoolError> {
        let parse = |body: &[u8]| Some(message::link_modes(body));
        let modes = self.get(device, "link modes", LINKMODES_GET, parse)?;
        let parse = |body: &[u8]| Some(message::connector(body));
        let connector = self.get(device, "link information", LINKINFO_GET, parse)?;
        Ok(Link { connector, ..modes })
    }
}

/// `on` or `off`, as in ethtool(8).
pub fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn kept(device: &str, setting: &str, wanted: &str, found: &str) -> EthtoolError {
    let [device, setting, wanted, found] = [device, setting, wanted, found].map(str::to_owned);
    EthtoolError::Kept { device, setting, wanted, found }
}

/// Checks that a setting has the wanted value, if there is one.
fn follows<T: Display + PartialEq>(
    device: &str,
    setting: &str,
    wanted: Option<T>,
    found: Option<T>,
) -> Result<(), EthtoolError> {
    match wanted {
        Some(wanted) if found.as_ref() != Some(&wanted) => {
            let found = found.map_or_else(|| "not known".to_owned(), |found| found.to_string());
            Err(kept(device, setting, &wanted.to_string(), &found))
        }
        _ => Ok(()),
    }
}
