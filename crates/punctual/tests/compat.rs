//! Called by the name of an older tool: its lines, files and exit status, and
//! what other people's scripts make of them.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use common::{Place, assert_conserved, eventually, signal, text};
use serde_json::Value;

const LINES: &str = include_str!("fixtures/cyclictest-2.4-lines.txt");
const LIVE: &str = include_str!("fixtures/cyclictest-2.4-live-head.txt");
const VERBOSE: &str = include_str!("fixtures/cyclictest-2.4-verbose-head.txt");
const BREAK: &str = include_str!("fixtures/cyclictest-2.4-break.txt");
const SUMS: &str = include_str!("fixtures/cyclictest-2.4-H20.txt");
const JSON: &str = include_str!("../../formats/tests/fixtures/cyclictest-2.10-h200.json");
const HISTOGRAM: &str = include_str!("../../formats/tests/fixtures/cyclictest-2.10-h200.txt");

/// The command under the tool's name, as a shell would find it.
fn cyclictest(place: &Place, line: &str) -> Command {
    let link = place.path("cyclictest");
    if !link.is_symlink() {
        symlink(env!("CARGO_BIN_EXE_punctual"), &link).unwrap();
    }
    let mut command = Command::new(link);
    let like = place.command("");
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .args(line.split_whitespace());
    command
}

fn done(place: &Place, line: &str) -> (String, String) {
    let output = cyclictest(place, line).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    (text(&output.stdout), said)
}

/// Each number, with the blanks before it, by its width, where it is padded to
/// one; load averages and times have none.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut blanks = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let digits: usize = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            shape.push_str(&format!("<{}>", blanks.len() + digits));
            blanks.clear();
            rest = &rest[digits..];
            continue;
        }
        if next == ' ' {
            blanks.push(' ');
        } else {
            shape.push_str(&blanks);
            blanks.clear();
            shape.push(next);
        }
        rest = &rest[next.len_utf8()..];
    }
    shape + &blanks
}

/// The line that only who may open the file gets.
fn without_latency(text: &str) -> String {
    text.replace("# /dev/cpu_dma_latency set to 0us\n", "")
}

fn may_hold_latency() -> bool {
    fs::OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")
        .is_ok()
}

#[test]
fn final_lines_have_the_originals_shape() {
    let place = Place::new();
    let (out, _) = done(&place, "-t2 -a -i 200 -D1 -q");
    if may_hold_latency() {
        assert!(
            out.starts_with("# /dev/cpu_dma_latency set to 0us\n"),
            "{out}"
        );
    } else {
        punctual_testing::skip!("the exit latency of the CPUs may not be set here");
    }
    // The fixture's threads had priority 95, 200 and 700 µs.
    assert_eq!(
        shape(&without_latency(&out)),
        shape(&without_latency(LINES))
    );
    let recording = place.last();
    assert_conserved(&recording);
    let cycles = recording.threads[0].accounting.recorded;
    assert!(out.contains(&format!(" C:{cycles:7} ")), "{out}");
}

#[test]
fn live_lines_have_the_originals_shape() {
    let place = Place::new();
    let (out, _) = done(&place, "-t2 -i 200 -l 400 --laptop");
    let blocks: Vec<&str> = out.split("\x1b[4A").collect();
    assert!(blocks.len() > 2, "{out}");
    let original: Vec<String> = without_latency(LIVE)
        .split("\x1b[4A")
        .map(str::to_owned)
        .collect();
    let lines = |block: &str| -> Vec<String> { block.lines().skip(1).map(shape).collect() };
    for block in &blocks {
        let head = block.lines().next().unwrap();
        assert!(head.starts_with("policy: other/other: loadavg: "), "{head}");
        assert!(head.ends_with("          "), "{head}");
        assert_eq!(lines(block), lines(&original[0]));
        assert!(block.ends_with('\n'));
    }
    assert!(blocks.last().unwrap().contains(" C:    400 "), "{out}");
}

