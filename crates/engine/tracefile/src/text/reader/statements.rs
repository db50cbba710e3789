//! Applies the comment lines, and the lines with which tracers and rtla state a latency.

use std::io::BufRead;

use punctual_model::{
    Comm, EVENTS, EventKind, KernelEvent, KernelPriority, Nanos, Task, TaskState, TracedCall,
    TracerStatement,
};

use super::TextReader;
use crate::Item;
use crate::listed::{by_full_name, listed_name};
use crate::text::head::{self, Said};
use crate::text::line::Line;
use crate::text::rtla_analysis::Analysis;
use crate::text::stack::EventHeader;
use crate::text::statement::Entry;

impl<R: BufRead> TextReader<R> {
    /// Applies a comment line, without the `#`.
    pub(super) fn take_comment(&mut self, comment: &str) {
        if self.columns.read(comment) {
            return;
        }
        let Some(said) = head::said(comment) else {
            return;
        };
        self.is_trace = true;
        match said {
            Said::Begins => {
                self.columns.clear();
                self.graph.begin(comment.trim() == "tracer: function_graph");
                self.begins |= self.order.newest().is_some();
                self.is_overwritten = false;
            }
            Said::Overwritten(number) => self.is_overwritten |= number > 0,
            Said::Kernel(kernel) => self.head.kernel = Some(kernel),
            // perf names one of the clocks of clock_gettime(2), which all CPUs share.
            Said::Clock(clock) => {
                self.head.clock = Some(clock);
                self.head.clocks_differ = Some(false);
            }
            Said::Event(name) => {
                self.head.lists_events = true;
                if let Some(index) = by_full_name(&name) {
                    self.head.recorded.insert(listed_name(index).to_owned());
                }
            }
        }
    }

    /// Applies a line of the automatic analysis of rtla. Returns whether it is one.
    pub(super) fn take_analysis(&mut self, line: &str) -> bool {
        if let Some(analysis) = &mut self.analysis
            && analysis.line(line)
        {
            return true;
        }
        let begins = Analysis::begin(line);
        let is_any = begins.is_some();
        if is_any {
            self.state_latency();
            self.is_trace = true;
            if self.head.format.is_empty() {
                "text of rtla's automatic analysis".clone_into(&mut self.head.format);
            }
            self.analysis = begins;
        }
        is_any
    }

    /// Applies a line of the header of a latency tracer. Before Linux 2.6.27, it had no `#`. Returns
    /// whether the line has no other meaning.
    pub(super) fn take_header(&mut self, line: &str) -> bool {
        let comment = line.trim_start_matches('#').trim_start();
        if comment.starts_with("tracer: ") || comment.contains(" latency trace v") {
            // The two lines belong to the same header unless calls or a latency lie between them.
            if !comment.starts_with("tracer: ") && !self.pending.states() {
                self.pending.header(comment);
                return false;
            }
            self.finish();
            self.state_latency();
        }
        let is_header = self.pending.header(comment);
        if self.pending.states() {
            self.is_trace = true;
            if self.head.format.is_empty()
                && let Some(tracer) = self.pending.tracer()
            {
                self.head.format = format!("text of the {tracer} tracer");
            }
        }
        is_header && !line.starts_with('#')
    }

    /// Adds the latencies that the header of the current trace and rtla's analysis state.
    pub(super) fn state_latency(&mut self) {
        let pending = std::mem::take(&mut self.pending).finish(self.is_relative);
        let analysed = self.analysis.take().and_then(Analysis::finish);
        for statement in [pending, analysed].into_iter().flatten() {
            self.push_statement(statement);
        }
    }

    fn push_statement(&mut self, statement: TracerStatement) {
        // Other items of the trace have been returned already if it is long.
        let end = Nanos(statement.begin.0.saturating_add(statement.latency.0));
        let time = self.order.newest().map_or(end, |newest| newest.max(end));
        let statement = Box::new(statement);
        self.order.push(time, Item::Statement { time, statement });
    }

    /// Adds a call of a kernel function to the latency that the header states.
    pub(super) fn take_call(
        &mut self,
        header: EventHeader,
        thread: Task,
        function: &str,
        caller: Option<&str>,
    ) {
        if !self.pending.states() {
            return;
        }
        let call = TracedCall {
            time: header.time,
            cpu: header.cpu,
            thread,
            flags: header.flags,
            preempt_count: header.preempt_count,
            function: self.names.function(function),
            caller: caller.map(|caller| self.names.function(caller)),
        };
        self.pending.call(call);
    }

    /// Adds a wake-up or switch that a wakeup tracer wrote. It is also an event.
    pub(super) fn take_entry(&mut self, header: EventHeader, line: &Line<'_>, entry: &Entry) {
        let current = Task {
            pid: entry.pid,
            ..thread_in(line, entry.prio)
        };
        self.take_call(header, current, "", None);
        let (kind, event) = if entry.switches {
            let prev_state = TaskState(match entry.state {
                'S' | 'I' => 1,
                'D' => 2,
                _ => 0,
            });
            let (prev, next) = (current, entry.next);
            let kind = EventKind::Switch {
                prev,
                prev_state,
                next,
            };
            (kind, KernelEvent::SchedSwitch)
        } else {
            let (task, target_cpu, new) = (entry.next, entry.cpu, false);
            let kind = EventKind::Wakeup {
                task,
                target_cpu,
                new,
            };
            (kind, KernelEvent::SchedWakeup)
        };
        if let Some(index) = EVENTS.iter().position(|spec| spec.event == event) {
            self.accept(header, Some(index), kind);
        }
    }
}

/// Returns whether a sample of timerlat, or an entry of a wakeup tracer, breaks off in the middle.
pub(super) fn breaks_off(rest: &str) -> bool {
    let rest = rest.trim();
    let sample = rest.starts_with('#') && rest.contains(" context") && !rest.ends_with(" ns");
    let mut parts = rest.splitn(3, ':');
    let mut is_number = || {
        parts
            .next()
            .is_some_and(|part| part.trim().parse::<u64>().is_ok())
    };
    let entry = is_number() && is_number() && (rest.contains('+') || rest.contains("==>"));
    sample || entry
}

/// Returns the thread in the first column of a line.
pub(super) fn thread_in(line: &Line<'_>, prio: KernelPriority) -> Task {
    Task {
        pid: line.pid.unwrap_or(Task::UNKNOWN_PID),
        comm: Comm::new(line.comm.as_bytes()),
        prio,
    }
}
