//! The kinds of settings, each declared once.

use fabricmark_ethtool::Offload;

use crate::error::Cause;
use crate::nic::{Group, Parameter};
use crate::place::{Place, Sysctl};
use crate::setting::Setting;
use crate::system::{System, numbers};
use crate::value::Values;

/// A kind of setting.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Its name, as in `key=value`.
    pub key: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// Whether it is a setting of a device; otherwise it is one of the namespace or of the machine.
    pub is_of_device: bool,
    /// Values that it accepts. The kernel may accept fewer.
    pub values: Values,
    /// Where its values are, in the order in which they are written.
    pub places: Places,
    /// What the kernel may change together with it. It is put back after it.
    pub affects: &'static [Place],
}

/// Key of the kind whose settings have a name, as in `sysctl:net.ipv4.tcp_sack`.
pub(crate) const SYSCTL: &str = "sysctl";

/// Numbers of which the device knows the range.
const NUMBER: Values = Values::Number(0, u32::MAX);

/// All kinds.
pub(crate) static KINDS: [Kind; 20] = [
    Kind {
        key: "mtu",
        about: "MTU in bytes",
        is_of_device: true,
        values: Values::Number(68, i32::MAX as u32),
        places: |_, _, _| Ok(vec![Place::Mtu]),
        affects: &[],
    },
    offload("tso", "TCP segmentation by the device", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::Tso))])
    }),
    offload("gso", "segmentation by the kernel just before the driver", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::Gso))])
    }),
    offload("gro", "merging of received segments by the kernel", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::Gro))])
    }),
    offload("lro", "merging of received segments by the device", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::Lro))])
    }),
    offload("rx-checksum", "verification of received checksums by the device", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::RxChecksum))])
    }),
    offload("tx-checksum", "computation of sent checksums by the device", |_, _, _| {
        Ok(vec![Place::Offload(Group(Offload::TxChecksum))])
    }),
    Kind {
        key: "rx-usecs",
        about: "delay of receive interrupts in µs",
        is_of_device: true,
        values: NUMBER,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::RxUsecs)]),
        affects: &[],
    },
    Kind {
        key: "tx-usecs",
        about: "delay of send interrupts in µs",
        is_of_device: true,
        values: NUMBER,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::TxUsecs)]),
        affects: &[],
    },
    Kind {
        key: "adaptive-rx",
        about: "whether the device adapts rx-usecs to the load",
        is_of_device: true,
        values: Values::Switch,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::AdaptiveRx)]),
        affects: &[],
    },
    Kind {
        key: "adaptive-tx",
        about: "whether the device adapts tx-usecs to the load",
        is_of_device: true,
        values: Values::Switch,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::AdaptiveTx)]),
        affects: &[],
    },
    Kind {
        key: "rx-ring",
        about: "receive ring of each queue in descriptors",
        is_of_device: true,
        values: NUMBER,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::RxRing)]),
        affects: &[],
    },
    Kind {
        key: "tx-ring",
        about: "send ring of each queue in descriptors",
        is_of_device: true,
        values: NUMBER,
        places: |_, _, _| Ok(vec![Place::Parameter(Parameter::TxRing)]),
        affects: &[],
    },
    Kind {
        key: "ipoib-mode",
        about: "IPoIB mode",
        is_of_device: true,
        values: Values::Words(&["datagram", "connected"]),
        places: |_, _, _| Ok(vec![Place::IpoibMode]),
        // `ipoib_set_mode` in drivers/infiniband/ulp/ipoib/ipoib_main.c sets the MTU of the mode.
        affects: &[Place::Mtu],
    },
    Kind {
        key: "rps",
        about: "CPU mask of receive packet steering, for all receive queues",
        is_of_device: true,
        values: Values::Mask,
        places: |_, system, device| queues(system, device, "rx-", Place::Rps),
        affects: &[],
    },
    Kind {
        key: "xps",
        about: "CPU mask of transmit packet steering, for all transmit queues",
        is_of_device: true,
        values: Values::Mask,
        places: |_, system, device| queues(system, device, "tx-", Place::Xps),
        affects: &[],
    },
    Kind {
        key: "qdisc",
        about: "kind of the root queueing discipline, with its default options",
        is_of_device: true,
        values: Values::Name,
        places: |_, _, _| Ok(vec![Place::Qdisc]),
        affects: &[],
    },
    Kind {
        key: "busy-poll",
        about: "time for which sockets poll a receive queue, in µs (net.core.busy_poll, busy_read)",
        is_of_device: false,
        values: Values::Number(0, i32::MAX as u32),
        places: |_, _, _| {
            ["net.core.busy_poll", "net.core.busy_read"].map(sysctl).into_iter().collect()
        },
        affects: &[],
    },
    Kind {
        key: "governor",
        about: "CPU frequency governor, of all CPUs",
        is_of_device: false,
        values: Values::Name,
        places: |_, system, _| {
            let policies = numbers(&system.policies()?, "policy");
            some(policies.into_iter().map(Place::Governor), "the CPUs have no frequency governor")
        },
        affects: &[],
    },
    Kind {
        key: SYSCTL,
        about: "a sysctl of the network namespace",
        is_of_device: false,
        values: Values::Text,
        places: |setting, _, _| {
            let name = setting.sysctl.clone().map(Place::Sysctl);
            some(name.into_iter(), "a sysctl has a name")
        },
        affects: &[],
    },
];

type Places = fn(&Setting, &System, &str) -> Result<Vec<Place>, Cause>;

const fn offload(key: &'static str, about: &'static str, places: Places) -> Kind {
    Kind { key, about, is_of_device: true, values: Values::Switch, places, affects: &[] }
}

fn queues(
    system: &System,
    device: &str,
    prefix: &str,
    place: fn(u32) -> Place,
) -> Result<Vec<Place>, Cause> {
    let numbers = numbers(&system.device_folder(device)?.join("queues"), prefix);
    some(numbers.into_iter().map(place), "the device has no such queues")
}

fn some(places: impl Iterator<Item = Place>, otherwise: &str) -> Result<Vec<Place>, Cause> {
    let places: Vec<Place> = places.collect();
    if places.is_empty() { Err(Cause::NoSetting(otherwise.to_owned())) } else { Ok(places) }
}

fn sysctl(name: &str) -> Result<Place, Cause> {
    Sysctl::try_from(name.to_owned()).map(Place::Sysctl).map_err(Cause::NoSetting)
}
