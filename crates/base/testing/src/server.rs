//! A running `punctual-server`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use crate::{Running, signal};

/// A running `punctual-server`. It is killed if the test fails before its end.
#[derive(Debug)]
pub struct Server {
    child: Running,
    /// The URL of its pages: `http://ADDRESS`.
    pub url: String,
    /// Thread that reads the rest of stderr, because a full pipe would stop the server.
    rest: JoinHandle<String>,
}

impl Server {
    /// Starts the server and waits until it listens.
    ///
    /// # Panics
    /// Panics if the server does not start, with its stderr.
    pub fn start(mut command: Command) -> Self {
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = Running(command.spawn().expect("the server does not start"));
        let stderr = child.0.stderr.take().expect("stderr is a pipe");
        let mut said = BufReader::new(stderr);
        // The program may first say what it restored after a killed run, such as one of a test that
        // runs in parallel.
        let mut told = String::new();
        let url = loop {
            let read = said.read_line(&mut told);
            assert!(read.is_ok_and(|bytes| bytes > 0), "{told}");
            if let Some((_, address)) = told.split_once(" on http://") {
                break format!("http://{}", address.trim());
            }
        };
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            said.read_to_string(&mut rest)
                .expect("stderr is not UTF-8 text");
            rest
        });
        Self { child, url, rest }
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the address and the port of its pages.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Ends the server with SIGTERM, and returns its stderr.
    ///
    /// # Panics
    /// Panics if the server fails.
    pub fn end(mut self) -> String {
        signal(&self.child.0, "TERM");
        let status = self.child.0.wait().expect("the server cannot be awaited");
        let rest = self.rest.join().expect("the reader of stderr panicked");
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}
