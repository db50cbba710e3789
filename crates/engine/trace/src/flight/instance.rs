//! Creates, configures and removes a private trace instance.

use std::io;
use std::iter::repeat_n;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::name::{FlightName, Owner};
use punctual_model::{EVENTS, EventLevel, EventSpec};

use crate::event::Format;
use crate::name::in_force;
use crate::ring::Layout;
use crate::{Decoder, TraceError, Tracefs};

pub(super) const ON: &str = "tracing_on";
pub(super) const CLOCK: &str = "trace_clock";

/// Maximum number of instances of one process.
const MOST_NUMBERS: u32 = 64;

/// Maximum length of a filter, in characters. The kernel's limit is one page.
const LONGEST_FILTER: usize = 3_500;

/// An event that is not recorded, and the information that is missing without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// Name of the event, as `system:event`.
    pub name: String,
    /// The information that the event would provide.
    pub provides: &'static str,
    /// Reason why it is not recorded.
    pub why: String,
    /// Whether a warning is needed, because no other event provides the information.
    pub matters: bool,
}

/// Reason why the records of an event cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotLearnt {
    #[error("{} is not a format file", .0.display())]
    NoFormat(PathBuf),
    #[error("its records have no field {0} with the known layout")]
    NoField(&'static str),
}

/// An event that is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Armed {
    /// Path of the event's folder, relative to `events`.
    folder: String,
    watched: Option<&'static str>,
    /// Whether this event is written by a trigger of another event.
    triggered: bool,
}

impl Armed {
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }
}

/// A trace instance with selected events. Dropping it or calling [`remove`](Self::remove) removes
/// the instance and disables its events.
#[derive(Debug)]
pub(crate) struct Instance {
    tracefs: Tracefs,
    pub(crate) folder: PathBuf,
    pub(crate) armed: Vec<Armed>,
    removed: bool,
    /// Lock that shows other processes that this process is alive.
    _held: Option<OwnedFd>,
}

