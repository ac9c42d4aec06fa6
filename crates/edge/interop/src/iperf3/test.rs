//! A running test at the server: the threads that send and receive.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fabricmark_load::Control;
use fabricmark_load::pattern::arrivals::Window;
use fabricmark_load::pattern::stream::receive_many;
use fabricmark_proto::iperf3::{Kind, Results};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::BitRate;

use super::account::Account;
use super::cpu::Cpu;
use super::sender::{Load, send};

/// Silence after which nothing more is in flight to a receiver, once its sender has stopped.
pub(super) const SILENCE: Duration = Duration::from_millis(20);

/// Longest wait for that silence.
const DRAIN_WITHIN: Duration = Duration::from_millis(500);

/// Buffer of a receiver: 128 KiB, the usual read size of other tools, and longer than any datagram.
const BUFFER_BYTES: usize = 128 << 10;

/// The threads of a test. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Test {
    pub account: Account,
    sending: Arc<Control>,
    receiving: Arc<Control>,
    threads: Vec<JoinHandle<Cpu>>,
    began: Cpu,
}

impl Test {
    /// Starts the directions that the test has. `rate_max` limits the total rate at which this end sends.
    pub fn start(account: Account, rate_max: BitRate) -> io::Result<Self> {
        let (mut sending, mut receiving) = (account.flows(true), account.flows(false));
        let mut test = Self {
            account,
            sending: Arc::default(),
            receiving: Arc::default(),
            threads: Vec::new(),
            began: Cpu::of_this_thread(),
        };
        if !sending.is_empty() {
            let load = test.load(sending.len() as u64, rate_max);
            let control = Arc::clone(&test.sending);
            // A broken stream ends with its client, which the control connection reports.
            test.spawn("iperf3 sender", move || drop(send(&mut sending, &load, &control)))?;
        }
        if !receiving.is_empty() {
            let control = Arc::clone(&test.receiving);
            test.spawn("iperf3 receiver", move || {
                let mut buffer = vec![0; BUFFER_BYTES];
                let window = Window::of_an_amount();
                drop(receive_many(&mut receiving, &mut buffer, window, &control));
            })?;
        }
        Ok(test)
    }

    /// Traffic of each stream, limited to its share of `rate_max`.
    fn load(&self, streams: u64, rate_max: BitRate) -> Load {
        let parameters = &self.account.parameters;
        let share = BitRate((rate_max.0 / streams).max(1));
        let rate = if parameters.rate.0 == 0 { share } else { parameters.rate.min(share) };
        let blocks_of_bytes = parameters.bytes.div_ceil(u64::from(parameters.block_bytes).max(1));
        // No amount with UDP: datagrams may be lost, and the client waits until it has received its amount.
        let amounts = [blocks_of_bytes, parameters.blocks].into_iter();
        let blocks_max = amounts.filter(|&blocks| blocks > 0 && parameters.kind == Kind::Tcp).min();
        Load { block_bytes: parameters.block_bytes, rate, blocks_max }
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let metered = move || {
            work();
            Cpu::of_this_thread()
        };
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(metered)?);
        Ok(())
    }

    /// Stops sending at once, and receiving when nothing more arrives; returns the counts.
    pub fn stop(mut self) -> Results {
        let ended_ns = now_ns();
        self.sending.end();
        // An amount that is never reached: silence ends the reception.
        self.receiving.drain(u64::MAX - 1, SILENCE.as_nanos() as u64);
        let gives_up_ns = ended_ns + DRAIN_WITHIN.as_nanos() as u64;
        while now_ns() < gives_up_ns && self.threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(1));
        }
        let cpu = self.join();
        self.account.results(ended_ns, cpu)
    }

    /// Ends all threads. Returns their CPU time plus that of the control connection's thread meanwhile.
    fn join(&mut self) -> Cpu {
        self.sending.end();
        self.receiving.give_up();
        let own = Cpu::of_this_thread().since(self.began);
        // No thread of a test panics; one that did would have no CPU time.
        let times = self.threads.drain(..).map(|thread| thread.join().unwrap_or_default());
        times.fold(own, Cpu::and)
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        self.join();
    }
}
