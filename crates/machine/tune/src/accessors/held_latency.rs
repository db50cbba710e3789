//! `/dev/cpu_dma_latency`. The kernel applies a request only while a process keeps this device
//! open. A small process of this program, the holder, keeps it open until the process is ended.
//!
//! Before the holder opens the device, it writes its identity to a file next to the journal, which
//! only the owner of the file can write. The holder can therefore be found even if the program that
//! started it was killed, and no other process can pretend to be the holder. The holder also locks
//! that file: in another PID namespace its PID has no meaning, but the lock shows that it is still
//! running.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use punctual_files::trusted;
use punctual_files::trusted::Access as FileAccess;
use punctual_host::Host;
use punctual_rt::DmaLatency;
use rustix::fs::{FlockOperation, flock};

use punctual_model::path_of;

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write};
use crate::fs::Files;
use crate::target::Target;

/// The verb with which this program holds the request.
pub const HOLD_VERB: &str = "hold-latency";

const DEVICE: &str = path_of(SETTING);
const NONE: &str = "none";
const SETTING: &str = "dma-latency-us";
/// The value that the kernel reports if idle states are not limited.
const MOST_US: i32 = 2_000_000_000;

/// Time limit for the holder to start.
const START: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 5_000 });
/// Time limit for the holder to end. It is short, because the holder has nothing to clean up.
const END: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1_000 });
const TURN: Duration = Duration::from_millis(2);
/// Suffix that the kernel appends to the path of a program whose file was replaced.
const DELETED: &str = " (deleted)";

pub(crate) struct HeldLatency;

/// The process that holds the request, as described in the holder's file.
struct Holder {
    pid: u32,
    /// Start time in clock ticks since boot.
    start: u64,
    micros: i32,
    /// Path of its executable.
    exe: String,
}

impl Holder {
    /// Returns the path of the holder's file, which is next to the journal.
    fn file(journal: &Path) -> PathBuf {
        let mut name = OsString::from(journal);
        name.push(".holder");
        name.into()
    }

    /// Returns the description of this process.
    fn this(micros: i32) -> Option<Self> {
        let pid = std::process::id();
        let host = Host::live();
        let files = Files;
        Some(Self {
            pid,
            start: host.process_start(pid)?,
            micros,
            exe: program(&Target::plain(&files, &host), pid)?,
        })
    }

