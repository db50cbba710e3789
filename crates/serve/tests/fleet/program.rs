//! Servers that others wrote, started for a test on a port that is free.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What is not as expected after so long never will be.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The first of these programs that is installed.
pub(crate) fn installed(names: &[&'static str]) -> Option<&'static str> {
    let works = |name: &&&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    names.iter().find(works).copied()
}

/// A port that nobody listens on.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A server that ends with the test.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Ended already: nothing is left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it, with its log in a file.
    pub(crate) fn start(mut command: Command, address: SocketAddr, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// What a path answers; nothing while the server starts.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let url = format!("http://{}{path}", self.address);
        let text = ureq::get(url).call().ok()?.body_mut().read_to_string();
        serde_json::from_str(&text.ok()?).ok()
    }

    /// Asks until an answer is as wanted.
    pub(crate) fn until<T>(&self, path: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let answer = self.get(path);
            if let Some(found) = answer.as_ref().and_then(&wanted) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {answer:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
