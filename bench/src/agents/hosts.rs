//! Compares a plan in the lab with the same plan between two namespaces that represent two hosts.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use fabricmark_lab::{Lab, Namespace};
use fabricmark_record::Record;
use fabricmark_stats::{
    Better, Comparison, StopRule, THROUGHPUT_TIE, geometric_mean, holm, paired,
};
use fabricmark_wire::Link;

use crate::agent::{Agent, CONFIDENCE, command, told};

/// The agent's address in the second namespace: that of the lab.
const AT: &str = "10.71.0.2";

/// Figures by point, one value per pair.
type Cells = BTreeMap<String, Vec<f64>>;

/// Runs both alternately; compares each point, and all points together.
pub fn hosts(program: &Path, plan: &Path, link: &str, pairs: usize) -> Result<(), Box<dyn Error>> {
    let lab = Lab::of_link(&link.parse::<Link>()?.into(), 1, None)?;
    let [client, server] = ["client", "server"].map(|node| lab.namespace(node));
    let agent = Agent::start(program, &format!("{AT}:7477"), server)?;
    let text = reduced(&fs::read_to_string(plan)?, link);
    let file = agent.folder().join("plan.toml");
    fs::write(&file, text)?;
    let file = file.display().to_string();
    let to = ["--to", AT, "--link", link];
    let (mut in_lab, mut between_hosts) = (Cells::new(), Cells::new());
    for pair in 0..pairs {
        for turn in 0..2 {
            let is_hosts = (pair + turn) % 2 == 0;
            let out = agent.folder().join(format!("out-{pair}-{turn}")).display().to_string();
            let mut words = vec!["run", &file, "--quick", "--fresh", "--out", &out];
            let (namespace, cells) = match is_hosts {
                true => (client, &mut between_hosts),
                false => (None, &mut in_lab),
            };
            if is_hosts {
                words.extend(to);
            }
            run(program, &agent, &words, namespace)?;
            gather(program, &out, cells)?;
        }
        eprintln!("pair {} of {pairs}", pair + 1);
    }
    judge(&in_lab, &between_hosts, pairs);
    Ok(())
}

/// The plan with a single link, and the minimum number of runs.
fn reduced(text: &str, link: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("link", _)) => format!("link = [\"{link}\"]"),
        Some(("runs", _)) => "runs = 2".to_owned(),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn run(
    program: &Path,
    agent: &Agent,
    words: &[&str],
    namespace: Option<&Namespace>,
) -> Result<(), Box<dyn Error>> {
    let mut command = command(program, &agent.key(), words);
    if let Some(namespace) = namespace {
        namespace.enter(&mut command);
    }
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// Appends the mean of each point's runs.
fn gather(program: &Path, out: &str, cells: &mut Cells) -> Result<(), Box<dyn Error>> {
    let words = ["export", "latest", "--format", "json", "--out", out];
    let output = command(program, Path::new("/dev/null"), &words).output()?;
    let mut found: Cells = Cells::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let record: Record = serde_json::from_str(line)?;
        if let Some(value) = record.deciding_value().filter(|_| !record.place.warm_up) {
            found.entry(record.point.key()).or_default().push(value);
        }
    }
    for (point, values) in found {
        cells.entry(point).or_default().push(values.iter().sum::<f64>() / values.len() as f64);
    }
    Ok(())
}

fn judge(in_lab: &Cells, between_hosts: &Cells, pairs: usize) {
    let rule = StopRule::of_runs(CONFIDENCE, pairs);
    let mut names = Vec::new();
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); pairs];
    for (point, lab) in in_lab {
        let Some(hosts) = between_hosts.get(point).filter(|hosts| hosts.len() == lab.len()) else {
            println!("{point}: not run by both in each pair");
            continue;
        };
        for (pair, (lab, hosts)) in ratios.iter_mut().zip(lab.iter().zip(hosts)) {
            pair.push(hosts / lab);
        }
        if let Some(comparison) = paired(lab, hosts, &rule, Better::Higher, THROUGHPUT_TIE) {
            names.push(point.clone());
            comparisons.push(comparison);
        }
    }
    holm(&mut comparisons);
    let mut worst = 0.0f64;
    for (name, comparison) in names.iter().zip(&comparisons) {
        let change = comparison.change.value;
        if comparison.p_adjusted < 0.05 {
            worst = worst.max(change.abs());
            println!("{:+.2} %  p {:.4}  {name}", 100.0 * change, comparison.p_adjusted);
        }
    }
    // One mean per pair; their spread gives the interval.
    let each: Vec<f64> = ratios
        .iter()
        .filter(|pair| !pair.is_empty())
        .filter_map(|pair| geometric_mean(pair, CONFIDENCE).map(|estimate| estimate.value))
        .collect();
    println!(
        "hosts / lab over {} points in {pairs} pairs: {}; largest difference that stands after Holm \
         {:.2} %",
        comparisons.len(),
        told(geometric_mean(&each, CONFIDENCE).as_ref()),
        100.0 * worst
    );
}
