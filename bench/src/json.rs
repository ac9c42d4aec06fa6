//! Results as JSON.

use serde_json::{Value, json};

use crate::judge::{Answer, Verdict};
use crate::rows::{Against, Goal};
use crate::session::{Played, Settings};
use crate::work::Values;

/// All results, including the values of single runs.
pub fn document(results: &[Played], settings: &Settings, absent: &[&str]) -> Value {
    json!({
        "seed": settings.seed,
        "congestion_on_veth": settings.congestion,
        "absent_peers": absent,
        "rows": results.iter().map(|result| row(result, settings)).collect::<Vec<_>>(),
    })
}

fn row(result: &Played, settings: &Settings) -> Value {
    let rounds = result.rounds.iter().map(|round| {
        let outcome = |outcome: &Result<Values, String>| match outcome {
            Ok(values) => {
                values.iter().map(|(figure, value)| (figure.key(), json!(value))).collect()
            }
            Err(reason) => json!({ "failed": reason }),
        };
        round.iter().map(|(who, of)| (who.clone(), outcome(of))).collect::<Value>()
    });
    json!({
        "work": result.row.name,
        "target": result.row.target.to_string(),
        "rounds_max": settings.rounds(result.row.work),
        "duration_s": settings.seconds(result.row.work),
        "peers": result.peers,
        "rounds": rounds.collect::<Vec<_>>(),
        "answers": result.answers.iter().map(answer).collect::<Vec<_>>(),
    })
}

fn answer(answer: &Answer) -> Value {
    let (goal, number) = match answer.question.goal {
        None => (None, Value::Null),
        Some(Goal::AtLeast(number)) => (Some("ratio-at-least"), json!(number)),
        Some(Goal::AtMost(number)) => (Some("ratio-at-most"), json!(number)),
        Some(Goal::Between(least, most)) => (Some("ratio-between"), json!([least, most])),
        Some(Goal::Below(number)) => (Some("below"), json!(number)),
        Some(Goal::Above(number)) => (Some("at-least"), json!(number)),
    };
    let (verdict, why) = match &answer.verdict {
        Verdict::Met => ("met", None),
        Verdict::Missed => ("missed", None),
        Verdict::Shown => ("shown", None),
        Verdict::NotComparable(why) => ("not-comparable", Some(why)),
    };
    let kind = if answer.question.against == Against::Itself { "median" } else { "ratio" };
    let interval = answer.value.as_ref().and_then(|value| value.interval);
    json!({
        "figure": answer.question.figure.key(),
        "against": answer.other,
        kind: answer.value.as_ref().map(|value| value.value),
        "low": interval.map(|interval| interval.low),
        "high": interval.map(|interval| interval.high),
        "n": answer.value.as_ref().map(|value| value.n),
        "goal": goal,
        "goal_value": number,
        "verdict": verdict,
        "why": why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::sample;

    #[test]
    fn the_json_keeps_every_single_value() {
        let settings =
            Settings { pairs: None, seconds: Some(1.0), seed: 1, congestion: "cubic".to_owned() };
        let json = document(&[sample::result()], &settings, &["neper"]);
        let rounds = &json["rows"][0]["rounds"];
        assert_eq!(
            (&json["rows"][0]["rounds_max"], &json["rows"][0]["duration_s"]),
            (&json!(150), &json!(1.0))
        );
        assert_eq!(rounds[0]["qperf"]["goodput_bps"], 5e9);
        assert_eq!(rounds[1]["qperf"]["failed"], "its client ended with exit status: 1");
        let answers = &json["rows"][0]["answers"];
        assert_eq!(
            (&answers[0]["against"], &answers[0]["verdict"]),
            (&json!("iperf3"), &json!("met"))
        );
        assert_eq!(answers[1]["verdict"], "missed");
        assert_eq!(json["absent_peers"], json!(["neper"]));
    }
}
