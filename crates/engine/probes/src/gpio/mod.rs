//! `gpio`: the time from an edge of a GPIO input until a thread has set a GPIO output.

mod chips;
mod loopback;
mod paced;
mod parts;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Parameter, Table, Typed, counted, parameters,
};
use punctual_rt::{Clock, GpioChip, GpioEdges, ThreadBuilder};

use self::chips::{Chips, Line};
use self::loopback::{Loopback, Looped};
use self::paced::Pace;
use self::worker::{EdgeResult, NEVER, Pair, Port, Worker};
use crate::entry::Probe;
use crate::monotonic::now;
use crate::run::Terms;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
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
    INTERVAL: Option<Nanos> = Typed::duration(
        Parameter::INTERVAL,
        "Generate the edges at this interval; needs a wire from --out to --in",
        Nanos::from_micros(50)..=Nanos::from_secs(10),
    ).short('i');
}

/// The name that the kernel shows as the user of the lines.
const CONSUMER: &str = "punctual";

/// Highest rate of edges, in Hz, whose samples the session receives completely.
const RATE_HZ: u64 = 20_000;

/// The longest time until the first edge, if a wire connects the lines.
const FIRST_EDGE: Duration = Duration::from_secs(1);

/// Interval at which the end of the run is checked. The measuring thread cannot do so itself,
/// because it waits for edges without a timeout, which would be another system call for each edge.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Gpio {
    input: Option<String>,
    output: Option<String>,
    edges: GpioEdges,
    interval: Option<Nanos>,
}

/// The lines of a run.
#[derive(Clone, Debug)]
struct Lines {
    input: Line,
    output: Option<Line>,
    edges: GpioEdges,
    /// Time between the edges that the run generates; `None` if they come from outside.
    interval: Option<Nanos>,
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
            interval: INTERVAL.value_in(arguments),
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
        if self.interval.is_some() && output.is_none() {
            return Err(ProbeError::Unfit(
                "--interval needs an output: pass --out LINE, and connect it to the input with a \
                 wire"
                    .to_owned(),
            ));
        }
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
            interval: self.interval,
        })
    }
}

impl Lines {
    /// Requests the lines from the kernel. The output is low, unless its first change must be a
    /// falling edge.
    fn request(&self) -> Result<Pair, ProbeError> {
        let failed = |option: &str, line: &Line, error: punctual_rt::Error| {
            ProbeError::Unfit(format!("--{option} {}: {error}", line.title()))
        };
        let Self { input, edges, .. } = self;
        let request_input = || {
            let chip = GpioChip::open(&input.path());
            let requested = chip.and_then(|chip| chip.input(input.offset, *edges, CONSUMER));
            requested.map_err(|error| failed("in", input, error))
        };
        let mut requested = request_input()?;
        let is_wired = self.interval.is_some();
        let level = is_wired && *edges == GpioEdges::Falling;
        let output = self.output.as_ref().map(|line| {
            let chip = GpioChip::open(&line.path());
            let output = chip.and_then(|chip| chip.output(line.offset, level, CONSUMER));
            output.map_err(|error| failed("out", line, error))
        });
        let output = output.transpose()?;
        if is_wired {
            // The first level of the output can have caused an edge, which is not one of the run.
            drop(requested);
            requested = request_input()?;
        }
        Ok(Pair {
            input: requested,
            output,
            level,
        })
    }
}

/// Checks that a change of the output causes an edge of the input.
fn check_wire(port: &mut impl Port, lines: &Lines) -> Result<(), ProbeError> {
    port.answer()?;
    if port.has_edge(FIRST_EDGE)? {
        return Ok(());
    }
    let output = lines.output.as_ref().map(Line::title).unwrap_or_default();
    Err(ProbeError::Unfit(format!(
        "--interval: {output} changed, but no edge of {} came within {}: connect them with a wire",
        lines.input.title(),
        Nanos::from(FIRST_EDGE)
    )))
}

