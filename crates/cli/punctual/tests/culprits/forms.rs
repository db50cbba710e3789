//! One recording of the running machine in each form that its recorder and its converters write.

use std::path::Path;
use std::process::{Command, Stdio};

use punctual_testing::Running;
use serde_json::Value;

use crate::common::{Sandbox, skip_refused_by_perf, text};
use crate::recorders::recorded;

const EVENTS: [&str; 8] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_migrate_task",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
];

/// A reaction: the thread, its begin and length in ns, and its shares.
type Reaction = (u64, u64, u64, Vec<(String, u64)>);

/// Returns the longest reactions in a file.
fn reactions(place: &Sandbox, file: &str) -> Vec<Reaction> {
    let explained = place.done(&format!("explain --trace {file} --json"));
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let outliers = explained["outliers"].as_array().unwrap().iter();
    let reactions = outliers.map(|one| {
        let one = &one["outlier"];
        let number = |value: &Value| value.as_u64().unwrap();
        let shares = one["blame"]["shares"].as_array().unwrap().iter();
        let shares = shares.map(|share| {
            let name = format!("{} {}", share["kind"], share["who"]);
            (name, number(&share["ns"]))
        });
        (
            number(&one["blame"]["victim"]["tid"]),
            number(&one["monotonic_ns"]),
            number(&one["latency_ns"]),
            shares.collect(),
        )
    });
    reactions.collect()
}

/// Prints how many reactions and shares are the same, and returns these numbers.
fn same(form: &str, one: &[Reaction], other: &[Reaction]) -> (usize, usize) {
    let pairs = || one.iter().zip(other);
    let reactions = pairs().filter(|(a, b)| (a.0, a.1, a.2) == (b.0, b.1, b.2));
    let reactions = reactions.count();
    let shares = pairs().filter(|(a, b)| a == b).count();
    let all = one.len();
    eprintln!("{form}: {reactions} of {all} reactions are equal, {shares} with all shares");
    (reactions, shares)
}

/// Writes the output of a program into a file. Returns `false` if the program is not installed or fails.
fn written(place: &Sandbox, program: &str, arguments: &[&str], to: &str) -> bool {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(place.path("")).output();
    match output {
        Ok(output) if output.status.success() => {
            std::fs::write(place.path(to), output.stdout).unwrap();
            true
        }
        Ok(output) => {
            punctual_testing::skip_refused(program, text(&output.stderr));
            false
        }
        Err(error) => {
            punctual_testing::skip!(Program, "{program}: {error}");
            false
        }
    }
}

/// Lets timers expire for a second.
fn wake_ups(place: &Sandbox) -> Running {
    Running(place.spawn("measure timer -D 1500ms --interval 500us --quiet"))
}

fn end(mut wake_ups: Running) {
    wake_ups.0.wait().unwrap();
}

/// Records with perf. Returns `false` if that is not possible here.
fn perf(place: &Sandbox) -> bool {
    let events = EVENTS.iter().flat_map(|event| ["-e", event]);
    let measure = wake_ups(place);
    let mut command = Command::new("perf");
    command.args([
        "record", "-q", "-a", "-k", "mono", "-m", "4096", "-o", "run.data",
    ]);
    command.args(events).args(["--", "sleep", "1"]);
    let command = command.current_dir(place.path("")).stdout(Stdio::null());
    let output = command.output();
    end(measure);
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            skip_refused_by_perf("perf record", &text(&output.stderr));
            false
        }
        Err(error) => {
            punctual_testing::skip!(Program, "perf: {error}");
            false
        }
    }
}

#[test]
fn texts_of_perf_have_the_reactions_of_its_file() {
    let place = Sandbox::new();
    let script = [
        "script",
        "-i",
        "run.data",
        "--ns",
        "--show-lost-events",
        "--header",
    ];
    if !perf(&place) || !written(&place, "perf", &script, "run.txt") {
        return;
    }
    let file = reactions(&place, "run.data");
    assert!(file.len() >= 10, "{file:?}");
    // The text does not show whether interrupts were disabled.
    let (equal, _) = same("perf script", &reactions(&place, "run.txt"), &file);
    assert_eq!(equal, file.len());
}

#[test]
fn ctf_of_perf_has_the_reactions_of_its_file() {
    let place = Sandbox::new();
    let convert = ["data", "convert", "-i", "run.data", "--to-ctf", "ctf"];
    if !perf(&place) || !written(&place, "perf", &convert, "said") {
        return;
    }
    if !Path::new(&place.path("ctf")).is_dir() {
        punctual_testing::skip!(Program, "perf was built without libbabeltrace");
        return;
    }
    let file = reactions(&place, "run.data");
    assert!(file.len() >= 10, "{file:?}");
    let all = (file.len(), file.len());
    assert_eq!(
        same(
            "perf data convert --to-ctf",
            &reactions(&place, "ctf"),
            &file
        ),
        all
    );
}

#[test]
fn report_of_trace_cmd_has_the_reactions_of_its_file() {
    let place = Sandbox::new();
    let run = || end(wake_ups(&place));
    let report = ["report", "-t", "-i", "both.dat"];
    if recorded(&place, &EVENTS, run).is_none()
        || !written(&place, "trace-cmd", &report, "both.txt")
    {
        return;
    }
    let file = reactions(&place, "both.dat");
    assert!(file.len() >= 10, "{file:?}");
    let all = (file.len(), file.len());
    assert_eq!(
        same("trace-cmd report", &reactions(&place, "both.txt"), &file),
        all
    );
}
