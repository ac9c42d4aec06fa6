//! Networks for runs: loopback, a veth pair between two namespaces, or an emulated link between two namespaces.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fabricmark_lab::{Lab, Role};
use fabricmark_wire::Link;

use crate::contender::{Failure, Job};
use crate::emulator::Shell;
use crate::process::{Running, command};

/// MTU of the veth pair: Ethernet's.
const MTU: u16 = 1500;

/// Sets the congestion control of the current namespace, and allows clients to reuse a port after a second instead of a
/// minute, as on loopback by default (tcp_tw_reuse in ip-sysctl.rst). A namespace can only use the allowed algorithms
/// (tcp_allowed_congestion_control).
const SETTINGS: &str = r#"
cd /proc/sys/net/ipv4
echo 1 > tcp_tw_reuse
[ "$(cat tcp_congestion_control)" = "$0" ] || echo "$0" > tcp_congestion_control || {
    echo "a namespace may not use $0: sysctl net.ipv4.tcp_allowed_congestion_control has to name it" >&2
    exit 1
}"#;

/// Settings of both ends of an emulated link: ports can be reused after a second, and TCP autotuning may use the
/// largest receive buffer that the kernel accepts (net/ipv4/sysctl_net_ipv4.c), whose window is half of it, and a send
/// buffer for that window. A larger send buffer exceeds net.ipv4.tcp_mem of a machine with 24 GiB ("TCP: out of memory"
/// in its log, with an RTT of 500 ms).
const BUFFERS: &str = "cd /proc/sys/net/ipv4 && echo 1 > tcp_tw_reuse && \
    echo 4096 131072 2147483647 > tcp_rmem && echo 4096 16384 1073741824 > tcp_wmem";

/// Kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Target {
    /// The loopback device of this program's namespace.
    Loopback,
    /// A veth pair between two namespaces.
    Veth,
    /// An emulated link between two namespaces.
    Emulated,
    /// Two RDMA adapters of this machine, by address.
    Adapters([IpAddr; 2]),
}

/// A network for one run. Veth pairs are created anew each time, as in fabricmark's lab, so that no connection or
/// cached route metric of an earlier run remains.
#[derive(Debug)]
pub struct Place {
    network: Network,
    /// CPUs of client and server; `None`: all.
    cpus: Option<[usize; 2]>,
}

#[derive(Debug)]
pub enum Network {
    Loopback,
    Adapters(IpAddr),
    /// Nodes `client` and `server` with one link.
    Lab(Box<Lab>),
    Shell(Shell),
}

impl Place {
    /// Sets up the network of a job.
    pub fn new(job: &Job<'_>) -> Result<Self, Failure> {
        let network = match job.target {
            Target::Loopback => Network::Loopback,
            Target::Adapters([_, to]) => Network::Adapters(to),
            Target::Veth => return Self::veth(job),
            Target::Emulated => {
                return Err(Failure::NotOffered("no link without an emulator".to_owned()));
            }
        };
        Ok(Self { network, cpus: cpus(job) })
    }

    fn veth(job: &Job<'_>) -> Result<Self, Failure> {
        let failed = |error: &dyn fmt::Display| Failure::Failed(format!("no veth pair: {error}"));
        let veth = Link::Veth { mtu: MTU }.into();
        let lab = Lab::of_link(&veth, 1, None).map_err(|error| failed(&error))?;
        let place = Self { network: Network::Lab(Box::new(lab)), cpus: cpus(job) };
        place.set(&["sh", "-c", SETTINGS, job.congestion]).map_err(|error| failed(&error))?;
        Ok(place)
    }

    /// An emulated link. An emulator that is a process or thread gets the last CPU for itself; kernel emulation leaves
    /// both CPUs to the ends.
    pub fn emulated(network: Network, is_beside: bool) -> Result<Self, Failure> {
        let server = if is_beside { Role::Client } else { Role::Server };
        let place = Self { network, cpus: Some([Role::Client, server].map(cpu)) };
        place.set(&["sh", "-c", BUFFERS])?;
        Ok(place)
    }

