//! Records an application that measures itself: reads its figures from sealed memory, and combines
//! them with the machine's facts and interference.
//!
//! The application is neither stopped nor changed, and does not notice that its figures are read.

mod channel_tracks;
mod explained;
mod requirement;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use punctual_app::find::{self, Found, Refusal};
use punctual_app::{ChannelHead, Counts, Unfit};
use punctual_host::Host;
use punctual_model::{
    Chart, Completion, HostFacts, Nanos, Policy, ProbeRun, Recording, Requirement, Scheduling,
    TaskRecord, ThreadRecord, grouped,
};
use punctual_probes::Broke;
use punctual_store::{Batch, Store};

use crate::lifecycle::{
    Begun, Context, Moment, Snapshot, Source, Start, StoreWriter, Watcher, sleep_until_poll,
};
use crate::request::usual_series_interval;
use crate::{Outcome, RecordingRequest, RunLength, SessionError};
use channel_tracks::ChannelTracks;
use explained::Annotations;

pub use requirement::ChannelLimits;

/// Maximum time between two readings, so that a ring of the largest samples is read before it is
/// full, unless an application exceeds its budget constantly.
const TURN: Duration = Duration::from_millis(50);

/// Longest row of a time series that shows late seconds.
const SECOND: Nanos = Nanos::from_secs(1);

/// Parameters of recording an application.
#[derive(Clone, Debug)]
pub struct InAppRequest {
    /// Process ID.
    pub pid: u32,
    /// Name of the channel to record; `None` for all.
    pub channel: Option<String>,
    /// The limits to judge by.
    pub limits: ChannelLimits,
    /// Length of the recording.
    pub length: RunLength,
    /// Explains samples above the budget of their channel, which traces the machine.
    pub explain: bool,
    /// The head of the recording.
    pub recording: RecordingRequest,
}

/// An application that publishes its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Process ID.
    pub pid: u32,
    /// Process name.
    pub comm: String,
    /// Name that the application chose for its figures.
    pub name: String,
    /// Channels of the application.
    pub channels: Vec<ChannelState>,
}

/// A channel of an application, with its counts since the application created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// Description of the channel.
    pub head: ChannelHead,
    /// Counters of the channel.
    pub counts: Counts,
}

/// Returns the applications that publish their figures, by process ID, and the reasons why the
/// figures of others are unusable. The last value is the number of processes whose open files may
/// not be read, so it is unknown whether they publish figures.
pub fn applications(host: &Host) -> (Vec<Application>, Vec<Refusal>, usize) {
    let (mut all, mut refused, mut closed) = (Vec::new(), Vec::new(), 0);
    let proc = host.root().join("proc");
    for pid in host.processes() {
        match find::of_process(&proc, pid) {
            Ok(found) => match state_of(&found) {
                Ok(application) => all.push(application),
                Err(why) => refused.push(Refusal::Unfit {
                    pid,
                    comm: found.comm,
                    why,
                }),
            },
            Err(Refusal::OtherUser { .. } | Refusal::NotDumpable { .. }) => closed += 1,
            // The figures were inherited through fork, or another punctual process has opened them.
            Err(Refusal::Unfit {
                why: Unfit::OtherProcess,
                ..
            }) => {}
            Err(refusal @ Refusal::Unfit { .. }) => refused.push(refusal),
            // The process publishes no figures, or has ended in the meantime.
            Err(_) => {}
        }
    }
    (all, refused, closed)
}

fn state_of(found: &Found) -> Result<Application, Unfit> {
    let heads = found.reader.channels()?;
    let channels = (0..).zip(heads).map(|(number, head)| {
        let counts = found.reader.counts(number)?;
        Ok(ChannelState { head, counts })
    });
    Ok(Application {
        pid: found.pid,
        comm: found.comm.clone(),
        name: found.reader.name().to_owned(),
        channels: channels.collect::<Result<_, Unfit>>()?,
    })
}

