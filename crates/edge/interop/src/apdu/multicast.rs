//! Multicast groups.

use std::io;
use std::net::{IpAddr, UdpSocket};

use socket2::{InterfaceIndexOrAddress, SockRef};

/// Joins a group at every device that has an address, so that it does not depend on routes.
///
/// # Errors
/// If no device could join: the last error.
pub fn join(socket: &UdpSocket, group: IpAddr) -> io::Result<()> {
    let mut indexes: Vec<u32> =
        if_addrs::get_if_addrs()?.into_iter().filter_map(|device| device.index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    let socket = SockRef::from(socket);
    let mut joined = Err(io::ErrorKind::NotFound.into());
    for index in indexes {
        let result = match group {
            IpAddr::V4(group) => {
                socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
            }
            IpAddr::V6(group) => socket.join_multicast_v6(&group, index),
        };
        joined = match (joined, result) {
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (_, failed) => failed,
        };
    }
    joined
}

/// Sends multicasts of a socket through a device, given by its name.
pub(super) fn send_through(socket: &UdpSocket, group: IpAddr, device: &str) -> io::Result<()> {
    let devices = if_addrs::get_if_addrs()?.into_iter().filter(|known| known.name == device);
    let socket = SockRef::from(socket);
    let mut result = Err(io::Error::new(io::ErrorKind::NotFound, format!("no device {device}")));
    for known in devices {
        result = match (group, known.ip(), known.index) {
            (IpAddr::V4(_), IpAddr::V4(address), _) => socket.set_multicast_if_v4(&address),
            (IpAddr::V6(_), _, Some(index)) => socket.set_multicast_if_v6(index),
            _ => continue,
        };
    }
    result
}
