//! Tests which files other users can access, and what they can do to them. In these tests, root is
//! the user of the program, and the user nobody is the other user.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_model::Completion;

use crate::common::other_user::{OTHER, as_other, chmod, may_become_other};
use crate::common::{Sandbox, eventually, instances_of, signal, text};

const RUN: &str = "measure timer -q --policy other --dma-latency off -D 200ms --warm-up 0";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn can_other_read(path: &Path) -> bool {
    as_other("cat").arg(path).output().unwrap().status.success()
}

/// Every command that writes a file (written as `@`), and the name of that file.
const WRITERS: [(&str, &str); 14] = [
    ("report last -o @", "report.html"),
    ("report last -o @", "report.md"),
    ("plot last -o @", "plot.svg"),
    ("plot last -o @", "plot.png"),
    ("export last --format csv-series -o @", "export.csv"),
    ("store bundle last --without-machine -o @", "bundle.tar.zst"),
    ("machine facts capture --sample 10ms -o @", "facts.json"),
    ("machine topology -o @", "topology.svg"),
    ("doctor --sarif @", "doctor.sarif"),
    ("doctor --junit @", "doctor.xml"),
    ("doctor --tap @", "doctor.tap"),
    (
        "measure timer -q --policy other --dma-latency off -D 50ms --json @",
        "run.json",
    ),
    (
        "compat cyclictest -q -D 1 -i 10000 --json=@",
        "cyclictest.json",
    ),
    ("man #", "punctual.1"),
];

fn line(writer: &str, path: &Path) -> String {
    let folder = path.parent().unwrap();
    writer
        .replace('@', path.to_str().unwrap())
        .replace('#', folder.to_str().unwrap())
}