/// Records the jobs that an application measures, until the time is over, the application has
/// ended, or `stop` is set.
///
/// # Errors
/// Returns an error if the figures are missing or unreadable, or if the store rejects the recording
/// at its start. A later error of the store does not end the recording; see
/// [`Outcome::store_error`].
pub fn record_application(
    request: &InAppRequest,
    host: &Host,
    store: Option<&Store>,
    watcher: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Outcome, SessionError> {
    let proc = host.root().join("proc");
    let found = find::of_process(&proc, request.pid)?;
    let heads = found.reader.channels()?;
    if heads.is_empty() {
        return Err(SessionError::NoChannel {
            pid: found.pid,
            comm: found.comm,
        });
    }
    let heads = requirement::chosen(heads, request.channel.as_deref())?;
    let required = request.limits.build(&heads)?;
    let (numbers, heads): (Vec<usize>, Vec<ChannelHead>) = heads.into_iter().unzip();
    let mut recording = head(request, host, host.facts(), &found, (&heads, required));
    let tasks = host.tasks_of(request.pid);
    let created = found.reader.channels()?.len();
    let start = Start::now();
    recording.started = start.wall;
    let own: Vec<u32> = tasks.iter().map(|task| task.tid).collect();
    let marks = request.explain.then(|| {
        Annotations::begin(
            host,
            &recording.host,
            &heads,
            &recording.threads,
            &own,
            (&start, TURN),
        )
    });
    let annotations = marks.transpose()?;
    recording.explanation = annotations.as_ref().map(Annotations::head);
    let application = ApplicationMemory {
        marks: annotations,
        channels: ChannelTracks::begin(
            &found,
            numbers.into_iter().zip(heads).collect(),
            &start,
            recording.series.interval_ns,
            request.limits.misses,
        )?,
        created,
        found,
        host: host.clone(),
        tasks,
        start,
        duration: request.length.duration(),
        warnings: Vec::new(),
    };
    let mut context = Context::new(host, store, watcher, stop);
    let cpus = host.online().unwrap_or_default();
    let begun = Begun::new(recording, &mut context, cpus, &[request.pid])?;
    begun.run(application, &mut context)
}

/// Memory with the published figures of an application.
struct ApplicationMemory {
    found: Found,
    host: Host,
    channels: ChannelTracks,
    /// Number of channels that the application had created at the start.
    created: usize,
    /// Threads of the application at the start.
    tasks: Vec<TaskRecord>,
    start: Start,
    duration: Option<Nanos>,
    /// Explains outliers, if requested.
    marks: Option<Annotations>,
    warnings: Vec<String>,
}

impl ApplicationMemory {
    fn explain(&mut self, store: &mut StoreWriter<'_>) {
        let found = self.channels.over_budget();
        if let Some(marks) = &mut self.marks {
            let stored = marks.explain(&found, store.writer());
            store.note(stored);
        }
    }
}

impl Source for ApplicationMemory {
    fn start(&self) -> Start {
        self.start
    }

    fn duration(&self) -> Option<Nanos> {
        self.duration
    }

    fn warnings(&mut self) -> &mut Vec<String> {
        &mut self.warnings
    }

    fn wait(&mut self, _: &dyn Watcher) {
        sleep_until_poll(TURN, self.start, self.duration);
    }

    fn poll(
        &mut self,
        store: &mut StoreWriter<'_>,
        moment: Moment,
    ) -> Result<Option<Completion>, SessionError> {
        let elapsed = moment.elapsed;
        if let Err(why) = self.channels.read(&self.found, elapsed) {
            self.warnings
                .push(format!("reading ended after {elapsed}: {why}"));
            return Ok(Some(Completion::Stopped));
        }
        self.explain(store);
        let ended = moment.completion();
        if ended.is_none() && !find::is_open(&self.host.root().join("proc"), &self.found) {
            // Everything that the application counted before it ended is still in the memory.
            let _ = self.channels.read(&self.found, elapsed);
            self.explain(store);
            self.warnings.push(format!(
                "the application ended or closed its figures after {elapsed}"
            ));
            return Ok(Some(Completion::Finished));
        }
        Ok(ended)
    }

    fn batch(&self, elapsed: Nanos) -> Batch {
        Batch {
            elapsed,
            rows: self.channels.uncommitted_rows(),
            accounting: self.channels.accounting(),
            top_samples: self.channels.top_samples(&self.start),
            warnings: self.warnings.clone(),
            ..Batch::default()
        }
    }

    fn committed(&mut self) {
        self.channels.rows.committed();
    }

    fn report(&mut self, watcher: &mut dyn Watcher, elapsed: Nanos) {
        watcher.progress(&Snapshot {
            elapsed,
            duration: self.duration,
            workers: self.channels.views(),
            max_sample: self.channels.top_samples(&self.start).into_iter().next(),
        });
    }

    fn finish(mut self, recording: &mut Recording, _: &mut StoreWriter<'_>) -> Option<Broke> {
        self.warnings.extend(self.channels.warnings());
        if let Ok(channels) = self.found.reader.channels()
            && channels.len() > self.created
        {
            let more = grouped((channels.len() - self.created) as u64);
            self.warnings.push(format!(
                "channels that were created after the start of the run are not recorded: {more}"
            ));
        }
        let after = self.host.tasks_of(self.found.pid);
        recording.tables = vec![self.channels.table(&self.tasks, &after)];
        if let Some(channel) = self.channels.not_counted() {
            let parameters = &mut recording.probe.parameters;
            parameters.insert(ProbeRun::NOT_COUNTED.to_owned(), channel.into());
        }
        recording.top_samples = self.channels.top_samples(&self.start);
        recording.series.rows = self.channels.fill(&mut recording.threads);
        if let Some(marks) = self.marks.take() {
            let explanation = marks.finish(&mut recording.top_samples, &mut self.warnings);
            recording.explanation = Some(explanation);
        }
        recording.verdict = recording.judge();
        recording.warnings = self.warnings;
        None
    }
}

/// Returns the recording as known before the start.
fn head(
    request: &InAppRequest,
    host: &Host,
    facts: HostFacts,
    found: &Found,
    (heads, required): (&[ChannelHead], Requirement),
) -> Recording {
    let mut parameters = BTreeMap::new();
    let duration = request.length.duration();
    let name = match found.reader.name() {
        "" => &found.comm,
        name => name,
    };
    let watched = format!("{name} (pid {})", found.pid);
    parameters.insert(ProbeRun::WATCHED.to_owned(), watched.into());
    parameters.insert("comm".to_owned(), found.comm.clone().into());
    parameters.insert("duration_ns".to_owned(), duration.map(|d| d.0).into());
    let probe = ProbeRun {
        name: ProbeRun::IN_APP.to_owned(),
        chart: Chart::Latency,
        alike: false,
        parameters,
        program: concat!("punctual ", env!("CARGO_PKG_VERSION")).to_owned(),
        command_line: request.recording.command_line.clone(),
    };
    // A thread that does not belong to this process is not accepted as the recorder of a channel.
    let tasks = host.tasks_of(found.pid);
    let threads = heads.iter().map(|channel| {
        let task = tasks.iter().find(|task| task.tid == channel.tid);
        let cpu = task.and_then(|task| task.affinity.as_ref());
        let cpu = cpu
            .filter(|cpus| cpus.len() == 1)
            .and_then(|cpus| cpus.iter().next());
        let unknown = Scheduling {
            policy: Policy::Unknown,
            priority: 0,
        };
        ThreadRecord {
            label: Some(format!("{}, {}", channel.name, channel.kind.name())),
            ..ThreadRecord::new(cpu, task.map_or(unknown, |task| task.scheduling))
        }
    });
    let shows_late_seconds = request.limits.max_late_seconds_per_day.is_some();
    let mut recording = Recording::new(probe, facts, required, threads.collect());
    recording.label.clone_from(&request.recording.label);
    let usual = usual_series_interval(duration);
    recording.series.interval_ns = if shows_late_seconds {
        usual.min(SECOND)
    } else {
        usual
    };
    recording
}
