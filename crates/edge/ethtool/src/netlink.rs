//! A netlink(7) socket that waits for the answers of the kernel, and attributes as bytes.

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable as _, NLA_F_NESTED, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED,
    NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer, NlaBuffer, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr};

/// Length of `struct nlmsghdr` (linux/netlink.h).
const HEADER_BYTES: usize = 16;

/// Attribute of an error with a text, `NLMSGERR_ATTR_MSG` (linux/netlink.h).
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket failed.
    #[error("the netlink socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The kernel rejected the request.
    #[error("{}", rejection(*errno, message.as_deref()))]
    Rejected {
        /// Error number, such as `EOPNOTSUPP` (errno(3)).
        errno: i32,
        /// The kernel's text (`NLMSGERR_ATTR_MSG`), if there is one.
        message: Option<String>,
    },
    /// The answer is not a netlink message.
    #[error("the kernel sent a malformed netlink message: {0}")]
    Malformed(String),
}

/// The text of a rejection: that of the error number, and the kernel's own.
pub(crate) fn rejection(errno: i32, message: Option<&str>) -> String {
    let error = io::Error::from_raw_os_error(errno).to_string();
    let error = error.split(" (os error").next().unwrap_or_default();
    message.map_or_else(|| error.to_owned(), |message| format!("{error}: {message}"))
}

/// A netlink message without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Type: a family, or one of the types of a family.
    pub kind: u16,
    /// What follows `struct nlmsghdr`.
    pub body: &'a [u8],
    flags: u16,
    sequence: u32,
}

/// The messages of a datagram. Ends after the first malformed one.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, NetlinkError>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = NetlinkBuffer::new_checked(rest);
        let message = message.map_err(|error| NetlinkError::Malformed(error.to_string()));
        let message = message.map(|buffer| Message {
            kind: buffer.message_type(),
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
            body: rest.get(HEADER_BYTES..buffer.length() as usize).unwrap_or_default(),
        });
        rest = message.as_ref().map_or(&[], |message| {
            let length = (HEADER_BYTES + message.body.len()).next_multiple_of(4);
            rest.get(length..).unwrap_or_default()
        });
        Some(message)
    })
}

impl Message<'_> {
    /// The verdict of a message of type NLMSG_ERROR or NLMSG_DONE, whose body begins with a negative error number or 0
    /// (netlink(7)).
    fn verdict(&self) -> Result<(), NetlinkError> {
        let code = number(self.body).map_or(0, i32::from_ne_bytes);
        if code == 0 {
            return Ok(());
        }
        let errno = code.checked_neg().unwrap_or(libc::EIO);
        Err(NetlinkError::Rejected { errno, message: self.text() })
    }

    /// The kernel's text, which follows the error number and, in NLMSG_ERROR, the header of the request and, unless
    /// the message is capped, its body.
    fn text(&self) -> Option<String> {
        if self.flags & NLM_F_ACK_TLVS == 0 {
            return None;
        }
        let after_number = self.body.get(4..)?;
        let request_bytes = match self.kind {
            NLMSG_DONE => 0,
            _ if self.flags & NLM_F_CAPPED != 0 => HEADER_BYTES,
            _ => (number(after_number).map(u32::from_ne_bytes)? as usize).next_multiple_of(4),
        };
        let text = attribute(after_number.get(request_bytes..)?, NLMSGERR_ATTR_MSG)?;
        string(text).map(str::to_owned)
    }
}

/// The attributes in `bytes`, up to the first malformed one: type without flags, and value.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let attributes = NlasIterator::new(bytes).map_while(Result::ok);
    attributes.filter_map(|attribute: NlaBuffer<&[u8]>| {
        let value = attribute.into_inner().get(4..usize::from(attribute.length()))?;
        Some((attribute.kind(), value))
    })
}

/// Value of the first attribute of type `kind`; `None` if there is none.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// The first `N` bytes of a value; `None` if it is shorter.
pub fn number<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.first_chunk().copied()
}

/// A string up to its terminating zero; `None` if it is not UTF-8.
pub fn string(value: &[u8]) -> Option<&str> {
    str::from_utf8(value.split(|&byte| byte == 0).next()?).ok()
}

/// An attribute of a request.
pub fn put(kind: u16, value: &[u8]) -> DefaultNla {
    DefaultNla::new(kind, value.to_vec())
}

