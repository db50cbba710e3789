//! A command line up to the cursor: which command it contains, and which argument is expected next.

use std::any::TypeId;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};

use super::candidates;
use crate::candidate::Candidate;
use crate::{Context, Program};

/// The state of a command line at its cursor.
pub(super) struct Line<'a> {
    command: &'a Command,
    /// The words of the command: `measure`, `timer`.
    path: Vec<&'a str>,
    /// The argument whose value is expected.
    value_of: Option<&'a Arg>,
    /// Whether a command can follow at the cursor.
    commands: bool,
    /// The part of the word at the cursor that is to be completed.
    pub(super) current: String,
    /// The text before that part in the same word.
    pub(super) prefix: String,
}

impl<'a> Line<'a> {
    /// Parses the words. The first word is the program, and the last word is the one at the cursor.
    /// The command `whole` must already be built.
    pub(super) fn read(whole: &'a Command, words: &[String]) -> Self {
        let (mut words, parted) = joined(words);
        let current = words.pop().unwrap_or_default();
        let mut line = Self {
            command: whole,
            path: Vec::new(),
            value_of: None,
            commands: true,
            current: String::new(),
            prefix: String::new(),
        };
        let mut positionals = 0;
        let mut options = true;
        for word in words.iter().skip(1) {
            if line.value_of.take().is_some() {
                continue;
            }
            match word.as_str() {
                "--" => options = false,
                word if options && word.len() > 1 && word.starts_with('-') => {
                    line.value_of = line.awaiting(word);
                }
                word => match line.subcommand(whole, word).filter(|_| line.commands) {
                    Some(command) => {
                        line.command = command;
                        line.path.push(command.get_name());
                        positionals = 0;
                    }
                    None => {
                        positionals += 1;
                        line.commands = line.path == ["help"];
                    }
                },
            }
        }
        line.at_cursor(&current, options, positionals, parted);
        line
    }

    /// After `help`, any command of the whole program can follow.
    fn subcommand(&self, whole: &'a Command, word: &str) -> Option<&'a Command> {
        match self.path.as_slice() {
            ["help"] => whole.find_subcommand(word),
            _ => self.command.find_subcommand(word),
        }
    }

    /// Returns the option in this word if the next word must be its value.
    fn awaiting(&self, word: &str) -> Option<&'a Arg> {
        let arg = match word.strip_prefix("--") {
            Some(long) => self.long(long)?,
            None => self.short(word.chars().last()?)?,
        };
        let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        let needs = arg
            .get_num_args()
            .is_none_or(|range| range.min_values() > 0);
        (takes && needs && !arg.is_require_equals_set()).then_some(arg)
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let mut options = self.command.get_arguments();
        options.find(|arg| arg.get_long() == Some(name))
    }

    fn short(&self, name: char) -> Option<&'a Arg> {
        let mut options = self.command.get_arguments();
        options.find(|arg| arg.get_short() == Some(name))
    }

    fn at_cursor(&mut self, current: &str, options: bool, positionals: usize, parted: bool) {
        self.current = current.to_owned();
        if self.value_of.is_some() {
            self.commands = false;
            return;
        }
        if options && current.starts_with('-') {
            self.commands = false;
            if let Some((name, value)) = current.split_once('=') {
                self.value_of = self.long(name.trim_start_matches('-'));
                self.current = value.to_owned();
                self.prefix = if parted {
                    String::new()
                } else {
                    format!("{name}=")
                };
            }
            return;
        }
        let mut arguments = self.command.get_positionals();
        self.value_of = arguments.nth(positionals).or_else(|| {
            let many = |arg: &&Arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1);
            self.command.get_positionals().last().filter(many)
        });
    }

    /// Returns whether file names are possible at the cursor.
    pub(super) fn takes_files(&self) -> bool {
        self.value_of.is_some_and(|arg| {
            arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
                || ["profile", "words", "command"].contains(&arg.get_id().as_str())
        })
    }

    /// Returns all candidates, even those that do not begin with the current word.
    pub(super) fn candidates(&self, context: &Context, program: &Program) -> Vec<Candidate> {
        if self.value_of.is_none() && self.current.starts_with('-') {
            return self.options();
        }
        let mut found = Vec::new();
        if self.commands {
            let commands = self.command.get_subcommands();
            let shown = commands.filter(|command| !command.is_hide_set());
            found.extend(shown.map(|command| {
                let about = command.get_about().map(ToString::to_string);
                Candidate::new(command.get_name(), about.unwrap_or_default())
            }));
        }
        if let Some(arg) = self.value_of {
            found.extend(candidates::for_argument(arg, &self.path, context, program));
        }
        found
    }

    fn options(&self) -> Vec<Candidate> {
        let shown = self
            .command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set());
        shown
            .filter_map(|arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                Some(Candidate::new(&format!("--{}", arg.get_long()?), help))
            })
            .collect()
    }
}

/// Joins words that Bash has split at `=`, such as `--kind`, `=` and `log`. Also returns whether
/// the last word was split.
fn joined(words: &[String]) -> (Vec<String>, bool) {
    let mut out: Vec<String> = Vec::new();
    let mut parted = false;
    for (index, word) in words.iter().enumerate() {
        let option = |word: &String| word.starts_with("--") && word.len() > 2;
        let equals = word == "=" && out.last().is_some_and(option);
        let value =
            index > 0 && words[index - 1] == "=" && out.last().is_some_and(|w| w.ends_with('='));
        parted = equals || value;
        match out.last_mut() {
            Some(last) if parted => last.push_str(word),
            _ => out.push(word.clone()),
        }
    }
    (out, parted)
}
