//! Outliers as slices, with their causes as nested slices.

use std::io::{self, Write};

use punctual_model::{Nanos, Outlier, Segment, Share, ShareKind, Window};

use super::message::{DebugAnnotation, TrackDescriptor, TrackEvent, Type, Value};
use super::{APPENDED_TRACKS, FLOWS, PerfettoWriter};

/// A track that contains tracks of threads and interrupts. These have the numbers that follow its
/// own.
#[derive(Debug)]
pub(super) struct Group {
    number: u64,
    name: &'static str,
    description: &'static str,
    lanes: Vec<Lane>,
}

/// The track of a thread or interrupt. Its slices do not overlap.
#[derive(Debug)]
struct Lane {
    name: String,
    /// End of its last slice.
    end: Nanos,
}

impl Group {
    /// Late threads, with their outliers.
    pub(super) const fn reactions() -> Self {
        Self {
            number: 1,
            name: "Late reactions",
            description: "Outliers with the causes of their latency, as determined by punctual",
            lanes: Vec::new(),
        }
    }

    /// The threads and interrupts that delayed late threads.
    pub(super) const fn culprits() -> Self {
        Self {
            number: 1 << 32,
            name: "Culprits of late reactions",
            description: "Threads and interrupts that took time from a late thread. An arrow leads \
                          to the share of the latency.",
            lanes: Vec::new(),
        }
    }
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
        let victim = &outlier.blame.victim;
        let name = format!("{}-{}", victim.comm, victim.tid);
        let track = self.lane(|writer| &mut writer.reactions, name, from, to)?;
        let begin = |category: &str, name, debug_annotations| TrackEvent {
            debug_annotations,
            r#type: Type::SliceBegin.into(),
            track_uuid: track,
            categories: vec![category.to_owned()],
            name: Some(name),
            ..TrackEvent::default()
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
            let terminating_flow_ids = self.culprit(outlier.number, segment)?;
            let slice = TrackEvent {
                terminating_flow_ids,
                ..begin("cause", name, cause)
            };
            self.track_event(segment.from, slice)?;
            self.track_event(segment.to, end())?;
        }
        self.track_event(to, end())
    }

    /// Writes the slice of whoever took this time, if known. Returns the arrow that begins there.
    fn culprit(&mut self, outlier: u64, segment: &Segment) -> io::Result<Vec<u64>> {
        if !is_culprit(segment.cause.kind()) {
            return Ok(Vec::new());
        }
        self.flows += 1;
        let flow = FLOWS + self.flows;
        let name = segment.cause.who();
        let track_uuid = self.lane(
            |writer| &mut writer.culprits,
            name,
            segment.from,
            segment.to,
        )?;
        let slice = TrackEvent {
            debug_annotations: vec![number("outlier", outlier)],
            r#type: Type::SliceBegin.into(),
            track_uuid,
            categories: vec!["culprit".to_owned()],
            name: Some(segment.cause.source.label()),
            flow_ids: vec![flow],
            ..TrackEvent::default()
        };
        self.track_event(segment.from, slice)?;
        let end = TrackEvent {
            r#type: Type::SliceEnd.into(),
            track_uuid,
            ..TrackEvent::default()
        };
        self.track_event(segment.to, end)?;
        Ok(vec![flow])
    }

    /// Returns the track of a slice: that of its name, or another one if the slice overlaps with the
    /// one before.
    fn lane(
        &mut self,
        group: impl Fn(&mut Self) -> &mut Group,
        name: String,
        from: Nanos,
        to: Nanos,
    ) -> io::Result<u64> {
        let first = if self.is_appended { APPENDED_TRACKS } else { 0 };
        let of = group(self);
        let parent = first + of.number;
        let uuid = |place: usize| parent + 1 + place as u64;
        let fits = |lane: &Lane| lane.name == name && lane.end <= from;
        if let Some(place) = of.lanes.iter().position(fits) {
            of.lanes[place].end = to;
            return Ok(uuid(place));
        }
        let place = of.lanes.len();
        of.lanes.push(Lane {
            name: name.clone(),
            end: to,
        });
        if place == 0 {
            let track = TrackDescriptor {
                uuid: parent,
                name: of.name.to_owned(),
                description: Some(of.description.to_owned()),
                ..TrackDescriptor::default()
            };
            self.track(track)?;
        }
        self.track(TrackDescriptor {
            uuid: uuid(place),
            name,
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })?;
        Ok(uuid(place))
    }
}

/// Returns whether a cause of this kind is a thread or an interrupt.
const fn is_culprit(kind: ShareKind) -> bool {
    matches!(
        kind,
        ShareKind::IrqsOff
            | ShareKind::PreemptOff
            | ShareKind::Interrupt
            | ShareKind::Softirq
            | ShareKind::Nmi
            | ShareKind::Blocking
            | ShareKind::HigherPriority
            | ShareKind::Competing
            | ShareKind::Unranked
            | ShareKind::LockHolder
            | ShareKind::Waiting
    )
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
