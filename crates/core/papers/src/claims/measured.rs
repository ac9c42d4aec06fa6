//! Converts the records of an experiment into figures.

use std::collections::{BTreeMap, BTreeSet};

use fabricmark_plan::{Direction, Factor, Interaction, MpiTransport, Pattern, Point};
use fabricmark_record::{INVALID_SHARE_MAX, Limits, Outcome, Provenance, Record};
use fabricmark_stats::StopRule;
use fabricmark_wire::{Kind, Link};

use super::figures::{Column, Figures, Load, Origin, Quantity, Set};
use super::limit::Limit;
use super::value::Value;

/// Factors that are not part of a network's name, because they identify the column or its rows.
const OF_THE_COLUMN: [Factor; 6] = [
    Factor::Pattern,
    Factor::Transport,
    Factor::Family,
    Factor::Payload,
    Factor::Benchmark,
    Factor::Interaction,
];

/// Factors whose level follows from others, or is part of the network's name in any case.
const IMPLIED: [Factor; 4] = [Factor::Link, Factor::AppDb, Factor::Response, Factor::Datatype];

impl Figures {
    /// Means of `records` with intervals by `rule`: goodput of one-way streams, RTT/2 of ping-pong, TCP and
    /// UDP, switching speed of the relays of transfers, operation time and goodput of MPI benchmarks, and web
    /// interactions of the bookstore.
    ///
    /// Excludes runs that do not count, and all runs of a point if more than a tenth of its runs are invalid. If
    /// points differ in more than IP version and payload, these levels are part of the network's name, so that each
    /// has its own column.
    pub fn measured(records: &[Record], rule: &StopRule) -> Self {
        let spoiled = spoiled(records);
        let counts = |r: &&Record| r.counts() && !spoiled.contains(&r.point.key());
        let records: Vec<&Record> = records.iter().filter(counts).collect();
        let varying = varying(&records);
        let mut columns: Vec<Column> = Vec::new();
        let mut runs: BTreeMap<(usize, u64), Vec<&Record>> = BTreeMap::new();
        for record in records {
            for column in
                quantities(&record.point).iter().filter_map(|&q| column(q, record, &varying))
            {
                let place = columns.iter().position(|known| is_same(known, &column));
                let place = place.unwrap_or_else(|| {
                    columns.push(column);
                    columns.len() - 1
                });
                let row = match columns[place].quantity {
                    Quantity::SwitchingMbps => record.point.relay_buffer.unwrap_or_default(),
                    Quantity::GoodputMbps | Quantity::LatencyUs | Quantity::InteractionsPerS => {
                        record.point.payload
                    }
                };
                runs.entry((place, row.0)).or_default().push(record);
            }
        }
        for ((place, row), runs) in runs {
            let column = &mut columns[place];
            let Some(cell) = cell(column, &runs, rule) else { continue };
            column.cells.insert(row, cell);
            let limit =
                runs.first().and_then(|run| limit(column.quantity, column.load, &run.limits));
            column.limits.extend(limit.map(|limit| (row, limit)));
        }
        // Records are in the random order of the runs.
        columns.sort_by_key(|c| (c.link.clone(), c.network.clone(), u8::from(c.family)));
        Self { origin: Origin::Measured, columns }
    }

    /// Combines the figures of several named experiments. The name of the experiment is appended to a network that an
    /// earlier experiment also has.
    pub fn side_by_side(experiments: Vec<(&str, Self)>) -> Self {
        let mut all: Vec<Column> = Vec::new();
        for (place, (name, figures)) in experiments.into_iter().enumerate() {
            let known: BTreeSet<String> = all.iter().map(|column| column.network.clone()).collect();
            all.extend(figures.columns.into_iter().map(|mut column| {
                if known.contains(&column.network) {
                    column.network = format!("{}, {}: {name}", column.network, place + 1);
                }
                column
            }));
        }
        Self { origin: Origin::Measured, columns: all }
    }
}

/// Keys of points with too many invalid runs for any conclusion.
fn spoiled(records: &[Record]) -> BTreeSet<String> {
    let mut runs: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for record in records.iter().filter(|record| !record.place.warm_up) {
        let (invalid, all) = runs.entry(record.point.key()).or_default();
        *invalid += usize::from(matches!(record.outcome, Outcome::Invalid(_)));
        *all += usize::from(!matches!(record.outcome, Outcome::Skipped(_)));
    }
    let is_spoiled =
        |&(invalid, all): &(usize, usize)| invalid as f64 > INVALID_SHARE_MAX * all as f64;
    runs.into_iter().filter(|(_, runs)| is_spoiled(runs)).map(|(key, _)| key).collect()
}

/// Factors with several levels, except those that identify the column.
fn varying(records: &[&Record]) -> Vec<Factor> {
    let is_varying = |factor: &Factor| {
        // Some levels follow from pattern and transport, so only levels with equal ones are compared.
        let mut levels: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for Record { point, .. } in records {
            let load = (point.pattern, point.transport, point.benchmark);
            levels.entry(load).or_default().insert(point.level(*factor));
        }
        levels.values().any(|levels| levels.len() > 1)
    };
    let others = Factor::ALL
        .into_iter()
        .filter(|factor| !OF_THE_COLUMN.contains(factor) && !IMPLIED.contains(factor));
    others.filter(is_varying).collect()
}

