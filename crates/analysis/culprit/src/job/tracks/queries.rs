//! What the tracks show about a thread or a CPU at a time.

use super::*;

impl Tracks {
    /// Returns whether the events are those of the light stage.
    pub(crate) const fn is_light(&self) -> bool {
        self.watched.is_some()
    }

    /// Returns the spans of a thread between two times, without gaps.
    pub(crate) fn spans(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<Span> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let unknown = |from, to| Span {
            from,
            to,
            phase: Phase::Unknown,
        };
        cover(
            all,
            (from, to),
            |span| (span.from, span.to),
            |span, from, to| span.map_or(unknown(from, to), |span| Span { from, to, ..*span }),
        )
    }

    /// Returns the threads with known spans.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// Returns the times at which a thread was preempted and not yet running again, with the CPU
    /// that it had lost, if it ran again before `until`.
    pub(crate) fn preempted(
        &self,
        tid: u32,
        until: Nanos,
    ) -> impl Iterator<Item = (Nanos, Nanos, u32)> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        all.windows(3).filter_map(move |spans| {
            let [before, span, after] = spans else {
                return None;
            };
            let is_preempted = span.phase == Phase::Ready && after.cpu().is_some();
            let cpu = before
                .cpu()
                .filter(|_| is_preempted && after.from < until)?;
            Some((span.from, span.to, cpu))
        })
    }

    /// Returns the spans of a CPU between two times, without gaps.
    pub(crate) fn on(&self, cpu: u32, from: Nanos, to: Nanos) -> Vec<CpuSpan> {
        let all = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        cover(
            all,
            (from, to),
            |span| (span.from, span.to),
            |span, from, to| CpuSpan {
                from,
                to,
                current: span.and_then(|span| span.current),
                on_top: span.and_then(|span| span.on_top.clone()),
            },
        )
    }

    /// Returns the CPUs on which a runnable thread waited, in order, without gaps. The last one is the
    /// CPU that it got at `to`; `None` if no event shows it.
    pub(crate) fn waited_on(
        &self,
        tid: u32,
        from: Nanos,
        to: Nanos,
    ) -> Vec<(Nanos, Nanos, Option<u32>)> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = all.get(all.partition_point(|span| span.from < to));
        let after = after.and_then(Span::cpu);
        let before = all
            .iter()
            .rev()
            .find(|span| span.to <= from && span.cpu().is_some());
        let last = after.or_else(|| before.and_then(Span::cpu));
        let mut parts = Vec::new();
        let mut at = from;
        for (moved, cpu) in self.moves.get(&tid).into_iter().flatten() {
            if *moved > at && *moved < to {
                parts.push((at, *moved, Some(*cpu)));
                at = *moved;
            }
        }
        parts.push((at, to, last));
        parts
    }

    /// Returns the system call of a thread at a given time; the outer `None` means unknown.
    pub(crate) fn call_at(&self, tid: u32, at: Nanos) -> Option<Option<InCall>> {
        let calls = self.calls.get(&tid)?;
        let after = calls.partition_point(|(from, _)| *from <= at);
        match after.checked_sub(1) {
            Some(before) => Some(calls[before].1),
            // Before the first entry, the thread is in user space.
            None => Some(None),
        }
    }

    /// Returns the source of the wake-up with this number, which ended a sleep of a thread from `at` on.
    /// If no event shows interrupts, one may have interrupted the thread that seems to wake it. Only
    /// another thread, or a signal, ends a wait for a futex.
    pub(crate) fn woken_by(&self, tid: u32, at: Nanos, number: usize) -> By {
        let wake = &self.wakes[number];
        let of_futex = || {
            let call = self.call_at(tid, at).flatten();
            call.is_some_and(|(id, _)| self.futexes.contains(&id))
        };
        match wake.by {
            By::Thread(_) if self.hides_interrupts && wake.signal.is_none() && !of_futex() => {
                By::Unrecorded
            }
            ref by => by.clone(),
        }
    }

    /// Returns the system call in which a thread went to sleep at a given time: `Some(None)` if it
    /// was in no call, and the outer `None` if no event shows it.
    pub(crate) fn call_of_sleep(&self, tid: u32, at: Nanos) -> Option<Option<InCall>> {
        let sleeps = self.sleeps.get(&tid)?;
        let first = sleeps.partition_point(|(from, _)| *from < at);
        let (from, call) = sleeps.get(first)?;
        (*from == at).then_some(*call)
    }

    /// Returns when a thread enters and leaves system calls between two times.
    pub(crate) fn calls_between(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<Nanos> {
        let calls = self.calls.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = calls.partition_point(|(at, _)| *at <= from);
        calls[first..]
            .iter()
            .map(|(at, _)| *at)
            .take_while(|at| *at < to)
            .collect()
    }

    /// Returns whether a thread that is runnable at a given time is known to be in its CPU's run
    /// queue by then: it was preempted, or its wake-up has reached that CPU.
    pub(crate) fn was_queued(&self, tid: u32, at: Nanos) -> bool {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let now = all.partition_point(|span| span.to <= at);
        let Some(since) = all.get(now).map(|span| span.from) else {
            return false;
        };
        let preempted = now > 0 && matches!(all[now - 1].phase, Phase::Runs(_));
        let queued = self.queued.get(&tid).into_iter().flatten();
        preempted || queued.into_iter().any(|time| (since..=at).contains(time))
    }

    /// Returns whether the last event of a thread before its sleep was a page fault.
    pub(crate) fn slept_in_fault(&self, tid: u32, at: Nanos) -> bool {
        let Some(fault) = self.faults.last(tid, at) else {
            return false;
        };
        if let Some(end) = fault.end {
            return end > at;
        }
        // In user space, only a system call or a fault leads to a sleep. If the thread is in a
        // call, or if calls are not recorded, any old fault is assumed to have ended.
        if at > fault.from + FAULT_TIME && !(fault.user && self.knows_calls) {
            return false;
        }
        self.no_call_since(tid, fault.from, at)
    }

    /// Returns whether a thread neither enters nor leaves a system call between two times.
    fn no_call_since(&self, tid: u32, from: Nanos, at: Nanos) -> bool {
        let calls = self.calls.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = calls.partition_point(|(time, _)| *time <= at);
        after
            .checked_sub(1)
            .is_none_or(|before| calls[before].0 <= from)
    }

    /// Returns the time of the page fault because of which a thread is asleep at a given time;
    /// `None` if it is not asleep because of a fault.
    pub(crate) fn fault_before_sleep(&self, tid: u32, at: Nanos) -> Option<Nanos> {
        let spans = self.threads.get(&tid)?;
        let next = spans.get(spans.partition_point(|span| span.from < at))?;
        if next.from != at {
            return None;
        }
        let asleep = matches!(next.phase, Phase::Asleep(_));
        let last = self.faults.last(tid, at)?;
        (asleep && self.slept_in_fault(tid, at)).then_some(last.from)
    }

    /// Returns the page fault in which a running thread is at a given time. If the fault has no
    /// end, the thread may also have returned to user space.
    pub(crate) fn in_fault(&self, tid: u32, at: Nanos) -> Option<Fault> {
        let fault = self.faults.last(tid, at)?;
        let is_inside = match fault.end {
            Some(end) => at < end,
            // A fault in a system call cannot be distinguished from the rest of the call.
            None => fault.user && self.knows_calls && self.no_call_since(tid, fault.from, at),
        };
        is_inside.then_some(fault)
    }

    /// Returns the thread that a running thread spins for in the kernel, in the system call that
    /// contains the given time.
    pub(crate) fn spin(&self, tid: u32, at: Nanos) -> Option<Spin> {
        let calls = self.calls.get(&tid)?;
        let after = calls.partition_point(|(from, _)| *from <= at);
        let (entered, call) = calls[after.checked_sub(1)?];
        let (_, args) = call?;
        let exit = calls.get(after).map_or(Nanos(u64::MAX), |(exit, _)| *exit);
        self.locks
            .spin(tid, (entered, exit), args, |owner, is_unlock| {
                let calls = self.calls.get(&owner).into_iter().flatten();
                let unlocks =
                    calls.filter(|(_, call)| call.is_some_and(|(_, args)| is_unlock(args)));
                unlocks.map(|(at, _)| *at).collect()
            })
    }

    /// Returns the signal that stopped a thread at a given time, and its sender. The kernel sends
    /// a signal for a process to one of its threads but stops all of them. So if the thread itself
    /// received none, the only stop signal so far is the cause.
    pub(crate) fn stop_signal(&self, tid: u32, at: Nanos) -> Option<(u32, u32)> {
        let spans = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let since = spans.get(spans.partition_point(|span| span.to <= at));
        let at = since.map_or(at, |span| span.from.min(at));
        let own = self.signals.get(&tid).into_iter().flatten();
        let last = own.rev().find(|(time, ..)| *time <= at);
        if let Some((_, signal, sender)) = last {
            return Some((*signal, *sender));
        }
        let all = self.signals.values().flatten();
        let mut before = all.filter(|(time, ..)| *time <= at);
        let (_, signal, sender) = *before.next()?;
        before
            .all(|(_, other, by)| (*other, *by) == (signal, sender))
            .then_some((signal, sender))
    }

    /// Returns the stack of a thread that left its CPU at a given time.
    pub(crate) fn stack(&self, tid: u32, at: Nanos) -> Option<&[u64]> {
        let stacks = self.stacks.get(&tid)?;
        let first = stacks.partition_point(|(from, _)| *from < at);
        let (from, frames) = stacks.get(first)?;
        (*from < at + STACK_AFTER).then_some(frames)
    }

    /// Returns the effective priority, as far as it is known.
    pub(crate) fn priority(&self, tid: u32, at: Nanos) -> KernelPriority {
        let unknown = KernelPriority::UNKNOWN;
        let Some(known) = self.priorities.get(&tid) else {
            return unknown;
        };
        let after = known.partition_point(|(from, _)| *from <= at);
        known
            .get(after.saturating_sub(1))
            .map_or(unknown, |(_, priority)| *priority)
    }
}

