//! Points added by `[[add]]`, and those of them that `[quick]` keeps.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_plan::{Drawing, Factor, Plan, Point, Size, parse};

const PLAN: &str = r#"title = "t"
[factors]
pattern = "stream"
transport = "tcp"
family = [4, 6]
payload = "64KiB"
link = ["ethernet:10G", "ethernet:10G,mtu=9000"]
rtt = ["0ms", "50ms", "400ms"]
[settings]
congestion = "cubic"
window = "2bdp"
offload = "off"
[quick]
rtt = ["0ms", "50ms"]
link = "ethernet:10G,mtu=9000"
[[compare]]
factor = "family"
baseline = 4
candidate = 6
[[add]]
offload = "on"
link = "ethernet:10G,mtu=9000"
[[add]]
rtt = "400ms"
family = 6
link = "ethernet:10G,mtu=9000"
window = ["1bdp", "2bdp", "3bdp"]
[[add]]
rtt = "400ms"
family = 6
link = "ethernet:10G,mtu=9000"
pacing_rate = "9G"
[[table]]
title = "windows"
figure = "goodput"
where = { rtt = "400ms", family = 6, link = "ethernet:10G,mtu=9000", offload = "off", pacing_rate = "none" }
rows = "window"
[[chart]]
title = "pacing"
figure = "goodput"
where = { window = ["2bdp", "3bdp"] }
x = "pacing_rate"
"#;

