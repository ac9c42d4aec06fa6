//! TUN devices: packets that a namespace sends into one are read from a file here, and the other way round.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::namespace::Namespace;
use crate::offload::Offload;
use crate::privilege;
use crate::sys;
use crate::tool::LabError;

/// A network device of a namespace whose other end is this value. Dropping it removes the device.
///
/// It carries IP packets behind an [`Offload`] header: super-packets of up to 64 KiB whose segments and checksums
/// are not made yet.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

/// Bytes of the largest packet: 64 KiB of IP, for IPv6 without its own header, and the [`Offload`] header.
pub(crate) const PACKET_MAX: usize = Offload::BYTES + 65_536 + 40;

impl Tun {
    /// Creates a device with a name of at most 15 bytes; it is down and has no address.
    pub fn new(namespace: &Namespace, name: &str) -> Result<Self, LabError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let open = || options.open("/dev/net/tun");
        let file = namespace.within(open).map_err(|error| privilege::no_tun(&error))?;
        let make = || {
            sys::make_tun(&file, name)?;
            let segments = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
            let datagrams = libc::TUN_F_USO4 | libc::TUN_F_USO6;
            // Segmentation of datagrams exists since Linux 6.2.
            sys::set_tun_offloads(&file, libc::TUN_F_CSUM | segments | datagrams)
                .or_else(|_| sys::set_tun_offloads(&file, libc::TUN_F_CSUM | segments))
        };
        let made = namespace.within(make);
        made.map_err(|error| privilege::refused("create a TUN device", &error))?;
        Ok(Self { file })
    }

    /// Makes the kernel segment super-packets before they are read here. This costs the kernel much less than senders
    /// that hand over single segments (`gso_max_segs 1`), since what is below TCP is done once for all segments.
    pub fn take_single_packets(&self) -> Result<(), LabError> {
        sys::set_tun_offloads(&self.file, libc::TUN_F_CSUM)
            .map_err(LabError::system("disable segmentation offload of a device"))
    }

    /// Reads the next packet that the namespace sent; `None` if there is none. `bytes` must have room for
    /// [`PACKET_MAX`].
    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, bytes) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Delivers a packet to the namespace: `headers`, then `payload`.
    pub(crate) fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        let parts = [io::IoSlice::new(headers), io::IoSlice::new(payload)];
        rustix::io::writev(&self.file, &parts)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
