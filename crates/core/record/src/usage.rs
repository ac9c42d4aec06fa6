//! Resource usage at one end of a run.

use fabricmark_stats::THROUGHPUT_TIE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// Unit of `/proc/stat` (USER_HZ, proc(5)).
const TICK_NS: f64 = 10e6;

/// Resource usage at one end of a run, between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time between the two readings, on the monotonic clock.
    pub elapsed_ns: u64,
    /// Usage of this process.
    pub process: ProcessUsage,
    /// Usage of all CPUs by everything; absent if `/proc/stat` cannot be read or has not advanced since the first
    /// reading.
    pub machine: Option<MachineUsage>,
    /// Time in which the CPU quota of the process's control group was used up (`throttled_usec` in cpu.stat), the sum
    /// of all CPUs; absent if no group can have a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
}

/// Usage of one process, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUsage {
    /// CPU time, exact to the nanosecond (CLOCK_PROCESS_CPUTIME_ID: the scheduler's sum).
    pub cpu_ns: u64,
    /// The part in user mode, in steps of 1 us (getrusage(2)). Unless the kernel was built with
    /// VIRT_CPU_ACCOUNTING_GEN, it splits the exact sum by samples of its clock tick, 1 to 10 ms apart
    /// (kernel/sched/cputime.c, cputime_adjust): below some 100 ticks it is a rough estimate.
    pub user_ns: u64,
    /// The part in the kernel, as exact as `user_ns`. Network interrupts are not included: they are in
    /// [`MachineUsage`].
    pub system_ns: u64,
    /// Voluntary context switches: a thread gave up its CPU to wait (`ru_nvcsw`).
    pub voluntary_switches: u64,
    /// Involuntary context switches: a thread was preempted (`ru_nivcsw`).
    pub involuntary_switches: u64,
    /// Page faults served without reading from a device (`ru_minflt`).
    pub minor_faults: u64,
    /// Page faults that read from a device (`ru_majflt`).
    pub major_faults: u64,
    /// Maximum resident memory in bytes since the start of the process, not since the first reading (`ru_maxrss`,
    /// KiB).
    pub max_rss_bytes: u64,
}

/// Usage of all CPUs of the machine, from `/proc/stat`, which counts in ticks of 10 ms (USER_HZ, proc(5)): in a run
/// of 1 s the shares of a CPU are known to about 1 %.
///
/// Two ends on one machine see the same CPUs, and each other's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineUsage {
    /// All CPUs together.
    pub all: CpuShares,
    /// Each CPU that was online at both readings.
    pub per_cpu: Vec<CpuUsage>,
}

/// Usage of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUsage {
    /// CPU number.
    pub cpu: u32,
    /// How its time was spent.
    pub shares: CpuShares,
}

/// How CPU time was spent, as shares that add up to 1 (proc(5), `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// User mode, time of guests included.
    pub user: f64,
    /// User mode at reduced priority.
    pub nice: f64,
    /// Kernel mode for a process.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Soft interrupts, which include most of the network receive path.
    pub softirq: f64,
    /// Steal: the hypervisor ran other guests while this one had work.
    pub steal: f64,
    /// Idle while a process waited for a disk.
    pub iowait: f64,
    /// Idle.
    pub idle: f64,
}

impl CpuShares {
    /// Share spent on work: not idle, not waiting for a disk, not stolen by the hypervisor.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Utilisation as netperf defines it, everything but `idle` (`netcpu_procstat.c`): above [`Self::busy`] on a
    /// machine with slow disks or a busy hypervisor.
    pub fn netperf_utilisation(&self) -> f64 {
        self.busy() + self.steal + self.iowait
    }
}

impl MachineUsage {
    /// CPU time that all CPUs together spent on work in `elapsed_ns`.
    pub fn busy_ns(&self, elapsed_ns: u64) -> f64 {
        self.all.busy() * self.per_cpu.len() as f64 * elapsed_ns as f64
    }

    /// CPU time that the hypervisor gave to others in `elapsed_ns` while this machine had work, the sum of all CPUs.
    pub fn stolen_ns(&self, elapsed_ns: u64) -> f64 {
        self.all.steal * self.per_cpu.len() as f64 * elapsed_ns as f64
    }

    /// Share of the runnable time (busy or stolen) that was certainly stolen. The kernel reports whole ticks of a
    /// finer sum (fs/proc/stat.c), so the last tick of each CPU may be almost zero and is not counted.
    pub fn stolen_share(&self, elapsed_ns: u64) -> f64 {
        let of_each = self.per_cpu.iter().map(|cpu| cpu.shares.steal * elapsed_ns as f64);
        let surely_ns: f64 = of_each.map(|stolen_ns| (stolen_ns - TICK_NS).max(0.0)).sum();
        let wanted_ns = self.busy_ns(elapsed_ns) + surely_ns;
        if wanted_ns > 0.0 { surely_ns / wanted_ns } else { 0.0 }
    }
}

impl Usage {
    /// Microseconds of CPU time per KiB, see [`service_demand_us_per_kib`].
    pub fn service_demand_us_per_kib(&self, bytes: u64) -> Option<f64> {
        service_demand_us_per_kib(self.machine.as_ref()?.busy_ns(self.elapsed_ns), bytes)
    }

    /// Microseconds of CPU time per transaction, see [`service_demand_us_per_transaction`].
    pub fn service_demand_us_per_transaction(&self, transactions: u64) -> Option<f64> {
        let busy_ns = self.machine.as_ref()?.busy_ns(self.elapsed_ns);
        service_demand_us_per_transaction(busy_ns, transactions)
    }

