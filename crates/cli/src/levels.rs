//! Levels of factors as options: each factor is one, with its words and its help.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use fabricmark_plan::{Factor, Probe, Where};

/// The levels that were named.
#[derive(Clone, Debug, Default)]
pub struct Levels(pub Where);

/// Factors that are named in another way: they are arguments, not options.
const ARGUMENTS: [Factor; 2] = [Factor::Pattern, Factor::Link];

fn options() -> impl Iterator<Item = Factor> {
    Factor::ALL.into_iter().filter(|factor| !ARGUMENTS.contains(factor))
}

/// The name of a factor's option: `--window` is iperf3's word for both buffers.
fn long(factor: Factor) -> String {
    match factor {
        Factor::Window => "tcp-window".to_owned(),
        _ => factor.key().replace('_', "-"),
    }
}

/// The letters that iperf3 has for the same.
fn letter(factor: Factor) -> Option<char> {
    match factor {
        Factor::Flows => Some('P'),
        Factor::Payload => Some('l'),
        Factor::Congestion => Some('C'),
        Factor::Mss => Some('M'),
        Factor::Source => Some('B'),
        _ => None,
    }
}

impl Args for Levels {
    fn augment_args(mut command: Command) -> Command {
        for factor in options() {
            let about = factor.about();
            let words = factor.words();
            let mut capital = about.chars();
            let first = capital.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            let mut option = Arg::new(factor.key())
                .long(long(factor))
                .value_name("LEVEL")
                .help(format!("{first}{}", capital.as_str()))
                .help_heading("Levels");
            option = if words.is_empty() {
                option.value_parser(move |text: &str| factor.level(text))
            } else {
                option.value_parser(PossibleValuesParser::new(words))
            };
            if let Some(letter) = letter(factor) {
                option = option.short(letter);
            }
            if factor == Factor::Source {
                option = option.visible_alias("bind");
            }
            if factor == Factor::Probe {
                // As a flag it asks for the carrier that shows each crossing.
                option = option
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(Probe::Udp.word());
            }
            command = command.arg(option);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Levels {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut levels = Self::default();
        levels.update_from_arg_matches(matches)?;
        Ok(levels)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for factor in options() {
            if let Some(level) = matches.get_one::<String>(factor.key()) {
                self.0.insert(factor, level.clone());
            }
        }
        Ok(())
    }
}
