//! fabricmark itself: its command line and its output.

use fabricmark_lab::Role;
use std::path::{Path as FilePath, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::contender::{Contender, Failure, GRACE, Job, with_reason, words};
use crate::place::{Target, cpu};
use crate::process::{Output, Running, command};
use crate::work::{Figure, Path, Process, Transport, Values, Verb, Wait, Work};

/// Exit code for an unknown command or option (docs/exit-codes.md).
const WRONG_INPUT: i32 = 64;

/// Additional time to open and close 10,000 flows.
const FLOWS_GRACE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct Fabricmark {
    pub program: PathBuf,
}

impl Fabricmark {
    fn start(
        &self,
        arguments: &[String],
        stdin: Stdio,
        variables: &[(&str, &FilePath)],
    ) -> Result<Running, Failure> {
        let program = self.program.display().to_string();
        let variables = variables.iter().copied();
        Running::start(command(&program, arguments).stdin(stdin).envs(variables))
            .map_err(|error| Failure::Failed(format!("cannot start {program}: {error}")))
    }

    /// CPU time and memory of a process that is idle for the duration of the run.
    fn idle(&self, process: Process, job: &Job<'_>) -> Result<Values, Failure> {
        // A worker serves the socket on its standard input; this end of it stays silent.
        let (_coordinator, worker) = std::os::unix::net::UnixStream::pair()?;
        let stdin = Stdio::from(std::os::fd::OwnedFd::from(worker));
        let folder = tempfile::TempDir::new()?;
        let key = folder.path().join("key.pem");
        let key_file = [("FABRICMARK_KEY_FILE", key.as_path())];
        let idle = match process {
            Process::Worker => self.start(&words("worker"), stdin, &[])?,
            Process::Agent => {
                let made = self.start(&words("agent --new-key"), Stdio::null(), &key_file)?;
                made.wait(GRACE, job.stop)?;
                let made = made.finish()?;
                if !made.status.success() {
                    let failure = Failure::Failed("the agent made no key".to_owned());
                    return Err(with_reason(failure, &made));
                }
                self.start(&words("agent --listen 127.0.0.1:0"), Stdio::null(), &key_file)?
            }
        };
        let of_process =
            |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", idle.id()));
        // The start-up cost has ended long before.
        let wait = |for_s: f64| match idle.wait(Duration::from_secs_f64(for_s), job.stop) {
            Ok(()) => Err(Failure::Failed(format!("the {process} ended by itself"))),
            Err(Failure::Late(_)) => Ok(()),
            Err(failure) => Err(failure),
        };
        wait(0.3)?;
        let before = of_process("stat")?;
        wait(job.seconds)?;
        let (after, status) = (of_process("stat")?, of_process("status")?);
        let missing = || Failure::Failed(format!("cannot read /proc of the {process}"));
        let ticks = |stat: &str| Some(stat_field(stat, 14)? + stat_field(stat, 15)?);
        let used = ticks(&after).zip(ticks(&before)).ok_or_else(missing)?;
        let used_s = (used.0 - used.1) as f64 / rustix::param::clock_ticks_per_second() as f64;
        let bytes = |field| status_bytes(&status, field).ok_or_else(missing);
        Ok(Values::from([
            (Figure::CpuShare, used_s / job.seconds),
            (Figure::ResidentBytes, bytes("VmRSS:")?),
            (Figure::AnonymousBytes, bytes("RssAnon:")?),
        ]))
    }
}

impl Contender for Fabricmark {
    fn name(&self) -> &'static str {
        "fabricmark"
    }

    fn offers(&self, work: Work) -> bool {
        !matches!(work, Work::Emulated(_))
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        if let Work::Idle(process) = job.work {
            return self.idle(process, job);
        }
        let arguments = arguments(job)
            .ok_or_else(|| Failure::NotOffered("an emulator has this work".to_owned()))?;
        let running = self.start(&arguments, Stdio::null(), &[])?;
        running.wait(Duration::from_secs_f64(job.seconds) + GRACE + FLOWS_GRACE, job.stop)?;
        read(job.work, &running.finish()?)
    }
}

