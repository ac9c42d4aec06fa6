use crate::netlink::{NetlinkError, rejection};

/// Why settings of a device were not read or not set.
#[derive(Debug, thiserror::Error)]
pub enum EthtoolError {
    /// The kernel has no ethtool netlink (CONFIG_ETHTOOL_NETLINK), or none for settings.
    #[error("this kernel has no ethtool netlink; it needs Linux 5.7 with CONFIG_ETHTOOL_NETLINK")]
    NoFamily,
    /// There is no such device in the network namespace.
    #[error("{device}: no such network device")]
    NoDevice {
        /// Name of the device.
        device: String,
    },
    /// Setting needs CAP_NET_ADMIN.
    #[error("{device}: setting the {subject} needs CAP_NET_ADMIN; run as root")]
    NoPrivilege {
        /// Name of the device.
        device: String,
        /// What was to be set, such as `coalescing`.
        subject: &'static str,
    },
    /// The device, its driver or the kernel refused the request.
    #[error("{device}: {subject}: {}", rejection(*errno, message.as_deref()))]
    Refused {
        /// Name of the device.
        device: String,
        /// What was to be read or set, such as `coalescing`.
        subject: &'static str,
        /// Error number: EOPNOTSUPP if the driver has no such setting, EINVAL if the value is out of its range.
        errno: i32,
        /// The kernel's text, if there is one.
        message: Option<String>,
    },
    /// The kernel accepted a value, but the device has another one.
    #[error("{device}: {setting} is {found} after it was set to {wanted}")]
    Kept {
        /// Name of the device.
        device: String,
        /// Name of the setting as in ethtool(8), such as `rx-usecs`, or of the feature.
        setting: String,
        /// The value that was to be set.
        wanted: String,
        /// The value that the device has now.
        found: String,
    },
    /// The answer lacks an attribute that it must have.
    #[error("{device}: the kernel's answer about {subject} is malformed")]
    Malformed {
        /// Name of the device.
        device: String,
        /// What was to be read, such as `coalescing`.
        subject: &'static str,
    },
    /// The netlink socket failed.
    #[error(transparent)]
    Netlink(NetlinkError),
}

impl EthtoolError {
    /// Whether the driver has no such setting, or the kernel no such feature (EOPNOTSUPP).
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { errno: libc::EOPNOTSUPP, .. })
    }

    /// The error of a rejected request about `subject` of a device.
    pub(crate) fn of(device: &str, subject: &'static str, error: NetlinkError) -> Self {
        let device = device.to_owned();
        match error {
            NetlinkError::Rejected { errno: libc::ENODEV, .. } => Self::NoDevice { device },
            NetlinkError::Rejected { errno: libc::EPERM, .. } => {
                Self::NoPrivilege { device, subject }
            }
            NetlinkError::Rejected { errno, message } => {
                Self::Refused { device, subject, errno, message }
            }
            NetlinkError::Malformed(_) => Self::Malformed { device, subject },
            error @ NetlinkError::Socket(_) => Self::Netlink(error),
        }
    }
}
