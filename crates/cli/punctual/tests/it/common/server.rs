//! A server for tests.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use punctual_testing::Running;

use super::signal;

/// A running `punctual-server`. It is killed if the test fails before its end.
pub struct Server {
    child: Running,
    /// The URL of its pages: `http://ADDRESS`.
    pub url: String,
    /// Thread that reads the rest of stderr, because a full pipe would stop the server.
    rest: JoinHandle<String>,
}

impl Server {
    /// Starts the server and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = Running(command.spawn().unwrap());
        let mut said = BufReader::new(child.0.stderr.take().unwrap());
        // The program may first say what it restored after a killed run, such as one of a test that
        // runs in parallel.
        let mut told = String::new();
        let url = loop {
            assert!(said.read_line(&mut told).unwrap() > 0, "{told}");
            if let Some((_, address)) = told.split_once(" on http://") {
                break format!("http://{}", address.trim());
            }
        };
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { child, url, rest }
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends the server, asserts that it has succeeded, and returns its stderr.
    pub fn end(mut self) -> String {
        signal(&self.child.0, "TERM");
        let status = self.child.0.wait().unwrap();
        let rest = self.rest.join().unwrap();
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}
