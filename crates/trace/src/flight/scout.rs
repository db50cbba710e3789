//! The scout: wake-ups and switches of a few threads, read as they happen. The
//! kernel discards those of all others.

use std::io;

use punctual_model::TraceEvent;

use super::clock::ClockMap;
use super::instance::Instance;
use super::name::Owner;
use super::recorder::{CpuPipe, choose_clock, pipes};
use crate::event::{Format, events};
use crate::ring::{Lost, Page};
use crate::{Decoder, TraceError, Tracefs};

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
pub struct Scout {
    // Before the instance: open files hold it.
    cpus: Vec<CpuPipe>,
    instance: Instance,
    tracefs: Tracefs,
    decoder: Decoder,
    clock: ClockMap,
    page: Vec<u8>,
    lost: u64,
}

impl Tracefs {
    /// Makes a scout that watches nobody yet. `clock` is that of a recorder in
    /// this tracefs.
    ///
    /// # Errors
    /// What the kernel refuses; then nothing is left behind.
    pub fn scout(&self, owner: Owner, clock: ClockMap) -> Result<Scout, TraceError> {
        let instance = Instance::make(self, owner)?;
        instance.write("options/overwrite", "1")?;
        choose_clock(self, &instance);
        instance.write("buffer_size_kb", &KIB_PER_CPU.to_string())?;
        let layout = instance.layout()?;
        let mut decoder = Decoder::new(layout, None);
        for (name, _) in WATCHED {
            let path = self.path().join("events/sched").join(name).join("format");
            let spec = events().find(|spec| spec.name == name);
            let format = Format::parse(&self.text(&path)?);
            let learnt = match (spec, format) {
                (Some(spec), Some(format)) => decoder.learn(spec, &format),
                _ => Err("format"),
            };
            learnt.map_err(|field| TraceError::NoField { path, field })?;
        }
        let cpus = pipes(self, &instance.folder)?;
        instance.write("tracing_on", "1")?;
        Ok(Scout {
            cpus,
            instance,
            tracefs: self.clone(),
            decoder,
            clock,
            page: vec![0; layout.page_bytes],
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
            let folder = self.instance.folder.join("events/sched").join(name);
            let enable = folder.join("enable");
            if tids.is_empty() {
                self.tracefs.write(&enable, "0")?;
                continue;
            }
            self.tracefs
                .write(&folder.join("filter"), &filter(fields, tids))?;
            self.tracefs.write(&enable, "1")?;
        }
        Ok(())
    }

    /// What happened since the last time, by rising time.
    ///
    /// # Errors
    /// A pipe cannot be read.
    pub fn read(&mut self) -> Result<Vec<TraceEvent>, TraceError> {
        let mut events = Vec::new();
        let layout = self.decoder.layout();
        let most = 2 * KIB_PER_CPU * 1_024 / layout.page_bytes + 16;
        for cpu in &mut self.cpus {
            for _ in 0..most {
                let count = match cpu.pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(source) => {
                        let pipe = format!("per_cpu/cpu{}/trace_pipe_raw", cpu.cpu);
                        let path = self.instance.file(&pipe);
                        return Err(TraceError::Read { path, source });
                    }
                };
                let Ok(page) = Page::parse(layout, &self.page[..count]) else {
                    self.lost += 1;
                    continue;
                };
                self.lost += page.lost().map_or(0, Lost::at_least);
                let take = |event| events.push(event);
                self.decoder
                    .page(&page, cpu.cpu, self.clock, |_| true, take);
            }
        }
        events.sort_by_key(|event: &TraceEvent| event.time);
        Ok(events)
    }

    /// Events that were overwritten before they were read, at least.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// The kernel does not let go of it; the next program tries again.
    pub fn stop(mut self) -> Result<(), TraceError> {
        self.cpus.clear();
        self.instance.remove()
    }
}

impl std::fmt::Debug for Scout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scout")
            .field("instance", &self.instance.folder)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
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
