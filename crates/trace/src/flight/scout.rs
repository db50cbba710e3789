//! The scout: wake-ups and switches of a few threads, read as they happen. The
//! kernel discards those of all others.

use punctual_model::{Nanos, TraceEvent};

use super::clock::ClockMap;
use super::name::Owner;
use super::stream::{Heard, Stream};
use crate::{TraceError, Tracefs};

/// What it takes, with the fields that hold a thread's number.
const WATCHED: [(&str, &[&str]); 3] = [
    ("sched_switch", &["prev_pid", "next_pid"]),
    ("sched_waking", &["pid"]),
    ("sched_process_exit", &["pid"]),
];

/// The ring buffer of each CPU: a second of some thousand switches.
const KIB_PER_CPU: usize = 256;

/// What the kernel takes as a filter: less than a page.
const LONGEST_FILTER: usize = 3_500;

/// A trace instance with the scheduler's events of a few threads. Dropped, or
/// at [`stop`](Self::stop), it is gone.
#[derive(Debug)]
pub struct Scout {
    stream: Stream,
    lost: u64,
}

/// What a scout has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An event.
    Event(TraceEvent),
    /// Events were overwritten before they were read: what happened before this
    /// time is not known.
    Gap {
        /// The first event after them.
        until: Nanos,
    },
}

impl Tracefs {
    /// Makes a scout that watches nobody yet. `clock` is that of a recorder in
    /// this tracefs.
    ///
    /// # Errors
    /// What the kernel refuses; then nothing is left behind.
    pub fn scout(&self, owner: Owner, clock: ClockMap) -> Result<Scout, TraceError> {
        let names = WATCHED.map(|(name, _)| name);
        Ok(Scout {
            stream: Stream::open(self, owner, clock, KIB_PER_CPU, &names)?,
            lost: 0,
        })
    }
}

impl Scout {
    /// Watches these threads from now on, instead of those before.
    ///
    /// # Errors
    /// The kernel refuses a filter.
    pub fn watch(&self, tids: &[u32]) -> Result<(), TraceError> {
        for (name, fields) in WATCHED {
            match tids.is_empty() {
                true => self.stream.off(name)?,
                false => self.stream.on(name, Some(&filter(fields, tids)))?,
            }
        }
        Ok(())
    }

    /// What happened since the last time, by rising time.
    ///
    /// # Errors
    /// A pipe cannot be read.
    pub fn read(&mut self) -> Result<Vec<Told>, TraceError> {
        let heard = self.stream.read()?.into_iter();
        Ok(heard
            .map(|heard| match heard {
                Heard::Event(event) => Told::Event(event),
                Heard::Gap { to, lost, .. } => {
                    self.lost += lost;
                    Told::Gap { until: to }
                }
            })
            .collect())
    }

    /// Events that were overwritten before they were read, at least.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// The kernel does not let go of it; the next program tries again.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}

/// `prev_pid == 1 || next_pid == 1`; of very many threads all from the first to
/// the last: the reader tells them apart.
fn filter(fields: &[&str], tids: &[u32]) -> String {
    let all: Vec<String> = fields
        .iter()
        .flat_map(|field| tids.iter().map(move |tid| format!("{field} == {tid}")))
        .collect();
    let all = all.join(" || ");
    match (tids.iter().min(), tids.iter().max()) {
        (Some(first), Some(last)) if all.len() > LONGEST_FILTER => {
            let range = |field: &&str| format!("({field} >= {first} && {field} <= {last})");
            let ranges: Vec<String> = fields.iter().map(range).collect();
            ranges.join(" || ")
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_each_thread_in_each_field() {
        assert_eq!(filter(&["pid"], &[3, 4]), "pid == 3 || pid == 4");
        assert_eq!(
            filter(&["prev_pid", "next_pid"], &[3]),
            "prev_pid == 3 || next_pid == 3"
        );
        let many: Vec<u32> = (10..2_000).collect();
        assert_eq!(
            filter(&["prev_pid", "next_pid"], &many),
            "(prev_pid >= 10 && prev_pid <= 1999) || (next_pid >= 10 && next_pid <= 1999)"
        );
    }
}
