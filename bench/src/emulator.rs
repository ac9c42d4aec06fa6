//! Who emulates links: fabricmark, the kernel's queues, mahimahi's shells, and a plain veth pair that
//! does nothing. All carry the same load, by the same programs.

mod load;
mod machine;
mod shell;

use fabricmark_lab::{Backend, Lab, Topology, Wiring};
use fabricmark_link::LinkWords;
use fabricmark_wire::Link;

use crate::contender::{Contender, Failure, Job};
use crate::emulation::{Emulation, Load};
use crate::place::{Network, Place, emulator_cpu};
use crate::rows::OURS;
use crate::work::{Figure, Values, Work};

pub use load::CONGESTION;
pub use shell::Shell;

/// What an unshaped link is told where it has to be told a rate, in Mbit/s: more than this kernel
/// carries from one socket to another.
const UNSHAPED_MBPS: u32 = 100_000;

/// The same for mm-link: 1,000 packets a millisecond. It looks at each chance to send, used or not, so
/// that a higher rate only costs it more.
const MM_LINK_UNSHAPED_MBPS: u32 = 12_000;

/// Segments of a super-packet that a device takes unless told otherwise (linux/netdevice.h).
const GSO_MAX_SEGS: &str = "65535";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulator {
    Ours,
    Kernel(Backend),
    /// mahimahi's shell with a delay.
    MmDelay,
    /// mahimahi's shell with a rate, from a trace file.
    MmLink,
}

/// Those beside fabricmark's, in the order of the table.
pub const OTHERS: [Emulator; 6] = [
    Emulator::Kernel(Backend::Veth),
    Emulator::Kernel(Backend::Tbf),
    Emulator::Kernel(Backend::Htb),
    Emulator::Kernel(Backend::Netem),
    Emulator::MmDelay,
    Emulator::MmLink,
];

impl Emulator {
    /// Whether it can do what a link is asked to do; whether it is there, a run shows.
    pub fn can(self, emulation: &Emulation) -> bool {
        let is_plain = emulation.mtu == 1500 && !emulation.is_single;
        let has_delay = emulation.rtt_ms > 0 || emulation.load == Load::PingPong;
        let has_rate = emulation.rate_mbps.is_some();
        match self {
            Self::Ours => true,
            Self::Kernel(Backend::Veth) => is_plain && !has_delay && !has_rate,
            Self::Kernel(Backend::Netem) => is_plain,
            Self::MmDelay => is_plain && !has_rate,
            // A shell for the delay around one for the rate would be another contender.
            Self::Kernel(_) | Self::MmLink => is_plain && !has_delay,
        }
    }

    fn place(self, asked: &Emulation) -> Result<Place, Failure> {
        match self {
            Self::Ours => {
                let words: LinkWords = read(asked.words(None).parse())?;
                let link = Link::Veth { mtu: asked.mtu };
                let wiring =
                    Wiring { link, words: Some(words), single: asked.is_single, bus: None };
                let lab = Box::new(Lab::of_link(&wiring, 1, emulator_cpu())?);
                Place::emulated(Network::Lab(lab), true)
            }
            Self::Kernel(backend) => {
                let needs_rate = matches!(backend, Backend::Tbf | Backend::Htb);
                let unshaped = needs_rate.then_some(UNSHAPED_MBPS);
                let topology = Topology::parse(&topology(backend, &asked.words(unshaped)));
                let lab = Box::new(Lab::build(read(topology)?, 1, None)?);
                let place = Place::emulated(Network::Lab(lab), false)?;
                if asked.rate_mbps.is_none() {
                    // A lab lets hosts hand over single packets, lest a loss take 64 KiB and lest headers
                    // inside go uncounted. Here that only costs, htb 40 times its rate.
                    place.set(&["ip", "link", "set", "wire", "gso_max_segs", GSO_MAX_SEGS])?;
                }
                Ok(place)
            }
            Self::MmDelay => {
                let shell = Shell::start(&format!("mm-delay {}", asked.rtt_ms / 2), None)?;
                Place::emulated(Network::Shell(shell), true)
            }
            Self::MmLink => {
                let rate_mbps = asked.rate_mbps.unwrap_or(MM_LINK_UNSHAPED_MBPS);
                let trace = shell::trace(rate_mbps);
                let shell = Shell::start(&shell::link(rate_mbps), Some(&trace))?;
                Place::emulated(Network::Shell(shell), true)
            }
        }
    }

