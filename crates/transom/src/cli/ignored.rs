//! Flags of kube-proxy that are accepted so that its start scripts keep working, as one table.
//!
//! They have no effect here. Values are still checked, since upstream checks them. A flag that was given and has no effect is told to the
//! user by a [`Notice`]: unsupported is said, never silent.

use std::marker::PhantomData;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::values::{go_bool, go_duration};

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
    Duration,
    Text,
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) flag: &'static str,
    pub(super) kind: Kind,
    /// Why it has no effect.
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
    fn argument(&self, heading: &'static str) -> Arg {
        let argument = Arg::new(self.flag)
            .long(self.flag)
            .help(format!("No effect: {}", self.reason))
            .help_heading(heading)
            .hide_short_help(true)
            .action(ArgAction::Set);
        match self.kind {
            Kind::Bool => argument
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(go_bool),
            Kind::Duration => argument.value_name("DURATION").value_parser(go_duration),
            Kind::Text => argument.value_name("TEXT").value_parser(ValueParser::string()),
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
            given.push(Notice { flag: format!("--{}", row.flag), reason: row.reason });
        }
        Ok(Self { given, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
