//! Reads the lines of the tracer function_graph (kernel/trace/trace_functions_graph.c), and finds the
//! call of each return.

use std::collections::HashMap;

use punctual_model::{FunctionRun, Nanos, Text};

use super::line::{is_flags, seconds, whole};

/// Maximum number of calls that are held for a thread. The kernel records fewer
/// (`FTRACE_RETFUNC_DEPTH`).
const DEEPEST: usize = 256;

/// Maximum number of threads whose calls are held.
const THREADS: usize = 65_536;

/// Number of blanks for each call. A program that shows a text may remove them, so that the depth is
/// unknown.
const INDENT: usize = 2;

/// The time from a call to its return exceeds the stated duration by less than this time, or by less than a
/// hundredth of it, because the tracer itself takes time, which an interrupt or an emulator can prolong, and
/// the times of the lines are rounded. More means that lines are missing.
const TOLERANCE: Nanos = Nanos::from_micros(2);

/// A line of the tracer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GraphLine<'a> {
    /// The time, and whether it is counted from the start of the trace.
    pub(super) time: Option<(Nanos, bool)>,
    pub(super) cpu: Option<u32>,
    /// Name and ID of the thread. The kernel writes the first 7 bytes of the name.
    pub(super) thread: Option<(&'a str, u32)>,
    pub(super) flags: &'a str,
    pub(super) text: GraphText<'a>,
}

