//! Records the senders of interrupts between CPUs, and the reasons why a CPU does not stop its
//! tick.

use punctual_model::{CpuSet, TraceEvent};

use super::name::Owner;
use super::stream::{Stream, Streamed};
use crate::clock::ClockMap;
use crate::{TraceError, Tracefs};

/// Size of the buffer of each CPU, enough for about a tenth of a second of events.
const KIB_PER_CPU: usize = 512;
/// Maximum number of CPUs in a filter. If there are more CPUs, the events of all CPUs are recorded.
const FILTERED_CPUS: usize = 32;

/// A recording in progress. Dropping it or calling [`stop`](Self::stop) removes its trace instance.
#[derive(Debug)]
pub struct InterruptionRecorder {
    stream: Stream,
    missing: Vec<String>,
}

impl Tracefs {
    /// Starts recording interrupts to the CPUs in `targets` (all if it is empty), and the reasons for
    /// ticks unless `ticking` is empty. Events of other CPUs may be recorded too.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn record_interruptions(
        &self,
        owner: Owner,
        targets: &CpuSet,
        ticking: &CpuSet,
    ) -> Result<InterruptionRecorder, TraceError> {
        let mut wanted = vec![
            ("ipi_send_cpu", one_of("cpu", targets)),
            ("ipi_send_cpumask", None),
        ];
        wanted.extend((!ticking.is_empty()).then(of_ticks));
        self.record_some(owner, wanted)
    }

    /// Starts recording the reasons for ticks.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn record_ticks(&self, owner: Owner) -> Result<InterruptionRecorder, TraceError> {
        self.record_some(owner, vec![of_ticks()])
    }

    fn record_some(
        &self,
        owner: Owner,
        wanted: Vec<(&'static str, Option<String>)>,
    ) -> Result<InterruptionRecorder, TraceError> {
        let (there, missing): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(name, _)| Stream::has(self, name));
        let names: Vec<&str> = there.iter().map(|(name, _)| *name).collect();
        let stream = Stream::open(self, owner, ClockMap::default(), KIB_PER_CPU, &names)?;
        for (name, filter) in &there {
            match stream.on(name, filter.as_deref()) {
                // Older kernels do not support all operators in filters.
                Err(_) if filter.is_some() => stream.on(name, None)?,
                on => on?,
            }
        }
        Ok(InterruptionRecorder {
            stream,
            missing: missing.iter().map(|(name, _)| (*name).to_owned()).collect(),
        })
    }
}

impl InterruptionRecorder {
    /// Returns the events since the last call, and the minimum number of lost events.
    ///
    /// # Errors
    /// Returns an error if the buffers cannot be read.
    pub fn read(&mut self) -> Result<(Vec<TraceEvent>, u64), TraceError> {
        let (mut events, mut all_lost) = (Vec::new(), 0);
        for item in self.stream.read()? {
            match item {
                Streamed::Event(event) => events.push(event),
                Streamed::Gap { lost, .. } => all_lost += lost,
            }
        }
        Ok((events, all_lost))
    }

    /// Returns the events that this kernel does not have.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Removes the trace instance.
    ///
    /// # Errors
    /// Returns an error if the instance cannot be removed.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}

/// Returns the event that contains the reasons for a tick, with its filter. Its thread is the one
/// that the tick interrupted.
fn of_ticks() -> (&'static str, Option<String>) {
    ("tick_stop", Some("dependency != 0".to_owned()))
}

/// Returns a filter for events in which this field is one of these CPUs.
fn one_of(field: &str, cpus: &CpuSet) -> Option<String> {
    let terms: Vec<String> = cpus.iter().map(|cpu| format!("{field} == {cpu}")).collect();
    (1..=FILTERED_CPUS)
        .contains(&terms.len())
        .then(|| terms.join(" || "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_names_cpus() {
        let cpus = |list: &str| list.parse().unwrap();
        assert_eq!(one_of("CPU", &cpus("2-3")).unwrap(), "CPU == 2 || CPU == 3");
        assert_eq!(one_of("cpu", &cpus("0-40")), None);
        assert_eq!(one_of("cpu", &CpuSet::new()), None);
    }
}
