//! A table of ceilings for every kind of link and stack, as used in network planning, against a time limit.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use fabricmark_stats::median;
use fabricmark_wire::{Family, Link, Operation, Stack, frame, goodput};

use crate::{CONFIDENCE, table, with_interval};

/// Number of ceilings in the table, and the time limit for all of them.
const CEILINGS: usize = 10_000;
const LIMIT_MS: f64 = 50.0;

/// A link, a protocol stack, and a payload in bytes.
type Point = (Link, Stack, u64);

const OVER_IP: [&str; 6] = [
    "ethernet:10G",
    "ethernet:25G,mtu=9000,vlan=1",
    "ipoib:4X-FDR",
    "ipoib:4X-EDR,ib-mtu=4096,grh",
    "ipoib:4X-FDR,mode=connected",
    "ipoib:12X-HDR,mode=connected,mtu=65520",
];
const VERBS: [&str; 4] =
    ["ib:4X-HDR", "ib:4X-NDR,mtu=2048,grh", "rocev1:40G", "rocev2:100G,mtu=9000"];

/// Computes the whole table in each round; returns whether the interval of its time is below the limit.
pub fn time(rounds: u32) -> Result<bool, Box<dyn Error>> {
    let points = points()?;
    let mut times_ms = Vec::new();
    let mut computed = 0;
    for _ in 0..rounds {
        let start = Instant::now();
        computed = points
            .iter()
            .filter(|&&(link, stack, payload)| black_box(goodput(link, stack, payload)).is_ok())
            .count();
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let time_ms = median(&times_ms, CONFIDENCE).ok_or("too few rounds for a median")?;
    let high = time_ms.interval.map_or(f64::INFINITY, |interval| interval.high);
    let is_met = computed == CEILINGS && high < LIMIT_MS;
    let mut table = table(&["table", "milliseconds", "goal"]);
    table.add_row([
        format!("{computed} ceilings"),
        with_interval(&time_ms, 1),
        format!("< {LIMIT_MS}  {}", if is_met { "met" } else { "missed" }),
    ]);
    println!("{table}");
    Ok(is_met)
}

/// Every link with every stack that it carries, with payloads from 4 bytes up.
fn points() -> Result<Vec<Point>, Box<dyn Error>> {
    let mut stacks = Vec::new();
    for link in OVER_IP {
        for family in [Family::V4, Family::V6] {
            let tcp = Stack::Tcp { family, option_bytes: frame::TCP_TIMESTAMPS };
            stacks.extend([(link.parse()?, Stack::Udp { family }), (link.parse()?, tcp)]);
        }
    }
    for link in VERBS {
        for operation in [Operation::Send, Operation::Write, Operation::Read] {
            let rc = Stack::Rc { operation, immediate: false, family: Family::V4 };
            stacks.push((link.parse()?, rc));
        }
    }
    // An odd step gives all kinds of remainders.
    let points = (0..CEILINGS).map(|place| {
        let (link, stack) = stacks[place % stacks.len()];
        (link, stack, 4 + 37 * (place as u64 % 1_700))
    });
    Ok(points.collect())
}