    /// Share of the runnable time that the hypervisor took, see [`MachineUsage::stolen_share`].
    pub fn stolen_share(&self) -> Option<f64> {
        Some(self.machine.as_ref()?.stolen_share(self.elapsed_ns))
    }

    /// A warning if the hypervisor took so much time that the throughput is lower by more than the tie band.
    pub fn warning(&self, node: &str) -> Option<Warning> {
        let share = self.stolen_share()?;
        (share > THROUGHPUT_TIE).then(|| Warning::StolenTime { node: node.to_owned(), share })
    }
}

/// Service demand of a stream as netperf defines it (`netlib.c`, calc_service_demand): microseconds of CPU time, of
/// all CPUs of the machine, per 1024 bytes. `None` if no byte was moved.
pub fn service_demand_us_per_kib(busy_ns: f64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| busy_ns / 1e3 / (bytes as f64 / 1024.0))
}

/// Service demand of a transaction as netperf defines it: microseconds of CPU time, of all CPUs of the machine, per
/// request and response. `None` without transactions.
pub fn service_demand_us_per_transaction(busy_ns: f64, transactions: u64) -> Option<f64> {
    (transactions > 0).then(|| busy_ns / 1e3 / transactions as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpus: usize, busy: f64, elapsed_ns: u64) -> Usage {
        let shares = CpuShares { user: busy, idle: 1.0 - busy, ..CpuShares::default() };
        let per_cpu = vec![CpuUsage { cpu: 0, shares }; cpus];
        let machine = Some(MachineUsage { all: shares, per_cpu });
        Usage { elapsed_ns, machine, ..Usage::default() }
    }

    /// Printed by netperf: 30.00 s, 897.16 Mbit/s, 34.07 %, 3.111 us/KB, one CPU.
    #[test]
    fn service_demand_of_a_stream_is_the_one_that_netperf_prints() {
        let usage = usage(1, 0.3407, 30_000_000_000);
        let bytes = (897.16e6 / 8.0 * 30.0) as u64;
        let demand = usage.service_demand_us_per_kib(bytes).unwrap();
        assert!((demand - 3.111).abs() < 0.0005, "{demand}");
    }

    /// Printed by netperf: 10.00 s, 308239.39 transactions/s, 14.00 %, 7.268 us/Tr on 16 CPUs; the percentage is
    /// rounded to 0.01.
    #[test]
    fn service_demand_of_an_exchange_is_the_one_that_netperf_prints() {
        let usage = usage(16, 0.14, 10_000_000_000);
        let demand = usage.service_demand_us_per_transaction(3_082_394).unwrap();
        assert!((demand - 7.268).abs() < 7.268 * 0.005 / 14.0, "{demand}");
    }

    #[test]
    fn nothing_moved_has_no_service_demand() {
        let usage = usage(1, 0.5, 1_000);
        assert_eq!(usage.service_demand_us_per_kib(0), None);
        assert_eq!(usage.service_demand_us_per_transaction(0), None);
        assert_eq!(Usage::default().service_demand_us_per_kib(1024), None);
    }

    #[test]
    fn what_the_hypervisor_took_and_disks_delayed_is_not_work() {
        let shares = CpuShares {
            system: 0.25,
            steal: 0.125,
            iowait: 0.125,
            idle: 0.5,
            ..CpuShares::default()
        };
        assert_eq!(shares.busy(), 0.25);
        assert_eq!(shares.netperf_utilisation(), 0.5);
    }

    /// Two CPUs over one second, busy for 0.5 s each; `steal` is the stolen share of the first.
    fn stolen(steal: f64) -> Usage {
        let shares =
            |steal| CpuShares { user: 0.5, steal, idle: 0.5 - steal, ..Default::default() };
        let per_cpu = vec![
            CpuUsage { cpu: 0, shares: shares(steal) },
            CpuUsage { cpu: 1, shares: shares(0.0) },
        ];
        let machine = Some(MachineUsage { all: shares(steal / 2.0), per_cpu });
        Usage { elapsed_ns: 1_000_000_000, machine, ..Usage::default() }
    }

    #[test]
    fn time_that_the_hypervisor_took_is_said_with_its_share_of_the_time_to_run() {
        let usage = stolen(0.121);
        assert!((usage.machine.as_ref().unwrap().stolen_ns(usage.elapsed_ns) - 121e6).abs() < 1.0);
        // 111 ms without the last tick, beside 1 s of work.
        let said = usage.warning("client").map(|warning| warning.to_string());
        assert_eq!(
            said.as_deref(),
            Some(
                "the hypervisor stole 10.0 % of the busy CPU time of node client: the figures are \
                 those of a slower machine"
            )
        );
    }

    #[test]
    fn stolen_time_within_the_tie_band_or_within_a_tick_is_not_worth_a_word() {
        assert_eq!(stolen(0.03).warning("client"), None, "20 ms of 1.02 s");
        assert!(stolen(0.035).warning("client").is_some());
        let mut short = stolen(0.1);
        short.elapsed_ns = 100_000_000;
        assert_eq!(short.warning("client"), None, "one tick");
        assert_eq!(Usage::default().warning("client"), None);
    }

    #[test]
    fn usage_comes_back_from_json_as_it_was() {
        let usage = usage(2, 0.125, 1_000);
        let json = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&json).unwrap(), usage);
    }
}