impl Probe for Gpio {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        if let (Some(interval), Some(duration)) = (self.interval, plan.duration)
            && interval > duration
        {
            return Err(ProbeError::IntervalTooLong { interval, duration });
        }
        let lines = self.lines(&Chips::of_this_machine())?;
        // The kernel gives a line to one user only, and several runs may be prepared at once. So
        // the lines are released here, and requested again by each run.
        let mut port = lines.request()?;
        if self.interval.is_some() {
            check_wire(&mut port, &lines)?;
        }
        drop(port);
        ready(plan, lines.clone(), move || lines.request())
    }
}

/// Returns a run that requests its lines with `request` when it starts.
fn ready<P: Port>(
    plan: &Plan,
    lines: Lines,
    request: impl FnOnce() -> Result<P, ProbeError> + Send + 'static,
) -> Result<Ready, ProbeError> {
    let cpu = plan.first_cpu(ENTRY.name)?;
    let rate = |interval: Nanos| 1_000_000_000 / interval.0.max(1);
    let worker = plan.worker(None, cpu, lines.interval.map_or(RATE_HZ, rate));
    let run = Run {
        lines,
        cpu,
        terms: Terms::from_plan(plan),
    };
    Ok(
        plan.ready([worker], move |recorders, control: &Arc<Control>| {
            run.measure(request, recorders, control)
        }),
    )
}

/// A probe that is ready to start.
struct Run {
    lines: Lines,
    cpu: u32,
    terms: Terms,
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
        match self.lines.interval {
            None => self.react(request, recorder, control),
            Some(interval) => self.loop_back(interval, request, recorder, control),
        }
    }

    fn thread(&self) -> ThreadBuilder {
        self.terms.thread("gpio", self.cpu)
    }

    /// Measures the reaction to edges from outside.
    fn react<P: Port>(
        self,
        request: impl FnOnce() -> Result<P, ProbeError> + Send + 'static,
        recorder: Recorder,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let end = Arc::new(AtomicU64::new(NEVER));
        let mut group = ThreadGroup::new(control);
        let (duration, warm_up) = (self.terms.duration, self.terms.warm_up);
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
        group.spawn(self.thread(), prepare, move |worker, control, start| {
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
        let has_output = self.lines.output.is_some();
        Ok(Measured {
            workers,
            tables: (seen.iter())
                .flat_map(|seen| [edges(seen, has_output), parts(seen, has_output)])
                .collect(),
            warnings: (seen.iter())
                .flat_map(|seen| warnings(seen, &self.lines))
                .collect(),
        })
    }

    /// Measures edges that the thread generates.
    fn loop_back<P: Port>(
        self,
        interval: Nanos,
        request: impl FnOnce() -> Result<P, ProbeError> + Send + 'static,
        recorder: Recorder,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let mut group = ThreadGroup::new(control);
        let pace = Pace {
            interval,
            duration: self.terms.duration,
        };
        let (warm_up, returns) = (self.terms.warm_up, self.lines.edges != GpioEdges::Both);
        let prepare = move |_: &Control| {
            let cost = SelfCost::measure(Clock::Monotonic);
            Ok(Loopback {
                port: request()?,
                recorder,
                pace,
                warm_up,
                returns,
                cost,
            })
        };
        group.spawn(self.thread(), prepare, |loopback, control, start| {
            Ok(loopback.run(control, start)?)
        })?;
        group.go();
        let (workers, looped): (Vec<_>, Vec<_>) = group.join()?.into_iter().unzip();
        Ok(Measured {
            workers,
            tables: looped.iter().flat_map(Looped::tables).collect(),
            warnings: looped.iter().flat_map(Looped::warnings).collect(),
        })
    }
}

fn parts(seen: &EdgeResult, has_output: bool) -> Table {
    let names = ["time stamp to thread", "setting the output"];
    let names = if has_output { &names[..] } else { &names[..1] };
    let title = "Parts of the reaction, after the warm-up";
    seen.parts.table(title, names)
}

fn edges(seen: &EdgeResult, output: bool) -> Table {
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

fn warnings(seen: &EdgeResult, lines: &Lines) -> Vec<String> {
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
