//! Decodes the records that the tracers timerlat and osnoise write into the ring buffer.

use punctual_model::{
    Nanos, NoiseGap, NoiseReports, OsnoiseSample, SignedNanos, TimerlatContext, TimerlatSample,
    TimerlatStack,
};

use crate::clock::ClockMap;
use crate::event::{FieldPosition, Format};
use crate::ring::{Layout, Page};
use crate::{TraceError, Tracefs};

/// The records to decode, with their folders relative to `events` and their fields
/// (`kernel/trace/trace_entries.h`, `include/trace/events/osnoise.h`).
pub(crate) const TIMERLAT: (&str, &[&str]) =
    ("ftrace/timerlat", &["seqnum", "context", "timer_latency"]);
pub(crate) const STACK: (&str, &[&str]) = ("ftrace/kernel_stack", &["size", "caller"]);
pub(crate) const OSNOISE: (&str, &[&str]) = (
    "ftrace/osnoise",
    &[
        "runtime",
        "noise",
        "max_sample",
        "hw_count",
        "nmi_count",
        "irq_count",
        "softirq_count",
        "thread_count",
    ],
);
pub(crate) const GAP: (&str, &[&str]) = (
    "osnoise/sample_threshold",
    &["start", "duration", "interference"],
);

/// The field of a record that contains the ID of the current thread (`struct trace_entry`).
const PID: &str = "common_pid";

/// One kind of record.
#[derive(Clone, Debug)]
struct Kind {
    id: u64,
    pid: FieldPosition,
    fields: Vec<FieldPosition>,
}

impl Kind {
    fn learn(
        tracefs: &Tracefs,
        (folder, fields): (&str, &[&'static str]),
    ) -> Result<Self, TraceError> {
        let path = tracefs.file("events").join(folder).join("format");
        let text = tracefs.text(&path)?;
        let no_field = |field| TraceError::NoField {
            path: path.clone(),
            field,
        };
        let format = Format::parse(&text).ok_or_else(|| no_field("ID"))?;
        let place = |name: &&'static str| format.position(name).ok_or_else(|| no_field(name));
        Ok(Self {
            id: format.id.into(),
            pid: place(&PID)?,
            fields: fields.iter().map(place).collect::<Result<_, _>>()?,
        })
    }
}

/// A record whose fields are accessed by their index in the list of fields.
struct Fields<'a> {
    layout: &'a Layout,
    kind: &'a Kind,
    data: &'a [u8],
}

impl Fields<'_> {
    fn number(&self, place: usize) -> Option<u64> {
        let bytes = self.kind.fields.get(place)?.bytes(self.layout, self.data)?;
        Some(self.layout.unsigned(bytes))
    }

    /// Returns the machine words from the start of a field to the end of the record.
    fn words(&self, place: usize, count: usize) -> Option<Vec<u64>> {
        let rest = self.kind.fields.get(place)?.rest(self.data)?;
        let words = rest.chunks_exact(usize::from(self.layout.long_bytes).max(1));
        let words = words.map(|word| self.layout.unsigned(word));
        Some(words.take(count).collect())
    }

    /// Reads a number of whole microseconds.
    fn micros(&self, place: usize) -> Option<Nanos> {
        Some(Nanos(self.number(place)?.saturating_mul(1_000)))
    }

    fn pid(&self) -> Option<u32> {
        let bytes = self.kind.pid.bytes(self.layout, self.data)?;
        Some(self.layout.unsigned(bytes) as u32)
    }
}

/// Reads the records of one tracer.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    layout: Layout,
    timerlat: Option<Kind>,
    stack: Option<Kind>,
    osnoise: Option<Kind>,
    gap: Option<Kind>,
}

