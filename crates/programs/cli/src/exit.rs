//! Converts errors to messages and exit codes; the only place that does.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use fabricmark_control::{AddressError, AgentError, Cause, FileError, PlanError};
use fabricmark_guest::GuestError;
use fabricmark_host::interfaces::NetlinkError;
use fabricmark_lab::LabError;
use fabricmark_lab::held::HeldError;
use fabricmark_packet::build::NotBuilt;
use fabricmark_packet::capture::CaptureError;
use fabricmark_plan::{Contradiction, Invalid};
use fabricmark_report::NoSuchPaper;
use fabricmark_settings::JournalError;
use fabricmark_store::StoreError;
use fabricmark_trust::{PairError, TrustError};
use fabricmark_wire::Impossible;

/// Exit codes (documented in `docs/exit-codes.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A comparison found something worse, or a threshold was missed.
    Worse = 1,
    Inconclusive = 2,
    /// Invalid input.
    Input = 64,
    /// The other end cannot be reached, or refuses.
    Unreachable = 65,
    /// Missing privilege, device or program.
    Missing = 66,
    RunFailed = 67,
    /// A bug in this program.
    Internal = 70,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl Code {
    /// Converts the exit code of another process of this program; an unknown code means a failed run.
    pub fn of(code: u8) -> Self {
        let all = [
            Self::Worse,
            Self::Inconclusive,
            Self::Input,
            Self::Unreachable,
            Self::Missing,
            Self::Internal,
            Self::Interrupted,
        ];
        all.into_iter().find(|known| *known as u8 == code).unwrap_or(Self::RunFailed)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error message and its exit code.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What an error says that comes after results.
    pub const ABOVE: &str = "the results so far are above";

    /// Invalid input.
    pub fn input(error: impl Display) -> Self {
        Self::new(Code::Input, error.to_string())
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Ctrl-C, after the results until then were printed.
    pub fn interrupted() -> Self {
        Self::new(Code::Interrupted, format!("interrupted; {}", Self::ABOVE))
    }

    /// A bug in this program.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// A file that cannot be read.
    pub fn unread(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::input(format_args!("cannot read {}: {error}", path.display()))
    }

    /// A file or folder that cannot be written.
    pub fn output(what: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (code, help) = match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    (Code::Missing, "; use another folder")
                }
                io::ErrorKind::StorageFull => {
                    (Code::RunFailed, "; free some space, or use another folder")
                }
                _ => (Code::RunFailed, ""),
            };
            Self::new(code, format!("cannot write {what}: {error}{help}"))
        }
    }

    /// Appends a line to the message.
    pub fn and(mut self, line: &str) -> Self {
        self.message = format!("{}\n{line}", self.message);
        self
    }

    /// Prints the message to standard error.
    pub fn report(&self) -> ExitCode {
        note!("fabricmark: {}", self.message);
        self.code.into()
    }
}

/// Errors that always mean invalid input.
trait WrongInput: Display {}

impl WrongInput for CaptureError {}
impl WrongInput for FileError {}
impl WrongInput for Impossible {}
impl WrongInput for NoSuchPaper {}
impl WrongInput for NotBuilt {}
impl WrongInput for Invalid {}
impl WrongInput for Contradiction {}

impl<E: WrongInput> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::input(error)
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self::new(Code::Unreachable, error.to_string())
    }
}

