//! The macro that makes types of the table's rows, and what its decoders read.

use super::{Comm, KernelPriority, Task, Text};
use crate::Nanos;

/// The lowest level at which an event is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventLevel {
    /// The fewest events that separate the causes.
    #[default]
    Default,
    /// These, and the events of the running tracers timerlat and osnoise.
    Noise,
    /// These, and what the jobs of watched threads consist of: their system calls, and
    /// the requests to disks.
    Jobs,
    /// All events.
    Full,
}

/// The fields of one record, read by their index in the fields of the event's row; `None`: the
/// record is too short.
pub trait EventFields {
    /// A number without sign.
    fn u64(&self, number: usize) -> Option<u64>;
    /// A number with sign, of any size.
    fn i64(&self, number: usize) -> Option<i64>;
    /// The name of a thread.
    fn comm(&self, number: usize) -> Option<Comm>;
    /// A name shared by many events.
    fn text(&mut self, number: usize) -> Option<Text>;
    /// One word of an array of words.
    fn word(&self, number: usize, index: usize) -> Option<u64> {
        (index == 0).then(|| self.u64(number)).flatten()
    }
    /// An array of so many words that ends with the record.
    fn words(&self, number: usize, count: usize) -> Option<Vec<u64>> {
        (0..count.min(1))
            .map(|index| self.word(number, index))
            .collect()
    }
    /// An address written as an offset from the start of the kernel's code.
    fn in_text(&self, number: usize) -> Option<u64>;

    /// The low half, for numbers of 32 bits.
    #[inline]
    fn u32(&self, number: usize) -> Option<u32> {
        Some(self.u64(number)? as u32)
    }

    /// The low half, with sign.
    #[inline]
    fn i32(&self, number: usize) -> Option<i32> {
        Some(self.i64(number)? as i32)
    }

    /// A duration; 0 if negative.
    fn nanos(&self, number: usize) -> Option<Nanos> {
        Some(Nanos(u64::try_from(self.i64(number)?).unwrap_or(0)))
    }

    /// A priority on the kernel's scale.
    #[inline]
    fn priority(&self, number: usize) -> Option<KernelPriority> {
        Some(KernelPriority(self.i32(number)? as i16))
    }

    /// A thread whose name, number and priority are three fields in a row.
    #[inline]
    fn task(&self, first: usize) -> Option<Task> {
        Some(Task {
            comm: self.comm(first)?,
            pid: self.u32(first + 1)?,
            prio: self.priority(first + 2)?,
        })
    }
}

/// Names of what events hold as numbers.
pub trait EventNames {
    /// The name of a system call, or its number.
    fn call(&self, id: i64) -> String;
    /// The name of a kernel address, or the address.
    fn symbol(&self, address: u64) -> String;
}

