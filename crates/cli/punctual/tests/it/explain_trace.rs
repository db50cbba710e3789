//! Tests of `punctual explain --trace` with traces that other tools recorded.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Sandbox, text};
use serde_json::Value;

/// Returns the path of a recorded trace in the text format of a tool.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let name = format!("engine/tracefile/tests/fixtures/text/{name}.txt");
    crates.join(name).canonicalize().unwrap()
}

/// Traces of the same second on the same machine, recorded by three tools. The first two also
/// contain a mark.
pub(crate) const TOOLS: [&str; 3] = ["tracefs", "trace-cmd-flags", "perf-script"];

pub(crate) fn json(place: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&place.done(&format!("explain --json {line}"))).unwrap()
}

pub(crate) fn outliers(explained: &Value) -> &[Value] {
    explained["outliers"].as_array().unwrap()
}

/// Checks that the shares of each outlier add up to its latency. Returns the latencies in ns.
pub(crate) fn latencies(explained: &Value) -> Vec<u64> {
    let latency = |outlier: &Value| {
        let outlier = &outlier["outlier"];
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        let sum: u64 = shares
            .iter()
            .map(|share| share["ns"].as_u64().unwrap())
            .sum();
        assert_eq!(outlier["latency_ns"], sum, "{outlier}");
        sum
    };
    outliers(explained).iter().map(latency).collect()
}

#[test]
fn thread_times_are_the_same_in_each_format() {
    let place = Sandbox::new();
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tracefile/tests/fixtures");
    let table = |name: &str| {
        let file = folder.join(name);
        let shown = place.done(&format!(
            "explain --trace {} --thread-times",
            file.display()
        ));
        let begin = shown.find("thread  ").unwrap_or_else(|| panic!("{shown}"));
        shown[begin..].to_owned()
    };
    let text = table("perf/file.txt.xz");
    assert!(text.contains("sleep-13314"), "{text}");
    assert_eq!(table("perf/file.data.xz"), text);
    assert_eq!(table("perfetto/file.pftrace.xz"), text);
    let refused = place.refused("explain --thread-times", 2);
    assert!(refused.contains("--trace"), "{refused}");
}

#[test]
fn a_trace_of_each_tool_is_explained() {
    let place = Sandbox::new();
    for tool in TOOLS {
        let file = fixture(tool);
        let of = format!("--trace {} --comm cyclictest", file.display());
        let explained = json(&place, &of);
        let latencies = latencies(&explained);
        assert!(latencies.len() >= 2, "{tool}: {latencies:?}");
        // The thread is woken by its timer, whose interrupt is late.
        for outlier in outliers(&explained) {
            let shares = outlier["outlier"]["blame"]["shares"].as_array().unwrap();
            let interrupt = shares.iter().find(|share| share["kind"] == "interrupt");
            assert_eq!(
                interrupt.unwrap()["who"],
                "local_timer",
                "{tool}: {outlier}"
            );
        }
        let shown = place.done(&format!("explain {of}"));
        assert!(shown.contains("interrupt: local_timer"), "{shown}");
        assert!(
            shown.contains("woken") || shown.contains("expected"),
            "{shown}"
        );
    }
}

#[test]
fn trace_from_stdin_equals_its_file() {
    let place = Sandbox::new();
    let file = fixture("tracefs");
    let of_file = place.done(&format!("explain --trace {}", file.display()));
    let mut child = place.command("explain --trace -");
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let content = fs::read(&file).unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // The name is longer or shorter, so the lines are wrapped at other places.
    let after_name = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words
            .join(" ")
            .split_once("379 events")
            .unwrap()
            .1
            .to_owned()
    };
    assert_eq!(after_name(&text(&output.stdout)), after_name(&of_file));
}

#[test]
fn marked_latency_ends_at_the_mark() {
    let place = Sandbox::new();
    let explained = json(&place, &format!("--trace {}", fixture("tracefs").display()));
    let stated = &explained["explanation"]["trace"]["stated"][0];
    assert_eq!(stated["text"], "hit latency threshold (120 > 100)");
    let mut outliers = outliers(&explained).iter();
    let outlier = outliers.find(|one| one["outlier"]["number"] == stated["outlier"]);
    assert_eq!(outlier.unwrap()["outlier"]["latency_ns"], 120_000);
}

