//! Factors, levels and figures in words.

use fabricmark_plan::{Amount, Factor, Figure, Kind, Transport};
use fabricmark_record::Provenance;
use fabricmark_stats::{Comparison, Verdict};
use fabricmark_units::{Bytes, Nanos};

use crate::number;

/// A level as it stands in a heading.
pub(crate) fn level(factor: Factor, level: &str) -> String {
    match (factor, factor.spec().shown) {
        _ if level.is_empty() => format!("no {}", name(factor)),
        (Factor::Transport, _) if level != Transport::Null.word() => level.to_uppercase(),
        (_, "") => format!("{} {}", name(factor), row(factor, level)),
        (_, shown) => shown.replace("{}", &row(factor, level)),
    }
}

/// A level as it stands at the head of a row, where the factor is named above.
pub(crate) fn row(factor: Factor, text: &str) -> String {
    match (factor.spec().kind, text.parse()) {
        _ if text.is_empty() => "none".to_owned(),
        _ if factor == Factor::Family => format!("IPv{text}"),
        (Kind::Size(_), Ok(Bytes(bytes))) => number::fixed(bytes as f64, 0),
        (Kind::Duration(..), _) => match text.parse() {
            Ok(Nanos(0)) => "0".to_owned(),
            // `400ms` with a space that no line breaks at.
            _ => {
                let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
                format!("{}\u{a0}{}", &text[..unit], &text[unit..])
            }
        },
        _ if factor == Factor::Window => match text.parse() {
            Ok(Bytes(bytes)) => format!("{} B", number::fixed(bytes as f64, 0)),
            Err(_) => text.replace("bdp", "\u{a0}×\u{a0}BDP"),
        },
        _ => text.to_owned(),
    }
}

/// The heading above the levels of a factor.
pub(crate) fn heading(factor: Factor) -> String {
    match factor.spec().kind {
        Kind::Size(_) => format!("{} (B)", name(factor)),
        _ => name(factor),
    }
}

fn name(factor: Factor) -> String {
    match factor.spec().name {
        "" => factor.key().replace('_', " "),
        name => name.to_owned(),
    }
}

/// A figure in words, without its unit.
pub(crate) fn figure(figure: Figure) -> &'static str {
    match figure {
        Figure::Goodput => "goodput",
        Figure::PayloadRate => "payloads received",
        Figure::ExchangeRate => "exchanges",
        Figure::HalfRtt => "RTT/2",
        Figure::Rtt => "mean RTT",
        Figure::RttP50 => "RTT p50",
        Figure::RttP99 => "RTT p99",
        Figure::RttP999 => "RTT p99.9",
        Figure::Step => "mean step",
        Figure::StepP50 => "step p50",
        Figure::StepP99 => "step p99",
        Figure::StepP999 => "step p99.9",
        Figure::SenderDemand => "sender service demand",
        Figure::ReceiverDemand => "receiver service demand",
        Figure::AskerDemand => "client service demand",
        Figure::AnswererDemand => "server service demand",
        Figure::SlipP50 => "departure lag p50",
        Figure::SlipP99 => "departure lag p99",
        Figure::ForwardGoodput => "goodput forward",
        Figure::ReverseGoodput => "goodput in reverse",
        Figure::IdleRttP50 => "idle RTT p50",
        Figure::IdleRttP99 => "idle RTT p99",
        Figure::LoadedRttP50 => "loaded RTT p50",
        Figure::LoadedRttP99 => "loaded RTT p99",
        Figure::KernelRttP50 => "RTT p50 between kernel timestamps",
        Figure::KernelRttP99 => "RTT p99 between kernel timestamps",
        Figure::ApplicationP50 => "application time p50",
        Figure::ApplicationP99 => "application time p99",
        Figure::LandSpeed => "land speed (goodput x distance)",
        Figure::Retransmits => "retransmitted segments",
    }
}

/// The key of a figure without its unit: `goodput`, `half_rtt`.
pub(crate) fn figure_key(figure: Figure) -> &'static str {
    match figure {
        Figure::Goodput => "goodput",
        Figure::PayloadRate => "payloads",
        Figure::ExchangeRate => "exchanges",
        Figure::HalfRtt => "half_rtt",
        Figure::Rtt => "rtt",
        Figure::RttP50 => "rtt_p50",
        Figure::RttP99 => "rtt_p99",
        Figure::RttP999 => "rtt_p999",
        Figure::Step => "step",
        Figure::StepP50 => "step_p50",
        Figure::StepP99 => "step_p99",
        Figure::StepP999 => "step_p999",
        Figure::SenderDemand => "sender_demand",
        Figure::ReceiverDemand => "receiver_demand",
        Figure::AskerDemand => "asker_demand",
        Figure::AnswererDemand => "answerer_demand",
        Figure::SlipP50 => "slip_p50",
        Figure::SlipP99 => "slip_p99",
        Figure::ForwardGoodput => "forward_goodput",
        Figure::ReverseGoodput => "reverse_goodput",
        Figure::IdleRttP50 => "idle_rtt_p50",
        Figure::IdleRttP99 => "idle_rtt_p99",
        Figure::LoadedRttP50 => "loaded_rtt_p50",
        Figure::LoadedRttP99 => "loaded_rtt_p99",
        Figure::KernelRttP50 => "kernel_rtt_p50",
        Figure::KernelRttP99 => "kernel_rtt_p99",
        Figure::ApplicationP50 => "application_p50",
        Figure::ApplicationP99 => "application_p99",
        Figure::LandSpeed => "land_speed",
        Figure::Retransmits => "retransmitted",
    }
}

/// How much a run sends, in words.
pub(crate) fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => format!("{} B", number::fixed(bytes as f64, 0)),
        Amount::Payloads(count) => format!("{} payloads", number::fixed(count as f64, 0)),
    }
}

/// A provenance in one word.
pub(crate) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Emulated => "emulated",
        Provenance::Modelled => "modelled",
        Provenance::Published => "published",
    }
}

/// The verdict, with what could have been seen where nothing was.
pub(crate) fn judged(comparison: &Comparison) -> String {
    match (comparison.verdict, comparison.smallest_visible) {
        (Verdict::Inconclusive, Some(smallest)) => {
            format!("inconclusive (MDE {} %)", number::share(smallest))
        }
        (verdict, _) => verdict.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_figures_are_words_of_json() {
        for (_, figure) in Figure::ALL {
            let key = figure_key(figure);
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(key.chars().all(is_word), "{key:?}");
        }
    }

    #[test]
    fn levels_of_long_ways_are_written_with_their_units() {
        for (factor, text, wanted) in [
            (Factor::Rtt, "400ms", "400\u{a0}ms"),
            (Factor::Rtt, "0ns", "0"),
            (Factor::Window, "2bdp", "2\u{a0}×\u{a0}BDP"),
            (Factor::Window, "1073725440", "1,073,725,440 B"),
            (Factor::PacingRate, "", "none"),
            (Factor::PacingRate, "9G", "9G"),
        ] {
            assert_eq!(row(factor, text), wanted);
        }
        assert_eq!(level(Factor::Rtt, "400ms"), "RTT 400\u{a0}ms");
        assert_eq!(level(Factor::Window, ""), "no window");
    }
}
