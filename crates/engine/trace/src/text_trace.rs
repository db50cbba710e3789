//! The trace of a run of timerlat or osnoise as the kernel's text, in a separate instance. People
//! attach this text to reports, so it contains the events that they request.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::flight::{Instance, is_name};
use crate::tracer::{CURRENT, ON};
use crate::{Owner, TraceError, Tracefs};

/// Events to record: one event, or all events of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEvents {
    system: String,
    event: Option<String>,
    /// A filter of the kernel (Documentation/trace/events.rst).
    pub filter: Option<String>,
    /// A trigger of the kernel, such as `hist:key=irq`.
    pub trigger: Option<String>,
}

/// The error if a text names no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no events: use SYSTEM:EVENT, such as sched:sched_switch, or SYSTEM")]
pub struct NoEvents(String);

/// The error if a filter or a trigger has no single event to belong to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a filter or trigger applies to one event, not to all events of {0}: use {0}:EVENT")]
pub struct NotOneEvent(String);

impl FromStr for TextEvents {
    type Err = NoEvents;

    fn from_str(text: &str) -> Result<Self, NoEvents> {
        let (system, event) = match text.split_once(':') {
            Some((system, event)) => (system, Some(event)),
            None => (text, None),
        };
        // Both parts are used as folder names.
        if is_name(system) && event.is_none_or(is_name) {
            Ok(Self {
                system: system.to_owned(),
                event: event.map(str::to_owned),
                filter: None,
                trigger: None,
            })
        } else {
            Err(NoEvents(text.to_owned()))
        }
    }
}

impl TextEvents {
    /// Checks that a filter or a trigger has a single event to belong to.
    ///
    /// # Errors
    /// Returns an error if it has all events of a system.
    pub fn check(&self) -> Result<(), NotOneEvent> {
        let limits = self.filter.is_some() || self.trigger.is_some();
        if limits && self.event.is_none() {
            return Err(NotOneEvent(self.system.clone()));
        }
        Ok(())
    }

    /// Returns the name of the file with the histogram of these events, if their trigger counts
    /// one. It is the name that rtla uses.
    pub fn histogram_file(&self) -> Option<String> {
        let event = self.event.as_ref()?;
        let counts = self.trigger.as_ref()?.starts_with("hist:");
        counts.then(|| format!("{}_{event}_hist.txt", self.system))
    }

    fn folder(&self) -> PathBuf {
        let folder = Path::new("events").join(&self.system);
        match &self.event {
            Some(event) => folder.join(event),
            None => folder,
        }
    }
}

/// Formats the name as `SYSTEM:EVENT`, or `SYSTEM`.
impl fmt::Display for TextEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.system)?;
        match &self.event {
            Some(event) => write!(f, ":{event}"),
            None => Ok(()),
        }
    }
}

/// The content of a text trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextAsk {
    /// Events in addition to those of the tracer.
    pub events: Vec<TextEvents>,
    /// Size of the buffer of each CPU in KiB; `None` for the kernel's default.
    pub buffer_kib: Option<u64>,
}

/// A text trace that is recorded. Dropping it removes its instance.
#[derive(Debug)]
pub struct TextTrace {
    tracefs: Tracefs,
    instance: Instance,
    events: Vec<TextEvents>,
}

impl Tracefs {
    /// Starts a text trace of this tracer, which must already run in another instance.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects an event, a filter, a trigger or the size of the
    /// buffer. In that case, nothing is left behind.
    pub fn start_text(
        &self,
        tracer: &str,
        ask: &TextAsk,
        owner: Owner,
    ) -> Result<TextTrace, TraceError> {
        let trace = TextTrace {
            tracefs: self.clone(),
            instance: Instance::make(self, owner)?,
            events: ask.events.clone(),
        };
        let instance = &trace.instance;
        instance.write(ON, "0")?;
        if let Some(kib) = ask.buffer_kib {
            instance.write("buffer_size_kb", &kib.to_string())?;
        }
        for events in &trace.events {
            let folder = instance.file("").join(events.folder());
            let file = |name: &str| folder.join(name);
            if let Some(filter) = &events.filter {
                self.write(&file("filter"), filter)?;
            }
            if let Some(trigger) = &events.trigger {
                self.write(&file("trigger"), trigger)?;
            }
            self.write(&file("enable"), "1")?;
        }
        let busy = TraceError::NoiseBusy {
            path: self.path().to_owned(),
        };
        self.take_tracer(&instance.folder, tracer, busy)?;
        instance.write(ON, "1")?;
        Ok(trace)
    }
}

impl TextTrace {
    /// Writes this line into the trace, and then stops the trace. If it is already stopped, nothing
    /// is written.
    ///
    /// # Errors
    /// Returns the errors of write(2).
    pub fn stop(&self, mark: &str) -> Result<(), TraceError> {
        // The kernel refuses a mark in a trace that is off.
        let _ = self.instance.write("trace_marker", mark);
        self.instance.write(ON, "0")
    }

    /// Lets a stopped trace continue.
    ///
    /// # Errors
    /// Returns the errors of write(2).
    pub fn resume(&self) -> Result<(), TraceError> {
        self.instance.write(ON, "1")
    }