#[test]
fn only_what_is_asked_for_is_explained() {
    let place = Sandbox::new();
    let file = fixture("tracefs");
    let count = |options: &str| {
        let explained = json(&place, &format!("--trace {} {options}", file.display()));
        latencies(&explained).len()
    };
    let all = json(&place, &format!("--trace {}", file.display()));
    let longest = &outliers(&all)[2]["outlier"];
    assert_eq!(longest["latency_ns"], 120_000);
    let at = longest["monotonic_ns"].as_u64().unwrap() / 1_000;
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    assert_eq!(count(""), 3);
    assert_eq!(count("--comm cyclictest"), 2);
    assert_eq!(count("--pid 19800 --threshold 100us"), 1);
    assert_eq!(count("--threshold 100us"), 1);
    assert_eq!(count("--threshold 120us"), 0);
    assert_eq!(count("--cpu 1 --comm cyclictest"), 0);
    assert_eq!(count(&format!("--at {}", seconds(at + 20))), 1);
    let (from, to) = (seconds(at + 121), seconds(at + 10_000_000));
    assert_eq!(
        count(&format!("--comm cyclictest --between {from} {to}")),
        0
    );
    let (from, to) = (seconds(at - 1_000_000), seconds(at - 200));
    assert_eq!(
        count(&format!("--comm cyclictest --between {from} {to}")),
        1
    );
    // Ordinary threads are included if they are named.
    assert!(count("--comm bash") > 0);
}

/// Writes a trace without some events.
fn without(place: &Sandbox, events: &[&str], vectors: bool) -> PathBuf {
    let content = fs::read_to_string(fixture("tracefs")).unwrap();
    let kept = content.lines().filter(|line| {
        let has = |event: &&str| line.contains(&format!(" {event}: "));
        !events.iter().any(has) && (vectors || !line.contains(": vector="))
    });
    let path = place.path("without.txt");
    fs::write(&path, kept.collect::<Vec<_>>().join("\n")).unwrap();
    path
}

#[test]
fn missing_events_are_reported_once_with_remedy() {
    let place = Sandbox::new();
    let handlers = [
        "irq_handler_entry",
        "irq_handler_exit",
        "softirq_entry",
        "softirq_exit",
    ];
    let file = without(&place, &handlers, false);
    let shown = place.done(&format!("explain --trace {}", file.display()));
    let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(one_line.matches("no events of").count(), 1, "{shown}");
    let command = one_line.split_once("trace-cmd record ").unwrap().1;
    let command = command.split_once(". ").unwrap().0;
    let mut options: Vec<&str> = command.split(' ').filter(|word| *word != "-e").collect();
    options.retain(|event| !["sched:sched_migrate_task", "sched:sched_pi_setprio"].contains(event));
    let expected = [
        "irq:irq_handler_entry",
        "irq:irq_handler_exit",
        "irq:softirq_entry",
        "irq:softirq_exit",
        "irq_vectors",
    ];
    assert_eq!(options, expected, "{shown}");
    assert!(!shown.contains("interrupt: "), "{shown}");
}

/// Kernels before 4.3 record traces like this.
#[test]
fn without_waking_latency_begins_at_wakeup() {
    let place = Sandbox::new();
    let whole = format!("--trace {} --comm cyclictest", fixture("tracefs").display());
    let whole = latencies(&json(&place, &whole));
    // If the events of its timer are missing, a wait begins at the wake-up.
    let timers = ["hrtimer_start", "hrtimer_expire_entry"];
    let waking = without(&place, &timers, true);
    let waking = format!("--trace {} --comm cyclictest", waking.display());
    let waking = latencies(&json(&place, &waking));
    let file = without(&place, &[timers[0], timers[1], "sched_waking"], true);
    let of = format!("--trace {} --comm cyclictest", file.display());
    let wakeup = latencies(&json(&place, &of));
    for (number, latency) in wakeup.iter().enumerate() {
        assert!(*latency < waking[number] && waking[number] <= whole[number]);
    }
    assert_eq!((wakeup.len(), waking.len()), (whole.len(), whole.len()));
    assert!(waking.iter().sum::<u64>() < whole.iter().sum::<u64>());
    let shown = place.done(&format!("explain {of}"));
    assert_eq!(
        shown
            .matches("latencies are counted from sched_wakeup")
            .count(),
        1
    );
}

