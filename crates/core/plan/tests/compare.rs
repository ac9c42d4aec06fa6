//! Which points a plan compares: those that differ in one factor and in what follows from it.

use fabricmark_plan::{Factor, Figure, Outcomes, Plan, Size, block, parse};

/// A plan over loopback with these factors, which compares two levels of one of them.
fn text(factors: &str, factor: &str, baseline: &str, candidate: &str) -> String {
    format!(
        "title = 't'\n[factors]\nfamily = 4\nlink = 'loopback'\n{factors}\n[settings]\ncongestion = 'cubic'\n\
         [stop]\nruns = 2\n[[compare]]\nfactor = '{factor}'\nbaseline = '{baseline}'\ncandidate = '{candidate}'\n"
    )
}

fn plan(factors: &str, factor: &str, baseline: &str, candidate: &str) -> Plan {
    let text = text(factors, factor, baseline, candidate);
    parse("p.toml", &text, Size::Full, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The pairs of all comparison groups.
fn pairs(plan: &Plan) -> Vec<[usize; 2]> {
    let pairs = plan.comparison_groups.iter().flat_map(|group| plan.pairs_among(group));
    let pairs: Vec<_> = pairs.map(|pair| [pair.baseline, pair.candidate]).collect();
    assert_eq!(pairs.len(), plan.pairs.len(), "each pair is in one group");
    pairs
}

#[test]
fn levels_on_which_others_depend_are_compared_and_run_one_after_the_other() {
    let stream = "pattern = 'stream'\npayload = [1024, 32768]";
    for (factors, factor, levels) in [
        // rc has no congestion control and no TCP_NODELAY.
        ("transport = ['tcp', 'rc']", "transport", ["tcp", "rc"]),
        // One thread waits for several flows with epoll.
        ("transport = 'tcp'\nflows = [1, 4]", "flows", ["1", "4"]),
        // An open loop waits for its departures.
        ("transport = 'udp'\npace = ['closed', 'fixed:1G']", "pace", ["closed", "fixed:1G"]),
    ] {
        let plan = plan(&format!("{stream}\n{factors}"), factor, levels[0], levels[1]);
        assert_eq!(plan.comparison_groups, [[0, 2], [1, 3]], "{factors}");
        assert_eq!(pairs(&plan), [[0, 2], [1, 3]], "{factors}");
        let order = block(&plan, 1, &Outcomes::default());
        let payloads: Vec<_> =
            order.iter().map(|step| plan.points[step.points[0]].payload).collect();
        assert!(payloads[0] == payloads[1] && payloads[2] == payloads[3], "{payloads:?}");
    }
}

#[test]
fn a_level_that_the_plan_names_is_compared_with_the_same_level_whatever_the_defaults_are() {
    // The default is 1 in the closed loop, and 65536 in the open one.
    let factors = "pattern = 'rr'\ntransport = 'tcp'\npayload = 64\npace = ['closed', 'fixed:1000/s']\n\
                   outstanding = [1, 65536]";
    let plan = plan(factors, "pace", "closed", "fixed:1000/s");
    let outstanding = |place: &usize| plan.points[*place].level(Factor::Outstanding);
    for group in &plan.comparison_groups {
        assert_eq!(group.len(), 2);
        assert_eq!(outstanding(&group[0]), outstanding(&group[1]));
    }
}

#[test]
fn points_with_different_deciding_figures_run_one_after_the_other_and_decide_nothing() {
    let factors =
        "pattern = 'rr'\ntransport = 'tcp'\npayload = 64\npace = ['closed', 'fixed:1000/s']";
    let plan = plan(factors, "pace", "closed", "fixed:1000/s");
    let figures: Vec<Figure> = plan.points.iter().map(Figure::deciding).collect();
    assert_eq!(figures, [Figure::TransactionRate, Figure::Rtt]);
    assert_eq!(plan.comparison_groups, [[0, 1]]);
    assert_eq!(pairs(&plan), Vec::<[usize; 2]>::new());
}

#[test]
fn a_point_to_which_the_other_level_does_not_apply_is_compared_with_none() {
    // A datagram has no pacing rate of TCP, a PingPong no third rank, and a Barrier no payload.
    let paced = "pattern = 'stream'\npayload = 1024\ntransport = ['tcp', 'udp']\npacing_rate = ['none', '1G']";
    let exclude = "[[exclude]]\ntransport = 'udp'\npacing_rate = '1G'\n";
    let text = text(paced, "pacing_rate", "none", "1G") + exclude;
    assert_eq!(pairs(&parse("p.toml", &text, Size::Full, &[]).unwrap()), [[0, 1]]);
    let mpi = |factors: &str, compare: &str| {
        let text = format!(
            "title = 't'\ntestbed = 'mpi'\n[factors]\n{factors}\n[stop]\nruns = 2\n[[compare]]\n{compare}"
        );
        pairs(&parse("p.toml", &text, Size::Full, &[]).unwrap())
    };
    let ranks = "payload = 64\nbenchmark = ['PingPong', 'Bcast']\nranks = [2, 4]";
    assert_eq!(mpi(ranks, "factor = 'ranks'\nbaseline = 2\ncandidate = 4"), [[1, 2]]);
    let barrier = "payload = [64, 1024]\nbenchmark = ['Bcast', 'Barrier']";
    let compare = "factor = 'benchmark'\nbaseline = 'Bcast'\ncandidate = 'Barrier'";
    assert_eq!(mpi(barrier, compare), Vec::<[usize; 2]>::new());
}

#[test]
fn points_between_hosts_are_compared_as_in_the_lab() {
    for (factors, factor, levels) in [
        ("transport = ['tcp', 'rc']", "transport", ["tcp", "rc"]),
        ("transport = 'tcp'\nflows = [1, 4]", "flows", ["1", "4"]),
    ] {
        let factors = format!("pattern = 'stream'\npayload = 1024\n{factors}");
        let plan = plan(&factors, factor, levels[0], levels[1]);
        let moved = plan.to_host("node2", Some("ipoib:4X-FDR".parse().unwrap())).unwrap();
        assert_eq!(pairs(&moved), [[0, 1]], "{factors}");
    }
}

#[test]
fn the_table_of_compared_levels_has_both_in_a_row_whatever_follows_from_them() {
    let factors = "pattern = 'stream'\ntransport = 'tcp'\npayload = 65536\nflows = [1, 4]";
    let plan = plan(factors, "flows", "1", "4");
    let table = &plan.presentation.tables[0];
    assert_eq!((&*table.rows, &*table.columns), (&[Factor::Payload][..], &[Factor::Flows][..]));
}
