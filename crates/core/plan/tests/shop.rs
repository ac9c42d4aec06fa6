//! Plans of the bookstore.

use fabricmark_plan::{
    Interaction, Outcome, Outcomes, Plan, Point, Problems, Size, Testbed, Tier, block, parse,
};

fn plan(factors: &str) -> Result<Plan, Problems> {
    let text = format!(
        "title = \"t\"\ntestbed = \"tiers\"\n[factors]\n{factors}\n[run]\nduration = \"10s\"\n\
         [stop]\nruns = 2\n[[compare]]\nfactor = \"app_db\"\nbaseline = \"ethernet:10G\"\n\
         candidate = \"ipoib:4X-DDR\"\n"
    );
    parse("p.toml", &text, Size::Full, &[])
}

const LINKS: &str = "app_db = [\"ethernet:10G\", \"ipoib:4X-DDR\"]";

#[test]
fn a_plan_that_names_no_interaction_has_all() {
    let plan = plan(LINKS).unwrap();
    assert_eq!(plan.testbed, Testbed::Tiers);
    assert_eq!(plan.points.len(), 2 * Interaction::ALL.len());
    let keys: Vec<String> = plan.points.iter().map(Point::key).collect();
    assert_eq!(keys[0], "pattern=shop transport=http family=4 payload=0 link=loopback");
    assert!(
        keys.iter().any(|key| key.ends_with("interaction=home app_db=ipoib:4X-DDR")),
        "{keys:?}"
    );
    assert_eq!(Tier::ALL.map(Tier::name), ["client", "web", "app", "db"]);
}

#[test]
fn a_run_has_all_interactions_and_its_levels_alternate_within_a_block() {
    let plan = plan(LINKS).unwrap();
    let steps = block(&plan, 0, &Outcomes::default());
    assert_eq!(steps.len(), 2);
    for step in &steps {
        assert_eq!((step.points.len(), step.slice, step.warm_up), (15, None, false));
        let link = |point: &usize| plan.points[*point].app_db;
        assert!(step.points.iter().all(|point| link(point) == link(&step.points[0])));
    }
}

#[test]
fn what_has_no_effect_on_the_bookstore_is_refused() {
    let message = |factors: &str| plan(factors).unwrap_err().to_string();
    let refused = message(&format!("{LINKS}\nrtt = \"1ms\""));
    assert!(refused.contains("rtt has no effect on the bookstore"), "{refused}");
    let refused = message(&format!("{LINKS}\npace = \"fixed:100\""));
    assert!(refused.contains("use pace=closed, or pace=poisson:100/s"), "{refused}");
    let refused = message(&format!("{LINKS}\nweb_app = \"rocev2:10G\""));
    assert!(refused.contains("web_app=rocev2:10G"), "{refused}");
    let refused = message(&format!("{LINKS}\ntransport = \"tcp\""));
    assert!(refused.contains("transport=tcp is not supported with this testbed"), "{refused}");
}

#[test]
fn an_open_loop_has_no_think_time() {
    let plan = plan(&format!("{LINKS}\npace = \"poisson:200/s\"")).unwrap();
    assert_eq!(plan.points[0].think_time, None);
}

#[test]
fn a_run_is_not_repeated_because_nobody_visited_a_rare_page() {
    let plan = plan(LINKS).unwrap();
    let mut outcomes = Outcomes::default();
    for block in 0..2 {
        for (point, of) in plan.points.iter().enumerate() {
            // Nobody confirms a change of a price.
            let is_rare = of.interaction == Some(Interaction::AdminConfirm);
            let value = (!is_rare).then(|| (1.0 + f64::from(block)).into());
            outcomes.add(Outcome {
                block,
                point,
                value,
                has_figure: !is_rare,
                fills_link: false,
                is_whole: true,
            });
        }
    }
    assert_eq!(block(&plan, 2, &outcomes), []);
}

#[test]
fn quick_may_replace_the_only_level_of_the_size_of_a_shop() {
    let text =
        "title = \"t\"\ntestbed = \"tiers\"\n[factors]\nitems = 100000\n[quick]\nitems = 1000\n";
    let quick = parse("p.toml", text, Size::Quick, &[]).unwrap();
    assert!(quick.points.iter().all(|point| point.items == Some(1000)));
    let other = text.replace("[quick]\nitems = 1000", "[quick]\nfamily = 6");
    let refused = parse("p.toml", &other, Size::Quick, &[]).unwrap_err().to_string();
    assert!(refused.contains("[quick] has the level 6"), "{refused}");
}