#[test]
fn options_of_other_sources_are_refused() {
    let place = Sandbox::new();
    let file = fixture("tracefs");
    let trace = format!("--trace {}", file.display());
    for (line, expected) in [
        (format!("{trace} --budget 1ms --threshold 5us"), "--budget"),
        (format!("{trace} --budget 1ms --thread-times"), "--budget"),
        (format!("{trace} --release timerfd"), "read:4"),
        ("--trace - --budget 1ms".to_owned(), "must be a file"),
        (format!("{trace} --wait --release futex"), "--release"),
        (format!("{trace} --wait"), "--wait"),
        (format!("{trace} --cgroup /a"), "--cgroup"),
        (format!("{trace} -D 5s"), "--duration"),
        (format!("{trace} --label a"), "--label"),
        (format!("{trace} last"), "[ID]"),
        ("--at 5.0".to_owned(), "--trace"),
        ("--between 5.0 6.0".to_owned(), "--trace"),
        ("--cpu 1".to_owned(), "--trace"),
        ("--threshold 5us".to_owned(), "--trace"),
        (format!("{trace} --at soon"), "1234.567890"),
        (format!("{trace} --at 99999999999999999999"), "1234.567890"),
        (format!("{trace} --between 6.0 5.0"), "TO is before FROM"),
        (format!("{trace} --outlier 77"), "outlier 77"),
    ] {
        let refused = place.refused(&format!("explain {line}"), 2);
        assert!(refused.contains(expected), "{line}: {refused}");
    }
    let missing = place.refused("explain --trace /does/not/exist", 1);
    assert!(missing.contains("/does/not/exist"), "{missing}");
    let path = place.path("poem.txt");
    fs::write(&path, "Roses are red\n").unwrap();
    let poem = place.refused(&format!("explain --trace {}", path.display()), 1);
    assert!(poem.contains("Roses are red"), "{poem}");
}

/// A line of `truths.txt`. It states what delayed the victim in a trace that `record.sh` recorded.
struct Truth<'a> {
    trace: &'a str,
    kind: &'a str,
    who: &'a str,
    ns: u64,
    of: &'a str,
}

impl<'a> Truth<'a> {
    fn from_line(line: &'a str) -> Self {
        let (trace, fields) = line.split_once(' ').unwrap();
        let field = |name: &str| {
            let fields = fields.split(' ').filter_map(|field| field.split_once('='));
            let mut found = fields.filter(|(key, _)| *key == name);
            found.next().unwrap().1
        };
        Self {
            trace,
            kind: field("kind"),
            who: field("who"),
            ns: field("ns").parse().unwrap(),
            of: field("of"),
        }
    }

    fn names(&self, share: &Value) -> bool {
        // Without counters, a quota is only a possible cause if other threads ran in the meantime.
        let is_kind =
            share["kind"] == self.kind || (self.who == "quota" && share["kind"] == "unexplained");
        is_kind && share["who"].as_str().unwrap().contains(self.who)
    }
}

/// Returns the largest outlier of a thread in a trace of `record.sh`. Also checks the sums.
fn longest_of(place: &Sandbox, trace: &str, of: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let file = folder.join(format!("{trace}.txt.xz"));
    let explained = json(place, &format!("--trace {} --pid {of}", file.display()));
    latencies(&explained);
    let latency = |one: &&Value| one["outlier"]["latency_ns"].as_u64();
    let longest = outliers(&explained).iter().max_by_key(latency);
    let longest = longest.unwrap_or_else(|| panic!("{trace}: no outlier"));
    longest["outlier"].clone()
}

/// The length of each delay was measured by the program that delayed the victim.
#[test]
fn induced_causes_are_named_with_their_length() {
    let place = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let truths = fs::read_to_string(folder.join("truths.txt")).unwrap();
    let truths: Vec<Truth<'_>> = truths.lines().map(Truth::from_line).collect();
    let traces = fs::read_dir(&folder).unwrap();
    let traces =
        traces.filter(|file| file.as_ref().unwrap().path().extension() == Some("xz".as_ref()));
    let mut checked = 0;
    for truths in truths.chunk_by(|one, next| one.trace == next.trace) {
        checked += 1;
        let trace = truths[0].trace;
        let outlier = longest_of(&place, trace, truths[0].of);
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        let what = format!("{trace}: {}", outlier["blame"]["sentence"]);
        let longest = shares.iter().max_by_key(|share| share["ns"].as_u64());
        let main = truths.iter().max_by_key(|truth| truth.ns).unwrap();
        assert!(main.names(longest.unwrap()), "{what}");
        for truth in truths {
            let named = shares.iter().filter(|share| truth.names(share));
            let ns: u64 = named.map(|share| share["ns"].as_u64().unwrap()).sum();
            let tolerance = (truth.ns / 10).max(20_000);
            let is_right = ns.abs_diff(truth.ns) <= tolerance;
            assert!(
                is_right,
                "{what}: {} for {ns}, not {} ns",
                truth.kind, truth.ns
            );
        }
    }
    assert_eq!(checked, traces.count());
}

