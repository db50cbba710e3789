//! Reads what the kernel's latency tracers (irqsoff, preemptoff, preemptirqsoff, wakeup, wakeup_rt,
//! wakeup_dl) state about a latency: its length, the thread and the ends of the section. The calls of
//! functions between them are collected.

use std::collections::HashMap;

use punctual_model::{
    Comm, KernelPriority, LatencyOf, Nanos, Task, Text, TracedCall, TracerStatement,
};

/// Maximum number of calls that are kept of one latency. Later calls are dropped.
const MOST_CALLS: usize = 200_000;

/// Maximum number of kernel stacks that are kept of one latency.
const MOST_STACKS: usize = 64;

/// The latency tracers, and the meaning of their latency.
const TRACERS: [(&str, LatencyOf); 6] = [
    ("irqsoff", LatencyOf::IrqsOff),
    ("preemptoff", LatencyOf::PreemptOff),
    ("preemptirqsoff", LatencyOf::Either),
    ("wakeup", LatencyOf::WakeUp),
    ("wakeup_rt", LatencyOf::WakeUp),
    ("wakeup_dl", LatencyOf::WakeUp),
];

/// A statement that is being read.
#[derive(Debug, Default)]
pub(super) struct Pending {
    tracer: Option<String>,
    latency: Option<Nanos>,
    cpu: u32,
    task: Option<Task>,
    started_at: Option<String>,
    ended_at: Option<String>,
    calls: Vec<TracedCall>,
    stacks: Vec<Vec<Text>>,
}

impl Pending {
    /// Applies a line of the header, without `#`. Returns whether it is one.
    pub(super) fn header(&mut self, line: &str) -> bool {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("tracer: ") {
            self.tracer = Some(name.trim().to_owned());
            return false;
        }
        if let Some((name, _)) = line.split_once(" latency trace v") {
            self.tracer.get_or_insert_with(|| name.trim().to_owned());
            return false;
        }
        // The bar may have been removed as the mark of a quotation.
        if let Some(task) = line.trim_start_matches("| ").strip_prefix("task: ") {
            self.task = task_of(task);
            return self.task.is_some();
        }
        for (end, slot) in [
            ("started at:", &mut self.started_at),
            ("ended at:", &mut self.ended_at),
        ] {
            let place = line
                .strip_prefix("=> ")
                .and_then(|line| line.strip_prefix(end));
            if let Some(place) = place {
                *slot = place.split_whitespace().next().map(str::to_owned);
                return true;
            }
        }
        let Some((micros, rest)) = line
            .strip_prefix("latency: ")
            .and_then(|line| line.split_once(" us"))
        else {
            return false;
        };
        let micros = micros.trim().parse::<u64>().ok();
        self.latency = micros.and_then(|us| us.checked_mul(1_000)).map(Nanos);
        let cpu = rest.split_once("CPU#").map(|(_, rest)| rest);
        let digits = cpu.and_then(|cpu| cpu.split(|c: char| !c.is_ascii_digit()).next());
        self.cpu = digits.and_then(|cpu| cpu.parse().ok()).unwrap_or(0);
        self.latency.is_some()
    }

    /// Returns whether a header states a latency.
    pub(super) fn states(&self) -> bool {
        self.latency.is_some_and(|latency| latency > Nanos::ZERO) && self.latency_of().is_some()
    }

    /// Returns the name of the tracer, if it is one that states latencies.
    pub(super) fn tracer(&self) -> Option<&str> {
        self.latency_of()?;
        self.tracer.as_deref()
    }

    /// Returns the thread of the section, if it has this ID.
    pub(super) fn task(&self, pid: u32) -> Option<Task> {
        self.task.filter(|task| task.pid == pid)
    }

    fn latency_of(&self) -> Option<LatencyOf> {
        let name = self
            .tracer
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let known = TRACERS.iter().find(|(tracer, _)| *tracer == name);
        // Before Linux 2.6.27, every tracer had the same title.
        let old = name.is_empty() || name == "preemption";
        known.map(|(_, of)| *of).or_else(|| match &self.started_at {
            Some(_) if old => Some(LatencyOf::Either),
            None if old && self.task.is_some() => Some(LatencyOf::WakeUp),
            _ => None,
        })
    }

    /// Adds a call.
    pub(super) fn call(&mut self, call: TracedCall) {
        if self.calls.len() < MOST_CALLS {
            self.calls.push(call);
        }
    }

    /// Adds the caller of the last call, which a mail program moved to its own line.
    pub(super) fn caller(&mut self, caller: Text) {
        if let Some(last) = self.calls.last_mut() {
            last.caller.get_or_insert(caller);
        }
    }

    /// Adds a kernel stack, the innermost function first.
    pub(super) fn stack(&mut self, stack: Vec<Text>) {
        if self.stacks.len() < MOST_STACKS {
            self.stacks.push(stack);
        }
    }

