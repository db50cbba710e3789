//! Loads made of processes: one life cycle for all of them.
//!
//! A load supplies its script ([`Script`]); this module starts it on its CPUs,
//! guards it, accounts for it and stops it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use punctual_files::reap;
use punctual_host::Host;
use punctual_model::{Achieved, Arguments, Nanos};
use punctual_rt::ThreadBuilder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::workers::{lock, normal_priority};
use crate::{Ended, Load, LoadError, scratch};

/// Joins the control groups named before `--`, starts a watcher, and runs the script `$1` with the
/// arguments after it. The watcher reads a pipe whose writing end only this program holds open.
/// When this program ends, for any reason, the pipe closes and the watcher kills the whole process
/// group. (A parent-death signal would reach only the shell, not its children.)
const GUARD: &str = r#"
while [ "$1" != -- ]; do
  echo 0 >"$1" || exit 1
  shift
done
shift
exec 3<&0 </dev/null
(cat <&3; kill -s KILL 0) >/dev/null 2>&1 &
exec 3<&-
script=$1
shift
sh -c "$script" sh "$@"
"#;

/// Removes the scratch folder `$1` when this program has ended. Runs in its own process group, so
/// that it outlives the group of the script, whose ID it reads from the pipe. It waits for that
/// group for a limited time, because a container may not reap zombies. Processes that left the
/// group (stress-ng's workers) end later and may still write, so a failed removal is repeated.
const CLEANER: &str = r#"
read -r group
cat >/dev/null
tries=0
while [ -n "$group" ] && kill -s 0 -- "-$group" && [ "$tries" -lt 5 ]; do
  sleep 1
  tries=$((tries + 1))
done
tries=0
while ! rm -rf -- "$1" && [ "$tries" -lt 5 ]; do
  sleep 1
  tries=$((tries + 1))
done
"#;

/// Time limit for killed processes to exit.
const GONE: Duration = Duration::from_secs(2);

/// Maximum size of the kept output of a script, in bytes.
const OUTPUT_LIMIT: usize = 1 << 20;

/// Maximum size of the kept stderr, in bytes: enough for the last lines.
const ERRORS_LIMIT: usize = 4 << 10;

/// Maximum number of lines of stderr that are shown if a load fails.
const LAST_LINES: usize = 5;

/// The script of a load.
pub(crate) struct Script {
    /// The text for `sh -c`.
    pub(crate) shell: String,
    /// The arguments of the script: `$1`, `$2`, ….
    pub(crate) arguments: Vec<OsString>,
    /// Name of the script in messages.
    pub(crate) title: String,
    /// A private working folder (`$PWD`, `$TMPDIR`), removed at the end.
    pub(crate) scratch: Option<PathBuf>,
    /// Time between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
}

/// The results of a script.
#[derive(Default)]
pub(crate) struct Account {
    /// Output on stdout.
    pub(crate) output: Output,
    /// CPU time, if known.
    pub(crate) cpu_time: Option<Nanos>,
    /// Run time of the script.
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
    /// Creates a load with this name. `script` creates its script, and `achieved` derives the work
    /// done from the results.
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

