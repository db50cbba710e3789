//! No thread of punctual exits as a real-time thread. The kernel reports the priority of each
//! thread at its exit (the event `sched_process_exit`).
//!
//! A process that gets SIGKILL cannot demote its own threads, so only its other processes count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_probes::PROBES;
use punctual_trace::Tracefs;

use crate::common::{Sandbox, eventually, signal, text};
use crate::every_probe::needed;

/// The lowest priority number of the kernel that is not a real-time priority.
const FAIR: i32 = 100;

/// The exit of one thread.
#[derive(Debug)]
struct Exit {
    comm: String,
    tid: i32,
    priority: i32,
}

/// A trace instance that records the exits of chosen processes and of all that they start.
struct Exits {
    /// Keeps the mount.
    _tracefs: Tracefs,
    folder: PathBuf,
}

impl Exits {
    /// Returns `None` and prints the reason if this machine cannot trace.
    fn record() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tracefs = match Tracefs::find(Path::new("/")) {
            Ok(tracefs) => tracefs,
            Err(error) => {
                punctual_testing::skip_refused("exits", &error);
                return None;
            }
        };
        let name = format!("exits-{}-{number}", std::process::id());
        let folder = tracefs.path().join("instances").join(name);
        if let Err(error) = fs::create_dir(&folder) {
            punctual_testing::skip_refused("an instance of tracefs", &error);
            return None;
        }
        let exits = Self {
            _tracefs: tracefs,
            folder,
        };
        exits.write("options/event-fork", "1");
        // Without a process, all exits of the machine are recorded. No process has this number.
        exits.write("set_event_pid", "4194304");
        exits.write("events/sched/sched_process_exit/enable", "1");
        Some(exits)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        let written = fs::OpenOptions::new().append(true).open(&path);
        let written =
            written.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Starts a command whose threads and processes are recorded.
    fn start(&self, command: &Command) -> Child {
        let mut shell = Command::new("sh");
        // The shell has the process ID that the command will have.
        let script = "ulimit -c 0; read go; exec \"$0\" \"$@\" </dev/null";
        shell.args(["-c", script]).arg(command.get_program());
        shell.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(command.get_current_dir().unwrap());
        let pipes = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
        self.write("set_event_pid", &child.id().to_string());
        let mut gate = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut gate, b"\n").unwrap();
        child
    }

    /// Returns the recorded threads that still run.
    fn running(&self) -> Vec<i32> {
        let listed = fs::read_to_string(self.folder.join("set_event_pid")).unwrap();
        let listed = listed.lines().filter_map(|line| line.parse().ok());
        let runs = |tid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
            let after = stat.rsplit_once(") ").map(|(_, after)| after);
            after.is_some_and(|after| !after.starts_with(['Z', 'X']))
        };
        listed.filter(runs).collect()
    }

    /// Returns all exits since the last call, once nothing runs any more.
    fn all(&self) -> Vec<Exit> {
        assert!(
            eventually(|| self.running().is_empty()),
            "{:?}",
            self.running()
        );
        let trace = fs::read_to_string(self.folder.join("trace")).unwrap();
        fs::write(self.folder.join("trace"), "").unwrap();
        trace.lines().filter_map(exit).collect()
    }

    /// Runs a command to its end and returns its exits with its output.
    fn of(&self, command: &Command) -> (Vec<Exit>, String) {
        let output = self.start(command).wait_with_output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        (self.all(), said)
    }
}

