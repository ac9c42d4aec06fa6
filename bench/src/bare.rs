//! Bare loops in C: the system calls of a workload and nothing else.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

use fabricmark_lab::Role;
use serde_json::Value;

use crate::contender::{Contender, Ends, Failure, Job, Pair};
use crate::place::{Place, Ready, cpu, free_port};
use crate::work::{Figure, Path, Transport, Values, Wait, Work, value};

const HEADER: (&str, &str) = ("common.h", include_str!("../bare/common.h"));

const LOOPS: [(&str, &str); 5] = [
    ("stream", include_str!("../bare/stream.c")),
    ("rr", include_str!("../bare/rr.c")),
    ("many", include_str!("../bare/many.c")),
    ("datagrams", include_str!("../bare/datagrams.c")),
    ("slip", include_str!("../bare/slip.c")),
];

/// Folder of the compiled loops.
#[derive(Clone, Debug)]
pub struct Bare {
    folder: PathBuf,
}

impl Bare {
    /// Compiles the loops into a folder with `cc -O2`; the error is the reason for a failure.
    pub fn compile(folder: &FilePath) -> Result<Self, String> {
        let unwritten = |error| format!("cannot write the bare loops: {error}");
        fs::create_dir_all(folder).map_err(unwritten)?;
        fs::write(folder.join(HEADER.0), HEADER.1).map_err(unwritten)?;
        for (name, source) in LOOPS {
            let file = folder.join(name).with_extension("c");
            fs::write(&file, source).map_err(unwritten)?;
            let output = Command::new("cc")
                .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
                .args([&folder.join(name), &file])
                .output();
            let output = output.map_err(|error| {
                let help = "install a C compiler (Debian, Ubuntu: build-essential)";
                format!("cannot start cc: {error}; {help}")
            })?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr);
                return Err(format!("cc cannot compile {name}.c: {message}"));
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }
}

/// Arguments of both ends of a workload: the loop and its mode, the payload size, and one loop-specific argument.
struct Ways {
    asking: (&'static str, &'static str),
    answering: (&'static str, &'static str),
    bytes: u32,
    word: String,
}

fn ways(work: Work, rate_per_s: u64) -> Option<Ways> {
    let of = |name, asking, answering, bytes, word: &str| Ways {
        asking: (name, asking),
        answering: (name, answering),
        bytes,
        word: word.to_owned(),
    };
    Some(match work {
        Work::Stream { bytes } => of("stream", "send", "receive", bytes, ""),
        Work::StreamWithLowat { bytes } => of("stream", "send", "receive", bytes, "131072"),
        Work::Rr { transport, bytes, wait, flows: 1 } => {
            let spin = if wait == Wait::Spin { "-spin" } else { "" };
            of("rr", "ask", "answer", bytes, &format!("{transport}{spin}"))
        }
        Work::Rr { transport: Transport::Tcp, bytes, wait: Wait::Block, flows } => {
            of("many", "ask", "answer", bytes, &flows.to_string())
        }
        Work::Crr { flows: 1, .. } => of("rr", "ask", "answer", 1, "connect"),
        Work::Datagrams { bytes, path } => {
            let word = match path {
                Path::Copy => "plain",
                Path::Mmsg => "mmsg",
                Path::Gso => "gso",
            };
            of("datagrams", "send", "receive", bytes, word)
        }
        Work::Departures { wait: Wait::Block } => Ways {
            asking: ("slip", "send"),
            answering: ("datagrams", "receive"),
            bytes: 64,
            word: rate_per_s.to_string(),
        },
        _ => return None,
    })
}

