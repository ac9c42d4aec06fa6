//! Opening of flows: each proves by a token that its client belongs to the run.

mod admission;
mod datagrams;
mod streams;

pub(crate) use self::admission::{Candidates, accept_all};
pub(crate) use self::datagrams::{accept_all as accept_all_udp, open_all as open_all_udp, random};
pub(crate) use self::streams::{
    Beside, Connection, FILTER, Listener, NOT_OPEN, connect_until_interrupted, connecting, in_time,
    no_cm, open, open_all, opening, rounded, unconnected,
};
