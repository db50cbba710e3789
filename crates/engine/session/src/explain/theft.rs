//! Counters of the time that a hypervisor or the firmware took, read around each outlier.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use punctual_host::{Host, SmiWatch, StealWatch};
use punctual_model::{
    EventKind, Evidence, HandlerOf, HostFacts, Nanos, RealTimeLimit, SmiCount, StealCount,
    StealRise, TraceEvent, UsualLength,
};
use punctual_trace::StealRecorder;

use crate::lifecycle::monotonic;

/// Interval of reading the counters if there are no outliers. Outliers within one interval cannot
/// be distinguished.
const EACH: Nanos = Nanos::from_millis(50);

/// Maximum number of readings that are kept.
const KEPT: usize = 256;

/// The kernel counts stolen time at its next tick. This is the maximum delay until then, which is
/// assumed if HZ is unknown.
const TICK: Nanos = Nanos::from_millis(10);

/// Reads the counters repeatedly.
pub(super) struct TheftWatch {
    /// Facts that do not change during a run.
    known: Evidence,
    idle_exits: BTreeMap<u32, Nanos>,
    tick: Nanos,
    steal: Option<StealWatch>,
    /// For each CPU, the last value of its counter, and the increases.
    counts: BTreeMap<u32, (Nanos, StealCount)>,
    read_at: Nanos,
    smis: BTreeMap<u32, CpuSmis>,
    own: OwnSmis,
}

impl TheftWatch {
    /// Starts reading the counters. `cpus`: the measured CPUs.
    pub(super) fn begin(host: &Host, facts: &HostFacts, cpus: &[u32]) -> Self {
        let virtual_machine = facts.virtualisation.virtual_machine.get().copied();
        // On bare metal there is no hypervisor that could steal time.
        let steal = match virtual_machine {
            Some(false) => None,
            _ => host.watch_steal().ok(),
        };
        let smis = cpus.iter().filter_map(|cpu| {
            let watch = host.watch_smis(*cpu)?;
            Some((*cpu, CpuSmis::begin(watch)?))
        });
        let hz = facts.kernel.hz.get().filter(|hz| **hz > 0);
        let mut begun = Self {
            known: Evidence {
                virtual_machine,
                real_time_limit: real_time_limit(facts),
                ..Evidence::default()
            },
            idle_exits: idle_exits(facts),
            tick: hz.map_or(TICK, |hz| Nanos(1_000_000_000 / u64::from(*hz))),
            steal,
            counts: BTreeMap::new(),
            read_at: Nanos::ZERO,
            smis: smis.collect(),
            own: OwnSmis::begin(host),
        };
        begun.read();
        begun
    }

    /// Returns whether the machine counts stolen time.
    pub(super) const fn counts_steal(&self) -> bool {
        self.steal.is_some()
    }

    /// Reads the counters if they are due.
    pub(super) fn look(&mut self) {
        if monotonic() >= self.read_at + EACH {
            self.read();
        }
    }

    /// Reads the counters after an outlier that ended at `end`. The kernel counts stolen time at
    /// its next tick, so this waits for it, unless the recorder already has the value.
    pub(super) fn look_after(&mut self, end: Nanos, recorder: Option<&StealRecorder>) {
        let knows = |recorder: &StealRecorder| {
            let mut cpus = self.counts.keys();
            cpus.any(|cpu| recorder.around(*cpu, (end, end)).is_some())
        };
        if self.steal.is_some() && !recorder.is_some_and(knows) {
            let left = (end + self.tick).saturating_sub(monotonic());
            std::thread::sleep(std::time::Duration::from(left.min(TICK)));
        }
        self.read();
    }

    fn read(&mut self) {
        let (from, before) = (self.read_at, monotonic());
        self.read_at = before;
        self.own.read();
        let counts = &mut self.counts;
        let Some(steal) = &mut self.steal else {
            return;
        };
        let mut read = Vec::new();
        if steal.read(|cpu, value| read.push((cpu, value))).is_err() {
            return;
        }
        let after = monotonic();
        for (cpu, value) in read {
            let begin = || (value, begun(cpu, before));
            let (last, count) = counts.entry(cpu).or_insert_with(begin);
            // For a CPU that was offline at the last reading, start again.
            if count.to < from {
                (*last, *count) = begin();
            }
            if value > *last {
                // The kernel may have counted part of the increase one tick later.
                count.rises.push(StealRise {
                    from: count.to.saturating_sub(self.tick),
                    to: after,
                    stolen: value - *last,
                });
            }
            (*last, count.to) = (value, before);
            let beyond = count.rises.len().saturating_sub(KEPT);
            if let Some(dropped) = count.rises.drain(..beyond).next_back() {
                count.from = dropped.to;
            }
        }
    }

