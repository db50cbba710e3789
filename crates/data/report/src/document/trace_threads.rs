//! A table of the run time and the waits of the threads in a trace.

use punctual_model::{Delays, Nanos, TraceThreads, counted};

use super::table::{Column, Row, Table};
use super::{Block, Document};
use crate::figures;

/// Maximum number of threads on a terminal.
const MOST: usize = 100;

/// Returns a table of the threads, with times in ms as perf prints them.
pub fn trace_threads(found: &TraceThreads) -> Document {
    let (from, to) = found.span.unwrap_or_default();
    let mut blocks = vec![Block::text(format!(
        "{}: {}, {} on {} in {}, {} to {}",
        found.file,
        found.format,
        counted(found.events, "switch or wake-up", "switches and wake-ups"),
        counted(found.cpus.len() as u64, "CPU", "CPUs"),
        to.saturating_sub(from),
        figures::trace_time(from),
        figures::trace_time(to),
    ))];
    if !found.warnings.is_empty() {
        blocks.push(Block::Warnings(found.warnings.clone()));
    }
    if found.threads.is_empty() {
        blocks.push(Block::text("no thread of the trace is selected"));
    } else {
        let shown = if found.as_perf {
            as_perf(found)
        } else {
            table(found)
        };
        blocks.push(Block::Table(shown));
        let about = if found.as_perf {
            "Times are in ms. The run time and the number of runs are those of perf sched timehist -s. \
             The column runtime (the sum of the events sched_stat_runtime) and the waits are those of \
             perf sched latency -p (perf 6.1)."
        } else {
            "Times are in ms, and the longest wait ended at the time shown. A wait is the time from a \
             wake-up, or from the preemption of a runnable thread, until the thread ran. The last \
             columns contain only the waits after a wake-up."
        };
        blocks.push(Block::faint(about));
    }
    Document::from_blocks(blocks)
}

fn table(found: &TraceThreads) -> Table {
    let columns = vec![
        Column::left("thread"),
        Column::right("run"),
        Column::right("switches"),
        Column::right("waits"),
        Column::right("average"),
        Column::right("maximum"),
        Column::right("at"),
        Column::right("woken"),
        Column::right("average"),
        Column::right("maximum").drop(1),
    ];
    let rows = found.threads.iter().map(|thread| {
        let mut cells = vec![
            thread.task.label(),
            run_time(thread.run),
            thread.switches.to_string(),
        ];
        cells.extend(delays(&thread.waits()));
        cells.extend(delays(&thread.woken).into_iter().take(3));
        Row::new(cells)
    });
    let table = Table::new(columns, rows.collect()).at_most(MOST);
    table.further("further thread", "further threads")
}

/// Returns the columns of perf sched.
fn as_perf(found: &TraceThreads) -> Table {
    let columns = vec![
        Column::left("thread"),
        Column::right("run"),
        Column::right("runs"),
        Column::right("runtime"),
        Column::right("switches"),
        Column::right("average"),
        Column::right("maximum"),
        Column::right("from"),
        Column::right("to"),
    ];
    let rows = found.threads.iter().map(|thread| {
        let waits = &thread.woken;
        let from = waits.max_end.saturating_sub(waits.max);
        Row::new([
            thread.task.label(),
            run_time(thread.run),
            thread.switches.to_string(),
            thread.stated.map_or("-".to_owned(), millis),
            waits.count.to_string(),
            waits.mean().map_or("-".to_owned(), millis),
            millis(waits.max),
            figures::trace_time(from),
            figures::trace_time(waits.max_end),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(MOST);
    table.further("further thread", "further threads")
}

fn delays(delays: &Delays) -> [String; 4] {
    let Some(mean) = delays.mean() else {
        return ["0", "-", "-", "-"].map(str::to_owned);
    };
    [
        delays.count.to_string(),
        millis(mean),
        millis(delays.max),
        figures::trace_time(delays.max_end),
    ]
}

/// Formats a time in ms with three decimals.
fn millis(time: Nanos) -> String {
    format!("{:.3}", time.0 as f64 / 1e6)
}

/// Formats a run time like perf sched timehist, which rounds down.
fn run_time(time: Nanos) -> String {
    millis(Nanos(time.0 / 1_000 * 1_000))
}
