//! A plan and its slots, which are the output of `monitor`.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use punctual_model::{LateWakeup, Slot, SlotState, ThreadSeen, WaitHistogram, WakeWindow, grouped};

use super::table::{Cell, Column, Row, Table};
use super::{Block, Document, Field, Section, Tone};

/// A series of a plan, as shown by `monitor status` and `monitor check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesRow {
    /// Its name.
    pub name: String,
    /// The measurement on one line.
    pub measured: String,
    /// The due times, as text.
    pub times: String,
    /// The next due time; `None` if the series runs only after events.
    pub next: Option<Timestamp>,
    /// The current epoch; `None` before the first measurement.
    pub epoch: Option<u32>,
    /// The latest slot.
    pub last: Option<Slot>,
}

/// Returns the tone of a state.
fn tone(state: SlotState) -> Tone {
    match state {
        SlotState::Recorded => Tone::Good,
        SlotState::Running => Tone::Plain,
        SlotState::Interrupted | SlotState::Missed => Tone::Warning,
        SlotState::Failed | SlotState::Refused => Tone::Bad,
    }
}

/// Formats a time in the machine's zone, because plans use local times of day.
fn local(time: Timestamp, zone: &TimeZone) -> String {
    let zoned: Zoned = time.to_zoned(zone.clone());
    zoned.strftime("%F %H:%M:%S").to_string()
}

/// Returns slots in the given order, with times in `zone`.
pub fn slots(slots: &[Slot], zone: &TimeZone) -> Document {
    if slots.is_empty() {
        return Document::from_blocks(vec![Block::text("no slots")]);
    }
    let columns = vec![
        Column::left("due"),
        Column::left("series").cut_to(12),
        Column::left("cause").drop(2),
        Column::left("state"),
        Column::left("recording"),
        Column::left("reason").cut_to(16).first(),
    ];
    let rows = slots.iter().map(|slot| {
        Row::new([
            Cell::from(local(slot.due, zone)),
            slot.series.as_str().into(),
            slot.cause.name().replace('_', " ").into(),
            Cell::from(slot.state.name()).tone(tone(slot.state)),
            slot.recording
                .map_or("-".to_owned(), |id| id.short())
                .into(),
            slot.reason.clone().unwrap_or_default().into(),
        ])
    });
    Document::from_blocks(vec![Block::Table(Table::new(columns, rows.collect()))])
}

/// Returns a plan: its series, each with the result of its latest slot. The `facts` come first.
pub fn plan(facts: Vec<Field>, series: &[SeriesRow], zone: &TimeZone) -> Document {
    let mut document = Document::default();
    document.push(Section::new(Block::fields(facts).into_iter().collect()));
    for row in series {
        let mut fields = vec![
            Field::new("measured", row.measured.clone()),
            Field::new("due", row.times.clone()),
        ];
        fields.extend(row.next.map(|next| Field::new("next", local(next, zone))));
        fields.extend(
            row.epoch
                .map(|epoch| Field::new("epoch", epoch.to_string())),
        );
        if let Some(slot) = &row.last {
            let reason = slot.reason.as_ref();
            let reason = reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            let recording = slot
                .recording
                .map(|id| format!(", recording {}", id.short()));
            let text = format!(
                "{}, {}{}{reason}",
                local(slot.due, zone),
                slot.state,
                recording.unwrap_or_default()
            );
            fields.push(Field::toned("latest", tone(slot.state), text));
        }
        document.push(Section::titled(
            format!("series {}", row.name),
            vec![Block::Fields(fields)],
        ));
    }
    document
}

/// Returns the periods during which all wake-ups were watched, in the given order, with times in
/// `zone`.
pub fn wake_windows(windows: &[WakeWindow], zone: &TimeZone) -> Document {
    if windows.is_empty() {
        return Document::from_blocks(vec![Block::text("no windows")]);
    }
    let columns = vec![
        Column::left("began"),
        Column::right("length").drop(4),
        Column::right("real-time").drop(2),
        Column::right("max"),
        Column::right("ordinary").drop(3),
        Column::right("max"),
        Column::left("longest wait").cut_to(16).first(),
    ];
    let max = |waits: &WaitHistogram| match waits.count {
        0 => "-".to_owned(),
        _ => waits.max_ns.to_string(),
    };
    let rows = windows.iter().map(|window| {
        Row::new([
            local(window.start, zone),
            window.length_ns.to_string(),
            grouped(window.real_time.count),
            max(&window.real_time),
            grouped(window.ordinary.count),
            max(&window.ordinary),
            window.longest.first().map(longest).unwrap_or_default(),
        ])
    });
    Document::from_blocks(vec![Block::Table(Table::new(columns, rows.collect()))])
}

/// Returns the thread that waited, and the one that had the CPU.
fn longest(wait: &LateWakeup) -> String {
    let named = |thread: &ThreadSeen| format!("{} ({})", thread.comm, thread.scheduling());
    let culprit = wait.culprit.as_ref().map_or("unknown".to_owned(), named);
    format!(
        "{}: {} behind {culprit}",
        wait.latency_ns,
        named(&wait.victim)
    )
}
