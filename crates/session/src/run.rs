//! The life of a measurement.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use punctual_host::Host;
use punctual_loads::{LoadRequest, Running};
use punctual_model::{
    Completion, CpuSet, Histogram, HostFacts, Interference, LoadRecord, Nanos, Observer, ProbeRun,
    Recording, RecordingId, SCHEMA_VERSION, SamplesKept, Scheduling, Series, ThreadRecord,
    ThreadUsage,
};
use punctual_probes::{
    Control, Lane, LaneOutcome, LaneSettings, Measured, Plan, Prepared, Probe, ProbeError,
    Recorder, Settings,
};
use punctual_rt::{DmaLatency, LockMode, MemoryLock};
use punctual_store::{Lease, Store, StoreError};

use crate::collect::{Collector, Snapshot, worst_of_all, worst_samples};
use crate::housekeeping::Housekeeping;
use crate::request::usual_series_interval;
use crate::settings::MachineSettings;
use crate::time::Start;
use crate::{Request, SessionError, rights};

/// How often the lanes are drained, and how soon a wish to stop is seen.
const TURN: Duration = Duration::from_millis(100);

/// How often threads that are to end are woken again.
const STOP_AGAIN: Duration = Duration::from_millis(20);

/// A probe ends by itself; this long after its time it is stopped.
const OVERTIME: Nanos = Nanos::from_secs(2);

/// Is told how a run goes.
pub trait Watcher {
    /// It is about to begin; the recording is complete but for what is
    /// measured.
    fn begin(&mut self, recording: &Recording);
    /// Several times a second.
    fn progress(&mut self, snapshot: &Snapshot);
    /// It is over.
    fn end(&mut self);
}

/// A measurement that is ready to run.
pub struct Session {
    request: Request,
    host: Host,
    facts: HostFacts,
    scheduling: Scheduling,
    probe: Box<dyn Probe>,
    settings: Option<Arc<MachineSettings>>,
    prepared: Prepared,
    row_length: Nanos,
    warnings: Vec<String>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// The recording.
    pub recording: Recording,
    /// Why the store does not have all of it.
    pub store_error: Option<StoreError>,
}

impl Session {
    /// Checks all that can be checked before anything is measured: CPUs,
    /// rights, the probe's parameters, how the lengths fit.
    ///
    /// # Errors
    /// What is wrong, with the value.
    pub fn prepare(request: Request, host: Host) -> Result<Self, SessionError> {
        punctual_rt::interrupt::install_interrupt_handler()?;
        let cpus = cpus_to_measure(&request, &host)?;
        let (scheduling, warning) = rights::scheduling(&request)?;
        rights::may_use(&cpus)?;
        let mut probe = (request.probe.build)(&request.arguments);
        let settings = settings(probe.as_mut(), &request, &host);
        let prepared = probe.prepare(&Plan {
            cpus,
            scheduling,
            duration: request.length.duration(),
            warm_up: request.warm_up,
        })?;
        if let Some(duration) = prepared.duration
            && prepared.warm_up >= duration
        {
            return Err(SessionError::OnlyWarmUp {
                warm_up: prepared.warm_up,
                duration,
            });
        }
        let row_length =
            (request.series_interval).unwrap_or_else(|| usual_series_interval(prepared.duration));
        Ok(Self {
            facts: host.facts(),
            request,
            host,
            scheduling,
            probe,
            settings,
            prepared,
            row_length,
            warnings: warning.into_iter().collect(),
        })
    }

