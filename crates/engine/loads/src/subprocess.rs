//! A load made of threads, in a subprocess.
//!
//! The subprocess is a copy of the program that runs [`serve`](crate::serve) for one load. It
//! reports on stdout, one line per event, and exits on SIGTERM. If the parent dies, it is killed
//! like all processes of loads.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use punctual_model::{Achieved, FromJson, LoadRecord, Nanos};

use crate::outside::Outside;
use crate::process::{Guarded, Output, Script};
use crate::{Ended, Load, LoadError};

/// Prefixes of the lines of the protocol. The text of the line follows the prefix. Other output on
/// stdout is ignored.
pub(crate) const STARTED: &str = "load: started";
pub(crate) const REFUSED: &str = "load: refused ";
pub(crate) const RECORD: &str = "load: record ";

/// Time limit for starting the load: it only opens files and sockets.
const START: Duration = Duration::from_secs(10);

/// Time limit for stopping the load before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Time limit for stopping a load that itself waits for its child processes.
const GRACE_OUTSIDE: Duration = Duration::from_secs(10);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(2);
pub(crate) const LOOK_WHILE_RUNNING: Duration = Duration::from_millis(20);

/// Reason why the subprocess does not run its load.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    /// The subprocess refused the load, with this message.
    #[error("{0}")]
    Refused(String),
    #[error("{}", ended(.0))]
    Ended(Ended),
    #[error("it did not start within {START:?}")]
    TimedOut,
}

fn ended(ended: &Ended) -> String {
    match ended.stderr.as_str() {
        "" => ended.how.clone(),
        stderr => format!("{}: {stderr}", ended.how),
    }
}

impl NotStarted {
    /// Removes the load's name, because the enclosing message already names it.
    fn without_the_load(self, load: &str) -> Self {
        match self {
            Self::Refused(why) => {
                let rest = why.strip_prefix(&format!("load {load}: "));
                Self::Refused(rest.unwrap_or(&why).to_owned())
            }
            other => other,
        }
    }
}

/// A load that runs in a subprocess.
pub(crate) struct Subprocess {
    load: &'static str,
    arguments: Vec<OsString>,
    groups: Vec<PathBuf>,
    running: Option<Guarded>,
    record: Option<LoadRecord>,
    cpu_time: Option<Nanos>,
}

impl Subprocess {
    /// Creates the load `request`. The program `command` runs it in the control groups and on the
    /// CPUs of `outside`.
    pub(crate) fn load(
        load: &'static str,
        command: &[OsString],
        request: &str,
        outside: Outside,
    ) -> Box<dyn Load> {
        let mut arguments = command.to_vec();
        arguments.push(request.into());
        if !outside.cpus.is_empty() {
            arguments.push(outside.cpus.to_string().into());
        }
        Box::new(Self {
            load,
            arguments,
            groups: outside.groups,
            running: None,
            record: None,
            cpu_time: None,
        })
    }

    /// Waits until the subprocess reports that the load has started, or that it cannot.
    fn wait(&self, running: &mut Guarded) -> Result<(), NotStarted> {
        let deadline = Instant::now() + START;
        loop {
            // Check for the end before reading the output, so that no line written before the end
            // is missed.
            let ended = running.ended();
            let output = running.output();
            if line(&output, STARTED).is_some() {
                return Ok(());
            }
            if let Some(why) = line(&output, REFUSED) {
                return Err(NotStarted::Refused(why));
            }
            if let Some(ended) = ended {
                return Err(NotStarted::Ended(ended));
            }
            if Instant::now() > deadline {
                return Err(NotStarted::TimedOut);
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns the text after `start` in the first line that contains it. Other output may precede
/// `start` on that line.
fn line(output: &Output, start: &str) -> Option<String> {
    let text = String::from_utf8_lossy(&output.text);
    // The last line may be incomplete.
    let (whole, _) = text.rsplit_once('\n')?;
    whole
        .lines()
        .find_map(|line| line.split_once(start))
        .map(|(_, rest)| rest.to_owned())
}

fn record(output: &Output) -> Option<LoadRecord> {
    LoadRecord::from_json(line(output, RECORD)?.as_bytes()).ok()
}

impl Load for Subprocess {
    fn start(&mut self, cpus: &[u32]) -> Result<(), LoadError> {
        let script = Script {
            shell: "exec \"$@\"".to_owned(),
            arguments: self.arguments.clone(),
            title: format!("the process of {}", self.load),
            scratch: None,
            grace: if self.groups.is_empty() {
                GRACE
            } else {
                GRACE_OUTSIDE
            },
        };
        let mut running = Guarded::start_in(&self.groups, script, cpus)
            .map_err(|source| LoadError::start(self.load, "cannot start its process", source))?;
        match self.wait(&mut running) {
            Ok(()) => self.running = Some(running),
            Err(why) => {
                running.stop();
                return Err(LoadError::Unfit {
                    load: self.load,
                    why: why.without_the_load(self.load).to_string(),
                });
            }
        }
        Ok(())
    }

    fn ended_early(&mut self) -> Option<Ended> {
        let running = self.running.as_mut()?;
        let ended = running.ended()?;
        let recorded = record(&running.output());
        // A load made of threads never ends by itself. A command may end by itself without having
        // failed.
        let failed = recorded.as_ref().is_none_or(|record| record.failed);
        let (how, stderr) =
            recorded.map_or((None, None), |record| (record.ended_early, record.stderr));
        Some(Ended {
            how: how.unwrap_or(ended.how),
            failed,
            stderr: stderr.unwrap_or(ended.stderr),
        })
    }

    fn cpu_time(&mut self) -> Option<Nanos> {
        // The figure of the subprocess is exact. The kernel's figure for the process group is in
        // ticks.
        match &self.record {
            Some(record) => record.cpu_time_ns,
            None => self.cpu_time,
        }
    }

    fn achieved(&mut self) -> Vec<Achieved> {
        self.record
            .as_ref()
            .map(|record| record.achieved.clone())
            .unwrap_or_default()
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            let account = running.stop();
            self.record = record(&account.output);
            self.cpu_time = account.cpu_time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_start_is_explained_once() {
        let ended = |stderr: &str| {
            NotStarted::Ended(Ended {
                how: "exited with status 1".to_owned(),
                failed: true,
                stderr: stderr.to_owned(),
            })
        };
        for (why, text) in [
            (
                NotStarted::Refused("load net: no port".to_owned()),
                "no port",
            ),
            (
                NotStarted::Refused("load disk: full".to_owned()),
                "load disk: full",
            ),
            (ended(""), "exited with status 1"),
            (ended("oh no"), "exited with status 1: oh no"),
            (NotStarted::TimedOut, "it did not start within 10s"),
        ] {
            assert_eq!(why.without_the_load("net").to_string(), text);
        }
    }

    #[test]
    fn half_a_line_is_no_line() {
        let said = |text: &str| {
            let output = Output {
                text: text.as_bytes().to_vec(),
                lines: 0,
            };
            line(&output, REFUSED)
        };
        assert_eq!(said("load: refused wh"), None);
        assert_eq!(said("hello load: refused why\nx"), Some("why".to_owned()));
        assert_eq!(said(""), None);
    }
}