    /// Returns the evidence for an outlier on `cpu` and its events.
    pub(super) fn evidence(
        &mut self,
        cpu: u32,
        (from, to): (Nanos, Nanos),
        events: &[TraceEvent],
        recorder: Option<&StealRecorder>,
    ) -> Evidence {
        let concerned = |cpu: u32| events.iter().any(|event| event.cpu == cpu);
        // A machine that never counted stolen time may not count it at all.
        let counts = self.counts.values().any(|(value, _)| *value > Nanos::ZERO);
        let counts = self.counts.iter().filter(|_| counts);
        let counts = counts.filter(|(one, _)| **one == cpu || concerned(**one));
        let in_steps = counts.map(|(_, (_, count))| StealCount {
            rises: touching(&count.rises, (from, to)),
            // The count covers everything up to one tick before the last reading.
            to: count.to.saturating_sub(self.tick),
            ..count.clone()
        });
        let mut stolen: Vec<StealCount> = in_steps.collect();
        if let Some(recorder) = recorder {
            let cpus = self.counts.keys().copied();
            let cpus = cpus.filter(|one| *one == cpu || concerned(*one));
            stolen.extend(cpus.filter_map(|cpu| recorder.around(cpu, (from, to))));
        }
        Evidence {
            stolen,
            usual: recorder.map_or_else(Vec::new, |recorder| usual(recorder, events)),
            smi: self.smis_around(cpu, (from, to)),
            idle_exit: self.idle_exits.get(&cpu).copied(),
            ..self.known.clone()
        }
    }

    /// Returns the SMI count around a span. The CPU's register shows whether any SMI came since it
    /// was last read. The register of the current CPU gives a more precise time, because each SMI
    /// reaches all CPUs.
    fn smis_around(&mut self, cpu: u32, time: (Nanos, Nanos)) -> Option<SmiCount> {
        let since = self.smis.get_mut(&cpu)?.since()?;
        match self.own.around(time) {
            Some(around) if since.count > 0 && around.count > 0 => Some(around),
            _ => Some(since),
        }
    }
}

/// Starts BPF programs that record steal time; `None` if the kernel does not accept them.
pub(super) fn steal_recorder(host: &Host) -> Option<StealRecorder> {
    let last = host.present().ok()?.iter().last()?;
    if host.root() != Path::new("/") {
        return None;
    }
    StealRecorder::start(last.saturating_add(1)).ok()
}

/// Returns the usual durations of the handlers in these events.
fn usual(recorder: &StealRecorder, events: &[TraceEvent]) -> Vec<UsualLength> {
    let handlers = events.iter().filter_map(|event| match &event.kind {
        EventKind::IrqEntry { irq, .. } => Some(HandlerOf::Irq(*irq)),
        EventKind::SoftirqEntry { vec } => Some(HandlerOf::Softirq(*vec)),
        EventKind::VectorEntry { vector } => Some(HandlerOf::Vector(vector.name().to_owned())),
        _ => None,
    });
    let handlers: BTreeSet<HandlerOf> = handlers.collect();
    let handlers = handlers.into_iter();
    handlers.filter_map(|one| recorder.usual(one)).collect()
}

fn begun(cpu: u32, now: Nanos) -> StealCount {
    StealCount {
        cpu,
        from: now,
        to: now,
        step: StealWatch::STEP,
        rises: Vec::new(),
    }
}

fn touching(rises: &[StealRise], (from, to): (Nanos, Nanos)) -> Vec<StealRise> {
    let touch = |rise: &&StealRise| rise.from < to && rise.to > from;
    rises.iter().filter(touch).copied().collect()
}

/// SMIs of one CPU since the last reading. The register is read at the start and at each outlier on
/// the CPU, but not in between, because reading it would interrupt the CPU.
struct CpuSmis {
    watch: SmiWatch,
    last: u64,
    at: Nanos,
}

impl CpuSmis {
    fn begin(watch: SmiWatch) -> Option<Self> {
        let at = monotonic();
        let last = watch.read()?;
        Some(Self { watch, last, at })
    }

    fn since(&mut self) -> Option<SmiCount> {
        let (last, from) = (self.last, self.at);
        let now = monotonic();
        self.last = self.watch.read()?;
        self.at = now;
        let to = monotonic();
        let count = difference(last, self.last);
        Some(SmiCount { from, to, count })
    }
}

/// Returns the difference of two 32-bit counters.
fn difference(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & u64::from(u32::MAX)
}

