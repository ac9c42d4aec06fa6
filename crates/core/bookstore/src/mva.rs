//! Mean-value analysis of a closed network of tiers (Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain
//! Queuing Networks", 1980).

/// A station that requests of browsers visit: the CPUs of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// CPU time per web interaction, over all visits, in seconds.
    pub demand_s: f64,
    /// Number of CPUs.
    pub servers: u32,
}

/// What the model predicts for a number of browsers.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Web interactions per second.
    pub rate_per_s: f64,
    /// Mean response time at the stations, in seconds.
    pub response_s: f64,
    /// Share of their CPU time that the stations use.
    pub utilisations: Vec<f64>,
}

/// Exact mean-value analysis for `browsers` that think for `think_s` and then wait for a page. A station of several CPUs is
/// replaced by one that is as many times faster, and a delay (Seidmann, Schweitzer and Shalev-Oren, 1987).
pub fn predict(stations: &[Station], browsers: u32, think_s: f64) -> Prediction {
    let servers = |station: &Station| f64::from(station.servers.max(1));
    let queueing: Vec<f64> =
        stations.iter().map(|station| station.demand_s / servers(station)).collect();
    let delay_s: f64 = stations
        .iter()
        .map(|station| station.demand_s * (servers(station) - 1.0) / servers(station))
        .sum();
    let mut queues = vec![0.0; stations.len()];
    let (mut rate, mut response_s) = (0.0, 0.0);
    for count in 1..=browsers {
        let times: Vec<f64> =
            queueing.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
        response_s = delay_s + times.iter().sum::<f64>();
        rate = f64::from(count) / (think_s + response_s);
        queues = times.iter().map(|time| rate * time).collect();
    }
    let utilisations = queueing.iter().map(|demand| rate * demand).collect();
    Prediction { rate_per_s: rate, response_s, utilisations }
}

/// Most web interactions per second: the station with the largest demand is always busy.
pub fn capacity_per_s(stations: &[Station]) -> Option<f64> {
    let each = stations.iter().filter(|station| station.demand_s > 0.0);
    each.map(|station| f64::from(station.servers.max(1)) / station.demand_s).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn station(demand_s: f64, servers: u32) -> Station {
        Station { demand_s, servers }
    }

    #[test]
    fn a_single_station_without_think_time_is_always_busy() {
        let found = predict(&[station(0.01, 1)], 5, 0.0);
        assert!((found.rate_per_s - 100.0).abs() < 1e-9, "{found:?}");
        assert!((found.response_s - 0.05).abs() < 1e-12, "{found:?}");
    }

    /// Two equal stations and n customers: X = n / ((n + 1) D), by the symmetry of a balanced network.
    #[test]
    fn a_balanced_network_has_the_throughput_of_its_closed_form() {
        for customers in 1..10 {
            let found = predict(&[station(0.02, 1), station(0.02, 1)], customers, 0.0);
            let exact = f64::from(customers) / (f64::from(customers + 1) * 0.02);
            assert!((found.rate_per_s - exact).abs() < 1e-9, "{customers}: {found:?}");
        }
    }

    #[test]
    fn the_capacity_is_that_of_the_slowest_station() {
        let stations = [station(0.001, 1), station(0.004, 2), station(0.0, 1)];
        assert_eq!(capacity_per_s(&stations), Some(500.0));
        assert_eq!(capacity_per_s(&[]), None);
    }

    proptest! {
        #[test]
        fn throughput_rises_to_the_capacity_and_obeys_the_response_time_law(
            demands in prop::collection::vec((1e-5_f64..0.05, 1_u32..9), 1..5),
            browsers in 1_u32..500,
            think_s in 0.0_f64..10.0,
        ) {
            let stations: Vec<Station> =
                demands.iter().map(|&(demand_s, servers)| Station { demand_s, servers }).collect();
            let found = predict(&stations, browsers, think_s);
            let more = predict(&stations, browsers + 1, think_s);
            let law = f64::from(browsers) / (think_s + found.response_s);
            prop_assert!((found.rate_per_s / law - 1.0).abs() < 1e-9);
            prop_assert!(more.rate_per_s >= found.rate_per_s * (1.0 - 1e-9));
            prop_assert!(found.rate_per_s <= capacity_per_s(&stations).unwrap() * (1.0 + 1e-9));
            prop_assert!(found.utilisations.iter().all(|share| *share <= 1.0 + 1e-9));
        }
    }
}
