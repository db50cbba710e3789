//! A server for tests.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use super::signal;

/// A running `punctual serve`.
pub struct Server {
    child: Child,
    /// The URL of its pages: `http://ADDRESS`.
    pub url: String,
    /// Thread that reads the rest of stderr, because a full pipe would stop the server.
    rest: JoinHandle<String>,
}

impl Server {
    /// Starts the server and waits until it listens.
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

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends the server, asserts that it has succeeded, and returns its stderr.
    pub fn end(mut self) -> String {
        signal(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        let rest = self.rest.join().unwrap();
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}