#[test]
fn values_have_the_originals_shape() {
    let place = Place::new();
    let (out, _) = done(&place, "-v -t2 -i 200 -l 40");
    let lines: Vec<&str> = out.lines().collect();
    let original: Vec<&str> = VERBOSE.lines().collect();
    assert!(lines[0].starts_with("Max CPUs = ") && lines[1].starts_with("Online CPUs = "));
    let from = |lines: &[&str]| {
        let first = lines
            .iter()
            .position(|l| l.starts_with("Thread 0"))
            .unwrap();
        lines[first..first + 4].join("\n")
    };
    assert_eq!(shape(&from(&lines)), shape(&from(&original)));
    assert_eq!(
        lines[lines.len() - 1].len(),
        "       0:       0:       8".len()
    );
    // Each value of each thread, in its order.
    let values: Vec<(u64, u64)> = (lines.iter())
        .filter(|line| line.matches(':').count() == 2)
        .map(|line| {
            let number = |nth: usize| line.split(':').nth(nth).unwrap().trim().parse().unwrap();
            (number(0), number(1))
        })
        .collect();
    let of = |thread: u64| {
        values
            .iter()
            .filter(move |(t, _)| *t == thread)
            .map(|(_, c)| *c)
    };
    assert_eq!(of(0).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert!(of(1).eq(0..of(1).count() as u64) && of(1).count() > 5);

    let (out, _) = done(&place, "-v -o 10 -t1 -i 200 -l 40");
    assert_eq!(
        out.lines().filter(|l| l.matches(':').count() == 2).count(),
        4
    );
}

#[test]
fn histograms_have_the_originals_lines() {
    let place = Place::new();
    let (out, _) = done(&place, "-t2 -h 200 -q -l 100");
    let shapes = |text: &str| -> Vec<String> {
        let tail = text.split("# Min").nth(1).unwrap();
        tail.lines().take(5).map(shape).collect()
    };
    assert_eq!(shapes(&out), shapes(HISTOGRAM));
    assert!(out.ends_with("\n\n"), "{out:?}");
    let row = out.lines().find(|line| line.starts_with('0')).unwrap();
    assert_eq!(shape(row), "<6><7>\t<6>");
    // Sparse: no row is empty.
    assert!(
        !out.lines().any(|line| line.ends_with(" 000000\t000000")),
        "{out}"
    );

    let (out, _) = done(&place, "-t2 -H 20 -q -l 100");
    let summary =
        |text: &str, title: &str| shape(text.lines().find(|line| line.contains(title)).unwrap());
    for title in [
        "Min Latencies",
        "Avg Latencies",
        "Max Latencies",
        "Overflows:",
    ] {
        assert_eq!(summary(&out, title), summary(SUMS, title));
    }

    let mut all = cyclictest(&place, "-t1 -h 50 -q -l 20 --histfile=rows");
    all.env("RT_TESTS_FULL_HISTOGRAM", "1");
    assert_eq!(without_latency(&text(&all.output().unwrap().stdout)), "");
    let rows = fs::read_to_string(place.path("rows")).unwrap();
    let numbers = rows
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    assert!(numbers.eq(0..50), "{rows}");
}

/// The keys of a JSON text in their order, up to ours.
fn keys(json: &str) -> Vec<String> {
    json.lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": "))
        .map(|(key, _)| key.to_owned())
        .take_while(|key| key != "punctual")
        // Rows of histograms.
        .filter(|key| key.parse::<u64>().is_err())
        .collect()
}

#[test]
fn json_has_the_originals_keys_in_their_order() {
    let place = Place::new();
    done(&place, "-t2 -h 200 -q -l 100 --json=a.json");
    let json = fs::read_to_string(place.path("a.json")).unwrap();
    assert_eq!(keys(&json), keys(JSON));
    let value: Value = serde_json::from_str(&json).unwrap();
    let recording = place.last();
    assert_eq!(value["punctual"]["recording"], recording.id.to_string());
    for (place, thread) in recording.threads.iter().enumerate() {
        let json = &value["thread"][place.to_string()];
        assert_eq!(json["cycles"], thread.accounting.recorded);
        assert_eq!(json["max"], thread.histogram.max().unwrap().whole_micros());
        let rows = json["histogram"].as_object().unwrap().values();
        let ours = &value["punctual"]["thread"][place.to_string()];
        let sum: u64 = rows.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(
            sum + ours["overflow"].as_u64().unwrap(),
            thread.histogram.count()
        );
    }
    // Without -h there is no histogram, and a quote in a name breaks nothing.
    let (out, _) = done(&place, "-t1 -q -l 5 --json=- quo\"te\\");
    let json: String = without_latency(&out)
        .lines()
        .take_while(|l| !l.starts_with("T:"))
        .collect();
    let value: Value = serde_json::from_str(&json).unwrap();
    assert!(value["cmdline:"].as_str().unwrap().ends_with("quo\"te\\"));
    assert!(value["thread"]["0"]["histogram"].is_null());
    assert_eq!(value["thread"]["0"]["cpu"], -1);
}