    /// What the reader must know before it begins: rights that are lacking.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Measures, until the end or until `stop` is set. Rows are written to
    /// `store` as the run goes.
    ///
    /// # Errors
    /// What could not be started; a store that refuses the recording at its
    /// start. A store that fails later ends nothing: see
    /// [`Outcome::store_error`].
    pub fn run(
        mut self,
        store: Option<&Store>,
        watcher: &mut dyn Watcher,
        stop: &AtomicBool,
    ) -> Result<Outcome, SessionError> {
        if self.request.samples && store.is_none() {
            return Err(SessionError::Unfit(
                "samples are kept in the store, and there is none: leave --samples or name a --store"
                    .to_owned(),
            ));
        }
        let mut loads = Vec::new();
        for load in std::mem::take(&mut self.request.loads) {
            loads.push(load.start()?);
        }
        let guards = self.hold_the_machine();
        let mut recording = self.head(
            loads
                .iter()
                .map(Running::request)
                .map(LoadRequest::record)
                .collect(),
        );
        let writer = match store {
            Some(store) => Some(store.begin(&recording, &self.lease())?),
            None => None,
        };
        watcher.begin(&recording);

        let control = Arc::new(Control::new());
        let (recorders, collectors) = self.lanes(&control);
        let before = self.host.counters();
        let used_before = punctual_rt::process_usage();
        let start = Start::now();
        recording.started = start.wall;
        let titles = recording.threads.iter().map(ThreadRecord::title).collect();
        let mut housekeeping = Housekeeping::new(
            collectors,
            titles,
            start,
            self.row_length,
            self.prepared.duration,
            writer,
        );
        let measured = self.measure(
            recorders,
            &control,
            stop,
            &mut loads,
            &mut housekeeping,
            watcher,
        );
        watcher.end();
        recording.duration_ns = start.elapsed();
        // Whatever became of the probe.
        if let Some(settings) = &self.settings {
            self.warnings.extend(settings.revert());
        }
        let used = punctual_rt::process_usage();
        let measured_cpus: CpuSet = self
            .prepared
            .lanes
            .iter()
            .filter_map(|lane| lane.cpu)
            .collect();
        recording.interference =
            self.host
                .counters()
                .since(&before, &measured_cpus, recording.duration_ns);
        recording.load = loads.into_iter().map(Running::stop).collect();
        drop(guards);

        let measured = measured?;
        housekeeping.finish(&self.warnings);
        recording.completion = match () {
            () if control.broke() => Completion::Break,
            () if stop.load(Ordering::Relaxed) => Completion::Stopped,
            () => Completion::Finished,
        };
        recording.observer = observer(&measured.lanes);
        recording.observer.cpu_time_ns =
            Nanos::from(used.cpu_time) - Nanos::from(used_before.cpu_time);
        recording.observer.peak_memory_bytes = used.peak_memory_bytes;
        self.fill(&mut recording, measured, &mut housekeeping);
        Ok(self.keep(recording, housekeeping))
    }