/// A string with its terminating zero as an attribute of a request.
pub fn put_string(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), &[0]].concat())
}

/// Attributes inside an attribute of a request.
pub fn nest(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, encoded(inner))
}

/// The bytes of attributes.
pub fn encoded(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// A socket to a protocol of netlink, in the network namespace in which it was opened.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Netlink {
    /// Opens a socket, such as of `libc::NETLINK_GENERIC`.
    pub fn open(protocol: i32) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol as isize)?;
        socket.bind_auto()?;
        // Linux 4.12. Without it errors have no text.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request and returns the datagrams of its answer. `flags` are added to NLM_F_REQUEST and NLM_F_ACK.
    pub fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = vec![0; HEADER_BYTES];
        request.extend(body);
        let length = request.len() as u32;
        let mut header = NetlinkBuffer::new(&mut request);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_flags(NLM_F_REQUEST | NLM_F_ACK | flags);
        header.set_sequence_number(self.sequence);
        self.socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
        let mut datagrams = Vec::new();
        loop {
            let (datagram, sender) = self.socket.recv_from_full()?;
            if sender.port_number() != 0 {
                continue; // not from the kernel
            }
            let is_complete = is_complete(&datagram, self.sequence)?;
            datagrams.push(datagram);
            if is_complete {
                return Ok(datagrams);
            }
        }
    }
}

/// Whether a datagram has the last message of the answer to request `sequence`: an acknowledgement, or the end of
/// several messages. Fails if that is an error.
fn is_complete(datagram: &[u8], sequence: u32) -> Result<bool, NetlinkError> {
    for message in messages(datagram) {
        let message = message?;
        let is_last = matches!(message.kind, NLMSG_ERROR | NLMSG_DONE);
        if message.sequence == sequence && is_last {
            return message.verdict().map(|()| true);
        }
    }
    Ok(false)
}

/// Bodies of the messages in the datagrams of an answer, without those of netlink itself.
pub fn bodies(datagrams: &[Vec<u8>]) -> impl Iterator<Item = Message<'_>> {
    let all = datagrams.iter().flat_map(|datagram| messages(datagram).map_while(Result::ok));
    all.filter(|message| !matches!(message.kind, NLMSG_NOOP | NLMSG_ERROR | NLMSG_DONE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(0_u8..20, 0..120)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER_BYTES + 1);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
            let _ = is_complete(&bytes, 0);
            for kind in [NLMSG_ERROR, NLMSG_DONE] {
                for flags in [0, NLM_F_ACK_TLVS, NLM_F_ACK_TLVS | NLM_F_CAPPED] {
                    let message = Message { kind, flags, sequence: 0, body: &bytes };
                    let _ = message.verdict();
                }
            }
        }

        #[test]
        fn attributes_are_read_as_they_were_written(
            values in proptest::collection::vec((0_u16..100, proptest::collection::vec(any::<u8>(), 0..9)), 0..5)
        ) {
            let written: Vec<DefaultNla> =
                values.iter().map(|(kind, value)| put(*kind, value)).collect();
            let bytes = encoded(&[nest(7, &written)]);
            let inner = attribute(&bytes, 7).unwrap();
            let read: Vec<(u16, Vec<u8>)> =
                attributes(inner).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, values);
        }
    }

    #[test]
    fn an_error_has_the_text_of_the_kernel_capped_or_not() {
        let text = encoded(&[put_string(NLMSGERR_ATTR_MSG, "bit name not found")]);
        let code = (-libc::EINVAL).to_ne_bytes();
        let request = [20_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4], [9; 4]].concat();
        for (flags, request) in
            [(NLM_F_ACK_TLVS, &request[..]), (NLM_F_ACK_TLVS | NLM_F_CAPPED, &request[..16])]
        {
            let body = [&code, request, &text].concat();
            let message = Message { kind: NLMSG_ERROR, flags, sequence: 1, body: &body };
            let error = message.verdict().unwrap_err().to_string();
            assert_eq!(error, "Invalid argument: bit name not found");
        }
        let message = Message { kind: NLMSG_ERROR, flags: 0, sequence: 1, body: &code };
        assert_eq!(message.verdict().unwrap_err().to_string(), "Invalid argument");
    }
}
