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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::Machine;

    const LINE: &str = "99 6000 5 /usr/bin/punctual\n";

    /// A machine on which process 99 holds the request.
    fn held() -> Machine {
        let machine = Machine::controller(true);
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 6000 20";
        machine.write("proc/99/stat", &format!("99 (punctual) {rest}"));
        let uid = rustix::process::geteuid().as_raw();
        machine.write(
            "proc/99/status",
            &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
        );
        symlink(
            "/usr/bin/punctual",
            machine.host().root().join("proc/99/exe"),
        )
        .unwrap();
        write(&machine, LINE);
        machine
    }

    fn write(machine: &Machine, line: &str) {
        let file = Holder::file(&machine.journal());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, line).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn read(machine: &Machine) -> Result<String, TuneError> {
        let journal = machine.journal();
        let target = Target {
            files: &Files,
            host: machine.host(),
            journal: &journal,
        };
        HeldLatency.read(&target, "")
    }

    #[test]
    fn holder_is_a_running_process_of_this_user_and_program() {
        let machine = held();
        assert_eq!(read(&machine).unwrap(), "5");
        let journal = machine.journal();
        let target = Target {
            files: &Files,
            host: machine.host(),
            journal: &journal,
        };
        assert_eq!(
            HeldLatency.remark(&target, "", "5").unwrap(),
            "process 99 holds /dev/cpu_dma_latency at 5 us until `punctual tune revert`"
        );
        for line in [
            "99 6001 5 /usr/bin/punctual\n",
            "98 6000 5 /usr/bin/punctual\n",
            "99 6000 5 /usr/bin/other\n",
            "99 6000 5 /usr/bin/punctual",
            "99 6000 -1 /usr/bin/punctual\n",
            "99 6000 2000000001 /usr/bin/punctual\n",
            "99 6000 5\n",
            "",
        ] {
            write(&machine, line);
            assert_eq!(read(&machine).unwrap(), NONE, "{line:?}");
        }
        write(&machine, LINE);
        let exe = machine.host().root().join("proc/99/exe");
        let with_program = |path: &str| {
            std::fs::remove_file(&exe).unwrap();
            symlink(path, &exe).unwrap();
            read(&machine).unwrap()
        };
        // An update replaced the program while it was running.
        assert_eq!(with_program("/usr/bin/punctual (deleted)"), "5");
        assert_eq!(with_program("/usr/bin/punctual2"), NONE);
        assert_eq!(with_program("/usr/bin/punctual"), "5");
        let uid = rustix::process::geteuid().as_raw() + 1;
        let of_another = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        machine.write("proc/99/status", &of_another);
        assert_eq!(read(&machine).unwrap(), NONE);
    }

    #[test]
    fn line_describes_the_holder_completely() {
        let holder = Holder::parse(LINE).unwrap();
        assert_eq!((holder.pid, holder.start, holder.micros), (99, 6000, 5));
        assert_eq!(holder.line(), LINE);
        // The path of a program can contain spaces.
        let spaced = Holder::parse("1 2 0 /a b/c\n").unwrap();
        assert_eq!(spaced.exe, "/a b/c");
        let this = Holder::this(7).unwrap();
        assert_eq!((this.pid, this.micros), (std::process::id(), 7));
        assert_eq!(Holder::parse(&this.line()).unwrap().exe, this.exe);
        let exe = std::env::current_exe().unwrap();
        assert_eq!(Path::new(&this.exe), exe);
    }

    #[test]
    fn name_of_a_program_with_a_newline_is_not_used() {
        let machine = held();
        let exe = machine.host().root().join("proc/99/exe");
        std::fs::remove_file(&exe).unwrap();
        symlink("/usr/bin/pun\nctual", &exe).unwrap();
        let found = program(&Target::plain(&Files, machine.host()), 99);
        assert_eq!(found, None);
        let none = program(&Target::plain(&Files, machine.host()), 98);
        assert_eq!(none, None);
    }

    /// In another PID namespace, the holder's process is not visible, but its lock is.
    #[test]
    fn locked_file_without_visible_holder_is_an_error() {
        let machine = held();
        machine.remove("proc/99");
        let path = Holder::file(&machine.journal());
        let holder = Holder::parse(LINE).unwrap();
        let locked = write_down(&holder, &path).unwrap();
        let error = read(&machine).unwrap_err().to_string();
        assert!(error.contains("in another PID namespace"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), LINE);
        // A second holder of the same journal is refused.
        assert!(write_down(&holder, &path).is_err());
        drop(locked);
        assert_eq!(read(&machine).unwrap(), NONE);
        // A shorter line replaces a longer one completely.
        let short = Holder {
            exe: "/x".to_owned(),
            ..holder
        };
        write_down(&short, &path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "99 6000 5 /x\n");
    }

    #[test]
    fn waiting_ends_with_the_condition_or_the_time() {
        let mut calls = 0;
        let after_three = || {
            calls += 1;
            calls == 3
        };
        assert!(soon(Duration::from_secs(3_600), after_three));
        assert_eq!(calls, 3);
        let mut calls = 0;
        let never = || {
            calls += 1;
            false
        };
        assert!(!soon(TURN * 3, never));
        assert!(calls > 0);
        assert!(soon(Duration::ZERO, || true));
    }

    #[test]
    fn holder_gets_the_value_and_the_journal() {
        let machine = Machine::new();
        let journal = machine.journal();
        let target = Target {
            files: &Files,
            host: machine.host(),
            journal: &journal,
        };
        let words = arguments(&target, 5).map(|word| word.into_string().unwrap());
        let journal = journal.to_str().unwrap();
        assert_eq!(
            words,
            ["hold-latency", "--latency-us", "5", "--journal", journal]
        );
        let file = Holder::file(Path::new("/x/tune.journal"));
        assert_eq!(file, Path::new("/x/tune.journal.holder"));
    }

    #[test]
    fn latency_is_limited_to_what_the_kernel_reports() {
        for (micros, allowed) in [
            (-1, false),
            (0, true),
            (1, true),
            (2_000_000_000, true),
            (2_000_000_001, false),
        ] {
            assert_eq!(in_range(&micros), allowed, "{micros}");
        }
    }
}
