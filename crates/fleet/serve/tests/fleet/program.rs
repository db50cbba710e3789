//! Servers that others wrote, started for a test on a port that is free.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Place;

/// What is not as expected after so long never will be.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The first of these programs that is installed; where none is, a SKIP.
pub(crate) fn installed(names: &[&'static str]) -> Option<&'static str> {
    let works = |name: &&&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = names.iter().find(works).copied();
    if found.is_none() {
        punctual_testing::skip!(Program, "{} is not installed", names.join(", "));
    }
    found
}

/// A port that nobody listens on.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// What a program is started with.
pub(crate) struct Setup {
    /// The file with its settings.
    pub(crate) settings: String,
    /// A folder of its own, which is not there yet.
    pub(crate) data: String,
    /// Where it is to listen.
    pub(crate) address: SocketAddr,
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
    /// Starts the program of this name on a free port, with these settings; its files are in
    /// a folder of the test.
    pub(crate) fn configured(
        name: &str,
        place: &Place,
        settings: &Value,
        arguments: impl FnOnce(&Setup) -> Vec<String>,
    ) -> Self {
        let file = |kind: &str| place.file(&format!("{name}{kind}"));
        // JSON is YAML.
        std::fs::write(file(".yml"), settings.to_string()).unwrap();
        let setup = Setup {
            settings: file(".yml").display().to_string(),
            data: file("").display().to_string(),
            address: free(),
        };
        let mut command = Command::new(name);
        command.args(arguments(&setup));
        Self::start(command, setup.address, &file(".log"))
    }

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
