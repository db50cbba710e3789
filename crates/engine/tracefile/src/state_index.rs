//! Thread states in traces of Linux 4.14.
//!
//! Linux 4.14 stores the index of a thread's state in `sched_switch`, where all other kernels store
//! a bit (commit 3f5fe9fef5b2, "sched/debug: Fix task state recording/printout", in Linux 4.15). An
//! idle kernel thread (index 8) therefore looks as if a debugger had stopped it (bit 0x8).

use punctual_model::{EventKind, TaskState};

use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// The largest index. Larger values mean that the thread was preempted.
const LARGEST: u32 = 8;

/// A reader that corrects the states if Linux 4.14 recorded the trace.
pub(crate) struct CorrectStates<R>(R);

impl<R: TraceReader + 'static> CorrectStates<R> {
    /// Returns the reader itself if its head already names another kernel.
    pub(crate) fn if_needed(reader: R) -> Box<dyn TraceReader> {
        match &reader.head().kernel {
            Some(release) if !is_with_index(release) => Box::new(reader),
            _ => Box::new(Self(reader)),
        }
    }
}

impl<R: TraceReader> TraceReader for CorrectStates<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        let mut item = self.0.next_item()?;
        if let Some(Item::Event(event)) = &mut item
            && let EventKind::Switch { prev_state, .. } = &mut event.kind
            && self.head().kernel.as_deref().is_some_and(is_with_index)
        {
            *prev_state = from_index(*prev_state);
        }
        Ok(item)
    }

    fn head(&self) -> &TraceHead {
        self.0.head()
    }
}

fn is_with_index(release: &str) -> bool {
    release == "4.14" || release.starts_with("4.14.") || release.starts_with("4.14-")
}

fn from_index(state: TaskState) -> TaskState {
    match state.0 {
        index @ 1..=LARGEST => TaskState(1 << (index - 1)),
        _ => state,
    }
}
