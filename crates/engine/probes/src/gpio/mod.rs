//! `gpio`: the time from an edge of a GPIO input until a thread has set a GPIO output.

mod chips;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Scheduling, Table, Typed, counted, parameters,
};
use punctual_rt::{Clock, GpioChip, GpioEdges};

use self::chips::{Chips, Line};
use self::worker::{NEVER, Pair, Parts, Port, Seen, Worker};
use crate::entry::Probe;
use crate::monotonic::now;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
    WorkerSpec,
};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "gpio",
    summary: "time from a GPIO edge until a thread sets an output",
    unit: "ns",
    documentation: include_str!("gpio.md").trim_ascii_end(),
    privileges: "access to /dev/gpiochip*; CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy",
    replaces: "gpiomon (libgpiod) with a script",
    chart: Chart::Latency,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Gpio::new(arguments).prepare(plan, resources),
};

parameters! {
    IN: Option<String> = Typed::text(
        "in",
        "Input whose edges are measured: a name, or chip and number (gpiochip0:17)",
    );
    OUT: Option<String> = Typed::text(
        "out",
        "Output that changes at each edge; without it, no output is set",
    );
    EDGE: &'static str = Typed::choice(
        "edge",
        "Edges of the input that are measured",
        &[
            ("rising", "from low to high"),
            ("falling", "from high to low"),
            ("both", "all"),
        ],
    ).or("rising");
}

/// The name that the kernel shows as the user of the lines.
const CONSUMER: &str = "punctual";

/// Highest rate of edges, in Hz, whose samples the session receives completely.
const RATE_HZ: u64 = 20_000;

/// Interval at which the end of the run is checked. The measuring thread cannot do so itself,
/// because it waits for edges without a timeout, which would be another system call for each edge.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Gpio {
    input: Option<String>,
    output: Option<String>,
    edges: GpioEdges,
}

/// The lines of a run.
#[derive(Clone, Debug)]
struct Lines {
    input: Line,
    output: Option<Line>,
    edges: GpioEdges,
}

impl Gpio {
    fn new(arguments: &Arguments) -> Self {
        Self {
            input: IN.value_in(arguments),
            output: OUT.value_in(arguments),
            edges: match EDGE.value_in(arguments) {
                "falling" => GpioEdges::Falling,
                "both" => GpioEdges::Both,
                _ => GpioEdges::Rising,
            },
        }
    }

    /// Finds the lines.
    fn lines(&self, chips: &Chips) -> Result<Lines, ProbeError> {
        let Some(input) = &self.input else {
            return Err(ProbeError::Unfit(format!(
                "the input is missing: pass --in LINE ({})",
                chips.list()
            )));
        };
        let find = |option: &str, text: &str| {
            let found = chips.line(text);
            found.map_err(|why| ProbeError::Unfit(format!("--{option} {text}: {why}")))
        };
        let input = find("in", input)?;
        let output = self.output.as_deref().map(|text| find("out", text));
        let output = output.transpose()?;
        if output.as_ref() == Some(&input) {
            return Err(ProbeError::Unfit(format!(
                "--out: {} is also the input: choose another line",
                input.title()
            )));
        }
        Ok(Lines {
            input,
            output,
            edges: self.edges,
        })
    }
}

impl Lines {
    /// Requests the lines from the kernel. The output is low.
    fn request(&self) -> Result<Pair, ProbeError> {
        let failed = |option: &str, line: &Line, error: punctual_rt::Error| {
            ProbeError::Unfit(format!("--{option} {}: {error}", line.title()))
        };
        let Self { input, edges, .. } = self;
        let chip = GpioChip::open(&input.path());
        let requested = chip.and_then(|chip| chip.input(input.offset, *edges, CONSUMER));
        let requested = requested.map_err(|error| failed("in", input, error))?;
        let output = self.output.as_ref().map(|line| {
            let chip = GpioChip::open(&line.path());
            let output = chip.and_then(|chip| chip.output(line.offset, false, CONSUMER));
            output.map_err(|error| failed("out", line, error))
        });
        Ok(Pair {
            input: requested,
            output: output.transpose()?,
            level: false,
        })
    }
}

impl Probe for Gpio {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let lines = self.lines(&Chips::of_this_machine())?;
        // The kernel gives a line to one user only, and several runs may be prepared at once. So
        // the lines are released here, and requested again by each run.
        drop(lines.request()?);
        ready(plan, lines.clone(), move || lines.request())
    }
}

