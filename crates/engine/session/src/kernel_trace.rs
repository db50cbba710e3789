//! Further tasks of the kernel's tracers timerlat and osnoise: a stop by the kernel, a trace as
//! text, and a control group for the tracer's threads.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_files::{FileError, Output};
use punctual_host::Host;
use punctual_model::{ProcessId, TaskKind, TaskRecord};
use punctual_trace::{NoiseStop, TextAsk, TextTrace, TraceError, TraceSwitch, Tracefs};

use crate::TargetError;
use crate::control_group::{JoinError, enter, places};

/// Tasks of the kernel's tracer in addition to its samples.
#[derive(Clone, Debug, Default)]
pub struct KernelTraceRequest {
    /// When the kernel itself stops the trace of osnoise.
    pub stop: NoiseStop,
    /// The trace as text; `None` for no text.
    pub text: Option<TextAsk>,
    /// Files that get the text when the tracer ends.
    pub text_at_end: Vec<PathBuf>,
    /// Control group for the tracer's kernel threads; `None` to leave them where they are.
    pub group: Option<TracerGroup>,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracerGroup {
    /// The group of this process.
    Own,
    /// The group with this name or folder.
    Named(String),
}

/// A trace of timerlat or osnoise during a run. The caller shares it with the session, which starts
/// it after the tracer and ends it before the tracer.
#[derive(Debug)]
pub struct KernelTrace {
    request: KernelTraceRequest,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    switch: Option<TraceSwitch>,
    text: Option<TextTrace>,
    /// The files that were written when the tracer ended, each with its error.
    at_end: Vec<(PathBuf, Option<KernelTraceError>)>,
    histograms: Vec<SavedHistogram>,
}

/// A histogram of a trigger that was written when the tracer ended.
#[derive(Debug)]
pub struct SavedHistogram {
    /// The event, as `system:event`.
    pub event: String,
    /// The file, in the current folder.
    pub path: PathBuf,
    /// The error if it was not written.
    pub error: Option<KernelTraceError>,
}

/// Reason why a part of such a request failed.
#[derive(Debug, thiserror::Error)]
pub enum KernelTraceError {
    /// The kernel refused a step.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file could not be written, or the trace could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The control group cannot be used.
    #[error(transparent)]
    Group(#[from] TargetError),
    /// The kernel refuses to move a thread into the control group.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// There is no thread to move into the control group.
    #[error("the tracer {0} has no threads of the kernel that could join the control group")]
    NoThreads(String),
    /// The trace has not begun, or has ended.
    #[error("the kernel's tracer is not running")]
    NotRunning,
}

impl KernelTrace {
    /// Creates a trace that has not been started.
    pub fn new(request: KernelTraceRequest) -> Self {
        Self {
            request,
            state: Mutex::default(),
        }
    }

    /// Returns whether the kernel has stopped the trace ([`KernelTraceRequest::stop`]).
    pub fn has_stopped(&self) -> bool {
        let switch = self.state().switch.clone();
        // The session may just have ended.
        switch.is_some_and(|switch| matches!(switch.is_on(), Ok(false)))
    }

    /// Writes a line into the text, and stops it.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to stop it.
    pub fn pause(&self, mark: &str) -> Result<(), KernelTraceError> {
        match &self.state().text {
            Some(text) => Ok(text.stop(mark)?),
            None => Ok(()),
        }
    }

    /// Lets a stopped trace continue.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses it.
    pub fn resume(&self) -> Result<(), KernelTraceError> {
        let state = self.state();
        if let Some(text) = &state.text {
            text.resume()?;
        }
        if let Some(switch) = &state.switch {
            switch.turn_on()?;
        }
        Ok(())
    }

    /// Writes the text to a file. After the run, this only returns the result of a file in
    /// [`KernelTraceRequest::text_at_end`].
    ///
    /// # Errors
    /// Returns an error if the text cannot be read or written, or if there is none.
    pub fn save(&self, path: &Path) -> Result<(), KernelTraceError> {
        let mut state = self.state();
        if let Some(text) = &state.text {
            return copy(text.text()?, path);
        }
        let written = state.at_end.iter_mut().find(|(of, _)| of == path);
        match written {
            Some((_, error)) => error.take().map_or(Ok(()), Err),
            None => Err(KernelTraceError::NotRunning),
        }
    }

