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

/// Key of the kind whose settings belong to the machine.
pub(crate) const GOVERNOR: &str = "governor";

/// Numbers of which the device knows the range.
const NUMBER: Values = Values::Number(0, u32::MAX);

/// All kinds.
pub(crate) static KINDS: [Kind; 20] = [
    kind("mtu", "MTU in bytes", Values::Number(68, i32::MAX as u32), |_, _, _| {
        Ok(vec![Place::Mtu])
    }),
    kind("tso", "TCP segmentation by the device", Values::Switch, |_, _, _| offload(Offload::Tso)),
    kind("gso", "segmentation by the kernel just before the driver", Values::Switch, |_, _, _| {
        offload(Offload::Gso)
    }),
    kind("gro", "merging of received segments by the kernel", Values::Switch, |_, _, _| {
        offload(Offload::Gro)
    }),
    kind("lro", "merging of received segments by the device", Values::Switch, |_, _, _| {
        offload(Offload::Lro)
    }),
    kind(
        "rx-checksum",
        "verification of received checksums by the device",
        Values::Switch,
        |_, _, _| offload(Offload::RxChecksum),
    ),
    kind(
        "tx-checksum",
        "computation of sent checksums by the device",
        Values::Switch,
        |_, _, _| offload(Offload::TxChecksum),
    ),
    kind("rx-usecs", "delay of receive interrupts in µs", NUMBER, |_, _, _| {
        parameter(Parameter::RxUsecs)
    }),
    kind("tx-usecs", "delay of send interrupts in µs", NUMBER, |_, _, _| {
        parameter(Parameter::TxUsecs)
    }),
    kind(
        "adaptive-rx",
        "whether the device adapts `rx-usecs` to the load",
        Values::Switch,
        |_, _, _| parameter(Parameter::AdaptiveRx),
    ),
    kind(
        "adaptive-tx",
        "whether the device adapts `tx-usecs` to the load",
        Values::Switch,
        |_, _, _| parameter(Parameter::AdaptiveTx),
    ),
    kind("rx-ring", "receive ring of each queue in descriptors", NUMBER, |_, _, _| {
        parameter(Parameter::RxRing)
    }),
    kind("tx-ring", "send ring of each queue in descriptors", NUMBER, |_, _, _| {
        parameter(Parameter::TxRing)
    }),
    Kind {
        // `ipoib_set_mode` in drivers/infiniband/ulp/ipoib/ipoib_main.c sets the MTU of the mode.
        affects: &[Place::Mtu],
        ..kind(
            "ipoib-mode",
            "mode of IPoIB",
            Values::Words(&["datagram", "connected"]),
            |_, _, _| Ok(vec![Place::IpoibMode]),
        )
    },
    kind(
        "rps",
        "CPU mask of receive packet steering, for all receive queues",
        Values::Mask,
        |_, system, device| queues(system, device, "rx-", Place::Rps),
    ),
    kind(
        "xps",
        "CPU mask of transmit packet steering, for all transmit queues",
        Values::Mask,
        |_, system, device| queues(system, device, "tx-", Place::Xps),
    ),
    kind(
        "qdisc",
        "kind of the root queueing discipline, with its default options",
        Values::Name,
        |_, _, _| Ok(vec![Place::Qdisc]),
    ),
    Kind {
        is_of_device: false,
        ..kind(
            "busy-poll",
            "time for which sockets poll a receive queue, in µs (net.core.busy_poll, busy_read)",
            Values::Number(0, i32::MAX as u32),
            |_, _, _| {
                ["net.core.busy_poll", "net.core.busy_read"].map(sysctl).into_iter().collect()
            },
        )
    },
    Kind {
        is_of_device: false,
        ..kind(GOVERNOR, "CPU frequency governor, of all CPUs", Values::Name, |_, system, _| {
            let policies = numbers(&system.policies()?, "policy");
            let otherwise = "the CPUs have no frequency governor";
            some(policies.into_iter().map(Place::Governor), otherwise)
        })
    },
    Kind {
        is_of_device: false,
        ..kind(
            SYSCTL,
            "a sysctl of the network namespace, by name",
            Values::Text,
            |setting, _, _| {
                let name = setting.sysctl.clone().map(Place::Sysctl);
                some(name.into_iter(), "a sysctl has a name")
            },
        )
    },
];

type Places = fn(&Setting, &System, &str) -> Result<Vec<Place>, Cause>;

/// A kind of setting of a device that affects nothing else.
const fn kind(key: &'static str, about: &'static str, values: Values, places: Places) -> Kind {
    Kind { key, about, is_of_device: true, values, places, affects: &[] }
}

fn offload(offload: Offload) -> Result<Vec<Place>, Cause> {
    Ok(vec![Place::Offload(Group(offload))])
}

fn parameter(parameter: Parameter) -> Result<Vec<Place>, Cause> {
    Ok(vec![Place::Parameter(parameter)])
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
