//! Reads files of other users' programs in a separate process without privileges.
//!
//! A hostile file may exploit a bug in the parser. The reader is this program, started again with a
//! hidden verb. It has the user and group of the watched program, no capabilities, and limits on
//! memory and time. Its stdin is the open file. Its answer is as untrusted as the file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use punctual_files::{Budget, reap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, geteuid, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, set_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::allowance::{
    Allowance, LONGEST_BUILD_ID, LONGEST_NAME, MOST_SEGMENTS, MOST_SYMBOLS, NoFunctions,
};
use super::functions::Functions;
use super::rows::{self, Row};
use crate::process::ids;
use crate::root::Root;

/// Limit on the reader's address space in bytes: twice the bytes that it reads and keeps, plus the
/// size of the program itself.
const MOST_MEMORY: u64 = 512 << 20;

/// Limit on the reader's CPU time in seconds.
const MOST_CPU_TIME: u64 = 5;

/// Time limit for a reader to end after it has closed its stdout.
const END: Duration = Duration::from_secs(1);

/// Maximum length of a line from the reader in bytes: a name with 4 bytes per character, and two
/// numbers.
const LONGEST_LINE: u64 = 4 * LONGEST_NAME as u64 + 64;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    user: u32,
    group: u32,
}

/// Returns the user and group that the reader of a process's file must have. Returns `None` if the
/// process and the file belong to the user of this program, which then reads the file itself.
pub(super) fn foreign(root: &Root, pid: u32, file: &File) -> Result<Option<Owner>, NoFunctions> {
    // The owner of a recorded tree also owns its files.
    if !root.is_live() {
        return Ok(None);
    }
    let failed = |why: String| NoFunctions::Reader(why);
    let unknown = || failed("the user of its process is unknown".to_owned());
    let users = ids(root, pid, "Uid:").ok_or_else(unknown)?;
    let groups = ids(root, pid, "Gid:").ok_or_else(unknown)?;
    let status = file.metadata().map_err(|error| failed(error.to_string()))?;
    let of_file = Owner {
        user: status.uid(),
        group: status.gid(),
    };
    Ok(other_than(geteuid().as_raw(), users, groups, of_file))
}

/// Among the owners of the process, returns the first one that is not the user `own`. If there is
/// none and `own` is root, returns the owner of the file, provided that it is another user.
fn other_than(own: u32, users: [u32; 4], groups: [u32; 4], of_file: Owner) -> Option<Owner> {
    let of_process = users.into_iter().zip(groups);
    let mut owners = of_process.map(|(user, group)| Owner { user, group });
    let of_process = owners.find(|owner| owner.user != own);
    of_process.or((own == 0 && of_file.user != 0).then_some(of_file))
}

/// Starts a reader with the user and group of `owner`, and returns the functions that it finds in
/// the file.
pub(super) fn read_as(
    owner: Owner,
    file: File,
    command: &[OsString],
    allowance: &mut Allowance,
) -> Result<Functions, NoFunctions> {
    let failed = |what: &str, error: io::Error| NoFunctions::Reader(format!("{what}: {error}"));
    let [program, words @ ..] = command else {
        let why = "the program that reads the file without privileges cannot be started: its \
                   executable no longer exists";
        return Err(NoFunctions::Reader(why.to_owned()));
    };
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(words)
        .args([owner.user, owner.group].map(|id| id.to_string()))
        .args([allowance.read, allowance.kept].map(|bytes| bytes.to_string()))
        .args(allowance.rows.then_some("--callers"))
        .env_clear()
        .current_dir("/")
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed("the reader process cannot be started", error))?;
    let deadline = began + allowance.time;
    let read = match child.stdout.take() {
        Some(pipe) => receive(BufReader::new(Timed { pipe, deadline }), allowance),
        None => Err(Unreadable::Cut),
    };
    let ended = end(&mut child, matches!(read, Err(Unreadable::Cut)));
    allowance.time = deadline.saturating_duration_since(Instant::now());
    read.map_err(|why| match (why, ended) {
        (Unreadable::Said(why), _) => why,
        (Unreadable::Cut, Some(status)) => NoFunctions::Reader(in_words(status)),
        (why, _) => NoFunctions::Reader(why.to_string()),
    })
}

