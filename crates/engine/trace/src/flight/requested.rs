//! Records events that the user requested, in a separate instance, so that their filters affect no
//! other events.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use super::instance::Instance;
use super::name::Owner;
use super::recorder::Flight;
use crate::event::Format;
use crate::{Decoder, TraceError, Tracefs};

/// Size of the ring buffer of each CPU in bytes.
const BYTES_PER_CPU: usize = 512 << 10;

/// Maximum number of names to suggest for an unknown event.
const NEAR: usize = 4;

/// Minimum similarity of a suggested name (Jaro-Winkler, 0 to 1).
const ALIKE: f64 = 0.75;

/// A requested event, such as `irq:irq_handler_entry`, or with a kernel filter
/// (Documentation/trace/events.rst), such as `sched:sched_switch/prev_pid == 12/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventChoice {
    system: String,
    event: String,
    filter: Option<String>,
}

impl EventChoice {
    /// Formats the name of the event as `system:event`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.system, self.event)
    }

    fn folder(&self) -> String {
        format!("{}/{}", self.system, self.event)
    }
}

impl fmt::Display for EventChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.event)?;
        match &self.filter {
            Some(filter) => write!(f, "/{filter}/"),
            None => Ok(()),
        }
    }
}

/// The error if a text does not name an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not an event: use SYSTEM:EVENT or SYSTEM:EVENT/FILTER/, such as \
     irq:irq_handler_entry/irq == 24/"
)]
pub struct NotAChoice {
    /// The text.
    pub text: String,
}

/// Returns whether this can be the name of an event or of a system, and so of a folder.
pub(crate) fn is_name(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
}

impl FromStr for EventChoice {
    type Err = NotAChoice;

    fn from_str(text: &str) -> Result<Self, NotAChoice> {
        let wrong = || NotAChoice {
            text: text.to_owned(),
        };
        let (name, filter) = match text.split_once('/') {
            Some((name, rest)) => {
                let filter = rest.strip_suffix('/').map(str::trim).ok_or_else(wrong)?;
                let filter = (!filter.is_empty()).then_some(filter);
                (name, Some(filter.ok_or_else(wrong)?.to_owned()))
            }
            None => (text, None),
        };
        let (system, event) = name.split_once(':').ok_or_else(wrong)?;
        // Both parts are used as folder names.
        if is_name(system) && is_name(event) {
            Ok(Self {
                system: system.to_owned(),
                event: event.to_owned(),
                filter,
            })
        } else {
            Err(wrong())
        }
    }
}

impl Tracefs {
    /// Arms a recorder for only these events, in a separate instance. The events stay disabled
    /// until [`Flight::switch`] enables them.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have an event (the error lists similar names) or
    /// rejects a filter (the error contains the kernel's reason). In that case, nothing is left
    /// behind.
    pub fn arm_requested(
        &self,
        choices: &[EventChoice],
        owner: Owner,
    ) -> Result<Flight, TraceError> {
        self.arm_with(BYTES_PER_CPU, owner, None, |instance, decoder| {
            for choice in choices {
                self.choose(choice, instance, decoder)?;
            }
            Ok(Vec::new())
        })
    }

    fn choose(
        &self,
        choice: &EventChoice,
        instance: &mut Instance,
        decoder: &mut Decoder,
    ) -> Result<(), TraceError> {
        let path = self.file("events").join(choice.folder()).join("format");
        let Some(text) = self.text_if_there(&path)? else {
            return Err(TraceError::NoEvent {
                name: choice.name(),
                near: self.near(choice),
            });
        };
        let format = Format::parse(&text);
        let learnt = format.ok_or("name").and_then(|format| {
            let name = choice.name();
            decoder.learn_requested(&name, &format)
        });
        learnt.map_err(|field| TraceError::NoField { path, field })?;
        let folder = instance.file("events").join(choice.folder());
        if self.text_if_there(&folder.join("enable"))?.is_none() {
            return Err(TraceError::NotAnEvent(choice.name()));
        }
        if let Some(filter) = &choice.filter {
            self.filter(&folder.join("filter"), choice, filter)?;
        }
        instance.arm(choice.folder());
        Ok(())
    }

