//! Tests which files and processes are trusted: journals, profiles, the process that holds a
//! setting, and the capabilities of the program file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use punctual_testing::Running;
use punctual_tune::setting;

use super::{PutBack, alone, file};
use crate::common::other_user::{as_other, give, may_become_other};
use crate::common::{Sandbox, text};

/// Computes a CRC-32 (IEEE 802.3), bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// Returns the journal of a program that was killed after it had changed a setting.
fn journal(name: &str, old: &str, new: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let records = [
        serde_json::json!({
            "record": "owner", "pid": 4_000_000_000_u32, "process_start": 1, "boot_id": boot.trim(),
        }),
        serde_json::json!({"record": "change", "number": 1, "setting": name, "old": old, "new": new}),
    ];
    let lines = records.map(|record| {
        let json = record.to_string();
        format!("{:08x} {json}\n", crc(json.as_bytes()))
    });
    lines.concat()
}

/// Runs a command with a time limit.
fn bounded(place: &Sandbox, line: &str, state: &Path) -> Output {
    let command = place.command(line);
    let mut bounded = Command::new("timeout");
    bounded
        .arg("30")
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(place.path(""))
        .env("PUNCTUAL_STORE", place.path("store.db"))
        .env("XDG_STATE_HOME", state);
    bounded.output().unwrap()
}

#[test]
fn journal_of_other_user_is_ignored() {
    if !may_become_other("files of another user") {
        return;
    }
    let _alone = alone();
    let _put_back = PutBack::new(&["swappiness"]);
    let swappiness = setting("swappiness").unwrap();
    if let Err(error) = punctual_tune::may_change(swappiness, &punctual_host::Host::live()) {
        punctual_testing::skip_refused("swappiness", &error);
        return;
    }
    let now = file(swappiness);
    let place = Sandbox::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let forged = journal("swappiness", "17", now.trim());

    let theirs = place.path("theirs");
    let folder = theirs.join("punctual");
    fs::create_dir_all(&folder).unwrap();
    for name in ["tune.journal", "applied.journal"] {
        fs::write(folder.join(name), &forged).unwrap();
        give(&folder.join(name), 0o644);
    }
    // The journal is first in a folder of root, and then in a folder of its owner.
    for _ in 0..2 {
        for line in ["list", "tune status", "tune revert"] {
            let output = bounded(&place, line, &theirs);
            let told = text(&output.stderr);
            assert!(told.contains("another user"), "{line}: {told}");
            assert_eq!(file(swappiness), now, "{line}");
        }
        give(&folder, 0o755);
        give(&theirs, 0o755);
    }
    // A pipe must not block the program.
    fs::remove_file(folder.join("tune.journal")).unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.join("tune.journal"))
        .status();
    assert!(made.unwrap().success());
    give(&folder.join("tune.journal"), 0o666);
    assert_ne!(bounded(&place, "list", &theirs).status.code(), Some(124));

    // If the same journal is in the user's own folder, it is obeyed.
    let own = place.path("state/punctual");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("tune.journal"), &forged).unwrap();
    place.done("tune status");
    assert_eq!(file(swappiness).trim(), "17");
}

