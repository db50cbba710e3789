//! A folder with a separate store and both programs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use punctual_model::Recording;
pub(crate) use punctual_testing::{Server, eventually, signal, text};

/// A folder with a separate store. It is removed when this value is dropped.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command with this store, without the user's settings.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, line: &str) -> Command {
        let mut command = Command::new(program);
        punctual_testing::isolate(&mut command, self.folder.path(), &self.path("locks"))
            .args(line.split_whitespace());
        command
    }

    /// Returns the command of the server.
    pub(crate) fn server(&self, line: &str) -> Command {
        self.command(env!("CARGO_BIN_EXE_punctual-server"), line)
    }

    /// Returns the command of a machine.
    pub(crate) fn machine(&self, line: &str) -> Command {
        self.command(punctual_testing::program("punctual"), line)
    }

    /// Runs the server's command and returns its stdout. Panics unless it ends with exit code 0.
    pub(crate) fn done(&self, line: &str) -> String {
        done(&mut self.server(line))
    }

    /// Runs the machine's command and returns its stdout. Panics unless it ends with exit code 0.
    pub(crate) fn measured(&self, line: &str) -> String {
        done(&mut self.machine(line))
    }

    /// Runs the server's command and returns its stderr. Panics unless it ends with this exit code.
    pub(crate) fn refused(&self, line: &str, code: i32) -> String {
        let output = self.server(line).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
        stderr
    }

    /// Returns the latest recording.
    pub(crate) fn last(&self) -> Recording {
        Recording::from_json(&self.measured("show last --json")).unwrap()
    }
}

fn done(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    assert_eq!(status.code(), Some(0), "{command:?}: {}", text(&stderr));
    text(&stdout)
}

/// Returns the complete answer of a server to this head of a request.
pub(crate) fn answered(address: &str, head: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}
