//! Runs commands under the names of the tools, and helps to examine their output.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::common::{Sandbox, text};

/// Returns the command under the name of the tool, as a shell would find it.
pub(crate) fn tool(place: &Sandbox, name: &str, line: &str) -> Command {
    let link = place.path(name);
    if !link.is_symlink() {
        symlink(env!("CARGO_BIN_EXE_punctual"), &link).unwrap();
    }
    let mut command = Command::new(link);
    let like = place.command("");
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .args(line.split_whitespace());
    command
}

pub(crate) fn cyclictest(place: &Sandbox, line: &str) -> Command {
    tool(place, "cyclictest", line)
}

/// Returns stdout and stderr. Panics unless the exit code is 0.
pub(crate) fn done(place: &Sandbox, line: &str) -> (String, String) {
    done_as(place, "cyclictest", line)
}

/// Like [`done`], for another tool.
pub(crate) fn done_as(place: &Sandbox, name: &str, line: &str) -> (String, String) {
    let output = tool(place, name, line).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    (text(&output.stdout), said)
}

/// Replaces each padded number, including the spaces before it, with its width. Load averages and
/// times are not padded.
pub(crate) fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut blanks = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let digits: usize = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            shape.push_str(&format!("<{}>", blanks.len() + digits));
            blanks.clear();
            rest = &rest[digits..];
            continue;
        }
        if next == ' ' {
            blanks.push(' ');
        } else {
            shape.push_str(&blanks);
            blanks.clear();
            shape.push(next);
        }
        rest = &rest[next.len_utf8()..];
    }
    shape + &blanks
}

/// Removes a line that is printed only if the user can open the file.
pub(crate) fn without_latency(text: &str) -> String {
    text.replace("# /dev/cpu_dma_latency set to 0us\n", "")
}

pub(crate) fn may_hold_latency() -> bool {
    fs::OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")
        .is_ok()
}

/// Runs a shell pipeline with the output of a tool on its stdin, as widely used scripts do.
pub(crate) fn shell(input: &str, script: &str) -> String {
    use std::io::Write;
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let written = child.stdin.take().unwrap().write_all(input.as_bytes());
    // A script may end before it has read all input.
    if let Err(error) = written {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    let output = child.wait_with_output().unwrap();
    text(&output.stdout).trim_end().to_owned()
}