fn read(text: &str, size: Size) -> Plan {
    parse("p.toml", text, size, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problem(text: &str, size: Size) -> String {
    parse("p.toml", text, size, &[]).unwrap_err().to_string()
}

#[test]
fn points_are_added_beside_the_cross_and_none_is_there_twice() {
    let plan = read(PLAN, Size::Full);
    // 2 x 2 x 3 of the cross, 2 x 3 with offload, two more windows besides the known one, one paced.
    assert_eq!(plan.points.len(), 12 + 6 + 2 + 1);
    let window = |point: &Point| point.level(Factor::Window);
    assert_eq!(plan.points[18..].iter().map(window).collect::<Vec<_>>(), ["1bdp", "3bdp", "2bdp"]);
    assert_eq!(plan.points[20].level(Factor::PacingRate), "9G");
    let twice = PLAN
        .replace("[\"1bdp\", \"2bdp\", \"3bdp\"]", "\"2bdp\"")
        .replace("[\"2bdp\", \"3bdp\"]", "\"2bdp\"");
    assert_eq!(read(&twice, Size::Full).points.len(), 12 + 6 + 1);
}

#[test]
fn what_agrees_in_all_but_the_compared_factor_is_a_group_whatever_cross_it_is_of() {
    let plan = read(PLAN, Size::Full);
    let pairs = plan.comparison_groups.iter().filter(|group| group.len() == 2).count();
    assert_eq!((pairs, plan.comparison_groups.len()), (6 + 3, 6 + 3 + 3));
    // Adds IPv4 to the paced point of IPv6.
    let more = format!(
        "{PLAN}[[add]]\nrtt = \"400ms\"\nfamily = 4\nlink = \"ethernet:10G,mtu=9000\"\n\
         pacing_rate = \"9G\"\n"
    );
    let plan = read(&more, Size::Full);
    let last = plan.points.len() - 1;
    assert!(plan.comparison_groups.contains(&vec![last - 1, last]), "{:?}", plan.comparison_groups);
}

#[test]
fn quick_keeps_its_levels_in_the_adds_too_or_leaves_them_out() {
    let quick = read(PLAN, Size::Quick);
    // The [[add]]s at 400 ms have no points.
    assert_eq!(quick.points.len(), 4 + 4);
    assert!(quick.points.iter().all(|point| point.level(Factor::Rtt) != "400ms"));
    let without = PLAN.replace("[quick]\n", "[quick]\nadd = false\n");
    assert_eq!(read(&without, Size::Quick).points.len(), 4);
    assert_eq!(read(&without, Size::Full).points.len(), 21);
    let chosen = PLAN.replace(
        "[quick]\nrtt = [\"0ms\", \"50ms\"]",
        "[quick]\nrtt = \"400ms\"\nwindow = [\"2bdp\", \"3bdp\"]",
    );
    let windows: Vec<_> = read(&chosen, Size::Quick).points;
    assert_eq!(windows.len(), 2 + 2 + 1 + 1, "{windows:?}");
}

#[test]
fn levels_of_the_adds_select_and_compare_points() {
    let plan = read(
        &PLAN.replace(
            "factor = \"family\"\nbaseline = 4\ncandidate = 6",
            "factor = \"window\"\nbaseline = \"2bdp\"\ncandidate = \"3bdp\"",
        ),
        Size::Full,
    );
    let windows = plan.comparison_groups.iter().find(|group| group.len() == 3).unwrap();
    assert_eq!(*windows, [11, 18, 19], "the one of the cross and the two that were added");
    let shown = |filter: &fabricmark_plan::Filter| {
        plan.points.iter().filter(|point| point.is_among(filter)).count()
    };
    assert_eq!(shown(&plan.presentation.tables[0].filter), 3, "the paced one is left out");
    let Drawing::Levels(chart) = &plan.presentation.charts[0] else { panic!("a chart of levels") };
    assert_eq!(shown(&chart.filter), 20);
}

#[test]
fn exclude_holds_for_the_adds_too() {
    let less =
        format!("{PLAN}[[exclude]]\noffload = \"on\"\nfamily = 4\nrtt = [\"0ms\", \"50ms\"]\n");
    assert_eq!(read(&less, Size::Full).points.len(), 21 - 2);
    // The cross and the first [[add]] name no pacing rate.
    let less = format!("{PLAN}[[exclude]]\npacing_rate = \"none\"\nrtt = \"50ms\"\n");
    assert_eq!(read(&less, Size::Full).points.len(), 21 - 6);
    let none = format!("{PLAN}[[exclude]]\npacing_rate = \"9G\"\n");
    let problem = problem(&none, Size::Full);
    assert!(problem.starts_with("p.toml:28:1: every point is excluded"), "{problem}");
}

#[test]
fn faults_of_an_add_are_named_with_their_line_and_remedy() {
    let base = PLAN.replace("pacing_rate = \"9G\"", "pacing_rate = \"9G\"\nADDED");
    for (added, wanted) in [
        (
            "windw = \"1bdp\"",
            ["p.toml:33:1: unknown key `windw` in [[add]]", "did you mean `window`"],
        ),
        ("window = []", ["p.toml:33:10: window in [[add]] has no levels", "at least one level"]),
        ("window = \"wide\"", ["p.toml:33:10: not a level of window", "such as 2bdp"]),
        (
            "wait = \"busy-poll\"\npath = \"io-uring\"",
            ["p.toml:34:8: wait=busy-poll is not supported with path=io-uring", "use wait=block"],
        ),
        ("response = [1, 2]", ["p.toml:28:1: two combinations give the same point", "[[exclude]]"]),
    ] {
        let text = base.replace("ADDED", added);
        let found = problem(&text, Size::Full);
        assert!(wanted.iter().all(|words| found.contains(words)), "{added}: {found}");
    }
    let empty = format!("{PLAN}[[add]]\n");
    assert!(problem(&empty, Size::Full).contains("[[add]] has no levels"));
    let quick = PLAN.replace("[quick]\n", "[quick]\nadd = 1\n");
    assert!(problem(&quick, Size::Quick).contains("expected true or false, found integer"));
    let left = PLAN.replace("[quick]\n", "[quick]\nwindow = \"3bdp\"\n");
    assert!(problem(&left, Size::Quick).contains("[quick] keeps no level of window in [factors]"));
}

#[test]
fn none_is_the_level_of_a_factor_without_effect() {
    let text = PLAN.replace("pacing_rate = \"9G\"", "pacing_rate = [\"none\", \"9G\"]");
    let plan = read(&text, Size::Full);
    assert_eq!(plan, read(PLAN, Size::Full), "the point without pacing is in the cross");
    assert!(plan.points[0].has(Factor::PacingRate, "none"));
    assert!(!plan.points[20].has(Factor::PacingRate, "none"));
    assert!(!plan.points[0].has(Factor::Label, "none"), "a label may be called so");
}

#[test]
fn a_list_of_one_name_is_that_name_and_one_of_two_is_refused() {
    let listed = PLAN
        .replace("rows = \"window\"", "rows = [\"window\"]")
        .replace("figure = \"goodput\"", "figure = [\"goodput\"]");
    assert_eq!(read(&listed, Size::Full).digest(), read(PLAN, Size::Full).digest());
    // The second one compares the families.
    let [table, _] = &read(&listed, Size::Full).presentation.tables[..] else {
        panic!("two tables")
    };
    assert_eq!(table.rows, [Factor::Window]);
    let two = PLAN.replace("figure = \"goodput\"", "figure = [\"goodput\", \"send-rate\"]");
    assert!(problem(&two, Size::Full).contains("expected a string in quotes, found array"));
    let rows = PLAN.replace("rows = \"window\"", "rows = [\"window\", \"rtt\"]");
    let [table, _] = &read(&rows, Size::Full).presentation.tables[..] else { panic!("two tables") };
    assert_eq!(table.rows, [Factor::Window, Factor::Rtt]);
}
