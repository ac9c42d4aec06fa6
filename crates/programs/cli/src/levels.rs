//! Command line options for the levels of factors: one option per factor, with its values and help.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use fabricmark_plan::{Factor, Kind, Pattern, Probe, Transport, Where};

/// Level of `--path` that chooses a path by trials.
pub const AUTO: &str = "auto";

/// Default bytes of a write: iperf3's for TCP.
pub const STREAM_BYTES: &str = "131072";

/// Default bytes of a datagram, or of a payload of a burst: fits every MTU.
pub const DATAGRAM_BYTES: &str = "1024";

/// Default bytes of a request.
pub const REQUEST_BYTES: &str = "64";

/// The levels given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Levels(pub Where);

/// Factors that are positional arguments, not options.
const ARGUMENTS: [Factor; 2] = [Factor::Pattern, Factor::Link];

fn options() -> impl Iterator<Item = Factor> {
    let is_option =
        |factor: &Factor| !ARGUMENTS.contains(factor) && factor.spec().section.is_measured();
    Factor::ALL.into_iter().filter(is_option)
}

/// The values of a factor that has a fixed set of them, with their help.
pub(crate) fn words(factor: Factor) -> PossibleValuesParser {
    // Pattern and transport of MPI have the same word. `measure` has neither, nor a bookstore.
    let absent = [Transport::Mpi.word(), Transport::Http.word(), Pattern::Shop.word()];
    let known = factor.choices().iter().filter(|choice| !absent.contains(&choice.word));
    let choices = known.map(|choice| {
        let value = PossibleValue::new(choice.word);
        let value = if choice.about.is_empty() { value } else { value.help(choice.about) };
        choice.was.into_iter().fold(value, PossibleValue::alias)
    });
    let none = factor.has_none().then(|| PossibleValue::new("none"));
    let about =
        "the fastest of those that carry data from and to the program's memory, by short trials";
    let auto = (factor == Factor::Path).then(|| PossibleValue::new(AUTO).help(about));
    PossibleValuesParser::new(none.into_iter().chain(choices).chain(auto))
}

/// iperf3's long name of an option, where it is another one.
fn of_iperf3(factor: Factor) -> Option<&'static str> {
    Some(match factor {
        Factor::Source => "bind",
        Factor::SourcePort => "cport",
        Factor::Flows => "parallel",
        Factor::Payload => "length",
        Factor::Mss => "set-mss",
        Factor::PacingRate => "fq-rate",
        Factor::FlowLabel => "flowlabel",
        _ => return None,
    })
}

/// The default in `measure`, which also has one where a plan must set the factor; `None` if that is no level at all.
fn default(factor: Factor) -> Option<String> {
    let payload = format!(
        "{STREAM_BYTES} in a stream, {DATAGRAM_BYTES} in a stream of datagrams or a burst, else {REQUEST_BYTES}"
    );
    let unset = match factor {
        Factor::Transport => Transport::Tcp.word(),
        Factor::Family => "4, or 6 if the host has no IPv4 address",
        Factor::Payload => &payload,
        Factor::Congestion => "the system's",
        Factor::Probe => "none; udp if no LEVEL is given",
        factor => factor.spec().unset,
    };
    (unset != "none").then(|| unset.replace('`', ""))
}

/// A text of the documentation with the paths of its pages instead of links.
fn without_links(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[')
        && let Some((page, after)) = link.split_once("](")
    {
        out += &format!("{before}docs/{page}");
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

impl Args for Levels {
    fn augment_args(mut command: Command) -> Command {
        for factor in options() {
            let (about, spec) = (without_links(factor.about()), factor.spec());
            let mut capital = about.chars();
            let first = capital.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            let default = default(factor).map(|text| format!(" [default: {text}]"));
            let default = default.unwrap_or_default();
            let flag = if spec.flag.is_empty() { factor.key() } else { spec.flag };
            let mut option = Arg::new(factor.key())
                .long(flag.replace('_', "-"))
                .value_name("LEVEL")
                .help(format!("{first}{}{default}", capital.as_str()))
                .help_heading("Levels");
            let read = move |text: &str| match (factor, text) {
                (Factor::Path, AUTO) => Ok(AUTO.to_owned()),
                _ => factor.level(text),
            };
            option = match (factor.choices(), spec.kind) {
                ([], Kind::Truth) => option.value_parser(["true", "false"]),
                ([], _) => option.value_parser(read),
                _ => option.value_parser(words(factor).try_map(move |word| read(&word))),
            };
            if let Some(letter) = spec.letter {
                option = option.short(letter);
            }
            if let Some(earlier) = factor.earlier_key() {
                option = option.alias(earlier.replace('_', "-"));
            }
            if let Some(theirs) = of_iperf3(factor) {
                option = option.visible_alias(theirs);
            }
            if factor == Factor::Probe {
                // Without a value, the probe uses UDP, which shows each crossing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_an_option_has_its_default_its_values_and_paths_instead_of_links() {
        let mut command = Levels::augment_args(Command::new("measure"));
        let help = command.render_long_help().to_string();
        let words: Vec<&str> = help.split_whitespace().collect();
        let help = words.join(" ");
        for says in [
            "[default: tcp]",
            "[default: 131072 in a stream, 1024 in a stream of datagrams or a burst, else 64]",
            "[default: false in stream, true in other patterns] [possible values: true, false]",
            "(docs/settings.md); each is put back",
        ] {
            assert!(help.contains(says), "no {says} in {help}");
        }
        assert!(!help.contains("](") && !help.contains("[default: none]"), "{help}");
    }
}
