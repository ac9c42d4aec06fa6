//! Checks before a plan runs that there is memory for its windows.

use fabricmark_host::Memory;
use fabricmark_plan::{Direction, Plan, Point, Testbed};
use fabricmark_units::Bytes;

use crate::error::PlanError;
use crate::skip;

/// Largest number of full windows that a lab holds: unacknowledged data of the sender, packets in the emulator, and
/// data that the receiver has not read.
const COPIES: u64 = 3;

/// Those of them in TCP's buffers: one at each end.
const COPIES_OF_TCP: u64 = 2;

/// Rejects a plan whose largest windows or buffers do not fit into memory. Autotuned windows are not counted: the kernel
/// adapts them to the available memory.
pub(crate) fn check(plan: &Plan, memory: &Memory, page_bytes: u64) -> Result<(), PlanError> {
    // Points that run at once need their memory at once.
    let runs = plan.points.chunks(plan.groups.len().max(1));
    let tried: Vec<&[Point]> =
        runs.filter(|points| points.iter().all(|point| skip::reason(point).is_none())).collect();
    check_registered(plan, &tried, memory)?;
    let Some((bytes, point)) = most(&tried, full) else { return Ok(()) };
    // In runs to another host, this machine has one end and no emulator.
    let (copies, of_tcp) = match plan.testbed {
        Testbed::Lab => (COPIES, COPIES_OF_TCP),
        Testbed::Hosts | Testbed::Mpi | Testbed::Tiers => (1, 1),
    };
    let asked = format!("windows or buffers of {}", megabytes(bytes));
    let needed = bytes.saturating_mul(copies);
    if needed > memory.available_bytes {
        let (needed, available) = (megabytes(needed), megabytes(memory.available_bytes));
        return Err(PlanError::Missing(format!(
            "{asked} need up to {needed} of memory, but only {available} are available \
             ({point}): end other programs, or use smaller windows or RTTs"
        )));
    }
    let needed = bytes.saturating_mul(of_tcp);
    if needed > memory.tcp_bytes {
        let pages = needed.div_ceil(page_bytes.max(1));
        // Spaced as by the kernel itself (net/ipv4/tcp.c, tcp_init_mem): 3/4, 1, 3/2.
        let setting = format!("{} {pages} {}", pages / 4 * 3, pages / 2 * 3);
        let (needed, allowed) = (megabytes(needed), megabytes(memory.tcp_bytes));
        return Err(PlanError::Missing(format!(
            "{asked} need up to {needed} of TCP memory, but net.ipv4.tcp_mem allows {allowed} ({point}): \
             run `sysctl -w net.ipv4.tcp_mem=\"{setting}\"`, or use smaller ones"
        )));
    }
    Ok(())
}

/// Rejects a plan whose RDMA registers more memory than available.
fn check_registered(plan: &Plan, runs: &[&[Point]], memory: &Memory) -> Result<(), PlanError> {
    let ends = match (plan.testbed, &plan.peer) {
        (Testbed::Hosts, Some(_)) if plan.own_ends().is_none() => 1,
        _ => 2,
    };
    let Some((bytes, point)) = most(runs, |point| point.registered_bytes().0) else {
        return Ok(());
    };
    let needed = bytes.saturating_mul(ends);
    if needed <= memory.available_bytes {
        return Ok(());
    }
    let (needed, available) = (megabytes(needed), megabytes(memory.available_bytes));
    Err(PlanError::Missing(format!(
        "RDMA needs {needed} of registered memory, but only {available} are available ({point}): end \
         other programs, or reduce tx_depth, payload or flows"
    )))
}

