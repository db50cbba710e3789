//! The names of programs that call a tool: the tool's own name, or `rtla` with a command and a mode.

use std::path::Path;

use crate::{TOOLS, Tool, rtla};

/// Returns the names of all programs, each once: those of the links that call the tools.
pub fn programs() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for tool in TOOLS {
        // rtla's own links have the names of its commands.
        for name in tool.name.split(' ').take(2) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the tool that a command line calls, with the command line that the tool reads: its name
/// and then its options. The first word is the name or the path of the program. Returns `None` if
/// no tool has a program with this name.
pub fn called(words: &[String]) -> Option<(&'static Tool, Vec<String>)> {
    let (program, rest) = words.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    if let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) {
        return Some((tool, words.to_vec()));
    }
    let (tool, options) = match name {
        "rtla" => match rest.split_first() {
            Some((command, rest)) => rtla_command(command, rest).unwrap_or((&rtla::NONE, &[])),
            None => (&rtla::NONE, rest),
        },
        command => rtla_command(command, rest)?,
    };
    let mut line = vec![tool.name.to_owned()];
    line.extend_from_slice(options);
    Some((tool, line))
}

/// Returns the tool of a command of rtla, and the words that are its options. If the mode is
/// missing, it is `top`.
fn rtla_command<'w>(command: &str, rest: &'w [String]) -> Option<(&'static Tool, &'w [String])> {
    let named = |name: &str| TOOLS.iter().find(|tool| tool.name == name);
    if let Some(tool) = named(&format!("rtla {command}")) {
        return Some((tool, rest));
    }
    let top = named(&format!("rtla {command} top"))?;
    match rest.split_first() {
        Some((mode, rest)) if !mode.starts_with('-') => {
            let tool = named(&format!("rtla {command} {mode}"));
            Some(tool.map_or((&rtla::NONE, &[]), |tool| (tool, rest)))
        }
        _ => Some((top, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_modes_select_the_tool() {
        for (line, tool, options) in [
            ("cyclictest -q", "cyclictest", 1),
            ("/usr/bin/rtla timerlat hist -c 0", "rtla timerlat hist", 2),
            ("rtla timerlat -c 0", "rtla timerlat top", 2),
            ("rtla osnoise", "rtla osnoise top", 0),
            ("osnoise hist -q", "rtla osnoise hist", 1),
            ("rtla hwnoise -q", "rtla hwnoise", 1),
            ("hwnoise", "rtla hwnoise", 0),
            ("rtla", "rtla", 0),
            ("rtla -h", "rtla", 0),
            ("rtla osnoise hwnoise -q", "rtla", 0),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (found, left) = called(&words).unwrap();
            assert_eq!((found.name, left.len()), (tool, options + 1), "{line}");
        }
        assert!(called(&["top".to_owned()]).is_none());
        assert!(called(&[]).is_none());
    }

    #[test]
    fn each_program_has_one_link() {
        let names = programs();
        for name in ["cyclictest", "rtla", "timerlat", "osnoise", "hwnoise"] {
            assert_eq!(names.iter().filter(|known| **known == name).count(), 1);
        }
        assert!(!names.contains(&"hist"));
    }
}