impl From<Cause> for Code {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Missing => Self::Missing,
            Cause::Unreachable => Self::Unreachable,
            Cause::Other => Self::RunFailed,
        }
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        let code = match error {
            AddressError::Malformed { .. } => Code::Input,
            AddressError::Unresolved { .. } => Code::Unreachable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<NetlinkError> for Failure {
    fn from(error: NetlinkError) -> Self {
        Self::new(Code::Missing, format!("cannot list the network interfaces: {error}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (code, help) = match &error {
            StoreError::Full { .. } => {
                (Code::RunFailed, "\nfree some space, or use another store with --store")
            }
            StoreError::ReadOnly { .. } => {
                (Code::Missing, "\nuse a writable folder with --out or --store")
            }
            StoreError::Busy { .. } => (Code::RunFailed, ""),
            StoreError::Newer { .. }
            | StoreError::Unusable { .. }
            | StoreError::NoSuchExperiment { .. } => (Code::Input, ""),
        };
        Self::new(code, format!("{error}{help}"))
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let code = match &error {
            LabError::Lacks(_) | LabError::NoQdisc { .. } => Code::Missing,
            LabError::Input(_) | LabError::Invalid(_) | LabError::Backend(_) => Code::Input,
            LabError::Tool { .. } | LabError::System { .. } => Code::RunFailed,
            LabError::Stopped => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let code = match &error {
            JournalError::File { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Code::Missing
                }
                _ => Code::RunFailed,
            },
            JournalError::Full(_) => Code::RunFailed,
            JournalError::Namespace(_) | JournalError::NotOwn(_) => Code::Missing,
            JournalError::OtherNamespace => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        let code = match &error {
            GuestError::Missing(_) => Code::Missing,
            GuestError::Interrupted => Code::Interrupted,
            GuestError::Failed(_) => Code::RunFailed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<HeldError> for Failure {
    fn from(error: HeldError) -> Self {
        let code = match error {
            HeldError::Lab(error) => return error.into(),
            HeldError::Missing(_) => Code::Missing,
            HeldError::Broken(_) | HeldError::Lost(_) => Code::RunFailed,
            HeldError::Refused(_) => Code::Input,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Lab(error) => error.into(),
            PlanError::Store(error) => error.into(),
            PlanError::Interrupted => Self::new(Code::Interrupted, "interrupted"),
            PlanError::AgentLost(error) => error.into(),
            PlanError::Input(message) => Self::input(message),
            PlanError::Internal(message) => Self::internal(message),
            PlanError::Missing(_) => Self::new(Code::Missing, error.to_string()),
            PlanError::Nothing { cause, .. } => Self::new(cause.into(), error.to_string()),
            PlanError::Failed(_) | PlanError::Run(_) => {
                Self::new(Code::RunFailed, error.to_string())
            }
        }
    }
}

/// Reports a command line that cannot be parsed: clap's message, and the code for invalid input.
pub fn usage(mut error: clap::Error, command: &clap::Command) -> ExitCode {
    hide_hidden(&mut error, command);
    // Help and version are not errors; clap prints them to standard output.
    let _ = error.print();
    if error.use_stderr() { Code::Input.into() } else { ExitCode::SUCCESS }
}

/// Removes suggestions that people cannot use: clap suggests hidden commands and options, too.
fn hide_hidden(error: &mut clap::Error, command: &clap::Command) {
    let hidden = hidden_words(command);
    if let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) {
        names.retain(|name| !hidden.contains(name));
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
    if let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg)
        && hidden.contains(option)
    {
        error.remove(ContextKind::SuggestedArg);
    }
    // Such as "'run --in-guest' exists".
    if let Some(ContextValue::StyledStrs(mut texts)) = error.remove(ContextKind::Suggested) {
        texts.retain(|text| {
            let text = text.to_string();
            !text.split([' ', '\'']).any(|word| hidden.iter().any(|hidden| hidden == word))
        });
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(texts));
    }
}

/// Hidden subcommands, and hidden options with their hyphens.
fn hidden_words(command: &clap::Command) -> Vec<String> {
    let options = command.get_arguments().filter(|option| option.is_hide_set());
    let mut words: Vec<String> =
        options.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
    for subcommand in command.get_subcommands() {
        if subcommand.is_hide_set() {
            words.push(subcommand.get_name().to_owned());
        }
        words.extend(hidden_words(subcommand));
    }
    words
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let code = match error {
            TrustError::Stranger | TrustError::StrangerThere | TrustError::OtherProtocol => {
                Code::Unreachable
            }
            TrustError::Tls(_) | TrustError::Generate(_) => Code::Internal,
            TrustError::BadLine { .. } | TrustError::NotAKey { .. } | TrustError::BadName(_) => {
                Code::Input
            }
            _ => Code::Missing,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PairError> for Failure {
    fn from(error: PairError) -> Self {
        match error {
            PairError::Trust(error) => error.into(),
            PairError::Stopped => Self::new(Code::Interrupted, "interrupted; nothing was saved"),
            error => Self::new(Code::Unreachable, error.to_string()),
        }
    }
}
