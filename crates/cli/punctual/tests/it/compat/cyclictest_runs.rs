//! Runs of cyclictest: how they start, break, end and are stored.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved, eventually, signal, text};
use crate::compat::stage::{cyclictest, done, may_hold_latency, shape, without_latency};

const BREAK: &str = include_str!("../../fixtures/cyclictest-2.4-break.txt");

#[test]
fn break_is_reported_strict_sets_status() {
    let place = Sandbox::new();
    let line = "-t2 -i 200 -a -b 1 -q -D 20 --json=j";
    let (out, said) = done(&place, line);
    assert!(said.contains("# punctual: stopped at a break: "), "{said}");
    let lines: Vec<String> = without_latency(&out).lines().map(str::to_owned).collect();
    let original: Vec<&str> = BREAK.lines().skip(1).collect();
    assert_eq!(lines.len(), original.len(), "{out}");
    assert!(lines[2].starts_with("# Thread Ids: "));
    let ids: Vec<&str> = lines[2].split(' ').skip(3).collect();
    let thread = lines[3].strip_prefix("# Break thread: ").unwrap();
    assert!(
        ids.iter().any(|id| id.trim_start_matches('0') == thread),
        "{out}"
    );
    let value: u64 = lines[4]
        .strip_prefix("# Break value: ")
        .unwrap()
        .parse()
        .unwrap();
    assert!(value > 1, "{out}");
    let code = || {
        let json: Value =
            serde_json::from_str(&fs::read_to_string(place.path("j")).unwrap()).unwrap();
        json["return_code"].as_i64()
    };
    assert_eq!(code(), Some(0));
    let mut strict = cyclictest(&place, line);
    let output = strict.env("PUNCTUAL_STRICT", "1").output().unwrap();
    assert_eq!((output.status.code(), code()), (Some(3), Some(3)));
}

#[test]
fn run_limits_the_deepest_idle_state() {
    let states = |cpu: &str| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let mut names: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        names.sort_by_key(fs::DirEntry::path);
        let read = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("disable"));
        names
            .iter()
            .map(|entry| read(entry).unwrap_or_default())
            .collect::<String>()
    };
    let place = Sandbox::new();
    let before = states("0");
    let run = cyclictest(&place, "-a 0 -t1 -q -l 50 --deepest-idle-state=0").output();
    let output = run.unwrap();
    let said = text(&output.stderr);
    let told = "WARN: not setting cpu_dma_latency, --deepest-idle-state is set instead";
    assert!(said.contains(told), "{said}");
    assert_eq!(states("0"), before);
    if before.is_empty() {
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("no idle state was disabled"), "{said}");
        return;
    }
    // If there are idle states, they are disabled and later restored, or the tool refuses to run
    // because it lacks privileges.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
}

#[test]
fn what_is_wrong_is_refused_on_stderr() {
    let place = Sandbox::new();
    for (line, reason) in [
        ("--nothing", "unrecognized option '--nothing'"),
        ("-Z", "invalid option -- 'Z'"),
        ("-C", "--tracemark"),
        ("-i 1500ns", "'1500ns' is not a whole number of us"),
        ("-i 5m", "'5m' is not a whole number of us"),
        ("-l 1k", "'1k' is not a whole number"),
        ("-i 5", "'5' is not a time from 20 to"),
        ("-p 100", "a priority from 0 to 99"),
        ("-t0x4", "--threads"),
        ("-t0", "a number of threads"),
        ("-a 7000", "--affinity"),
        ("-D 500ms", "a whole number of seconds"),
        ("-h 0", "a time from 1 to"),
        ("-h", "option requires an argument -- 'h'"),
        ("-c 2", "0 or 1"),
        ("--clock=aux3", "an auxiliary clock"),
        ("--clock=aux8", "0 or 1"),
        ("-o 5", "only meaningful, if verbose"),
        ("--policy=fast", "one of other"),
        ("-A --secaligned", "give one of them"),
        ("--la=5", "ambiguous"),
    ] {
        let output = cyclictest(&place, &format!("-q -l 2 {line}"))
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains(reason), "{line}: {said}");
        assert!(
            said.contains("cyclictest V 2.10\nUsage:\ncyclictest <options>\n"),
            "{said}"
        );
        assert_eq!(text(&output.stdout), "", "{line}");
    }
    assert_eq!(place.refused("compat nothing", 2).lines().count(), 1);
    let (help, _) = done(&place, "--help");
    assert!(help.starts_with("cyclictest V 2.10\nUsage:\n"), "{help}");
}