impl Instance {
    /// Creates an instance without events.
    pub(crate) fn make(tracefs: &Tracefs, owner: Owner) -> Result<Self, TraceError> {
        let mut number = 0;
        loop {
            let name = FlightName { owner, number };
            let folder = tracefs.instances().join(name.to_string());
            match tracefs.files().make_folder(&folder) {
                Ok(()) => {
                    return Ok(Self {
                        _held: tracefs.hold(&folder),
                        tracefs: tracefs.clone(),
                        folder,
                        armed: Vec::new(),
                        removed: false,
                    });
                }
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_NUMBERS =>
                {
                    number += 1;
                }
                Err(source) => {
                    return Err(TraceError::Instance {
                        what: "make",
                        path: folder,
                        source,
                    });
                }
            }
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        self.tracefs.write(&self.file(name), value)
    }

    /// Adds an event, given the path of its folder relative to `events`. [`switch`](Self::switch)
    /// enables it together with the other events.
    pub(crate) fn arm(&mut self, folder: String) {
        self.armed.push(Armed {
            folder,
            watched: None,
            triggered: false,
        });
    }

    /// Selects the events of this level and registers them in the decoder. Returns the events that
    /// are not recorded.
    pub(crate) fn choose(
        &mut self,
        level: EventLevel,
        decoder: &mut Decoder,
    ) -> Result<Vec<NotRecorded>, TraceError> {
        let mut not = Vec::new();
        for spec in EVENTS {
            let refuse = |why: String| NotRecorded {
                name: spec.full_name.to_owned(),
                provides: spec.provides,
                why,
                matters: spec.warns && spec.level <= level,
            };
            // At the full level, the watched threads are those that measure, and their stacks are
            // not needed.
            let other = spec.triggered && level != spec.level;
            if spec.level > level || other {
                not.push(refuse("not requested".to_owned()));
                continue;
            }
            let folders = self.folders(spec)?;
            if folders.is_empty() {
                not.push(refuse("not in this kernel".to_owned()));
            }
            let watched = match level {
                EventLevel::Jobs => spec.watched_for_jobs.or(spec.watched),
                _ => spec.watched,
            };
            for folder in folders {
                match self.learn(spec, &folder, decoder)? {
                    Ok(()) => self.armed.push(Armed {
                        folder,
                        watched,
                        triggered: spec.triggered,
                    }),
                    Err(why) => not.push(refuse(why.to_string())),
                }
            }
        }
        Ok(not)
    }

    /// Returns the folders of an event from the model's table.
    fn folders(&self, spec: &EventSpec) -> Result<Vec<String>, TraceError> {
        let system = self.tracefs.file("events").join(spec.system);
        let names = match self.tracefs.files().names(&system) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(TraceError::Read {
                    path: system,
                    source,
                });
            }
        };
        let fits = |name: &String| match spec.name.strip_prefix('*') {
            Some(ending) => name.ends_with(ending),
            None => name == spec.name,
        };
        let path = |name: String| format!("{}/{name}", spec.system);
        Ok(names.into_iter().filter(fits).map(path).collect())
    }

    fn learn(
        &self,
        spec: &EventSpec,
        folder: &str,
        decoder: &mut Decoder,
    ) -> Result<Result<(), NotLearnt>, TraceError> {
        let path = self.tracefs.file("events").join(folder).join("format");
        let text = self.tracefs.text(&path)?;
        let Some(format) = Format::parse(&text) else {
            return Ok(Err(NotLearnt::NoFormat(path)));
        };
        let learnt = decoder.learn(spec, &format);
        Ok(learnt.map_err(NotLearnt::NoField))
    }

    /// Enables or disables the events that are recorded for all threads.
    pub(crate) fn switch(&self, on: bool) -> Result<Vec<String>, TraceError> {
        let mut refused = Vec::new();
        let of_all = |armed: &&Armed| armed.watched.is_none() && !armed.triggered;
        let all = self.armed.iter().filter(of_all);
        for armed in all {
            let file = self.file("events").join(&armed.folder).join("enable");
            if let Err(error) = self.tracefs.write(&file, if on { "1" } else { "0" }) {
                // Lockdown blocks all events, whereas other reasons affect only individual events.
                if !on || armed.folder == "sched/sched_switch" {
                    return Err(error);
                }
                refused.push(format!("{}: {error}", armed.folder));
            }
        }
        Ok(refused)
    }

    /// For these threads, enables the events that are recorded only for watched threads.
    pub(crate) fn watch(&self, tids: &[u32]) -> Result<(), TraceError> {
        if self.armed.iter().any(|armed| armed.triggered) {
            self.stacks_of(tids)?;
        }
        for armed in &self.armed {
            let Some(field) = armed.watched else {
                continue;
            };
            let folder = self.file("events").join(&armed.folder);
            if tids.is_empty() {
                self.tracefs.write(&folder.join("enable"), "0")?;
                continue;
            }
            self.tracefs
                .write(&folder.join("filter"), &filter(field, tids))?;
            self.tracefs.write(&folder.join("enable"), "1")?;
        }
        Ok(())
    }

    /// Starts recording the kernel stack whenever one of these threads blocks, and stops recording
    /// it for other threads. If there are too many threads for an exact filter, no stack is
    /// recorded.
    fn stacks_of(&self, tids: &[u32]) -> Result<(), TraceError> {
        let file = self.file("events/sched/sched_switch/trigger");
        // This write fails if there is no old trigger.
        let _ = self.tracefs.write(&file, "!stacktrace");
        let blocks = format!(
            "prev_state > 0 && prev_state < 256 && ({})",
            filter("prev_pid", tids)
        );
        if tids.is_empty() || blocks.contains(">= ") {
            Ok(())
        } else {
            self.tracefs
                .write(&file, &format!("stacktrace if {blocks}"))
        }
    }

    /// Returns the page layout of this instance.
    pub(crate) fn layout(&self) -> Result<Layout, TraceError> {
        instance_layout(&self.tracefs, &self.folder)
    }

    /// Returns a warning if another program has stopped or reset the instance. `clock` is the clock
    /// that was set for the instance, if any.
    pub(crate) fn reset_by_others(&self, clock: Option<&str>) -> Option<String> {
        let read = |name: &str| self.tracefs.text(&self.file(name)).ok();
        let on = read(ON).filter(|on| on.trim() != "1");
        let on = on.map(|on| format!("{ON} is {}", on.trim()));
        let now = clock.and_then(|_| in_force(&read(CLOCK)?));
        let now = now.filter(|now| Some(now.as_str()) != clock);
        let changed: Vec<String> = on
            .into_iter()
            .chain(now.map(|now| format!("{CLOCK} is {now}")))
            .collect();
        let name = self.folder.file_name().unwrap_or_default().display();
        (!changed.is_empty()).then(|| {
            format!(
                "another program reset the trace instance {name} while it recorded ({}); \
                 trace-cmd stop -a and reset -a do this. The events after the reset are missing",
                changed.join(", ")
            )
        })
    }

    /// Removes the instance; after success, further calls do nothing. Its files must be closed. If
    /// another program is reading them, as trace-cmd reset -a does, this function waits for that
    /// program.
    pub(crate) fn remove(&mut self) -> Result<(), TraceError> {
        self.remove_after(long_pauses())
    }

    fn remove_after(&mut self, pauses: impl Iterator<Item = Duration>) -> Result<(), TraceError> {
        if !self.removed {
            remove_after(&self.tracefs, &self.folder, pauses)?;
            self.removed = true;
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Callers that need the result call `remove`. If the removal fails here, the next command
        // tries again.
        let _ = self.remove_after(pauses());
    }
}

