//! The settings that the options of rtla set.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{CpuSet, Policy};
use punctual_session::{
    KernelTrace, KernelTraceRequest, NoiseStop, TextAsk, TextEvents, TracerGroup,
};

use super::actions::{self, Action};
use crate::machine::Machine;
use crate::option_row::OptionRow;
use crate::{CompatError, Given, Parsed};

/// The settings from a command line of any of the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RtlaSettings {
    pub(super) cpus: Option<CpuSet>,
    pub(super) housekeeping: Option<CpuSet>,
    /// 0 to run until stopped.
    pub(super) duration_s: u64,
    pub(super) warm_up_s: u64,
    pub(super) period_us: u64,
    /// `None` for the default of the tracer.
    pub(super) scheduling: Option<(Policy, u8)>,
    /// Interrupt latency (timerlat) or single noise (osnoise) that ends the run; 0 for none.
    pub(super) stop_us: u64,
    /// Thread latency (timerlat) or noise of a period (osnoise) that ends the run; 0 for none.
    pub(super) stop_total_us: u64,
    /// Default file of the trace.
    pub(super) trace_default: &'static str,
    /// File that gets the trace at a stop, after the other actions.
    pub(super) trace_file: Option<PathBuf>,
    /// Events in the trace in addition to those of the tracer.
    pub(super) events: Vec<TextEvents>,
    /// Size of the trace's buffer of each CPU.
    pub(super) buffer_kib: Option<u64>,
    /// Control group of the measuring threads; `None` to leave them where they are.
    pub(super) group: Option<TracerGroup>,
    pub(super) on_threshold: Vec<Action>,
    pub(super) on_end: Vec<Action>,
    pub(super) quiet: bool,
    pub(super) debug: bool,
    /// Whether figures are in ns instead of us.
    pub(super) nanos: bool,
    pub(super) rows: Rows,
    /// timerlat: thread latency above which the causes are recorded; 0 for the stop latencies.
    pub(super) stack_us: u64,
    pub(super) user_threads: bool,
    pub(super) kernel_threads: bool,
    pub(super) no_analysis: bool,
    /// Whether the analysis is printed without the table.
    pub(super) only_analysis: bool,
    pub(super) dma_latency_us: Option<i32>,
    pub(super) idle_state: Option<i64>,
    /// osnoise: time to spin in each period; `None` for the whole period, but at most the default.
    pub(super) runtime_us: Option<u64>,
    /// osnoise: the default of the time to spin.
    pub(super) usual_runtime_us: u64,
    /// osnoise: shortest noise; 0 for the default of the kernel.
    pub(super) threshold_us: u64,
    /// Warnings about options without their full effect.
    pub(super) warnings: Vec<String>,
}

/// The form of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Width of a row, in units of the output.
    pub(super) width: u64,
    pub(super) entries: usize,
    pub(super) no_irq: bool,
    pub(super) no_thread: bool,
    pub(super) no_header: bool,
    pub(super) no_summary: bool,
    pub(super) no_index: bool,
    pub(super) with_zeros: bool,
}