    /// Returns the histograms of triggers that were written at the end of the run.
    pub fn take_histograms(&self) -> Vec<SavedHistogram> {
        std::mem::take(&mut self.state().histograms)
    }

    pub(crate) fn stop(&self) -> NoiseStop {
        self.request.stop
    }

    /// Starts what was requested, after the tracer. `switch`: that of the tracer's own instance.
    /// `own_threads`: whether the tracer has threads of the kernel.
    pub(crate) fn start(
        &self,
        (host, tracefs): (&Host, &Tracefs),
        tracer: &str,
        owner: ProcessId,
        switch: TraceSwitch,
        own_threads: bool,
    ) -> Result<(), KernelTraceError> {
        if let Some(group) = self.request.group.as_ref().filter(|_| own_threads) {
            join(host, tracer, group)?;
        }
        let text = self.request.text.as_ref();
        let text = text.map(|ask| tracefs.start_text(tracer, ask, owner));
        *self.state() = State {
            text: text.transpose()?,
            switch: Some(switch),
            ..State::default()
        };
        Ok(())
    }

    /// Ends the trace, and writes the files of the end. Further calls do nothing.
    pub(crate) fn end(&self) -> Result<(), TraceError> {
        let mut state = self.state();
        state.switch = None;
        let Some(mut text) = state.text.take() else {
            return Ok(());
        };
        let stopped = text.stop("end of the run");
        for path in &self.request.text_at_end {
            let saved = text.text().map_err(KernelTraceError::from);
            let error = saved.and_then(|from| copy(from, path)).err();
            state.at_end.push((path.clone(), error));
        }
        let events = self.request.text.iter().flat_map(|ask| &ask.events);
        for events in events {
            let Some(path) = events.histogram_file().map(PathBuf::from) else {
                continue;
            };
            let saved = text.histogram(events).map_err(KernelTraceError::from);
            state.histograms.push(SavedHistogram {
                event: events.to_string(),
                error: saved.and_then(|from| copy(from, &path)).err(),
                path,
            });
        }
        stopped.and(text.remove())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic does no harm, because the trace is in tracefs.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies a stopped trace, which is as long as the kernel's buffers allow.
fn copy(mut from: Box<dyn Read + Send>, path: &Path) -> Result<(), KernelTraceError> {
    let mut output = Output::file(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => output
                .write_all(&buffer[..count])
                .map_err(|source| FileError::Write {
                    path: path.to_owned(),
                    source,
                })?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                let path = PathBuf::from("the kernel's trace");
                return Err(FileError::Read { path, source }.into());
            }
        }
    }
    Ok(output.finish()?)
}

/// Moves the kernel threads of a tracer into a control group, in each hierarchy that limits CPUs or
/// CPU time. They end with the tracer, so nothing has to be undone.
fn join(host: &Host, tracer: &str, group: &TracerGroup) -> Result<(), KernelTraceError> {
    let files: Vec<PathBuf> = match group {
        TracerGroup::Named(name) => {
            let (_, places) = places(host, name)?;
            places.into_iter().map(|place| place.group).collect()
        }
        // Each hierarchy has the root group. Without hierarchies, nothing limits either process.
        TracerGroup::Own => {
            let places = host.control_group("/").map(|root| host.group_places(&root));
            let places = places.unwrap_or_default().into_iter();
            places.map(|place| place.home).collect()
        }
    };
    let prefix = format!("{tracer}/");
    let is_own =
        |task: &TaskRecord| task.kind == TaskKind::Kernel && task.comm.starts_with(&prefix);
    let threads: Vec<TaskRecord> = host.tasks().into_iter().filter(is_own).collect();
    if threads.is_empty() {
        return Err(KernelTraceError::NoThreads(tracer.to_owned()));
    }
    for thread in &threads {
        for file in &files {
            enter(file, thread.tid)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_trace::Files;
    use punctual_trace::testing::FakeTracefs;

    use super::*;

    const OWNER: ProcessId = ProcessId {
        pid: 4_711,
        start: 99,
    };

    fn asked() -> KernelTraceRequest {
        let mut counted: punctual_trace::TextEvents = "sched:sched_switch".parse().unwrap();
        counted.trigger = Some("hist:key=prev_pid".to_owned());
        KernelTraceRequest {
            text: Some(TextAsk {
                events: vec![counted],
                buffer_kib: None,
            }),
            ..KernelTraceRequest::default()
        }
    }

    #[test]
    fn text_is_saved_during_the_run_and_at_its_end() {
        let root = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(root.path(), "osnoise nop").unwrap());
        fake.with_events(&[]).unwrap();
        let tracefs = Tracefs::find_with(root.path(), Arc::clone(&fake) as Arc<dyn Files>).unwrap();
        let before = fake.in_force().unwrap();
        let path = |name: &str| root.path().join(name);
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        let trace = KernelTrace::new(KernelTraceRequest {
            text_at_end: vec![path("end.txt"), path("none/end.txt")],
            ..asked()
        });
        let early = trace.save(&path("early.txt")).unwrap_err();
        assert!(matches!(early, KernelTraceError::NotRunning));
        let ask = punctual_trace::NoiseAsk::Osnoise {
            cpus: "0".parse().unwrap(),
            period: punctual_model::Nanos::from_millis(100),
            runtime: punctual_model::Nanos::from_millis(50),
            threshold: punctual_model::Nanos::from_micros(1),
            told_above: punctual_model::Nanos::from_micros(2),
            interrupts: true,
            stop: trace.stop(),
        };
        let session = tracefs.start_osnoise(&ask, OWNER).unwrap();
        let host = Host::new(root.path());
        let on = (&host, &tracefs);
        trace
            .start(on, "osnoise", OWNER, session.switch(), true)
            .unwrap();
        assert!(!trace.has_stopped());
        let instances = tracefs.path().join("instances");
        let flight = |name: &String| name.starts_with("punctual-flight-");
        let text = fake.instances().unwrap().into_iter().find(flight).unwrap();
        std::fs::write(instances.join(&text).join("trace"), "# tracer: osnoise").unwrap();
        trace.pause("stop").unwrap();
        let on = |name: &str| {
            let text = std::fs::read_to_string(instances.join(name).join("tracing_on")).unwrap();
            text.trim().to_owned()
        };
        assert_eq!(on(&text), "0");
        trace.save(&path("now.txt")).unwrap();
        assert_eq!(read("now.txt"), "# tracer: osnoise");
        // The kernel stops the session's own instance.
        let main = fake
            .instances()
            .unwrap()
            .into_iter()
            .find(|name| !flight(name));
        std::fs::write(
            instances.join(main.as_ref().unwrap()).join("tracing_on"),
            "0",
        )
        .unwrap();
        assert!(trace.has_stopped());
        trace.resume().unwrap();
        assert!(!trace.has_stopped());
        assert_eq!(on(&text), "1");
        trace.end().unwrap();
        trace.end().unwrap();
        drop(session);
        assert_eq!(fake.in_force().unwrap(), before);
        assert!(!trace.has_stopped());
        trace.save(&path("end.txt")).unwrap();
        assert_eq!(read("end.txt"), "# tracer: osnoise");
        let error = trace.save(&path("none/end.txt")).unwrap_err().to_string();
        assert!(error.contains("none/end.txt"), "{error}");
        let saved = trace.take_histograms();
        assert_eq!(saved[0].event, "sched:sched_switch");
        assert_eq!(saved[0].path, Path::new("sched_sched_switch_hist.txt"));
        // The simulated kernel has no histogram.
        assert!(saved[0].error.is_some());
    }

    #[test]
    fn group_that_does_not_exist_is_named() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(root.path());
        let refused = |group| join(&host, "osnoise", &group).unwrap_err().to_string();
        let error = refused(TracerGroup::Named("/none".to_owned()));
        assert!(error.contains("there is no control group /none"), "{error}");
        let error = refused(TracerGroup::Own);
        assert!(error.contains("osnoise has no threads"), "{error}");
    }
}