#[test]
fn journal_needs_valid_setting_values() {
    let place = Sandbox::new();
    let own = place.path("state/punctual");
    fs::create_dir_all(&own).unwrap();
    let victim = place.path("victim");
    fs::write(&victim, "untouched").unwrap();
    let path = format!("0/../../../..{}", victim.display());
    for forged in [
        journal("irqbalance-banned", "0\nevil() { id; }", "none"),
        journal("thp", "never; id", "madvise"),
    ] {
        fs::write(own.join("tune.journal"), forged).unwrap();
        let told = text(&place.run("tune status").stderr);
        assert!(told.contains("is not valid for this setting"), "{told}");
        assert!(!told.contains("\nevil"), "{told}");
    }
    let mut record = journal("irq-affinity", "0", "1");
    record = record.lines().next().unwrap().to_owned() + "\n";
    let json = serde_json::json!({
        "record": "change", "number": 1, "setting": "irq-affinity", "instance": path,
        "old": "0", "new": "1",
    })
    .to_string();
    record += &format!("{:08x} {json}\n", crc(json.as_bytes()));
    fs::write(own.join("tune.journal"), record).unwrap();
    let told = text(&place.run("tune status").stderr);
    assert!(told.contains("could not restore"), "{told}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

#[test]
fn root_ignores_profiles_writable_by_others() {
    if !may_become_other("files of another user") {
        return;
    }
    let place = Sandbox::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let plan = |name: &str| bounded(&place, &format!("tune plan {name}"), &place.path("state"));
    let mine = place.path("mine.toml");
    fs::write(&mine, "[settings]\nswappiness = 10\n").unwrap();
    assert_eq!(plan("mine.toml").status.code(), Some(0));
    let refused = |name: &str, why: &str| {
        let output = plan(name);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains(why), "{name}: {told}");
    };
    fs::set_permissions(&mine, Permissions::from_mode(0o664)).unwrap();
    refused("mine.toml", "others may write to it");
    give(&mine, 0o644);
    refused("mine.toml", "another user (uid 65534)");
    std::os::unix::fs::symlink(&mine, place.path("link.toml")).unwrap();
    refused("link.toml", "it is a link");
    let pipe = place.path("pipe.toml");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused("pipe.toml", "not a regular file");
    refused("/dev/zero", "not a regular file");

    // Users may plan with a file of their own, and an endless file is not read.
    let program = Path::new(env!("CARGO_BIN_EXE_punctual"));
    let own = as_other(program)
        .args(["tune", "plan"])
        .arg(&mine)
        .output()
        .unwrap();
    let endless = as_other(program)
        .args(["tune", "plan", "/dev/zero"])
        .output()
        .unwrap();
    if text(&own.stderr).contains("ermission denied") {
        punctual_testing::skip!(User, "another user may not run {}", program.display());
        return;
    }
    assert_eq!(own.status.code(), Some(0), "{}", text(&own.stderr));
    assert_eq!(endless.status.code(), Some(2), "{}", text(&endless.stderr));
    assert!(text(&endless.stderr).contains("more than"));
}

#[test]
fn lookalike_of_holder_is_left_alone() {
    if !may_become_other("files of another user") {
        return;
    }
    let _alone = alone();
    let holder = setting("dma-latency-us").unwrap();
    if let Err(error) = punctual_tune::may_change(holder, &punctual_host::Host::live()) {
        punctual_testing::skip_refused("dma-latency-us", &error);
        return;
    }
    let place = Sandbox::new();
    let journal = place.path("state/punctual/applied.journal");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    // This process has the same command line as a real holder of the setting.
    fs::write(folder.path().join("hold-latency"), "read line\n").unwrap();
    let mut impostor = as_other(Path::new("/bin/sh"));
    impostor
        .args(["hold-latency", "--latency-us", "\u{1b}[31m7", "--journal"])
        .arg(&journal)
        .stdin(Stdio::piped())
        .current_dir(folder.path());
    let mut impostor = Running(impostor.spawn().unwrap());

    place.done("tune apply --set dma-latency-us=1999999997");
    let status = place.done("tune status");
    assert!(
        status.contains("holds /dev/cpu_dma_latency at 1999999997"),
        "{status}"
    );
    assert!(!status.contains('\u{1b}'), "{status:?}");
    place.done("list");
    place.done("tune revert");
    assert!(
        impostor.0.try_wait().unwrap().is_none(),
        "it is not ours to end"
    );
    assert_eq!(place.done("tune status"), "Nothing is applied.\n");
}

#[test]
fn holder_in_other_pid_namespace_is_kept() {
    let _alone = alone();
    let place = Sandbox::new();
    let apart = |line: &str| {
        let command = place.command(line);
        let mut apart = Command::new("unshare");
        apart
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(command.get_program())
            .args(command.get_args())
            .env("XDG_STATE_HOME", place.path("state"))
            .env("PUNCTUAL_STORE", place.path("store.db"));
        apart.output()
    };
    let tried = apart("tune status");
    let applied = place.run("tune apply --set dma-latency-us=1999999996");
    if !tried.is_ok_and(|output| output.status.success()) || !applied.status.success() {
        punctual_testing::skip!(
            Right,
            "no PID namespace, or no latency request, of one's own here"
        );
        place.run("tune revert");
        return;
    }
    let file = place.path("state/punctual/applied.journal.holder");
    let line = fs::read_to_string(file).unwrap();
    let holder = Path::new("/proc").join(line.split(' ').next().unwrap());
    assert!(holder.exists());
    let output = apart("tune revert").unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("another PID namespace"), "{told}");
    assert!(holder.exists(), "{told}");
    // The journal still contains the setting, so the next command here finishes the revert.
    place.done("tune revert");
    assert!(crate::common::eventually(|| !holder.exists()));
    assert_eq!(place.done("tune status"), "Nothing is applied.\n");
}

/// Returns the scheduling policy of a process, proc_pid_stat(5) field 41.
fn policy_of(child: &Running) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(41 - 3).unwrap().to_owned()
}

#[test]
fn file_capabilities_serve_only_own_processes() {
    if !may_become_other("files of another user") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("punctual");
    fs::copy(env!("CARGO_BIN_EXE_punctual"), &program).unwrap();
    let given = Command::new("setcap")
        .arg("cap_sys_nice+ep")
        .arg(&program)
        .output();
    if !given.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Program, "setcap(8) cannot give a capability to a file here");
        return;
    }
    let sleep = |command: &mut Command| Running(command.arg("120").spawn().unwrap());
    let roots = sleep(&mut Command::new("sleep"));
    let own = sleep(&mut as_other(Path::new("sleep")));
    let change = |child: &Running, words: &str| {
        as_other(&program)
            .args(["exec", "--pid", &child.0.id().to_string()])
            .args(words.split(' '))
            .env("HOME", "/nonexistent")
            .output()
            .unwrap()
    };
    // After a moment, setpriv(1) is replaced by sleep(1).
    let is_nobodys = || {
        let status = fs::read_to_string(format!("/proc/{}/status", own.0.id()));
        status.is_ok_and(|text| text.contains("Uid:\t65534\t65534\t65534\t65534"))
    };
    assert!(crate::common::eventually(is_nobodys));
    let done = change(&own, "-p 2");
    if !done.status.success() {
        // This also happens if the file system is mounted nosuid.
        punctual_testing::skip_refused(
            "the capability has no effect here",
            text(&done.stderr).trim(),
        );
        return;
    }
    assert_eq!(policy_of(&own), "1");
    for words in ["-p 2", "--cpus 0", "--all-threads --nice -5"] {
        let refused = change(&roots, words);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words}: {told}");
        assert!(told.contains("belongs to another user"), "{words}: {told}");
    }
    assert_eq!(policy_of(&roots), "0");
}
