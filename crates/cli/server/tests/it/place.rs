//! A folder with a separate store, both programs, and a running server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_model::Recording;

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
        command
            .current_dir(self.folder.path())
            .env_remove("XDG_DATA_HOME")
            .env("XDG_STATE_HOME", self.path("state"))
            .env("PUNCTUAL_STORE", self.path("store.db"))
            .env("PUNCTUAL_LOCKS", self.path("locks"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
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

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `done` returns true, for at most 2 min. The limit is only meant for hangs.
pub(crate) fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// The URL of its pages: `http://ADDRESS`.
    pub(crate) url: String,
    /// Thread that reads the rest of stderr, because a full pipe would stop the server.
    rest: JoinHandle<String>,
}

impl Server {
    /// Starts the server and waits until it listens.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(": serving ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        let url = line.rsplit(' ').next().unwrap().trim().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { child, url, rest }
    }

    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends the server, asserts that it has succeeded, and returns its stderr.
    pub(crate) fn end(mut self) -> String {
        signal(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        let rest = self.rest.join().unwrap();
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
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
