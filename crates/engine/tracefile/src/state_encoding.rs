//! Thread states in traces of Linux 4.14 to 4.19.
//!
//! In `sched_switch`, a kernel stores the state of the previous thread as a bit. Two older forms are
//! corrected here:
//!
//! - Linux 4.14 stores the index of the state. An idle kernel thread (index 8) therefore looks as if
//!   a debugger had stopped it (bit 0x8).
//! - Commit 3f5fe9fef5b2 ("sched/debug: Fix task state recording/printout", Linux 4.15) stores twice
//!   the bit, until 3054426dc68e ("sched, trace: Fix prev_state output in sched_switch tracepoint",
//!   Linux 4.20 and stable kernels). A sleep (0x1) looks uninterruptible (0x2), and a runnable
//!   thread (0) looks asleep (0x1).
//!
//! Vendors have changed the form within these versions, so the release does not tell it. Two kinds of
//! threads do: the idle thread is always runnable, and kworkers are never stopped and wait idle.

use std::collections::VecDeque;

use punctual_model::{EventKind, Task, TaskState};

use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// Maximum number of items that are read until the idle thread is switched out.
const MOST_AHEAD: usize = 10_000;
/// The state of a thread that was preempted. In the doubled form, also of an idle kernel thread.
const PREEMPTED: u32 = 0x100;
const IDLE: u32 = 0x80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Bit,
    Index,
    DoubledBit,
}

/// A reader that corrects the states.
pub(crate) struct CorrectStates<R> {
    reader: R,
    /// `None` until the trace has shown it.
    encoding: Option<Encoding>,
    /// The items that were read before the encoding was known.
    ahead: VecDeque<Result<Option<Item>, TraceFileError>>,
}

impl<R: TraceReader + 'static> CorrectStates<R> {
    /// Returns the reader itself if its head names a kernel that stores a bit.
    pub(crate) fn if_needed(reader: R) -> Box<dyn TraceReader> {
        if reader.head().kernel.as_deref().is_some_and(stores_bit) {
            return Box::new(reader);
        }
        Box::new(Self {
            reader,
            encoding: None,
            ahead: VecDeque::new(),
        })
    }

    /// Reads until the trace has shown its encoding. Returns the one of the release if it shows none.
    fn read_ahead(&mut self) -> Encoding {
        while self.ahead.len() < MOST_AHEAD {
            let item = self.reader.next_item();
            let is_end = !matches!(item, Ok(Some(_)));
            let release = self.reader.head().kernel.as_deref();
            let shown = match &item {
                Ok(Some(Item::Event(event))) => shown_by(&event.kind, release),
                _ => None,
            };
            // The head of a text names the kernel only now.
            let is_bit = release.is_some_and(stores_bit);
            self.ahead.push_back(item);
            if is_bit {
                return Encoding::Bit;
            } else if let Some(shown) = shown {
                return shown;
            } else if is_end {
                break;
            }
        }
        match self.reader.head().kernel.as_deref() {
            Some(release) if minor_of_4(release) == Some(14) => Encoding::Index,
            _ => Encoding::Bit,
        }
    }
}

impl<R: TraceReader + 'static> TraceReader for CorrectStates<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        let encoding = self.encoding.unwrap_or_else(|| self.read_ahead());
        self.encoding = Some(encoding);
        let item = self.ahead.pop_front();
        let mut item = item.unwrap_or_else(|| self.reader.next_item())?;
        if let Some(Item::Event(event)) = &mut item
            && let EventKind::Switch {
                prev, prev_state, ..
            } = &mut event.kind
        {
            *prev_state = corrected(*prev_state, prev, encoding);
        }
        Ok(item)
    }

    fn head(&self) -> &TraceHead {
        self.reader.head()
    }
}

/// Returns the second number of a release that begins with 4.
fn minor_of_4(release: &str) -> Option<u32> {
    let rest = release.strip_prefix("4.")?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn stores_bit(release: &str) -> bool {
    !matches!(minor_of_4(release), Some(14..=19))
}

/// Returns the encoding that this event shows.
fn shown_by(event: &EventKind, release: Option<&str>) -> Option<Encoding> {
    let EventKind::Switch {
        prev, prev_state, ..
    } = event
    else {
        return None;
    };
    match prev_state.0 {
        1 if prev.is_idle() => Some(Encoding::DoubledBit),
        // With the index, it is 0 as well.
        0 if prev.is_idle() && release.and_then(minor_of_4) > Some(14) => Some(Encoding::Bit),
        8 if waits_idle(prev) => Some(Encoding::Index),
        IDLE if waits_idle(prev) => Some(Encoding::Bit),
        _ => None,
    }
}

/// Returns whether this is a kernel thread that waits in the idle state.
fn waits_idle(thread: &Task) -> bool {
    thread.comm.0.starts_with(b"kworker/")
}

fn corrected(state: TaskState, thread: &Task, encoding: Encoding) -> TaskState {
    match (encoding, state.0) {
        (Encoding::Index, index @ 1..=8) => TaskState(1 << (index - 1)),
        // If it is preempted instead, no event wakes it, so the time until it runs again is unknown.
        (Encoding::DoubledBit, PREEMPTED) if waits_idle(thread) => TaskState(IDLE),
        (Encoding::DoubledBit, doubled) if doubled < PREEMPTED => TaskState(doubled >> 1),
        _ => state,
    }
}
