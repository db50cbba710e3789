//! Warnings about an incomplete observation.

use punctual_model::{counted, grouped};

/// Returns the warning that BPF programs do not record.
pub(super) fn by_tracer(why: String) -> String {
    format!(
        "jobs are recorded by the kernel's tracer, which has more overhead than BPF programs and is \
         not limited by --cost: {why}. Jobs begin with the wake-up, so the delay of a timer does \
         not count"
    )
}

/// Returns the warning that the kernel does not time the jobs of some threads.
pub(super) fn untimed(threads: usize) -> Option<String> {
    (threads > 0).then(|| {
        format!(
            "the jobs of {} are not timed in the kernel, because there are too many: the events are \
             read 50 times per second, which takes more CPU time",
            counted(threads as u64, "thread", "threads")
        )
    })
}

/// Returns the warning that the kernel does not count the jobs of some threads.
pub(super) fn uncounted(threads: usize, most: u32) -> Option<String> {
    (threads > 0).then(|| {
        format!(
            "the jobs of {} are read one by one, because the kernel counts those of at most {most} \
             threads: this takes more CPU time",
            counted(threads as u64, "thread", "threads")
        )
    })
}

/// Returns the warning that places of waits are unknown.
pub(super) fn unplaced(waits: u64) -> Option<String> {
    (waits > 0).then(|| {
        format!(
            "the places of {} are unknown, because there were too many different ones",
            counted(waits, "wait", "waits")
        )
    })
}

/// Returns warnings about missing waits of the watched threads.
pub(super) fn lost_warnings(events: u64, without_end: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if events > 0 {
        warnings.push(format!(
            "{} trace events of the watched threads were lost (overwritten before they were \
             read): their waits are missing",
            grouped(events)
        ));
    }
    if without_end > 0 {
        warnings.push(format!(
            "{} waits have no end event and were omitted: events were lost, or this kernel does \
             not trace every switch (some kernels trace no switch from an idle CPU)",
            grouped(without_end)
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_told_as_lost() {
        assert!(lost_warnings(0, 0).is_empty());
        assert_eq!(
            (untimed(0), uncounted(0, 64), unplaced(0)),
            (None, None, None)
        );
        let read = uncounted(2, 64);
        assert!(read.is_some_and(|text| text.starts_with("the jobs of 2 threads are read one by")));
        assert!(unplaced(1).is_some_and(|text| text.starts_with("the places of 1 wait are")));
        assert!(untimed(1).is_some_and(|text| text.starts_with("the jobs of 1 thread are not")));
        let told = lost_warnings(1_200, 27);
        assert!(told[0].starts_with("1,200 trace events of the watched threads were lost"));
        assert!(told[1].starts_with("27 waits have no end event"));
        assert!(told.iter().all(|text| !text.contains("missed")));
    }
}
