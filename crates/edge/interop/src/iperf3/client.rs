//! A run against an iperf3 server.

use std::net::SocketAddr;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use fabricmark_load::{Control, foreign};
use fabricmark_proto::iperf3::{Client, ClientAction, Kind, Results};
use fabricmark_proto::{EndReport, Ends, Failure, Prepare};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::{Bytes, Instant};

use super::account::Account;
use super::authentication::{AuthenticationError, Credentials};
use super::cpu::Cpu;
use super::test::SILENCE;
use super::{ends, opening, parameters};

/// Polling interval of the control connection while the run is in progress.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Maximum time for a receiver to end after the server has ended; it waits for silence.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// One direction of a run at the client.
#[derive(Clone, Copy, Debug)]
pub struct ClientEnd<'a> {
    /// What the client does.
    pub prepare: &'a Prepare,
    /// Orders to its load thread.
    pub control: &'a Control,
}

/// Counts of both ends of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Reports of each direction, as of any other run. The server's has only what iperf3 reports; its writes are
    /// computed from its bytes.
    pub ends: Vec<Ends>,
    /// The server's results, with jitter and retransmissions of each stream.
    pub server: Results,
    /// The client's results, as sent to the server.
    pub client: Results,
}

impl From<AuthenticationError> for Failure {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::Token(_) => Self::Protocol(error.to_string()),
            _ => Self::Missing(error.to_string()),
        }
    }
}

/// Performs a run as the iperf3 client: a stream of TCP or UDP, forward, reverse, or both at once (`loads` has forward
/// first). Returns an error, before anything is sent, for options that iperf3 does not support.
///
/// The run ends after its amount or its duration, whichever comes first, or on [`Control::end`].
pub fn measure(
    loads: &[ClientEnd<'_>],
    server: SocketAddr,
    credentials: Option<&Credentials>,
) -> Result<Measured, Failure> {
    let first = loads.first().ok_or(Failure::Aborted)?;
    let prepares: Vec<&Prepare> = loads.iter().map(|load| load.prepare).collect();
    let mut parameters = parameters::of(&prepares)?;
    parameters.token = credentials.map(Credentials::token).transpose()?;
    let cookie = opening::new_cookie()?;
    let line = opening::control(first.prepare, server)?;
    let mut client = Client::new(now(), &cookie, parameters.clone());
    let mut buffer = [0; 4096];
    let measured = thread::scope(|scope| {
        let mut opened = None;
        let mut run: Option<Run<'_>> = None;
        let mut own: Option<(Vec<EndReport>, Results, u64)> = None;
        loop {
            while let Some(bytes) = client.poll_output() {
                if line.say(&bytes).is_err() {
                    client.on_closed();
                }
            }
            while let Some(action) = client.poll_action() {
                match action {
                    ClientAction::Open => {
                        let streams = opening::streams(first, server, &cookie, &parameters)?;
                        opened = Some(streams);
                        client.on_streams(now());
                    }
                    ClientAction::Run => {
                        let (sockets, rtt_ns) = opened.take().ok_or(Failure::Aborted)?;
                        let account = Account::new(parameters.clone(), sockets, true);
                        run = Some(Run::start(scope, loads, account, rtt_ns));
                    }
                    ClientAction::Report => {
                        let finished = run.take().ok_or(Failure::Aborted)?.finish()?;
                        client.on_results(now(), &finished.1);
                        own = Some(finished);
                    }
                    ClientAction::End(ended) => {
                        return match (ended, own.take()) {
                            (Ok(theirs), Some((reports, results, waited_ns))) => {
                                let ends = loads.iter().zip(reports).map(|(load, client)| {
                                    let sends = load.prepare.is_active();
                                    let server =
                                        ends::theirs(&theirs, &parameters, sends, waited_ns);
                                    Ends { client, server }
                                });
                                let ends = ends.collect();
                                Ok(Measured { ends, server: *theirs, client: results })
                            }
                            (Err(error), _) => {
                                loads.iter().for_each(|load| load.control.give_up());
                                Err(Failure::Peer(error.to_string()))
                            }
                            (Ok(_), None) => Err(Failure::Aborted),
                        };
                    }
                }
            }
            loads.iter().try_for_each(|load| load.control.check())?;
            if let Some(run) = &mut run
                && run.is_over()
            {
                client.end(now());
            }
            match line.hear(&mut buffer, LOOK_EVERY) {
                Ok(None) => client.on_timeout(now()),
                Ok(Some(0)) | Err(_) => client.on_closed(),
                Ok(Some(bytes)) => client.on_bytes(now(), &buffer[..bytes]),
            }
        }
    });
    if measured.is_err() {
        client.terminate();
    }
    while let Some(bytes) = client.poll_output() {
        let _ = line.say(&bytes);
    }
    line.close();
    measured
}

fn now() -> Instant {
    Instant(now_ns())
}

/// The run in progress: each direction on its own thread.
struct Run<'scope> {
    account: Account,
    began_ns: u64,
    directions: Vec<Running<'scope>>,
    /// When the load threads were found to have finished.
    sent_ns: Option<u64>,
    /// Time from then to the end of the test.
    waited_ns: u64,
    rtt_ns: u64,
    ended_ns: u64,
}