impl Contender for Bare {
    fn name(&self) -> &'static str {
        "bare loop"
    }

    fn offers(&self, work: Work) -> bool {
        ways(work, 0).is_some()
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let Some(ways) = ways(job.work, job.rate_per_s) else {
            return Err(Failure::NotOffered("there is no such loop".to_owned()));
        };
        let place = Place::new(job)?;
        let port = free_port()?;
        let words = |(name, mode): (&str, &str), end| {
            vec![
                self.folder.join(name).display().to_string(),
                mode.to_owned(),
                place.address(),
                port.to_string(),
                ways.bytes.to_string(),
                job.seconds.to_string(),
                cpu(end).to_string(),
                ways.word.clone(),
            ]
        };
        let is_counted_there = matches!(
            job.work,
            Work::Stream { .. } | Work::StreamWithLowat { .. } | Work::Datagrams { .. }
        );
        let is_udp = matches!(
            job.work,
            Work::Rr { transport: Transport::Udp, .. }
                | Work::Datagrams { .. }
                | Work::Departures { .. }
        );
        let pair = Pair {
            server: words(ways.answering, Role::Server),
            client: words(ways.asking, Role::Client),
            ready: if is_udp { Ready::IsBound(port) } else { Ready::Listens(port) },
            ends: if is_counted_there { Ends::Itself } else { Ends::Killed },
        };
        let (client, server) = pair.run(job, &place)?;
        read(job.work, if is_counted_there { &server } else { &client })
    }
}

/// Reads the figure from a loop's line of JSON.
fn read(work: Work, line: &str) -> Result<Values, Failure> {
    let unreadable = || Failure::Failed(format!("its output cannot be read: {}", line.trim()));
    let numbers: Value = serde_json::from_str(line).map_err(|_| unreadable())?;
    let number = |key: &str| numbers[key].as_f64().ok_or_else(unreadable);
    if work.figure() == Figure::SlipP99Ns {
        return Ok(value(Figure::SlipP99Ns, number("p99_ns")?));
    }
    let elapsed_s = number("elapsed_ns")? / 1e9;
    let done = match work.figure() {
        Figure::GoodputBps => 8.0 * number("bytes")?,
        _ => number("count")?,
    };
    if done <= 0.0 || elapsed_s <= 0.0 {
        return Err(Failure::Failed("nothing arrived after the ramp".to_owned()));
    }
    Ok(value(work.figure(), done / elapsed_s))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::place::Target;

    #[test]
    fn a_rate_is_what_was_counted_over_the_time_from_first_to_last() {
        let line = "{\"count\": 10, \"bytes\": 640, \"elapsed_ns\": 2000000000}\n";
        let of = |work| read(work, line).unwrap().into_values().next().unwrap();
        assert_eq!(of(Work::Stream { bytes: 64 }), 2560.0);
        assert_eq!(of(Work::Crr { flows: 1, threads: 1 }), 5.0);
        let line = "{\"count\": 10, \"p50_ns\": 900, \"p99_ns\": 1234}";
        let slip = read(Work::Departures { wait: Wait::Block }, line).unwrap();
        assert_eq!(slip, value(Figure::SlipP99Ns, 1234.0));
    }

    #[test]
    fn nothing_counted_is_a_failure_and_no_rate() {
        let line = "{\"count\": 0, \"bytes\": 0, \"elapsed_ns\": 0}";
        assert!(read(Work::Stream { bytes: 64 }, line).is_err());
        assert!(read(Work::Stream { bytes: 64 }, "recv: reset").is_err());
    }

    #[test]
    fn every_loop_moves_bytes_over_loopback() {
        let folder = tempfile::TempDir::new().unwrap();
        let bare = Bare::compile(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let mut work = vec![
            Work::Stream { bytes: 131_072 },
            Work::StreamWithLowat { bytes: 64 },
            Work::Crr { flows: 1, threads: 1 },
            Work::Datagrams { bytes: 64, path: Path::Copy },
            Work::Datagrams { bytes: 64, path: Path::Mmsg },
            Work::Datagrams { bytes: 64, path: Path::Gso },
            Work::Departures { wait: Wait::Block },
        ];
        for transport in [Transport::Tcp, Transport::Udp] {
            for wait in [Wait::Block, Wait::Spin] {
                work.push(Work::Rr { transport, bytes: 64, wait, flows: 1 });
            }
        }
        let (transport, wait) = (Transport::Tcp, Wait::Block);
        work.push(Work::Rr { transport, bytes: 64, wait, flows: 100 });
        for work in work {
            assert!(bare.offers(work), "{work:?}");
            let job = Job {
                work,
                target: Target::Loopback,
                is_pinned: true,
                seconds: 0.1,
                rate_per_s: 1000,
                congestion: "",
                stop: &stop,
            };
            let values = bare.run(&job).unwrap_or_else(|error| panic!("{work:?}: {error}"));
            assert!(values[&work.figure()] > 0.0, "{work:?}: {values:?}");
        }
    }
}
