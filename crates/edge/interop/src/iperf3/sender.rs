//! The sender of a test: several streams on one thread, each with its own rate.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fabricmark_load::transport::Flow;
use fabricmark_load::{Control, LATE_MAX};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::BitRate;
use rustix::event::{PollFd, PollFlags};

use super::flow::StreamFlow;
use crate::socket;

/// Consecutive writes to one stream before the next one's turn.
const TURN: u32 = 16;

/// Longest wait between two checks whether the test is over.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// A sleep may end this much late (`Waiting` of the crate `load`), so the rest of a wait is spun.
const SPIN_NS: u64 = 60_000;

/// Traffic of each stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Size of a write or datagram, in bytes.
    pub block_bytes: u32,
    /// Application bits per second of a stream; 0 for no limit.
    pub rate: BitRate,
    /// Blocks after which sending stops, all streams together; `None` for no limit. Each is sent whole: a client does not
    /// count a part of a block before the rest of it has arrived (`Nrecv_no_select` in src/net.c, iperf3 3.21).
    pub blocks_max: Option<u64>,
}

impl Load {
    /// When a stream that began at `began_ns` and has sent `sent_bytes` may send again.
    fn due_ns(&self, began_ns: u64, sent_bytes: u64) -> u64 {
        match self.rate.0 {
            0 => began_ns,
            rate => {
                let ns = u128::from(sent_bytes) * 8 * 1_000_000_000 / u128::from(rate);
                began_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        }
    }

    /// From when on the rate of a stream counts that began at `began_ns`: a late sender catches up at once, as iperf3
    /// does, but with no more than [`LATE_MAX`]: a client that did not read for longer is not sent at once what it missed.
    fn counts_from_ns(&self, began_ns: u64, sent_bytes: u64, now_ns: u64) -> u64 {
        let late_ns = now_ns.saturating_sub(self.due_ns(began_ns, sent_bytes));
        began_ns + late_ns.saturating_sub(LATE_MAX.0)
    }
}

/// Sends on non-blocking flows until it is told to stop or the amount is sent.
pub(super) fn send(flows: &mut [StreamFlow], load: &Load, control: &Control) -> io::Result<()> {
    let mut payload = vec![0x5a; load.block_bytes as usize];
    let mut sent = vec![0_u64; flows.len()];
    let mut left_blocks = load.blocks_max.unwrap_or(u64::MAX);
    // Unsent bytes of the current block of each stream.
    let mut rest = vec![0_usize; flows.len()];
    let mut began_ns = vec![now_ns(); flows.len()];
    while !control.is_ended() {
        let now_ns = now_ns();
        let (mut full, mut next_ns) = (Vec::new(), now_ns + LOOK_EVERY_NS);
        for (place, flow) in flows.iter_mut().enumerate() {
            let mut turns = TURN;
            loop {
                if rest[place] == 0 && left_blocks == 0 {
                    break;
                }
                began_ns[place] = load.counts_from_ns(began_ns[place], sent[place], now_ns);
                let due_ns = load.due_ns(began_ns[place], sent[place]);
                if due_ns > now_ns || turns == 0 {
                    next_ns = next_ns.min(due_ns);
                    break;
                }
                turns -= 1;
                if rest[place] == 0 {
                    left_blocks -= 1;
                    rest[place] = payload.len();
                }
                match flow.send(&mut payload[..rest[place]]) {
                    Ok(moved) => {
                        sent[place] += moved.bytes;
                        rest[place] = rest[place].saturating_sub(moved.bytes as usize);
                    }
                    Err(error) if socket::is_passing(&error) => {
                        full.push(place);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if left_blocks == 0 && rest.iter().all(|&bytes| bytes == 0) {
            return Ok(());
        }
        wait(flows, &full, next_ns.saturating_sub(now_ns))?;
    }
    Ok(())
}

/// Waits until one of the full flows is writable, at most `ns`.
fn wait(flows: &[StreamFlow], full: &[usize], ns: u64) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = full.iter().filter_map(|&place| flows[place].fd()).collect();
    if fds.is_empty() {
        if ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(ns - SPIN_NS));
        }
        return Ok(());
    }
    let mut asked: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)).collect();
    socket::wait(&mut asked, Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::iperf3::flow::{Stream, StreamSocket, Tally};

    #[test]
    fn each_stream_ends_with_a_whole_block() {
        const BLOCK: u32 = 1_000_003;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut flows, mut readers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            socket.set_nonblocking(true).unwrap();
            let socket = StreamSocket::Tcp(socket);
            let stream = Arc::new(Stream { socket, tally: Tally::default() });
            flows.push(StreamFlow { stream, is_wide: false, answers: false });
            let mut read = listener.accept().unwrap().0;
            readers.push(thread::spawn(move || {
                let mut bytes = Vec::new();
                read.read_to_end(&mut bytes).unwrap();
                bytes.len() as u64
            }));
        }
        let load = Load { block_bytes: BLOCK, rate: BitRate(0), blocks_max: Some(25) };
        send(&mut flows, &load, &Control::default()).unwrap();
        drop(flows);
        let sent: Vec<u64> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert!(sent.iter().all(|bytes| bytes % u64::from(BLOCK) == 0), "{sent:?}");
        assert_eq!(sent.iter().sum::<u64>(), 25 * u64::from(BLOCK));
    }

    #[test]
    fn a_stream_may_send_again_when_its_rate_allows_what_it_has_sent() {
        let load = Load { block_bytes: 1_000, rate: BitRate(8_000), blocks_max: None };
        assert_eq!(load.due_ns(5, 0), 5);
        assert_eq!(load.due_ns(5, 1_000), 1_000_000_005);
        assert_eq!(load.due_ns(5, u64::MAX), u64::MAX);
        assert_eq!(Load { rate: BitRate(0), ..load }.due_ns(5, 1 << 40), 5);
        // Due after a second: 0.9 s late, then 9.5 s, of which one is caught up with.
        assert_eq!(load.counts_from_ns(0, 1_000, 1_900_000_000), 0);
        assert_eq!(load.counts_from_ns(0, 1_000, 10_500_000_000), 8_500_000_000);
    }
}
