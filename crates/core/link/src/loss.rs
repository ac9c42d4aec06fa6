//! Random, periodic and traced losses.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Stream};

use crate::{Counters, Element, Input, Invalid, Output, Packet, Reason, share, some};

/// Loss model.
#[derive(Clone, Debug, PartialEq)]
pub enum Losses {
    /// Bernoulli: each packet with the same probability, independently.
    Independent(f64),
    /// Bursts: a Markov chain of two states, with a loss probability in each.
    GilbertElliott(GilbertElliott),
    /// Every nth packet, starting with the nth.
    Periodic(u64),
    /// `true` for a lost packet; the trace repeats.
    Trace(Vec<bool>),
}

impl Losses {
    /// Long-run share of lost packets.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Independent(share) => *share,
            Self::GilbertElliott(model) => model.mean_loss(),
            Self::Periodic(period) => 1.0 / *period as f64,
            Self::Trace(trace) => {
                trace.iter().filter(|lost| **lost).count() as f64 / trace.len().max(1) as f64
            }
        }
    }

    /// Whether losses are independent, so that their number is binomial.
    pub fn are_independent(&self) -> bool {
        matches!(self, Self::Independent(_))
    }
}

/// The Gilbert (1960) and Elliott (1963) model. The state may change before each packet.
///
/// Names in tc-netem(8): `p` is `to_bad`, `r` is `to_good`, `1-h` is `loss_bad`, `1-k` is `loss_good`. For bursts of
/// `n` packets in the mean, all lost, use `to_good = 1 / n`, `loss_bad = 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of leaving the good state.
    pub to_bad: f64,
    /// Probability of leaving the bad state.
    pub to_good: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Long-run share of lost packets; that of the good state, the initial one, if no state is ever left.
    pub fn mean_loss(&self) -> f64 {
        let changes = self.to_bad + self.to_good;
        if changes == 0.0 {
            return self.loss_good;
        }
        (self.to_good * self.loss_good + self.to_bad * self.loss_bad) / changes
    }
}

/// Drops packets, and single segments of super-packets. Input port 0, output port 0.
///
/// Lost segments split a super-packet into pieces. A driver that cannot split its packets must segment them before.
pub struct Loss<T> {
    fate: Fate,
    spared: VecDeque<Packet<T>>,
}

/// Decides about the next packet.
struct Fate {
    losses: Losses,
    stream: Stream,
    /// Index of the packet in the period or trace.
    place: u64,
    bad: bool,
}

impl<T> Loss<T> {
    /// Losses drawn from `stream`.
    pub fn new(losses: Losses, stream: Stream) -> Result<Self, Invalid> {
        match &losses {
            Losses::Independent(probability) => {
                share("the probability of loss", *probability)?;
            }
            Losses::GilbertElliott(model) => {
                share("the probability of leaving the good state", model.to_bad)?;
                share("the probability of leaving the bad state", model.to_good)?;
                share("the probability of loss in the good state", model.loss_good)?;
                share("the probability of loss in the bad state", model.loss_bad)?;
            }
            Losses::Periodic(period) => some("the period of losses", *period)?,
            Losses::Trace(trace) => some("the length of a trace of losses", trace.len() as u64)?,
        }
        let fate = Fate { losses, stream, place: 0, bad: false };
        Ok(Self { fate, spared: VecDeque::new() })
    }
}

impl Fate {
    fn loses(&mut self) -> bool {
        match &self.losses {
            Losses::Independent(probability) => self.stream.unit() < *probability,
            Losses::GilbertElliott(model) => {
                let leave = if self.bad { model.to_good } else { model.to_bad };
                self.bad ^= self.stream.unit() < leave;
                let lost = if self.bad { model.loss_bad } else { model.loss_good };
                self.stream.unit() < lost
            }
            Losses::Periodic(period) => {
                self.place = (self.place + 1) % period;
                self.place == 0
            }
            Losses::Trace(trace) => {
                let lost = trace[self.place as usize];
                self.place = (self.place + 1) % trace.len() as u64;
                lost
            }
        }
    }
}