    /// Runs a command at both ends.
    pub fn set(&self, line: &[&str]) -> Result<(), Failure> {
        let words: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
        for end in [Role::Client, Role::Server] {
            let output = self.command(end, &words).output()?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr);
                let last = message.lines().next_back().unwrap_or_default();
                return Err(Failure::Failed(last.to_owned()));
            }
        }
        Ok(())
    }

    pub fn address(&self) -> String {
        match &self.network {
            Network::Loopback => Ipv4Addr::LOCALHOST.to_string(),
            Network::Adapters(to) => to.to_string(),
            // The second node of the only link (docs/lab.md).
            Network::Lab(_) => "10.71.0.2".to_owned(),
            Network::Shell(shell) => shell.address().to_owned(),
        }
    }

    /// A command at one end of the network, pinned to that end's CPU if it has one.
    pub fn command(&self, role: Role, words: &[String]) -> Command {
        let line = match self.cpus {
            Some(cpus) => pinned(cpus[usize::from(role == Role::Server)], words),
            None => words.to_vec(),
        };
        if let Network::Shell(shell) = &self.network {
            return shell.command(role, &line);
        }
        let mut command = command(&line[0], &line[1..]);
        match &self.network {
            Network::Lab(lab) => {
                if let Some(namespace) = lab.namespace(role.name()) {
                    namespace.enter(&mut command);
                }
            }
            Network::Loopback | Network::Adapters(_) | Network::Shell(_) => {}
        }
        command
    }
}

/// A command line pinned to one CPU.
pub fn pinned(cpu: usize, words: &[String]) -> Vec<String> {
    let taskset = ["taskset", "-c", &cpu.to_string()].map(str::to_owned);
    [&taskset, words].concat()
}

/// CPU of the emulator on a machine with several: the second, while both ends use the first.
pub fn emulator_cpu() -> Option<u32> {
    u32::try_from(cpu(Role::Server)).ok().filter(|&cpu| cpu > 0)
}

/// CPUs of client and server; `None` if each program places its threads by its own defaults.
fn cpus(job: &Job<'_>) -> Option<[usize; 2]> {
    job.is_pinned.then(|| [Role::Client, Role::Server].map(cpu))
}

/// CPU of an end: 0 for the client, and 1, if it exists, for the server.
pub fn cpu(role: Role) -> usize {
    let last = thread::available_parallelism().map_or(0, |count| count.get() - 1);
    match role {
        Role::Client => 0,
        Role::Server => last.min(1),
    }
}

/// A port that is not in use, a different one each time. It is below the ephemeral ports (32768 on, ip_local_port_range
/// in ip-sysctl.rst), so that no client can hold it.
pub fn free_port() -> Result<u16, Failure> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Relaxed) % COUNT;
        let at = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::Failed("no port is free".to_owned()))
}

/// Condition for a server to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It listens on this TCP port.
    Listens(u16),
    /// It has bound this UDP port.
    IsBound(u16),
}

/// Waits until a server is ready. Reads the kernel's socket table, because a connection would count as the server's
/// client.
pub fn await_server(server: &Running, ready: Ready) -> Result<(), Failure> {
    const LOOK_EVERY: Duration = Duration::from_millis(2);
    const LOOKS: u32 = 2_500;
    let (files, port, state) = match ready {
        Ready::Listens(port) => (["tcp", "tcp6"], port, TCP_LISTEN),
        Ready::IsBound(port) => (["udp", "udp6"], port, TCP_CLOSE),
    };
    for _ in 0..LOOKS {
        let is_there = files.iter().any(|file| {
            std::fs::read_to_string(format!("/proc/{}/net/{file}", server.id()))
                .is_ok_and(|text| has_socket(&text, port, state))
        });
        if is_there {
            return Ok(());
        }
        if server.has_ended(LOOK_EVERY)? {
            return Err(Failure::Failed("its server ended at once".to_owned()));
        }
    }
    Err(Failure::Failed(format!("its server is not ready after {:?}", LOOK_EVERY * LOOKS)))
}

/// States of `enum tcp_state` (net/tcp_states.h); the second is that of an unconnected UDP socket.
const TCP_LISTEN: &str = "0A";
const TCP_CLOSE: &str = "07";

/// Whether a socket table (proc_pid_net(5)) has a socket with this local port and state.
fn has_socket(list: &str, port: u16, state: &str) -> bool {
    list.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, now) = (fields.next(), fields.next(), fields.next());
        let found = local.and_then(|address| address.rsplit(':').next());
        now == Some(state) && found == Some(&format!("{port:04X}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKETS: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:14B5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 24630
   1: 0100007F:14B6 0100007F:14B5 01 00000000:00000000 00:00000000 00000000     0        0 24634
";

    #[test]
    fn a_listening_socket_is_found_by_port_and_state() {
        assert!(has_socket(SOCKETS, 0x14B5, TCP_LISTEN));
        assert!(!has_socket(SOCKETS, 0x14B6, TCP_LISTEN), "it is connected");
        assert!(!has_socket(SOCKETS, 0x14B7, TCP_LISTEN), "there is none");
    }

    #[test]
    fn each_port_is_another_one() {
        assert_ne!(free_port().unwrap(), free_port().unwrap());
    }
}
