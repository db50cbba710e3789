//! Perfetto's trace format, which <https://ui.perfetto.dev> and `trace_processor` open.
//!
//! | track | content |
//! |---|---|
//! | `Late reactions`, a track for each thread | each outlier, named by its sentence, with its shares; in it the causes, each with its share |
//! | `Culprits of late reactions`, a track for each thread and interrupt | the time that it took from a late thread, with an arrow to the share |
//! | CPUs, threads | `sched_switch`, `sched_waking` and the others of the scheduler |
//! | Irq, SoftIrq, Hrtimer | handlers. Vectors of x86 are interrupts without a number |
//! | `Other events`, a track for each CPU | events that Perfetto does not show otherwise, and marks |
//!
//! While events are missing, a thread named `(not recorded)` occupies the CPU, open handlers end,
//! and the state of the thread that was running becomes unknown. Otherwise Perfetto would show that
//! thread as running until the next event. Threads have no process, because the kernel's events do
//! not name it.

mod blame;
mod cpu;
mod event;
mod message;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use jiff::Timestamp;
use prost::Message as _;
use punctual_model::{Comm, EventKind, EventNames, Nanos, TraceEvent, sanitize};

use blame::Group;
use cpu::Cpu;
use message::{
    Clock, ClockSnapshot, Data, FtraceEventBundle, InternedData, InternedString, SystemInfo, Trace,
    TracePacket, TrackDescriptor, TrackEvent, Type, Utsname,
};

/// ID of the packet sequence. There is only one, because all packets come from one writer.
const SEQUENCE: u32 = 1;

/// ID of the sequence, and first number of the tracks, of packets that are appended to the trace of
/// another writer. Writers count from 1, or draw random numbers of 64 bits.
const APPENDED: u32 = 0x7075_6e63;
const APPENDED_TRACKS: u64 = 0x7075_6e63_0000_0000;

/// First number of the arrows. It must differ from those of other writers too.
const FLOWS: u64 = APPENDED_TRACKS;

/// `BUILTIN_CLOCK_BOOTTIME`.
const BOOTTIME: u32 = 6;

/// `SEQ_INCREMENTAL_STATE_CLEARED`: names interned before this packet are no longer valid.
const CLEARED: u32 = 1;

/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned names.
const NEEDS_NAMES: u32 = 2;

/// Maximum number of events in a packet.
const BUNDLE: usize = 512;

/// Perfetto refuses the file if it contains this CPU or a higher one (`kMaxCpuCount`).
const CPUS: u32 = 1024;

/// Maximum number of threads whose names are kept. There can be more only in a damaged trace.
const THREADS: usize = 1 << 20;

/// Number of the track that contains the tracks of other events. The number of a CPU's track is
/// this number plus the number of the CPU.
const OTHERS: u64 = 0x1_0000;

/// Facts about the machine, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedMachine {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// The architecture, as `uname -m` prints it.
    pub architecture: Option<String>,
    /// A time on the clock of the events, and the same time on the wall clock.
    pub wall: Option<(Nanos, Timestamp)>,
}

/// Writes a trace of Perfetto, in bounded memory.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: W,
    has_begun: bool,
    cpus: BTreeMap<u32, Cpu>,
    threads: HashMap<u32, Comm>,
    /// Kernel addresses that have names.
    symbols: HashSet<u64>,
    /// CPUs that have a track of other events.
    others: BTreeSet<u32>,
    reactions: Group,
    culprits: Group,
    /// Number of arrows.
    flows: u64,
    is_appended: bool,
}

impl<W: Write> PerfettoWriter<W> {
    /// Creates a writer of outliers that are appended to a trace of Perfetto, whose events are on
    /// CLOCK_BOOTTIME.
    pub fn appended(out: W) -> Self {
        Self {
            is_appended: true,
            ..Self::new(out)
        }
    }

