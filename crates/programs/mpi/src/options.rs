//! The command line: what to measure, and how to print it.

use clap::error::ErrorKind;
use clap::{Parser, ValueEnum};
use fabricmark_plan::{Benchmark, Datatype, Factor, Point, Where, resolve};
use fabricmark_record::MpiJob;
use fabricmark_units::{Bytes, Nanos};

/// Benchmarks of MPI operations with repetition statistics. Start it with the launcher of the MPI library: mpirun -n 2
/// fabricmark-mpi PingPong
#[derive(Clone, Debug, Parser)]
#[command(name = "fabricmark-mpi", version, max_term_width = 100)]
pub struct Options {
    /// Operations, by their names in the Intel MPI Benchmarks, such as PingPong or Allreduce
    #[arg(required_unless_present_any = ["job", "list"], value_name = "BENCHMARK", value_parser = benchmark)]
    pub benchmarks: Vec<Benchmark>,
    /// List the benchmarks
    #[arg(long)]
    pub list: bool,
    /// Bytes per message; by default 0, 1, 2, 4, ... 4MiB, as IMB, as far as they are whole elements of --datatype
    #[arg(long = "payload", short = 'l', value_delimiter = ',', value_name = "BYTES")]
    pub payloads: Vec<Bytes>,
    /// Numbers of ranks for operations between any number; by default all
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub ranks: Vec<u32>,
    /// Time per benchmark and payload
    #[arg(long, default_value = "500ms", value_name = "TIME")]
    pub duration: Nanos,
    /// Repetitions; in each, every benchmark and payload has its turn, in random order
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..), value_name = "N")]
    pub rounds: u32,
    /// Whether the buffers are in the cache: warm or off-cache
    #[arg(long, value_name = "BUFFERS")]
    pub buffers: Option<String>,
    /// Root of collective operations: first or rotate
    #[arg(long, value_name = "ROOT")]
    pub root: Option<String>,
    /// When collective operations start: barrier, window (at common times by synchronised clocks), or back-to-back
    #[arg(long, value_name = "START")]
    pub sync: Option<String>,
    /// Type of elements: byte, int, float or double
    #[arg(long, value_name = "TYPE")]
    pub datatype: Option<String>,
    /// Use one buffer for sending and receiving (MPI_IN_PLACE)
    #[arg(long)]
    pub in_place: bool,
    /// Seed of the random order
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print the columns of another program
    #[arg(long = "as", value_name = "PROGRAM")]
    pub as_of: Option<As>,
    /// Print lines of JSON
    #[arg(long, conflicts_with = "as_of")]
    pub json: bool,
    /// Run the job on the standard input of rank 0 and print lines of JSON, for `fabricmark run`
    #[arg(long, hide = true)]
    pub job: bool,
}

/// Programs whose columns can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// Intel MPI Benchmarks
    Imb,
}

/// Longest slice.
const SLICE_MAX: Nanos = Nanos::from_millis(500);

/// Largest default payload, that of IMB.
const PAYLOAD_MAX: u64 = 4 << 20;

fn benchmark(name: &str) -> Result<Benchmark, String> {
    Benchmark::named_loosely(name).ok_or_else(|| "unknown benchmark; see --list".to_owned())
}

/// Parses the command line. Prints help and ends; other errors are for rank 0 to print.
pub fn parse() -> Result<Options, clap::Error> {
    Options::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => error,
    })
}

impl Options {
    /// The job, for a world of this many ranks.
    pub fn job(&self, ranks: u32) -> Result<MpiJob, String> {
        let payloads = match self.payloads.as_slice() {
            [] => {
                let element = self.datatype.as_deref().and_then(Datatype::named);
                let element = element.map_or(1, Datatype::bytes);
                let powers = (0..=PAYLOAD_MAX.ilog2()).map(|power| Bytes(1 << power));
                let all = std::iter::once(Bytes(0)).chain(powers);
                all.filter(|payload| payload.0.is_multiple_of(element)).collect()
            }
            named => named.to_vec(),
        };
        let numbers = if self.ranks.is_empty() { vec![ranks] } else { self.ranks.clone() };
        let mut points: Vec<Point> = Vec::new();
        for &benchmark in &self.benchmarks {
            for &number in &numbers {
                for &payload in &payloads {
                    let point = self.point(benchmark, number, payload)?;
                    if point.ranks() > ranks {
                        return Err(format!(
                            "{benchmark} with {} ranks does not fit into a job of {ranks}; start \
                             it with mpirun -n {}",
                            point.ranks(),
                            point.ranks()
                        ));
                    }
                    if !points.contains(&point) {
                        points.push(point);
                    }
                }
            }
        }
        let given = [
            (Factor::Root, self.root.is_some()),
            (Factor::Sync, self.sync.is_some()),
            (Factor::InPlace, self.in_place),
        ];
        for (factor, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            if points.iter().all(|point| point.level(factor).is_empty()) {
                let option = factor.key().replace('_', "-");
                let names: Vec<&str> = self.benchmarks.iter().map(|one| one.word()).collect();
                let names = names.join(" and ");
                return Err(format!("--{option} has no effect on {names}: leave it out"));
            }
        }
        // A job ends after a slice, and Open MPI kills ranks a second after SIGTERM.
        let least = self.duration.0.div_ceil(SLICE_MAX.0);
        let rounds = self.rounds.max(u32::try_from(least).unwrap_or(u32::MAX));
        let slice_ns = Nanos(self.duration.0 / u64::from(rounds));
        Ok(MpiJob { points, slice_ns, rounds, seed: self.seed })
    }