/// Splits a segment of time at the boundaries of consecutive spans. `make` gets `None` for the
/// gaps.
fn cover<S, T>(
    spans: &[S],
    (from, to): (Nanos, Nanos),
    ends: impl Fn(&S) -> (Nanos, Nanos),
    mut make: impl FnMut(Option<&S>, Nanos, Nanos) -> T,
) -> Vec<T> {
    let mut pieces = Vec::new();
    let mut at = from;
    let first = spans.partition_point(|span| ends(span).1 <= from);
    for span in &spans[first..] {
        let (begins, end) = ends(span);
        if begins >= to || at >= to {
            break;
        }
        if begins > at {
            pieces.push(make(None, at, begins));
            at = begins;
        }
        let until = end.min(to);
        if until > at {
            pieces.push(make(Some(span), at, until));
            at = until;
        }
    }
    if to > at {
        pieces.push(make(None, at, to));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces of a segment between 10..20, 30..40 and 40..50, each with its span.
    fn pieces(from: u64, to: u64) -> Vec<(Option<u64>, u64, u64)> {
        let spans = [(10, 20), (30, 40), (40, 50)];
        let ends = |span: &(u64, u64)| (Nanos(span.0), Nanos(span.1));
        let make = |span: Option<&(u64, u64)>, from: Nanos, to: Nanos| {
            (span.map(|span| span.0), from.0, to.0)
        };
        cover(&spans, (Nanos(from), Nanos(to)), ends, make)
    }

    #[test]
    fn segments_are_split_at_spans_and_gaps() {
        let (first, second, third) = (Some(10), Some(30), Some(40));
        assert_eq!(
            pieces(5, 35),
            [
                (None, 5, 10),
                (first, 10, 20),
                (None, 20, 30),
                (second, 30, 35)
            ]
        );
        assert_eq!(pieces(12, 18), [(first, 12, 18)]);
        assert_eq!(pieces(22, 28), [(None, 22, 28)]);
        assert_eq!(pieces(20, 30), [(None, 20, 30)]);
        assert_eq!(
            pieces(35, 60),
            [(second, 35, 40), (third, 40, 50), (None, 50, 60)]
        );
        assert_eq!(pieces(50, 60), [(None, 50, 60)]);
        assert_eq!(pieces(15, 15), []);
    }
}
