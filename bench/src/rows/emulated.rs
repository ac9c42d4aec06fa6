//! The rows of emulated links.

use fabricmark_lab::Offload;

use super::{Against, Goal, Row};
use crate::contender::Contender;
use crate::emulation::Emulation;
use crate::emulator::OTHERS;
use crate::place::Target;
use crate::work::{Figure, Work};

/// Maximum rate error of a shaped link, the emulator's goal from 1 Mbit/s to 10 Gbit/s.
const RATE_ERROR_MAX: f64 = 0.005;

/// Maximum error of the 99th percentile of an RTT, the goal of `fabricmark lab calibrate`.
const DELAY_ERROR_P99_NS_MAX: f64 = 100_000.0;

/// MTU that is measured only with fabricmark; all others use 1500.
const JUMBO: u16 = 9000;

/// RTTs in ms at which only fabricmark is measured: the longest of paper P3.
const LONG_RTTS_MS: [u32; 2] = [400, 500];

/// Least goodput at these RTTs: with an MTU of 9000 it was 14.9 to 15.8 Gbit/s at 500 ms (`docs/notebook/measured.md`).
const LONG_RTTS_BPS: f64 = 14e9;

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for rtt_ms in [0, 100] {
        let work = Emulation::stream(rtt_ms);
        let mut row = row(format!("highest rate, RTT {rtt_ms} ms"), work, |row, other| {
            row.ask(Figure::GoodputBps, Against::One(other), Some(Goal::AtLeast(1.0))).ask(
                Figure::CpuPerGbitS,
                Against::One(other),
                None,
            )
        });
        let jumbo = Emulation { mtu: JUMBO, ..work };
        let single = |offload| Work::Emulated(Emulation { offload, ..work });
        row.others = vec![
            ("MTU 9000", Work::Emulated(jumbo)),
            ("segmented by hosts", single(Offload::Hosts)),
            ("single", single(Offload::Off)),
        ];
        rows.push(row);
    }
    for rtt_ms in LONG_RTTS_MS {
        let name = format!("highest rate, RTT {rtt_ms} ms");
        let row = Row::new(name, Target::Emulated, Work::Emulated(Emulation::stream(rtt_ms)));
        rows.push(row.ask(Figure::GoodputBps, Against::Itself, Some(Goal::Above(LONG_RTTS_BPS))));
    }
    let shaped = |name: String, rate_mbps| {
        let row = row(name, Emulation::shaped(rate_mbps), |row, other| {
            row.ask(Figure::CpuPerGbitS, Against::One(other), None)
        });
        row.ask(Figure::RateError, Against::Itself, Some(Goal::Below(RATE_ERROR_MAX)))
    };
    for rate_mbps in [100, 1000, 10_000, 25_000] {
        rows.push(shaped(format!("shaped to {rate_mbps} Mbit/s"), rate_mbps));
    }
    let mut single = shaped("shaped to 10000 Mbit/s, single packets".to_owned(), 10_000);
    let offload = Offload::Hosts;
    single.work = Work::Emulated(Emulation { offload, ..Emulation::shaped(10_000) });
    rows.push(single);
    // mm-delay accepts whole milliseconds in each direction, so 2 ms is the shortest RTT that all support.
    for rtt_ms in [2, 20] {
        let work = Emulation::ping_pong(rtt_ms);
        let row = row(format!("delay, RTT {rtt_ms} ms"), work, |row, other| {
            row.ask(Figure::DelayErrorNs, Against::One(other), Some(Goal::AtMost(1.0))).ask(
                Figure::DelayErrorP99Ns,
                Against::One(other),
                Some(Goal::AtMost(1.0)),
            )
        });
        let goal = Some(Goal::Below(DELAY_ERROR_P99_NS_MAX));
        rows.push(row.ask(Figure::DelayErrorP99Ns, Against::Itself, goal));
    }
    rows
}

/// A row for all emulators that support a workload, with questions about each.
fn row(name: String, work: Emulation, ask: impl Fn(Row, &'static str) -> Row) -> Row {
    let work = Work::Emulated(work);
    let mut row = Row::new(name, Target::Emulated, work);
    row.peers_do = Some(work);
    let others = OTHERS.iter().filter(|other| other.offers(work));
    others.fold(row, |row, other| ask(row, other.name()))
}