/// The threads of `induce.c` on CPU 0 cause function calls on the victim's CPU.
#[test]
fn sender_of_interrupts_is_named() {
    let place = Sandbox::new();
    for (trace, of) in [("ipi.trace-cmd", "17773"), ("ipi.perf", "17814")] {
        let outlier = longest_of(&place, trace, of);
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        let called = |share: &&Value| share["who"] == "call_function_single";
        let detail = &shares.iter().find(called).unwrap()["detail"];
        let detail = detail.as_str().unwrap();
        assert!(
            detail.starts_with("sent by ") && detail.ends_with("on CPU 0 in generic_exec_single"),
            "{trace}: {detail}"
        );
    }
}

/// The traces are from the kernel's Documentation/trace/{timerlat,osnoise}-tracer.rst, with one
/// more event before them. The text there names their causes. Times are rounded to 1 us.
#[test]
fn tracers_without_scheduler_name_what_ran() {
    let place = Sandbox::new();
    for (trace, latency, causes) in [
        (
            "timerlat",
            39_960,
            &[
                // "the timer IRQ was delayed for 13 us"
                ("silence", "", 13_585),
                ("interrupt", "local_timer", 7_597),
                ("interrupt", "qxl", 7_139),
                // Its preemption was requested while it ran with preemption disabled.
                ("blocking", "cc1", 9_909),
            ][..],
        ),
        (
            "osnoise",
            8_812,
            &[
                ("interrupt", "local_timer", 2_848),
                ("unranked", "migration/8", 3_068),
                ("own_work", "", 2_896),
            ][..],
        ),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
        let file = folder.join(format!("{trace}.txt"));
        let explained = json(&place, &format!("--trace {}", file.display()));
        assert_eq!(latencies(&explained), [latency]);
        let outlier = &outliers(&explained)[0]["outlier"];
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        for (kind, who, ns) in causes {
            let is_it = |share: &&Value| {
                share["kind"] == *kind && share["who"].as_str().unwrap().contains(who)
            };
            let found = shares.iter().find(is_it);
            let found = found.unwrap_or_else(|| panic!("{trace}: no {kind} {who}: {shares:#?}"));
            let error = found["ns"].as_u64().unwrap().abs_diff(*ns);
            assert!(error <= 4_000, "{trace}: {found}, not {ns}");
        }
        let shown = place.done(&format!("explain --trace {}", file.display()));
        assert!(!shown.contains("nice 32"), "{shown}");
    }
}