#[test]
fn threads_get_cpus_and_intervals_as_in_the_original() {
    let place = Place::new();
    let of = |line: &str| {
        let (out, _) = done(&place, &format!("{line} -q -l 3 --json=j"));
        let json = fs::read_to_string(place.path("j")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let threads = json["thread"].as_object().unwrap();
        let cpus: Vec<i64> = threads
            .values()
            .map(|t| t["cpu"].as_i64().unwrap())
            .collect();
        let intervals: Vec<String> = out
            .lines()
            .filter_map(|line| {
                line.split(" I:")
                    .nth(1)?
                    .split(' ')
                    .next()
                    .map(str::to_owned)
            })
            .collect();
        (cpus, intervals.join(" "))
    };
    let all: Vec<i64> = punctual_host::Host::live()
        .allowed()
        .unwrap()
        .iter()
        .map(i64::from)
        .collect();
    let first = all[0];
    assert_eq!(of("-t3"), (vec![-1; 3], "1000 1500 2000".to_owned()));
    assert_eq!(
        of(&format!("-t 2 -a {first}")),
        (vec![first; 2], "1000 1500".to_owned())
    );
    assert_eq!(of("-t1 -a -d0"), (vec![first], "1000".to_owned()));
    assert_eq!(of("-S -i 2000 -d 0").0, all);
    assert_eq!(of("-t2 -h 100"), (vec![-1; 2], String::new()));
}

#[test]
fn a_break_is_said_and_strict_makes_it_a_status() {
    let place = Place::new();
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
fn what_is_wrong_is_refused_on_stderr() {
    let place = Place::new();
    for (line, reason) in [
        ("--nothing", "unrecognized option '--nothing'"),
        ("-Z", "invalid option -- 'Z'"),
        ("-C", "--tracemark"),
        ("-i 1ms", "'1ms' is not a whole number"),
        ("-i 5", "'5' is not 20 or more"),
        ("-p 100", "a priority from 0 to 99"),
        ("-t0x4", "--threads"),
        ("-t0", "a number of threads"),
        ("-a 7000", "--affinity"),
        ("-D 1w", "a time"),
        ("-h 0", "1 or more"),
        ("-h", "option requires an argument -- 'h'"),
        ("-c 2", "0 or 1"),
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
fn a_run_is_kept_unless_it_shall_not_be() {
    let place = Place::new();
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
    assert!(runs("/proc/nowhere/db").contains("# punctual: the recording could not be kept"));
    assert_eq!(place.listed().len(), 1);
    // The same through the verb.
    let out = place.done("compat cyclictest -t1 -q -l 5");
    assert!(out.contains("T: 0 ("), "{out}");
    assert_eq!(place.listed().len(), 2);
}

/// Options of punctual stand before the tool's name, not only its own after it.
#[test]
fn options_of_punctual_go_before_the_tool() {
    let place = Place::new();
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
    // What the tool is told of its own command line begins with its name.
    let file: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out.json")).unwrap()).unwrap();
    assert_eq!(file["cmdline:"], "cyclictest -t1 -q -l 5 --json=out.json");
    // An option after the name is the tool's own.
    let line = format!("--store {store} compat cyclictest -l 2 --store x");
    assert!(place.refused(&line, 1).contains("cyclictest <options>"));
    let said = place.refused(&format!("--store {store} compat nothing -l 2"), 2);
    assert!(said.contains("no compatible command 'nothing'"), "{said}");
}

#[test]
fn a_signal_ends_it_with_its_lines() {
    let place = Place::new();
    for name in ["INT", "TERM"] {
        let child = cyclictest(&place, "-t1 -q")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        place.wait_for_rows();
        signal(&child, "USR1");
        // Handlers only set a flag; it is looked at ten times a second.
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
        place.run("delete last --yes");
    }
}

#[test]
fn readers_of_the_pipe_get_the_lines() {
    let place = Place::new();
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
fn each_way_to_run_accounts_for_its_cycles() {
    let place = Place::new();
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
            punctual_testing::skip!("memory may not be locked here");
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

/// Whether `-m` would be refused.
fn may_not_lock_memory() -> bool {
    let output = Command::new("sh").args(["-c", "ulimit -l"]).output();
    let limit = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    limit.trim() != "unlimited" && !may_hold_latency()
}

#[test]
fn links_are_made_and_called() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    let out = place.done("compat --install bin");
    assert!(out.contains("bin/cyclictest: made"), "{out}");
    let output = Command::new(place.path("bin/cyclictest"))
        .env("PUNCTUAL_STORE", "none")
        .args(["-q", "-l", "2"])
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("T: 0 ("));
    // A path as argv[0], as `exec -a` and login shells have it.
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg0("/some/where/cyclictest")
        .env("PUNCTUAL_STORE", "none")
        .args(["-q", "-l", "2"])
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("T: 0 ("));
    fs::remove_file(place.path("bin/cyclictest")).unwrap();
    fs::write(place.path("bin/cyclictest"), "other").unwrap();
    place.refused("compat --install bin", 1);
    place.done("compat --install bin --force");
    assert!(place.done("compat").contains("PUNCTUAL_STRICT"));
}

// What widely used scripts do with the output: the same steps, written anew.

/// Runs a pipeline of the shell with the output on its stdin.
fn shell(input: &str, script: &str) -> String {
    use std::io::Write;
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    text(&output.stdout).trim_end().to_owned()
}

/// OSADL's latency plot and its many descendants.
#[test]
fn latency_plots_find_their_columns_and_maximum() {
    let place = Place::new();
    let (out, said) = done(&place, "-l100 -t2 -i200 -h400 -q");
    let recording = place.last();
    let max = recording
        .threads
        .iter()
        .filter_map(|t| t.histogram.max())
        .max()
        .unwrap();
    let found = shell(
        &(out.clone() + &said),
        "grep 'Max Latencies' | tr ' ' '\\n' | sort -n | tail -1 | sed 's/^0*//'",
    );
    assert_eq!(found, max.whole_micros().to_string());
    // The columns of gnuplot, with stderr in the same file.
    let rows = shell(
        &(said + &out),
        "grep -v -e '^#' -e '^$' | tr ' ' '\\t' | cut -f1,3",
    );
    let mut sum = 0;
    for row in rows.lines() {
        let (value, count) = row.split_once('\t').unwrap();
        assert!(value.parse::<u64>().unwrap() < 400);
        sum += count.parse::<u64>().unwrap();
    }
    let (below, _) = recording.threads[1].histogram.micros(400);
    assert_eq!(sum, below.iter().sum::<u64>());
    // Yardstick reads by the place of a word.
    let avg = shell(&out, "awk '/# Avg Latencies:/{print $4}'");
    let mean = recording.threads[0]
        .histogram
        .mean()
        .unwrap()
        .whole_micros();
    assert_eq!(avg.parse::<u64>().unwrap(), mean);
}

/// Linaro's test-definitions: the last block after an escape, words apart by
/// blanks and colons. MMTests: a pattern for each line.
#[test]
fn line_parsers_find_each_thread() {
    let place = Place::new();
    let (out, _) = done(&place, "-t2 -i 500 -l 60");
    let last = out.rsplit('\x1b').next().unwrap();
    let recording = place.last();
    let mut threads = 0;
    for line in last.lines().filter(|line| line.starts_with("T:")) {
        let words: Vec<&str> = line
            .split([' ', ':'])
            .filter(|word| !word.is_empty())
            .collect();
        let after = |name: &str| {
            let place = words.iter().position(|word| *word == name).unwrap();
            words[place + 1].parse::<u64>().unwrap()
        };
        let thread = &recording.threads[after("T") as usize];
        assert_eq!(after("Max"), thread.histogram.max().unwrap().whole_micros());
        assert_eq!(after("Min"), thread.histogram.min().unwrap().whole_micros());
        assert_eq!(after("C"), thread.accounting.recorded);
        threads += 1;
    }
    assert_eq!(threads, 2, "{out}");
}

/// rteval: an empty word, a value with a blank before it, rows by white space.
#[test]
fn rteval_can_start_it_and_read_it() {
    let place = Place::new();
    let mut command = cyclictest(&place, "");
    let output = command
        .args([
            "",
            "-qu",
            "-h 3500",
            "-t2",
            "-a0",
            "--default-system",
            "-b100000",
            "-l",
            "50",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut counts = [0u64; 2];
    let mut max = Vec::new();
    for line in text(&output.stdout).lines() {
        if let Some(values) = line.strip_prefix("# Max Latencies: ") {
            max.extend(values.split(' ').map(|value| value.parse::<u64>().unwrap()));
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let words: Vec<u64> = line
            .split_whitespace()
            .map(|w| w.parse().unwrap())
            .collect();
        counts[0] += words[1];
        counts[1] += words[2];
    }
    let recording = place.last();
    for (place, thread) in recording.threads.iter().enumerate() {
        assert_eq!(max[place], thread.histogram.max().unwrap().whole_micros());
        let (below, _) = thread.histogram.micros(3_500);
        assert_eq!(counts[place], below.iter().sum::<u64>());
    }
}
