//! `explain`: finds the causes of outliers of a recording, of late wake-ups of a running
//! application, or of late reactions in a trace that another tool recorded.

mod chains;
mod foreign;
mod profile;
mod recorded;
mod threads;
mod written;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, value_parser};

use punctual_report::text;

use crate::context::Context;
use crate::exit::Exit;
use crate::options::select::OneRecording;
use crate::output;
use crate::recordings::explained::Explained;
use crate::verb::{Run, Verb};

pub(in crate::verbs) use recorded::{ExplainedJson, OutlierJson};

pub(super) const VERB: Verb = Verb::new::<Explain>("explain");

const AFTER: &str = "With --pid, --comm, --cgroup or --unit, punctual follows the jobs of the threads. A \
    job begins at its release: the due time of the timer that ends the wait in which the thread is idle, \
    or the wake-up if no timer ends it. It is complete when the thread enters that wait again. A job above the budget is split into shares \
    that add up to its response time. The result is a recording of the probe 'jobs'. With --wait, \
    punctual instead explains each wait for a CPU above the threshold, in a recording of the probe \
    'threads'.\n\n\
    Without root, punctual follows the jobs of your own processes by their context switches, which \
    needs /proc/sys/kernel/perf_event_paranoid of at most 2. A job then begins with any wake-up and \
    ends with the next sleep. A late job is split into the time on a CPU and the time of waiting for \
    one; what ran meanwhile is not recorded.\n\n\
    With --profile FILE, punctual also samples the stacks of the threads, on the CPU and at each longer \
    wait. It compares the late jobs with the mean of the other jobs of the same thread, and writes \
    where the late ones spend more time: a flame graph (.svg), a file for go tool pprof (.pb.gz), or \
    one for https://profiler.firefox.com (.json). Complete stacks need frame pointers \
    (-fno-omit-frame-pointer).\n\n\
    With --trace, punctual finds and explains the late reactions in a file: waits of threads for a \
    CPU, timers that expired late, and latencies that cyclictest -b, timerlat or osnoise wrote \
    into the trace. Without --threshold, it explains the 20 longest reactions of real-time \
    threads, or of all threads if no real-time thread was late. The file can be a trace.dat of \
    trace-cmd, a perf.data with tracepoints, a .pftrace of Perfetto, the folder of a CTF \
    trace of LTTng, or the text of trace-cmd report, of perf script or of tracefs' trace. A file \
    can be compressed.\n\n\
    With --trace and --budget or --release, punctual explains the jobs of the threads in the file, as \
    with --pid. It needs switches and wake-ups, and system calls (raw_syscalls) to find the waits \
    that release the jobs. Without --pid or --comm, it takes the real-time threads, or all threads \
    if no real-time thread has jobs.\n\n\
    With --trace and --thread-times, punctual prints a table instead: for each thread, its run time, \
    and the number, average and maximum of its waits for a CPU. With --thread-times=perf, the figures are \
    exactly those of perf sched timehist -s and perf sched latency -p.\n\n\
    With --from and --to, punctual follows chains of threads that wake each other, from an \
    interrupt or the wake-up of a thread until the thread of --to sleeps: the latency from end to end, \
    the share of each thread's run time and waits, and the longest chains. Without --trace, it \
    follows those of the running machine for the time of --duration, and stores no recording. A trace \
    needs switches and wake-ups. The events irq:*, irq_vectors:* and raw_syscalls:* let it follow \
    more chains. If it cannot follow any chain to its end because events are missing, the exit code is \
    4.\n\n\
    With --output FILE.pftrace, punctual writes the whole trace for https://ui.perfetto.dev, with \
    the causes of each late reaction on a separate track. A trace of Perfetto is kept as it is, and \
    the track is appended. With --between or --at, it writes only \
    the events of that time, and of 10 ms before and after it. For a recording, it writes the \
    events around the outliers. With --output FILE.json, it writes only the late reactions with their \
    shares, for https://profiler.firefox.com.";

/// Find causes of outliers of a recording, an application or a trace
#[derive(Parser)]
#[command(after_help = AFTER)]
#[command(mut_arg("recording", |arg| arg.conflicts_with("subject")))]
#[command(mut_arg("outlier", |arg| arg.conflicts_with_all(["cgroup", "unit"])))]
#[command(mut_arg("all_events", |arg| arg.conflicts_with_all(["cgroup", "unit"])))]
struct Explain {
    #[command(flatten)]
    selected: OneRecording,
    /// Only this outlier [default: all, with the largest in detail]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    outlier: Option<u64>,
    /// Predict the outliers without this cause, as kind, name or KIND:NAME, such as softirq or
    /// interrupt:nvme; can be given more than once
    #[arg(long, value_name = "CAUSE", conflicts_with_all = ["outlier", "output", "json"])]
    without: Vec<String>,
    /// Show all kept events, not only a screenful
    #[arg(long)]
    all_events: bool,
    /// Print JSON with all events; for an application, the recording
    #[arg(long)]
    json: bool,
    /// Write a file instead: .html, .svg or .png of one outlier, .pftrace (Perfetto), .json (Firefox)
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    application: threads::Application,
    #[command(flatten)]
    foreign: foreign::Foreign,
    #[command(flatten)]
    chains: chains::Chains,
}

impl Run for Explain {
    fn run(self, context: &Context) -> Result<Exit> {
        if let Some(exit) = chains::run(&self, context)? {
            return Ok(exit);
        }
        if let Some(path) = &self.output {
            return written::write(&self, path, context);
        }
        if let Some(path) = self.foreign.file() {
            let selection = self.application.selection()?;
            if let Some(times) = self.foreign.thread_times(path, &selection)? {
                output::print(&text::render(&times, &context.style()))?;
                return Ok(Exit::Done);
            }
            let explained = self.foreign.explain(path, &selection)?;
            return recorded::print(&Explained::read(explained), &self, context);
        }
        match self.application.targets()? {
            Some(targets) => self.application.run(targets, self.json, context),
            None => {
                let explained = Explained::stored(&self.selected, context)?;
                recorded::print(&explained, &self, context)
            }
        }
    }
}
