//! Records for other programs: one row or line per run.

use fabricmark_plan::{Factor, Figure, Kind as LevelKind};
use fabricmark_record::{Flow, Outcome, Record};
use fabricmark_units::BitRate;
use fabricmark_wire::Kind;

/// All records as CSV, one row each, warm-ups included. The name of a column has the unit. Factors and figures
/// without any value have no column.
///
/// Counts are sums over the flows of a run; elapsed times are those of the longest flow.
pub fn csv(records: &[Record]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut put = |row: Vec<String>| {
        writer.write_record(&row).expect("a vector takes every byte and each row is equally long");
    };
    let columns = Columns::of(records);
    put(fields(None, &columns).into_iter().map(|(name, _)| name).collect());
    for record in records {
        put(fields(Some(record), &columns).into_iter().map(|(_, value)| inert(value)).collect());
    }
    let bytes = writer.into_inner().expect("a vector takes every byte");
    String::from_utf8(bytes).expect("the fields are text")
}

/// A cell that no spreadsheet takes for a formula: text from another host that begins like one gets an apostrophe.
fn inert(cell: String) -> String {
    let begins = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if begins && cell.parse::<f64>().is_err() { format!("'{cell}") } else { cell }
}

/// All records as JSON, one per line, in the format in which they are stored.
pub fn json_lines(records: &[Record]) -> String {
    records
        .iter()
        .map(|record| serde_json::to_string(record).expect("a record is plain data") + "\n")
        .collect()
}

/// Factors and figures that occur in any record.
struct Columns {
    factors: Vec<Factor>,
    figures: Vec<Figure>,
}

impl Columns {
    fn of(records: &[Record]) -> Self {
        let has_level = |factor: &Factor| {
            let has_it = |record: &Record| !record.point.level(*factor).is_empty();
            factor.spec().is_required || records.iter().any(has_it)
        };
        let has_value =
            |figure: &Figure| records.iter().any(|record| record.figures.get(*figure).is_some());
        Self {
            factors: Factor::ALL.into_iter().filter(has_level).collect(),
            figures: Figure::ALL.into_iter().filter(has_value).collect(),
        }
    }
}

/// Names and values of one row; without a record the values are empty. One function gives the header and the rows, so
/// that they agree.
fn fields(record: Option<&Record>, columns: &Columns) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut put = |name: &str, value: Option<String>| {
        fields.push((name.to_owned(), value.unwrap_or_default()));
    };
    let place = record.map(|record| &record.place);
    put("plan_digest", place.map(|place| place.plan_digest.clone()));
    put("seed", place.map(|place| place.seed.to_string()));
    put("block", place.map(|place| place.block.to_string()));
    put("place", place.map(|place| place.place.to_string()));
    put("warm_up", place.map(|place| place.warm_up.to_string()));
    put("started", record.map(|record| record.started.clone()));
    put("duration_ns", record.map(|record| record.duration_ns.0.to_string()));
    put("omit_ns", record.map(|record| record.omit_ns.0.to_string()));
    for &factor in &columns.factors {
        let level = record.map(|record| record.point.level(factor));
        match factor.spec().kind {
            LevelKind::Size(..) => put(&format!("{factor}_bytes"), level),
            LevelKind::Rate => {
                let bps = level.and_then(|level| Some(level.parse::<BitRate>().ok()?.0));
                put(&format!("{factor}_bps"), bps.map(|bps| bps.to_string()));
            }
            _ => put(factor.key(), level),
        }
    }
    let (outcome, reason) = record.map(outcome).unzip();
    put("outcome", outcome.map(str::to_owned));
    put("reason", reason.map(str::to_owned));
    let figures = record.map(|record| record.figures.clone()).unwrap_or_default();
    for &figure in &columns.figures {
        put(figure.spec().key, figures.value(figure).map(|value| value.to_string()));
    }
    let provenance =
        figures.get(Figure::Goodput).or(figures.time_mean()).map(|figure| figure.provenance);
    put("provenance", provenance.map(|p| crate::label::provenance(p).to_owned()));
    let ceiling = |kind| {
        let ceilings = &record?.limits.ceilings;
        let ceiling = ceilings.iter().find(|ceiling| ceiling.kind == kind)?;
        Some(ceiling.goodput_bps.as_f64().to_string())
    };
    put("ceiling_bound_bps", ceiling(Kind::Bound));
    put("ceiling_conditional_bps", ceiling(Kind::Conditional));
    let floor = record.and_then(|record| record.limits.rtt_floor.as_ref());
    put("rtt_floor_ns", floor.map(|floor| floor.time_ns.as_f64().to_string()));
    let bottleneck = record.and_then(|record| record.bottleneck.as_ref());
    put("limited_by", bottleneck.map(ToString::to_string));
    put("limited_by_share", bottleneck.map(|by| by.share().to_string()));
    counts(record, &mut put);
    usage(record, &mut put);
    let warnings = record.map(|record| {
        record.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    });
    put("warnings", warnings);
    fields
}

