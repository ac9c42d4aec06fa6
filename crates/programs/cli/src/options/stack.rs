//! Options of the protocol stack that carries a payload over a link.

use clap::{Args, ValueEnum};
use fabricmark_wire::{Family, Operation, Stack, frame};

use super::choice;
use crate::exit::Failure;

/// What carries a payload.
#[derive(Args, Debug)]
pub struct StackOptions {
    /// Transport protocol
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub transport: Transport,
    /// RDMA operation of rc
    #[arg(long, default_value = "send", value_parser = choice(&OPERATIONS))]
    pub operation: Operation,
    /// Messages of rc or ud carry 4 bytes of immediate data
    #[arg(long)]
    pub immediate: bool,
    /// TCP timestamps in each segment (RFC 7323)
    #[arg(long)]
    pub timestamps: bool,
}

/// Transports that have a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Datagrams over IP
    Udp,
    /// A stream over IP
    Tcp,
    /// Verbs, reliable connection
    Rc,
    /// Verbs, unreliable datagrams
    Ud,
}

/// Operations of a reliable connection.
const OPERATIONS: [(&str, Operation, &str); 3] = [
    ("send", Operation::Send, "Into a buffer that the receiver posted"),
    ("write", Operation::Write, "Into the receiver's memory"),
    ("read", Operation::Read, "From the other end's memory"),
];

impl StackOptions {
    /// The protocol stack over IP of `family`. Options of another transport are an error.
    pub fn over(&self, family: Family) -> Result<Stack, Failure> {
        let &Self { transport, immediate, timestamps, .. } = self;
        let is_verbs = matches!(transport, Transport::Rc | Transport::Ud);
        let is_send = self.operation == Operation::Send;
        for (is_given, is_right, word, right) in [
            (timestamps, transport == Transport::Tcp, "--timestamps", "tcp"),
            (immediate, is_verbs, "--immediate", "rc and ud"),
            (!is_send, transport == Transport::Rc, "--operation", "rc"),
        ] {
            if is_given && !is_right {
                let message = format!(
                    "{word} is supported only with {right}: leave it out, or use that \
                             transport"
                );
                return Err(Failure::input(message));
            }
        }
        let option_bytes = if timestamps { frame::TCP_TIMESTAMPS } else { 0 };
        Ok(match transport {
            Transport::Udp => Stack::Udp { family },
            Transport::Tcp => Stack::Tcp { family, option_bytes },
            Transport::Rc => Stack::Rc { operation: self.operation, immediate, family },
            Transport::Ud => Stack::Ud { immediate, family },
        })
    }
}

impl Transport {
    /// Name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Rc => "rc",
            Self::Ud => "ud",
        }
    }
}

/// An IP version: 4 or 6.
pub(super) fn family(text: &str) -> Result<Family, String> {
    let version = text.parse::<u8>().ok().and_then(|version| Family::try_from(version).ok());
    version.ok_or_else(|| "write 4 or 6".to_owned())
}
