//! Kernel stacks in words.

use super::EventNames;

/// Functions at the start of every stack: the tracer and the scheduler.
const OF_TRACER: [&str; 8] = [
    "bpf_prog_",
    "bpf_trace_run",
    "trace_event_",
    "__traceiter_",
    "perf_trace_",
    "__schedule",
    "schedule",
    "preempt_schedule",
];

/// Returns the function names of a stack, joined by `<`, starting at the function that blocked.
pub fn stack_of(frames: &[u64], names: &impl EventNames) -> String {
    let named = frames.iter().map(|frame| names.symbol(*frame));
    let is_tracer = |name: &String| {
        OF_TRACER.iter().any(|of| name.starts_with(of)) && !name.starts_with("schedule_")
    };
    let named: Vec<String> = named.skip_while(is_tracer).collect();
    named.join(" < ")
}

/// Prefixes of functions in an interrupt's entry code, up to its first handler (x86; arm64). The
/// functions that follow them in the stack were interrupted.
const OF_ENTRY: [&str; 6] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "el1h_64_irq",
    "el1_irq",
    "el0t_64_irq",
    "el0_irq",
];

/// Returns the names of the interrupted functions, the innermost first. Empty for user space.
/// `None` if the start of the interrupt is unknown.
pub fn interrupted_functions(frames: &[u64], names: &impl EventNames) -> Option<Vec<String>> {
    let named: Vec<String> = frames.iter().map(|frame| names.symbol(*frame)).collect();
    let is_entry = |name: &String| OF_ENTRY.iter().any(|of| name.starts_with(of));
    let entry = named.iter().rposition(is_entry)?;
    Some(named[entry + 1..].to_vec())
}

/// Describes the interrupted functions for an event.
pub(super) fn interrupted(frames: &[u64], names: &impl EventNames) -> String {
    match interrupted_functions(frames, names) {
        Some(functions) if functions.is_empty() => "it interrupts user space".to_owned(),
        Some(functions) => format!("it interrupts {}", functions.join(" < ")),
        None => format!("kernel stack: {}", stack_of(frames, names)),
    }
}
