//! Programs that a test runs as a user would.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Gives a command of punctual a folder with a separate store, without the user's settings.
/// `locks`: the folder for the locks of CPUs.
pub fn isolate<'a>(command: &'a mut Command, folder: &Path, locks: &Path) -> &'a mut Command {
    command
        .current_dir(folder)
        .env_remove("XDG_DATA_HOME")
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("PUNCTUAL_STORE", folder.join("store.db"))
        .env("PUNCTUAL_LOCKS", locks)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
}

/// Returns the output of a program as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `done` returns true, for at most 2 min. The limit is only meant for hangs: in an
/// emulated machine on a busy host, a measurement needs half a minute to start.
pub fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Sends a signal, such as `TERM`, to a process.
///
/// # Panics
/// Panics if kill(1) fails.
pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status()
        .expect("kill(1) does not run");
    assert!(status.success(), "kill -{name} {pid}: {status}");
}
