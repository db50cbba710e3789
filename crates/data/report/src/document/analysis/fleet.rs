//! The machines of a collector and its lists, in the form shown on the dashboard.

use jiff::Timestamp;
use punctual_model::{Nanos, grouped};

use crate::document::{Block, Document, Field, Section, Tone};
use crate::figures;

/// The state of a machine. The states have the same order as in the overview, with the most urgent
/// one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineState {
    /// According to the newest verdict, the machine breaks its requirement.
    Broken,
    /// The newest recording exceeded its requirement. This is a fact about that run only.
    Exceeded,
    /// There is an open regression, which is a change for the worse that has not been acknowledged.
    Worse,
    /// No data has been received for too long.
    Silent,
    /// The newest recording does not prove its requirement, or was interrupted.
    NotProven,
    /// The machine is enrolled, but no data has ever been received.
    NeverMeasured,
    /// The newest recording has no requirement, so there is no verdict.
    NotJudged,
    /// The newest recording met its requirement. This is a fact about that run only.
    Met,
    /// According to the newest verdict, the machine holds its requirement.
    Held,
    /// An administrator took the machine out of service. It has no state.
    Retired,
}

impl MachineState {
    /// All states, the most urgent first.
    pub const ALL: [Self; 10] = [
        Self::Broken,
        Self::Exceeded,
        Self::Worse,
        Self::Silent,
        Self::NotProven,
        Self::NeverMeasured,
        Self::NotJudged,
        Self::Met,
        Self::Held,
        Self::Retired,
    ];

    /// Returns the name used in URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Exceeded => "exceeded",
            Self::Worse => "worse",
            Self::Silent => "silent",
            Self::NotProven => "not-proven",
            Self::NeverMeasured => "never-measured",
            Self::NotJudged => "no-requirement",
            Self::Met => "met",
            Self::Held => "held",
            Self::Retired => "retired",
        }
    }

    /// Returns the name shown on a page.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Broken => "✗ broken",
            Self::Exceeded => "✗ exceeded in the last run",
            Self::Worse => "✗ worse",
            Self::Silent => "! silent",
            Self::NotProven => "? not proven",
            Self::NeverMeasured => "? never measured",
            Self::NotJudged => "no requirement",
            Self::Met => "✓ met in the last run",
            Self::Held => "✓ held",
            Self::Retired => "retired",
        }
    }

    /// Returns the tone in which the state is shown.
    pub const fn tone(self) -> Tone {
        match self {
            Self::Broken | Self::Exceeded | Self::Worse => Tone::Bad,
            Self::Silent | Self::NotProven | Self::NeverMeasured => Tone::Warning,
            Self::NotJudged | Self::Retired => Tone::Plain,
            Self::Met | Self::Held => Tone::Good,
        }
    }
}

/// One line of the overview.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRow {
    /// The name of the machine.
    pub name: String,
    /// Path of the machine's page on the server.
    pub path: String,
    /// The state of the machine.
    pub state: MachineState,
    /// When data of the machine was last received.
    pub last_seen: Option<Timestamp>,
    /// The number of recordings of the machine.
    pub recordings: u64,
    /// The newest recording: what was measured, the path of its page, its p99 and its maximum.
    pub latest: Option<(String, String, Option<Nanos>, Option<Nanos>)>,
}

/// Formats a time for a list, accurate to the minute, in UTC.
pub fn minutes(time: Option<Timestamp>) -> String {
    time.map_or_else(
        || "never".to_owned(),
        |time| figures::wall(time, 0).chars().take(16).collect(),
    )
}

/// Returns one machine: its state, and the known facts about its hardware and system.
pub fn machine(row: &MachineRow, facts: Option<&punctual_model::HostFacts>) -> Document {
    let mut fields = vec![
        Field::toned("state", row.state.tone(), row.state.title()),
        Field::new("last seen (UTC)", minutes(row.last_seen)),
        Field::new("recordings", grouped(row.recordings)),
    ];
    if let Some(host) = facts {
        let known = |value: Option<String>| figures::text_or_dash(value);
        let kernel = &host.kernel;
        let rt = match kernel.preempt_rt.get() {
            Some(true) => ", PREEMPT_RT",
            _ => "",
        };
        let release = kernel.release.get().map(|release| format!("{release}{rt}"));
        let processor = &host.processor;
        fields.extend([
            Field::new("host name", known(host.hostname.get().cloned())),
            Field::new("processor", known(processor.model.get().cloned())),
            Field::new(
                "CPUs online",
                known(processor.online.get().map(|cpus| cpus.to_string())),
            ),
            Field::new(
                "CPUs isolated",
                known(processor.isolated.get().map(|cpus| {
                    if cpus.is_empty() {
                        "none".to_owned()
                    } else {
                        cpus.to_string()
                    }
                })),
            ),
            Field::new("microcode", known(processor.microcode.get().cloned())),
            Field::new("kernel", known(release)),
            Field::new("command line", known(kernel.command_line.get().cloned())),
            Field::new("clock source", known(host.clock.source.get().cloned())),
            Field::new("distribution", known(host.distribution.name.get().cloned())),
            Field::new("fingerprint", host.fingerprint.clone()),
        ]);
    }
    Document {
        title: row.name.clone(),
        sections: vec![Section::new(vec![Block::Fields(fields)])],
        ..Document::default()
    }
}
