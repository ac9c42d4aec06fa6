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
use super::{asking, ends, opening};

/// Polling interval of the control connection while the run is in progress.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Maximum time for a receiver to end after the server has ended; it waits for silence.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// Counts of both ends of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Reports as of any other run. The server's has only what iperf3 reports; its writes are computed from its bytes.
    pub ends: Ends,
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

/// Performs a run as the iperf3 client: a stream of TCP or UDP, forward or reverse. Returns an error, before
/// anything is sent, for options that iperf3 does not support.
///
/// The run ends after its amount or its duration, whichever comes first, or on [`Control::end`].
pub fn measure(
    prepare: &Prepare,
    server: SocketAddr,
    credentials: Option<&Credentials>,
    control: &Control,
) -> Result<Measured, Failure> {
    let mut parameters = asking::parameters(prepare)?;
    parameters.token = credentials.map(Credentials::token).transpose()?;
    let cookie = opening::new_cookie()?;
    let line = opening::control(prepare, server)?;
    let mut client = Client::new(now(), &cookie, parameters.clone());
    let mut buffer = [0; 4096];
    let measured = thread::scope(|scope| {
        let mut opened = None;
        let mut run: Option<Run<'_>> = None;
        let mut own: Option<(EndReport, Results, u64)> = None;
        loop {
            while let Some(bytes) = client.poll_output() {
                if line.say(&bytes).is_err() {
                    client.on_closed();
                }
            }
            while let Some(action) = client.poll_action() {
                match action {
                    ClientAction::Open => {
                        let kind = parameters.kind;
                        opened = Some(opening::streams(prepare, server, &cookie, kind, control)?);
                        client.on_streams(now());
                    }
                    ClientAction::Run => {
                        let (sockets, rtt_ns) = opened.take().ok_or(Failure::Aborted)?;
                        let account = Account::new(parameters.clone(), sockets, true);
                        run = Some(Run::start(scope, prepare, account, rtt_ns, control));
                    }
                    ClientAction::Report => {
                        let finished = run.take().ok_or(Failure::Aborted)?.finish(control)?;
                        client.on_results(now(), &finished.1);
                        own = Some(finished);
                    }
                    ClientAction::End(ended) => {
                        return match (ended, own.take()) {
                            (Ok(theirs), Some((report, results, waited_ns))) => {
                                let answer = ends::theirs(&theirs, &parameters, waited_ns);
                                let ends = Ends { client: report, server: answer };
                                Ok(Measured { ends, server: *theirs, client: results })
                            }
                            (Err(error), _) => {
                                control.give_up();
                                Err(Failure::Peer(error.to_string()))
                            }
                            (Ok(_), None) => Err(Failure::Aborted),
                        };
                    }
                }
            }
            control.check()?;
            if let Some(run) = &mut run
                && run.is_over(prepare, control)
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

/// The run in progress, on its own thread.
struct Run<'scope> {
    account: Account,
    began_ns: u64,
    thread: ScopedJoinHandle<'scope, (Result<EndReport, Failure>, Cpu)>,
    /// When the load thread was found to have finished.
    sent_ns: Option<u64>,
    /// Time from then to the end of the test.
    waited_ns: u64,
    rtt_ns: u64,
    ended_ns: u64,
}

impl<'scope> Run<'scope> {
    fn start(
        scope: &'scope Scope<'scope, '_>,
        prepare: &Prepare,
        account: Account,
        rtt_ns: u64,
        control: &'scope Control,
    ) -> Self {
        let prepare = prepare.clone();
        let sends = prepare.is_active();
        let flows = account.flows(sends);
        if account.parameters.kind == Kind::Udp && !sends {
            account.track();
        }
        let thread = scope.spawn(move || {
            let report = foreign::run(&prepare, flows, rtt_ns, control);
            (report, Cpu::of_this_thread())
        });
        let began_ns = now_ns();
        Self { account, began_ns, thread, sent_ns: None, waited_ns: 0, rtt_ns, ended_ns: began_ns }
    }

    /// Whether to end the test now.
    fn is_over(&mut self, prepare: &Prepare, control: &Control) -> bool {
        let now_ns = now_ns();
        self.account.on_time(now_ns);
        self.ended_ns = now_ns;
        if self.thread.is_finished() {
            // Datagrams in flight should arrive before the server stops counting. With TCP, all bytes have been
            // acknowledged by now.
            let is_udp = self.account.parameters.kind == Kind::Udp;
            let wait_ns = if is_udp { SILENCE.as_nanos() as u64 + 2 * self.rtt_ns } else { 0 };
            let sent_ns = *self.sent_ns.get_or_insert(now_ns);
            self.waited_ns = now_ns - sent_ns;
            return self.waited_ns >= wait_ns;
        }
        if prepare.is_active() {
            return false;
        }
        let has_amount = prepare.amount.is_some_and(|Bytes(bytes)| self.account.bytes() >= bytes);
        has_amount || control.is_ended() || now_ns - self.began_ns >= prepare.duration_ns.0
    }

    /// Called when the server has stopped. Returns this end's counts, and the time that it waited at the end without
    /// sending.
    fn finish(self, control: &Control) -> Result<(EndReport, Results, u64), Failure> {
        // An amount that is never reached: silence ends the reception.
        control.drain(u64::MAX - 1, SILENCE.as_nanos() as u64 + 2 * self.rtt_ns);
        let gives_up_ns = now_ns() + DRAIN_WITHIN.as_nanos() as u64;
        while !self.thread.is_finished() {
            if now_ns() >= gives_up_ns {
                control.give_up();
            }
            thread::sleep(Duration::from_millis(1));
        }
        let joined = self.thread.join();
        let (report, cpu) =
            joined.map_err(|_| Failure::System("the load thread failed".to_owned()))?;
        let results = self.account.results(self.ended_ns - self.waited_ns, cpu);
        Ok((ends::own(report?, &self.account), results, self.waited_ns))
    }
}