impl RtlaSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values and contradictions. Its status is that of the original.
    pub(super) fn read(
        parsed: &Parsed,
        table: &[OptionRow<Self>],
        machine: &Machine,
        default: Self,
    ) -> Result<Self, CompatError> {
        let mut settings = default;
        let read = parsed.read_into(&mut settings, table, machine);
        read.map_err(|error| match error {
            CompatError::Usage(text) => fatal(&text),
            other => other,
        })?;
        settings.check()?;
        let file = settings.trace_file.take().map(Action::Trace);
        settings.on_threshold.extend(file);
        let extends_trace = !settings.events.is_empty() || settings.buffer_kib.is_some();
        if extends_trace && !settings.wants_trace() {
            settings.warnings.push(
                "-e and --trace-buffer-size have no effect, because no trace is requested: add -t"
                    .to_owned(),
            );
        }
        Ok(settings)
    }

    /// Returns the defaults of timerlat.
    pub(super) fn timerlat() -> Self {
        Self {
            cpus: None,
            housekeeping: None,
            duration_s: 0,
            warm_up_s: 0,
            period_us: 1_000,
            scheduling: None,
            stop_us: 0,
            stop_total_us: 0,
            trace_default: "timerlat_trace.txt",
            trace_file: None,
            events: Vec::new(),
            buffer_kib: None,
            group: None,
            on_threshold: Vec::new(),
            on_end: Vec::new(),
            quiet: false,
            debug: false,
            nanos: false,
            rows: Rows {
                width: 1,
                entries: 256,
                no_irq: false,
                no_thread: false,
                no_header: false,
                no_summary: false,
                no_index: false,
                with_zeros: false,
            },
            stack_us: 0,
            user_threads: false,
            kernel_threads: false,
            no_analysis: false,
            only_analysis: false,
            dma_latency_us: None,
            idle_state: None,
            runtime_us: None,
            usual_runtime_us: 0,
            threshold_us: 0,
            warnings: Vec::new(),
        }
    }

    /// Returns the defaults of osnoise: the thread spins all the time.
    pub(super) fn osnoise() -> Self {
        Self {
            period_us: 1_000_000,
            usual_runtime_us: u64::MAX,
            trace_default: "osnoise_trace.txt",
            ..Self::timerlat()
        }
    }

    /// Returns the defaults of hwnoise.
    pub(super) fn hwnoise() -> Self {
        Self {
            usual_runtime_us: 750_000,
            ..Self::osnoise()
        }
    }

    /// Returns the time to spin in each period of osnoise, in us.
    pub(super) fn runtime_us(&self) -> u64 {
        self.runtime_us
            .unwrap_or_else(|| self.usual_runtime_us.min(self.period_us))
    }

    /// Returns the thread latency of timerlat above which causes are recorded, in us.
    pub(super) fn explained_above_us(&self) -> Option<u64> {
        let limits = [self.stop_us, self.stop_total_us];
        let stops = limits.into_iter().filter(|limit| *limit > 0).min();
        let stop = stops.map(|limit| limit - 1);
        match self.stack_us {
            0 => stop.filter(|_| !self.no_analysis),
            above => Some(stop.map_or(above, |stop| above.min(stop))),
        }
    }

    /// Returns whether a trace is requested.
    pub(super) fn wants_trace(&self) -> bool {
        self.trace_files().next().is_some()
    }

    fn trace_files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let lists = [&self.on_threshold, &self.on_end].into_iter();
        lists.flat_map(|actions| actions::trace_files(actions))
    }

    /// Returns what the kernel's tracer does besides measuring. `stop`: when it stops by itself.
    pub(super) fn kernel_trace(&self, stop: NoiseStop) -> Arc<KernelTrace> {
        Arc::new(KernelTrace::new(KernelTraceRequest {
            stop,
            text: self.wants_trace().then(|| TextAsk {
                events: self.events.clone(),
                buffer_kib: self.buffer_kib,
            }),
            text_at_end: actions::trace_files(&self.on_end).collect(),
            group: self.group.clone(),
        }))
    }

    fn check(&self) -> Result<(), CompatError> {
        let refused = |text: &str| Err(fatal(text));
        for events in &self.events {
            events.check().map_err(|error| fatal(&error.to_string()))?;
        }
        if self.only_analysis && self.no_analysis {
            return refused("--no-aa and --aa-only are mutually exclusive: omit one");
        }
        if self.rows.no_irq && self.rows.no_thread {
            return refused("--no-irq and --no-thread leave no column: omit one of them");
        }
        if self.rows.no_index && !self.rows.with_zeros {
            return refused(
                "--no-index needs --with-zeros: without both, no row has a known value",
            );
        }
        if self.user_threads && self.kernel_threads {
            return refused("--kernel-threads and --user-threads exclude each other: omit one");
        }
        if self.runtime_us() > self.period_us {
            return refused(&format!(
                "a runtime of {} us is longer than the period of {} us: change -r or -p",
                self.runtime_us(),
                self.period_us
            ));
        }
        Ok(())
    }
}

/// Returns the error for settings that contradict each other, with the status of the original.
pub(super) fn fatal(text: &str) -> CompatError {
    CompatError::Exit {
        message: text.to_owned(),
        status: 1,
    }
}

/// Parses `f:95`, `r:95` or `o:0`.
///
/// # Errors
/// Returns an error for other values, and for policies that the probes cannot have.
pub(super) fn scheduling(given: &Given) -> Result<(Policy, u8), CompatError> {
    const FORM: &str = "a policy and a priority: f:1 to f:99, r:1 to r:99, or o:0";
    let text = given.text();
    let (policy, priority) = text.split_once(':').ok_or_else(|| given.bad(FORM))?;
    let policy = match policy {
        "f" | "F" => Policy::Fifo,
        "r" | "R" => Policy::RoundRobin,
        "o" | "O" => Policy::Other,
        "d" | "D" => {
            return Err(given.bad(
                "supported: a thread that is woken by a timer or spins cannot have SCHED_DEADLINE \
                 here; use f:PRIO, or punctual measure deadline",
            ));
        }
        _ => return Err(given.bad(FORM)),
    };
    match (policy, priority.parse::<u8>()) {
        (Policy::Other, Ok(0)) => Ok((policy, 0)),
        (Policy::Other, _) => Err(given.bad("supported: of SCHED_OTHER, only o:0 is; use nice(1)")),
        (_, Ok(priority @ 1..=99)) => Ok((policy, priority)),
        _ => Err(given.bad(FORM)),
    }
}