/// Returns a run that requests its lines with `request` when it starts.
fn ready<P: Port>(
    plan: &Plan,
    lines: Lines,
    request: impl FnOnce() -> Result<P, ProbeError> + Send + 'static,
) -> Result<Ready, ProbeError> {
    let Some(cpu) = plan.cpus.first() else {
        return Err(ProbeError::NoCpu { probe: ENTRY.name });
    };
    let specification = WorkerSpec {
        label: None,
        cpu: Some(cpu),
        from_cpu: None,
        scheduling: plan.scheduling,
        rate_hz: RATE_HZ,
    };
    let run = Run {
        lines,
        cpu,
        scheduling: plan.scheduling,
        duration: plan.duration,
        warm_up: plan.warm_up_of(plan.duration),
    };
    Ok(plan.ready([specification], move |recorders, control| {
        run.measure(request, recorders, control)
    }))
}

/// A probe that is ready to start.
struct Run {
    lines: Lines,
    cpu: u32,
    scheduling: Scheduling,
    duration: Option<Nanos>,
    warm_up: Nanos,
}

impl Run {
    fn measure<P: Port>(
        self,
        request: impl FnOnce() -> Result<P, ProbeError> + Send + 'static,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let Ok([recorder]) = <[_; 1]>::try_from(recorders) else {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        };
        // The handler is needed for ending a wait for an edge that does not come.
        punctual_rt::interrupt::install_interrupt_handler()?;
        let end = Arc::new(AtomicU64::new(NEVER));
        let builder = measuring_thread(&format!("gpio/{}", self.cpu), &[self.cpu], self.scheduling);
        let mut group = ThreadGroup::new(control);
        let (duration, warm_up) = (self.duration, self.warm_up);
        let prepare = move |_: &Control| {
            let cost = SelfCost::measure(Clock::Monotonic);
            Ok(Worker {
                port: request()?,
                recorder,
                duration,
                warm_up,
                cost,
            })
        };
        let its_end = Arc::clone(&end);
        group.spawn(builder, prepare, move |worker, control, start| {
            Ok(worker.run(control, start, &its_end)?)
        })?;
        group.go();
        let threads = group.tids();
        group.attend(LOOK_EVERY, || {
            if now().0 >= end.load(Ordering::Acquire) {
                for thread in &threads {
                    // The thread may have ended.
                    let _ = punctual_rt::interrupt::interrupt(*thread);
                }
            }
        });
        let (workers, seen): (Vec<_>, Vec<_>) = group.join()?.into_iter().unzip();
        let output = self.lines.output.is_some();
        Ok(Measured {
            workers,
            tables: (seen.iter())
                .flat_map(|seen| [edges(seen, output), parts(&seen.parts, output)])
                .collect(),
            warnings: (seen.iter())
                .flat_map(|seen| warnings(seen, &self.lines))
                .collect(),
        })
    }
}

fn edges(seen: &Seen, output: bool) -> Table {
    let mut table = Table::new(
        "edges",
        "Edges of the whole run, including its warm-up",
        &[("what", "edges"), ("count", "count")],
    );
    let changes = output.then_some(("changes of the output", seen.changes));
    let rows = [
        ("counted by the kernel", seen.edges),
        ("read by the thread", seen.received),
        ("dropped: the kernel's queue was full", seen.dropped),
        ("before the start, not measured", seen.early),
    ];
    for (what, count) in rows.into_iter().chain(changes) {
        table.push([Cell::from(what), count.into()]);
    }
    table
}

fn parts(parts: &Parts, output: bool) -> Table {
    let mut table = Table::new(
        "reaction_parts",
        "Parts of the reaction, after the warm-up",
        &[
            ("part", "part"),
            ("edges", "edges"),
            ("median_ns", "median"),
            ("p99_ns", "p99"),
            ("max_ns", "max"),
            ("in_longest_ns", "in the longest"),
        ],
    );
    let (wake, set) = parts.longest.unzip();
    let set = output.then_some(("setting the output", &parts.set, set));
    let rows = [("time stamp to thread", &parts.wake, wake)];
    for (name, histogram, in_longest) in rows.into_iter().chain(set) {
        table.push([
            Cell::from(name),
            histogram.recorded().into(),
            histogram.quantile(0.5).into(),
            histogram.supported_quantile(0.99).into(),
            histogram.max().into(),
            in_longest.into(),
        ]);
    }
    table
}

fn warnings(seen: &Seen, lines: &Lines) -> Vec<String> {
    let mut warnings = Vec::new();
    let input = lines.input.title();
    if seen.edges == 0 {
        let edges = match lines.edges {
            GpioEdges::Rising => "rising edge",
            GpioEdges::Falling => "falling edge",
            GpioEdges::Both => "edge",
        };
        warnings.push(format!(
            "no {edges} of {input} arrived, so nothing was measured: check the source of the \
             signal, the wire and --edge"
        ));
    }
    if seen.dropped > 0 {
        warnings.push(format!(
            "the kernel dropped {} of {input}, because the thread did not read them in time",
            counted(seen.dropped, "edge", "edges")
        ));
    }
    warnings
}