/// SMIs of the CPU that the calling thread runs on.
struct OwnSmis {
    host: Host,
    /// The CPU, its register, and its count at the last reading.
    current: Option<(usize, SmiWatch, u64, Nanos)>,
    /// Readings of one CPU; each begins when the previous one ends.
    readings: VecDeque<SmiCount>,
    /// Set if no CPU has such a register.
    none: bool,
}

impl OwnSmis {
    fn begin(host: &Host) -> Self {
        Self {
            host: host.clone(),
            current: None,
            readings: VecDeque::new(),
            none: false,
        }
    }

    fn read(&mut self) {
        if self.none {
            return;
        }
        let (cpu, now) = (rustix::thread::sched_getcpu(), monotonic());
        match &mut self.current {
            Some((same, watch, last, at)) if *same == cpu => {
                let Some(value) = watch.read() else {
                    return self.none = true;
                };
                self.readings.push_back(SmiCount {
                    from: *at,
                    to: monotonic(),
                    count: difference(*last, value),
                });
                (*last, *at) = (value, now);
            }
            other => {
                // This CPU has also counted SMIs in the meantime, but the start of that time is
                // unknown.
                self.readings.clear();
                let watch = u32::try_from(cpu).ok();
                let watch = watch.and_then(|cpu| self.host.watch_smis(cpu));
                let value = watch.as_ref().and_then(SmiWatch::read);
                let found = watch.zip(value);
                self.none = found.is_none();
                *other = found.map(|(watch, value)| (cpu, watch, value, now));
            }
        }
        let beyond = self.readings.len().saturating_sub(KEPT);
        self.readings.drain(..beyond);
    }

    /// Returns the sum of the readings around a span; `None` if they do not cover it.
    fn around(&self, (from, to): (Nanos, Nanos)) -> Option<SmiCount> {
        let touching = self.readings.iter();
        let touching = touching.filter(|one| one.from <= to && one.to >= from);
        let around = touching.copied().reduce(|sum, one| SmiCount {
            from: sum.from,
            to: one.to,
            count: sum.count + one.count,
        })?;
        (around.from <= from && around.to >= to).then_some(around)
    }
}

/// Returns the exit latency of the deepest enabled idle state, by CPU.
fn idle_exits(facts: &HostFacts) -> BTreeMap<u32, Nanos> {
    let longest = facts.cpus.iter().filter_map(|facts| {
        let states = facts.idle_states.value.as_ref()?;
        let used = states.iter().filter(|state| !state.disabled);
        Some((facts.cpu, used.map(|state| state.exit_latency_ns).max()?))
    });
    longest.collect()
}

/// Returns the limit for real-time threads. Linux 6.12 removed real-time throttling, except for
/// control groups, and added the deadline server for ordinary threads. Those of a sched_ext scheduler
/// have a server only since Linux 7.0 (kernel: `ext_server_init`); before, it is unknown which ordinary
/// threads are served.
fn real_time_limit(facts: &HostFacts) -> Option<RealTimeLimit> {
    let kernel = &facts.kernel;
    let mut numbers = (kernel.release.get()?).split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let version = (number()?, number()?);
    let by_group = || {
        let known = !kernel.options.is_empty();
        !known || kernel.options.contains_key("RT_GROUP_SCHED")
    };
    let has_sched_ext = kernel.sched_ext.get().is_some_and(|name| name != "none");
    Some(match kernel.rt_runtime_us.get() {
        _ if has_sched_ext && ((6, 12)..(7, 0)).contains(&version) => return None,
        _ if version >= (6, 12) && by_group() => RealTimeLimit::FairServerOrThrottling,
        _ if version >= (6, 12) => RealTimeLimit::FairServer,
        Some(..0) => RealTimeLimit::None,
        Some(_) => RealTimeLimit::Throttling,
        None => return None,
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::{Fact, RealTimeLimit};

    use super::real_time_limit;

    #[test]
    fn threads_of_sched_ext_have_no_server_before_linux_7() {
        let limit = |release: &str, scheduler: &str| {
            let mut facts = punctual_model::testing::recording(1, 1).host;
            let known = |text: &str| Fact::known(text.to_owned(), "file");
            facts.kernel.release = known(release);
            facts.kernel.sched_ext = known(scheduler);
            real_time_limit(&facts)
        };
        let server = Some(RealTimeLimit::FairServer);
        assert_eq!(limit("6.12.38", "none"), server);
        assert_eq!(limit("6.12.38", "lavd_1.0.6"), None);
        assert_eq!(limit("7.0.1", "lavd_1.0.6"), server);
        let older = Some(RealTimeLimit::Throttling);
        assert_eq!(limit("6.11.2", "none"), older);
    }
}
