//! The macro that creates types from the rows of the event table, and the traits that decoders use.

use super::{Comm, KernelPriority, Task, Text};
use crate::Nanos;

/// Level of detail of a recording. Each level includes the events of the levels before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventLevel {
    /// The smallest set of events that is sufficient to distinguish the causes.
    #[default]
    Default,
    /// Also the events of the timerlat and osnoise tracers, if these are running.
    Noise,
    /// Also the events of jobs in watched threads: their system calls and disk requests.
    Jobs,
    /// All events.
    Full,
}

/// Access to the fields of one record, by their index in the row of the event. A method returns
/// `None` if the record is too short.
pub trait EventFields {
    /// An unsigned number.
    fn u64(&self, number: usize) -> Option<u64>;
    /// A signed number of any size.
    fn i64(&self, number: usize) -> Option<i64>;
    /// The comm of a thread.
    fn comm(&self, number: usize) -> Option<Comm>;
    /// A name shared by many events.
    fn text(&mut self, number: usize) -> Option<Text>;
    /// One word in an array of words.
    fn word(&self, number: usize, index: usize) -> Option<u64> {
        (index == 0).then(|| self.u64(number)).flatten()
    }
    /// An array of `count` words at the end of the record.
    fn words(&self, number: usize, count: usize) -> Option<Vec<u64>> {
        (0..count.min(1))
            .map(|index| self.word(number, index))
            .collect()
    }
    /// An address, as an offset from the start of the kernel's code.
    fn in_text(&self, number: usize) -> Option<u64>;
    /// A bitmap of CPUs. Empty if its meaning is ambiguous.
    fn cpus(&self, number: usize) -> Option<Vec<u32>>;

    /// The low 32 bits, for 32-bit numbers.
    #[inline]
    fn u32(&self, number: usize) -> Option<u32> {
        Some(self.u64(number)? as u32)
    }

    /// The low 32 bits, signed.
    #[inline]
    fn i32(&self, number: usize) -> Option<i32> {
        Some(self.i64(number)? as i32)
    }

    /// A duration. 0 if negative.
    fn nanos(&self, number: usize) -> Option<Nanos> {
        Some(Nanos(u64::try_from(self.i64(number)?).unwrap_or(0)))
    }

    /// A priority on the kernel's scale.
    #[inline]
    fn priority(&self, number: usize) -> Option<KernelPriority> {
        Some(KernelPriority(self.i32(number)? as i16))
    }

    /// A thread, from three adjacent fields: comm, pid and priority.
    #[inline]
    fn task(&self, first: usize) -> Option<Task> {
        Some(Task {
            comm: self.comm(first)?,
            pid: self.u32(first + 1)?,
            prio: self.priority(first + 2)?,
        })
    }
}

/// Names for numbers in events.
pub trait EventNames {
    /// Returns the name of a system call, or its number.
    fn call(&self, id: i64) -> String;
    /// Returns the name of a kernel address, or the address.
    fn symbol(&self, address: u64) -> String;
}

/// Creates `EventKind`, `KernelEvent`, `EventSpec` and `EVENTS` from rows. Each row has a kind with
/// its fields, a description that may use `names`, and the kernel events it is decoded from.
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
        /// The kind of an event. Its fields have the names from the kernel's `format` files in
        /// tracefs. The window's `symbols` resolve addresses.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the fields are those of the kernel's events")]
        pub enum EventKind {
            $( $(#[$about])* $kind { $( $(#[$attribute])* $field: $type ),* }, )*
        }

        impl EventKind {
            /// Returns a short description.
            #[allow(unused_variables)]
            pub fn describe(&self, $names: &impl EventNames) -> String {
                match self {
                    $( Self::$kind { $($field),* } => $words.into(), )*
                }
            }
        }

        /// A kernel event that can be recorded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum KernelEvent {
            $( $($event,)* )*
        }

        impl KernelEvent {
            /// Decodes a record. `vector` replaces the `*` in the event's name. Returns `None` if
            /// the record is too short.
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

        /// Description of a kernel event.
        #[derive(Clone, Copy, Debug)]
        pub struct EventSpec {
            /// The event itself, used to decode its records.
            pub event: KernelEvent,
            /// Its directory in `events`.
            pub system: &'static str,
            /// Its name. `*` at the start matches all events with that ending.
            pub name: &'static str,
            /// `system:event`.
            pub full_name: &'static str,
            /// The lowest level at which it is recorded.
            pub level: EventLevel,
            /// The field with the ID of a watched thread, if any. If there is one, the kernel
            /// discards the events of other threads.
            pub watched: Option<&'static str>,
            /// Like `watched`, but used only at the level of jobs. The full level records all
            /// threads.
            pub watched_for_jobs: Option<&'static str>,
            /// Whether to warn if the kernel lacks the event. False for events that exist only on
            /// one architecture, in later kernels or in a tracer: without them, no information is
            /// lost, or another event has it.
            pub warns: bool,
            /// Whether this event is written by a trigger of another event. Such an event cannot be
            /// enabled on its own.
            pub triggered: bool,
            /// Whether lists of events show this event separately. If not, the row before it
            /// represents both events.
            pub listed: bool,
            /// The information it provides.
            pub provides: &'static str,
            /// The fields it is decoded from, as named in its `format` file.
            pub fields: &'static [&'static str],
        }

        impl EventSpec {
            const fn full(mut self) -> Self {
                self.level = EventLevel::Full;
                self
            }

            /// Marks an event that is recorded when jobs are followed. `field` contains the ID of
            /// the watched thread. If `field` is empty, the event is recorded for all threads.
            const fn jobs(mut self, field: &'static str) -> Self {
                self.level = EventLevel::Jobs;
                if !field.is_empty() {
                    self.watched_for_jobs = Some(field);
                }
                self
            }

            /// Marks an event of a tracer. It has no overhead unless the tracer is running.
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

        /// All kernel events that can be recorded, as defined in `include/trace/events/*.h` (irq
        /// vectors and page faults: `arch/x86/include/asm/trace`).
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

    /// A record with this many fields.
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

        fn cpus(&self, number: usize) -> Option<Vec<u32>> {
            self.field(number, vec![1])
        }
    }

    #[test]
    fn event_is_decoded_from_all_fields() {
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