/// The part of a line after its first columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GraphText<'a> {
    /// The duration, on lines of returns and of functions that call no other.
    pub(super) took: Option<Nanos>,
    /// Number of blanks before the function. They show the depth of the call.
    pub(super) indent: usize,
    pub(super) act: Act<'a>,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act<'a> {
    /// The call of a function.
    Calls(&'a str),
    /// A function that called no other, from its call to its return.
    Leaf(&'a str),
    /// The return of a function, which newer kernels name if its call was overwritten.
    Returns(Option<&'a str>),
    /// An event, or text of a program.
    Event(&'a str),
    /// The CPU switched to this thread.
    Switches((&'a str, u32)),
    /// A decoration.
    Nothing,
}

impl<'a> GraphLine<'a> {
    /// Parses a line of tracefs. `is_graph`: whether the CPU may be missing, because a header names the
    /// tracer.
    pub(super) fn parse(line: &'a str, is_graph: bool) -> Option<Self> {
        let mut rest = line;
        let timed = rest.split_once('|').and_then(|(first, after)| {
            let time = time_of(first.trim())?;
            cpu_of(after).map(|_| (time, after))
        });
        let time = timed.map(|(time, after)| {
            rest = after;
            time
        });
        let cpu = cpu_of(rest).map(|(cpu, after)| {
            rest = after;
            cpu
        });
        if cpu.is_none() && !is_graph {
            return None;
        }
        let (mut thread, mut flags) = (None, "");
        while let Some((column, after)) = rest.split_once('|') {
            let column = column.trim();
            match thread_of(column) {
                Some(of) if thread.is_none() => thread = Some(of),
                None if flags.is_empty() && is_flags(column) => flags = column,
                _ => break,
            }
            rest = after;
        }
        Some(Self {
            time,
            cpu,
            thread,
            flags,
            text: GraphText::parse(rest)?,
        })
    }
}

impl<'a> GraphText<'a> {
    /// Parses the text after the columns of the CPU and the thread, or after `funcgraph_entry:`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let column = text.split_once('|');
        let timed = column.and_then(|(column, after)| Some((duration_of(column.trim())?, after)));
        let (took, rest) = timed.unwrap_or((None, text));
        let indent = rest.len() - rest.trim_start().len();
        let act = Act::parse(rest.trim())?;
        Some(Self { took, indent, act })
    }
}

impl<'a> Act<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('}') {
            let inside = rest.trim().strip_prefix("/*").map(str::trim_start);
            let name = inside.and_then(|inside| inside.split_whitespace().next());
            return Some(Self::Returns(name.filter(|name| is_function(name))));
        }
        if let Some(event) = text.strip_prefix("/*") {
            return Some(Self::Event(event.strip_suffix("*/")?.trim()));
        }
        if ["==========>", "<=========="]
            .iter()
            .any(|of| text.starts_with(of))
        {
            return Some(Self::Nothing);
        }
        if let Some((from, to)) = text.split_once("=>") {
            thread_of(from.trim())?;
            return thread_of(to.trim()).map(Self::Switches);
        }
        let (name, after) = text.split_once('(')?;
        // The kernel writes `name [module]` for a function of a module.
        let name = match name.split_once(" [") {
            Some((function, module)) if module.ends_with(']') => function,
            _ => name,
        };
        // Newer kernels append the arguments, and the result or the caller as a comment.
        let ends = after.split("/*").next().unwrap_or_default().trim_end();
        match ends.chars().last() {
            _ if !is_function(name) => None,
            Some('{') => Some(Self::Calls(name)),
            Some(';') => Some(Self::Leaf(name)),
            _ => None,
        }
    }
}

/// Returns whether a line is one of the two around a switch.
pub(super) fn is_rule(line: &str) -> bool {
    line.len() >= 20 && line.bytes().all(|byte| byte == b'-')
}

/// Parses `360.774522` or, in a latency tracer, `259 us`.
fn time_of(text: &str) -> Option<(Nanos, bool)> {
    if let Some((time, _)) = seconds(text) {
        return Some((time, false));
    }
    let micros = whole(text.strip_suffix(" us")?)?;
    Some((Nanos(micros.checked_mul(1_000)?), true))
}

/// Splits off ` 0)`.
fn cpu_of(text: &str) -> Option<(u32, &str)> {
    let (cpu, after) = text.trim_start().split_once(')')?;
    Some((u32::try_from(whole(cpu)?).ok()?, after))
}

fn thread_of(text: &str) -> Option<(&str, u32)> {
    let (comm, pid) = text.rsplit_once('-')?;
    let is_pid = !comm.is_empty() && whole(pid).is_some();
    is_pid.then(|| Some((comm, pid.parse().ok()?)))?
}

/// Parses a column of durations: empty, `0.541 us`, `! 123456.7 us` or `$ 1234567 us`. The marks are
/// those of `trace_find_mark` in kernel/trace/trace_output.c.
fn duration_of(column: &str) -> Option<Option<Nanos>> {
    if column.is_empty() {
        return Some(None);
    }
    let number = column.trim_start_matches(['+', '!', '#', '*', '@', '$']);
    let number = number.trim_start().strip_suffix("us")?.trim_end();
    let (micros, decimals) = number.split_once('.').unwrap_or((number, ""));
    let mut ns = whole(micros)?.checked_mul(1_000)?;
    if !decimals.is_empty() {
        let unit = 10_u64.checked_pow(3_u32.checked_sub(decimals.len() as u32)?)?;
        ns = ns.checked_add(whole(decimals)? * unit)?;
    }
    Some(Some(Nanos(ns)))
}

fn is_function(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte))
}

/// A function that has not returned.
#[derive(Debug)]
struct Open {
    function: Text,
    indent: usize,
    time: Option<Nanos>,
}

/// The place of a line: its CPU, thread and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) cpu: u32,
    pub(super) pid: Option<u32>,
    pub(super) time: Option<Nanos>,
}

/// A call or a return, for the calls of a latency tracer: the function that runs from now on, and its
/// caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) function: Text,
    pub(super) caller: Option<Text>,
    pub(super) after: Nanos,
}

/// The functions that have not returned, for each thread.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Whether the current trace has lines of the tracer.
    pub(super) is_on: bool,
    /// The outermost function first. The idle threads of all CPUs share one ID.
    open: HashMap<(Option<u32>, u32), Vec<Open>>,
}

