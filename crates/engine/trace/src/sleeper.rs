//! A process that is killed in its sleep, for tests.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::flight::{Followed, ReleaseCall};

/// A process that sleeps for 0.3 s, and then until it is killed.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.3; read line"]);
        Self(command.stdin(Stdio::piped()).spawn().expect("sh runs"))
    }

    pub(crate) fn tid(&self) -> u32 {
        self.0.id()
    }

    /// Returns what to follow. The process never calls its release wait.
    pub(crate) fn followed(&self) -> Followed {
        let wait = ReleaseCall {
            id: 9_999,
            argument: 0,
            ignored: 0,
        };
        Followed {
            tids: vec![self.tid()],
            releases: [(self.tid(), vec![wait])].into(),
            ..Followed::default()
        }
    }

    /// Kills the process once the sleep has left something.
    pub(crate) fn kill(mut self, has_left: impl Fn() -> bool) {
        let begun = Instant::now();
        while !has_left() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no sleep is noted"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was killed");
    }
}
