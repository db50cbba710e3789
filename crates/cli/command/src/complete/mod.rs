//! `complete`: prints the candidates at the cursor of a shell, for its completion script.
//!
//! This verb changes nothing and never fails. If there are no candidates, it prints nothing.

mod candidates;
mod line;

use std::fmt::Write;

use anyhow::Result;
use clap::Parser;

use crate::candidate::Candidate;
use crate::exit::Exit;
use crate::{Context, Program, Run, Verb, output};
use line::Line;

/// The verb.
pub const VERB: Verb = Verb::new::<Complete>("complete");

/// Print the candidates at the cursor; started by the shell's completion
#[derive(Parser)]
#[command(hide = true)]
struct Complete {
    #[arg(value_name = "words", num_args = 0.., last = true)]
    words: Vec<String>,
}

impl Run for Complete {
    fn run(self, context: &Context) -> Result<Exit> {
        output::print(&answer(Program::current()?, &self.words, context))?;
        Ok(Exit::Done)
    }
}

/// Returns one line per candidate: the candidate, a tab and its meaning. A line `:files` means that
/// file names are candidates as well.
pub fn answer(program: &Program, words: &[String], context: &Context) -> String {
    let mut whole = program.command();
    whole.build();
    let line = Line::read(&whole, words);
    let mut out = String::new();
    if line.takes_files() {
        out.push_str(":files\n");
    }
    let begins = |found: &Candidate| found.value.starts_with(&line.current);
    for Candidate { value, meaning } in line.candidates(context, program).into_iter().filter(begins)
    {
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
