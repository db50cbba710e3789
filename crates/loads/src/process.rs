//! Loads made of processes: one life for all of them.
//!
//! A load says which script it wants run ([`Script`]); here it is started on
//! its CPUs, guarded, accounted for and stopped.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{Achieved, Arguments, Nanos};
use punctual_rt::ThreadBuilder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::workers::{lock, normal_priority};
use crate::{Load, LoadError, scratch};

/// Runs the script `$2` with the arguments after it, and beside it a watcher
/// that reads a pipe which only we hold: when we are gone, however that came,
/// the pipe closes and the watcher kills the whole process group. (A
/// parent-death signal would reach the shell alone, not what it started.) Where
/// there is a scratch folder `$1`, the others are asked to end and it is
/// removed first.
const GUARD: &str = r#"
exec 3<&0 </dev/null
(
  cat <&3
  if [ -n "$1" ]; then
    trap '' TERM
    kill -s TERM 0
    sleep 1
    rm -rf -- "$1"
  fi
  kill -s KILL 0
) >/dev/null 2>&1 &
exec 3<&-
shift
script=$1
shift
sh -c "$script" sh "$@"
"#;

/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(2);

/// The most output that is kept of a script.
const OUTPUT_LIMIT: usize = 1 << 20;

/// What a load wants run.
pub(crate) struct Script {
    /// The text for `sh -c`.
    pub(crate) shell: String,
    /// Its `$1`, `$2`, ….
    pub(crate) arguments: Vec<OsString>,
    /// What it is called in messages.
    pub(crate) title: String,
    /// A folder of its own to work in (`$PWD`, `$TMPDIR`), gone at the end.
    pub(crate) scratch: Option<PathBuf>,
    /// How long its processes have to end after SIGTERM.
    pub(crate) grace: Duration,
}

/// What a script has done.
#[derive(Default)]
pub(crate) struct Account {
    /// What it wrote.
    pub(crate) output: Output,
    /// CPU time, as far as known.
    pub(crate) cpu_time: Option<Nanos>,
    /// How long it ran.
    pub(crate) lasted: Nanos,
}

/// A load made of processes.
pub(crate) struct Processes {
    load: &'static str,
    arguments: Arguments,
    script: fn(&Arguments, &[u32]) -> Result<Script, LoadError>,
    achieved: fn(&Account) -> Vec<Achieved>,
    running: Option<Guarded>,
    account: Account,
}

impl Processes {
    /// A load of this name that runs what `script` says; `achieved` reads its
    /// account.
    pub(crate) fn load(
        load: &'static str,
        script: fn(&Arguments, &[u32]) -> Result<Script, LoadError>,
        achieved: fn(&Account) -> Vec<Achieved>,
        arguments: &Arguments,
    ) -> Box<dyn Load> {
        Box::new(Self {
            load,
            arguments: arguments.clone(),
            script,
            achieved,
            running: None,
            account: Account::default(),
        })
    }
}

impl Load for Processes {
    fn start(&mut self, cpus: &[u32]) -> Result<(), LoadError> {
        let script = (self.script)(&self.arguments, cpus)?;
        let what = format!("cannot start {}", script.title);
        let running = Guarded::start(script, cpus)
            .map_err(|source| LoadError::start(self.load, what, source))?;
        self.running = Some(running);
        Ok(())
    }

    fn ended_early(&mut self) -> Option<String> {
        self.running.as_mut()?.ended()
    }

    fn cpu_time(&mut self) -> Option<Nanos> {
        match &self.running {
            Some(running) => running.cpu_time(),
            None => self.account.cpu_time,
        }
    }

    fn achieved(&mut self) -> Vec<Achieved> {
        (self.achieved)(&self.account)
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.account = running.stop();
        }
    }
}

/// A process group that ends with us.
pub(crate) struct Guarded {
    script: Script,
    child: Child,
    reader: Option<Reader>,
    started: Instant,
}

impl Guarded {
    pub(crate) fn start(script: Script, cpus: &[u32]) -> io::Result<Self> {
        if let Some(scratch) = &script.scratch {
            fs::create_dir(scratch)?;
        }
        match Self::spawn(&script, cpus) {
            Ok((child, reader)) => Ok(Self {
                script,
                child,
                reader,
                started: Instant::now(),
            }),
            Err(error) => {
                if let Some(scratch) = &script.scratch {
                    scratch::remove(scratch);
                }
                Err(error)
            }
        }
    }

