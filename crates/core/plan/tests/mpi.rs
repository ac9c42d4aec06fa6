//! Plans whose ranks communicate by MPI.

use fabricmark_plan::{
    Benchmark, Datatype, MpiTransport, Outcomes, Plan, Problems, Size, Testbed, block, parse,
};

fn plan(factors: &str) -> Result<Plan, Problems> {
    let text = format!(
        "title = \"t\"\ntestbed = \"mpi\"\n[factors]\n{factors}\n[run]\nduration = \"100ms\"\n\
         [stop]\nruns = 2\n"
    );
    parse("p.toml", &text, Size::Full, &[])
}

#[test]
fn a_plan_needs_only_benchmarks_and_payloads() {
    let plan = plan("benchmark = [\"PingPong\", \"Reduce\"]\npayload = [0, 6]").unwrap();
    assert_eq!(plan.testbed, Testbed::Mpi);
    let keys: Vec<String> = plan.points.iter().map(fabricmark_plan::Point::key).collect();
    assert_eq!(
        keys[0],
        "pattern=mpi transport=mpi family=4 payload=0 link=loopback benchmark=PingPong"
    );
    let reduce = &plan.points[3];
    assert_eq!((reduce.ranks(), reduce.mpi_transport), (2, Some(MpiTransport::Auto)));
    // Numbers of four bytes do not fill six.
    assert_eq!(reduce.datatype, Some(Datatype::Byte));
    assert_eq!(plan.points[2].datatype, Some(Datatype::Float));
}

#[test]
fn a_barrier_has_no_payload_and_a_ping_pong_two_ranks_whatever_others_have() {
    let plan = plan(
        "benchmark = [\"PingPong\", \"Barrier\", \"Bcast\"]\npayload = [0, 8]\nranks = [2, 4]",
    )
    .unwrap();
    let of = |benchmark| {
        let points = plan.points.iter().filter(move |point| point.benchmark == Some(benchmark));
        points.map(|point| (point.payload.0, point.ranks())).collect::<Vec<_>>()
    };
    assert_eq!(of(Benchmark::PingPong), [(0, 2), (8, 2)]);
    assert_eq!(of(Benchmark::Barrier), [(0, 2), (0, 4)]);
    assert_eq!(of(Benchmark::Bcast), [(0, 2), (8, 2), (0, 4), (8, 4)]);
}

#[test]
fn a_block_has_a_job_for_each_transport_and_number_of_ranks() {
    let plan = plan(
        "benchmark = [\"PingPong\", \"Bcast\"]\npayload = [0, 8]\nranks = [2, 4]\n\
         mpi_transport = [\"shm\", \"tcp\"]",
    )
    .unwrap();
    let mut orders = Vec::new();
    for number in 0..2 {
        let steps = block(&plan, number, &Outcomes::default());
        let jobs: Vec<_> = steps
            .iter()
            .map(|step| {
                let first = &plan.points[step.points[0]];
                for &point in &step.points {
                    let point = &plan.points[point];
                    assert_eq!(point.mpi_transport, first.mpi_transport);
                    assert_eq!(point.ranks(), first.ranks());
                }
                (first.ranks(), first.mpi_transport, step.points.len())
            })
            .collect();
        assert_eq!(steps.len(), 4);
        let points: usize = jobs.iter().map(|job| job.2).sum();
        assert_eq!(points, plan.points.len());
        assert_eq!(steps.last().unwrap().places().end as usize, points);
        orders.push(jobs);
    }
    assert_ne!(orders[0], orders[1], "the order of jobs is random");
}

#[test]
fn a_slice_is_a_tenth_of_the_duration() {
    let plan = plan("benchmark = [\"PingPong\"]\npayload = [8]").unwrap();
    assert_eq!(plan.mpi_slice().0, 10_000_000);
}

#[test]
fn what_a_benchmark_does_not_support_is_named_with_its_remedy() {
    for (factors, message, help) in [
        ("payload = [8]", "the plan has no benchmark", "add benchmark = [\"PingPong\"]"),
        (
            "benchmark = [\"Biband\"]\npayload = [8]\nranks = [3]",
            "Biband is between pairs of ranks, and ranks=3 is odd",
            "use an even number",
        ),
        (
            "benchmark = [\"Reduce\"]\npayload = [6]\ndatatype = [\"double\"]",
            "payload=6 is not a multiple of the 8 bytes of datatype=double",
            "leave out datatype",
        ),
        (
            "benchmark = [\"PingPong\"]\npayload = [8]\ntransport = [\"tcp\"]",
            "transport=tcp is not supported with this testbed",
            "testbed = \"mpi\"",
        ),
        ("benchmark = [\"PingPang\"]\npayload = [8]", "not a level of benchmark", "PingPong"),
    ] {
        let problems = plan(factors).unwrap_err().to_string();
        assert!(problems.contains(message) && problems.contains(help), "{factors}:\n{problems}");
    }
}

#[test]
fn a_testbed_without_mpi_has_no_transport_mpi() {
    let text = "title = \"t\"\n[factors]\npattern = [\"mpi\"]\ntransport = [\"mpi\"]\n\
                family = 4\nlink = \"loopback\"\npayload = [8]\nbenchmark = [\"PingPong\"]\n";
    let problems = parse("p.toml", text, Size::Full, &[]).unwrap_err().to_string();
    assert!(problems.contains("transport=mpi needs testbed = \"mpi\""), "{problems}");
}
