//! Finds the event that a line contains in the table of events ([`EVENTS`]).

use std::collections::HashMap;

use punctual_model::{EVENTS, Vector};

use super::graph::GraphText;
use super::statement::{Entry, call};
use super::system_call::{SystemCall, is_name, system_call};
use crate::item::NOISE_OF;

/// What the text after the time contains.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// An event from the table, given by its index, its interrupt vector, and the text of its
    /// fields.
    Event(usize, Vector, &'a str),
    /// Text that a program or a tracer wrote.
    Mark(String),
    /// The heading of a kernel stack, whose functions follow.
    Stack,
    /// A call of a kernel function, and its caller if known.
    Call(&'a str, Option<&'a str>),
    /// The run time of a thread: its name, ID and time in ns.
    RunTime(&'a str, u32, u64),
    /// A call or return of the tracer function_graph, as trace-cmd writes it.
    Graph(GraphText<'a>),
    /// A wake-up or switch, as the wakeup tracers write it.
    Entry(Entry),
    /// A report that perf lost events, with their number if known.
    Lost(Option<u64>),
    /// A flush of the TLB inside a switch, which the thread that left the CPU writes after
    /// `sched_switch`; with its fields.
    InSwitch(&'a str),
    /// The begin or the end of a system call, as the events of the system `syscalls` show it.
    SystemCall(SystemCall<'a>),
    /// Any other output of a tracer.
    Other,
}

/// The indexes of the events in the table, by their names.
#[derive(Debug)]
pub(super) struct Table(HashMap<&'static str, usize>);

impl Table {
    pub(super) fn new() -> Self {
        let named = EVENTS.iter().enumerate();
        Self(named.map(|(index, spec)| (spec.name, index)).collect())
    }

    /// Finds the event in the text that follows the time.
    pub(super) fn find<'a>(&self, rest: &'a str) -> Found<'a> {
        // The summary of osnoise begins with a number that is no period.
        if let Some(mark) = osnoise(rest) {
            return Found::Mark(mark);
        }
        let rest = without_period(rest.trim());
        if let Some(mark) = timerlat(rest) {
            return Found::Mark(mark);
        }
        if let Some(entry) = Entry::parse(rest) {
            return Found::Entry(entry);
        }
        let graph = ["funcgraph_entry:", "funcgraph_exit:"];
        if let Some(text) = graph.iter().find_map(|name| rest.strip_prefix(name)) {
            return GraphText::parse(text).map_or(Found::Other, Found::Graph);
        }
        if let Some((function, caller)) = call(rest) {
            return Found::Call(function, caller);
        }
        if rest.starts_with("<stack trace") {
            return Found::Stack;
        }
        if let Some(lost) = rest.strip_prefix("PERF_RECORD_LOST") {
            let number = lost.rsplit(' ').next().and_then(|count| count.parse().ok());
            return Found::Lost(number);
        }
        if let Some(call) = system_call(rest) {
            return Found::SystemCall(call);
        }
        let Some((system, name, text)) = split(rest) else {
            return Found::Other;
        };
        match name {
            writer if is_mark(writer, text) => return Found::Mark(text.to_owned()),
            "print" => return print(text),
            "tlb_flush" if text.contains("task switch") => return Found::InSwitch(text),
            "kernel_stack" => return Found::Stack,
            "sched_stat_runtime" => return run_time(text).unwrap_or(Found::Other),
            _ => (),
        }
        let ending = ["_entry", "_exit"].into_iter().find(|ending| {
            name.strip_suffix(ending)
                .is_some_and(|vector| is_vector(vector, text))
        });
        let key = match ending {
            Some("_entry") => "*_entry",
            Some(_) => "*_exit",
            None => name,
        };
        let Some(index) = self.0.get(key).copied() else {
            return Found::Other;
        };
        if system.is_some_and(|system| system != EVENTS[index].system) {
            return Found::Other;
        }
        let vector = ending.and_then(|ending| name.strip_suffix(ending));
        Found::Event(index, Vector::named(vector.unwrap_or_default()), text)
    }
}

/// Returns whether the event is written with its trace system, as perf does.
pub(super) fn has_system(rest: &str) -> bool {
    split(without_period(rest.trim())).is_some_and(|(system, ..)| system.is_some())
}

/// Splits `sched:sched_switch: text` or `sched_switch: text`.
fn split(rest: &str) -> Option<(Option<&str>, &str, &str)> {
    let (first, after) = rest.split_once(':')?;
    if !is_name(first) {
        return None;
    }
    let second = after.split_once(':').filter(|(name, _)| is_name(name));
    match second {
        Some((name, text)) => Some((Some(first), name, text.trim())),
        None => Some((None, first, after.trim())),
    }
}

/// Returns whether the event belongs to an interrupt vector. If the vector is known, the text of
/// the event may be on the next line.
fn is_vector(name: &str, text: &str) -> bool {
    let is_known = || Vector::NAMED.iter().any(|(_, known)| *known == name);
    text.starts_with("vector=") || text.is_empty() && is_known()
}

/// Removes the number that perf prints in front of the event if samples have different periods.
fn without_period(rest: &str) -> &str {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.starts_with(' ') {
        after.trim_start()
    } else {
        rest
    }
}

/// Parses `comm=make pid=7 runtime=1200 [ns] vruntime=5 [ns]`.
fn run_time(text: &str) -> Option<Found<'_>> {
    let (comm, rest) = text.strip_prefix("comm=")?.rsplit_once(" pid=")?;
    let (pid, rest) = rest.split_once(" runtime=")?;
    let ran = rest.split_whitespace().next()?;
    Some(Found::RunTime(comm, pid.parse().ok()?, ran.parse().ok()?))
}

/// Returns the text that a program wrote. It is printed after the name of the function that wrote
/// it.
fn print(text: &str) -> Found<'_> {
    let text = text.strip_prefix("[.]").unwrap_or(text);
    let raw = text
        .strip_prefix("ip=")
        .and_then(|raw| raw.split_once(" buf="));
    let (writer, text) = match raw.or_else(|| text.split_once(": ")) {
        Some(split) => split,
        None => return Found::Other,
    };
    if is_mark(writer, text) {
        Found::Mark(text.to_owned())
    } else {
        Found::Other
    }
}

/// Returns whether text written by a kernel function is a mark. It is one if the function wrote it
/// for a program or to say that it stopped a tracer. The function that stops timerlat and osnoise
/// has had several names.
fn is_mark(writer: &str, text: &str) -> bool {
    writer == "tracing_mark_write" || text.starts_with("stop tracing hit on cpu ")
}

/// Returns a sample of the tracer timerlat in the form that tracefs uses, even if trace-cmd printed
/// the fields in a different form: `#402268 context thread timer_latency 177 ns`.
fn timerlat(rest: &str) -> Option<String> {
    if rest.starts_with('#') && rest.contains(" timer_latency ") {
        return Some(rest.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let fields = rest.strip_prefix("timerlat:")?;
    let of = |key: &str| {
        let mut words = fields.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(key))?;
        value.trim_start_matches([':', '=']).parse::<u64>().ok()
    };
    let context = match of("context")? {
        0 => "irq",
        1 => "thread",
        2 => "user-ret",
        _ => return None,
    };
    let sequence = of("seqnum").or_else(|| of("seq"))?;
    let latency = of("timer_latency")?;
    Some(format!(
        "#{sequence} context {context} timer_latency {latency} ns"
    ))
}

/// Returns the summary of a period of the tracer osnoise: the run time, the noise, the available
/// CPU time in percent, the longest noise, and counts of its sources.
fn osnoise(rest: &str) -> Option<String> {
    let mut words = rest.split_whitespace();
    let runtime: u64 = words.next()?.parse().ok()?;
    let noise: u64 = words.next()?.parse().ok()?;
    words.next()?.split_once('.')?.0.parse::<u64>().ok()?;
    let counts: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
    (counts?.len() >= 5).then(|| format!("{NOISE_OF} {noise} us in {runtime} us"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rest: &str) -> String {
        match Table::new().find(rest) {
            Found::Event(index, vector, text) => {
                format!("{} {} {text}", EVENTS[index].full_name, vector.name())
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn events_are_found_with_or_without_system() {
        for text in [
            " irq_handler_exit: irq=1 ret=x",
            " 1 irq:irq_handler_exit:  irq=1 ret=x",
        ] {
            assert_eq!(found(text), "irq:irq_handler_exit  irq=1 ret=x");
        }
        assert_eq!(
            found("irq_vectors:local_timer_exit: vector=236"),
            "irq_vectors:*_exit local_timer vector=236"
        );
        assert_eq!(found(" other:sched_switch: a"), "Other");
        assert_eq!(
            found(" do_fault <-handle_mm_fault"),
            r#"Call("do_fault", Some("handle_mm_fault"))"#
        );
        assert_eq!(
            found(" e1000_intr [e1000] <-e1000_poll [e1000]"),
            r#"Call("e1000_intr", Some("e1000_poll"))"#
        );
        assert_eq!(found(" PERF_RECORD_LOST lost 12"), "Lost(Some(12))");
        assert_eq!(found(" <stack trace>"), "Stack");
        assert_eq!(found(" kernel_stack:  <stack trace >"), "Stack");
    }

    #[test]
    fn results_of_policy_calls_are_read() {
        for text in [
            " sys_mlockall -> 0xfffffffffffffff4",
            " syscalls:sys_exit_mlockall: 0xfffffffffffffff4",
            " sys_exit_mlockall:    0xfffffff4",
        ] {
            assert_eq!(found(text), r#"SystemCall(Returned("mlockall", -12))"#);
        }
        assert_eq!(
            found(" sys_sched_setattr -> 0x0"),
            r#"SystemCall(Returned("sched_setattr", 0))"#
        );
        assert_eq!(
            found(" sys_read -> 0xfffffffffffffff5"),
            r#"SystemCall(Returned("read", -11))"#
        );
    }

    #[test]
    fn begins_of_system_calls_have_their_arguments() {
        for text in [
            " sys_futex(uaddr: 7f7d3a0010e0, op: 89, val: 0, utime: 0, uaddr2: 0, val3: ffffffff)",
            " syscalls:sys_enter_futex: uaddr: 0x7f7d3a0010e0, op: 0x00000089, val: 0x00000000",
            " sys_enter_futex:      uaddr: 0x7f7d3a0010e0, op: 0x00000089, val: 0x00000000",
        ] {
            assert_eq!(
                found(text),
                r#"SystemCall(Called("futex", [140175820722400, 137]))"#
            );
        }
        assert_eq!(
            found(" sys_mlockall(flags: 3)"),
            r#"SystemCall(Called("mlockall", [3, 0]))"#
        );
        assert_eq!(
            found(" sys_getpid()"),
            r#"SystemCall(Called("getpid", [0, 0]))"#
        );
        for text in [
            " sys_enter_futex:      op=FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG uaddr=0x7f00 val=0x00000002",
            " sys_futex(uaddr: 0x7f00 (0), FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG, val: 2)",
        ] {
            assert_eq!(
                found(text),
                r#"SystemCall(Called("futex", [32512, 137]))"#,
                "{text}"
            );
        }
        // No argument is guessed.
        let unknown = " sys_enter_futex: op=FUTEX_NEW uaddr=0x7f00 val=1";
        assert_eq!(found(unknown), "Other");
        assert_eq!(
            found(" sys_enter: NR 202 (7f00, 80)"),
            "raw_syscalls:sys_enter  NR 202 (7f00, 80)"
        );
    }

    #[test]
    fn summary_of_osnoise_is_no_period() {
        let text = " 1000000         90  99.99100      15      1      0     12      6      1";
        assert_eq!(
            found(text),
            format!(r#"Mark("{NOISE_OF} 90 us in 1000000 us")"#)
        );
    }

    #[test]
    fn marks_have_the_text_of_the_program() {
        for text in [
            "tracing_mark_write: hit latency threshold (120 > 100)",
            "print:   tracing_mark_write: hit latency threshold (120 > 100)",
            "print:   ip=tracing_mark_write buf=hit latency threshold (120 > 100)",
            "ftrace:print: tracing_mark_write: hit latency threshold (120 > 100)",
        ] {
            let mark = r#"Mark("hit latency threshold (120 > 100)")"#;
            assert_eq!(found(text), mark, "{text}");
        }
        for text in [
            " #402268 context thread timer_latency       177 ns",
            " timerlat:   seq:402268 context:1 timer_latency:177",
        ] {
            let mark = r##"Mark("#402268 context thread timer_latency 177 ns")"##;
            assert_eq!(found(text), mark, "{text}");
        }
    }
}
