//! Edges that the thread generates itself, with a wire from the output to the input.

use std::time::Duration;

use punctual_model::{Cell, Nanos, Table, counted};
use punctual_rt::{Error, Instant};

use super::paced::{Due, Pace, Period};
use super::parts::Parts;
use super::worker::Port;
use crate::monotonic::now;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// The inputs of the thread.
pub(super) struct Loopback<P> {
    pub(super) port: P,
    pub(super) recorder: Recorder,
    pub(super) pace: Pace,
    pub(super) warm_up: Nanos,
    /// Whether the output returns to its level after each measured edge, because only one kind of
    /// edge is measured.
    pub(super) returns: bool,
    pub(super) cost: SelfCost,
}

/// The result of the thread, in addition to the samples.
#[derive(Debug)]
pub(super) struct Looped {
    /// Changes of the output with an edge in their period.
    pub(super) in_time: u64,
    /// Changes of the output without an edge in their period.
    pub(super) lost: u64,
    /// Edges that came too late, or that the output did not cause.
    pub(super) stray: u64,
    /// Periods without a change of the output, because the thread woke too late.
    pub(super) skipped: u64,
    pub(super) parts: Parts,
}

impl<P: Port> Loopback<P> {
    /// Measures from `start` on.
    pub(super) fn run(
        self,
        control: &Control,
        start: Instant,
    ) -> Result<(WorkerOutcome, Looped), Error> {
        let Self {
            mut port,
            mut recorder,
            pace,
            warm_up,
            returns,
            cost,
        } = self;
        let first = Nanos(start.as_nanos()) + pace.interval;
        let warm_until = first + warm_up;
        let mut looped = Looped {
            in_time: 0,
            lost: 0,
            stray: 0,
            skipped: 0,
            parts: Parts::new(),
        };
        let paced = pace.run(first, &mut recorder, control, |recorder, due| {
            looped.stray += drain(&mut port, due)?;
            let begin = now();
            port.answer()?;
            let ended = await_edge(&mut port, control, (begin, due), &mut looped, |at, woke| {
                recorder.sample(begin, woke.signed_sub(begin));
                due.at >= warm_until && at <= woke
            })?;
            if returns {
                port.answer()?;
            }
            Ok(ended)
        })?;
        looped.skipped = paced.skipped;
        Ok((recorder.finish(paced.expected, cost), looped))
    }
}

/// Reads the edges that came after their period. Returns their number.
fn drain(port: &mut impl Port, due: Due) -> Result<u64, Error> {
    let mut read = 0;
    while now() < due.until && port.has_edge(Duration::ZERO)? {
        read += u64::from(port.wait()?.is_some());
    }
    Ok(read)
}

/// Waits for the edge of a change that began at `begin`. `sample` records it, and returns whether
/// its parts count.
fn await_edge(
    port: &mut impl Port,
    control: &Control,
    (begin, due): (Nanos, Due),
    looped: &mut Looped,
    sample: impl FnOnce(Nanos, Nanos) -> bool,
) -> Result<Period, Error> {
    loop {
        let time = now();
        if time >= due.until {
            looped.lost += 1;
            return Ok(Period::Missed);
        }
        if control.stopping() {
            return Ok(Period::Stopped);
        }
        if !port.has_edge((due.until - time).into())? {
            continue;
        }
        let Some(edge) = port.wait()? else {
            continue;
        };
        let woke = now();
        let at = Nanos(edge.at.as_nanos());
        if at < begin {
            looped.stray += 1;
            continue;
        }
        looped.in_time += 1;
        if sample(at, woke) {
            looped.parts.add(begin, at, woke);
        }
        return Ok(Period::Answered);
    }
}

impl Looped {
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut table = Table::new(
            "edges",
            "Changes of the output in the whole run, including its warm-up",
            &[("what", "changes"), ("count", "count")],
        );
        for (what, count) in [
            ("with an edge in their period", self.in_time),
            ("without an edge in their period", self.lost),
            ("not made: the thread was too late", self.skipped),
            ("edges outside of their period", self.stray),
        ] {
            table.push([Cell::from(what), count.into()]);
        }
        let title = "Parts of the way from output to thread, after the warm-up";
        let names = ["setting the output to time stamp", "time stamp to thread"];
        vec![table, self.parts.table(title, &names)]
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        if self.stray == 0 {
            return Vec::new();
        }
        let edges = counted(self.stray, "edge", "edges");
        vec![format!(
            "{edges} came after the period, or not from the output: choose a longer --interval, or \
             check the wire"
        )]
    }
}
