//! Late reactions that this program and trace-cmd record at the same time.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::cause::{Cause, Detail, Source};
use punctual_model::{Comm, Nanos, Outlier, ShareKind};
use punctual_testing::Running;
use punctual_trace::LateStacks;
use serde_json::Value;

use crate::common::{Sandbox, eventually, text};
use crate::jobs::built;
use crate::stage::Stage;

/// Ways to delay the victim that do not need a mark in the trace.
const WAYS: [&str; 6] = ["above", "equal", "ordinary", "softirq", "timers", "ipi"];

const EVENTS: [&str; 15] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_migrate_task",
    "sched:sched_pi_setprio",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "signal:signal_generate",
    "timer:hrtimer_start",
    "timer:hrtimer_cancel",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "irq_vectors",
];

/// Records into a separate trace instance until stdin is closed. trace-cmd would reset function
/// tracing, which is not needed here and which some kernels refuse. It therefore sees plain files
/// instead. It fails if the kernel's symbols change while it reads them, as if another program loads BPF
/// programs, so it sees a copy of them. The script removes the instance at its end.
const RECORD: &str = r#"
    set -e
    name=$1
    shift
    instance=/sys/kernel/tracing/instances/$name
    mkdir "$instance"
    trap 'rmdir "$instance" 2>/dev/null || true' EXIT
    echo 1 >plain
    for file in /proc/sys/kernel/ftrace_enabled "$instance"/set_ftrace_*; do
        [ ! -e "$file" ] || mount --bind plain "$file"
    done
    cat /proc/kallsyms >kallsyms
    mount --bind kallsyms /proc/kallsyms
    trace-cmd record -q -o both.dat -B "$name" "$@" cat
"#;

/// Starts trace-cmd, and waits until it is recording or has failed. The kernel calls the users of
/// an event in the order in which they registered. At the end of a long wait, the recorder of this
/// program takes a stack trace. If trace-cmd came later, it would count that time as well.
fn trace_cmd(place: &Sandbox, events: &[&str]) -> Option<Child> {
    if let Err(error) = Command::new("trace-cmd").arg("--version").output() {
        punctual_testing::skip!(Program, "two recorders: trace-cmd: {error}");
        return None;
    }
    // This program mounts tracefs for itself, but trace-cmd and the inducing program need a mount.
    match std::fs::metadata("/sys/kernel/tracing/instances") {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            punctual_testing::skip!(Right, "two recorders: tracefs belongs to root");
            return None;
        }
        Err(_) => {
            punctual_testing::skip!(Kernel, "two recorders: tracefs is not mounted");
            return None;
        }
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", RECORD, "record"]);
    // Several tests record at the same time.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("punctual-test-{}-{number}", std::process::id());
    let enabled = "events/sched/sched_switch/enable";
    let enabled = format!("/sys/kernel/tracing/instances/{name}/{enabled}");
    command.arg(name);
    command.args(["-C", "mono"]);
    command.args(events.iter().flat_map(|event| ["-e", event]));
    let command = command.current_dir(place.path(""));
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| {
        let records = std::fs::read_to_string(&enabled).is_ok_and(|on| on.starts_with('1'));
        records || child.try_wait().unwrap().is_some()
    }));
    Some(child)
}

/// Ends trace-cmd. Returns `None` if it could not record.
fn end(mut recorder: Child) -> Option<()> {
    drop(recorder.stdin.take());
    let status = recorder.wait().unwrap();
    let refused = std::io::read_to_string(recorder.stderr.take().unwrap()).unwrap();
    if !status.success() {
        punctual_testing::skip_refused("trace-cmd", refused);
        return None;
    }
    Some(())
}

/// Records events into `both.dat` while `run` runs, and returns its result. Returns `None` if that is
/// not possible here.
pub(crate) fn recorded<T>(place: &Sandbox, events: &[&str], run: impl FnOnce() -> T) -> Option<T> {
    let recorder = trace_cmd(place, events)?;
    let result = run();
    end(recorder)?;
    Some(result)
}

/// The output of `induce.c`: the cause, how long it took, and which thread was late.
struct Truth {
    kind: ShareKind,
    who: String,
    ns: Nanos,
    of: u32,
}

impl Truth {
    fn of(told: &str) -> Option<Self> {
        let line = told.lines().find_map(|line| line.strip_prefix("truth "))?;
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        let fields: std::collections::BTreeMap<&str, &str> = fields.collect();
        Some(Self {
            kind: serde_json::from_value(fields.get("kind")?.to_owned().to_owned().into()).ok()?,
            who: fields.get("who")?.to_owned().to_owned(),
            ns: Nanos(fields.get("ns")?.parse().ok()?),
            of: fields.get("of")?.parse().ok()?,
        })
    }

    /// Only the recorder of this program reads the counters of stolen time. The other recorder
    /// attributes that time to the source that seemed to be running.
    fn is_source(&self, cause: &Cause) -> bool {
        let source = match (&cause.source, &cause.detail) {
            (Source::Undecided { source, .. }, _) => source,
            (Source::Stolen, Some(Detail::Instead(source))) => source,
            (source, _) => source,
        };
        source.kind() == self.kind && source.who().contains(&self.who)
    }

    /// Returns the time of this cause in the reaction of the late thread that contains most of it.
    fn in_outliers<'a>(&self, outliers: impl Iterator<Item = &'a Outlier>) -> Option<Nanos> {
        let own = outliers.filter(|one| one.blame.victim.tid == self.of);
        let of_cause = |one: &Outlier| {
            let shares = one.blame.shares.iter();
            let named = shares.filter(|share| self.is_source(&share.cause));
            Nanos(named.map(|share| share.ns.0).sum())
        };
        own.map(of_cause).max()
    }
}