    fn ended_early(&mut self) -> Option<Ended> {
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

/// A process group that ends together with this program.
pub(crate) struct Guarded {
    script: Script,
    child: Child,
    cleaner: Option<Cleaner>,
    reader: Option<Reader>,
    /// Reads stderr; `reader` reads stdout.
    errors: Option<Reader>,
    started: Instant,
}

impl Guarded {
    pub(crate) fn start(script: Script, cpus: &[u32]) -> io::Result<Self> {
        Self::start_in(&[], script, cpus)
    }

    /// Like `start`, but in other control groups, given by their `cgroup.procs` files.
    pub(crate) fn start_in(groups: &[PathBuf], script: Script, cpus: &[u32]) -> io::Result<Self> {
        let cleaner = match &script.scratch {
            Some(scratch) => Some(Cleaner::start(scratch, cpus)?),
            None => None,
        };
        let mut child = Self::spawn(groups, &script, cpus)?;
        let reader = child
            .stdout
            .take()
            .map(|pipe| Reader::start(pipe, Part::First));
        let errors = child
            .stderr
            .take()
            .map(|pipe| Reader::start(pipe, Part::Last));
        let mut guarded = Self {
            script,
            child,
            cleaner,
            reader: reader.transpose()?,
            errors: errors.transpose()?,
            started: Instant::now(),
        };
        let group = guarded.group();
        if let Some(Err(error)) = guarded.cleaner.as_mut().map(|cleaner| cleaner.watch(group)) {
            guarded.stop();
            return Err(error);
        }
        Ok(guarded)
    }

    fn spawn(groups: &[PathBuf], script: &Script, cpus: &[u32]) -> io::Result<Child> {
        let mut command = shell(GUARD);
        command
            .args(groups)
            .arg("--")
            .arg(&script.shell)
            .args(&script.arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // make sets these variables if it started this program.
            .env_remove("MAKEFLAGS")
            .env_remove("MFLAGS")
            .env_remove("MAKELEVEL");
        if let Some(scratch) = &script.scratch {
            command.current_dir(scratch).env("TMPDIR", scratch);
        }
        spawn_on(cpus, command)
    }

    fn group(&self) -> u32 {
        self.child.id()
    }

    fn cpu_time(&self) -> Option<Nanos> {
        Host::live().group_cpu_time(self.group())
    }

    fn signal(&self, signal: Signal) {
        kill_group(self.group(), signal);
    }

    /// Waits until no process of the group runs, for at most `time`.
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

    /// Returns how the script ended, if it has ended. All its output has been read by then.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok()??;
        self.all_read();
        let stderr = self.errors.as_ref().map(Reader::so_far);
        Some(Ended {
            how: format!("{} ended with {status}", self.script.title),
            failed: !status.success(),
            stderr: stderr.map(|errors| last_lines(&errors)).unwrap_or_default(),
        })
    }

    /// Waits briefly for the remaining output of a process that has ended. Does not wait until the
    /// pipes are closed, because child processes may hold them open.
    fn all_read(&self) {
        let deadline = Instant::now() + Duration::from_millis(100);
        let readers = || [&self.reader, &self.errors].into_iter().flatten();
        let all = || readers().all(|reader| reader.thread.is_finished());
        while !all() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the output read so far.
    pub(crate) fn output(&self) -> Output {
        self.reader.as_ref().map(Reader::so_far).unwrap_or_default()
    }

    /// Ends all processes of the group.
    pub(crate) fn stop(mut self) -> Account {
        let cpu_time = self.cpu_time();
        let lasted = self.started.elapsed().into();
        // These signals also end the watcher, which belongs to the group.
        if !self.script.grace.is_zero() {
            self.signal(Signal::TERM);
        }
        if !self.gone_within(self.script.grace) {
            self.signal(Signal::KILL);
            self.gone_within(GONE);
        }
        reap(&mut self.child);
        // No process writes to the scratch folder any longer.
        drop(self.cleaner.take());
        let output = self.reader.take().map(Reader::finish).unwrap_or_default();
        drop(self.errors.take().map(Reader::finish));
        Account {
            output,
            cpu_time,
            lasted,
        }
    }
}

/// A scratch folder, and the process that removes it if this program cannot.
struct Cleaner {
    scratch: PathBuf,
    process: Child,
}

impl Cleaner {
    /// Starts the process that removes the folder, then creates the folder.
    fn start(scratch: &Path, cpus: &[u32]) -> io::Result<Self> {
        let mut command = shell(CLEANER);
        command.arg(scratch);
        let cleaner = Self {
            scratch: scratch.to_owned(),
            process: spawn_on(cpus, command)?,
        };
        // The folder may contain a copy of a user's sources.
        fs::DirBuilder::new().mode(0o700).create(scratch)?;
        Ok(cleaner)
    }

    /// Sends the cleaning process the ID of the process group to wait for.
    fn watch(&mut self, group: u32) -> io::Result<()> {
        match &mut self.process.stdin {
            Some(pipe) => writeln!(pipe, "{group}"),
            None => Ok(()),
        }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        scratch::remove(&self.scratch);
        // `wait` closes the pipe first. The process would then remove the folder, so kill it before
        // that.
        kill_group(self.process.id(), Signal::KILL);
        reap(&mut self.process);
    }
}

/// Prepares a shell with this script, in a separate process group, with a pipe as its stdin.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Starts a process on these CPUs at normal priority. The process inherits both from the thread
/// that starts it.
fn spawn_on(cpus: &[u32], mut command: Command) -> io::Result<Child> {
    ThreadBuilder::new("load-start")
        .cpus(cpus)
        .spawn(move || normal_priority().and_then(|()| command.spawn()))
        .and_then(punctual_rt::JoinHandle::join)
        .map_err(io::Error::other)?
}

/// Signals a process group, if it still exists.
fn kill_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // The call fails if the group has ended.
        let _ = kill_process_group(group, signal);
    }
}

/// Returns the last non-blank lines that a script wrote to stderr.
fn last_lines(errors: &Output) -> String {
    let text = String::from_utf8_lossy(&errors.text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// Which part of a long output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The first [`OUTPUT_LIMIT`] bytes.
    First,
    /// The last [`ERRORS_LIMIT`] bytes.
    Last,
}

impl Part {
    /// Returns the name of the thread that reads this output.
    const fn thread(self) -> &'static str {
        match self {
            Self::First => "load-output",
            Self::Last => "load-errors",
        }
    }

    fn keep(self, text: &mut Vec<u8>, block: &[u8]) {
        match self {
            Self::First => {
                let left = OUTPUT_LIMIT - text.len();
                text.extend_from_slice(&block[..block.len().min(left)]);
            }
            Self::Last => {
                text.extend_from_slice(block);
                text.drain(..text.len().saturating_sub(ERRORS_LIMIT));
            }
        }
    }
}

/// The output of a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// The text, or its kept part.
    pub(crate) text: Vec<u8>,
    /// Number of lines.
    pub(crate) lines: u64,
}

