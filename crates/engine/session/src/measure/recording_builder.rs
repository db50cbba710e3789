//! Builds a recording, before and after it is measured.

use punctual_model::{Nanos, ProbeRun, Recording, Scheduling, ThreadRecord};
use punctual_probes::{Measured, WorkerOutcome, WorkerSpec};

use super::conditions;
use super::periodic_tasks::PeriodicTasks;
use super::phase::Phase;
use crate::events::InterruptionCounter;
use crate::lifecycle::{largest_of_all, top_samples_of};
use crate::{Request, Session};

impl Session {
    /// Returns the recording as known before the start.
    pub(crate) fn head(&self) -> Recording {
        let workers = self.phases.iter().flat_map(Phase::workers);
        let mut recording = Recording::new(
            self.probe_run(),
            self.facts.clone(),
            self.request.limits.requirement.clone(),
            workers.map(thread_of).collect(),
        );
        recording.label.clone_from(&self.request.recording.label);
        recording.audit.clone_from(&self.audit);
        recording.series.interval_ns = self.row_length;
        recording.warnings.clone_from(&self.warnings);
        recording
    }

    fn probe_run(&self) -> ProbeRun {
        let Request {
            probe, arguments, ..
        } = &self.request;
        let mut parameters = arguments.to_json(probe.parameters);
        let mut set = |name: &str, value: serde_json::Value| {
            parameters.insert(name.to_owned(), value);
        };
        let Scheduling { policy, priority } = self.scheduling;
        set("policy", policy.name().into());
        set("priority", priority.into());
        set(
            "warm_up_ns",
            self.phases.first().map(|phase| phase.warm_up().0).into(),
        );
        let samples = self.request.series.samples;
        set("samples", samples.is_some().into());
        if let Some(resolution) = samples {
            set("sample_resolution_ns", resolution.0.into());
        }
        set(
            "duration_ns",
            self.duration().map(|duration| duration.0).into(),
        );
        set(
            "break_ns",
            self.request.limits.break_above.map(|above| above.0).into(),
        );
        set("dma_latency_us", self.request.machine.dma_latency_us.into());
        if let Some(group) = &self.request.threads.group {
            set(ProbeRun::GROUP, group.to_parameter());
        }
        if let Some(state) = self.request.machine.deepest_idle_state {
            set("deepest_idle_state", state.into());
        }
        let phases: Vec<&str> = self.phases.iter().filter_map(Phase::name).collect();
        if !phases.is_empty() {
            set("phases", phases.into());
        }
        ProbeRun {
            name: probe.name.to_owned(),
            chart: probe.chart,
            alike: self.phases.iter().all(Phase::workers_are_alike),
            parameters,
            program: concat!("punctual ", env!("CARGO_PKG_VERSION")).to_owned(),
            command_line: self.request.recording.command_line.clone(),
        }
    }

    /// Adds the measurements to the recording. Threads of phases that were not reached have no
    /// data.
    pub(crate) fn fill(
        &mut self,
        recording: &mut Recording,
        measured: Measured,
        housekeeping: &mut PeriodicTasks,
    ) {
        let start = housekeeping.start;
        let mut largest = Vec::new();
        let mut dropped = 0;
        let slowest = |of: fn(&WorkerOutcome) -> Nanos| measured.workers.iter().map(of).max();
        recording.observer.clock_read_ns =
            slowest(|worker| worker.cost.clock_read).unwrap_or_default();
        recording.observer.loop_ns = slowest(|worker| worker.cost.turn).unwrap_or_default();
        for (place, (thread, worker)) in
            (0..).zip(recording.threads.iter_mut().zip(measured.workers))
        {
            largest.extend(top_samples_of(place, thread.cpu, &worker.largest, &start));
            dropped += worker.dropped;
            thread.accounting = worker.accounting;
            thread.histogram = worker.histogram;
            thread.missed_histogram = worker.missed_histogram;
            thread.open = worker.open;
            thread.above = worker.above;
            thread.windows = worker.windows;
            thread.usage = worker.usage;
        }
        recording.top_samples = largest_of_all(largest);
        recording.suspensions = housekeeping.suspensions.found().to_vec();
        self.explained(recording, housekeeping);
        recording.tables = measured.tables;
        if let Some(iterations) = self.request.iterations.get() {
            let name = ProbeRun::ITERATIONS.to_owned();
            (recording.probe.parameters).insert(name, (*iterations).into());
        }
        recording.series.dropped = dropped;
        recording.series.rows = housekeeping.take_rows();
        recording.verdict = recording.judge();
        recording.warnings = self.warnings.clone();
        recording.warnings.extend(measured.warnings);
        let settings = conditions::changed(&self.facts, &self.host.facts(), &self.cpus());
        recording.warnings.extend(settings);
        if dropped > 0 {
            recording.warnings.push(format!(
                "the time series lacks {} that are in the histograms, because punctual could not \
                 run for seconds",
                punctual_model::counted(dropped, "sample", "samples")
            ));
        }
        if let Some(thread) = recording.threads.iter().find(|t| !t.accounting.balances()) {
            recording.warnings.push(format!(
                "the sample accounting of {} does not balance: {:?}",
                thread.title(),
                thread.accounting
            ));
        }
    }

    /// Adds the explanation of outliers, and ends the recorder.
    fn explained(&mut self, recording: &mut Recording, housekeeping: &mut PeriodicTasks) {
        let Some(explainer) = housekeeping.explainer.take() else {
            return;
        };
        explainer.blame(&mut recording.top_samples);
        let mut explanation = explainer.finish(&mut self.warnings);
        let ticks = housekeeping.ticks.take();
        explanation.ticks = ticks.map(InterruptionCounter::finish_ticks);
        recording.explanation = Some(explanation);
    }
}

fn thread_of(worker: &WorkerSpec) -> ThreadRecord {
    ThreadRecord {
        label: worker.label.clone(),
        from_cpu: worker.from_cpu,
        ..ThreadRecord::new(worker.cpu, worker.scheduling)
    }
}