    /// Opens the text. It is complete only if the trace is stopped.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    pub fn text(&self) -> Result<Box<dyn Read + Send>, TraceError> {
        self.open(self.instance.file("trace"))
    }

    /// Opens the histograms that triggers have counted, with the name of each event.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    pub fn histogram(&self, events: &TextEvents) -> Result<Box<dyn Read + Send>, TraceError> {
        let folder = self.instance.file("").join(events.folder());
        self.open(folder.join("hist"))
    }

    fn open(&self, path: PathBuf) -> Result<Box<dyn Read + Send>, TraceError> {
        let stream = self.tracefs.files().stream(&path);
        stream.map_err(|source| TraceError::Open { path, source })
    }

    /// Removes the instance. The session of the tracer must end after that, because it restores
    /// settings that a running tracer uses. After success, further calls do nothing.
    ///
    /// # Errors
    /// Returns an error if the kernel does not remove the instance.
    pub fn remove(&mut self) -> Result<(), TraceError> {
        let _ = self.instance.write(ON, "0");
        for events in self.events.drain(..) {
            if let Some(trigger) = &events.trigger {
                let folder = self.instance.file("").join(events.folder());
                // The kernel removes what is left together with the instance.
                let _ = self
                    .tracefs
                    .write(&folder.join("trigger"), &format!("!{trigger}"));
            }
        }
        let _ = self.instance.write(CURRENT, "nop");
        self.instance.remove()
    }
}

impl Drop for TextTrace {
    fn drop(&mut self) {
        // Callers that need the result call `remove`.
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeTracefs;
    use std::sync::Arc;

    const OWNER: Owner = Owner {
        pid: 4_711,
        start: 99,
    };

    fn events(text: &str) -> TextEvents {
        text.parse().unwrap()
    }

    #[test]
    fn names_of_events_are_read() {
        assert_eq!(events("sched").to_string(), "sched");
        assert_eq!(
            events("irq:irq_handler_entry").to_string(),
            "irq:irq_handler_entry"
        );
        for odd in ["", ":", "sched:", ":x", "../x", "a:../../x", "a b", "a:b:c"] {
            let error = odd.parse::<TextEvents>().unwrap_err().to_string();
            assert!(error.contains("SYSTEM:EVENT"), "{odd}: {error}");
        }
        let mut all = events("sched");
        all.check().unwrap();
        all.filter = Some("pid == 1".to_owned());
        let error = all.check().unwrap_err().to_string();
        assert!(error.contains("sched:EVENT"), "{error}");
        let mut one = events("osnoise:irq_noise");
        assert_eq!(one.histogram_file(), None);
        one.trigger = Some("stacktrace".to_owned());
        assert_eq!(one.histogram_file(), None);
        one.trigger = Some("hist:key=desc".to_owned());
        one.check().unwrap();
        let file = one.histogram_file();
        assert_eq!(file.as_deref(), Some("osnoise_irq_noise_hist.txt"));
    }

    #[test]
    fn text_trace_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(root.path(), "timerlat osnoise nop").unwrap());
        fake.with_events(&[]).unwrap();
        let files = Arc::clone(&fake) as Arc<dyn crate::Files>;
        let tracefs = Tracefs::find_with(root.path(), files).unwrap();
        let before = fake.in_force().unwrap();
        let mut filtered = events("sched:sched_switch");
        filtered.filter = Some("prev_pid == 12".to_owned());
        let ask = TextAsk {
            events: vec![filtered.clone()],
            buffer_kib: Some(2_048),
        };
        let mut trace = tracefs.start_text("timerlat", &ask, OWNER).unwrap();
        let name = &fake.instances().unwrap()[0];
        let read = |file: &str| {
            let path = tracefs.instances().join(name).join(file);
            std::fs::read_to_string(path).unwrap().trim().to_owned()
        };
        assert_eq!(read("current_tracer"), "timerlat");
        assert_eq!(
            (read("tracing_on"), read("buffer_size_kb")),
            ("1".into(), "2048".into())
        );
        let on = fake.switched_on().unwrap();
        assert_eq!(on, ["sched:sched_switch prev_pid == 12"]);
        trace.stop("stop tracing hit on cpu 1").unwrap();
        assert_eq!(read("tracing_on"), "0");
        assert_eq!(read("trace_marker"), "stop tracing hit on cpu 1");
        trace.resume().unwrap();
        assert_eq!(read("tracing_on"), "1");
        std::fs::write(tracefs.instances().join(name).join("trace"), "# tracer").unwrap();
        let mut text = String::new();
        trace.text().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "# tracer");
        trace.remove().unwrap();
        trace.remove().unwrap();
        assert_eq!(fake.in_force().unwrap(), before);
        drop(trace);
        // An event that the kernel refuses.
        filtered.filter = Some("nonsense == 12".to_owned());
        for one in [filtered, events("sched:nothing")] {
            let ask = TextAsk {
                events: vec![one],
                buffer_kib: None,
            };
            tracefs.start_text("timerlat", &ask, OWNER).unwrap_err();
            assert_eq!(fake.in_force().unwrap(), before);
        }
    }
}
