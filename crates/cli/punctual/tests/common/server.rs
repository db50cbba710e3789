//! A server that a test starts and ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use super::signal;

/// A server of this program.
pub struct Server {
    child: Child,
    /// Where its pages are: `http://ADDRESS`.
    pub url: String,
    /// A full pipe would stop it.
    rest: JoinHandle<String>,
}

impl Server {
    /// Starts a command that serves, and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let url = line.rsplit(' ').next().unwrap().trim().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { child, url, rest }
    }

    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends it, which it must do well; what it said meanwhile.
    pub fn end(mut self) -> String {
        signal(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        let rest = self.rest.join().unwrap();
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}