    /// Creates a writer. It writes to `out` in pieces of a few KiB.
    pub fn new(out: W) -> Self {
        Self {
            out,
            has_begun: false,
            cpus: BTreeMap::new(),
            threads: HashMap::new(),
            symbols: HashSet::new(),
            others: BTreeSet::new(),
            reactions: Group::reactions(),
            culprits: Group::culprits(),
            flows: 0,
            is_appended: false,
        }
    }

    /// Writes an event. All earlier events of its CPU must have been written, or reported as
    /// [`lost`](Self::lost).
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &impl EventNames) -> io::Result<()> {
        self.take(event, names, Cpu::add)
    }

    /// Writes an event of a CPU whose other events are unknown. The event must not show a thread as
    /// running.
    fn event_alone(&mut self, event: &TraceEvent, names: &impl EventNames) -> io::Result<()> {
        self.take(event, names, |cpu, event, _| cpu.add_alone(event))
    }

    fn take(
        &mut self,
        event: &TraceEvent,
        names: &impl EventNames,
        add: impl FnOnce(&mut Cpu, &TraceEvent, Comm),
    ) -> io::Result<()> {
        if event.cpu >= CPUS {
            return Ok(());
        }
        for task in event.kind.tasks().into_iter().flatten() {
            if self.threads.len() < THREADS || self.threads.contains_key(&task.pid) {
                self.threads.insert(task.pid, task.comm);
            }
        }
        if event::ftrace(&event.kind).is_none() {
            self.instant(event.time, event.cpu, event.pid, event.kind.describe(names))?;
        }
        self.name_symbols(&event.kind, names)?;
        let name = self.threads.get(&event.pid).copied().unwrap_or_default();
        let cpu = self.cpu(event.cpu);
        add(cpu, event, name);
        if cpu.events.len() >= BUNDLE {
            self.flush(event.cpu)?;
        }
        Ok(())
    }

    fn cpu(&mut self, number: u32) -> &mut Cpu {
        self.cpus.entry(number).or_insert_with(|| Cpu::new(number))
    }

    /// Records that events of a CPU are missing between its last event and the next one.
    pub fn lost(&mut self, cpu: u32) {
        if cpu < CPUS {
            let cpu = self.cpu(cpu);
            cpu.interrupt();
            cpu.lost = true;
        }
    }

    /// Writes a text that a thread wrote into the trace.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn mark(&mut self, time: Nanos, cpu: u32, pid: u32, text: &str) -> io::Result<()> {
        if cpu >= CPUS {
            return Ok(());
        }
        self.instant(time, cpu, pid, sanitize(text).into_owned())
    }

    /// Writes the remaining events and the facts about the machine.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn finish(mut self, machine: &TracedMachine) -> io::Result<()> {
        let cpus: Vec<u32> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            self.flush(cpu)?;
        }
        if self.is_appended {
            return self.out.flush();
        }
        self.system_info(machine)?;
        if let Some((time, wall)) = machine.wall {
            self.clocks(time, wall)?;
        }
        self.out.flush()
    }

    fn flush(&mut self, number: u32) -> io::Result<()> {
        let cpu = self.cpu(number);
        if cpu.events.is_empty() {
            return Ok(());
        }
        let bundle = FtraceEventBundle {
            cpu: number,
            event: std::mem::take(&mut cpu.events),
            lost_events: std::mem::take(&mut cpu.lost),
        };
        self.packet(TracePacket {
            data: Some(Data::FtraceEvents(bundle)),
            ..TracePacket::default()
        })
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let begun = std::mem::replace(&mut self.has_begun, true);
        let packet = TracePacket {
            trusted_packet_sequence_id: if self.is_appended { APPENDED } else { SEQUENCE },
            sequence_flags: if begun { NEEDS_NAMES } else { CLEARED },
            ..packet
        };
        let trace = Trace {
            packet: vec![packet],
        };
        self.out.write_all(&trace.encode_to_vec())
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket {
            data: Some(Data::TrackDescriptor(track)),
            ..TracePacket::default()
        })
    }

    fn track_event(&mut self, time: Nanos, event: TrackEvent) -> io::Result<()> {
        self.packet(TracePacket {
            timestamp: Some(time.0),
            // Another writer may have chosen another clock as the default.
            timestamp_clock_id: self.is_appended.then_some(BOOTTIME),
            data: Some(Data::TrackEvent(event)),
            ..TracePacket::default()
        })
    }

    /// Writes the names of the functions in an event. The event contains the number of each name,
    /// which is the function's address.
    fn name_symbols(&mut self, kind: &EventKind, names: &impl EventNames) -> io::Result<()> {
        let function = match *kind {
            EventKind::HrtimerStart { function, .. }
            | EventKind::HrtimerExpireEntry { function, .. }
            | EventKind::TimerExpireEntry { function, .. }
            | EventKind::WorkqueueStart { function, .. }
            | EventKind::WorkqueueEnd { function, .. } => function,
            _ => return Ok(()),
        };
        if function == 0 || self.symbols.contains(&function) {
            return Ok(());
        }
        let name = names.symbol(function);
        if name.starts_with("0x") {
            return Ok(());
        }
        self.symbols.insert(function);
        let symbol = InternedString {
            iid: function,
            str: name,
        };
        self.packet(TracePacket {
            interned_data: Some(InternedData {
                kernel_symbols: vec![symbol],
            }),
            ..TracePacket::default()
        })
    }

    /// Writes an event that Perfetto does not show by itself.
    fn instant(&mut self, time: Nanos, cpu: u32, pid: u32, text: String) -> io::Result<()> {
        let track_uuid = OTHERS + 1 + u64::from(cpu);
        if self.others.is_empty() {
            self.track(TrackDescriptor {
                uuid: OTHERS,
                name: "Other events".to_owned(),
                ..TrackDescriptor::default()
            })?;
        }
        if self.others.insert(cpu) {
            self.track(TrackDescriptor {
                uuid: track_uuid,
                name: format!("Other events of CPU {cpu}"),
                parent_uuid: Some(OTHERS),
                ..TrackDescriptor::default()
            })?;
        }
        let thread = blame::number("tid", pid.into());
        self.track_event(
            time,
            TrackEvent {
                debug_annotations: vec![thread],
                r#type: Type::Instant.into(),
                track_uuid,
                categories: vec!["event".to_owned()],
                name: Some(text),
                ..TrackEvent::default()
            },
        )
    }

    /// Writes the version of the kernel, which determines the meaning of the bits in a thread's
    /// state.
    fn system_info(&mut self, machine: &TracedMachine) -> io::Result<()> {
        // Without a version, Perfetto would interpret the states like those of later kernels.
        const UNKNOWN: &str = "4.14.0 or later, not recorded";
        let utsname = Utsname {
            sysname: "Linux".to_owned(),
            release: (machine.kernel.clone()).unwrap_or_else(|| UNKNOWN.to_owned()),
            machine: machine.architecture.clone(),
        };
        self.packet(TracePacket {
            data: Some(Data::SystemInfo(SystemInfo {
                utsname: Some(utsname),
            })),
            ..TracePacket::default()
        })
    }

    /// Writes the same moment on all clocks, so that Perfetto can show the date. Perfetto assumes
    /// that the kernel's events are on CLOCK_BOOTTIME, but punctual's are on CLOCK_MONOTONIC. The
    /// two clocks differ after a suspension.
    fn clocks(&mut self, time: Nanos, wall: Timestamp) -> io::Result<()> {
        const REALTIME: u32 = 1;
        const MONOTONIC: u32 = 3;
        let wall = u64::try_from(wall.as_nanosecond()).unwrap_or_default();
        let readings = [(BOOTTIME, time.0), (MONOTONIC, time.0), (REALTIME, wall)];
        let clocks = readings.map(|(clock_id, timestamp)| Clock {
            clock_id,
            timestamp,
        });
        self.packet(TracePacket {
            data: Some(Data::ClockSnapshot(ClockSnapshot {
                clocks: clocks.to_vec(),
                primary_trace_clock: BOOTTIME,
            })),
            ..TracePacket::default()
        })
    }
}
