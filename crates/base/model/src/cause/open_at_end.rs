//! Reactions and jobs that the end of a trace cuts off.

use serde::{Deserialize, Serialize};

use crate::{Delay, Nanos, Task, ThreadState};

/// A reaction or a job of a thread that had not ended when the trace ended. Its length and its causes
/// are unknown, so it has no shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAtEnd {
    /// The thread.
    pub thread: Task,
    /// Its kind: a wait for a CPU after a wake-up or a preemption, or a job.
    pub delay: Delay,
    /// Its beginning, on the clock of the trace.
    pub since_ns: Nanos,
    /// Time from its beginning to the last event of the trace. It took at least this long.
    pub least_ns: Nanos,
    /// The state of the thread at the end, as far as its last events show it.
    pub state: ThreadState,
    /// The system call that the thread was in at the end. Null if it was in none, or if no event shows
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<OpenCall>,
}

/// A system call without an end in the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Its name.
    pub name: String,
    /// Time from its beginning to the last event of the trace.
    pub for_ns: Nanos,
}

impl OpenAtEnd {
    /// Returns a sentence without a full stop: `the trace ended 12.0 ms after the release of a job of
    /// motion-40 (real-time 50), while the thread slept in the system call fsync (for 11.0 ms): length and
    /// cause are unknown`.
    pub fn sentence(&self) -> String {
        let Self { thread, state, .. } = self;
        let begin = match (self.delay, state) {
            (Delay::Job, _) => "the release of a job of",
            (Delay::Taken, ThreadState::Stopped) => "the stop of",
            (Delay::Taken, _) => "the preemption of",
            _ => "the wake-up of",
        };
        let state = match state {
            ThreadState::Running => "ran",
            ThreadState::Ready => "waited for a CPU",
            ThreadState::Asleep => "slept",
            ThreadState::Stopped => "was stopped",
            ThreadState::Unknown => "was in an unknown state",
        };
        let call = self.call.as_ref().map_or_else(String::new, |call| {
            format!(" in the system call {} (for {})", call.name, call.for_ns)
        });
        format!(
            "the trace ended {} after {begin} {} ({}), while the thread {state}{call}: length and cause \
             are unknown",
            self.least_ns,
            thread.label(),
            thread.prio
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comm, KernelPriority};

    #[test]
    fn open_job_names_its_call_and_no_cause() {
        let mut open = OpenAtEnd {
            thread: Task {
                pid: 40,
                comm: Comm::new(b"motion"),
                prio: KernelPriority(49),
            },
            delay: Delay::Job,
            since_ns: Nanos::from_secs(2),
            least_ns: Nanos::from_millis(12),
            state: ThreadState::Asleep,
            call: Some(OpenCall {
                name: "fsync".to_owned(),
                for_ns: Nanos::from_millis(11),
            }),
        };
        assert_eq!(
            open.sentence(),
            "the trace ended 12.0 ms after the release of a job of motion-40 (real-time 50), while the \
             thread slept in the system call fsync (for 11.0 ms): length and cause are unknown"
        );
        (open.delay, open.state, open.call) = (Delay::Wakeup, ThreadState::Ready, None);
        assert_eq!(
            open.sentence(),
            "the trace ended 12.0 ms after the wake-up of motion-40 (real-time 50), while the thread \
             waited for a CPU: length and cause are unknown"
        );
    }

    #[test]
    fn beginning_and_state_of_an_open_reaction_are_said() {
        let said = |delay, state| {
            let open = OpenAtEnd {
                thread: Task {
                    pid: 7,
                    comm: Comm::new(b"loop"),
                    prio: KernelPriority(19),
                },
                delay,
                since_ns: Nanos(1),
                least_ns: Nanos(5_000),
                state,
                call: None,
            };
            let text = open.sentence();
            let text = text.strip_prefix("the trace ended 5.00 µs after ").unwrap();
            text.strip_suffix(": length and cause are unknown")
                .unwrap()
                .to_owned()
        };
        let thread = "loop-7 (real-time 80), while the thread";
        for (delay, state, begin, end) in [
            (
                Delay::Job,
                ThreadState::Stopped,
                "the release of a job of",
                "was stopped",
            ),
            (
                Delay::Taken,
                ThreadState::Stopped,
                "the stop of",
                "was stopped",
            ),
            (
                Delay::Taken,
                ThreadState::Ready,
                "the preemption of",
                "waited for a CPU",
            ),
            (Delay::Wakeup, ThreadState::Running, "the wake-up of", "ran"),
            (Delay::Timer, ThreadState::Asleep, "the wake-up of", "slept"),
            (
                Delay::Call,
                ThreadState::Unknown,
                "the wake-up of",
                "was in an unknown state",
            ),
        ] {
            assert_eq!(said(delay, state), format!("{begin} {thread} {end}"));
        }
    }
}
