//! Outliers as slices, with their causes as nested slices.

use std::io::{self, Write};

use punctual_model::{Nanos, Outlier, Segment, Share, Window};

use super::message::{DebugAnnotation, TrackDescriptor, TrackEvent, Type, Value};
use super::{APPENDED_TRACKS, PerfettoWriter};

/// Number of the track that contains the tracks of the late threads, which have the numbers that
/// follow.
const REACTIONS: u64 = 1;

/// The tracks of late threads.
#[derive(Debug, Default)]
pub(super) struct LateThreads(Vec<LateThread>);

#[derive(Debug)]
struct LateThread {
    tid: u32,
    /// End of its last outlier.
    end: Nanos,
}

impl<W: Write> PerfettoWriter<W> {
    /// Writes an outlier with its causes. `window` is `None` if the outlier's events were not kept.
    /// `stated` is the text in a trace that states the latency. Outliers must be written in the
    /// order of their start.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn outlier(
        &mut self,
        outlier: &Outlier,
        window: Option<&Window>,
        stated: Option<&str>,
    ) -> io::Result<()> {
        let (from, to) = window.map_or_else(
            || {
                let from = outlier.monotonic_ns;
                (from, Nanos(from.0.saturating_add(outlier.latency_ns.0)))
            },
            |window| (window.expected, window.actual),
        );
        let track = self.lane(outlier, from, to)?;
        let begin = |category: &str, name, debug_annotations| TrackEvent {
            debug_annotations,
            r#type: Type::SliceBegin.into(),
            track_uuid: track,
            categories: vec![category.to_owned()],
            name: Some(name),
        };
        let end = || TrackEvent {
            r#type: Type::SliceEnd.into(),
            track_uuid: track,
            ..TrackEvent::default()
        };
        let about = about(outlier, stated);
        self.track_event(from, begin("outlier", outlier.blame.sentence(), about))?;
        // In a damaged window, the spans may overlap.
        let segments = window.filter(|window| window.segments_fit());
        for segment in segments.map_or(&[][..], |window| &window.segments) {
            let cause = of_segment(segment, &outlier.blame.shares);
            let name = segment.cause.source.label();
            self.track_event(segment.from, begin("cause", name, cause))?;
            self.track_event(segment.to, end())?;
        }
        self.track_event(to, end())
    }

    /// Returns the track of an outlier. This is the track of its thread, or another one if it
    /// overlaps with another outlier of the thread.
    fn lane(&mut self, outlier: &Outlier, from: Nanos, to: Nanos) -> io::Result<u64> {
        let victim = &outlier.blame.victim;
        let fits = |lane: &LateThread| lane.tid == victim.tid && lane.end <= from;
        let lanes = &mut self.lanes.0;
        let parent = if self.is_appended {
            APPENDED_TRACKS + REACTIONS
        } else {
            REACTIONS
        };
        let uuid = |place: usize| parent + 1 + place as u64;
        if let Some(place) = lanes.iter().position(fits) {
            lanes[place].end = to;
            return Ok(uuid(place));
        }
        let place = lanes.len();
        lanes.push(LateThread {
            tid: victim.tid,
            end: to,
        });
        if place == 0 {
            self.track(TrackDescriptor {
                uuid: parent,
                name: "Late reactions".to_owned(),
                description: Some(
                    "Outliers with the causes of their latency, as determined by punctual"
                        .to_owned(),
                ),
                ..TrackDescriptor::default()
            })?;
        }
        self.track(TrackDescriptor {
            uuid: uuid(place),
            name: format!("{}-{}", victim.comm, victim.tid),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })?;
        Ok(uuid(place))
    }
}

fn about(outlier: &Outlier, stated: Option<&str>) -> Vec<DebugAnnotation> {
    let blame = &outlier.blame;
    let mut about = vec![
        number("outlier", outlier.number),
        number("latency_ns", outlier.latency_ns.0),
        text("culprit", blame.culprit()),
        text("sentence", blame.sentence()),
    ];
    about.extend(outlier.cpu.map(|cpu| number("cpu", cpu.into())));
    about.extend(stated.map(|stated| text("stated", stated.to_owned())));
    if blame.events_lost > 0 {
        about.push(number("events_lost", blame.events_lost));
    }
    about.push(DebugAnnotation {
        name: Some("shares".to_owned()),
        array_values: blame.shares.iter().map(share).collect(),
        ..DebugAnnotation::default()
    });
    about
}

fn share(share: &Share) -> DebugAnnotation {
    let mut entries = vec![
        text("cause", share.cause.source.label()),
        number("ns", share.ns.0),
        number("count", share.count.into()),
    ];
    entries.extend(detail(share.detail()));
    DebugAnnotation {
        dict_entries: entries,
        ..DebugAnnotation::default()
    }
}

fn of_segment(segment: &Segment, shares: &[Share]) -> Vec<DebugAnnotation> {
    let cause = &segment.cause;
    let mut about = vec![
        text("kind", cause.kind().name().to_owned()),
        text("who", cause.who()),
        number("ns", segment.length().0),
        number("cpu", segment.cpu.into()),
    ];
    let share = shares
        .iter()
        .find(|share| share.cause.source == cause.source);
    about.extend(share.map(|share| number("share_ns", share.ns.0)));
    about.extend(detail(cause.detail()));
    about
}

fn detail(detail: Option<String>) -> Option<DebugAnnotation> {
    detail
        .filter(|detail| !detail.is_empty())
        .map(|detail| text("detail", detail))
}

pub(super) fn number(name: &str, value: u64) -> DebugAnnotation {
    annotation(name, Value::UintValue(value))
}

fn text(name: &str, value: String) -> DebugAnnotation {
    annotation(name, Value::StringValue(value))
}

fn annotation(name: &str, value: Value) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        value: Some(value),
        ..DebugAnnotation::default()
    }
}
