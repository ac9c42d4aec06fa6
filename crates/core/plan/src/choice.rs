//! Factors whose levels are a fixed set of keywords. Each keyword and its meaning are declared once.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One level of a factor whose levels are a fixed set of keywords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Keyword in plans, flags, JSON and tables.
    pub word: &'static str,
    /// Keyword of earlier versions, still accepted; `None` if it has not changed.
    pub was: Option<&'static str>,
    /// One-line description.
    pub about: &'static str,
}

/// Declares an enum whose variants have the same keyword in plans, flags, JSON and tables.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident {
        $(#[doc = $about:literal] $variant:ident = $word:literal $(was $was:literal)?,)*
    }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
            JsonSchema,
        )]
        pub enum $name {
            $(#[doc = $about] #[serde(rename = $word $(, alias = $was)?)] $variant,)*
        }

        impl $name {
            /// All variants, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Keyword and description of each variant, in the order of [`Self::ALL`].
            pub const CHOICES: &[Choice] = &[$(Choice {
                word: $word,
                was: crate::choice::earlier!($($was)?),
                about: $about.trim_ascii(),
            }),*];

            /// The keyword of this variant.
            pub const fn word(self) -> &'static str {
                Self::CHOICES[self as usize].word
            }

            /// The variant with this keyword, current or earlier.
            pub fn named(word: &str) -> Option<Self> {
                let is_it = |choice: &Choice| choice.word == word || choice.was == Some(word);
                Self::CHOICES.iter().position(is_it).map(|place| Self::ALL[place])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

/// Expands to `Some` of the optional earlier keyword, or to `None`.
macro_rules! earlier {
    () => {
        None
    };
    ($was:literal) => {
        Some($was)
    };
}
pub(crate) use {choices, earlier};

choices! {
    /// How data moves between client and server.
    Pattern {
        /// one end sends continuously, the other receives (netperf's STREAM)
        Stream = "stream",
        /// request and response (netperf's RR)
        Rr = "rr" was "exchange",
        /// connect, request, response, close (netperf's CRR)
        Crr = "crr" was "connect-exchange",
        /// a payload, and a response of the same length (IMB's PingPong)
        PingPong = "ping-pong",
        /// both ends send a payload at once, then receive the other's (IMB's PingPing)
        PingPing = "ping-ping",
        /// several payloads back to back, then one response when all have arrived (osu_bw)
        Burst = "burst",
        /// an operation of MPI between ranks (`benchmark`), only with `testbed = "mpi"`
        Mpi = "mpi",
        /// emulated browsers in a bookstore (`interaction`), only with `testbed = "tiers"`
        Shop = "shop",
    }
}

choices! {
    /// Direction of a stream, seen from the client.
    Direction {
        /// the client sends
        Forward = "forward",
        /// the server sends
        Reverse = "reverse",
        /// both at once, in separate flows
        Both = "both",
    }
}

choices! {
    /// Whether a group of flows runs alone, in a plan with `[interference]`.
    Interference {
        /// only this group runs
        Alone = "alone",
        /// all groups run at once
        Together = "together",
    }
}

choices! {
    /// What carries the ping-pong that measures the round trip beside a load.
    Probe {
        /// datagrams, without retransmissions: each RTT is one pass through the queues
        Udp = "udp",
        /// a TCP connection: the RTT of an interactive application during the load
        Tcp = "tcp",
    }
}

choices! {
    /// The system calls that move the data.
    Path {
        /// one send or recv call per payload
        Copy = "copy",
        /// as copy, but the receiver discards the data in the kernel (MSG_TRUNC)
        Trunc = "trunc",
        /// several datagrams per call (sendmmsg, recvmmsg)
        Mmsg = "mmsg",
        /// one buffer that the kernel segments into datagrams (UDP_SEGMENT, UDP_GRO)
        Gso = "gso",
        /// the kernel sends from the program's pages (MSG_ZEROCOPY)
        ZeroCopy = "zerocopy",
        /// from a file in memory (sendfile)
        SendFile = "sendfile",
        /// through a pipe at both ends (splice)
        Splice = "splice",
        /// linked sends and one multishot receive (io_uring)
        Uring = "io-uring",
        /// as io-uring, but zero-copy sends from registered buffers
        UringZeroCopy = "io-uring-zc",
    }
}

choices! {
    /// Whether super-packets of up to 64 KiB cross an emulated link whole, and where they are segmented.
    Offload {
        /// super-packets of up to 64 KiB, each of which takes as long on the wire as its segments
        On = "on",
        /// single packets of at most the MTU over the link, segmented and joined at the ends as by adapters with TSO and GRO
        Hosts = "hosts",
        /// single packets of at most the MTU, also at the ends
        Off = "off",
    }
}

choices! {
    /// How a load thread waits for I/O.
    Wait {
        /// it blocks in the call
        Block = "block",
        /// it blocks in epoll_wait, for many flows
        Epoll = "epoll",
        /// it polls with non-blocking calls
        Spin = "spin",
        /// it blocks in the call, and the kernel polls the device for 50 us first (SO_BUSY_POLL)
        BusyPoll = "busy-poll",
    }
}

choices! {
    /// How a sender waits for the next departure of an open loop. `Waiting` of the crate `load` has the lag of each as
    /// measured.
    PaceWait {
        /// it sleeps
        Sleep = "sleep",
        /// it sleeps, and spins shortly before the departure
        SleepSpin = "sleep-spin",
        /// it spins, on a CPU of its own
        Spin = "spin",
    }
}

choices! {
    /// How a relay moves the bytes of a connection.
    RelayPath {
        /// by read and write, with a buffer
        Copy = "copy",
        /// by splice through a pipe: the bytes stay in the kernel
        Splice = "splice",
        /// by io_uring: up to 64 receives of ready connections, of together 512 KiB, are one system call, and their sends another
        Uring = "io-uring",
    }
}

choices! {
    /// Who takes the timestamps of packets.
    Timestamps {
        /// taken by the kernel when it passes a packet to or from the network device
        Software = "software",
        /// taken by the network device, by its own clock
        Hardware = "hardware",
    }
}

choices! {
    /// RDMA operation of a work request (IBTA volume 1, section 9.4).
    Operation {
        /// SEND into the receiver's next receive request
        Send = "send",
        /// RDMA WRITE into the receiver's memory, without a completion there
        Write = "write",
        /// RDMA WRITE with immediate data, which completes a receive request at the receiver
        WriteImmediate = "write-imm",
        /// RDMA READ from the server's memory
        Read = "read",
        /// atomic: adds to 8 bytes of the server's memory and returns the old value
        FetchAdd = "fetch-add",
        /// atomic: replaces 8 bytes of the server's memory if they match, and returns the old value
        CompareSwap = "compare-swap",
    }
}

choices! {
    /// How queue pairs of a reliable connection are connected.
    Cm {
        /// exchange of queue pair numbers over a TCP connection
        Tcp = "tcp",
        /// RDMA communication manager (IBTA volume 1, section 12)
        Rdma = "rdma" was "rdma-cm",
    }
}

impl Operation {
    /// Whether the operation itself takes a round trip and returns data.
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Read | Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether it is an RDMA atomic, which operates on 8 bytes.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }
}

impl Path {
    /// Whether it passes through io_uring.
    pub const fn is_uring(self) -> bool {
        matches!(self, Self::Uring | Self::UringZeroCopy)
    }
}