impl Reader {
    /// Creates a reader for timerlat, optionally with the stacks that it records.
    pub(crate) fn timerlat(
        tracefs: &Tracefs,
        layout: Layout,
        stacks: bool,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            layout,
            timerlat: Some(Kind::learn(tracefs, TIMERLAT)?),
            stack: if stacks {
                // If stacks cannot be decoded, samples are still read.
                Kind::learn(tracefs, STACK).ok()
            } else {
                None
            },
            osnoise: None,
            gap: None,
        })
    }

    /// Creates a reader for osnoise.
    pub(crate) fn osnoise(tracefs: &Tracefs, layout: Layout) -> Result<Self, TraceError> {
        Ok(Self {
            layout,
            timerlat: None,
            stack: None,
            osnoise: Some(Kind::learn(tracefs, OSNOISE)?),
            gap: Some(Kind::learn(tracefs, GAP)?),
        })
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Adds the records of a page of this CPU.
    pub(crate) fn page(&self, page: &Page<'_>, cpu: u32, clock: ClockMap, into: &mut NoiseReports) {
        let mut records = page.records();
        for record in records.by_ref() {
            let Some(id) = record.data.get(..2).map(|id| self.layout.unsigned(id)) else {
                continue;
            };
            let time = clock.monotonic(record.time);
            let of = |kind: &Option<Kind>| kind.as_ref().is_some_and(|kind| kind.id == id);
            let fields = |kind| Fields {
                layout: &self.layout,
                kind,
                data: record.data,
            };
            let decoded = match (&self.timerlat, &self.osnoise, &self.gap) {
                (Some(kind), ..) if of(&self.timerlat) => {
                    let sample = timerlat(&fields(kind), cpu, time);
                    sample.map(|sample| into.timerlat.push(sample))
                }
                (_, Some(kind), _) if of(&self.osnoise) => {
                    let sample = osnoise(&fields(kind), cpu, time);
                    sample.map(|sample| into.osnoise.push(sample))
                }
                (_, _, Some(kind)) if of(&self.gap) => {
                    let found = gap(&fields(kind), cpu);
                    found.map(|found| into.gaps.push(found))
                }
                // Skip other records, for example the kernel's own messages.
                _ => match &self.stack {
                    Some(kind) if of(&self.stack) => {
                        let found = stack(&fields(kind), cpu, time);
                        found.map(|found| into.stacks.push(found))
                    }
                    _ => continue,
                },
            };
            if decoded.is_none() {
                *into.lost.entry(cpu).or_default() += 1;
            }
        }
        if records.is_broken() {
            *into.lost.entry(cpu).or_default() += 1;
        }
    }
}

fn timerlat(fields: &Fields<'_>, cpu: u32, time: Nanos) -> Option<TimerlatSample> {
    Some(TimerlatSample {
        cpu,
        time,
        pid: fields.pid()?,
        seqnum: fields.number(0)? as u32,
        // These are IRQ_CONTEXT, THREAD_CONTEXT and THREAD_URET of trace_osnoise.c.
        context: match fields.number(1)? {
            0 => TimerlatContext::Irq,
            1 => TimerlatContext::Thread,
            2 => TimerlatContext::User,
            _ => return None,
        },
        // The kernel writes the difference between two times as an unsigned number.
        latency: SignedNanos(fields.number(2)?.cast_signed()),
    })
}

fn stack(fields: &Fields<'_>, cpu: u32, time: Nanos) -> Option<TimerlatStack> {
    Some(TimerlatStack {
        cpu,
        time,
        pid: fields.pid()?,
        frames: fields.words(1, fields.number(0)? as usize)?,
    })
}

fn osnoise(fields: &Fields<'_>, cpu: u32, time: Nanos) -> Option<OsnoiseSample> {
    Some(OsnoiseSample {
        cpu,
        time,
        pid: fields.pid()?,
        runtime: fields.micros(0)?,
        noise: fields.micros(1)?,
        longest: fields.micros(2)?,
        hardware: fields.number(3)?,
        nmis: fields.number(4)?,
        irqs: fields.number(5)?,
        softirqs: fields.number(6)?,
        threads: fields.number(7)?,
    })
}

fn gap(fields: &Fields<'_>, cpu: u32) -> Option<NoiseGap> {
    Some(NoiseGap {
        cpu,
        start_local: Nanos(fields.number(0)?),
        duration: Nanos(fields.number(1)?),
        interruptions: fields.number(2)?,
    })
}
