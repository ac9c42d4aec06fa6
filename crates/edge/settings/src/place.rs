//! Where one value is read and written.

use std::fs::File;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Cause;
use crate::nic::{Group, Parameter};
use crate::qdisc;
use crate::system::{self, Device, System};
use crate::value;

/// Smallest MTU of a device with IPv6 addresses (RFC 8200, section 5). Below it, the kernel removes them
/// (`addrconf_notify` in net/ipv6/addrconf.c).
const IPV6_MTU_MIN: u32 = 1280;

/// One value of a device, of the network namespace or of the machine. The journal names it, so its serialised form is
/// that of files that an older version may have written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// MTU of the device in bytes.
    Mtu,
    /// `datagram` or `connected` (Documentation/infiniband/ipoib.rst).
    IpoibMode,
    /// CPUs that process the packets of a receive queue (Documentation/networking/scaling.rst).
    Rps(u32),
    /// CPUs that send through a transmit queue (the same).
    Xps(u32),
    /// Root queueing discipline.
    Qdisc,
    /// The requested features of an offload.
    Offload(Group),
    /// A parameter of interrupt coalescing or of the rings.
    Parameter(Parameter),
    /// A sysctl of the network namespace.
    Sysctl(Sysctl),
    /// Governor of a CPU frequency policy (Documentation/admin-guide/pm/cpufreq.rst).
    Governor(u32),
}

impl Place {
    /// Whether all network namespaces share the value.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::Governor(_))
    }

    /// Whether the value is one of a device.
    pub fn is_of_device(&self) -> bool {
        !matches!(self, Self::Governor(_) | Self::Sysctl(_))
    }

    /// Whether the kernel or the device may make another value of the one that is written: drivers round times and
    /// ring sizes, masks are limited to the CPUs of the machine, and a sysctl with several values sets only the first ones
    /// of an incomplete or invalid list.
    pub fn is_rounded(&self) -> bool {
        matches!(self, Self::Parameter(_) | Self::Rps(_) | Self::Xps(_) | Self::Sysctl(_))
    }

    /// Reads the value, in the form in which values are compared.
    pub fn read(&self, system: &System, device: &str) -> Result<String, Cause> {
        match self {
            Self::Qdisc => return qdisc::read(device),
            Self::Offload(group) => return system.ethtool(|ethtool| group.read(ethtool, device)),
            Self::Parameter(parameter) => {
                return system.ethtool(|ethtool| parameter.read(ethtool, device));
            }
            _ => {}
        }
        let text = system::read(&self.file(system, device)?)?;
        Ok(match self {
            Self::Rps(_) | Self::Xps(_) => value::mask(&text)
                .ok_or_else(|| Cause::NoSetting(format!("{text:?} is no mask")))?,
            Self::Sysctl(_) => value::words(&text),
            _ => text,
        })
    }

    /// The value that is written for what a user wrote, in the form in which values are compared.
    pub fn resolve(&self, system: &System, device: &str, value: &str) -> Result<String, Cause> {
        match self {
            Self::Offload(group) => {
                system.ethtool(|ethtool| group.resolve(ethtool, device, value == "on"))
            }
            _ => Ok(value.to_owned()),
        }
    }

    /// Writes a value. `lock` is a locked file that a program which does it keeps open.
    pub fn write(
        &self,
        system: &System,
        device: &Device,
        value: &str,
        lock: &File,
    ) -> Result<(), Cause> {
        let index = device.index;
        let device = &device.name;
        match self {
            Self::Mtu => system.set_mtu(device, index, value),
            Self::Qdisc => qdisc::write(device, value, lock),
            Self::Offload(group) => system.ethtool(|ethtool| group.write(ethtool, device, value)),
            Self::Parameter(parameter) => {
                system.ethtool(|ethtool| parameter.write(ethtool, device, value))
            }
            Self::Rps(_) | Self::Xps(_) => {
                system::write(&self.file(system, device)?, &value::mask_in_parts(value))
            }
            _ => system::write(&self.file(system, device)?, value),
        }
    }

    /// Refuses a change that cannot be undone by writing the old value.
    pub fn check(
        &self,
        system: &System,
        device: &Device,
        old: &str,
        new: &str,
    ) -> Result<(), Cause> {
        let not = |reason: String| Err(Cause::NotRestorable(reason));
        let Device { name, .. } = device;
        match self {
            Self::Qdisc if old != qdisc::DEFAULT => not(format!(
                "its qdisc {old} was set by somebody, and its options could not be put back: \
                 remove it first with `tc qdisc del dev {name} root`"
            )),
            Self::Mtu
                if new.parse::<u32>().is_ok_and(|mtu| mtu < IPV6_MTU_MIN)
                    && system.has_ipv6(name) =>
            {
                not(format!(
                    "below {IPV6_MTU_MIN} bytes the kernel removes the device's IPv6 addresses, \
                     which could not be put back"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is such a value. Values that are not in files are taken to exist.
    pub fn exists(&self, system: &System, device: &str) -> bool {
        match self {
            Self::Qdisc | Self::Offload(_) | Self::Parameter(_) => true,
            _ => self.file(system, device).is_ok_and(|path| path.exists()),
        }
    }

    fn file(&self, system: &System, device: &str) -> Result<PathBuf, Cause> {
        let below = |path: &str| Ok(system.device_folder(device)?.join(path));
        match self {
            Self::Mtu => below("mtu"),
            Self::IpoibMode => below("mode"),
            Self::Rps(queue) => below(&format!("queues/rx-{queue}/rps_cpus")),
            Self::Xps(queue) => below(&format!("queues/tx-{queue}/xps_cpus")),
            Self::Sysctl(Sysctl(name)) => Ok(system.sysctl(name)),
            Self::Governor(policy) => {
                Ok(system.policies()?.join(format!("policy{policy}/scaling_governor")))
            }
            Self::Qdisc | Self::Offload(_) | Self::Parameter(_) => {
                Err(Cause::NoSetting("it is not in a file".to_owned()))
            }
        }
    }
}

/// The name of a sysctl that an experiment may vary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Sysctl(String);

/// Sysctls that change nothing but their own value. Others cannot be put back by writing the old value: for example
/// `net.ipv4.ip_forward` resets the settings of all devices (Documentation/networking/ip-sysctl.rst), and
/// `net.ipv6.conf.*.disable_ipv6` removes addresses.
/// Those of `net.core` for BPF are not settings of a network, and guard the kernel.
pub(crate) const SYSCTLS: [&str; 15] = [
    "net.core.busy_",
    "net.core.dev_weight",
    "net.core.flow_limit_",
    "net.core.netdev_",
    "net.core.optmem_max",
    "net.core.rmem_",
    "net.core.rps_",
    "net.core.somaxconn",
    "net.core.wmem_",
    "net.ipv4.tcp_",
    "net.ipv4.udp_",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ipfrag_",
    "net.ipv6.ip6frag_",
    "net.mptcp.",
];

impl Sysctl {
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Sysctl {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_name = |part: &str| {
            let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !part.is_empty() && part.chars().all(is_in_name)
        };
        if !name.split('.').all(is_name) {
            return Err(format!(
                "`{name}` is not the name of a sysctl: use letters, digits, `_` and `-` between \
                 single dots"
            ));
        }
        if SYSCTLS.iter().any(|known| name.starts_with(known)) {
            return Ok(Self(name));
        }
        Err(format!(
            "`{name}` is not a sysctl that can surely be put back: use one that begins with {}",
            SYSCTLS.join(", ")
        ))
    }
}

impl From<Sysctl> for String {
    fn from(Sysctl(name): Sysctl) -> Self {
        name
    }
}
