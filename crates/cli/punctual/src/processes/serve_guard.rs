//! `serve-guard`: restores settings if the program that changed them hangs, is stopped or is
//! killed. This verb is for internal use.

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use punctual_files::Budget;
use punctual_model::{Nanos, Recording, Sample};
use punctual_session::{Snapshot, Watcher};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, setsid};

use crate::context::Context;
use crate::exit::Exit;
use crate::output::note;
use crate::verb::{Run, Verb};

pub(crate) const VERB: Verb = Verb::new::<ServeGuard>(NAME);

const NAME: &str = "serve-guard";

/// Interval at which the program reports that it is alive.
const BEAT: Duration = Duration::from_secs(1);

/// If a program that has changed settings makes no progress for this time, it is considered to be
/// hanging or stopped.
pub(crate) const SILENCE: Nanos = Nanos::from_secs(60);

/// Environment variable that replaces this time in tests, in milliseconds.
const OTHER_SILENCE: &str = "PUNCTUAL_GUARD_MS";

/// Maximum time to wait until a killed program has ended. On an overloaded machine, its files can
/// be closed long before that.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// The byte that the program sends while it is alive, and the byte that it sends when it ends
/// normally.
/// Time in which the guard ends after it was told to.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LIVES: &[u8] = b".";
const ENDS: &[u8] = b"!";

/// Restore settings if the program hangs; started by experiment and improve
#[derive(Parser)]
#[command(name = NAME, hide = true)]
struct ServeGuard {
    /// Process ID of the watched program, the parent of this process.
    #[arg(value_name = "pid")]
    pid: i32,
    /// Time without a report after which the program is ended, in ms.
    #[arg(value_name = "ms")]
    silence_ms: u32,
}

impl Run for ServeGuard {
    fn run(self, _: &Context) -> Result<Exit> {
        // Ctrl-C and closing the terminal must not end this process.
        let _ = setsid();
        let parent = Pid::from_raw(self.pid).filter(|pid| getppid() == Some(*pid));
        let parent = parent.context("the watched program has ended")?;
        let parent = pidfd_open(parent, PidfdFlags::empty())?;
        let silence = Timespec {
            tv_sec: i64::from(self.silence_ms / 1_000),
            tv_nsec: i64::from(self.silence_ms % 1_000) * 1_000_000,
        };
        let mut buffer = [0u8; 64];
        loop {
            let stdin = std::io::stdin();
            let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut wanted, Some(&silence)) {
                Ok(0) => {
                    note(
                        "the program did not respond for too long: it was ended, and its settings \
                         were restored",
                    );
                    let _ = pidfd_send_signal(&parent, Signal::KILL);
                    break;
                }
                Ok(_) => match rustix::io::read(&stdin, &mut buffer) {
                    // The program has already restored its settings.
                    Ok(read @ 1..) if buffer[..read].contains(&ENDS[0]) => return Ok(Exit::Done),
                    Ok(1..) | Err(rustix::io::Errno::INTR) => {}
                    // The program has ended, or was killed.
                    Ok(_) | Err(_) => break,
                },
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => bail!("poll: {error}"),
            }
        }
        // Wait until the program has ended, because its settings count as in use until then.
        let _ = poll(&mut [PollFd::new(&parent, PollFlags::IN)], Some(&PATIENCE));
        crate::context::recover_settings();
        Ok(Exit::Done)
    }
}

/// A process that restores settings if this process stops calling [`beat`](Self::beat).
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    beaten: Instant,
}

impl Guard {
    /// Starts the guard. `silence` is the maximum time between two reports of this program.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(crate) fn start(silence: Nanos) -> Result<RefCell<Self>> {
        let silence = u32::try_from(silence.0 / 1_000_000).unwrap_or(u32::MAX);
        let other = std::env::var(OTHER_SILENCE).ok();
        let silence = other.and_then(|text| text.parse().ok()).unwrap_or(silence);
        let program = std::env::current_exe().context("the path of this program")?;
        let mut child = Command::new(program)
            .args([NAME, &std::process::id().to_string(), &silence.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("the process that restores settings")?;
        Ok(RefCell::new(Self {
            pipe: child.stdin.take(),
            child,
            beaten: Instant::now(),
        }))
    }

    /// Reports that this program is alive.
    pub(crate) fn beat(&mut self) {
        if self.beaten.elapsed() >= BEAT
            && let Some(pipe) = &mut self.pipe
        {
            self.beaten = Instant::now();
            if pipe.write_all(LIVES).is_err() {
                self.pipe = None;
                note("the process that would restore the settings if this program hangs has ended");
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // This write fails if the guard has already ended.
            let _ = pipe.write_all(ENDS);
        }
        let _ = Budget::time(ENDS_WITHIN).end(&mut self.child);
    }
}

/// A watcher that also reports to the guard whenever there is progress.
pub(crate) struct Guarded<'a> {
    pub(crate) inner: Box<dyn Watcher>,
    pub(crate) guard: Option<&'a RefCell<Guard>>,
}

impl Guarded<'_> {
    fn beat(&self) {
        if let Some(guard) = self.guard {
            guard.borrow_mut().beat();
        }
    }
}

impl Watcher for Guarded<'_> {
    fn begin(&mut self, recording: &Recording) {
        self.beat();
        self.inner.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.beat();
        self.inner.progress(snapshot);
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn every(&self) -> Duration {
        self.inner.every()
    }

    fn wants_samples(&self) -> bool {
        self.inner.wants_samples()
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        self.inner.samples(thread, samples);
    }
}