    /// What is held for the time of the run. Refusals are warnings: the figures
    /// stand, but the reader must know.
    fn hold_the_machine(&mut self) -> Guards {
        let memory = punctual_rt::lock_process_memory(LockMode::OnFault)
            .map_err(|error| self.warnings.push(format!("memory is not locked: {error}")))
            .ok();
        let dma_latency = self.request.dma_latency_us.and_then(|micros| {
            DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros)
                .map_err(|error| {
                    self.warnings
                        .push(format!("CPUs may enter deep idle states: {error}"));
                })
                .ok()
        });
        Guards {
            _memory: memory,
            _dma_latency: dma_latency,
        }
    }

    fn lanes(&self, control: &Arc<Control>) -> (Vec<Recorder>, Vec<Collector>) {
        let settings = |rate_hz| LaneSettings {
            warm_up: self.prepared.warm_up,
            break_above: self.request.break_above,
            rate_hz,
        };
        self.prepared
            .lanes
            .iter()
            .enumerate()
            .map(|(thread, spec)| {
                let (recorder, reader) = Lane::open(settings(spec.rate_hz), control);
                let collector = Collector::new(thread as u32, spec, reader, self.request.samples);
                (recorder, collector)
            })
            .unzip()
    }

    /// Runs the probe on a thread of its own, and keeps house on this one.
    fn measure(
        &mut self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
        stop: &AtomicBool,
        loads: &mut [Running],
        housekeeping: &mut Housekeeping,
        watcher: &mut dyn Watcher,
    ) -> Result<Measured, SessionError> {
        let probe = &mut self.probe;
        let warnings = &mut self.warnings;
        let deadline = self.prepared.duration.map(|duration| duration + OVERTIME);
        let (done, finished) = mpsc::channel::<Result<Measured, ProbeError>>();
        thread::scope(|scope| {
            let runner = scope.spawn(move || {
                // The receiver lives as long as the scope.
                let _ = done.send(probe.run(recorders, control));
            });
            let _elsewhere = Elsewhere::go(&self.prepared);
            let result = loop {
                let wait = if control.stopping() { STOP_AGAIN } else { TURN };
                match finished.recv_timeout(wait) {
                    Ok(result) => break result.map_err(SessionError::from),
                    Err(RecvTimeoutError::Disconnected) => break Err(SessionError::Panicked),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let overdue =
                    deadline.is_some_and(|deadline| housekeeping.start.elapsed() > deadline);
                if stop.load(Ordering::Relaxed) || overdue || control.stopping() {
                    control.stop();
                }
                for load in &mut *loads {
                    if let Some(how) = load.check() {
                        let at = housekeeping.start.elapsed();
                        warnings.push(format!("from {at} on without load: {how}"));
                    }
                }
                housekeeping.turn(warnings);
                watcher.progress(&housekeeping.snapshot());
            };
            // A panic is already in `result`.
            let _ = runner.join();
            result
        })
    }

    /// The recording as it is known before the start.
    fn head(&self, load: Vec<LoadRecord>) -> Recording {
        let threads: Vec<ThreadRecord> = self
            .prepared
            .lanes
            .iter()
            .map(|lane| ThreadRecord {
                label: lane.label.clone(),
                cpu: lane.cpu,
                from_cpu: lane.from_cpu,
                scheduling: lane.scheduling,
                accounting: Default::default(),
                histogram: Histogram::new(),
                usage: ThreadUsage::default(),
            })
            .collect();
        Recording {
            schema: SCHEMA_VERSION,
            id: RecordingId::new(),
            label: self.request.label.clone(),
            completion: Completion::Running,
            probe: self.probe_run(),
            host: self.facts.clone(),
            load,
            verdict: self.request.requirement.judge(&threads),
            requirement: self.request.requirement.clone(),
            started: jiff::Timestamp::now(),
            duration_ns: Nanos::ZERO,
            threads,
            series: Series {
                interval_ns: self.row_length,
                dropped: 0,
                rows: Vec::new(),
            },
            samples: None,
            tables: Vec::new(),
            worst: Vec::new(),
            interference: Interference::default(),
            observer: Observer::default(),
            warnings: self.warnings.clone(),
        }
    }

    fn probe_run(&self) -> ProbeRun {
        let request = &self.request;
        let mut parameters = request.arguments.to_json(request.probe.parameters);
        let mut set = |name: &str, value: serde_json::Value| {
            parameters.insert(name.to_owned(), value);
        };
        set("policy", self.scheduling.policy.name().into());
        set("priority", self.scheduling.priority.into());
        set("warm_up_ns", self.prepared.warm_up.0.into());
        set("samples", request.samples.into());
        set("duration_ns", self.prepared.duration.map(|d| d.0).into());
        set("break_ns", request.break_above.map(|limit| limit.0).into());
        set("dma_latency_us", request.dma_latency_us.into());
        ProbeRun {
            name: request.probe.name.to_owned(),
            chart: request.probe.chart,
            parameters,
            program: concat!("punctual ", env!("CARGO_PKG_VERSION")).to_owned(),
            command_line: request.command_line.clone(),
        }
    }

    /// Puts what was measured into the recording.
    fn fill(&self, recording: &mut Recording, measured: Measured, housekeeping: &mut Housekeeping) {
        let start = housekeeping.start;
        let mut worst = Vec::new();
        let mut dropped = 0;
        for (place, (thread, lane)) in recording.threads.iter_mut().zip(measured.lanes).enumerate()
        {
            worst.extend(worst_samples(place as u32, thread.cpu, &lane.worst, &start));
            dropped += lane.dropped;
            thread.accounting = lane.accounting;
            thread.histogram = lane.histogram;
            thread.usage = lane.usage;
        }
        recording.tables = measured.tables;
        recording.worst = worst_of_all(worst);
        recording.series.dropped = dropped;
        recording.series.rows = housekeeping.take_rows();
        recording.verdict = recording.requirement.judge(&recording.threads);
        recording.warnings = self.warnings.clone();
        recording.warnings.extend(measured.warnings);
        if dropped > 0 {
            recording.warnings.push(format!(
                "{dropped} samples are in the histograms but not in the time series: this \
                 program was kept from running for seconds"
            ));
        }
        if let Some(thread) = recording.threads.iter().find(|t| !t.accounting.balances()) {
            recording.warnings.push(format!(
                "the account of {} does not balance: {:?}",
                thread.title(),
                thread.accounting
            ));
        }
    }

    /// Hands the recording to the store.
    fn keep(&self, mut recording: Recording, housekeeping: Housekeeping) -> Outcome {
        let mut store_error = housekeeping.store_error;
        if let Some(mut writer) = housekeeping.writer {
            if self.request.samples {
                match writer.seal() {
                    Ok(kept) => {
                        recording.samples = Some(SamplesKept {
                            dropped: recording.series.dropped,
                            ..kept
                        });
                    }
                    Err(error) => {
                        store_error.get_or_insert(error);
                    }
                }
            }
            match writer.finish(&recording) {
                // All that an earlier failure kept back is in it now.
                Ok(()) => store_error = None,
                Err(error) => {
                    store_error.get_or_insert(error);
                }
            }
        }
        Outcome {
            recording,
            store_error,
        }
    }

    fn lease(&self) -> Lease {
        let pid = std::process::id();
        Lease {
            pid,
            process_start: self.host.process_start(pid).unwrap_or_default(),
            boot_id: self.host.boot_id().unwrap_or_default(),
        }
    }
}

