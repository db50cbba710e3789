//! The runs of a sampled series: whether each was at its random time, and all on one machine.

use jiff::{SignedDuration, Timestamp};

use super::{LateRun, SampledSlot, SeriesProof};
use crate::{MeasuredOn, Recording, RecordingId};

/// Compares the runs of a period, in their order, with the first one.
#[derive(Debug, Default)]
pub struct SeriesRuns {
    /// The facts of the first run that later ones must have too.
    first: Option<Vec<(&'static str, String)>>,
    /// End of the latest run so far.
    last_end: Option<Timestamp>,
}

impl SeriesRuns {
    /// Fills in the result of a run. Adds to the proof what the first run was measured on, and the
    /// reason why the runs prove nothing if this one differs from it.
    pub fn fill(&mut self, slot: &mut SampledSlot, recording: &Recording, proof: &mut SeriesProof) {
        slot.fill(
            self.in_time(slot.number, recording, proof)
                .and_then(|()| LateRun::of(recording, &proof.asked)),
        );
        self.compare(slot.number, recording, proof);
    }

    /// Returns an error if the run was not at its random time.
    fn in_time(
        &mut self,
        number: u64,
        recording: &Recording,
        proof: &SeriesProof,
    ) -> Result<(), String> {
        let started = recording.started;
        if proof.number_at(started) != Some(number) {
            return Err(format!(
                "it began at {started}, outside its part of the period: the clock was set, or the \
                 run waited for another one"
            ));
        }
        let before = self.last_end;
        let length = i64::try_from(recording.duration_ns.0).unwrap_or(i64::MAX);
        let end = started.checked_add(SignedDuration::from_nanos(length));
        self.last_end = before.max(end.ok());
        if before.is_some_and(|end| started < end) {
            return Err("it overlaps with the run before it: the clock was set back".to_owned());
        }
        Ok(())
    }

    /// Compares the machine and the measurement with those of the first run.
    fn compare(&mut self, number: u64, recording: &Recording, proof: &mut SeriesProof) {
        let own = facts(recording);
        let Some(first) = &self.first else {
            proof.measured_on = Some(MeasuredOn::from_recording(recording));
            proof.loads = recording
                .load
                .iter()
                .map(|load| load.name.clone())
                .collect();
            self.first = Some(own);
            return;
        };
        for ((what, was), (_, is)) in first.iter().zip(&own) {
            let is_said = |why: &String| why.starts_with(&format!("{what} changed"));
            if was != is && !proof.refused.iter().any(is_said) {
                proof.refused.push(format!(
                    "{what} changed from {was} to {is} by run {number}, so the runs are not about \
                     one machine"
                ));
            }
        }
    }
}

impl SeriesProof {
    /// Returns the number of the run in whose part of the period a time lies.
    fn number_at(&self, time: Timestamp) -> Option<u64> {
        let sample = self.asked.sample?;
        let place = sample.number_at(self.from, time)?;
        (place < u64::from(sample.runs)).then_some(place + 1)
    }

    /// Returns whether the due times of the runs follow from the seed. Only the number of the period
    /// since the start of the series is not known.
    pub fn has_times_of_seed(&self) -> bool {
        let (Some(sample), Ok(seed)) = (self.asked.sample, u64::from_str_radix(&self.seed, 16))
        else {
            return false;
        };
        let runs = u64::from(sample.runs);
        let fits = |period: u64| {
            let length = sample.period_ns.0.checked_mul(period);
            let length = length.and_then(|length| i64::try_from(length).ok());
            let begun = (self.from)
                .checked_sub(SignedDuration::from_nanos(length?))
                .ok()?;
            let is_due = |run: &SampledSlot| {
                let number = period * runs + run.number.checked_sub(1)?;
                Some(sample.due(seed, begun, number)? == run.due)
            };
            Some(self.runs.iter().all(|run| is_due(run) == Some(true)))
        };
        let is_complete = (1..=runs).eq(self.runs.iter().map(|run| run.number));
        is_complete && (0..MOST_PERIODS).map_while(fits).any(|fits| fits)
    }

    /// Judges the period again from the recordings of its runs. Runs without a recording keep their
    /// numbers. Returns also how many measured runs these are. If the recording of any run is absent,
    /// the machines of the runs cannot be compared, so the stated comparison is kept.
    pub fn judge_again(
        &self,
        recording: &mut dyn FnMut(RecordingId) -> Option<Recording>,
    ) -> (Self, usize) {
        let (mut again, mut runs) = (self.clone(), SeriesRuns::default());
        let (mut absent, mut are_all_compared) = (0, true);
        (again.measured_on, again.loads, again.refused) = (None, Vec::new(), Vec::new());
        for place in 0..again.runs.len() {
            let stated = &self.runs[place];
            let Some(recording) = stated.recording.and_then(&mut *recording) else {
                absent += usize::from(stated.late_seconds.is_some());
                are_all_compared &= stated.recording.is_none();
                continue;
            };
            let mut slot = SampledSlot {
                state: stated.state,
                recording: stated.recording,
                ..SampledSlot::new(stated.number, stated.due)
            };
            runs.fill(&mut slot, &recording, &mut again);
            again.runs[place] = slot;
        }
        if !are_all_compared {
            again.measured_on.clone_from(&self.measured_on);
            again.loads.clone_from(&self.loads);
            again.refused.clone_from(&self.refused);
        }
        again.judge();
        (again, absent)
    }
}

/// Maximum number of periods of a series: a hundred years of days.
const MOST_PERIODS: u64 = 36_525;

/// Returns what must be the same in all runs.
fn facts(recording: &Recording) -> Vec<(&'static str, String)> {
    let on = MeasuredOn::from_recording(recording);
    let text = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let version = recording.host.kernel.version.get().cloned();
    let load = recording.load.iter().map(|load| load.name.as_str());
    let load: Vec<&str> = load.collect();
    let parameter = |name: &str| match recording.probe.parameters.get(name) {
        Some(value) => value.to_string(),
        None => "unknown".to_owned(),
    };
    let asked = recording.requirement.periodic.as_ref();
    let asked = asked.map(|asked| format!("{} of {}", asked.budget_ns, asked.period_ns));
    let mut facts = vec![
        ("the host name", text(on.hostname)),
        ("the kernel", text(on.kernel)),
        ("the version of the kernel", text(version)),
        ("the processor", text(on.processor)),
        ("the budget", text(asked)),
        ("the load", load.join(", ")),
    ];
    // An application chooses its CPUs and its scheduling, which belong to what is judged.
    if !recording
        .requirement
        .periodic
        .as_ref()
        .is_some_and(|asked| asked.jobs)
    {
        facts.extend([
            ("the list of measured CPUs", on.cpus.to_string()),
            ("the interval", format!("{} ns", parameter("interval_ns"))),
            (
                "the scheduling",
                format!("{} {}", parameter("policy"), parameter("priority")),
            ),
        ]);
    }
    facts
}
