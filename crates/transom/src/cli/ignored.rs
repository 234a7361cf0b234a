//! Flags of kube-proxy that are accepted so that its start scripts keep working, as one table.
//!
//! They have no effect here, or are refused because ignoring them would do something else than the user asked.
//! Values are still checked, since upstream checks them. A flag that was given and has no effect is told to the
//! user by a [`Notice`]: unsupported is said, never silent.

use std::marker::PhantomData;

use clap::builder::{RangedI64ValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::values::{ListenAddress, OrBlank, go_bool, go_duration};

/// A flag that was given and has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The flag with its dashes.
    pub flag: String,
    /// Why it has none.
    pub reason: &'static str,
}

/// The values that a flag takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Bool,
    /// A whole number within bounds.
    Int(i64, i64),
    /// A decimal number.
    Float,
    Duration,
    /// An address to listen on, or nothing.
    Listen,
    Text,
    /// A truth value that must not be true.
    RefusedBool,
    /// A text that must be empty.
    RefusedText,
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) flag: &'static str,
    pub(super) kind: Kind,
    /// Why it has no effect, or why it is refused.
    pub(super) reason: &'static str,
}

/// A table of flags under one heading.
pub(super) trait Table: 'static {
    const HEADING: &'static str;
    const ROWS: &'static [Row];
    /// Whether the flags may follow a subcommand of the command that declares them.
    const GLOBAL: bool;
    /// Whether long help shows them.
    const SHOWN: bool;
}

/// The flags of a table that were given.
#[derive(Debug, Default)]
pub(super) struct Ignored<T> {
    given: Vec<Notice>,
    table: PhantomData<T>,
}

impl<T> Ignored<T> {
    pub(super) fn notices(&self) -> &[Notice] {
        &self.given
    }
}

impl Row {
    fn refused(&self) -> bool {
        matches!(self.kind, Kind::RefusedBool | Kind::RefusedText)
    }

    fn argument(&self, heading: &'static str) -> Arg {
        let help = if self.refused() {
            format!("Refused: {}", self.reason)
        } else {
            format!("No effect: {}", self.reason)
        };
        let argument = Arg::new(self.flag)
            .long(self.flag)
            .help(help)
            .help_heading(heading)
            .hide_short_help(true)
            .action(ArgAction::Set);
        match self.kind {
            Kind::Bool | Kind::RefusedBool => argument
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(go_bool),
            Kind::Int(least, most) => argument
                .value_name("N")
                .allow_negative_numbers(true)
                .value_parser(RangedI64ValueParser::<i64>::new().range(least..=most)),
            Kind::Float => argument.value_name("N").value_parser(clap::value_parser!(f64)),
            Kind::Duration => argument.value_name("DURATION").value_parser(go_duration),
            Kind::Listen => argument
                .value_name("IP:PORT")
                .value_parser(|text: &str| text.parse::<OrBlank<ListenAddress>>()),
            Kind::Text | Kind::RefusedText => argument.value_name("TEXT").value_parser(ValueParser::string()),
        }
    }

    /// Whether a refused flag really asks for something.
    fn asks(&self, matches: &ArgMatches) -> bool {
        match self.kind {
            Kind::RefusedBool => matches.get_one::<bool>(self.flag).copied().unwrap_or(false),
            Kind::RefusedText => {
                matches.get_one::<String>(self.flag).is_some_and(|text| !text.trim().is_empty())
            }
            _ => false,
        }
    }
}

impl<T: Table> Args for Ignored<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::ROWS.iter().map(|row| row.argument(T::HEADING).global(T::GLOBAL).hide(!T::SHOWN)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> FromArgMatches for Ignored<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for row in T::ROWS {
            if matches.value_source(row.flag) != Some(ValueSource::CommandLine) {
                continue;
            }
            if row.asks(matches) {
                let text = format!("--{} is refused: {}\n", row.flag, row.reason);
                return Err(clap::Error::raw(ErrorKind::ValueValidation, text));
            }
            if !row.refused() {
                given.push(Notice { flag: format!("--{}", row.flag), reason: row.reason });
            }
        }
        Ok(Self { given, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