    fn point(&self, benchmark: Benchmark, ranks: u32, payload: Bytes) -> Result<Point, String> {
        let mut levels = Where::new();
        for (factor, level) in [
            (Factor::Pattern, "mpi"),
            (Factor::Transport, "mpi"),
            (Factor::Family, "4"),
            (Factor::Link, "loopback"),
            (Factor::Benchmark, benchmark.word()),
        ] {
            levels.insert(factor, level.to_owned());
        }
        levels.insert(Factor::Payload, payload.0.to_string());
        levels.insert(Factor::Ranks, ranks.to_string());
        let named = [
            (Factor::Buffers, &self.buffers),
            (Factor::Root, &self.root),
            (Factor::Sync, &self.sync),
            (Factor::Datatype, &self.datatype),
        ];
        for (factor, level) in named {
            if let Some(level) = level {
                let level = factor.level(level).map_err(|error| format!("--{factor}: {error}"))?;
                levels.insert(factor, level);
            }
        }
        if self.in_place {
            levels.insert(Factor::InPlace, "true".to_owned());
        }
        resolve(&levels).map_err(|wrong| format!("{}; {}", wrong.message, wrong.help))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Arg, CommandFactory};
    use fabricmark_testkit::documents::{assert_accepted, documents, options};

    use super::*;

    #[test]
    fn default_payloads_are_whole_elements_and_no_job_has_no_ranks() {
        let parsed = |words: &str| Options::try_parse_from(words.split(' '));
        let options = parsed("fabricmark-mpi Allreduce --datatype double").unwrap();
        let payloads = options.job(2).unwrap().points.into_iter().map(|point| point.payload.0);
        assert_eq!(payloads.take(3).collect::<Vec<_>>(), [0, 8, 16]);
        assert!(parsed("fabricmark-mpi Allreduce --ranks 0").is_err());
    }

    #[test]
    fn an_option_without_effect_on_any_of_the_benchmarks_is_refused() {
        for (words, refused) in [
            ("PingPong --root rotate", Some("--root has no effect on PingPong: leave it out")),
            ("Barrier Allreduce --root rotate", Some("no effect on Barrier and Allreduce")),
            ("PingPong Bcast --root rotate", None),
            ("Uniband --sync window", Some("--sync has no effect")),
            ("Bcast --in-place", Some("--in-place has no effect")),
            ("Allreduce --in-place --sync window", None),
        ] {
            let words = format!("fabricmark-mpi {words}");
            let job = Options::try_parse_from(words.split(' ')).unwrap().job(2);
            match (job, refused) {
                (Ok(_), None) => {}
                (Err(said), Some(refused)) => assert!(said.contains(refused), "{words}: {said}"),
                (job, _) => panic!("{words}: {job:?}"),
            }
        }
    }

    #[test]
    fn its_options_are_described_and_command_lines_of_documents_are_accepted() {
        assert_accepted("fabricmark-mpi-openmpi", |words| Options::try_parse_from(words));
        let documents = documents();
        let page = documents.iter().find(|document| document.name == "docs/mpi.md").unwrap();
        let spans = page.spans();
        let named: BTreeSet<&str> = spans
            .iter()
            .filter(|span| span.starts_with("--"))
            .flat_map(|span| options(span))
            .collect();
        let command = Options::command();
        let own =
            command.get_arguments().filter(|one| !one.is_hide_set()).filter_map(Arg::get_long);
        // Of `fabricmark run`.
        let own: BTreeSet<&str> = own.chain(["launcher"]).collect();
        assert_eq!(named, own);
    }
}
