//! P1: IPv4 and IPv6 over 10-gigabit Ethernet and IPoIB.

mod limits;
mod order;
mod shape;
mod tables;

use super::Judge::{Networks, Print};
use super::figures::{Load, Quantity};
use super::{Claim, claim};
use Quantity::{GoodputMbps, LatencyUs};

/// The claims of P1. 18 and 19 are implied by its tables and text.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P1-01",
        "IPv4 exceeds IPv6 in UDP throughput for both technologies.",
        "goodput(UDP, IPv4) >= goodput(UDP, IPv6) at every payload (table IV)",
        Networks(|f, t| order::by_family(f, t, GoodputMbps, &f.families(GoodputMbps, Load::Udp))),
    ),
    claim(
        "P1-02",
        "IPv4 exceeds IPv6 in TCP throughput for both technologies.",
        "goodput(TCP, IPv4) >= goodput(TCP, IPv6) at every payload (table VI)",
        Networks(|f, t| order::by_family(f, t, GoodputMbps, &f.families(GoodputMbps, Load::Tcp))),
    ),
    claim(
        "P1-03",
        "The UDP latency of IPv4 is lower than that of IPv6.",
        "latency(UDP, IPv4) < latency(UDP, IPv6) at every payload (tables III and V)",
        Networks(|f, t| {
            let of_modes = f.families_of_modes(LatencyUs);
            let pairs = [of_modes, f.families(LatencyUs, Load::Udp)].concat();
            order::by_family(f, t, LatencyUs, &pairs);
        }),
    ),
    claim(
        "P1-04",
        "The TCP latency of IPv4 is lower than that of IPv6.",
        "latency(TCP, IPv4) < latency(TCP, IPv6) at every payload (table VII)",
        Networks(|f, t| order::by_family(f, t, LatencyUs, &f.families(LatencyUs, Load::Tcp))),
    ),
    claim(
        "P1-05",
        "The throughput of IPoIB's datagram mode is higher than that of its connected mode.",
        "goodput(datagram) > goodput(connected) at every payload (table II)",
        Networks(order::datagram_exceeds_connected),
    ),
    claim(
        "P1-06",
        "The latency of IPoIB's datagram mode is lower than that of its connected mode.",
        "latency(datagram) < latency(connected) at every payload (table III)",
        Networks(order::datagram_is_under_connected),
    ),
    claim(
        "P1-07a",
        "10GbE has the best throughput for almost all payloads.",
        "goodput(10GbE) > goodput(IPoIB) at payloads up to 16,384 bytes (tables IV and VI)",
        Networks(order::ethernet_exceeds_ipoib),
    ),
    claim(
        "P1-07b",
        "For very large payloads IPoIB/FDR has the better throughput.",
        "goodput(IPoIB) > goodput(10GbE) at 32,768 bytes (tables IV and VI)",
        Networks(order::ipoib_exceeds_ethernet),
    ),
    claim(
        "P1-08",
        "The advantage of 10GbE is largest for small and medium payloads.",
        "with r = goodput(10GbE) / goodput(IPoIB): the geometric means of r over 4..256 and over \
         512..4,096 bytes both exceed that over 8,192..32,768 (tables IV and VI)",
        Networks(shape::advantage_is_at_small_and_medium),
    ),
    claim(
        "P1-09",
        "As the payload increases, the advantage of 10GbE is reduced.",
        "goodput(10GbE) / goodput(IPoIB) does not rise from any payload to the next, from 1,024 bytes on \
         (tables IV and VI)",
        Networks(shape::advantage_falls),
    ),
    claim(
        "P1-10",
        "IPoIB/FDR has the lowest latency for all payloads.",
        "latency(IPoIB) < latency(10GbE) at every payload (tables V and VII)",
        Networks(order::ipoib_is_under_ethernet),
    ),
    claim(
        "P1-11",
        "SDR has the lowest throughput and the highest latency, FDR the highest throughput and the \
         lowest latency.",
        "goodput(FDR) > goodput(QDR) > goodput(DDR) > goodput(SDR), and the reverse for latency, \
         UDP/IPv4 (figures 10 and 11)",
        Networks(order::faster_lanes_are_faster),
    ),
    claim(
        "P1-12",
        "Latency does not vary for small UDP payloads; a difference is noticed from 256 bytes on.",
        "latency(128) < 1.03 latency(4) and latency(256) >= 1.03 latency(4), UDP/IPv4 (table V)",
        Networks(shape::latency_steps_at_256),
    ),
    claim(
        "P1-13",
        "The differences between IPv4 and IPv6 are most likely due to the IP headers.",
        "goodput(IPv6) / goodput(IPv4) is within 3 % of the same ratio of the ceilings (tables IV and VI)",
        Networks(limits::differences_are_those_of_headers),
    ),
    claim(
        "P1-13b",
        "The differences between IPv4 and IPv6 are small.",
        "goodput(IPv6) >= 0.95 goodput(IPv4) at every payload (tables IV and VI)",
        Networks(shape::differences_are_small),
    ),
    claim(
        "P1-14",
        "Tables II and IV show the same throughput of IPoIB in datagram mode.",
        "each datagram cell of table II = the same cell of table IV",
        Print(|t| tables::same(t, "table II", "table IV")),
    ),
    claim(
        "P1-15",
        "Tables III and V show the same latency of IPoIB in datagram mode.",
        "each datagram cell of table III = the same cell of table V",
        Print(|t| tables::same(t, "table III", "table V")),
    ),
    claim(
        "P1-16",
        "No throughput exceeds its ceiling.",
        "goodput <= its ceiling (a bound) at every payload (tables II, IV and VI)",
        Networks(limits::goodput_is_within_its_ceiling),
    ),
    claim(
        "P1-17",
        "No latency is below its floor.",
        "latency >= its floor through one switch (a bound) at every payload (tables III, V and VII)",
        Networks(limits::latency_is_above_its_floor),
    ),
    claim(
        "P1-18",
        "TCP costs more than UDP.",
        "goodput(TCP) < goodput(UDP) and latency(TCP) > latency(UDP) at every payload (tables IV to VII)",
        Networks(order::tcp_costs_more_than_udp),
    ),
    claim(
        "P1-19",
        "Throughput increases with the payload.",
        "goodput rises from each payload to the next (tables IV and VI)",
        Networks(shape::goodput_rises),
    ),
    claim(
        "P1-20",
        "Table I lists the data rates of InfiniBand.",
        "data rate = signal rate * coding (8/10, or 64/66 from FDR on), rounded to 2 decimals",
        Print(tables::data_rates_follow_from_signal_rates),
    ),
];

/// Names a cell: `UDP 10GbE IPv4, 1,024 B`.
fn at(name: &str, payload: u64) -> String {
    format!("{name}, {} B", super::value::thousands(payload))
}