impl Graph {
    /// Begins another trace.
    pub(super) fn begin(&mut self, is_on: bool) {
        self.open.clear();
        self.is_on = is_on;
    }

    fn stack(&mut self, place: Place) -> &mut Vec<Open> {
        let pid = place.pid.filter(|pid| *pid != 0);
        let key = (pid, if pid.is_some() { 0 } else { place.cpu });
        if self.open.len() >= THREADS && !self.open.contains_key(&key) {
            self.open.clear();
        }
        self.open.entry(key).or_default()
    }

    /// Processes a line. Returns the run that it completes, and the functions that run after it.
    /// `name`: makes a text of a function's name.
    pub(super) fn line(
        &mut self,
        place: Place,
        text: &GraphText<'_>,
        mut name: impl FnMut(&str) -> Text,
    ) -> (Option<FunctionRun>, Vec<Runs>) {
        let stack = self.stack(place);
        // Calls at this depth or below have returned, even if their returns are missing.
        let deeper = |open: &Open| open.indent >= text.indent;
        match text.act {
            Act::Calls(function) | Act::Leaf(function) => {
                while text.indent >= INDENT && stack.last().is_some_and(deeper) {
                    stack.pop();
                }
                let function = name(function);
                let caller = stack.last().map(|open| open.function.clone());
                let mut runs = vec![Runs {
                    function: function.clone(),
                    caller,
                    after: Nanos::ZERO,
                }];
                if matches!(text.act, Act::Calls(_)) {
                    if stack.len() < DEEPEST {
                        stack.push(Open {
                            function,
                            indent: text.indent,
                            time: place.time,
                        });
                    }
                    return (None, runs);
                }
                let took = text.took.unwrap_or_default();
                runs.extend(returned_to(stack, took));
                let end = place.time.map(|time| Nanos(time.0.saturating_add(took.0)));
                (run(function, place, end, text.took), runs)
            }
            Act::Returns(stated) => {
                while stack.last().is_some_and(|open| open.indent > text.indent) {
                    stack.pop();
                }
                let is_its = stack.last().is_some_and(|open| open.indent == text.indent);
                let open = is_its.then(|| stack.pop()).flatten();
                let runs = returned_to(stack, Nanos::ZERO).into_iter().collect();
                let matching = open.filter(|open| fits(open, place, text));
                let function = stated.map(name).or(matching.map(|open| open.function));
                let complete =
                    function.and_then(|function| run(function, place, place.time, text.took));
                (complete, runs)
            }
            Act::Event(_) | Act::Switches(_) | Act::Nothing => (None, Vec::new()),
        }
    }
}

/// Returns whether the stated duration is the time since the call. The kernel may write a call some time
/// after it began, but a call that it wrote too early is an older one at the same depth.
fn fits(open: &Open, place: Place, text: &GraphText<'_>) -> bool {
    let (Some(begin), Some(end), Some(took)) = (open.time, place.time, text.took) else {
        return true;
    };
    let elapsed = end.saturating_sub(begin);
    let tolerance = TOLERANCE.max(Nanos(took.0 / 100));
    let is_known_depth = text.indent >= INDENT;
    elapsed < took + tolerance && (is_known_depth || took < elapsed + tolerance)
}

fn returned_to(stack: &[Open], after: Nanos) -> Option<Runs> {
    let mut open = stack.iter().rev().map(|open| open.function.clone());
    Some(Runs {
        function: open.next()?,
        caller: open.next(),
        after,
    })
}

fn run(
    function: Text,
    place: Place,
    end: Option<Nanos>,
    took: Option<Nanos>,
) -> Option<FunctionRun> {
    let took = took.filter(|took| *took >= FunctionRun::LEAST)?;
    Some(FunctionRun {
        function,
        cpu: place.cpu,
        pid: place.pid,
        end,
        took,
    })
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