/// Records all ways of delaying with both recorders. Returns their disagreements, or `None` if that
/// is not possible here.
fn disagreements(place: &Sandbox, program: &std::path::Path) -> Option<Vec<String>> {
    let recorder = trace_cmd(place, &EVENTS)?;
    let start = |(number, way): (usize, &&str)| {
        let lead = 4_000 + 700 * number;
        let mut command = Command::new(program);
        command.args([*way, &lead.to_string()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        child.spawn().unwrap()
    };
    let children: Vec<Child> = WAYS.iter().enumerate().map(start).collect();
    let pids = children.iter().map(|child| format!("--pid {}", child.id()));
    let pids = pids.collect::<Vec<_>>().join(" ");
    let mut own = Running(place.spawn(&format!(
        "explain --wait -q --threshold 100us -D 12s {pids}"
    )));
    let told: Vec<String> = children
        .into_iter()
        .map(|child| text(&child.wait_with_output().unwrap().stdout))
        .collect();
    let status = own.0.wait().unwrap();
    let mut said = String::new();
    let stderr = own.0.stderr.as_mut().unwrap();
    std::io::Read::read_to_string(stderr, &mut said).unwrap();
    assert!(status.success(), "{status}: {said}");
    end(recorder)?;
    let own = place.last().explanation.unwrap();
    let mut wrong = Vec::new();
    for (way, told) in WAYS.iter().zip(&told) {
        let Some(truth) = Truth::of(told) else {
            wrong.push(format!("{way}: not induced: {told}"));
            continue;
        };
        let foreign = place.done(&format!(
            "explain --trace both.dat --json --pid {}",
            truth.of
        ));
        let foreign: Value = serde_json::from_str(&foreign).unwrap();
        let foreign = foreign["outliers"].as_array().unwrap().iter();
        let foreign: Vec<Outlier> = foreign
            .map(|one| serde_json::from_value(one["outlier"].clone()).unwrap())
            .collect();
        let ours = truth.in_outliers(own.outliers.iter());
        let theirs = truth.in_outliers(foreign.iter());
        let line = format!(
            "{way}: the program measured {}, own recorder {ours:?}, trace-cmd {theirs:?}",
            truth.ns
        );
        eprintln!("{line}");
        let near = |found: Nanos, part: u64| {
            found.0.abs_diff(truth.ns.0) <= (truth.ns.0 / part).max(20_000)
        };
        let agree =
            |ours: Nanos, theirs: Nanos| ours.0.abs_diff(theirs.0) <= (theirs.0 / 400).max(5_000);
        let right = matches!((ours, theirs), (Some(ours), Some(theirs))
            if near(ours, 10) && near(theirs, 10) && agree(ours, theirs));
        if !right {
            wrong.push(line);
        }
    }
    wrong.extend(without_stack(place, &own.outliers));
    Some(wrong)
}

/// Returns the outliers that lack the stack of the thread that was switched out at the end of the
/// outlier. The stack belongs to the outlier only if it was taken after the switch was recorded.
fn without_stack(place: &Sandbox, outliers: &[Outlier]) -> Vec<String> {
    if let Err(error) = LateStacks::start(4 << 20, Nanos::ZERO) {
        punctual_testing::skip_refused("stacks of two recorders", error);
        return Vec::new();
    }
    let of_victim = |one: &&Outlier| one.blame.victim.comm == Comm::new(b"victim");
    let shown = outliers.iter().filter(of_victim).map(|one| {
        let number = one.number;
        place.done(&format!("explain last --outlier {number} --all-events"))
    });
    shown
        .filter(|shown| !shown.contains(" was switched out at:"))
        .collect()
}

/// Returns a CPU whose idle thread was switched in but, according to trace-cmd, never out. A kernel
/// can lose these events in every trace instance until the next boot.
pub(crate) fn cpu_without_idle_switches(place: &Sandbox) -> Option<usize> {
    let mut report = Command::new("trace-cmd");
    report.args(["report", "-i", "both.dat"]);
    let output = report.current_dir(place.path("")).output().unwrap();
    let report = text(&output.stdout);
    (0..2).find(|cpu| {
        let on_cpu = format!("[{cpu:03}]");
        let idle = format!("swapper/{cpu}:0 [120]");
        let lines = report.lines().filter(|line| line.contains(&on_cpu));
        let (mut into, mut out) = (0, 0);
        for (from, to) in lines.filter_map(|line| line.split_once(" ==> ")) {
            into += usize::from(to.starts_with(&idle));
            out += usize::from(from.contains(&idle));
        }
        into > 0 && out == 0
    })
}

#[test]
fn two_recorders_agree_on_a_late_reaction() {
    let place = Sandbox::new();
    let Some(stage) = Stage::set(2) else {
        return;
    };
    if !(0..2).all(|cpu| stage.cpus.contains(&cpu)) {
        punctual_testing::skip!(Hardware, "CPUs 0 and 1 are needed: {:?}", stage.cpus);
        return;
    }
    let Some(program) = built(&place, "fixtures/traces/induce") else {
        return;
    };
    let mut all = Vec::new();
    // A hypervisor may take the CPU between the events of the two recorders.
    for _ in 0..4 {
        match disagreements(&place, &program) {
            None => return,
            Some(wrong) if wrong.is_empty() => return,
            Some(wrong) => all.extend(wrong),
        }
    }
    if let Some(cpu) = cpu_without_idle_switches(&place) {
        punctual_testing::skip!(
            Kernel,
            "two recorders: the kernel writes no switch from the idle thread of CPU {cpu}: {all:?}"
        );
        return;
    }
    match punctual_testing::crowded() {
        Some(crowd) => punctual_testing::skip!(Quiet, "two recorders: {crowd}: {all:?}"),
        None => panic!("they disagree: {all:#?}"),
    }
}
