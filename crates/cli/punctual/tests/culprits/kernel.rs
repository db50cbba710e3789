//! A thread that occupies its CPU in the kernel, with the help of a test module that the emulated
//! machines load.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_model::{Nanos, ShareKind};

use crate::common::Sandbox;
use crate::stage::{
    Span, Stage, TIMES, Truth, fifo, now, settle, sleep_until, soon, spin_until, thread, victim,
};

/// How long interrupts or preemption are disabled.
const OFF: Nanos = Nanos::from_millis(5);

/// The file that controls the module.
const MODULE: &str = "/proc/punctual_delay";

/// Lets the module occupy the CPU of this thread for the time `off`. Returns the span in which it
/// did so.
fn kept(what: &str, off: Nanos) -> Span {
    let mut file = OpenOptions::new().write(true).open(MODULE).unwrap();
    let order = format!("{what} {}", off.0 / 1_000);
    let from = now();
    file.write_all(order.as_bytes()).unwrap();
    Span { from, to: now() }
}

fn loaded(what: &str) -> bool {
    let loaded = Path::new(MODULE).exists();
    if !loaded {
        punctual_testing::skip!(
            Emulation,
            "{what}: the tests' module is not loaded (cargo xtask vm does)"
        );
    }
    loaded
}

/// Plays a scene in which a thread of lower priority occupies the CPU of the victim. Returns the
/// sentence that explains it.
fn kept_from_the_victim(what: &'static str, kind: ShareKind, who: &str) -> Option<String> {
    if !loaded(what) {
        return None;
    }
    let mut stage = Stage::set(1)?;
    let cpu = stage.cpus[0];
    let played = stage.play(what, |stage| {
        let due = soon();
        let keeper = thread("keeper", fifo(10), &[cpu], move || {
            sleep_until(due - Nanos::from_millis(4));
            // An emulated CPU wakes up late from a sleep.
            spin_until(due - Nanos::from_millis(1));
            kept(what, OFF)
        });
        let victim = victim(fifo(50), &[cpu], due, || {});
        let (span, came) = (keeper.join().unwrap(), victim.join().unwrap());
        settle();
        let took = span.within(came.due, came.came);
        let truth = Truth {
            kind,
            who: who.to_owned(),
            // If the emulator itself took that time, the scene is repeated.
            took: if took.0 < OFF.0 / 4 { OFF } else { took },
        };
        (stage.explain(&came, cpu), vec![truth])
    })?;
    Some(played.blame.sentence())
}

/// If no kernel event shows that interrupts are disabled, this cause is one of the hypotheses. It
/// names the thread that may have disabled them.
#[test]
fn thread_disabling_interrupts_is_a_hypothesis() {
    let events = "/sys/kernel/tracing/events/preemptirq/irq_disable";
    let (kind, who) = if Path::new(events).exists() {
        (ShareKind::IrqsOff, "keeper-")
    } else {
        (ShareKind::Silence, "no event")
    };
    let mut seen = Vec::new();
    for _ in 0..TIMES {
        let Some(sentence) = kept_from_the_victim("irqs", kind, who) else {
            return;
        };
        if sentence.contains("interrupts disabled") && sentence.contains("keeper-") {
            return;
        }
        // An emulated CPU also has gaps of its own.
        seen.push(sentence);
    }
    panic!("{seen:#?}");
}

#[test]
fn thread_disabling_preemption_is_named() {
    kept_from_the_victim("preempt", ShareKind::Blocking, "keeper-");
}

/// On the stack, the function that disabled interrupts is below the late interrupt.
#[test]
fn the_function_that_disabled_interrupts_is_shown() {
    if !loaded("stacks") {
        return;
    }
    let place = Sandbox::new();
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let keeper = thread("keeper", fifo(10), &[0], move || {
        while !ended.load(Ordering::Relaxed) {
            sleep_until(now() + Nanos::from_millis(150));
            kept("irqs", Nanos::from_millis(15));
        }
    });
    place.done("measure timer --cpus 0 --interval 10ms --threshold 4ms --explain -D 4s -q");
    ends.store(true, Ordering::Relaxed);
    keeper.join().unwrap();
    let outliers = place.last().explanation.unwrap().outliers;
    assert!(!outliers.is_empty(), "nothing was late");
    let shown = |number: u64| place.done(&format!("explain last --outlier {number}"));
    let texts: Vec<String> = outliers.iter().map(|one| shown(one.number)).collect();
    let named = |text: &String| text.contains("punctual_keeps_interrupts_off");
    assert!(texts.iter().any(named), "{texts:#?}");
}