#[test]
fn outliers_without_a_cause_are_predicted() {
    let place = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let file = folder.join("osnoise.txt").display().to_string();
    // The reaction of 8.81 us contains 2.85 us of an interrupt and 3.07 us of a thread.
    for (threshold, causes, within) in [
        ("8us", "--without interrupt:timer", 1),
        ("5us", "--without interrupt:timer", 0),
        ("3us", "--without interrupt --without migration", 1),
    ] {
        let line = format!("explain --trace {file} --threshold {threshold} {causes}");
        let shown = place.done(&line);
        let expected = format!("{within} of 1 explained outlier would be at most");
        assert!(shown.contains(&expected), "{line}: {shown}");
        assert!(shown.contains("late seconds"), "{line}: {shown}");
    }
    for (options, reason) in [
        ("--without timer", "--without needs a limit"),
        (
            "--threshold 5us --without nvme",
            "no outlier has this cause",
        ),
    ] {
        let output = place.run(&format!("explain --trace {file} {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}");
        assert!(
            text(&output.stderr).contains(reason),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn imported_trace_keeps_its_outliers() {
    let place = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let file = folder.join("above.trace-cmd.txt.xz");
    let imported = place.done(&format!("import {}", file.display()));
    assert!(imported.contains(": trace, "), "{imported}");
    let direct = json(&place, &format!("--trace {}", file.display()));
    let kept = json(&place, "last");
    for part in ["outliers", "explanation"] {
        // The recordings differ in their start time, which the trace does not contain.
        let without_date = |value: &Value| {
            let mut value = value[part].clone();
            strip(&mut value, "time");
            value
        };
        assert_eq!(without_date(&kept), without_date(&direct), "{part}");
    }
    let page = place.path("page.md");
    place.done(&format!("report last -o {}", page.display()));
    for (line, shown) in [
        ("show", place.done("show last")),
        ("explain", place.done("explain last")),
        ("report", fs::read_to_string(page).unwrap()),
    ] {
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("higher priority"), "{line}: {shown}");
        assert!(
            shown.contains("text of trace-cmd report"),
            "{line}: {shown}"
        );
        assert!(!shown.contains("above 0 ns"), "{line}: {shown}");
    }
    assert!(place.done("explain last --outlier 1").contains(" at "));
}

/// Removes all text fields with this name.
fn strip(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, field| key != name || !field.is_string());
            fields.values_mut().for_each(|field| strip(field, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, name)),
        _ => {}
    }
}

/// Returns the path of a compressed trace that was printed by `trace-cmd report`.
fn compressed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/fixtures/traces/above.trace-cmd.txt.xz")
}

#[test]
fn trace_from_stdin_is_imported_as_file() {
    let place = Sandbox::new();
    for file in [compressed(), fixture("tracefs")] {
        place.done(&format!("import {}", file.display()));
        let of_file = json(&place, "last");
        let mut child = place.command("import -");
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        let content = fs::read(&file).unwrap();
        child.stdin.take().unwrap().write_all(&content).unwrap();
        assert!(child.wait().unwrap().success());
        let of_stdin = json(&place, "last");
        assert_ne!(of_stdin["recording"], of_file["recording"]);
        let outliers = |explained: &Value| {
            let mut outliers = explained["outliers"].clone();
            strip(&mut outliers, "time");
            outliers
        };
        assert_eq!(outliers(&of_stdin), outliers(&of_file));
        assert!(!of_file["outliers"].as_array().unwrap().is_empty());
    }
}

#[test]
fn trace_without_a_wakeup_is_not_imported() {
    let place = Sandbox::new();
    let switch = "  prev_comm=rt prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/3 \
                  next_pid=0 next_prio=120";
    let line = format!("  rt-7     [003] 115591.580217: sched_switch: {switch}\n");
    fs::write(place.path("switches.txt"), line).unwrap();
    let output = place.run("import switches.txt");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("is complete in this trace, so nothing was imported"),
        "{said}"
    );
    assert_eq!(place.run("show last").status.code(), Some(1));
}

#[test]
fn explanation_of_a_trace_is_a_page_or_a_plot() {
    let place = Sandbox::new();
    let trace = format!("--trace {}", compressed().display());
    for name in ["all.html", "largest.svg", "largest.png"] {
        place.done(&format!("explain {trace} -o {name}"));
    }
    place.done(&format!("explain {trace} --outlier 4 -o one.html"));
    place.done(&format!("explain {trace} --outlier 4 -o one.svg"));
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let explained = json(&place, &trace);
    let (all, one) = (read("all.html"), read("one.html"));
    assert!(all.contains("<h1>Late reactions in above.trace-cmd.txt.xz</h1>"));
    let detailed = |page: &str| page.matches("<figure").count();
    assert_eq!(detailed(&all), outliers(&explained).len());
    assert_eq!(detailed(&one), 1);
    for outlier in outliers(&explained) {
        let sentence = outlier["outlier"]["blame"]["sentence"].as_str().unwrap();
        assert_eq!(all.matches(sentence).count(), 1, "{sentence}");
    }
    let svg = read("largest.svg");
    assert!(svg.starts_with("<svg") && svg.contains("hog-"), "{svg}");
    assert_ne!(svg, read("one.svg"));
    assert!(
        fs::read(place.path("largest.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    // A stored recording can be drawn as well.
    place.done(&format!("import {}", compressed().display()));
    place.done("explain last -o stored.svg");
    assert!(read("stored.svg").contains("hog-"));
}
