//! `mcp`: answers questions of a language model about recordings and this machine.
//!
//! It is a server of the Model Context Protocol on stdin and stdout: JSON-RPC 2.0, one message in each
//! line. The official SDK (`rmcp`) needs tokio, which `punctual` must not depend on
//! (`first_command_needs_no_server`), and 17 more crates. The part of the protocol that a server with
//! tools needs is four methods.

mod data;
mod protocol;
mod tools;

use std::io::{BufRead, stdin};

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Mcp>("mcp");

/// Maximum length of a message, in bytes.
const LONGEST: usize = 1 << 20;

const LONG: &str = "Serve the Model Context Protocol on stdin and stdout, so that a language model can \
    ask about recordings and this machine.\n\nThe tools only read: list, show, explain, doctor, trend \
    and compare. Each returns the JSON of the command with its name. Names and messages in it are \
    shortened, and long lists are cut to fit; the result states what was cut.";

/// Answer questions of a language model (Model Context Protocol)
#[derive(Parser)]
#[command(long_about = LONG)]
struct Mcp {}

impl Run for Mcp {
    fn run(self, context: &Context) -> Result<Exit> {
        let server = protocol::Server {
            caller: tools::Caller::new(context)?,
        };
        let mut input = stdin().lock();
        while let Some(line) = next_line(&mut input)? {
            let answer = match line {
                Line::Whole(text) => server.answer(&text),
                Line::TooLong => Some(protocol::too_long(LONGEST)),
            };
            if let Some(answer) = answer {
                output::print(&format!("{answer}\n"))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// A line of the input.
#[derive(Debug, PartialEq)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// Returns the next line that is not empty; `None` at the end of the input. Does not keep a line that
/// exceeds the limit.
fn next_line(input: &mut dyn BufRead) -> std::io::Result<Option<Line>> {
    let (mut line, mut is_long) = (Vec::new(), false);
    loop {
        let part = input.fill_buf()?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(part.len());
        let is_over = part.is_empty();
        if line.len() + length > LONGEST {
            is_long = true;
            line.clear();
        } else if !is_long {
            line.extend_from_slice(&part[..length]);
        }
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_none() && !is_over {
            continue;
        }
        if is_long {
            return Ok(Some(Line::TooLong));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(Line::Whole(line)));
        }
        if is_over {
            return Ok(None);
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_empty_lines_are_no_messages() {
        let long = "x".repeat(LONGEST + 1);
        let text = format!("a\n\n \r\n{long}\nb\r\nlast");
        let mut input = std::io::BufReader::with_capacity(100, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(
            lines,
            [whole("a"), Line::TooLong, whole("b\r"), whole("last")]
        );
    }
}