#[test]
fn run_is_kept_unless_declined() {
    let place = Sandbox::new();
    done(&place, "-t1 -q -l 5");
    assert_eq!(place.listed().len(), 1);
    let recording = place.last();
    assert_eq!(recording.probe.name, "timer");
    assert!(recording.probe.command_line[0].ends_with("cyclictest"));
    assert_eq!(recording.threads[0].accounting.warm_up, 0);

    let runs = |store: &str| {
        let mut command = cyclictest(&place, "-t1 -q -l 5");
        let output = command.env("PUNCTUAL_STORE", store).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("T: 0 ("));
        text(&output.stderr)
    };
    assert_eq!(runs("none").matches("store").count(), 0);
    assert!(!place.path("none").exists());
    assert!(runs("/proc/nowhere/db").contains("# punctual: the recording could not be stored"));
    assert_eq!(place.listed().len(), 1);
    // The tool also works through the verb `compat`.
    let out = place.done("compat cyclictest -t1 -q -l 5");
    assert!(out.contains("T: 0 ("), "{out}");
    assert_eq!(place.listed().len(), 2);
}

/// Options of punctual can also be written before the name of the tool, not only after it.
#[test]
fn options_of_punctual_go_before_the_tool() {
    let place = Sandbox::new();
    let store = place.path("elsewhere.db");
    let store = store.to_str().unwrap();
    let tool = "compat cyclictest -t1 -q -l 5 --json=out.json";
    for line in [
        format!("--store {store} {tool}"),
        format!("--color=never --store={store} {tool}"),
        format!("compat --store {store} cyclictest -t1 -q -l 5 -D 1"),
        format!("--store none {tool}"),
    ] {
        let output = place.run(&line);
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        assert!(out.contains("T: 0 ("), "{line}: {out}");
    }
    assert!(!place.path("none").exists());
    assert!(place.listed().is_empty());
    let list = place.done(&format!("--store {store} list --json"));
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.len(), 3);
    // The command line in the tool's output begins with the name of the tool.
    let file: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out.json")).unwrap()).unwrap();
    assert_eq!(file["cmdline:"], "cyclictest -t1 -q -l 5 --json=out.json");
    // An option after the name belongs to the tool.
    let line = format!("--store {store} compat cyclictest -l 2 --store x");
    assert!(place.refused(&line, 1).contains("cyclictest <options>"));
    let said = place.refused(&format!("--store {store} compat nothing -l 2"), 2);
    assert!(
        said.contains("unknown compatible command 'nothing'"),
        "{said}"
    );
}

#[test]
fn a_signal_ends_it_with_its_lines() {
    let place = Sandbox::new();
    for name in ["INT", "TERM"] {
        let child = cyclictest(&place, "-t1 -q")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        place.wait_for_rows();
        signal(&child, "USR1");
        // The signal handlers only set a flag, which is polled ten times a second.
        std::thread::sleep(std::time::Duration::from_millis(300));
        signal(&child, name);
        signal(&child, name);
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        assert_eq!(status.code(), Some(0));
        let (out, said) = (text(&stdout), text(&stderr));
        assert!(out.lines().last().unwrap().starts_with("T: 0 ("), "{out}");
        assert!(
            said.contains("# cyclictest current status:\nT: 0 ("),
            "{said}"
        );
        place.run("store delete last --yes");
    }
}