/// Arguments of a run; `None` for workloads that are not measurements.
fn arguments(job: &Job<'_>) -> Option<Vec<String>> {
    if let Work::Verbs { verb, bytes, is_stream } = job.work {
        return verbs(job, verb, bytes, is_stream);
    }
    let (pattern, transport, payload) = match job.work {
        Work::Stream { bytes } | Work::StreamWithLowat { bytes } => {
            ("stream", Transport::Tcp, bytes)
        }
        Work::Rr { transport, bytes, .. } => ("rr", transport, bytes),
        Work::Threads { is_stream: true, .. } => ("stream", Transport::Tcp, 131_072),
        Work::Threads { is_stream: false, .. } => ("rr", Transport::Tcp, 64),
        Work::Crr { .. } => ("crr", Transport::Tcp, 1),
        Work::Datagrams { bytes, .. } => ("stream", Transport::Udp, bytes),
        Work::Departures { .. } => ("stream", Transport::Udp, 64),
        Work::Verbs { .. } | Work::Idle(_) | Work::Emulated(_) => return None,
    };
    let target = match job.target {
        Target::Loopback => "loopback",
        Target::Veth | Target::Emulated | Target::Adapters(_) => "lab:veth",
    };
    let milliseconds = (job.seconds * 1e3).round();
    let mut line = format!(
        "measure {pattern} {target} --transport {transport} --family 4 --payload {payload} \
         --duration {milliseconds}ms --runs 1 --json"
    );
    match job.work {
        Work::Threads { threads, .. } => line += &format!(" --flows {threads} --threads {threads}"),
        Work::Crr { threads: threads @ 2.., .. } => line += &format!(" --threads {threads}"),
        _ => {}
    }
    if job.is_pinned {
        line += &format!(" --cpu {},{}", cpu(Role::Client), cpu(Role::Server));
    }
    let wait = |wait| match wait {
        Wait::Block => " --wait block",
        Wait::Spin => " --wait spin",
    };
    match job.work {
        Work::Rr { wait: how, flows, bytes, .. } => {
            line += &format!(" --response {bytes}");
            match flows {
                1 if job.is_pinned => line += wait(how),
                1 => {}
                flows => line += &format!(" --flows {flows} --wait epoll"),
            }
        }
        Work::Crr { flows, .. } => line += &format!(" --response 1 --flows {flows}"),
        Work::Datagrams { path, .. } => {
            line += match path {
                Path::Copy => " --path copy",
                Path::Mmsg => " --path mmsg",
                Path::Gso => " --path gso",
            };
        }
        Work::Departures { wait: how } => {
            let wait = match how {
                Wait::Block => "sleep",
                Wait::Spin => "sleep-spin",
            };
            line += &format!(" --pace fixed:{}/s --pace-wait {wait}", job.rate_per_s);
        }
        Work::Threads { is_stream: false, .. } => line += " --response 64",
        Work::StreamWithLowat { .. } => line += " --receive-lowat 128KiB",
        Work::Stream { .. }
        | Work::Threads { .. }
        | Work::Verbs { .. }
        | Work::Idle(_)
        | Work::Emulated(_) => {}
    }
    // On loopback all programs use the system's default.
    if transport == Transport::Tcp && job.target == Target::Veth {
        line += &format!(" --congestion {}", job.congestion);
    }
    Some(words(&line))
}

/// Arguments of a run over RDMA. The round trip of an RDMA read is a request and its response.
fn verbs(job: &Job<'_>, verb: Verb, bytes: u32, is_stream: bool) -> Option<Vec<String>> {
    let Target::Adapters([from, to]) = job.target else { return None };
    let pattern = match (is_stream, verb) {
        (true, _) => "stream",
        (false, Verb::Read) => "rr",
        (false, _) => "ping-pong",
    };
    let (milliseconds, client, server) =
        ((job.seconds * 1e3).round(), cpu(Role::Client), cpu(Role::Server));
    Some(words(&format!(
        "measure {pattern} --ends {from},{to} --transport rc --operation {verb} --family 4 --payload {bytes} --wait spin \
         --duration {milliseconds}ms --cpu {client},{server} --runs 1 --json"
    )))
}

/// The figures of the only record in the output.
fn read(work: Work, output: &Output) -> Result<Values, Failure> {
    if output.status.code() == Some(WRONG_INPUT) {
        let first = output.err.lines().next().unwrap_or_default();
        return Err(Failure::NotOffered(first.to_owned()));
    }
    if !output.status.success() {
        let failure = Failure::Failed(format!("it ended with {}", output.status));
        // Further lines are advice.
        let message = output.err.lines().rfind(|line| line.starts_with("fabricmark: "));
        let err = message.unwrap_or(&output.err).to_owned();
        return Err(with_reason(failure, &Output { err, ..output.clone() }));
    }
    let document: Value = serde_json::from_str(&output.out)
        .map_err(|error| Failure::Failed(format!("its JSON cannot be read: {error}")))?;
    let figures = &document["records"][0]["figures"];
    let values: Values = [
        Figure::GoodputBps,
        Figure::TransactionsPerS,
        Figure::DatagramsPerS,
        Figure::SlipP99Ns,
        Figure::SlipWithoutPausesP99Ns,
        Figure::MemoryPerFlowBytes,
        Figure::RttP50Ns,
        Figure::RttMeanNs,
    ]
    .into_iter()
    .filter_map(|figure| Some((figure, figures[figure.key()]["value"].as_f64()?)))
    .collect();
    if values.contains_key(&work.figure()) {
        Ok(values)
    } else {
        Err(Failure::Failed(format!("its record has no {}", work.figure().key())))
    }
}