/// Held while measuring.
struct Guards {
    _memory: Option<MemoryLock>,
    _dma_latency: Option<DmaLatency>,
}

/// Keeps the calling thread off the measured CPUs, where there are others.
struct Elsewhere(Option<Vec<u32>>);

impl Elsewhere {
    fn go(prepared: &Prepared) -> Self {
        let before = punctual_rt::affinity::current().unwrap_or_default();
        let rest: Vec<u32> = before
            .iter()
            .copied()
            .filter(|cpu| prepared.lanes.iter().all(|lane| lane.cpu != Some(*cpu)))
            .collect();
        let moved = !rest.is_empty()
            && punctual_rt::affinity::set(punctual_rt::current_tid(), &rest).is_ok();
        Self(moved.then_some(before))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was in force before; should it be refused now, staying
            // elsewhere does no harm.
            let _ = punctual_rt::affinity::set(punctual_rt::current_tid(), before);
        }
    }
}

/// The way to the settings that the probe changes, which it is handed.
fn settings(probe: &mut dyn Probe, request: &Request, host: &Host) -> Option<Arc<MachineSettings>> {
    let knobs = probe.knobs();
    if knobs.is_empty() {
        return None;
    }
    let journal = request.journal.clone();
    let settings = Arc::new(MachineSettings::new(host.clone(), journal, knobs));
    probe.take_settings(Arc::clone(&settings) as Arc<dyn Settings>);
    Some(settings)
}

fn cpus_to_measure(request: &Request, host: &Host) -> Result<CpuSet, SessionError> {
    let online = host.online()?;
    let cpus = match &request.cpus {
        Some(cpus) => cpus.clone(),
        None => host.allowed()?.intersection(&online),
    };
    let missing = cpus.difference(&online);
    if !missing.is_empty() {
        return Err(SessionError::NotOnline { missing, online });
    }
    if cpus.is_empty() {
        return Err(SessionError::NoCpu);
    }
    Ok(cpus)
}

/// The cost on the slowest CPU.
fn observer(lanes: &[LaneOutcome]) -> Observer {
    let slowest = |of: fn(&LaneOutcome) -> Nanos| lanes.iter().map(of).max().unwrap_or_default();
    Observer {
        clock_read_ns: slowest(|lane| lane.cost.clock_read),
        loop_ns: slowest(|lane| lane.cost.turn),
        ..Observer::default()
    }
}
