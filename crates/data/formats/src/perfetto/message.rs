//! Those messages of Perfetto's format that are written, with the names and numbers from
//! `protos/perfetto/trace` (<https://github.com/google/perfetto>, v59). Perfetto calls names that
//! are written once and then referred to by a number *interned*.

/// A trace file. Several concatenated files are also a valid file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
    #[prost(oneof = "Data", tags = "1, 6, 11, 45, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "1")]
    FtraceEvents(FtraceEventBundle),
    #[prost(message, tag = "6")]
    ClockSnapshot(ClockSnapshot),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "45")]
    SystemInfo(SystemInfo),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "26")]
    pub(super) kernel_symbols: Vec<InternedString>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedString {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) str: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, tag = "2")]
    pub(super) primary_trace_clock: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) utsname: Option<Utsname>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Utsname {
    #[prost(string, tag = "1")]
    pub(super) sysname: String,
    #[prost(string, tag = "3")]
    pub(super) release: String,
    #[prost(string, optional, tag = "4")]
    pub(super) machine: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(string, optional, tag = "14")]
    pub(super) description: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "Type", tag = "9")]
    pub(super) r#type: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    /// Arrows that begin or go on at this slice.
    #[prost(fixed64, repeated, tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    /// Arrows that end at this slice.
    #[prost(fixed64, repeated, tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Type {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DebugAnnotation {
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(super) dict_entries: Vec<DebugAnnotation>,
    #[prost(message, repeated, tag = "12")]
    pub(super) array_values: Vec<DebugAnnotation>,
    #[prost(oneof = "Value", tags = "3, 6")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(uint64, tag = "3")]
    UintValue(u64),
    #[prost(string, tag = "6")]
    StringValue(String),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, tag = "1")]
    pub(super) cpu: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
    #[prost(bool, tag = "3")]
    pub(super) lost_events: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, tag = "1")]
    pub(super) timestamp: u64,
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(
        oneof = "Event",
        tags = "3, 4, 13, 17, 20, 24, 25, 26, 36, 37, 57, 58, 114, 238, 324, 325, 329, 330, \
                353, 491, 551, 552, 553, 554, 557, 558, 559, 560"
    )]
    pub(super) event: Option<Event>,
}