/// A numeric field of /proc/PID/stat by its number in proc_pid_stat(5). The second field, a name in parentheses, may
/// contain anything.
pub fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// A field of /proc/PID/status in bytes.
fn status_bytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kibibytes)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn output(code: i32, out: &str, err: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output { status, out: out.to_owned(), err: err.to_owned() }
    }

    fn line(work: Work, target: Target, is_pinned: bool) -> String {
        let stop = AtomicBool::new(false);
        let (seconds, rate_per_s, congestion) = (0.3, 9, "cubic");
        let job = Job { work, target, is_pinned, seconds, rate_per_s, congestion, stop: &stop };
        arguments(&job).unwrap().join(" ")
    }

    #[test]
    fn work_becomes_a_command_line() {
        let rr = Work::Rr { transport: Transport::Tcp, bytes: 64, wait: Wait::Spin, flows: 1 };
        let second = cpu(Role::Server);
        assert_eq!(
            line(rr, Target::Veth, true),
            format!(
                "measure rr lab:veth --transport tcp --family 4 --payload 64 --duration 300ms \
                 --runs 1 --json --cpu 0,{second} --response 64 --wait spin --congestion cubic"
            )
        );
        let by_defaults = line(rr, Target::Loopback, false);
        assert!(by_defaults.ends_with("--runs 1 --json --response 64"), "{by_defaults}");
        let threads = line(Work::Threads { threads: 2, is_stream: true }, Target::Loopback, false);
        assert!(threads.ends_with("--json --flows 2 --threads 2"), "{threads}");
        let lowat = line(Work::StreamWithLowat { bytes: 64 }, Target::Loopback, false);
        assert!(
            lowat.ends_with("--payload 64 --duration 300ms --runs 1 --json --receive-lowat 128KiB")
        );
        let slow = line(Work::Departures { wait: Wait::Block }, Target::Loopback, true);
        assert!(slow.ends_with("--pace fixed:9/s --pace-wait sleep"), "{slow}");
        let read = Work::Verbs { verb: Verb::Read, bytes: 64, is_stream: false };
        let ends = [[10, 9, 0, 1], [10, 9, 0, 2]].map(IpAddr::from);
        let read = line(read, Target::Adapters(ends), true);
        let start = "measure rr --ends 10.9.0.1,10.9.0.2 --transport rc --operation read ";
        assert!(read.starts_with(start), "{read}");
    }

    #[test]
    fn figures_come_from_the_record_and_absent_ones_stay_absent() {
        let text = r#"{"records": [{"figures": {
            "transactions_per_s": {"value": 12500.5, "provenance": "measured"},
            "goodput_bps": null, "memory_per_flow_bytes": {"value": 4096}}}]}"#;
        let values = read(Work::Crr { flows: 1, threads: 1 }, &output(0, text, "")).unwrap();
        let expected = [(Figure::TransactionsPerS, 12500.5), (Figure::MemoryPerFlowBytes, 4096.0)];
        assert_eq!(values, Values::from(expected));
        let missing = read(Work::Stream { bytes: 64 }, &output(0, text, ""));
        assert_eq!(missing, Err(Failure::Failed("its record has no goodput_bps".to_owned())));
    }

    #[test]
    fn a_refusal_is_told_apart_from_a_failure() {
        let refused = output(64, "", "error: unrecognized subcommand 'measure'\n\nUsage: x\n");
        let reason = "error: unrecognized subcommand 'measure'".to_owned();
        assert_eq!(read(Work::Idle(Process::Worker), &refused), Err(Failure::NotOffered(reason)));
        let text = "run 1 of 1\nfabricmark: the peer is gone\nstart it again\n";
        let failed = read(Work::Idle(Process::Worker), &output(67, "", text));
        let reason = "it ended with exit status: 67: fabricmark: the peer is gone".to_owned();
        assert_eq!(failed, Err(Failure::Failed(reason)));
    }

    #[test]
    fn fields_of_proc_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1";
        assert_eq!(stat_field(stat, 14), Some(11));
        assert_eq!(stat_field(stat, 17), Some(14));
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 4 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(2_097_152.0));
        assert_eq!(status_bytes(status, "RssAnon:"), Some(4096.0));
    }
}