/// Ends a reader. If `ends` is set, the reader is expected to end by itself and gets some time to
/// do so. Returns its status if it did.
fn end(child: &mut Child, ends: bool) -> Option<ExitStatus> {
    if ends {
        return Budget::time(END).end(child).ok();
    }
    // Any output that the reader may still write is not needed.
    reap(child);
    None
}

fn in_words(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) if signal == rustix::process::Signal::XCPU.as_raw() => {
            format!("the reader process took {MOST_CPU_TIME} s of CPU time")
        }
        _ => format!("the reader process ended early ({status})"),
    }
}

/// The reason why the answer of a reader is not usable.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Said(#[from] NoFunctions),
    #[error("the answer of the reader process has an unknown format")]
    Garbled,
    #[error("the reader process ended early")]
    Cut,
    #[error("the reader process took too long")]
    TooSlow,
}

/// A pipe that can be read until a deadline.
struct Timed {
    pipe: ChildStdout,
    deadline: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return self.pipe.read(buffer),
            }
        }
    }
}

/// Parses the lines of a reader: `segment OFFSET SIZE ADDRESS`, `build-id HEX`, `function ADDRESS
/// SIZE NAME`, `row ADDRESS CALLER`, `incomplete REASON` or `unknown REASON`, `read BYTES`, `end`.
fn receive(mut lines: impl BufRead, allowance: &mut Allowance) -> Result<Functions, Unreadable> {
    let mut functions = Functions::default();
    let mut answer = Ok(());
    loop {
        let mut line = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "the line is limited")]
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Unreadable::TooSlow,
            _ => Unreadable::Cut,
        })?;
        if line.is_empty() {
            return Err(Unreadable::Cut);
        }
        let text = line.strip_suffix(b"\n").ok_or(Unreadable::Garbled)?;
        let text = std::str::from_utf8(text).map_err(|_| Unreadable::Garbled)?;
        let (key, rest) = text.split_once(' ').unwrap_or((text, ""));
        match key {
            "end" => break,
            "unknown" => answer = Err(NoFunctions::Reader(rest.to_owned())),
            "incomplete" => functions.incomplete = Some(NoFunctions::Reader(rest.to_owned())),
            "read" => {
                let bytes = rest.parse().map_err(|_| Unreadable::Garbled)?;
                allowance.read = allowance.read.saturating_sub(bytes);
            }
            _ => take(key, rest, &mut functions, allowance)?,
        }
    }
    answer?;
    // A hostile file may have taken over the reader, so the order of its functions cannot be
    // trusted.
    functions.functions.sort();
    functions.functions.dedup_by_key(|function| function.0);
    rows::sort(&mut functions.rows);
    Ok(functions)
}

/// Adds a line about the file to `functions`.
fn take(
    key: &str,
    rest: &str,
    functions: &mut Functions,
    allowance: &mut Allowance,
) -> Result<(), Unreadable> {
    let mut words = rest.splitn(3, ' ');
    let mut word = || words.next().ok_or(Unreadable::Garbled);
    let number = |text: &str| text.parse::<u64>().map_err(|_| Unreadable::Garbled);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match key {
        "segment" if functions.segments.len() < MOST_SEGMENTS => {
            let segment = (number(word()?)?, number(word()?)?, number(word()?)?);
            functions.segments.push(segment);
        }
        "build-id" if rest.len() <= 2 * LONGEST_BUILD_ID && is_hex(rest) => {
            functions.build_id = Some(rest.to_owned());
        }
        "function" if functions.functions.len() < MOST_SYMBOLS => {
            let (address, size, name) = (number(word()?)?, number(word()?)?, word()?);
            allowance.keep(name)?;
            functions.functions.push((address, size, name.to_owned()));
        }
        "row" => {
            allowance.keep_bytes(size_of::<Row>())?;
            let row = Row::parse(rest).ok_or(Unreadable::Garbled)?;
            functions.rows.push(row);
        }
        _ => return Err(Unreadable::Garbled),
    }
    Ok(())
}

/// The reason why the reader could not give up its privileges.
#[derive(Debug, thiserror::Error)]
pub enum NotDropped {
    /// A system call failed.
    #[error("the reader process cannot become user {user}: {call}: {source}")]
    Call {
        /// Name of the system call.
        call: &'static str,
        /// The user that the reader should become.
        user: u32,
        /// The system error.
        source: io::Error,
    },
    /// All system calls succeeded, but the process still has privileges.
    #[error("the reader process is still user {user} or has capabilities")]
    StillThere {
        /// The user that the reader still is.
        user: u32,
    },
}

