//! Why a request is refused, and how the client is told.

/// Ports below this belong to services (RFC 6335).
pub(super) const FIRST_USER_PORT: u32 = 1024;

/// Why a request is refused. The client prints the words of the error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A message of a type that is not served.
    #[error("no such message is served")]
    Kind,
    /// Neither TCP nor UDP.
    #[error("the protocol is neither TCP nor UDP")]
    Protocol,
    /// Data of the other family than the control connection's.
    #[error("data must come over the family of the control connection")]
    Family,
    /// A data socket at another address than that of the control connection.
    #[error("the data socket has the address of the control connection")]
    Address,
    /// A port of a service.
    #[error("ports below {FIRST_USER_PORT} are not opened")]
    Port,
    /// Bytes that flow in a way that none of the tests has.
    #[error("no test has this direction")]
    Direction,
    /// A size that is zero, negative, or more than a datagram.
    #[error("a size is out of bounds")]
    Size,
    /// Longer than the server is allowed to serve.
    #[error("the test is longer than allowed")]
    Length,
    /// No connection and no datagram came.
    #[error("the client sent no data")]
    Silence,
}

impl Refusal {
    /// The error number that the client gets (errno(3), numbers of Linux).
    pub fn errno(self) -> i32 {
        match self {
            Self::Kind | Self::Direction => 95, // EOPNOTSUPP
            Self::Protocol => 93,               // EPROTONOSUPPORT
            Self::Family => 97,                 // EAFNOSUPPORT
            Self::Address => 99,                // EADDRNOTAVAIL
            Self::Port => 13,                   // EACCES
            Self::Size => 22,                   // EINVAL
            Self::Length => 34,                 // ERANGE
            Self::Silence => 110,               // ETIMEDOUT
        }
    }
}
