//! Tests with real processes, and with the real clock source if it can be written.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // test helpers are part of the tests

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_host::netlink::Netlink;
use punctual_host::{Coalescing, Delays, Direction, ETHTOOL, Host};
use punctual_model::Setting;
use punctual_tune::{
    How, Journal, Locations, Options, Plan, Request, Wish, apply, hold_latency, may_change,
    offered, recover, revert, setting, value,
};

const ROOT: &str = "PUNCTUAL_TEST_ROOT";
const JOURNAL: &str = "PUNCTUAL_TEST_JOURNAL";
const VALUE: &str = "PUNCTUAL_TEST_VALUE";

fn clock() -> &'static Setting {
    setting("clocksource").unwrap()
}

/// Not a test: this is the code of the child process that is killed.
#[test]
fn as_a_child_change_and_wait() {
    let (Some(root), Some(journal)) = (std::env::var_os(ROOT), std::env::var_os(JOURNAL)) else {
        return;
    };
    let value = std::env::var(VALUE).unwrap();
    let mut journal = Journal::open(Path::new(&journal), &Host::new(root)).unwrap();
    journal.apply(clock(), &value).unwrap();
    eprintln!("CHANGED");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

const TAP: &str = "PUNCTUAL_TEST_TAP";

/// If the kernel provides no device for the test, returns an error with the reason.
fn lacking() -> Result<(), String> {
    for words in [
        "mount -t sysfs none /sys",
        "ip tuntap add dev punctual0 mode tap",
    ] {
        let mut words_of = words.split(' ');
        let done = Command::new(words_of.next().unwrap())
            .args(words_of)
            .output();
        let done = done.map_err(|error| format!("{words}: {error}"))?;
        if !done.status.success() {
            return Err(format!(
                "{words}: {}",
                String::from_utf8_lossy(&done.stderr)
            ));
        }
    }
    let before = Coalescing::only(
        Direction::Receive,
        Delays {
            frames: Some(64),
            ..Delays::default()
        },
    );
    let request = before.request("punctual0").unwrap();
    let link = Netlink::open(ETHTOOL).map_err(|error| error.to_string())?;
    link.execute(20, &request)
        .map_err(|error| error.to_string())
}

/// Not a test. In its own network and mount namespaces, creates a device whose driver delays
/// packets, changes this setting, and restores it.
#[test]
fn as_a_child_hold_no_packets_back() {
    if std::env::var_os(TAP).is_none() {
        return;
    }
    if let Err(why) = lacking() {
        eprintln!("LACKING {}", why.trim());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let places = Locations::next_to(folder.path().join("tune.journal"));
    let host = Host::live();
    let shown = || Coalescing::read("punctual0").unwrap().to_string();
    let request = Request {
        sets: vec![Wish::parse("rx-coalescing-us=0").unwrap()],
        ..Request::default()
    };
    let plan = Plan::make(&request, &host, &places.applied).unwrap();
    assert_eq!(shown(), "rx-frames 64");
    let applied = apply(&plan, &host, &places, Options::default()).unwrap();
    assert_eq!(applied.changes.len(), 1, "{applied:?}");
    assert_eq!(shown(), "rx-frames 1");
    revert(&host, &places, false).unwrap();
    assert_eq!(shown(), "rx-frames 64");
    eprintln!("PUT BACK");
}

#[test]
fn real_cards_coalescing_is_disabled_and_restored() {
    let child = Command::new("unshare")
        .args(["--net", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_child_hold_no_packets_back", "--nocapture"])
        .env(TAP, "1")
        .output();
    let child = match child {
        Ok(child) => child,
        Err(error) => {
            punctual_testing::skip!(Program, "unshare cannot be run: {error}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&child.stderr);
    // If it may not create namespaces, unshare(1) exits.
    let ran = String::from_utf8_lossy(&child.stdout).contains("running 1 test");
    if let Some(why) = said.lines().find(|line| line.starts_with("LACKING")) {
        match why {
            // This happens if ip(8) is that of Busybox, which cannot create such a device, or if
            // ip(8) is not installed.
            why if why.contains("BusyBox")
                || why.contains("ip tuntap add dev punctual0 mode tap: No such") =>
            {
                punctual_testing::skip!(Program, "no device to try on: {why}");
            }
            // This is the error for a missing /dev/net/tun.
            why if why.contains("open: No such file or directory") => {
                punctual_testing::skip!(Kernel, "no device to try on: {why}");
            }
            why if why.contains("ermission denied") || why.contains("not permitted") => {
                punctual_testing::skip!(Right, "no device to try on: {why}");
            }
            why => punctual_testing::skip_refused("no device to try on", why),
        }
    } else if !ran {
        assert!(said.starts_with("unshare: "), "{said}");
        punctual_testing::skip!(Right, "unshare(1) cannot make a network namespace: {said}");
    } else {
        assert!(
            child.status.success() && said.contains("PUT BACK"),
            "{said}"
        );
    }
}

/// Starts a process that has changed the clock source and stays alive.
fn child(root: &Path, journal: &Path, value: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_child_change_and_wait", "--nocapture"])
        .env(ROOT, root)
        .env(JOURNAL, journal)
        .env(VALUE, value)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let mut said = String::new();
    let changed = lines.any(|line| {
        let line = line.unwrap();
        said.push_str(&line);
        line == "CHANGED"
    });
    if changed {
        return child;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the child did not change anything: {said}");
}

/// Kills a child that has set `value`, and recovers its change.
fn kill_and_recover(root: &Path, journal: &Path, value: &str) {
    let host = Host::new(root);
    let old = punctual_tune::value(clock(), &host).unwrap();
    let mut child = child(root, journal, value);
    assert_eq!(punctual_tune::value(clock(), &host).unwrap(), value);
    assert_eq!(recover(journal, &host).unwrap(), [], "its owner lives");
    assert!(Journal::open(journal, &host).is_err());
    child.kill().unwrap();
    // The child is dead but not yet reaped: a zombie does not count as a running owner.
    let restored = loop {
        let restored = recover(journal, &host).unwrap();
        if !restored.is_empty() {
            break restored;
        }
        std::thread::yield_now();
    };
    child.wait().unwrap();
    assert_eq!(punctual_tune::value(clock(), &host).unwrap(), old);
    assert_eq!(restored.len(), 1);
    assert!(matches!(&restored[0].how, How::Written { found, ours: true } if found == value));
    assert_eq!(recover(journal, &host).unwrap(), []);
}

#[test]
fn a_killed_process_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let sources = root.join("sys/devices/system/clocksource/clocksource0");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(sources.join("current_clocksource"), "tsc\n").unwrap();
    std::fs::write(sources.join("available_clocksource"), "tsc hpet \n").unwrap();
    // The processes are real, but /sys is a tree of files made for the test.
    symlink("/proc", root.join("proc")).unwrap();
    kill_and_recover(root, &root.join("state/tune.journal"), "hpet");
}

/// Restores the clock source, however the test ends.
struct PutBack(String);

impl Drop for PutBack {
    fn drop(&mut self) {
        let file = Path::new("/").join(clock().path().trim_start_matches('/'));
        if std::fs::read_to_string(&file).is_ok_and(|now| now.trim() != self.0) {
            eprintln!("the clock source was not put back; doing it now");
            let _ = std::fs::write(file, &self.0);
        }
    }
}

#[test]
fn real_clock_source_is_changed_and_restored() {
    let host = Host::live();
    let old = value(clock(), &host).unwrap_or_default();
    let offered = offered(clock(), &host).ok().flatten().unwrap_or_default();
    let Some(other) = offered.iter().find(|source| **source != old) else {
        punctual_testing::skip!(Hardware, "the machine has only one clock source ({old})");
        return;
    };
    if let Err(error) = may_change(clock(), &host) {
        punctual_testing::skip_refused("the clock source", &error);
        return;
    }
    let _put_back = PutBack(old.clone());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.journal");

    let mut journal = Journal::open(&path, &host).unwrap();
    if let Err(error) = journal.apply(clock(), other) {
        punctual_testing::skip_refused(format!("the kernel does not change to {other}"), &error);
        return;
    }
    assert_eq!(&value(clock(), &host).unwrap(), other);
    let restored = journal.revert_all().unwrap();
    assert_eq!(restored[0].value, old);
    assert_eq!(value(clock(), &host).unwrap(), old);
    drop(journal);

    kill_and_recover(Path::new("/"), &path, other);
}

const HELD: &str = "PUNCTUAL_TEST_HELD";
/// The kernel reports this value if nothing limits idle states, so holding it changes nothing.
const NO_LIMIT_US: i32 = 2_000_000_000;

/// Not a test: this is the code of the process that holds the request.
#[test]
fn as_a_child_hold_the_request() {
    if let Some(journal) = std::env::var_os(HELD) {
        hold_latency(NO_LIMIT_US, Path::new(&journal)).unwrap();
    }
}

#[test]
fn holder_describes_itself_until_it_is_ended() {
    if let Err(error) = may_change(setting("dma-latency-us").unwrap(), &Host::live()) {
        punctual_testing::skip_refused("the device of the latency request", &error);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("tune.journal");
    let file = folder.path().join("tune.journal.holder");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_child_hold_the_request"])
        .env(HELD, &journal)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let line = loop {
        let line = std::fs::read_to_string(&file).unwrap_or_default();
        if line.ends_with('\n') {
            break line;
        }
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the holder ended: {ended:?}");
        std::thread::yield_now();
    };
    let start = Host::live().process_start(child.id()).unwrap();
    let exe = std::env::current_exe().unwrap();
    let own = format!("{} {start} {NO_LIMIT_US} {}\n", child.id(), exe.display());
    assert_eq!(line, own);
    child.kill().unwrap();
    child.wait().unwrap();
}
