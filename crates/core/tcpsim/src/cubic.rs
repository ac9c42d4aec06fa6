//! CUBIC's window in congestion avoidance (RFC 9438). Windows are in segments, times in seconds.

use fabricmark_units::{Instant, Nanos};

/// `C`, in segments per cubic second (section 5).
const C: f64 = 0.4;
/// Factor of the window after a loss (section 4.6).
pub(crate) const BETA: f64 = 0.7;
/// Growth in segments per RTT that is fair to Reno at this `BETA` (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of CUBIC; names are those of RFC 9438, section 4.1.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    fast_convergence: bool,
    /// Window at the last loss, reduced by fast convergence; `None` before a loss and after a timeout.
    w_max: Option<f64>,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// A congestion avoidance epoch.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    k_s: f64,
    w_max: f64,
    w_est: f64,
}

impl Cubic {
    pub fn new(fast_convergence: bool) -> Self {
        Self { fast_convergence, w_max: None, cwnd_prior: 0.0, epoch: None }
    }

    /// A loss at a window of `cwnd`.
    pub fn reduce(&mut self, cwnd: f64) {
        let shrank = self.fast_convergence && self.w_max.is_some_and(|w_max| cwnd < w_max);
        self.w_max = Some(if shrank { cwnd * (1.0 + BETA) / 2.0 } else { cwnd });
        self.cwnd_prior = cwnd;
        self.epoch = None;
    }

    /// A timeout: the next epoch starts at its plateau (section 4.8).
    pub fn collapse(&mut self, cwnd: f64) {
        self.reduce(cwnd);
        self.w_max = None;
    }

    /// The window after `acked` segments were acknowledged.
    pub fn grow(&mut self, cwnd: f64, now: Instant, acked: f64, rtt: Nanos) -> f64 {
        let w_max = self.w_max.filter(|&w_max| w_max > cwnd).unwrap_or(cwnd);
        let epoch = self.epoch.get_or_insert_with(|| {
            let k_s = ((w_max - cwnd) / C).cbrt();
            Epoch { start: now, k_s, w_max, w_est: cwnd }
        });
        let w_cubic = |t_s: f64| C * (t_s - epoch.k_s).powi(3) + epoch.w_max;
        let t_s = (now - epoch.start).as_secs_f64();
        let (w_now, w_next) = (w_cubic(t_s), w_cubic(t_s + rtt.as_secs_f64()));
        let alpha = if epoch.w_est < self.cwnd_prior { ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / cwnd;
        if w_now < epoch.w_est {
            return cwnd.max(epoch.w_est);
        }
        let target = w_next.clamp(cwnd, 1.5 * cwnd);
        cwnd + (target - cwnd) / cwnd * acked
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_wire::{Exact, lfn};

    use super::*;

    const RTT: Nanos = Nanos::from_millis(100);

    /// The window after `seconds` of round trips without loss.
    fn grown(cubic: &mut Cubic, mut cwnd: f64, seconds: u64) -> f64 {
        for round in 0..seconds * 10 {
            cwnd = cubic.grow(cwnd, Instant(round * RTT.0), cwnd, RTT);
        }
        cwnd
    }

    #[test]
    fn a_window_is_regained_in_the_time_of_the_model() {
        let mut cubic = Cubic::new(false);
        cubic.reduce(36_000.0);
        let window_bytes = Exact::new(36_000 * 1460, 1).unwrap();
        // The cube root of 36,000 * 0.3 / 0.4 is 30 s.
        let recovery = lfn::cubic_recovery(window_bytes, 1460, RTT).unwrap().value.as_f64();
        assert_eq!(recovery.round(), 3e10);
        let cwnd = grown(&mut cubic, 0.7 * 36_000.0, 30);
        assert!((cwnd - 36_000.0).abs() < 1.0, "{cwnd}");
        // Ten seconds later it is 0.4 * 10^3 larger.
        let cwnd = grown(&mut cubic.clone(), cwnd, 40);
        assert!((cwnd - 36_400.0).abs() < 15.0, "{cwnd}");
    }

    #[test]
    fn a_small_window_grows_as_that_of_reno() {
        let mut cubic = Cubic::new(false);
        cubic.reduce(20.0);
        // From 14 it grows by 0.53 per RTT: 5.3 in a second, where the cubic is at 18.7.
        let cwnd = grown(&mut cubic, 14.0, 1);
        assert!((cwnd - 19.3).abs() < 0.2, "{cwnd}");
    }

    #[test]
    fn fast_convergence_gives_up_part_of_a_window_that_shrank() {
        let w_max = |fast_convergence| {
            let mut cubic = Cubic::new(fast_convergence);
            cubic.reduce(1000.0);
            cubic.reduce(800.0);
            cubic.w_max
        };
        assert_eq!(w_max(true), Some(680.0));
        assert_eq!(w_max(false), Some(800.0));
    }
}
