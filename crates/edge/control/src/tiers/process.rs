//! The process of a tier: `fabricmark-shop tier`, at the tier's node.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;
use fabricmark_plan::Tier;
use fabricmark_record::{TierLine, TierOrder};

use crate::error::PlanError;

/// Period of checks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a process may take to end its servers and remove their folder.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Longest silence while an order is carried out: loading a batch of rows takes milliseconds, and an audit of a large shop
/// seconds.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Largest length of a line.
const LINE_MAX: u64 = 64 << 20;

/// A process of a tier. What it has started ends with it.
pub(super) struct TierProcess {
    tier: Tier,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<TierLine>,
}

impl TierProcess {
    /// Starts the program of a tier, in the namespace if one is given.
    pub(super) fn start(
        tier: Tier,
        program: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, PlanError> {
        let mut command = Command::new(program);
        command.arg("tier").stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C in a terminal reaches only this process, which ends the tiers in order.
        command.process_group(0);
        if let Some(namespace) = namespace {
            namespace.enter(&mut command);
        }
        let failed = PlanError::system("start fabricmark-shop");
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = String::new();
                while let Ok(1..) = (&mut output).take(LINE_MAX).read_line(&mut line) {
                    let read = serde_json::from_str(&line);
                    if !read.is_ok_and(|line| sender.send(line).is_ok()) {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Ok(Self { tier, child, input, lines })
    }

    /// Gives an order and waits until it is carried out; `progress` gets how far it is.
    pub(super) fn ask(
        &mut self,
        order: &TierOrder,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(u32, u32),
    ) -> Result<TierLine, PlanError> {
        let mut text = serde_json::to_vec(order).unwrap_or_default();
        text.push(b'\n');
        if self.input.as_mut().is_none_or(|input| input.write_all(&text).is_err()) {
            return Err(self.lost());
        }
        let mut heard = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(TierLine::Progress { done, of }) => {
                    heard = Instant::now();
                    progress(done, of);
                }
                Ok(TierLine::Failed { message, is_missing: true }) => {
                    return Err(PlanError::Missing(message));
                }
                Ok(TierLine::Failed { message, .. }) => {
                    let node = self.tier.name();
                    return Err(PlanError::Failed(format!("tier {node}: {message}")));
                }
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if interrupted.load(Relaxed) => {
                    return Err(PlanError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < SILENCE_MAX => {}
                Err(RecvTimeoutError::Timeout) => {
                    let (node, seconds) = (self.tier.name(), SILENCE_MAX.as_secs());
                    let message = format!("tier {node} was silent for {seconds} s");
                    return Err(PlanError::Failed(message));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            }
        }
    }

    fn lost(&mut self) -> PlanError {
        let node = self.tier.name();
        let fate = match self.child.try_wait() {
            Ok(Some(status)) => format!("ended ({status})"),
            _ => "is of another version than fabricmark: build both".to_owned(),
        };
        PlanError::Failed(format!("fabricmark-shop of tier {node} {fate}"))
    }

    /// An answer that does not belong to the order.
    pub(super) fn unexpected(&self, line: &TierLine) -> PlanError {
        PlanError::Internal(format!("tier {} answered {line:?}", self.tier.name()))
    }

    /// Lets it end its servers, without waiting for them.
    pub(super) fn end(&mut self) {
        self.input = None;
    }
}

impl Drop for TierProcess {
    fn drop(&mut self) {
        self.end();
        let until = Instant::now() + ENDS_WITHIN;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