/// Runs the reader: becomes this user and group permanently, reads the program from stdin, and
/// writes its functions to `output`. `read` and `kept` are the numbers of bytes that may be read
/// and kept. If `callers` is set, also writes how to find the callers. The process must have a single thread, because other threads would keep their
/// privileges.
///
/// # Errors
/// Returns an error if `output` cannot be written or stdin cannot be used. All other errors are
/// part of the answer.
pub fn serve_symbols(
    (user, group): (u32, u32),
    (read, kept): (u64, u64),
    callers: bool,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut allowance = Allowance {
        read,
        kept,
        rows: callers,
        ..Allowance::whole()
    };
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let functions = drop_privileges(user, group)
        .map_err(|why| NoFunctions::Reader(why.to_string()))
        .and_then(|()| Functions::read(file, &mut allowance));
    let mut output = io::BufWriter::new(output);
    match functions {
        Ok(functions) => write(&functions, &mut output)?,
        Err(why) => writeln!(output, "unknown {}", one_line(&why.to_string()))?,
    }
    writeln!(output, "read {}\nend", read - allowance.read)?;
    output.flush()
}

fn write(functions: &Functions, output: &mut impl Write) -> io::Result<()> {
    for (offset, size, address) in &functions.segments {
        writeln!(output, "segment {offset} {size} {address}")?;
    }
    if let Some(build_id) = &functions.build_id {
        writeln!(output, "build-id {build_id}")?;
    }
    for (address, size, name) in &functions.functions {
        writeln!(output, "function {address} {size} {}", one_line(name))?;
    }
    for row in &functions.rows {
        writeln!(output, "row {}", row.text())?;
    }
    match &functions.incomplete {
        Some(why) => writeln!(output, "incomplete {}", one_line(&why.to_string())),
        None => Ok(()),
    }
}

/// Returns the text truncated and without control characters, so that it fits into one line.
fn one_line(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { '?' } else { c });
    clean.take(LONGEST_NAME).collect()
}