/// The order with its amount rounded up to whole payloads, as iperf3's client sends it: a server does not count a part of
/// a block before the rest of it has arrived (`Nrecv_no_select` in src/net.c, iperf3 3.21).
fn in_whole_blocks(prepare: &Prepare) -> Prepare {
    let payload_bytes = prepare.point.payload.0.max(1);
    let whole = |Bytes(bytes)| Bytes(bytes.div_ceil(payload_bytes).saturating_mul(payload_bytes));
    Prepare { amount: prepare.amount.map(whole), ..prepare.clone() }
}

struct Running<'scope> {
    load: ClientEnd<'scope>,
    thread: ScopedJoinHandle<'scope, (Result<EndReport, Failure>, Cpu)>,
}

impl Running<'_> {
    /// Whether the client has nothing more to send, or to wait for.
    fn is_over(&self, account: &Account, elapsed_ns: u64) -> bool {
        let ClientEnd { prepare, control } = self.load;
        if self.thread.is_finished() || prepare.is_active() {
            return self.thread.is_finished();
        }
        let has_amount = prepare.amount.is_some_and(|Bytes(bytes)| account.bytes() >= bytes);
        has_amount || control.is_ended() || elapsed_ns >= prepare.duration_ns.0
    }
}

impl<'scope> Run<'scope> {
    fn start(
        scope: &'scope Scope<'scope, '_>,
        loads: &'scope [ClientEnd<'scope>],
        account: Account,
        rtt_ns: u64,
    ) -> Self {
        if account.parameters.kind == Kind::Udp {
            account.track();
        }
        let start = |load: &ClientEnd<'scope>| {
            let (load, flows) = (*load, account.flows(load.prepare.is_active()));
            let prepare = in_whole_blocks(load.prepare);
            let thread = scope.spawn(move || {
                let report = foreign::run(&prepare, flows, rtt_ns, load.control);
                (report, Cpu::of_this_thread())
            });
            Running { load, thread }
        };
        let directions = loads.iter().map(start).collect();
        let began_ns = now_ns();
        Self {
            account,
            began_ns,
            directions,
            sent_ns: None,
            waited_ns: 0,
            rtt_ns,
            ended_ns: began_ns,
        }
    }

    /// Whether to end the test now.
    fn is_over(&mut self) -> bool {
        let now_ns = now_ns();
        self.account.on_time(now_ns);
        self.ended_ns = now_ns;
        let elapsed_ns = now_ns - self.began_ns;
        if !self.directions.iter().all(|running| running.is_over(&self.account, elapsed_ns)) {
            return false;
        }
        // Datagrams in flight should arrive before the server stops counting. With TCP, all bytes have been
        // acknowledged by now.
        let sends = self.directions.iter().any(|running| running.load.prepare.is_active());
        let waits = sends && self.account.parameters.kind == Kind::Udp;
        let wait_ns = if waits { SILENCE.as_nanos() as u64 + 2 * self.rtt_ns } else { 0 };
        let sent_ns = *self.sent_ns.get_or_insert(now_ns);
        self.waited_ns = now_ns - sent_ns;
        self.waited_ns >= wait_ns
    }

    /// Called when the server has stopped. Returns this end's counts in each direction, and the time that it waited at
    /// the end without sending.
    fn finish(self) -> Result<(Vec<EndReport>, Results, u64), Failure> {
        let gives_up_ns = now_ns() + DRAIN_WITHIN.as_nanos() as u64;
        for Running { load, .. } in &self.directions {
            // An amount that is never reached: silence ends the reception.
            load.control.drain(u64::MAX - 1, SILENCE.as_nanos() as u64 + 2 * self.rtt_ns);
        }
        while self.directions.iter().any(|running| !running.thread.is_finished()) {
            if now_ns() >= gives_up_ns {
                self.directions.iter().for_each(|running| running.load.control.give_up());
            }
            thread::sleep(Duration::from_millis(1));
        }
        let (mut reports, mut cpu) = (Vec::new(), Cpu::default());
        for Running { load, thread } in self.directions {
            let joined = thread.join();
            let (report, of_thread) =
                joined.map_err(|_| Failure::System("the load thread failed".to_owned()))?;
            reports.push(ends::own(report?, &self.account, load.prepare.is_active()));
            cpu = cpu.and(of_thread);
        }
        let results = self.account.results(self.ended_ns - self.waited_ns, cpu);
        Ok((reports, results, self.waited_ns))
    }
}