/// Kinds of events. In this program, kinds with the same fields share a message type.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Event {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "13")]
    CpuIdle(CpuIdle),
    #[prost(message, tag = "17")]
    SchedWakeup(SchedWaking),
    #[prost(message, tag = "20")]
    SchedWaking(SchedWaking),
    #[prost(message, tag = "24")]
    SoftirqEntry(Softirq),
    #[prost(message, tag = "25")]
    SoftirqExit(Softirq),
    #[prost(message, tag = "26")]
    SoftirqRaise(Softirq),
    #[prost(message, tag = "36")]
    IrqHandlerEntry(IrqHandlerEntry),
    #[prost(message, tag = "37")]
    IrqHandlerExit(IrqHandlerExit),
    #[prost(message, tag = "57")]
    WorkqueueExecuteEnd(WorkqueueExecute),
    #[prost(message, tag = "58")]
    WorkqueueExecuteStart(WorkqueueExecute),
    #[prost(message, tag = "114")]
    SchedWakeupNew(SchedWaking),
    #[prost(message, tag = "238")]
    SchedProcessExit(SchedProcessExit),
    #[prost(message, tag = "324")]
    SignalDeliver(SignalDeliver),
    #[prost(message, tag = "325")]
    SignalGenerate(SignalGenerate),
    #[prost(message, tag = "329")]
    SysEnter(SysEnter),
    #[prost(message, tag = "330")]
    SysExit(SysExit),
    #[prost(message, tag = "353")]
    SchedPiSetprio(SchedPiSetprio),
    #[prost(message, tag = "491")]
    SchedMigrateTask(SchedMigrateTask),
    #[prost(message, tag = "551")]
    HrtimerStart(HrtimerStart),
    #[prost(message, tag = "552")]
    HrtimerCancel(Timer),
    #[prost(message, tag = "553")]
    HrtimerExpireEntry(HrtimerExpireEntry),
    #[prost(message, tag = "554")]
    HrtimerExpireExit(Timer),
    #[prost(message, tag = "557")]
    TimerExpireEntry(TimerExpireEntry),
    #[prost(message, tag = "558")]
    TimerExpireExit(Timer),
    #[prost(message, tag = "559")]
    LocalTimerEntry(LocalTimer),
    #[prost(message, tag = "560")]
    LocalTimerExit(LocalTimer),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Print {
    #[prost(string, tag = "2")]
    pub(super) buf: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedSwitch {
    #[prost(string, tag = "1")]
    pub(super) prev_comm: String,
    #[prost(int32, tag = "2")]
    pub(super) prev_pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) prev_prio: i32,
    #[prost(int64, tag = "4")]
    pub(super) prev_state: i64,
    #[prost(string, tag = "5")]
    pub(super) next_comm: String,
    #[prost(int32, tag = "6")]
    pub(super) next_pid: i32,
    #[prost(int32, tag = "7")]
    pub(super) next_prio: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedWaking {
    #[prost(string, tag = "1")]
    pub(super) comm: String,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) prio: i32,
    #[prost(int32, tag = "5")]
    pub(super) target_cpu: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedMigrateTask {
    #[prost(string, tag = "1")]
    pub(super) comm: String,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) prio: i32,
    #[prost(int32, tag = "4")]
    pub(super) orig_cpu: i32,
    #[prost(int32, tag = "5")]
    pub(super) dest_cpu: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedPiSetprio {
    #[prost(string, tag = "1")]
    pub(super) comm: String,
    #[prost(int32, tag = "2")]
    pub(super) newprio: i32,
    #[prost(int32, tag = "3")]
    pub(super) oldprio: i32,
    #[prost(int32, tag = "4")]
    pub(super) pid: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchedProcessExit {
    #[prost(string, tag = "1")]
    pub(super) comm: String,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "4")]
    pub(super) prio: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IrqHandlerEntry {
    #[prost(int32, tag = "1")]
    pub(super) irq: i32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct IrqHandlerExit {
    #[prost(int32, tag = "1")]
    pub(super) irq: i32,
    #[prost(int32, tag = "2")]
    pub(super) ret: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Softirq {
    #[prost(uint32, tag = "1")]
    pub(super) vec: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct LocalTimer {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct HrtimerStart {
    #[prost(uint64, tag = "1")]
    pub(super) hrtimer: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function: u64,
    #[prost(int64, tag = "3")]
    pub(super) expires: i64,
    #[prost(int64, tag = "4")]
    pub(super) softexpires: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct HrtimerExpireEntry {
    #[prost(uint64, tag = "1")]
    pub(super) hrtimer: u64,
    #[prost(int64, tag = "2")]
    pub(super) now: i64,
    #[prost(uint64, tag = "3")]
    pub(super) function: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct TimerExpireEntry {
    #[prost(uint64, tag = "1")]
    pub(super) timer: u64,
    #[prost(uint64, tag = "3")]
    pub(super) function: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Timer {
    #[prost(uint64, tag = "1")]
    pub(super) timer: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct CpuIdle {
    #[prost(uint32, tag = "1")]
    pub(super) state: u32,
    #[prost(uint32, tag = "2")]
    pub(super) cpu_id: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct WorkqueueExecute {
    #[prost(uint64, tag = "1")]
    pub(super) work: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SignalGenerate {
    #[prost(string, tag = "2")]
    pub(super) comm: String,
    #[prost(int32, tag = "4")]
    pub(super) pid: i32,
    #[prost(int32, tag = "6")]
    pub(super) sig: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct SignalDeliver {
    #[prost(int32, tag = "3")]
    pub(super) sig: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SysEnter {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) args: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct SysExit {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(int64, tag = "2")]
    pub(super) ret: i64,
}