    /// Completes the statement. `is_relative`: times count from the start of the latency.
    pub(super) fn finish(mut self, is_relative: bool) -> Option<TracerStatement> {
        let latency_of = self.latency_of()?;
        let latency = self.latency.filter(|latency| *latency > Nanos::ZERO)?;
        // Only the entries of wake-ups and switches contain priorities.
        let known = self.calls.iter().map(|call| call.thread);
        let known: HashMap<u32, KernelPriority> = known
            .filter(|task| task.prio != KernelPriority::UNKNOWN)
            .map(|task| (task.pid, task.prio))
            .collect();
        for Task { pid, prio, .. } in self.calls.iter_mut().map(|call| &mut call.thread) {
            *prio = known.get(pid).copied().unwrap_or(*prio);
        }
        let first = self.calls.first().map(|call| call.time);
        Some(TracerStatement {
            latency_of,
            tracer: self.tracer.as_deref().unwrap_or("latency").into(),
            latency,
            begin: first.filter(|_| !is_relative).unwrap_or_default(),
            cpu: self.cpu,
            thread: self.task,
            ends: self
                .started_at
                .zip(self.ended_at)
                .map(|(from, to)| (from.as_str().into(), to.as_str().into())),
            calls: self.calls,
            stacks: self.stacks,
            parts: Vec::new(),
        })
    }
}

/// Parses `cyclictest-1204 (uid:0 nice:0 policy:1 rt_prio:80)`.
fn task_of(text: &str) -> Option<Task> {
    let (name, rest) = text.rsplit_once(" (")?;
    let (comm, pid) = name.trim().rsplit_once('-')?;
    let value = |key: &str| -> Option<i16> {
        let (_, value) = rest.split_once(key)?;
        let end = value.find([' ', ')']).unwrap_or(value.len());
        value[..end].parse().ok()
    };
    let prio = match value("policy:") {
        Some(1 | 2) => KernelPriority::real_time(value("rt_prio:")?.clamp(1, 99) as u8),
        Some(6) => KernelPriority(-1),
        _ => KernelPriority(120 + value("nice:")?.clamp(-20, 19)),
    };
    Some(Task {
        pid: pid.parse().ok()?,
        comm: Comm::new(comm.as_bytes()),
        prio,
    })
}

/// A thread that waits for a CPU or gets it, as the wakeup tracers write it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The current thread; its name is in the first column.
    pub(super) pid: u32,
    pub(super) prio: KernelPriority,
    /// State of the current thread: the first letter of `R`.
    pub(super) state: char,
    /// Whether the CPU switches to `next`, rather than wakes it.
    pub(super) switches: bool,
    pub(super) cpu: u32,
    pub(super) next: Task,
}

impl Entry {
    /// Parses `77:120:R   + [002]    1204: 19:R cyclictest` and `77:120:R ==> [002] ...`
    /// (`trace_ctxwake_print` in kernel/trace/trace_output.c).
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let (before, after) = rest.split_once('[')?;
        let (before, switches) = match before.trim().strip_suffix("==>") {
            Some(before) => (before, true),
            None => (before.trim().strip_suffix('+')?, false),
        };
        let (cpu, after) = after.split_once(']')?;
        let (pid, prio, state, _) = numbers(before)?;
        let (next, next_prio, _, comm) = numbers(after)?;
        Some(Self {
            pid,
            prio,
            state,
            switches,
            cpu: cpu.trim().parse().ok()?,
            next: Task {
                pid: next,
                comm: Comm::new(comm.as_bytes()),
                prio: next_prio,
            },
        })
    }
}

/// Parses `1204: 19:R cyclictest`: the ID, the priority, the state and the rest.
fn numbers(text: &str) -> Option<(u32, KernelPriority, char, &str)> {
    let mut parts = text.trim().splitn(3, ':');
    let pid = parts.next()?.trim().parse().ok()?;
    let prio = KernelPriority(parts.next()?.trim().parse().ok()?);
    let rest = parts.next()?.trim_start();
    let state = rest.chars().next()?;
    Some((pid, prio, state, rest[state.len_utf8()..].trim()))
}

/// Parses a call of a function: `mmc_hw_reset <-process_one_work`, `irq_enter+0x12/0x40
/// (smp_apic_timer_interrupt)` of old kernels, or a name alone if the caller is on the next line. A module
/// may follow each name: `e1000_intr [e1000] <-e1000_poll [e1000]`.
pub(super) fn call(rest: &str) -> Option<(&str, Option<&str>)> {
    let rest = rest.trim();
    let (function, after) = match rest.split_once([' ', '\t']) {
        Some((function, after)) => (function, after.trim_start()),
        None => (rest, ""),
    };
    // The kernel writes `name [module]` for a function of a module.
    let after = match after.strip_prefix('[') {
        Some(module) => module.split_once(']')?.1.trim_start(),
        None => after,
    };
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = |text: &str| {
        text.starts_with(is_first)
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.+/$".contains(&byte))
    };
    if !is_name(function) {
        return None;
    }
    let caller = match after.strip_prefix("<-") {
        Some(caller) => Some(caller.split_whitespace().next()?),
        None => after
            .strip_prefix('(')
            .and_then(|caller| caller.split_once(')'))
            .map(|one| one.0),
    };
    match caller.map(str::trim).filter(|caller| !caller.is_empty()) {
        Some(caller) if is_name(caller) => Some((function, Some(caller))),
        None if after.is_empty() => Some((function, None)),
        _ => None,
    }
}