#[test]
fn alarm_ends_run_with_histogram_and_json() {
    let place = Sandbox::new();
    let child = cyclictest(&place, "-t1 -q -h 50 --json=j --notrace")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    place.wait_for_rows();
    signal(&child, "ALRM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let out = text(&output.stdout);
    assert!(out.contains("# Total:") && out.ends_with("\n\n"), "{out}");
    let json = fs::read_to_string(place.path("j")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["thread"]["0"]["cycles"].as_u64() > Some(0), "{json}");
}

/// Scripts that redirect stderr and stdout to one file ignore lines with `#`. Warnings about
/// missing privileges must therefore begin with `#`. They are printed once.
#[test]
fn missing_privileges_add_no_histogram_row() {
    let place = Sandbox::new();
    let (_, said) = done(&place, "-t1 -q -h 50 -l 20");
    assert!(said.lines().all(|line| line.starts_with('#')), "{said}");
    assert!(said.matches("measured without").count() <= 1, "{said}");
    assert!(!said.contains("limits.conf"), "{said}");
}

#[test]
fn readers_of_the_pipe_get_the_lines() {
    let place = Sandbox::new();
    let child = cyclictest(&place, "-t1 -q -F pipe")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pipe = place.path("pipe");
    assert!(eventually(|| pipe.exists()));
    let read = fs::read_to_string(&pipe).unwrap();
    assert!(
        read.starts_with("T: 0 (") && read.ends_with('\n'),
        "{read:?}"
    );
    signal(&child, "INT");
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(!pipe.exists());
}

#[test]
fn all_run_modes_account_for_cycles() {
    let place = Sandbox::new();
    for line in [
        "-x",
        "-r",
        "-s",
        "-c 1",
        "-A 50",
        "-A",
        "-N",
        "-R -m",
        "-M -u",
        "--spike=1 --spike-nodes 3",
        "--mainaffinity=0 -n",
        "--policy=normal",
        "--latency=5",
        "--default-system",
    ] {
        if line.contains("-m") && may_not_lock_memory() {
            punctual_testing::skip!(Right, "memory may not be locked here");
            continue;
        }
        let (out, _) = done(&place, &format!("{line} -t2 -i 500 -d 0 -q -l 30"));
        assert!(out.contains(" C:     30 "), "{line}: {out}");
        assert_conserved(&place.last());
    }
    let (out, _) = done(&place, "--spike=1 --spike-nodes 3 -t1 -i 500 -q -l 30");
    let spikes: Vec<&str> = out
        .lines()
        .filter(|line| line.contains(" Spike:"))
        .collect();
    assert_eq!(spikes.len(), 3, "{out}");
    assert_eq!(
        shape(spikes[0]).split("TS").next(),
        Some("T:<2> Spike:<8>: ")
    );
    assert!(
        out.contains("\nspikes = ") && out.ends_with("\n\n"),
        "{out}"
    );
}

/// Returns whether the option `-m` would be refused.
fn may_not_lock_memory() -> bool {
    let output = Command::new("sh").args(["-c", "ulimit -l"]).output();
    let limit = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    limit.trim() != "unlimited" && !may_hold_latency()
}

/// CKI and others write `5us` as the value of any option that takes a time.
#[test]
fn every_time_may_have_a_unit() {
    let place = Sandbox::new();
    let line = "-t1 -q -l 3 -i 1ms -d 0us -b 10s --spike=5us --latency=5us -A 5us -h 7us -D 1m";
    let (out, _) = done(&place, line);
    let rows = out.lines().filter(|line| line.starts_with("0000"));
    assert_eq!(rows.count(), 7, "{out}");
    assert_eq!(
        place.last().probe.parameters["interval_ns"],
        serde_json::Value::from(1_000_000)
    );
    let (out, _) = done(
        &place,
        "-t1 -q -l 3 -H 7us --secaligned=5us --clock=realtime",
    );
    assert!(out.contains("000006 "), "{out}");
    assert_eq!(place.last().probe.parameters["clock"], "realtime");
    // In ns, like all times with -N.
    let (out, _) = done(&place, "-t1 -q -l 3 -N -b 1s -h 1us");
    assert!(out.contains("000999 ") && !out.contains("001000 "), "{out}");
}

#[test]
fn ignored_words_are_named() {
    let place = Sandbox::new();
    for (tool_line, word) in [
        ("cyclictest -q -l 2 -A bogus", "bogus"),
        ("cyclictest -q -l 2 --secaligned bogus", "bogus"),
        ("cyclictest -q -l 2 -t two", "two"),
        ("cyclictest -q -l 2 -a foo", "foo"),
        ("ptsematest -q -l 2 -t two", "two"),
        ("ptsematest -q -l 2 -a 0", "0"),
        ("signaltest -q -l 2 -a foo", "foo"),
    ] {
        let output = place.run(&format!("compat {tool_line}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{tool_line}: {said}");
        let told = format!("ignored '{word}': not an option or its value");
        assert!(said.contains(&told), "{tool_line}: {said}");
    }
    let (_, said) = done(&place, "-q -l 2 -A 5 -t 1 -a 0");
    assert!(!said.contains("ignored"), "{said}");
}

#[test]
fn threads_of_equal_intervals_make_all_cycles() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t 3 -d 0 -i 500000 -l 1 -q");
    let cycles = out.lines().filter(|line| line.contains(" C:      1 "));
    assert_eq!(cycles.count(), 3, "{out}");
}

/// ChromiumOS counts the lines and adds the break value.
#[test]
fn break_value_is_not_printed_as_sample() {
    let place = Sandbox::new();
    let output = cyclictest(&place, "-v -t1 -i 1000 -b 1 -D 20")
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    let value = out
        .lines()
        .find_map(|line| line.strip_prefix("# Break value: "));
    let recorded = place.last().threads[0].accounting.recorded;
    // Each wake-up takes more than 1 us, so the first one causes the break.
    let lines = out
        .lines()
        .filter(|line| line.trim_start().starts_with("0:"));
    assert!(value.is_some(), "{out}");
    assert_eq!(lines.count() as u64 + 1, recorded, "{out}");
}

#[test]
fn run_shorter_than_interval_is_valid() {
    let place = Sandbox::new();
    for line in [
        "cyclictest -t1 -q -i 2000000 -D 1",
        "ptsematest -q -i 5000000 -D 1",
        "pmqtest -q -f 5000 -T 50000 -D 1",
    ] {
        place.done(&format!("compat {line}"));
    }
    let pmq = place.last();
    assert_eq!(pmq.threads[0].accounting.recorded, 0);
}
