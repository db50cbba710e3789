//! One recording of the running machine in each form that its recorder and its converters write.

use std::io::{BufRead, BufReader};
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
pub(crate) type Reaction = (u64, u64, u64, Vec<(String, u64)>);

/// Returns the longest reactions in a file.
pub(crate) fn reactions(place: &Sandbox, file: &str) -> Vec<Reaction> {
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

/// Returns how many reactions of a file another form has within an error of the times in ns, and how many
/// of these have the same largest share. Of reactions at the end of the list, the other form may
/// show others.
pub(crate) fn near(form: &str, one: &[Reaction], other: &[Reaction], error: u64) -> (usize, usize) {
    let shortest = one.iter().map(|a| a.2).min().unwrap_or_default();
    let is_near = |a: &Reaction, b: &Reaction| {
        a.0 == b.0 && a.1.abs_diff(b.1) <= error && a.2.abs_diff(b.2) <= 2 * error
    };
    let largest = |one: &Reaction| one.3.iter().max_by_key(|share| share.1).cloned();
    let (mut found, mut main) = (0, 0);
    for b in other {
        match one.iter().find(|a| is_near(a, b)) {
            Some(a) => {
                found += 1;
                let (a, b) = (largest(a), largest(b));
                main += usize::from(a.map(|share| share.0) == b.map(|share| share.0));
            }
            None if b.2 <= shortest + 2 * error => {
                found += 1;
                main += 1;
            }
            None => eprintln!("{form}: {b:?}"),
        }
    }
    let all = other.len();
    eprintln!("{form}: {found} of {all} reactions are near, {main} with the same main cause");
    (found, main)
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
            let said = text(&output.stderr);
            if said.contains("ModuleNotFoundError") {
                punctual_testing::skip!(Program, "{said}");
            } else {
                punctual_testing::skip_refused(program, said);
            }
            false
        }
        Err(error) => {
            punctual_testing::skip!(Program, "{program}: {error}");
            false
        }
    }
}

/// Lets timers expire for a second.
pub(crate) fn wake_ups(place: &Sandbox) -> Running {
    Running(place.spawn("measure timer -D 1500ms --interval 500us --quiet"))
}

pub(crate) fn end(mut wake_ups: Running) {
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

/// The package `perfetto` of PyPI writes the same events.
#[test]
fn trace_of_perfettos_classes_has_the_reactions_of_its_file() {
    let place = Sandbox::new();
    let script = ["script", "-i", "run.data", "--ns"];
    if !perf(&place) || !written(&place, "perf", &script, "run.txt") {
        return;
    }
    let writer = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/write_perfetto.py"
    );
    let arguments = [writer, "run.txt", "run.pftrace"];
    if !written(&place, "python3", &arguments, "said") {
        return;
    }
    let file = reactions(&place, "run.data");
    assert!(file.len() >= 10, "{file:?}");
    // Neither the text nor the classes' trace shows whether interrupts were disabled.
    let text = reactions(&place, "run.txt");
    let written = reactions(&place, "run.pftrace");
    assert_eq!(same("perfetto's classes", &written, &file).0, file.len());
    assert_eq!(
        same("perfetto's classes, text", &written, &text).1,
        file.len()
    );
}

/// babeltrace2 reads a CTF trace, and writes it with its own writer.
#[test]
fn ctf_of_babeltrace2_has_the_reactions_of_its_file() {
    let place = Sandbox::new();
    let convert = ["data", "convert", "-i", "run.data", "--to-ctf", "ctf"];
    let copy = ["convert", "ctf", "--output-format=ctf", "--output=copy"];
    if !perf(&place) || !written(&place, "perf", &convert, "said") {
        return;
    }
    if !Path::new(&place.path("ctf")).is_dir() {
        punctual_testing::skip!(Program, "perf was built without libbabeltrace");
        return;
    }
    if !written(&place, "babeltrace2", &copy, "said") {
        return;
    }
    let file = reactions(&place, "run.data");
    assert!(file.len() >= 10, "{file:?}");
    let all = (file.len(), file.len());
    assert_eq!(same("babeltrace2", &reactions(&place, "copy"), &file), all);
}

/// Records with tracefs alone, and lets trace-cmd extract the same events from the kernel's buffers, which
/// `trace` does not empty.
const TRACEFS: &str = r#"
    set -e
    instance=/sys/kernel/tracing/instances/$1
    mkdir "$instance"
    # trace-cmd removes the instance itself.
    trap 'rmdir "$instance" 2>/dev/null || true' EXIT
    echo 1 >plain
    for file in /proc/sys/kernel/ftrace_enabled "$instance"/set_ftrace_*; do
        [ ! -e "$file" ] || mount --bind plain "$file"
    done
    cat /proc/kallsyms >kallsyms
    mount --bind kallsyms /proc/kallsyms
    echo mono >"$instance"/trace_clock
    echo 16384 >"$instance"/buffer_size_kb
    for event in $2; do echo 1 >"$instance"/events/$(echo $event | tr : /)/enable; done
    echo recording
    read -r _ || true
    echo 0 >"$instance"/tracing_on
    cat "$instance"/trace >trace.txt
    case $3 in
    pipe) timeout 5 cat "$instance"/trace_pipe >pipe.txt || [ $? = 124 ] ;;
    *) trace-cmd extract -B "$1" -o both.dat ;;
    esac >/dev/null
"#;

/// Records wake-ups as text of tracefs, and in a second form. Returns `false` if that is not possible here.
fn tracefs(place: &Sandbox, form: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        punctual_testing::skip!(Right, "tracefs: an ordinary user cannot trace");
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", TRACEFS, "tracefs"]);
    command.arg(format!("punctual-forms-{form}-{}", std::process::id()));
    command.arg(EVENTS.join(" ")).arg(form);
    let command = command.current_dir(place.path("")).stdin(Stdio::piped());
    let mut recorder = match command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(recorder) => recorder,
        Err(error) => {
            punctual_testing::skip!(Program, "unshare: {error}");
            return false;
        }
    };
    let mut said = String::new();
    BufReader::new(recorder.stdout.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    if said == "recording\n" {
        end(wake_ups(place));
    }
    let output = recorder.wait_with_output().unwrap();
    if !output.status.success() {
        punctual_testing::skip_refused("tracefs", text(&output.stderr));
        return false;
    }
    true
}

#[test]
fn trace_pipe_has_the_reactions_of_trace() {
    let place = Sandbox::new();
    if !tracefs(&place, "pipe") {
        return;
    }
    let file = reactions(&place, "trace.txt");
    assert!(file.len() >= 10, "{file:?}");
    let all = (file.len(), file.len());
    assert_eq!(
        same("trace_pipe", &reactions(&place, "pipe.txt"), &file),
        all
    );
}

/// The text states times in whole µs.
#[test]
fn text_of_tracefs_has_the_reactions_of_its_buffers() {
    let place = Sandbox::new();
    if !tracefs(&place, "extract") {
        return;
    }
    let file = reactions(&place, "both.dat");
    let text = reactions(&place, "trace.txt");
    assert!(file.len() >= 10, "{file:?}");
    assert_eq!(near("trace", &text, &file, 1_000), (file.len(), file.len()));
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