/// Permanently drops all rights that are not needed to read an open file.
fn drop_privileges(user: u32, group: u32) -> Result<(), NotDropped> {
    let failed = |call: &'static str| {
        move |source: rustix::io::Errno| NotDropped::Call {
            call,
            user,
            source: source.into(),
        }
    };
    for (resource, most) in [
        (Resource::As, MOST_MEMORY),
        (Resource::Cpu, MOST_CPU_TIME),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Nofile, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(failed("setrlimit"))?;
    }
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(group));
    set_no_new_privs(true).map_err(failed("prctl"))?;
    set_thread_groups(&[]).map_err(failed("setgroups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(failed("setresgid"))?;
    set_thread_res_uid(uid, uid, uid).map_err(failed("setresuid"))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(failed("capset"))?;
    let left = capabilities(None).map_err(failed("capget"))?;
    if getuid() == uid && geteuid() == uid && left == none {
        Ok(())
    } else {
        Err(NotDropped::StillThere {
            user: geteuid().as_raw(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Owner = Owner { user: 0, group: 0 };

    #[test]
    fn only_files_of_own_user_are_read() {
        let owner = |user| Some(Owner { user, group: user });
        let with = |own, users: [u32; 4], file| other_than(own, users, users, file);
        assert_eq!(with(0, [0; 4], FILE), None);
        assert_eq!(with(1_000, [1_000; 4], FILE), None);
        assert_eq!(with(0, [1_000; 4], FILE), owner(1_000));
        // The process has changed one of its user IDs.
        assert_eq!(with(0, [1_000, 0, 0, 0], FILE), owner(1_000));
        assert_eq!(with(0, [0, 0, 1_000, 0], FILE), owner(1_000));
        assert_eq!(with(1_000, [0; 4], FILE), owner(0));
        // A process of root can execute a file that belongs to another user.
        let theirs = Owner { user: 7, group: 7 };
        assert_eq!(with(0, [0; 4], theirs), owner(7));
        assert_eq!(with(1_000, [1_000; 4], theirs), None);
    }

    fn received(text: &str) -> Result<Functions, String> {
        receive(text.as_bytes(), &mut Allowance::whole()).map_err(|why| why.to_string())
    }

    #[test]
    fn what_is_written_is_received() {
        let functions = Functions {
            segments: vec![(1, 2, 3)],
            functions: vec![(7, 8, "a b\nend".to_owned()), (9, 0, String::new())],
            rows: ["5 none", "9 at sp 8 same 0 frame -8", "12 unknown"]
                .map(|text| Row::parse(text).unwrap())
                .to_vec(),
            build_id: Some("00ff".to_owned()),
            incomplete: Some(NoFunctions::TooMany),
        };
        let mut text = Vec::new();
        write(&functions, &mut text).unwrap();
        text.extend(b"read 5\nend\n");
        let mut allowance = Allowance::whole();
        let found = receive(&*text, &mut allowance).unwrap();
        assert_eq!(found.segments, functions.segments);
        let names = [(7, 8, "a b?end".to_owned()), (9, 0, String::new())];
        assert_eq!(found.functions, names);
        assert_eq!(found.rows, functions.rows);
        assert_eq!(found.build_id, functions.build_id);
        let why = found.incomplete.unwrap().to_string();
        assert_eq!(why, NoFunctions::TooMany.to_string());
        assert_eq!(allowance.read, Allowance::whole().read - 5);
        assert!(allowance.kept < Allowance::whole().kept);
    }

    #[test]
    fn a_hostile_answer_is_refused() {
        let early = Err("the reader process ended early".to_owned());
        let garbled = Err("the answer of the reader process has an unknown format".to_owned());
        let said = |text: &str| received(text).map(|_| ());
        assert_eq!(said(""), early);
        assert_eq!(said("function 1 2 x\n"), early);
        assert_eq!(said("unknown why\nend\n"), Err("why".to_owned()));
        let long = format!("function 1 2 {}\nend\n", "x".repeat(10_000));
        for text in [
            "what 1\nend\n",
            "end",
            "function 1 2\nend\n",
            "function x 2 y\nend\n",
            "build-id xx\nend\n",
            "read -1\nend\n",
            "segment 1 2 99999999999999999999\nend\n",
            "row 1\nend\n",
            "row 1 at sp 8 same 0 frame 9999999999\nend\n",
            "row 1 at sp 8 same 0\nend\n",
            &long,
            &"segment 1 2 3\n".repeat(MOST_SEGMENTS + 1),
            "\n",
        ] {
            assert_eq!(said(text), garbled, "{text}");
        }
        let mut allowance = Allowance {
            kept: 100,
            ..Allowance::whole()
        };
        let many = "function 1 2 x\n".repeat(10);
        let refused = receive(many.as_bytes(), &mut allowance).unwrap_err();
        assert_eq!(refused.to_string(), NoFunctions::TooMany.to_string());
        // The addresses in this answer overflow.
        let found = received("segment 0 18446744073709551615 1\nread 1\nend\n").unwrap();
        assert_eq!(found.address(u64::MAX - 1), Some(u64::MAX));
    }

    fn read_by(script: &str, time: Duration) -> String {
        let mut allowance = Allowance {
            time,
            ..Allowance::whole()
        };
        let owner = Owner { user: 1, group: 1 };
        let command = ["sh", "-c", script].map(OsString::from);
        let file = tempfile::tempfile().unwrap();
        let read = read_as(owner, file, &command, &mut allowance);
        read.map_or_else(|why| why.to_string(), |_| "read".to_owned())
    }

    #[test]
    fn a_reader_that_fails_is_a_reason() {
        let long = Duration::from_secs(60);
        assert_eq!(read_by("echo end", long), "read");
        let early = read_by("exit 3", long);
        assert!(early.contains("ended early (exit status: 3)"), "{early}");
        let cpu = read_by("kill -XCPU $$", long);
        assert!(cpu.contains("s of CPU time"), "{cpu}");
        let slow = read_by("exec sleep 60", Duration::from_millis(50));
        assert_eq!(slow, "the reader process took too long");
        // The reader has ended, but a child process of it still holds the pipe open.
        let slow = read_by("sleep 5 & exit 0", Duration::from_millis(50));
        assert_eq!(slow, "the reader process took too long");
        let none = read_as(
            FILE,
            tempfile::tempfile().unwrap(),
            &[],
            &mut Allowance::whole(),
        );
        assert!(none.unwrap_err().to_string().contains("cannot be started"));
    }
}
