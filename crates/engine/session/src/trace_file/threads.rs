//! Run time and waits of the threads in a trace.

use punctual_culprit::{PerfSums, ThreadSums};
use punctual_model::{Task, TraceThreads, counted};
use punctual_tracefile::{Item, TraceFileError, TraceHead, TraceReader};

use super::TraceRequest;

/// The events that the times are taken from.
const SWITCH: &str = "sched:sched_switch";
const WAKE_UPS: [&str; 2] = ["sched:sched_waking", "sched:sched_wakeup"];

/// Sums run time and waits of the threads that the request selects. `as_perf`: as perf sched counts them.
///
/// # Errors
/// If the trace cannot be read, or if it has no switches.
pub fn trace_threads(
    reader: &mut dyn TraceReader,
    request: &TraceRequest,
    as_perf: bool,
) -> Result<TraceThreads, TraceFileError> {
    let wanted = &request.wanted;
    let (mut sums, mut of_perf) = (ThreadSums::default(), PerfSums::default());
    while let Some(item) = reader.next_item()? {
        let time = item.time();
        let is_wanted = wanted
            .between
            .is_none_or(|(from, to)| (from..=to).contains(&time));
        match item {
            Item::Event(event) if is_wanted && as_perf => {
                let has_exited = reader.head().exited.contains(&(time, event.cpu));
                of_perf.event(&event, has_exited);
            }
            Item::RunTime { thread, ran, .. } if is_wanted && as_perf => {
                of_perf.run_time(time, &thread, ran);
            }
            Item::Event(event) if is_wanted => sums.event(&event),
            Item::Lost { .. } if is_wanted && as_perf => of_perf.lost(),
            Item::Lost { cpu, .. } if is_wanted => sums.lost(cpu),
            _ => (),
        }
    }
    let head = reader.head();
    if !head.recorded.contains(SWITCH) {
        return Err(TraceFileError::NothingUsed {
            format: head.format.clone(),
            remedy: ". --thread-times needs switches: record sched:sched_switch and \
                     sched:sched_waking",
        });
    }
    let mut found = if as_perf {
        of_perf.finish()
    } else {
        sums.finish()
    };
    found.file.clone_from(&request.file);
    found.format.clone_from(&head.format);
    let is_named = |task: &Task| wanted.comm.is_none_or(|comm| comm == task.comm);
    let is_listed = |task: &Task| wanted.pids.is_empty() || wanted.pids.contains(&task.pid);
    let is_shown = |task: &Task| is_named(task) && is_listed(task);
    found.threads.retain(|thread| is_shown(&thread.task));
    found.warnings = warnings(&found, head);
    Ok(found)
}

fn warnings(found: &TraceThreads, head: &TraceHead) -> Vec<String> {
    let mut warnings = Vec::new();
    if found.gaps > 0 {
        let gaps = counted(found.gaps, "gap", "gaps");
        let counted = if found.as_perf {
            "counted, as perf does"
        } else {
            "not counted"
        };
        warnings.push(format!(
            "events lost in {gaps}: waits and run times across a gap are {counted}"
        ));
    }
    if found.switches_missing > 0 {
        let switches = counted(found.switches_missing, "switch", "switches");
        warnings.push(format!(
            "{switches} missing from the trace: the run times before them are not counted"
        ));
    }
    if found.omitted > 0 {
        warnings.push("there are too many threads: only the first ones are counted".to_owned());
    }
    let wake_ups = if found.as_perf {
        &WAKE_UPS[1..]
    } else {
        &WAKE_UPS
    };
    if !wake_ups.iter().any(|name| head.recorded.contains(*name)) {
        let missing = if found.as_perf {
            "no events of sched:sched_wakeup, and perf ignores sched_waking"
        } else {
            "no wake-ups recorded"
        };
        warnings.push(format!("{missing}: only waits after preemption are shown"));
    }
    warnings.extend(head.warnings.iter().cloned());
    warnings
}