/// Makes `EventKind`, `KernelEvent`, `EventSpec` and `EVENTS` of rows: each is a kind with
/// its fields, its words with `names`, and the events of the kernel that it is decoded
/// from.
macro_rules! event_kinds {
    ($names:ident => $(
        $(#[$about:meta])*
        $kind:ident { $( $(#[$attribute:meta])* $field:ident: $type:ty ),* $(,)? }
        says $words:expr;
        $(
            <- $event:ident = $system:literal $name:literal $( .$modifier:ident($($of:literal)?) )*,
            $provides:literal, $fields:expr,
            $make:expr;
        )*
    )*) => {
        /// What happened. Fields bear the names of the events' own (`format` files of
        /// tracefs); addresses are looked up in the window's `symbols`.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the fields are those of the kernel's events")]
        pub enum EventKind {
            $( $(#[$about])* $kind { $( $(#[$attribute])* $field: $type ),* }, )*
        }

        impl EventKind {
            /// What happened, in a few words.
            #[allow(unused_variables)]
            pub fn describe(&self, $names: &impl EventNames) -> String {
                match self {
                    $( Self::$kind { $($field),* } => $words.into(), )*
                }
            }
        }

        /// An event of the kernel that is recorded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum KernelEvent {
            $( $($event,)* )*
        }

        impl KernelEvent {
            /// Makes an event of the fields of a record; `vector` is what stands for the
            /// `*` of its name. `None`: the record is too short.
            #[inline]
            pub fn decode<F: EventFields>(self, f: &mut F, vector: &Vector) -> Option<EventKind> {
                match self {
                    $( $( Self::$event => {
                        let make: fn(&mut F, &Vector) -> Option<EventKind> = $make;
                        make(f, vector)
                    } )* )*
                }
            }
        }

        /// An event of the kernel.
        #[derive(Clone, Copy, Debug)]
        pub struct EventSpec {
            /// Which one: decodes its records.
            pub event: KernelEvent,
            /// The folder in `events`.
            pub system: &'static str,
            /// The event; `*` at the start matches all with that ending.
            pub name: &'static str,
            /// `system:event`.
            pub full_name: &'static str,
            /// The lowest level at which it is recorded.
            pub level: EventLevel,
            /// `Some`: the field with the number of a watched thread; the kernel discards the
            /// events of others.
            pub watched: Option<&'static str>,
            /// The same at the level of jobs alone; at the full level all threads count.
            pub watched_for_jobs: Option<&'static str>,
            /// Whether to warn where the kernel does not have it. Not so for events of one
            /// architecture, of later kernels or of a tracer: another has the same information
            /// there, or none is lost.
            pub warns: bool,
            /// Whether a trigger of another event writes it: it cannot be enabled.
            pub triggered: bool,
            /// Whether it has a name of its own in lists of events: not so where the row before
            /// it stands for both.
            pub listed: bool,
            /// The information that it provides.
            pub provides: &'static str,
            /// The fields that it is decoded from, as its `format` file names them.
            pub fields: &'static [&'static str],
        }

        impl EventSpec {
            const fn full(mut self) -> Self {
                self.level = EventLevel::Full;
                self
            }

            /// Recorded where jobs are followed, of watched threads by this field; empty:
            /// of all threads.
            const fn jobs(mut self, field: &'static str) -> Self {
                self.level = EventLevel::Jobs;
                if !field.is_empty() {
                    self.watched_for_jobs = Some(field);
                }
                self
            }

            /// An event of a tracer: without overhead unless the tracer runs.
            const fn noise(mut self) -> Self {
                self.level = EventLevel::Noise;
                self
            }

            const fn watched(mut self, field: &'static str) -> Self {
                self.watched = Some(field);
                self
            }

            const fn triggered(mut self) -> Self {
                self.triggered = true;
                self
            }

            const fn quiet(mut self) -> Self {
                self.warns = false;
                self
            }

            const fn same_as_before(mut self) -> Self {
                (self.warns, self.listed) = (false, false);
                self
            }
        }

        /// All events of the kernel that can be recorded, as `include/trace/events/*.h`
        /// define them (irq vectors and page faults: `arch/x86/include/asm/trace`).
        pub const EVENTS: &[EventSpec] = &[
            $( $(
                EventSpec {
                    event: KernelEvent::$event,
                    system: $system,
                    name: $name,
                    full_name: concat!($system, ":", $name),
                    level: EventLevel::Default,
                    watched: None,
                    watched_for_jobs: None,
                    triggered: false,
                    warns: true,
                    listed: true,
                    provides: $provides,
                    fields: &$fields,
                } $( .$modifier($($of)?) )*,
            )* )*
        ];
    };
}
pub(super) use event_kinds;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{EVENTS, Vector, event_names};
    use super::*;

    /// A record of this many fields.
    struct Record(usize);

    impl Record {
        fn field<T>(&self, number: usize, value: T) -> Option<T> {
            (number < self.0).then_some(value)
        }
    }

    impl EventFields for Record {
        fn u64(&self, number: usize) -> Option<u64> {
            self.field(number, 1)
        }

        fn i64(&self, number: usize) -> Option<i64> {
            self.field(number, 1)
        }

        fn comm(&self, number: usize) -> Option<Comm> {
            self.field(number, Comm::default())
        }

        fn text(&mut self, number: usize) -> Option<Text> {
            self.field(number, "".into())
        }

        fn in_text(&self, number: usize) -> Option<u64> {
            self.field(number, 1)
        }
    }

    #[test]
    fn each_event_is_decoded_from_all_of_its_fields() {
        for spec in EVENTS {
            let decode = |fields| spec.event.decode(&mut Record(fields), &Vector::LocalTimer);
            let all = spec.fields.len();
            assert!(decode(all).is_some(), "{}", spec.full_name);
            assert!(all == 0 || decode(all - 1).is_none(), "{}", spec.full_name);
            assert!(!spec.provides.is_empty(), "{}", spec.full_name);
        }
        let names: BTreeSet<&str> = EVENTS.iter().map(|spec| spec.full_name).collect();
        assert_eq!(names.len(), EVENTS.len());
        assert!(event_names().count() < EVENTS.len());
    }
}
