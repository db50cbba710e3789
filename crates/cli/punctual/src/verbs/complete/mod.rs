//! `complete`: prints the candidates at the cursor of a shell, for its completion script.
//!
//! This verb changes nothing and never fails. If there are no candidates, it prints nothing.

mod candidates;
mod line;

use std::fmt::Write;

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verb::{Run, Verb};
use candidates::Candidate;
use line::Line;

pub(super) const VERB: Verb = Verb::new::<Complete>("complete");

/// Print the candidates at the cursor; started by the shell's completion
#[derive(Parser)]
#[command(hide = true)]
struct Complete {
    #[arg(value_name = "words", num_args = 0.., last = true)]
    words: Vec<String>,
}

impl Run for Complete {
    fn run(self, context: &Context) -> Result<Exit> {
        output::print(&answer(&self.words, context))?;
        Ok(Exit::Done)
    }
}

/// Returns one line per candidate: the candidate, a tab and its meaning. A line `:files` means that
/// file names are candidates as well.
fn answer(words: &[String], context: &Context) -> String {
    let mut whole = super::command();
    whole.build();
    let line = Line::read(&whole, words);
    let mut out = String::new();
    if line.takes_files() {
        out.push_str(":files\n");
    }
    let begins = |found: &Candidate| found.value.starts_with(&line.current);
    for Candidate { value, meaning } in line.candidates(context).into_iter().filter(begins) {
        let _ = writeln!(out, "{}{value}\t{}", line.prefix, one_line(&meaning));
    }
    out
}

/// Returns the first line of a text, with control characters replaced by spaces. Labels and host
/// names can contain any text, and the shell prints them.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .map(shown)
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn context() -> Context {
        let matches = crate::verbs::command()
            .try_get_matches_from(["punctual", "--store", "/nowhere/store.db", "list"])
            .unwrap();
        Context::new(matches.subcommand().unwrap().1).unwrap()
    }

    /// Returns the candidates at the end of this line.
    fn values(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let text = answer(&words, &context());
        text.lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn completion_fits_verb_and_option_positions() {
        let verbs = values("punctual ");
        for verb in ["measure", "help", "man"] {
            assert!(verbs.contains(&verb.to_owned()), "{verbs:?}");
        }
        for hidden in [
            "serve-load",
            "serve-partner",
            "serve-symbols",
            "serve-slot",
            "hold-latency",
            "complete",
        ] {
            assert!(!verbs.contains(&hidden.to_owned()), "{hidden}");
            assert!(!values("punctual help ").contains(&hidden.to_owned()));
        }
        assert_eq!(values("punctual com"), ["compare", "compat", "completions"]);
        assert_eq!(values("punctual help mea"), ["measure"]);
        assert_eq!(values("punctual measure ti"), ["timer"]);
        assert_eq!(values("punctual tune ap"), ["apply"]);
        assert_eq!(values("punctual --color never plo"), ["plot"]);
        assert!(values("punctual measure timer --lo").contains(&"--load".to_owned()));
        assert!(values("punctual nosuch ").is_empty());
    }

    #[test]
    fn values_come_from_the_tables() {
        for (line, value) in [
            ("punctual measure timer --load ", "cpu"),
            ("punctual measure timer --policy ", "fifo"),
            ("punctual measure timer --source ", "timerlat"),
            ("punctual measure timer --wait nano", "nanosleep"),
            ("punctual exec --policy dead", "deadline"),
            ("punctual doctor --role ", "audio"),
            ("punctual tune apply low", "low-latency"),
            ("punctual tune profiles --show ", "control"),
            ("punctual tune settings swapp", "swappiness"),
            ("punctual tune plan control --set swapp", "swappiness="),
            ("punctual measure --list wake", "wakeup"),
            ("punctual plot last --kind per", "percentiles"),
            ("punctual export last --format csv-h", "csv-histogram"),
            ("punctual show ", "last"),
            ("punctual compare last ", "last"),
            ("punctual store delete last~1 ", "last"),
            ("punctual completions z", "zsh"),
        ] {
            let values = values(line);
            assert!(values.contains(&value.to_owned()), "{line}: {values:?}");
        }
        // Bash splits words at `=`; other shells do not.
        assert_eq!(values("punctual plot last --kind = per"), ["percentiles"]);
        assert_eq!(
            values("punctual plot last --kind=per"),
            ["--kind=percentiles"]
        );
        assert_eq!(values("punctual plot last -o "), [":files"]);
        assert_eq!(values("punctual measure timer -D "), Vec::<String>::new());
    }

    #[test]
    fn value_sources_belong_to_arguments() {
        fn ids(command: &Command, all: &mut Vec<String>) {
            let arguments = command.get_arguments();
            all.extend(arguments.map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|sub| ids(sub, all));
        }
        let mut all = Vec::new();
        ids(&crate::verbs::command(), &mut all);
        for (id, _) in candidates::SOURCES {
            assert!(all.iter().any(|known| known == id), "{id}");
        }
    }
}