/// The quantities of a point that claims are about.
fn quantities(point: &Point) -> &'static [Quantity] {
    match point.pattern {
        Pattern::Stream if point.direction != Some(Direction::Both) => &[Quantity::GoodputMbps],
        Pattern::PingPong => &[Quantity::LatencyUs],
        Pattern::Crr if point.relay_buffer.is_some() => &[Quantity::SwitchingMbps],
        Pattern::Mpi => &[Quantity::GoodputMbps, Quantity::LatencyUs],
        Pattern::Shop if point.interaction == Some(Interaction::All) => {
            &[Quantity::InteractionsPerS]
        }
        _ => &[],
    }
}

/// The column of a quantity of a record, without cells; `None` if no claim is about it.
fn column(quantity: Quantity, record: &Record, varying: &[Factor]) -> Option<Column> {
    let Point { transport, family, benchmark, .. } = record.point;
    let load = match benchmark {
        Some(benchmark) => Load::Mpi(benchmark.word()),
        None => Load::of(transport)?,
    };
    let figure = record.figures.get(load.figure(quantity))?;
    let link = match record.point.mpi_transport {
        // Of the bookstore, that between the tiers.
        None | Some(MpiTransport::Tcp) => record.point.app_db.unwrap_or(record.point.link),
        Some(MpiTransport::Rc | MpiTransport::Ud) => record.point.link.for_verbs(),
        // It does not use the link.
        Some(MpiTransport::Shm) => Link::Loopback,
        Some(MpiTransport::Auto | MpiTransport::Ofi) => return None,
    };
    // The default follows from the payload; others have no place in the claims.
    if record.point.datatype != Some(record.point.default_datatype()) && benchmark.is_some() {
        return None;
    }
    let mut words = vec![link.to_string()];
    let is_name =
        |factor: &&Factor| (quantity, **factor) != (Quantity::SwitchingMbps, Factor::RelayBuffer);
    words.extend(varying.iter().filter(is_name).map(|&f| format!("{f} {}", record.point.level(f))));
    let origin = match figure.provenance {
        Provenance::Measured => "measured",
        Provenance::Emulated => "emulated",
        Provenance::Modelled => "modelled",
        Provenance::Published => "published",
    };
    Some(Column {
        quantity,
        load,
        set: Set::Technologies,
        network: format!("{} ({origin})", words.join(", ")),
        link: link.to_string(),
        family,
        cells: BTreeMap::new(),
        point: Some(Box::new(record.point.clone())),
        limits: BTreeMap::new(),
    })
}

fn is_same(a: &Column, b: &Column) -> bool {
    (a.quantity, a.load, a.family) == (b.quantity, b.load, b.family) && a.network == b.network
}

/// Base units (bit/s or ns) per unit of the column.
fn size(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::GoodputMbps | Quantity::SwitchingMbps => 1e6,
        Quantity::LatencyUs => 1e3,
        Quantity::InteractionsPerS => 1.0,
    }
}

fn cell(column: &Column, runs: &[&Record], rule: &StopRule) -> Option<Value> {
    let Column { quantity, load, .. } = *column;
    let values: Vec<f64> = runs
        .iter()
        .filter_map(|run| Some(run.figures.get(load.figure(quantity))?.value))
        .filter(|value| value.is_finite())
        .collect();
    let estimate = rule.estimate(&values)?;
    // A point without any data is not comparable, because comparisons use ratios.
    let is_positive = estimate.value > 0.0;
    is_positive.then(|| Value {
        value: estimate.value / size(quantity),
        half_width: estimate.relative_half_width().unwrap_or(f64::INFINITY),
    })
}

/// The limit in the record. For latency, half the RTT floor.
fn limit(quantity: Quantity, load: Load, limits: &Limits) -> Option<Limit> {
    match quantity {
        Quantity::SwitchingMbps | Quantity::InteractionsPerS => None,
        Quantity::GoodputMbps => {
            let mbps = |kind: Kind, is_message: bool| {
                let ceiling = limits.ceilings.iter().find(|ceiling| {
                    ceiling.kind == kind
                        && (!is_message || ceiling.inputs.contains_key("payload_bytes"))
                })?;
                Some(ceiling.goodput_bps.as_f64() / size(quantity))
            };
            let bound = mbps(Kind::Bound, false)?;
            let alone = match load {
                Load::Tcp => mbps(Kind::Conditional, true)?,
                _ => bound,
            };
            Some(Limit { bound, alone })
        }
        Quantity::LatencyUs => {
            let floor = limits.rtt_floor.as_ref().filter(|floor| floor.kind == Kind::Bound)?;
            let bound = floor.time_ns.as_f64() / 2.0 / size(quantity);
            Some(Limit { bound, alone: bound })
        }
    }
}