    /// Exchanges with the delay and without: what the delay itself is wrong by.
    fn delay(self, job: &Job<'_>, asked: &Emulation) -> Result<Values, Failure> {
        let still = Emulation { rtt_ms: 0, ..*asked };
        let seconds = asked.counted_s(job.seconds);
        let (own_ns, _) = load::ping_pong_ns(job, &self.place(&still)?, seconds)?;
        let (mean_ns, p99_ns) = load::ping_pong_ns(job, &self.place(asked)?, seconds)?;
        let due_ns = own_ns + 1e6 * f64::from(asked.rtt_ms);
        // Too early is as wrong as too late. A nanosecond is the last digit of what is read; a ratio
        // has no place for 0.
        let error_ns = |round_trip_ns: f64| (round_trip_ns - due_ns).abs().max(1.0);
        Ok(Values::from([
            (Figure::DelayErrorNs, error_ns(mean_ns)),
            (Figure::DelayErrorP99Ns, error_ns(p99_ns)),
            (Figure::OwnRoundTripNs, own_ns),
        ]))
    }
}

impl Contender for Emulator {
    fn name(&self) -> &'static str {
        match self {
            Self::Ours => OURS,
            Self::Kernel(Backend::Veth) => "veth",
            Self::Kernel(Backend::Tbf) => "tbf",
            Self::Kernel(Backend::Htb) => "htb",
            Self::Kernel(Backend::Netem) => "netem",
            Self::Kernel(Backend::Emulator) => "emulator",
            Self::MmDelay => "mm-delay",
            Self::MmLink => "mm-link",
        }
    }

    fn offers(&self, work: Work) -> bool {
        matches!(work, Work::Emulated(emulation) if self.can(&emulation))
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let Work::Emulated(asked) = job.work else {
            return Err(Failure::NotOffered(format!("{:?}", job.work)));
        };
        match asked.load {
            Load::Stream => load::stream(job, &self.place(&asked)?, &asked),
            Load::PingPong => self.delay(job, &asked),
        }
    }
}

/// A client and a server with one link, `wire`, between them.
fn topology(backend: Backend, words: &str) -> String {
    format!(
        "[hosts.client]\n[hosts.server]\n[links.wire]\nbetween = [\"client\", \"server\"]\n\
         backend = \"{backend}\"\nwords = \"{words}\"\n"
    )
}

fn read<T, E: std::fmt::Display>(read: Result<T, E>) -> Result<T, Failure> {
    read.map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_delay_takes_no_part_where_there_is_one() {
        let who = |emulation: Emulation| -> Vec<&str> {
            let work = Work::Emulated(emulation);
            OTHERS.iter().filter(|other| other.offers(work)).map(Contender::name).collect()
        };
        assert_eq!(
            who(Emulation::stream(0)),
            ["veth", "tbf", "htb", "netem", "mm-delay", "mm-link"]
        );
        assert_eq!(who(Emulation::stream(100)), ["netem", "mm-delay"]);
        assert_eq!(who(Emulation::shaped(100)), ["tbf", "htb", "netem", "mm-link"]);
        assert_eq!(who(Emulation::ping_pong(2)), ["netem", "mm-delay"]);
        assert!(who(Emulation { mtu: 9000, ..Emulation::stream(0) }).is_empty());
    }

    #[test]
    fn every_link_that_is_asked_for_can_be_read() {
        for asked in [Emulation::stream(100), Emulation::shaped(1000), Emulation::ping_pong(2)] {
            assert!(asked.words(None).parse::<LinkWords>().is_ok(), "{asked:?}");
        }
        for backend in [Backend::Tbf, Backend::Htb, Backend::Netem] {
            let text = topology(backend, &Emulation::stream(0).words(Some(UNSHAPED_MBPS)));
            assert!(Topology::parse(&text).is_ok(), "{text}");
        }
    }
}
