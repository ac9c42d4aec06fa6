//! One-way floors over one switch in microseconds.

use fabricmark_wire::{Family, Path, Stack, Switching, one_way_floor};

use super::{assert_prints, link, tcp, udp};

/// Payload in bytes; 10GbE IPv4 cut-through and store-and-forward, the same for IPv6; IPoIB cut-through IPv4 and
/// IPv6.
type Plain = (u64, [f64; 6]);

const CASES: [(&str, Family, Switching); 6] = [
    ("ethernet:10G", Family::V4, Switching::CutThrough),
    ("ethernet:10G", Family::V4, Switching::StoreAndForward),
    ("ethernet:10G", Family::V6, Switching::CutThrough),
    ("ethernet:10G", Family::V6, Switching::StoreAndForward),
    ("ipoib:4X-FDR", Family::V4, Switching::CutThrough),
    ("ipoib:4X-FDR", Family::V6, Switching::CutThrough),
];

#[test]
fn one_switch_has_the_floors_of_the_worked_tables() {
    let udp_and_tcp = [(udp as fn(Family) -> Stack, UDP_FLOORS), (tcp, TCP_FLOORS)];
    for (stack, table) in udp_and_tcp {
        for (payload, cells) in table {
            for ((text, family, switching), printed) in CASES.into_iter().zip(cells) {
                let path = Path::through(link(text), 1, switching);
                let floor = one_way_floor(&path, stack(family), payload).unwrap();
                let case = format!("{path} {:?} {payload}", stack(family));
                assert_prints(floor.time_ns, 1e3, printed, 3, &case);
            }
        }
    }
}

const UDP_FLOORS: [Plain; 14] = [
    (4, [0.069, 0.115, 0.074, 0.125, 0.011, 0.014]),
    (8, [0.069, 0.115, 0.077, 0.131, 0.011, 0.014]),
    (16, [0.069, 0.115, 0.083, 0.144, 0.013, 0.016]),
    (32, [0.080, 0.138, 0.096, 0.170, 0.015, 0.018]),
    (64, [0.106, 0.189, 0.122, 0.221, 0.020, 0.023]),
    (128, [0.157, 0.291, 0.173, 0.323, 0.029, 0.032]),
    (256, [0.259, 0.496, 0.275, 0.528, 0.048, 0.051]),
    (512, [0.464, 0.906, 0.480, 0.938, 0.085, 0.088]),
    (1024, [0.874, 1.725, 0.890, 1.757, 0.160, 0.163]),
    (2048, [1.739, 2.949, 1.784, 2.990, 0.319, 0.327]),
    (4096, [3.424, 4.634, 3.491, 4.698, 0.628, 0.640]),
    (8192, [6.840, 8.050, 6.974, 8.181, 1.246, 1.266]),
    (16_384, [13.672, 14.882, 13.941, 15.147, 2.481, 2.518]),
    (32_768, [27.290, 28.499, 27.805, 29.011, 4.952, 5.022]),
];

const TCP_FLOORS: [Plain; 14] = [
    (4, [0.077, 0.131, 0.093, 0.163, 0.014, 0.017]),
    (8, [0.080, 0.138, 0.096, 0.170, 0.015, 0.018]),
    (16, [0.086, 0.150, 0.102, 0.182, 0.016, 0.019]),
    (32, [0.099, 0.176, 0.115, 0.208, 0.018, 0.021]),
    (64, [0.125, 0.227, 0.141, 0.259, 0.023, 0.026]),
    (128, [0.176, 0.330, 0.192, 0.362, 0.033, 0.035]),
    (256, [0.278, 0.534, 0.294, 0.566, 0.051, 0.054]),
    (512, [0.483, 0.944, 0.499, 0.976, 0.089, 0.092]),
    (1024, [0.893, 1.763, 0.909, 1.795, 0.164, 0.167]),
    (2048, [1.784, 2.994, 1.816, 3.026, 0.327, 0.333]),
    (4096, [3.494, 4.704, 3.542, 4.752, 0.641, 0.650]),
    (8192, [6.987, 8.197, 7.083, 8.293, 1.268, 1.283]),
    (16_384, [13.973, 15.182, 14.165, 15.374, 2.522, 2.549]),
    (32_768, [27.872, 29.082, 28.240, 29.450, 5.031, 5.081]),
];