/// Functions that the write to the module calls, from the outermost to the innermost.
const TRACED: &str = "vfs_write proc_reg_write delay_write punctual_keeps_preemption_off";

/// A separate trace instance with the tracer function_graph. It is removed when this value is dropped.
struct FunctionGraph {
    folder: PathBuf,
}

impl FunctionGraph {
    /// Starts to record the functions and the switches of threads. Returns `None` if the kernel refuses the
    /// tracer.
    fn start() -> Option<Self> {
        let name = format!("punctual-test-functions-{}", std::process::id());
        let folder = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&folder).unwrap();
        let this = Self { folder };
        this.set("trace_clock", "mono");
        this.set("set_ftrace_filter", TRACED);
        if let Err(error) = fs::write(this.folder.join("current_tracer"), "function_graph") {
            punctual_testing::skip!(Kernel, "function_graph in an instance: {error}");
            return None;
        }
        for event in [
            "sched/sched_switch",
            "sched/sched_waking",
            "irq",
            "irq_vectors",
        ] {
            this.set(&format!("events/{event}/enable"), "1");
        }
        for option in ["abstime", "proc"] {
            this.set(&format!("options/funcgraph-{option}"), "1");
        }
        Some(this)
    }

    fn set(&self, file: &str, value: &str) {
        let path = self.folder.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Stops, and returns what the kernel prints.
    fn stop(self) -> String {
        self.set("tracing_on", "0");
        fs::read_to_string(self.folder.join("trace")).unwrap()
    }
}

impl Drop for FunctionGraph {
    fn drop(&mut self) {
        // Instances share these options.
        for option in ["abstime", "proc"] {
            let path = self.folder.join(format!("options/funcgraph-{option}"));
            let _ = fs::write(path, "0");
        }
        let _ = fs::write(self.folder.join("current_tracer"), "nop");
        fs::remove_dir(&self.folder).unwrap();
    }
}

/// The kernel's own recording of the tracer function_graph names the function that disabled preemption.
#[test]
fn function_graph_names_the_function_that_disabled_preemption() {
    if !loaded("function_graph") {
        return;
    }
    let Some(tracer) = FunctionGraph::start() else {
        return;
    };
    let place = Sandbox::new();
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let keeper = thread("keeper", fifo(10), &[0], move || {
        let mut spans = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            sleep_until(now() + Nanos::from_millis(150));
            spans.push(kept("preempt", Nanos::from_millis(15)));
        }
        spans
    });
    place.done("measure timer --cpus 0 --interval 10ms -D 3s -q");
    ends.store(true, Ordering::Relaxed);
    let spans = keeper.join().unwrap();
    fs::write(place.path("trace.txt"), tracer.stop()).unwrap();
    let explained = place.done("explain --trace trace.txt --json");
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let outliers = explained["outliers"].as_array().unwrap();
    let shares = outliers.iter().flat_map(|one| {
        let shares = one["outlier"]["blame"]["shares"].as_array().unwrap();
        shares
            .iter()
            .filter(|share| share["who"].as_str().unwrap().contains("keeper-"))
    });
    // The emulator can stop in any function of the write.
    let innermost = |share: &&serde_json::Value| {
        share["cause"]["function"]["function"] == "punctual_keeps_preemption_off"
    };
    let named: Vec<_> = shares.filter(innermost).collect();
    assert!(!named.is_empty(), "{outliers:#?}");
    let longest = spans.iter().map(|span| span.to.0 - span.from.0).max();
    for share in named {
        let [all, function] = [&share["ns"], &share["cause"]["function"]["ns"]];
        let [all, function] = [all, function].map(|ns| ns.as_u64().unwrap());
        assert!(function <= all && function * 10 >= all, "{share}");
        assert!(function <= longest.unwrap() * spans.len() as u64, "{share}");
        let words = share["detail"].as_str().unwrap();
        assert!(
            words.contains("function punctual_keeps_preemption_off took"),
            "{share}"
        );
    }
}