/// Reads a script's output on a separate thread, because a full pipe would block the load.
struct Reader {
    done: Arc<AtomicBool>,
    output: Arc<Mutex<Output>>,
    thread: thread::JoinHandle<()>,
}

impl Reader {
    fn start(pipe: impl Read + AsFd + Send + 'static, part: Part) -> io::Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let output = Arc::new(Mutex::new(Output::default()));
        let (stop, filled) = (Arc::clone(&done), Arc::clone(&output));
        let thread = thread::Builder::new()
            .name(part.thread().to_owned())
            .spawn(move || read(pipe, part, &stop, &filled))?;
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
        // If the thread panicked, the output read before that is still returned.
        let _ = self.thread.join();
        std::mem::take(&mut *lock(&self.output))
    }
}

/// Reads until the end of the pipe, or until `stop`. A process that left the group may hold the
/// pipe open forever; then only the available data is read.
fn read(mut pipe: impl Read + AsFd, part: Part, stop: &AtomicBool, output: &Mutex<Output>) {
    let mut block = [0; 4096];
    loop {
        let last = stop.load(Ordering::Relaxed);
        if !readable(&pipe) {
            if last { return } else { continue }
        }
        match pipe.read(&mut block) {
            Ok(0) => return,
            Ok(bytes) => {
                let block = &block[..bytes];
                let mut output = lock(output);
                output.lines += block.iter().filter(|&&byte| byte == b'\n').count() as u64;
                part.keep(&mut output.text, block);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits briefly for input or the end of the pipe.
fn readable(output: &impl AsFd) -> bool {
    const MOMENT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut one = [PollFd::new(output, PollFlags::IN)];
    poll(&mut one, Some(&MOMENT)).is_ok_and(|ready| ready > 0)
}

/// Returns the path of a program in `$PATH`.
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