    /// Sets a filter. If the kernel rejects it, the reason can be read from the filter file.
    fn filter(&self, file: &Path, choice: &EventChoice, filter: &str) -> Result<(), TraceError> {
        match self.write(file, filter) {
            Err(TraceError::Write { source, .. })
                if source.kind() == io::ErrorKind::InvalidInput =>
            {
                let text = self.text(file).unwrap_or_default();
                Err(TraceError::Filter {
                    name: choice.name(),
                    filter: filter.to_owned(),
                    why: refusal(&text).unwrap_or_else(|| source.to_string()),
                })
            }
            other => other,
        }
    }

    /// Returns the names of events that are most similar to an unknown event.
    fn near(&self, choice: &EventChoice) -> Vec<String> {
        let events = self.file("events");
        let systems = self.files().names(&events).unwrap_or_default();
        let mut all = Vec::new();
        for system in systems {
            let names = self.files().names(&events.join(&system));
            let names = names.unwrap_or_default().into_iter();
            // Skip the files that are next to the event folders.
            let names = names.filter(|name| !["enable", "filter"].contains(&name.as_str()));
            all.extend(names.map(|event| (system.clone(), event)));
        }
        nearest(choice, all)
    }
}

fn nearest(choice: &EventChoice, all: Vec<(String, String)>) -> Vec<String> {
    let alike = |(system, event): &(String, String)| {
        let of_event = strsim::jaro_winkler(&choice.event, event);
        // The exact name of an event in another trace system weighs more than a similar name in the
        // same trace system.
        let of_system = strsim::jaro_winkler(&choice.system, system);
        of_event * 0.8 + of_system * 0.2
    };
    let mut rated: Vec<(f64, String)> = all
        .iter()
        .map(|one| (alike(one), format!("{}:{}", one.0, one.1)))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let names = rated.into_iter().map(|(_, name)| name);
    names.take(NEAR).collect()
}

/// Returns a reason such as `parse_error: Field not found`, and the part of the filter that starts
/// at the caret.
fn refusal(text: &str) -> Option<String> {
    let error = text.lines().rev().find(|line| line.contains("error: "))?;
    let error = error.split_once("error: ")?.1.trim();
    let mut lines = text.lines();
    let caret = lines.position(|line| line.trim() == "^");
    let filter = caret.and_then(|place| place.checked_sub(1));
    let at = caret.zip(filter).and_then(|(caret, filter)| {
        let column = text.lines().nth(caret)?.find('^')?;
        text.lines().nth(filter)?.get(column..)
    });
    Some(match at.map(str::trim).filter(|at| !at.is_empty()) {
        Some(at) => format!("{error} at '{at}'"),
        None => error.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_and_written() {
        for text in [
            "irq:irq_handler_entry",
            "sched:sched_switch/prev_pid == 12 && next_comm ~ \"a/b*\"/",
        ] {
            let choice: EventChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
        }
        for wrong in [
            "", "irq", "irq:", ":x", "irq:../x", "irq:x/", "irq:x//", "irq:x/a", "irq:a b", "..:x",
        ] {
            let error = wrong.parse::<EventChoice>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "'{wrong}' is not an event: use SYSTEM:EVENT or SYSTEM:EVENT/FILTER/, such \
                     as irq:irq_handler_entry/irq == 24/"
                )
            );
        }
    }

    #[test]
    fn names_that_are_near_are_offered() {
        let all = [
            ("irq", "irq_handler_entry"),
            ("irq", "irq_handler_exit"),
            ("sched", "sched_switch"),
            ("net", "netif_rx"),
        ];
        let all = || all.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        let near = |text: &str| nearest(&text.parse().unwrap(), all());
        assert_eq!(near("irq:irq_handler_enty")[0], "irq:irq_handler_entry");
        assert_eq!(near("task:sched_switch"), ["sched:sched_switch"]);
        assert_eq!(near("foo:bar"), [""; 0]);
    }

    #[test]
    fn refused_filter_reason_is_found() {
        let text = "prev_pd == 3\n^\nparse_error: Field not found";
        let why = refusal(text).unwrap();
        assert_eq!(why, "Field not found at 'prev_pd == 3'");
        assert_eq!(refusal("parse_error: No error").unwrap(), "No error");
        assert_eq!(refusal("none"), None);
    }
}