impl Drop for Exits {
    fn drop(&mut self) {
        let _ = fs::write(
            self.folder.join("events/sched/sched_process_exit/enable"),
            "0",
        );
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Parses a line of the trace.
fn exit(line: &str) -> Option<Exit> {
    let (_, fields) = line.split_once("sched_process_exit: comm=")?;
    let (comm, fields) = fields.split_once(" pid=")?;
    let (tid, fields) = fields.split_once(" prio=")?;
    Some(Exit {
        comm: comm.to_owned(),
        tid: tid.parse().ok()?,
        priority: fields.split_whitespace().next()?.parse().ok()?,
    })
}

#[track_caller]
fn assert_fair(line: &str, exits: &[Exit], said: &str) {
    assert!(!exits.is_empty(), "{line}: no exit was seen: {said}");
    let real_time: Vec<&Exit> = (exits.iter()).filter(|exit| exit.priority < FAIR).collect();
    assert!(real_time.is_empty(), "{line}: {real_time:?}");
}

/// Otherwise, the other tests would prove nothing.
#[test]
fn real_time_exits_are_seen() {
    let (Some(exits), place) = (Exits::record(), Sandbox::new()) else {
        return;
    };
    let command = place.command("exec --policy fifo --priority 2 true");
    let (found, said) = exits.of(&command);
    if found.iter().any(|exit| exit.comm == "punctual") {
        punctual_testing::skip_refused("exec --policy fifo", &said);
        return;
    }
    let [exit] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((exit.comm.as_str(), exit.priority), ("true", 97));
}

#[test]
fn no_measuring_thread_exits_as_real_time() {
    let (Some(exits), place) = (Exits::record(), Sandbox::in_memory()) else {
        return;
    };
    let each = PROBES.iter().map(|probe| {
        let name = probe.name;
        format!("measure {name} {} -q -D 1s --dma-latency off", needed(name))
    });
    let ways = [
        "measure wakeup --processes -q -D 500ms",
        "measure switch --way process -q -D 500ms",
        "measure timer --wait signal --policy rr -q -D 300ms",
        "measure timer -q -D 500ms --load cpu --load fork",
        "measure timer -q -D 10m --break 1ns",
        "measure timer -q -D 500ms --cpus 9999",
        "hold-latency --latency-us 7",
        "check -q -D 1s --load none",
        "exec --policy fifo --priority 2 /does/not/exist",
        "doctor",
        "experiment --b true --block 250ms --pairs 6 --wash-out 50ms -q --parameter interval=500us \
         --threshold 1ns",
    ];
    let own = std::process::id();
    let watching = [
        format!("app lint --pid {own} -D 300ms"),
        format!("explain --pid {own} -D 300ms --budget 1s"),
        format!("watch --pid {own} -D 300ms"),
    ];
    for line in each.chain(ways.map(str::to_owned)).chain(watching) {
        let (found, said) = exits.of(&place.command(&line));
        assert_fair(&line, &found, &said);
    }
}

#[test]
fn no_thread_of_older_names_exits_as_real_time() {
    let (Some(exits), place) = (Exits::record(), Sandbox::in_memory()) else {
        return;
    };
    for line in [
        "cyclictest -q -D 1 -t 2 -p 80",
        "signaltest -q -l 100 -t 2 -p 80",
        "ptsematest -l 100 -p 80",
        "svsematest -f -l 100 -p 80",
        "sigwaittest -l 100 -p 80",
        "pmqtest -l 100 -p 80",
        "oslat -q -D 1 -f 80",
        "cyclicdeadline -q -D 1",
    ] {
        let (found, said) = exits.of(&place.command(&format!("compat {line}")));
        assert_fair(line, &found, &said);
        let threads = found.iter().filter(|exit| exit.comm != "punctual");
        assert!(threads.count() > 1, "{line}: {said}");
    }
}

#[test]
fn no_signal_makes_a_thread_exit_as_real_time() {
    let Some(exits) = Exits::record() else {
        return;
    };
    let signals: [&[&str]; 5] = [&["TERM"], &["INT"], &["HUP", "TERM"], &["QUIT"], &["ABRT"]];
    for signals in signals {
        let place = Sandbox::in_memory();
        let child = exits.start(&place.command("measure timer -q -D 10m"));
        place.wait_for_rows();
        for name in signals {
            signal(&child, name);
        }
        let said = text(&child.wait_with_output().unwrap().stderr);
        assert_fair(&format!("SIG{signals:?}"), &exits.all(), &said);
    }
}

/// The process that is killed cannot do anything about its own threads.
#[test]
fn processes_of_a_killed_run_demote_themselves() {
    let (Some(exits), place) = (Exits::record(), Sandbox::in_memory()) else {
        return;
    };
    for line in [
        "measure wakeup --processes -q -D 10m",
        "measure switch --way process -q -D 10m",
    ] {
        let mut child = exits.start(&place.command(line));
        place.wait_for_rows();
        let own = threads_of(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        let mut found = exits.all();
        found.retain(|exit| !own.contains(&exit.tid));
        assert_fair(line, &found, "");
    }
}

#[test]
fn slot_of_a_killed_service_demotes_itself() {
    let (Some(exits), place) = (Exits::record(), Sandbox::in_memory()) else {
        return;
    };
    let plan = "[[series]]\nname = 's'\nprobe = 'timer'\nduration = '8s'\nevery = '10s'\n";
    fs::write(place.path("plan.toml"), plan).unwrap();
    let mut child = exits.start(&place.command("monitor run --plan plan.toml"));
    place.wait_for_rows();
    let own = threads_of(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut found = exits.all();
    found.retain(|exit| !own.contains(&exit.tid));
    assert!(
        found.iter().any(|exit| exit.comm.starts_with("timer/")),
        "{found:?}"
    );
    assert_fair("monitor run", &found, "");
}

fn threads_of(child: &Child) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let name = |task: fs::DirEntry| task.file_name().into_string().ok();
    let names = tasks.flatten().filter_map(name);
    names.filter_map(|name| name.parse().ok()).collect()
}