impl<T: Clone> Element<T> for Loss<T> {
    fn step(&mut self, _: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        let Self { fate, spared } = self;
        if let Input::Packet { packet, .. } = input {
            packet.cut(
                || fate.loses(),
                |piece, lost| match lost {
                    true => counters.drop(Reason::Loss, piece.length),
                    false => spared.push_back(piece),
                },
            );
        }
        spared.pop_front().map_or(Output::Idle, |packet| Output::Packet { port: 0, packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;

    /// One character per packet: `x` is lost.
    fn fates(losses: Losses, packets: usize) -> String {
        let mut loss = Loss::<()>::new(losses, Stream::new(5, "loss")).unwrap();
        (0..packets).map(|_| if loss.fate.loses() { 'x' } else { '.' }).collect()
    }

    fn share_lost(fates: &str) -> f64 {
        fates.matches('x').count() as f64 / fates.len() as f64
    }

    #[test]
    fn periods_and_traces_lose_what_they_say() {
        assert_eq!(fates(Losses::Periodic(3), 7), "..x..x.");
        assert_eq!(fates(Losses::Periodic(1), 3), "xxx");
        assert_eq!(fates(Losses::Trace(vec![true, false, false]), 7), "x..x..x");
    }

    #[test]
    fn the_ends_of_probability_lose_nothing_and_everything() {
        assert_eq!(fates(Losses::Independent(0.0), 1000), ".".repeat(1000));
        assert_eq!(fates(Losses::Independent(1.0), 1000), "x".repeat(1000));
    }

    #[test]
    fn independent_losses_have_their_share() {
        // Five standard errors: 5 * sqrt(p (1 - p) / n).
        let lost = share_lost(&fates(Losses::Independent(0.1), 100_000));
        assert!((lost - 0.1).abs() < 0.0048, "{lost}");
    }

    #[test]
    fn a_gilbert_elliott_channel_reaches_its_stationary_loss() {
        let model = GilbertElliott { to_bad: 0.02, to_good: 0.25, loss_good: 0.01, loss_bad: 0.6 };
        // (0.25 * 0.01 + 0.02 * 0.6) / 0.27
        assert!((model.mean_loss() - 0.053_703_7).abs() < 1e-7);
        let fates = fates(Losses::GilbertElliott(model), 400_000);
        let lost = share_lost(&fates);
        // The state has autocorrelation 0.73 per step, so 400,000 packets are worth more than 400,000 * 0.27 / 1.73
        // independent ones: five standard errors.
        let error = 5.0 * (0.0537 * 0.9463 / 62_400.0f64).sqrt();
        assert!((lost - model.mean_loss()).abs() < error, "{lost} {error}");
    }

    #[test]
    fn a_bad_state_that_loses_all_has_bursts_of_its_mean_length() {
        let model = GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 };
        let fates = fates(Losses::GilbertElliott(model), 400_000);
        let bursts: Vec<usize> = fates.split('.').map(str::len).filter(|&n| n > 0).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        // Geometric with mean 5 and deviation sqrt(20): five standard errors.
        let error = 5.0 * (20.0 / bursts.len() as f64).sqrt();
        assert!((mean - 5.0).abs() < error, "{mean} {error}");
    }

    #[test]
    fn a_lost_segment_splits_its_super_packet() {
        let losses = Losses::Trace(vec![false, true, false, false, true]);
        let mut net = Net::new();
        let loss = net.add(Loss::new(losses, Stream::new(0, "loss")).unwrap());
        let train = Packet::new((), Length::train(40, 5 * 1000, 1000));
        net.arrive(Instant(0), (loss, 0), train);
        let pieces: Vec<_> = std::iter::from_fn(|| net.next(Instant(0)))
            .map(|departure| departure.packet.length)
            .map(|length| (length.offset_bytes(), length.segments()))
            .collect();
        assert_eq!(pieces, [(0, 1), (2000, 2)]);
        assert_eq!(net.counters(loss).dropped(Reason::Loss).packets, 2);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        let refused = Loss::<()>::new(Losses::Independent(1.5), Stream::new(0, "loss"));
        let text = refused.err().unwrap().to_string();
        assert_eq!(text, "the probability of loss is 1.5: give a share from 0 to 1");
    }
}
