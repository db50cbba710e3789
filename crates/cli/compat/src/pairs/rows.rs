//! The lines that these tools print, two for each pair.

use std::fmt::Write;

use punctual_host::Host;
use punctual_model::{Nanos, Recording, SignedNanos};
use punctual_session::Snapshot;

use super::Kind;
use super::settings::PairSettings;

/// The state of one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The thread that waits and measures.
    pub(super) receiver: End,
    /// The thread that sends.
    pub(super) sender: End,
    pub(super) interval_us: u64,
    pub(super) cycles: u64,
    /// Number of timeouts of the receiver before the latest cycle.
    pub(super) timeouts: u64,
    pub(super) min: Option<u64>,
    pub(super) act: i64,
    /// Mean, rounded down like the other figures.
    pub(super) avg: u64,
    pub(super) max: u64,
}

/// One of the two threads of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) tid: i32,
    pub(super) priority: u8,
    /// The CPU on which the thread last ran; -1 if it is not known yet.
    pub(super) cpu: i64,
}

impl Row {
    /// Returns all rows, before the first sample.
    pub(super) fn all(settings: &PairSettings) -> Vec<Self> {
        let row = |place: usize| {
            let end = |priority| End {
                tid: 0,
                priority,
                cpu: -1,
            };
            // As in the originals, both threads show the requested priority; see `PRIORITY`.
            let priority = settings.priority_of(place);
            Self {
                receiver: end(priority),
                sender: end(priority),
                interval_us: settings.interval_of(place),
                cycles: 0,
                timeouts: 0,
                min: None,
                act: 0,
                avg: 0,
                max: 0,
            }
        };
        (0..settings.threads as usize).map(row).collect()
    }

    /// Sets the figures from the recording, which has all samples.
    pub(super) fn settle(&mut self, place: usize, recording: &Recording) {
        let Some(thread) = recording.threads.get(place) else {
            return;
        };
        // A run can end before its threads have been read.
        for end in [&mut self.receiver, &mut self.sender] {
            if end.cpu < 0 {
                end.cpu = thread.cpu.map_or(-1, i64::from);
            }
        }
        let histogram = &thread.histogram;
        self.cycles = thread.accounting.recorded;
        self.min = histogram.min().map(Nanos::whole_micros);
        self.avg = histogram.mean().map_or(0, Nanos::whole_micros);
        self.max = histogram.max().map_or(0, Nanos::whole_micros);
    }
}

/// Updates all rows.
pub(super) fn update(rows: &mut [Row], snapshot: &Snapshot, host: &Host) {
    let threads = host.own_threads();
    for (place, (row, worker)) in rows.iter_mut().zip(&snapshot.workers).enumerate() {
        let micros = |time: SignedNanos| time.0 / 1_000;
        row.cycles = worker.accounting.recorded;
        row.timeouts = worker.timeouts;
        row.min = worker.min.map(Nanos::whole_micros).or(row.min);
        row.act = worker.last.map_or(0, micros);
        row.avg = worker.mean.map_or(0, Nanos::whole_micros);
        row.max = worker.max.map_or(0, Nanos::whole_micros);
        if let Some(tid) = worker.tid {
            row.receiver.tid = tid.as_raw();
        }
        // Names of the probe's threads.
        let names = [format!("wait/{place}"), format!("post/{place}")];
        for (end, name) in [&mut row.receiver, &mut row.sender].into_iter().zip(&names) {
            if let Some(thread) = threads.iter().find(|thread| thread.name == *name) {
                (end.tid, end.cpu) = (thread.tid, thread.cpu.into());
            }
        }
        if let Some(partner) = worker.partner {
            row.sender.tid = partner.as_raw();
            if let Some(thread) = host.thread(partner.as_raw()) {
                row.sender.cpu = thread.cpu.into();
            }
        }
    }
}

/// Equivalent of `print_stat` in these tools. Returns the threads, then the latencies, on lines
/// that each end with a newline.
pub(super) fn text(kind: &Kind, rows: &[Row]) -> String {
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        let (receiver, sender) = (row.receiver, row.sender);
        let timeouts = if kind.timeouts {
            format!("TO {}, ", row.timeouts)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "#{}: ID{}, P{}, CPU{}, I{}; #{}: ID{}, P{}, CPU{}, {timeouts}Cycles {}",
            2 * place,
            receiver.tid,
            receiver.priority,
            receiver.cpu,
            row.interval_us,
            2 * place + 1,
            sender.tid,
            sender.priority,
            sender.cpu,
            row.cycles
        );
    }
    for (place, row) in rows.iter().enumerate() {
        let _ = write!(text, "#{} -> #{}", 2 * place + 1, 2 * place);
        let _ = match row.min {
            None if kind.says_not_ready => writeln!(text, " (not yet ready)"),
            min => writeln!(
                text,
                ", Min {:4}, Cur {:4}, Avg {:4}, Max {:4}",
                min.map_or(-1, |min| min as i64),
                row.act,
                row.avg,
                row.max
            ),
        };
    }
    text
}