#[test]
fn commands_avoid_other_users_links_and_pipes() {
    if !may_become_other("links and pipes of another user") {
        return;
    }
    let place = Sandbox::new();
    place.done(RUN);
    let victim = place.path("victim");
    fs::write(&victim, "precious").unwrap();
    chmod(&victim, 0o600);
    let mut writers = WRITERS.to_vec();
    // If the kernel's tracer is available, a trace is written as well.
    let explained = place.run(&format!("{RUN} --threshold 1us --explain"));
    if explained.status.success() && place.run("export last -f trace-dat -o -").status.success() {
        writers.push(("export last -f trace-dat -o @", "trace.dat"))
    } else {
        punctual_testing::skip_refused("export -f trace-dat", text(&explained.stderr))
    }
    let folder = place.path("shared");
    fs::create_dir(&folder).unwrap();
    chmod(&folder, 0o1777);
    for (writer, name) in writers {
        let path = folder.join(name);
        let line = line(writer, &path);
        let refused = |what: &str| {
            let stderr = place.refused(&line, 1);
            assert!(stderr.contains(what), "{line}: {stderr}");
            assert!(stderr.contains(name), "{line}: {stderr}");
        };
        symlink(&victim, &path).unwrap();
        lchown(&path, Some(OTHER), Some(OTHER)).unwrap();
        refused("a link of another user (uid 65534)");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{line}");
        assert_eq!(mode(&victim), 0o600, "{line}");
        assert!(path.is_symlink());
        fs::remove_file(&path).unwrap();

        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        lchown(&path, Some(OTHER), Some(OTHER)).unwrap();
        refused("a named pipe of another user (uid 65534)");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn replacement_keeps_mode_failure_names_file() {
    let place = Sandbox::new();
    place.done(RUN);
    let path = place.path("report.html");
    fs::write(&path, "old").unwrap();
    chmod(&path, 0o640);
    place.done("report last -o report.html");
    assert_eq!(mode(&path), 0o640);
    for line in [
        "export last --format csv-series -o /dev/full",
        "plot last -o none/plot.svg",
    ] {
        let stderr = place.refused(line, 1);
        let name = line.rsplit(' ').next().unwrap();
        assert!(stderr.contains(&format!("cannot write {name}")), "{stderr}");
        assert!(!stderr.contains(".punctual-"), "{stderr}");
    }
    // If a pipe of the user has no reader, the program must not hang.
    let pipe = place.path("pipe.html");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let stderr = place.refused("report last -o pipe.html", 1);
    assert!(
        stderr.contains("no process reads this named pipe"),
        "{stderr}"
    );
}

#[test]
fn bundle_and_store_are_private() {
    let place = Sandbox::new();
    place.done("measure timer -q --policy other -D 200ms --dma-latency off --label secret");
    place.done("store bundle last --without-machine -o own.tar.zst");
    place.done("store bundle last --without-machine -o shared.tar.zst --public");
    let child = place.spawn(&RUN.replace("200ms", "10m"));
    // The store already has rows from the first run, so wait for the lease of the second run.
    let leases = place.path("store.db.leases");
    let begun = || fs::read_dir(&leases).is_ok_and(|mut files| files.next().is_some());
    assert!(eventually(begun), "the second run did not begin");
    for name in ["own.tar.zst", "store.db", "store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&place.path(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&place.path("store.db.leases")), 0o700);
    assert_eq!(mode(&place.path("shared.tar.zst")) & 0o044, 0o044);
    if may_become_other("reading as another user") {
        chmod(&place.path("."), 0o755);
        assert!(can_other_read(&place.path("shared.tar.zst")));
        for name in ["own.tar.zst", "store.db", "store.db-wal"] {
            assert!(!can_other_read(&place.path(name)), "{name}");
        }
    }
    signal(&child, "INT");
    child.wait_with_output().unwrap();
}

#[test]
fn roots_usual_store_is_nobody_elses() {
    if !may_become_other("the usual store of root") {
        return;
    }
    let place = Sandbox::new();
    let usual = |data: &Path, line: &str| {
        let mut command = place.command(line);
        command
            .env_remove("PUNCTUAL_STORE")
            .env("XDG_DATA_HOME", data);
        command.output().unwrap()
    };
    let data = place.path("data");
    assert!(usual(&data, RUN).status.success());
    let folder = data.join("punctual");
    assert_eq!(mode(&folder), 0o700);
    // `su` without `-` keeps the environment of another user.
    chown(&data, Some(OTHER), Some(OTHER)).unwrap();
    let refused = usual(&data, "list");
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(
        told.contains("folder of another user (uid 65534)"),
        "{told}"
    );
    assert!(told.contains("--store PATH"), "{told}");
}

/// Returns the command in separate pid and time namespaces, in which processes outside of them are
/// invisible. If that is not permitted, prints the reason and returns `None`.
fn in_a_namespace(place: &Sandbox, line: &str) -> Option<Command> {
    let words = ["--pid", "--fork", "--mount-proc", "--kill-child", "--"];
    let can = Command::new("unshare").args(words).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Right, "pid namespaces: unshare(1) is not permitted");
        return None;
    }
    let inside = place.command(line);
    let mut command = Command::new("unshare");
    command
        .args(words)
        .arg(inside.get_program())
        .args(inside.get_args());
    for (name, value) in inside.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(inside.get_current_dir().unwrap());
    Some(command)
}

fn completion(place: &Sandbox) -> String {
    let listed = place.listed();
    listed[0]["completion"].as_str().unwrap().to_owned()
}

#[test]
fn run_with_unseen_process_is_not_interrupted() {
    let place = Sandbox::new();
    let Some(mut list) = in_a_namespace(&place, "list --json") else {
        return;
    };
    let child = place.spawn(&RUN.replace("200ms", "10m"));
    place.wait_for_rows();
    let listed = list.output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(rows[0]["completion"], Completion::Running.name());
    assert_eq!(completion(&place), Completion::Running.name());
    signal(&child, "INT");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert_eq!(completion(&place), Completion::Stopped.name());
    let left = fs::read_dir(place.path("store.db.leases")).unwrap();
    assert_eq!(left.count(), 0, "a lease stays");
}

/// The PID has no meaning in the namespace, but the process is still tracing.
#[test]
fn trace_instance_of_unseen_process_stays() {
    let place = Sandbox::new();
    let line = "watch -q --no-bpf";
    let probe = place.run(&format!("{line} -D 100ms"));
    if !probe.status.success() {
        punctual_testing::skip_refused("a trace instance", text(&probe.stderr));
        return;
    }
    let Some(mut list) = in_a_namespace(&place, "list") else {
        return;
    };
    let mut child = place.spawn(line);
    let pid = child.id();
    assert!(eventually(|| instances_of(pid).len() == 1));
    let listed = list.output().unwrap();
    let said = text(&listed.stderr);
    assert!(listed.status.success(), "{said}");
    assert_eq!(instances_of(pid).len(), 1, "{said}");
    // The command does not even try to remove the instance.
    assert!(!said.contains("trace"), "{said}");
    signal(&child, "KILL");
    child.wait().unwrap();
    // No process holds the instance any more. This is visible even from the namespace.
    let listed = in_a_namespace(&place, "list").unwrap().output().unwrap();
    assert!(
        eventually(|| instances_of(pid).is_empty()),
        "{}",
        text(&listed.stderr)
    );
}

#[test]
fn run_killed_in_namespace_is_interrupted() {
    let place = Sandbox::new();
    let Some(mut run) = in_a_namespace(&place, &RUN.replace("200ms", "10m")) else {
        return;
    };
    let mut child = run
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    place.wait_for_rows();
    assert_eq!(completion(&place), Completion::Running.name());
    // Killing unshare(1) also kills the program (--kill-child).
    signal(&child, "KILL");
    child.wait().unwrap();
    let interrupted = || completion(&place) == Completion::Interrupted.name();
    assert!(eventually(interrupted), "{}", completion(&place));
}

#[test]
fn import_of_unseen_process_is_kept() {
    let place = Sandbox::new();
    let Some(mut list) = in_a_namespace(&place, "list") else {
        return;
    };
    // The rest of the input is sent only after the other process has listed the recordings.
    let mut import = place.command("import -");
    let mut child = import
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = |from: u64, to: u64| {
        for cycle in from..to {
            let us = 4 + cycle * 7_919 % 101;
            writeln!(input, "{:8}:{cycle:8}:{us:8}", 0).unwrap();
        }
        input.flush().unwrap();
    };
    lines(0, 300_000);
    let begun = eventually(|| {
        let listed = place.run("list --json");
        let rows: Result<Vec<serde_json::Value>, _> = serde_json::from_slice(&listed.stdout);
        listed.status.success() && rows.is_ok_and(|rows| !rows.is_empty())
    });
    if !begun {
        punctual_testing::skip!(
            Quiet,
            "a running import: it takes nothing before its input ends"
        );
    }
    assert!(list.output().unwrap().status.success());
    lines(300_000, 310_000);
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(completion(&place), Completion::Finished.name());
}

/// Any user who can open a file can hold a lock on it. Therefore, only root can open the lock files
/// of root.
#[test]
fn another_user_cannot_stop_a_measurement() {
    if !may_become_other("locks of another user") {
        return;
    }
    let place = Sandbox::new();
    chmod(&place.path(""), 0o755);
    let locks = place.path("locks");
    let command = |line: &str| {
        let mut command = place.command(line);
        command
            .env("PUNCTUAL_LOCKS", &locks)
            .env("PUNCTUAL_STORE", "none");
        command
    };
    let mut first = command(&format!("{RUN} --cpus 0").replace("200ms", "10min"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let state = locks.join("cpu-0");
    assert!(eventually(|| state.exists()), "it does not measure");
    // All users can see which process is measuring, and another measurement on that CPU is refused.
    assert!(can_other_read(&state));
    let second = command(&format!("{RUN} --cpus 0")).output().unwrap();
    let said = text(&second.stderr);
    assert!(said.contains(&format!("process {}", first.id())), "{said}");
    // The other user holds a lock on every file that they can open.
    let hold = |path: &Path| {
        let holder = as_other("flock")
            .args(["-n", "-x", "-F"])
            .arg(path)
            .args(["sleep", "600"])
            .spawn();
        holder.unwrap()
    };
    let all = [
        locks.join("locks/cpu-0"),
        locks.join("locks"),
        state.clone(),
        locks.clone(),
    ];
    let mut holders: Vec<_> = all.iter().map(|path| hold(path)).collect();
    let refused = |holder: &mut std::process::Child| holder.wait().unwrap().code() != Some(0);
    assert!(
        holders[..2].iter_mut().all(refused),
        "another user can hold a lock of root"
    );
    signal(&first, "INT");
    first.wait().unwrap();
    let done = command(&format!("{RUN} --cpus 0")).output().unwrap();
    assert!(
        matches!(done.status.code(), Some(0)),
        "{}",
        text(&done.stderr)
    );
    for holder in &mut holders[2..] {
        let _ = holder.kill();
        let _ = holder.wait();
    }
}
