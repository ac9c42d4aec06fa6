//! SMC (RFC 7609): TCP sockets whose bytes travel over RDMA, unless they fall back to TCP, which only sock_diag
//! reports.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use fabricmark_proto::Failure;
use fabricmark_wire::Family;
use socket2::Protocol;

use crate::failure::system;
use fabricmark_telemetry::netlink::{
    self, ANSWER_BYTES, BY_FAMILY, DONE, ERROR, Messages, REQUEST, attribute, message, read,
};

/// `AF_SMC` (linux/socket.h).
pub(crate) const DOMAIN: i32 = 43;

/// `SMCPROTO_SMC` and `SMCPROTO_SMC6` (net/smc/smc.h): over IPv4 and IPv6.
pub(crate) fn protocol(family: Family) -> Protocol {
    Protocol::from(match family {
        Family::V4 => 0,
        Family::V6 => 1,
    })
}

/// Fails if a connection fell back to TCP: such a run says nothing about SMC.
pub(crate) fn check(streams: &[TcpStream]) -> Result<(), Failure> {
    for stream in streams {
        match mode(stream)
            .map_err(system("read the mode of an SMC socket (run `modprobe smc_diag`)"))?
        {
            Some(FALLBACK) => {
                return Err(Failure::Peer(
                    "SMC fell back to TCP: both ends need an RDMA adapter at these addresses, and over RoCEv2 a \
                     common EID (`smcr ueid add NAME`)"
                        .to_owned(),
                ));
            }
            Some(_) => {}
            None => {
                let message = "smc_diag does not list an open SMC socket".to_owned();
                return Err(Failure::System(message));
            }
        }
    }
    Ok(())
}

/// `SMC_DIAG_MODE_FALLBACK_TCP` (linux/smc_diag.h).
const FALLBACK: u8 = 1;

/// `NLM_F_REQUEST | NLM_F_DUMP` and `NLM_F_REQUEST | NLM_F_ACK`.
const DUMP: u16 = 0x301;
const ACKNOWLEDGED: u16 = 5;

/// Length of `struct smc_diag_req`; offsets of mode and inode in `struct smc_diag_msg`.
const DIAG_BYTES: usize = 52;
const MODE_AT: usize = 2;
const INODE_AT: usize = 56;

/// Mode of a connection; `None` if the kernel does not list the socket.
fn mode(stream: &TcpStream) -> io::Result<Option<u8>> {
    let inode = rustix::fs::fstat(stream)?.st_ino;
    let mut socket = netlink::socket(libc::NETLINK_SOCK_DIAG)?;
    let mut request = [0; DIAG_BYTES];
    request[0] = DOMAIN as u8;
    socket.write_all(&message(BY_FAMILY, DUMP, &request))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let mut found = None;
    loop {
        let bytes = socket.read(&mut answer)?;
        for (kind, body) in Messages(&answer[..bytes]) {
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::ErrorKind::Unsupported.into()),
                _ if read(body, INODE_AT) == Some(inode) => found = body.get(MODE_AT).copied(),
                _ => {}
            }
        }
    }
}

/// Adds a user EID to this network namespace, unless it exists: SMC over RoCEv2 needs a common one at both ends. Up
/// to 32 of `A` to `Z`, digits, dots and dashes.
pub fn add_eid(name: &str) -> io::Result<()> {
    let mut socket = netlink::socket(libc::NETLINK_GENERIC)?;
    let mut ask = |kind: u16, flags: u16, command: u8, attribute: u16, value: &[u8]| {
        let mut body = vec![command, 1, 0, 0];
        body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        body.extend_from_slice(&attribute.to_ne_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
        socket.write_all(&message(kind, flags, &body))?;
        let mut answer = vec![0; ANSWER_BYTES];
        let bytes = socket.read(&mut answer)?;
        let (kind, body) = Messages(&answer[..bytes]).next().ok_or(io::ErrorKind::InvalidData)?;
        let code: i32 = read(body, 0).unwrap_or_default();
        match kind == ERROR && code != 0 {
            true => Err(io::Error::from_raw_os_error(code.abs())),
            false => Ok(body.to_vec()),
        }
    };
    let family = ask(CONTROL, REQUEST, GET_FAMILY, FAMILY_NAME, b"SMC_GEN_NETLINK\0")?;
    let id = attribute(family.get(4..).unwrap_or_default(), FAMILY_ID);
    let id: u16 = id.and_then(|value| read(value, 0)).ok_or(io::ErrorKind::NotFound)?;
    match ask(id, ACKNOWLEDGED, ADD_UEID, EID_ENTRY, format!("{name:<32}\0").as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map(|_| ()),
    }
}

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME` and `CTRL_ATTR_FAMILY_ID` (linux/genetlink.h).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;

/// `SMC_NETLINK_ADD_UEID` and `SMC_NLA_EID_TABLE_ENTRY` (linux/smc.h).
const ADD_UEID: u8 = 10;
const EID_ENTRY: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_by_its_inode_among_others() {
        let mut bytes = Vec::new();
        for (inode, mode) in [(7u64, 1u8), (9, 0)] {
            let mut body = [0; 64];
            body[MODE_AT] = mode;
            body[INODE_AT..].copy_from_slice(&inode.to_ne_bytes());
            bytes.extend_from_slice(&message(BY_FAMILY, 0, &body));
        }
        let modes: Vec<_> = Messages(&bytes)
            .map(|(_, body)| (read::<u64>(body, INODE_AT), body[MODE_AT]))
            .collect();
        assert_eq!(modes, [(Some(7), 1), (Some(9), 0)]);
    }
}