    fn line(&self) -> String {
        let Self {
            pid,
            start,
            micros,
            exe,
        } = self;
        format!("{pid} {start} {micros} {exe}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_suffix('\n')?.splitn(4, ' ');
        Some(Self {
            pid: words.next()?.parse().ok()?,
            start: words.next()?.parse().ok()?,
            micros: words.next()?.parse().ok().filter(in_range)?,
            exe: words.next()?.to_owned(),
        })
    }

    /// Returns the holder for this journal, if it is still running.
    fn from_target(target: &Target<'_>) -> Option<Self> {
        let line = target.files.read_own(&Self::file(target.journal)).ok()?;
        let holder = Self::parse(&line)?;
        holder.runs(target).then_some(holder)
    }

    /// Returns the holder like [`from_target`](Self::from_target), but fails if it is unclear
    /// whether there is one.
    ///
    /// # Errors
    /// Returns an error if the holder runs in a PID namespace in which this process cannot see it.
    fn known(target: &Target<'_>) -> Result<Option<Self>, TuneError> {
        let holder = Self::from_target(target);
        let file = Self::file(target.journal);
        // An exiting process no longer has an executable but still keeps its lock for a moment.
        if holder.is_some() || soon(END, || !target.files.is_locked(&file)) {
            Ok(holder)
        } else {
            Err(holder_failed(format!(
                "a process in another PID namespace holds {DEVICE} open: run this command in that \
                 namespace"
            )))
        }
    }

    fn runs(&self, target: &Target<'_>) -> bool {
        target.host.process_start(self.pid) == Some(self.start)
            && target.host.sole_user(self.pid) == Some(rustix::process::geteuid().as_raw())
            && program(target, self.pid).as_deref() == Some(&self.exe)
    }
}

/// Returns the executable of a process. A newline in the name would end the line of the holder's
/// file early.
fn program(target: &Target<'_>, pid: u32) -> Option<String> {
    let link = target
        .files
        .link(&target.below(&format!("/proc/{pid}/exe")));
    let text = link.ok()?.into_os_string().into_string().ok()?;
    let text = text.strip_suffix(DELETED).unwrap_or(&text).to_owned();
    (!text.contains('\n')).then_some(text)
}

fn in_range(micros: &i32) -> bool {
    (0..=MOST_US).contains(micros)
}

/// Implements the verb [`HOLD_VERB`]: writes the identity of this process next to `journal`, and
/// holds the request until the process is ended. The process starts its own session, so that it
/// outlives the terminal.
///
/// # Errors
/// Returns [`TuneError::Holder`] if the device cannot be opened, or the identity cannot be written.
pub fn hold_latency(micros: i32, journal: &Path) -> Result<(), TuneError> {
    // This fails if the process already leads a session, which is equally suitable.
    let _ = rustix::process::setsid();
    let this = Holder::this(micros);
    let this =
        this.ok_or_else(|| holder_failed("this process is not visible in /proc".to_owned()))?;
    let path = Holder::file(journal);
    let _locked = write_down(&this, &path)
        .map_err(|source| holder_failed(format!("{}: {source}", path.display())))?;
    let held = DmaLatency::hold(Path::new(DEVICE), micros);
    let _held = held.map_err(|error| holder_failed(error.to_string()))?;
    loop {
        std::thread::park();
    }
}

/// Writes the description of the holder to its file. Returns the file, which is locked as long as
/// it is open.
fn write_down(this: &Holder, path: &Path) -> io::Result<File> {
    let mut file = trusted::open_or_create(path, FileAccess::ReadWrite)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.set_len(0)?;
    file.write_all(this.line().as_bytes())?;
    Ok(file)
}

fn holder_failed(reason: String) -> TuneError {
    TuneError::Holder {
        setting: SETTING,
        reason,
    }
}

/// Returns the arguments of the holder process.
fn arguments(target: &Target<'_>, micros: i32) -> [OsString; 5] {
    [
        HOLD_VERB.into(),
        "--latency-us".into(),
        micros.to_string().into(),
        "--journal".into(),
        target.journal.into(),
    ]
}

/// Waits until a condition holds, for at most `patience`.
fn soon(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    loop {
        if so() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(TURN);
    }
}

/// Ends the holder, if there is one, by sending one signal and waiting once.
fn end(target: &Target<'_>) -> Result<(), TuneError> {
    let Some(holder) = Holder::known(target)? else {
        return Ok(());
    };
    let pid = holder.pid;
    // An error does not matter if the holder has just ended by itself.
    if let Err(source) = target.files.end(pid, holder.start)
        && holder.runs(target)
    {
        return Err(holder_failed(format!(
            "process {pid}, which holds {DEVICE} open, cannot be ended: {source}"
        )));
    }
    if soon(END, || !holder.runs(target)) {
        // The file is meaningless without the process that it describes.
        let _ = target.files.truncate(&Holder::file(target.journal), 0);
        Ok(())
    } else {
        Err(holder_failed(format!(
            "process {pid}, which holds {DEVICE} open, does not end"
        )))
    }
}

fn start(target: &Target<'_>, micros: i32) -> Result<(), TuneError> {
    let program = std::env::current_exe().map_err(|source| {
        holder_failed(format!("the path of this program is unknown: {source}"))
    })?;
    let mut words = vec![program.into_os_string()];
    words.extend(arguments(target, micros));
    target.files.start(&words).map_err(|source| {
        holder_failed(format!(
            "the process that holds {DEVICE} open cannot be started: {source}"
        ))
    })?;
    // The kernel reports the strictest of all requests.
    let device = target.below(DEVICE);
    let in_force = || {
        Holder::from_target(target).is_some_and(|holder| holder.micros == micros)
            && target.files.number(&device).is_ok_and(|now| now <= micros)
    };
    if soon(START, in_force) {
        Ok(())
    } else {
        Err(holder_failed(format!(
            "the process that was started to hold {DEVICE} at {micros} us does not hold it"
        )))
    }
}

impl Access for HeldLatency {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let there = target.files.exists(&target.below(DEVICE));
        Ok(there.then(String::new).into_iter().collect())
    }

    /// Returns the value that this program's holder requests. Requests from other programs do not
    /// count.
    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        let holder = Holder::known(target)?;
        Ok(holder.map_or_else(|| NONE.to_owned(), |holder| holder.micros.to_string()))
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        end(target)?;
        match value.parse() {
            Ok(micros) => start(target, micros),
            Err(_) => Ok(()),
        }
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        value == NONE || value.parse().is_ok_and(|micros| in_range(&micros))
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, DEVICE)
    }

    fn readable(&self, value: &str) -> String {
        match value {
            NONE => "not held".to_owned(),
            micros => format!("{micros} held"),
        }
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask { setting, asked, .. } = ask;
        match asked.parse::<i32>() {
            Ok(micros) if in_range(&micros) => Ok(Some(micros.to_string())),
            _ => Err(invalid(setting, "", asked)),
        }
    }

    fn remark(&self, target: &Target<'_>, _: &str, _: &str) -> Option<String> {
        let Holder { pid, micros, .. } = Holder::from_target(target)?;
        Some(format!(
            "process {pid} holds {DEVICE} at {micros} us until `punctual tune revert`"
        ))
    }
}