/// Bytes of the run that needs most, and the key of its first point.
fn most(runs: &[&[Point]], bytes: fn(&Point) -> u64) -> Option<(u64, String)> {
    let of_run = |points: &[Point]| points.iter().map(bytes).fold(0, u64::saturating_add);
    let all = runs.iter().map(|points| (of_run(points), points));
    let (bytes, points) = all.max_by_key(|(bytes, _)| *bytes)?;
    Some((bytes, points.first()?.key()))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

/// The windows or the buffers of all flows of a point together, in bytes, whichever are larger.
fn full(point: &Point) -> u64 {
    let ways = if point.direction == Some(Direction::Both) { 2 } else { 1 };
    let Bytes(window) = point.window_bytes().unwrap_or_default();
    window.max(buffers(point)).saturating_mul(u64::from(point.flows)).saturating_mul(ways)
}

/// The send buffer of one end and the receive buffer of the other. The kernel doubles each, so that both ends together
/// fill as much of TCP's memory as with a window of this size.
fn buffers(point: &Point) -> u64 {
    let [send, receive] = [point.send_buffer, point.receive_buffer].map(Option::unwrap_or_default);
    if point.transport.has_tcp() { send.0.saturating_add(receive.0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_plan::{Size, parse};

    /// One point of 10 Gbit/s over 400 ms: two BDPs are 1,000,000,000 bytes. The point with three BDPs is skipped.
    fn plan() -> Plan {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\nfamily = 6\n\
                    payload = '64KiB'\nlink = 'ethernet:10G'\nrtt = '400ms'\nwindow = ['2bdp', '3bdp']\n\
                    [settings]\ncongestion = 'cubic'\n";
        parse("t", text, Size::Full, &[]).unwrap()
    }

    fn memory(available_kib: u64, tcp_pages: u64) -> Memory {
        let meminfo = format!("MemTotal: 9 kB\nMemAvailable:   {available_kib} kB\n");
        Memory::of(&meminfo, &format!("1 2 {tcp_pages}"), 4096).unwrap()
    }

    fn refusal(available_kib: u64, tcp_pages: u64) -> String {
        check(&plan(), &memory(available_kib, tcp_pages), 4096).unwrap_err().to_string()
    }

    /// A point that registers 64 MiB for reads and as much for the data that is read: 134,217,728 bytes at each end.
    fn registering(peer: &str) -> Plan {
        let text = "title = 't'\n[factors]\npattern = 'rr'\ntransport = 'rc'\nfamily = 4\n\
                    payload = '1MiB'\nlink = 'veth'\noperation = 'read'\n";
        parse("t", text, Size::Full, &[]).unwrap().to_host(peer, None).unwrap()
    }

    #[test]
    fn memory_for_rdma_is_that_of_the_ends_on_this_machine() {
        // 200 MB: enough for one end.
        let memory = memory(195_313, 1);
        assert!(check(&registering("node2"), &memory, 4096).is_ok());
        let refusal = check(&registering("ends=10.9.0.1,10.9.0.2"), &memory, 4096).unwrap_err();
        assert!(refusal.to_string().contains("269 MB"), "{refusal}");
    }

    #[test]
    fn windows_of_groups_that_run_at_once_are_added() {
        let text = "title = 't'\n[[group]]\nname = 'a'\n[[group]]\nname = 'b'\n[factors]\npattern = 'stream'\n\
                    transport = 'tcp'\nfamily = 6\npayload = '64KiB'\nlink = 'ethernet:10G'\nrtt = '400ms'\n\
                    window = '1bdp'\n[settings]\ncongestion = 'cubic'\n";
        let plan = parse("t", text, Size::Full, &[]).unwrap();
        // As much as one window of two BDPs.
        assert!(check(&plan, &memory(2_929_688, 488_282), 4096).is_ok());
        let short = check(&plan, &memory(2_000_000, 1 << 30), 4096).unwrap_err().to_string();
        assert!(short.contains("windows or buffers of 1000 MB"), "{short}");
    }

    #[test]
    fn a_plan_whose_windows_fit_is_run() {
        // 3,000,000,000 bytes are 2,929,687.5 KiB; 2,000,000,000 are 488,281.25 pages.
        assert!(check(&plan(), &memory(2_929_688, 488_282), 4096).is_ok());
    }

    #[test]
    fn short_memory_is_named_with_what_is_needed() {
        let text = refusal(2_000_000, 1 << 30);
        for words in
            ["windows or buffers of 1000 MB", "up to 3000 MB", "2048 MB", "window=2bdp", "smaller"]
        {
            assert!(text.contains(words), "no {words} in {text}");
        }
    }

    #[test]
    fn the_limit_of_tcp_is_named_with_the_setting_that_raises_it() {
        let text = refusal(1 << 30, 488_281);
        assert!(text.contains("up to 2000 MB"), "{text}");
        assert!(text.contains("sysctl -w net.ipv4.tcp_mem=\"366210 488282 732423\""), "{text}");
        let raised = memory(1 << 30, 732_423);
        assert!(check(&plan(), &raised, 4096).is_ok());
    }

    #[test]
    fn buffers_count_as_twice_what_is_asked_for() {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\nfamily = 4\n\
                    payload = '64KiB'\nlink = 'veth'\nsend_buffer = '1GiB'\nreceive_buffer = '1GiB'\n\
                    congestion = 'cubic'\n";
        let plan = parse("t", text, Size::Full, &[]).unwrap();
        // Two buffers of 2 GiB are 1,048,576 pages.
        assert!(check(&plan, &memory(1 << 30, 1 << 20), 4096).is_ok());
        let short = check(&plan, &memory(1 << 30, (1 << 20) - 1), 4096).unwrap_err().to_string();
        assert!(short.contains("windows or buffers of 2148 MB need up to 4295 MB"), "{short}");
    }

    #[test]
    fn what_both_ends_register_is_counted() {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'rc'\nfamily = 4\n\
                    payload = '1MiB'\nlink = 'veth'\noperation = 'write'\n";
        let plan = parse("t", text, Size::Full, &[]).unwrap();
        // 64 slots of 1 MiB, twice, at two ends.
        assert!(check(&plan, &memory(256 << 10, 1), 4096).is_ok());
        let refused = check(&plan, &memory((256 << 10) - 1, 1), 4096).unwrap_err().to_string();
        assert!(
            refused.contains("needs 269 MB of registered memory")
                && refused.contains("reduce tx_depth"),
            "{refused}"
        );
    }

    #[test]
    fn a_plan_without_windows_needs_no_memory_to_speak_of() {
        let mut plan = plan();
        plan.points.iter_mut().for_each(|point| point.window = None);
        assert!(check(&plan, &memory(1, 1), 4096).is_ok());
    }
}