    fn spawn(script: &Script, cpus: &[u32]) -> io::Result<(Child, Option<Reader>)> {
        let scratch = script.scratch.as_deref();
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARD, "sh"])
            .arg(scratch.map(|path| path.as_os_str()).unwrap_or_default())
            .arg(&script.shell)
            .args(&script.arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Of a make that we may have been started by.
            .env_remove("MAKEFLAGS")
            .env_remove("MFLAGS")
            .env_remove("MAKELEVEL");
        if let Some(scratch) = scratch {
            command.current_dir(scratch).env("TMPDIR", scratch);
        }
        // Processes inherit CPUs and policy from the thread that starts them.
        let mut child = ThreadBuilder::new("load-start")
            .cpus(cpus)
            .spawn(move || normal_priority().and_then(|()| command.spawn()))
            .and_then(punctual_rt::JoinHandle::join)
            .map_err(io::Error::other)??;
        let reader = child.stdout.take().map(Reader::start).transpose()?;
        Ok((child, reader))
    }

    fn group(&self) -> u32 {
        self.child.id()
    }

    fn cpu_time(&self) -> Option<Nanos> {
        Host::live().group_cpu_time(self.group())
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.group()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // It fails when there is nothing left to be told.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits until no process of the group runs, at most so long.
    fn gone_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            // Reaps the shell.
            let _ = self.child.try_wait();
            if !Host::live().group_runs(self.group()) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended with {status}", self.script.title))
    }

    /// What it has written by now.
    pub(crate) fn output(&self) -> Output {
        self.reader.as_ref().map(Reader::so_far).unwrap_or_default()
    }

    /// Whether all that it wrote has been read.
    pub(crate) fn is_read(&self) -> bool {
        self.reader
            .as_ref()
            .is_none_or(|reader| reader.thread.is_finished())
    }

    /// Ends all of it.
    pub(crate) fn stop(mut self) -> Account {
        let cpu_time = self.cpu_time();
        let lasted = self.started.elapsed().into();
        // The watcher, which is in the group, ends with the others.
        if !self.script.grace.is_zero() {
            self.signal(Signal::TERM);
        }
        if !self.gone_within(self.script.grace) {
            self.signal(Signal::KILL);
            self.gone_within(GONE);
        }
        let _ = self.child.wait();
        if let Some(scratch) = &self.script.scratch {
            scratch::remove(scratch);
        }
        let output = self.reader.take().map(Reader::finish).unwrap_or_default();
        Account {
            output,
            cpu_time,
            lasted,
        }
    }
}

/// What a script wrote to stdout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// The text; its beginning, where that was much.
    pub(crate) text: Vec<u8>,
    /// How many lines it was.
    pub(crate) lines: u64,
}

/// Reads a script's output on a thread of its own: a full pipe would hold the
/// load up.
struct Reader {
    done: Arc<AtomicBool>,
    output: Arc<Mutex<Output>>,
    thread: thread::JoinHandle<()>,
}

impl Reader {
    fn start(pipe: ChildStdout) -> io::Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let output = Arc::new(Mutex::new(Output::default()));
        let (stop, filled) = (Arc::clone(&done), Arc::clone(&output));
        let thread = thread::Builder::new()
            .name("load-output".to_owned())
            .spawn(move || read(pipe, &stop, &filled))?;
        Ok(Self {
            done,
            output,
            thread,
        })
    }

    fn so_far(&self) -> Output {
        lock(&self.output).clone()
    }

    fn finish(self) -> Output {
        self.done.store(true, Ordering::Relaxed);
        // It cannot panic with what is read so far lost.
        let _ = self.thread.join();
        std::mem::take(&mut *lock(&self.output))
    }
}

/// Reads until the end of the pipe, or until `stop`. What left the group may
/// hold the pipe open for ever: then only what is there already is read.
fn read(mut pipe: ChildStdout, stop: &AtomicBool, output: &Mutex<Output>) {
    let mut block = [0; 4096];
    loop {
        let last = stop.load(Ordering::Relaxed);
        if !readable(&pipe) {
            match last {
                true => return,
                false => continue,
            }
        }
        match pipe.read(&mut block) {
            Ok(0) => return,
            Ok(bytes) => {
                let block = &block[..bytes];
                let mut output = lock(output);
                output.lines += block.iter().filter(|&&byte| byte == b'\n').count() as u64;
                let room = OUTPUT_LIMIT - output.text.len();
                output.text.extend_from_slice(&block[..bytes.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits a moment for something to read, or the end of it.
fn readable(output: &ChildStdout) -> bool {
    const MOMENT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut one = [PollFd::new(output, PollFlags::IN)];
    poll(&mut one, Some(&MOMENT)).is_ok_and(|ready| ready > 0)
}

/// Where a program stands in `$PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}