/// Returns the page layout of an instance.
pub(crate) fn instance_layout(tracefs: &Tracefs, folder: &Path) -> Result<Layout, TraceError> {
    let layout = Layout::parse(&tracefs.text(&tracefs.file("events/header_page"))?)?;
    let kib = tracefs.text_if_there(&folder.join("buffer_subbuf_size_kb"))?;
    let bytes = kib.and_then(|text| text.parse::<usize>().ok()?.checked_mul(1_024));
    Ok(match bytes {
        Some(bytes) => layout.with_page_bytes(bytes),
        None => layout,
    })
}

/// Pauses between attempts to remove an instance, a tenth of a second in total ([`long_pauses`]
/// adds ten seconds, for use at the end of a run). The kernel does not remove an instance that has
/// open files (EBUSY). Another program may have opened them. Or another thread of this process may
/// be starting a program, which keeps the inherited files open until it calls exec.
fn pauses() -> impl Iterator<Item = Duration> {
    repeat_n(Duration::from_millis(5), 20)
}

fn long_pauses() -> impl Iterator<Item = Duration> {
    pauses().chain(repeat_n(Duration::from_millis(50), 200))
}

fn unless_busy(
    pauses: impl Iterator<Item = Duration>,
    mut act: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    for pause in pauses {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(pause),
            other => return other,
        }
    }
    act()
}

/// Removes an instance. The kernel then disables its events.
pub(crate) fn remove(tracefs: &Tracefs, folder: &Path) -> Result<(), TraceError> {
    remove_after(tracefs, folder, pauses())
}

fn remove_after(
    tracefs: &Tracefs,
    folder: &Path,
    pauses: impl Iterator<Item = Duration>,
) -> Result<(), TraceError> {
    match unless_busy(pauses, || tracefs.files().remove_folder(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| TraceError::Instance {
            what: "remove",
            path: folder.to_owned(),
            source,
        }),
    }
}

/// Formats a filter such as `pid == 1 || pid == 2`. If that would be too long, the filter selects
/// the range of these thread IDs instead.
fn filter(field: &str, tids: &[u32]) -> String {
    let each: Vec<String> = tids.iter().map(|tid| format!("{field} == {tid}")).collect();
    let each = each.join(" || ");
    match (tids.iter().min(), tids.iter().max()) {
        (Some(first), Some(last)) if each.len() > LONGEST_FILTER => {
            format!("{field} >= {first} && {field} <= {last}")
        }
        _ => each,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_instance_is_retried_briefly() {
        let pauses = || std::iter::repeat_n(Duration::ZERO, 19);
        let busy = |times: u32| {
            let mut tried = 0;
            let result = unless_busy(pauses(), || {
                tried += 1;
                if tried > times {
                    Ok(())
                } else {
                    Err(io::ErrorKind::ResourceBusy.into())
                }
            });
            (result.map_err(|error| error.kind()), tried)
        };
        assert_eq!(busy(0), (Ok(()), 1));
        assert_eq!(busy(3), (Ok(()), 4));
        let given_up = (Err(io::ErrorKind::ResourceBusy), 20);
        assert_eq!(busy(u32::MAX), given_up);
        let refused = unless_busy(pauses(), || Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn format_error_is_named() {
        let format = NotLearnt::NoFormat("/events/irq/format".into());
        assert_eq!(
            format.to_string(),
            "/events/irq/format is not a format file"
        );
        assert_eq!(
            NotLearnt::NoField("prev_pid").to_string(),
            "its records have no field prev_pid with the known layout"
        );
    }

    #[test]
    fn filter_names_threads_or_their_range() {
        assert_eq!(filter("pid", &[7]), "pid == 7");
        assert_eq!(
            filter("common_pid", &[7, 9]),
            "common_pid == 7 || common_pid == 9"
        );
        let many: Vec<u32> = (1_000..2_000).collect();
        assert_eq!(filter("pid", &many), "pid >= 1000 && pid <= 1999");
    }
}
