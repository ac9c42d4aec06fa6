//! Jobs of real ranks, by Open MPI and MPICH. With more ranks than CPUs the times are meaningless, and the results are still correct.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fabricmark_plan::Benchmark;
use fabricmark_record::MpiLine;
use fabricmark_testkit::skip;

const LIBRARIES: [&str; 2] = ["openmpi", "mpich"];

/// A launcher that has not ended after this time is killed, with all ranks: one that hangs would hang the tests.
const LIMIT: &str = "600";

/// The program for a library; `None`, and a counted skip, if it was not built (`scripts/mpi debug`).
fn program(test: &str, library: &str) -> Option<PathBuf> {
    let name = format!("fabricmark-mpi-{library}");
    let path = Path::new(env!("CARGO_BIN_EXE_fabricmark-mpi")).with_file_name(&name);
    let exists = path.is_file();
    if !exists {
        skip(test, &format!("{name} was not built: run scripts/mpi debug"));
    }
    exists.then_some(path)
}

fn launcher(library: &str, ranks: u32, limit: &[&str]) -> Command {
    let launcher = format!("mpirun.{library}");
    let words = [limit, &[&launcher]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    if library == "openmpi" {
        command.arg("--oversubscribe");
    }
    command.args(["-n", &ranks.to_string()]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// Runs a job.
fn run(library: &str, program: &Path, ranks: u32, arguments: &[&str]) -> Output {
    let limit = ["timeout", "--kill-after", "5", LIMIT];
    launcher(library, ranks, &limit).arg(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a job that printed JSON.
fn lines(output: &Output) -> Vec<MpiLine> {
    let text = text(&output.stdout);
    assert!(output.status.success(), "{}\n{text}", self::text(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_benchmark_gives_the_result_of_a_serial_computation() {
    for library in LIBRARIES {
        let test = "every_benchmark_gives_the_result_of_a_serial_computation";
        let Some(program) = program(test, library) else { continue };
        for (ranks, options) in [
            (2, &["--sync", "window"][..]),
            (4, &["--root", "rotate", "--buffers", "off-cache"]),
            (5, &["--in-place", "--datatype", "double"]),
        ] {
            let is_possible = |benchmark: &&Benchmark| ranks % 2 == 0 || !is_of_pairs(**benchmark);
            let benchmarks: Vec<&str> =
                Benchmark::ALL.iter().filter(is_possible).map(|b| b.word()).collect();
            // Sizes of no, one and several elements for each rank, and one beyond the eager limits of both libraries.
            // Ranks of MPICH that share a CPU spin for their whole time slices.
            let (payloads, sizes) = match (library, ranks) {
                ("mpich", 4) => ("120", 1),
                ("mpich", 5) => ("200000", 1),
                _ => ("0,8,120,200000", 4),
            };
            let all = ["-l", payloads, "--duration", "1ms", "--rounds", "2", "--json"];
            let arguments = [&benchmarks[..], &all[..], options].concat();
            let lines = lines(&run(library, &program, ranks, &arguments));
            let results = lines.iter().filter_map(|line| match line {
                MpiLine::Measured { result, .. } => Some(result),
                _ => None,
            });
            let (count, elements) = results.fold((0, 0), |(count, elements), result| {
                // Ranks that share a CPU may miss all common starts of a slice.
                assert!(result.slices_ns.len() == 2 || options.contains(&"window"));
                (count + 1, elements + result.verified_elements)
            });
            // Barriers have one payload.
            let barriers = 2 * (sizes - 1);
            assert_eq!(count, sizes * benchmarks.len() - barriers, "{library}, {ranks} ranks");
            assert!(elements > 10_000, "{elements}");
            let Some(MpiLine::Started(facts)) = lines.first() else { panic!("{lines:?}") };
            assert_eq!(facts.ranks.len(), ranks as usize);
            assert_eq!((facts.hosts.len(), facts.clock_error_ns), (1, 0));
        }
    }
}

fn is_of_pairs(benchmark: Benchmark) -> bool {
    matches!(benchmark, Benchmark::Uniband | Benchmark::Biband)
}

#[test]
fn tables_have_intervals_or_the_columns_of_imb() {
    let test = "tables_have_intervals_or_the_columns_of_imb";
    let Some(program) = program(test, "openmpi") else { return };
    let common = ["PingPong", "sendrecv", "Barrier", "-l", "0,1024", "--duration", "2ms"];
    let own = run("openmpi", &program, 2, &common);
    let own = text(&own.stdout);
    for expected in [
        "PingPong, 2 ranks: half the round trip",
        "95% interval",
        "goodput [Mbit/s]",
        "Barrier, 2 ranks: from the first start to the last end, after a barrier",
        "one clock for all ranks",
        "equal a serial computation",
    ] {
        assert!(own.contains(expected), "{expected} is not in\n{own}");
    }
    let imb = run("openmpi", &program, 2, &[&common[..], &["--as", "imb"]].concat());
    let imb = text(&imb.stdout);
    let header = imb.lines().find(|line| line.contains("#bytes")).unwrap();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(words, ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]);
    assert!(imb.contains("# Benchmarking Sendrecv"), "{imb}");
    // Mbytes/sec of 0 bytes is 0, and of Sendrecv twice the payload over the time.
    let row = |benchmark: &str, bytes: &str| -> Vec<f64> {
        let (_, table) = imb.split_once(&format!("# Benchmarking {benchmark}")).unwrap();
        let of_bytes = |line: &&str| line.split_whitespace().next() == Some(bytes);
        let row = table.lines().find(of_bytes).unwrap();
        row.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    assert_eq!(row("PingPong", "0")[3], 0.0);
    let sendrecv = row("Sendrecv", "1024");
    let [_, _, _, most_us, _, mbytes] = sendrecv[..] else { panic!("{sendrecv:?}") };
    // Times are printed with two decimals.
    assert!((mbytes * most_us / 2048.0 - 1.0).abs() < 0.05, "{sendrecv:?}");
}

#[test]
fn wrong_arguments_end_every_rank_with_one_message() {
    let test = "wrong_arguments_end_every_rank_with_one_message";
    let Some(program) = program(test, "openmpi") else { return };
    for (arguments, message) in [
        (&["PingPang"][..], "unknown benchmark; see --list"),
        (&["Bcast", "--ranks", "3"], "start it with mpirun -n 3"),
        (&["Allreduce", "-l", "6", "--datatype", "double"], "is not a multiple of the 8 bytes"),
        (&["Bcast", "--root", "last"], "--root: `last` is not one of first, rotate"),
    ] {
        let output = run("openmpi", &program, 2, arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{errors}");
        assert_eq!(errors.matches(message).count(), 1, "{errors}");
    }
}

#[test]
fn a_job_of_another_version_is_refused_with_the_remedy() {
    for library in LIBRARIES {
        let Some(program) = program("a job of another version", library) else { continue };
        let limit = ["timeout", "--kill-after", "5", LIMIT];
        let mut command = launcher(library, 1, &limit);
        command.arg(program).arg("--job").stdin(Stdio::piped());
        let mut ranks = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        ranks.stdin.take().unwrap().write_all(b"{}\n").unwrap();
        let output = ranks.wait_with_output().unwrap();
        assert!(!output.status.success());
        let told = text(&output.stderr);
        assert!(told.contains("cannot read the job") && told.contains("run `make mpi`"), "{told}");
    }
}

#[test]
fn a_signal_ends_a_job_with_the_results_so_far() {
    let test = "a_signal_ends_a_job_with_the_results_so_far";
    let Some(program) = program(test, "openmpi") else { return };
    // `timeout` would send the signal to the ranks, too.
    let mut command = launcher("openmpi", 2, &[]);
    command.arg(&program).args(["PingPong", "-l", "8", "--duration", "50s", "--rounds", "10000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = command.spawn().unwrap();
    let mut errors = BufReader::new(job.stderr.take().unwrap()).lines();
    errors.find(|line| line.as_ref().unwrap().starts_with("round 1002 of")).unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&job);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut printed = String::new();
    job.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("PingPong, 2 ranks: half the round trip"), "{printed}");
    let said: Vec<String> = errors.map(Result::unwrap).collect();
    assert!(said.iter().any(|line| line.starts_with("interrupted: ")), "{said:?}");
    assert!(!job.wait().unwrap().success());
}

/// A time namespace has a clock of its own, as another host has.
#[test]
fn ranks_with_other_clocks_are_synchronised_to_that_of_rank_0() {
    let test = "ranks_with_other_clocks_are_synchronised_to_that_of_rank_0";
    let Some(program) = program(test, "openmpi") else { return };
    let elsewhere = ["unshare", "--time", "--monotonic", "1000", "--fork"];
    let probe = Command::new(elsewhere[0]).args(&elsewhere[1..]).arg("true").output().unwrap();
    if !probe.status.success() {
        return skip(test, "time namespaces need root and CONFIG_TIME_NS");
    }
    let arguments = ["Allreduce", "-l", "8", "--sync", "window", "--duration", "200ms", "--json"];
    let mut command = launcher("openmpi", 1, &["timeout", "--kill-after", "5", LIMIT]);
    command.arg(&program).args(arguments).args([":", "-n", "1"]);
    let output = command.args(elsewhere).arg(&program).args(arguments).output().unwrap();
    let lines = lines(&output);
    let [MpiLine::Started(facts), .., MpiLine::Measured { result, .. }, MpiLine::Ended { .. }] =
        &lines[..]
    else {
        panic!("{lines:?}")
    };
    // Half of a round trip in shared memory, if a CPU was free at least once.
    assert!((1..1_000_000).contains(&facts.clock_error_ns), "{}", facts.clock_error_ns);
    // Clocks that differ by 1000 s would start no operation together.
    assert!(!result.slices_ns.is_empty());
    let imbalance_ns = result.imbalance_ns.as_ref().unwrap().quantile(0.5).unwrap();
    assert!(imbalance_ns < 1_000_000, "{imbalance_ns}");
}

#[test]
fn the_benchmarks_are_listed_without_a_launcher() {
    let test = "the_benchmarks_are_listed_without_a_launcher";
    let Some(program) = program(test, "openmpi") else { return };
    let output = Command::new(program).arg("--list").output().unwrap();
    let listed = text(&output.stdout);
    assert_eq!(listed.lines().count(), Benchmark::ALL.len());
    assert!(listed.contains("Allreduce             the sum of all ranks' payloads, at all ranks"));
}
