//! Applies the lines of the tracer function_graph, and those with run times of threads.

use std::io::BufRead;

use punctual_model::{Comm, KernelPriority, Nanos, Task, TracedCall};

use super::{MOST_CPUS, TextReader};
use crate::Item;
use crate::text::graph::{Act, GraphLine, GraphText, Place};
use crate::text::line::Line;
use crate::text::stack::EventHeader;

/// Resolution of the times.
const MICROSECOND: Nanos = Nanos(1_000);

impl<R: BufRead> TextReader<R> {
    /// Applies a line of tracefs.
    pub(super) fn take_graph(&mut self, line: &GraphLine<'_>, raw: &str) {
        self.is_trace = true;
        self.graph.is_on = true;
        if self.head.format.is_empty() {
            "text of the function_graph tracer".clone_into(&mut self.head.format);
        }
        let cpu = line.cpu.unwrap_or_default();
        if cpu >= MOST_CPUS {
            return self.warnings.no_event.add(self.lines.number, raw);
        }
        let (comm, pid) = line.thread.unzip();
        let comm = comm.unwrap_or_default();
        if let Act::Switches((_, next)) = line.text.act {
            self.cpu(cpu).current = Some(next);
            return;
        }
        if line.text.act == Act::Nothing {
            return;
        }
        let Some((time, is_relative)) = line.time.filter(|_| line.cpu.is_some()) else {
            self.warnings.untimed.add(self.lines.number, raw);
            let pid = pid.unwrap_or(Task::UNKNOWN_PID);
            return self.take_function(None, cpu, task(pid, comm), &line.text);
        };
        if let Act::Event(rest) = line.text.act {
            let line = Line {
                buffer: None,
                comm,
                pid,
                has_dash: true,
                cpu: Some(cpu),
                flags: line.flags,
                time,
                resolution: MICROSECOND,
                is_relative,
                rest,
            };
            return self.take_event(&line, raw);
        }
        self.is_relative = is_relative;
        self.head.resolution = self.head.resolution.max(MICROSECOND);
        let pid = pid.or(self.cpu(cpu).current);
        let (flags, preempt_count) = self.columns.decode(line.flags);
        let header = EventHeader {
            time,
            cpu,
            pid,
            flags,
            preempt_count,
        };
        let thread = task(pid.unwrap_or(Task::UNKNOWN_PID), comm);
        self.take_function(Some(header), cpu, thread, &line.text);
    }

    /// Adds the run time of a thread that an event states.
    pub(super) fn take_run_time(&mut self, header: EventHeader, comm: &str, pid: u32, ran: Nanos) {
        let (time, cpu, thread) = (header.time, header.cpu, task(pid, comm));
        if self.make_room(header) {
            let item = Item::RunTime {
                time,
                cpu,
                thread,
                ran,
            };
            self.order.push(time, item);
        }
    }

    /// Applies a call or a return. `header`: its time and flags, if the trace has times.
    pub(super) fn take_function(
        &mut self,
        header: Option<EventHeader>,
        cpu: u32,
        thread: Task,
        text: &GraphText<'_>,
    ) {
        let pid = Some(thread.pid).filter(|pid| *pid != Task::UNKNOWN_PID);
        let time = header.map(|header| header.time);
        let place = Place { cpu, pid, time };
        let names = &mut self.names;
        let (run, runs) = (self.graph).line(place, text, |name| names.function(name));
        if let Some(header) = header.filter(|_| self.pending.states()) {
            // The kernel writes the first 7 bytes of the name.
            let thread = self.pending.task(thread.pid).unwrap_or(thread);
            for one in runs {
                self.pending.call(TracedCall {
                    time: Nanos(header.time.0.saturating_add(one.after.0)),
                    cpu,
                    thread,
                    flags: header.flags,
                    preempt_count: header.preempt_count,
                    function: one.function,
                    caller: one.caller,
                });
            }
        }
        let Some(run) = run else { return };
        if header.is_some_and(|header| !self.make_room(header)) {
            return;
        }
        let time = time.or(self.order.newest()).unwrap_or_default();
        self.order.push(time, Item::Function { time, run });
    }
}

fn task(pid: u32, comm: &str) -> Task {
    Task {
        pid,
        comm: Comm::new(comm.as_bytes()),
        prio: KernelPriority::UNKNOWN,
    }
}