fn counts(record: Option<&Record>, put: &mut impl FnMut(&str, Option<String>)) {
    let flows: Vec<&Flow> = record.map(|record| record.load().collect()).unwrap_or_default();
    let has_flows = !flows.is_empty();
    let sum = |count: fn(&Flow) -> u64| flows.iter().map(|flow| count(flow)).sum::<u64>();
    let longest = |ns: fn(&Flow) -> u64| flows.iter().map(|flow| ns(flow)).max().unwrap_or(0);
    for (name, count) in [
        ("sent_calls", sum(|flow| flow.sent.calls)),
        ("sent_bytes", sum(|flow| flow.sent.bytes)),
        ("sent_elapsed_ns", longest(|flow| flow.sent.elapsed_ns)),
        ("received_calls", sum(|flow| flow.received.calls)),
        ("received_bytes", sum(|flow| flow.received.bytes)),
        ("received_elapsed_ns", longest(|flow| flow.received.elapsed_ns)),
        ("lost_datagrams", sum(|flow| flow.drops.lost)),
        ("lost_at_socket", sum(|flow| flow.drops.socket)),
        ("lost_on_link", sum(|flow| flow.drops.link)),
        ("lost_in_reassembly", sum(|flow| flow.drops.reassembly)),
        ("lost_unexplained", sum(|flow| flow.drops.unexplained)),
    ] {
        put(name, has_flows.then(|| count.to_string()));
    }
    let tcp: Vec<_> = flows.iter().filter_map(|flow| flow.tcp.as_ref()).collect();
    let has_tcp = !tcp.is_empty();
    let retransmitted: u64 = tcp.iter().map(|tcp| tcp.retransmitted).sum();
    put("tcp_retransmitted", has_tcp.then(|| retransmitted.to_string()));
    let writes: f64 = tcp.iter().map(|tcp| tcp.writes_per_segment).sum();
    let writes = writes / tcp.len().max(1) as f64;
    put("tcp_writes_per_segment", has_tcp.then(|| writes.to_string()));
    let merged = tcp.iter().any(|tcp| tcp.is_merged());
    put("tcp_merged", has_tcp.then(|| merged.to_string()));
    let quic: Vec<_> = flows.iter().filter_map(|flow| flow.quic).collect();
    let has_quic = !quic.is_empty();
    let sent: u64 = quic.iter().map(|quic| quic.sent_packets).sum();
    put("quic_sent_packets", has_quic.then(|| sent.to_string()));
    let lost: u64 = quic.iter().map(|quic| quic.lost_packets).sum();
    put("quic_lost_packets", has_quic.then(|| lost.to_string()));
}

/// Resource usage of both ends of the first flow; each includes everything on its node.
fn usage(record: Option<&Record>, put: &mut impl FnMut(&str, Option<String>)) {
    let flow = record.and_then(|record| record.flows.first());
    for (end, name) in [("from", flow.map(|flow| &flow.from)), ("to", flow.map(|flow| &flow.to))] {
        let node = name
            .zip(record)
            .and_then(|(name, record)| record.nodes.iter().find(|node| node.name == *name));
        let usage = node.and_then(|node| node.usage.as_ref());
        let machine = usage.and_then(|usage| Some((usage.machine.as_ref()?, usage.elapsed_ns)));
        let kernel = node.and_then(|node| node.kernel);
        let mut put = |name, value: Option<String>| put(&format!("{end}_{name}"), value);
        put("process_cpu_ns", usage.map(|usage| usage.process.cpu_ns.to_string()));
        put("machine_busy_ns", machine.map(|(all, ns)| all.busy_ns(ns).to_string()));
        put("machine_stolen_ns", machine.map(|(all, ns)| all.stolen_ns(ns).to_string()));
        let resent = kernel.and_then(|kernel| kernel.tcp_retransmitted_segments);
        put("host_retransmitted_segments", resent.map(|count| count.to_string()));
        let squeezed = kernel.and_then(|kernel| kernel.softnet_time_squeezed);
        put("softnet_time_squeezed", squeezed.map(|count| count.to_string()));
    }
}

fn outcome(record: &Record) -> (&'static str, &str) {
    match &record.outcome {
        Outcome::Completed => ("completed", ""),
        Outcome::Skipped(reason) => ("skipped", reason),
        Outcome::Invalid(reason) => ("invalid", reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_no_formulas() {
        let cells = ["=1+1", "@SUM(A1)", "-2+3", "+x", "-1.5", "udp", ""];
        let found = cells.map(|cell| inert(cell.to_owned()));
        assert_eq!(found, ["'=1+1", "'@SUM(A1)", "'-2+3", "'+x", "-1.5", "udp", ""]);
    }
}
