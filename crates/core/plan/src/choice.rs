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
        /// one end sends without pause, the other receives (netperf's STREAM)
        Stream = "stream",
        /// request and response (netperf's RR)
        Rr = "rr" was "exchange",
        /// request and response with a connection for each (netperf's CRR)
        Crr = "crr" was "connect-exchange",
        /// a payload there and one of the same length back (IMB's PingPong)
        PingPong = "ping-pong",
        /// each end sends a payload and then receives the other's (IMB's PingPing)
        PingPing = "ping-ping",
        /// several payloads back to back, one response when all have arrived (osu_bw)
        Burst = "burst",
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
    /// What carries the ping-pong that measures the round trip beside a load.
    Probe {
        /// datagrams: each shows one crossing of the queues
        Udp = "udp",
        /// a connection: what an interactive application beside the load would see
        Tcp = "tcp",
    }
}

choices! {
    /// The system calls that move the data.
    Path {
        /// one plain send or receive call per payload
        Copy = "copy",
        /// as copy, but the receiver leaves the bytes in the kernel (MSG_TRUNC)
        Trunc = "trunc",
        /// several datagrams per call (sendmmsg, recvmmsg)
        Mmsg = "mmsg",
        /// one buffer that the kernel cuts into datagrams (UDP_SEGMENT, UDP_GRO)
        Gso = "gso",
        /// the kernel sends from the program's pages (MSG_ZEROCOPY)
        ZeroCopy = "zerocopy",
        /// from a file in memory (sendfile)
        SendFile = "sendfile",
        /// through a pipe at both ends (splice)
        Splice = "splice",
        /// a chain of sends per call, one receive request for all arrivals (io_uring)
        Uring = "io-uring",
        /// as io-uring, but sends from registered pages
        UringZeroCopy = "io-uring-zc",
    }
}

choices! {
    /// Whether super-packets of up to 64 KiB cross an emulated link whole.
    Offload {
        /// super-packets of up to 64 KiB, each as long on the wire as its segments
        On = "on",
        /// single packets
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
        /// it calls again and again without blocking
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
    /// Who takes the timestamps of packets.
    Timestamps {
        /// the kernel, where a packet passes to and from the network device
        Software = "software",
        /// the network device, by its own clock
        Hardware = "hardware",
    }
}

choices! {
    /// RDMA operation of a work request (IBTA volume 1, section 9.4).
    Operation {
        /// into the receiver's next receive request
        Send = "send",
        /// into the receiver's memory, without a completion there
        Write = "write",
        /// into the receiver's memory, with a completion there
        WriteImmediate = "write-imm",
        /// out of the server's memory
        Read = "read",
        /// adds to 8 bytes of the server's memory and returns what they were
        FetchAdd = "fetch-add",
        /// replaces 8 bytes of the server's memory if they are as expected, and returns what they were
        CompareSwap = "compare-swap",
    }
}

choices! {
    /// How queue pairs of a reliable connection are connected.
    Cm {
        /// queue pair numbers are exchanged over a TCP connection
        Tcp = "tcp",
        /// by RDMA's communication manager (IBTA volume 1, section 12)
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
