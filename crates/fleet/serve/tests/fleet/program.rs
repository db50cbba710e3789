//! Third-party servers, which a test starts on a free port.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Sandbox;

/// Time until a program must respond as expected.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the first of these programs that is installed, or prints SKIP if there is none.
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

/// Returns a free port.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The parameters for starting a program.
pub(crate) struct Setup {
    /// The path of the settings file.
    pub(crate) settings: String,
    /// The path of its data folder, which does not exist yet.
    pub(crate) data: String,
    /// The address to listen on.
    pub(crate) address: SocketAddr,
}

/// A server that ends with the test.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        // If it has already ended, there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts the named program on a free port with these settings. Its files are in a folder of
    /// the test.
    pub(crate) fn configured(
        name: &str,
        place: &Sandbox,
        settings: &Value,
        arguments: impl FnOnce(&Setup) -> Vec<String>,
    ) -> Self {
        let file = |kind: &str| place.file(&format!("{name}{kind}"));
        // JSON is valid YAML.
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

    /// Starts the program, with its log in a file.
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

    /// Returns the response for a path, or `None` while the server is still starting.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let url = format!("http://{}{path}", self.address);
        let text = ureq::get(url).call().ok()?.body_mut().read_to_string();
        serde_json::from_str(&text.ok()?).ok()
    }

    /// Polls until a response is as expected.
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
