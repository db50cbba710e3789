//! Counts acts of real-time threads in the kernel, using BPF programs (`bpf/lint.bpf.c`).

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};

use aya::include_bytes_aligned;
use punctual_model::{ActKind, Acts};

use super::calls::calls;
use super::layout::{Cpu, Site, Tally};
use super::{LintAsk, LintTarget};
use crate::WatchError;
use crate::bpf::{Programs, Reads};

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(super) static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/lint.bpf.o");

/// A program, its tracepoint, and the acts that cannot be seen without it.
type Program = (&'static str, &'static str, &'static [ActKind]);

const WOKEN: &[ActKind] = &[ActKind::WokenByThread, ActKind::WokenBySoftirq];

/// The program that is always required.
const SWITCHING: &str = "switching";

/// The programs for system calls, which are attached only some of the time, and their tracepoints.
const CALLS: [(&str, &str); 2] = [("calling", "sys_enter"), ("called", "sys_exit")];

/// Programs, in the order in which they are attached.
const PROGRAMS: &[Program] = &[
    ("irq_handler_begins", "irq_handler_entry", WOKEN),
    ("irq_handler_ends", "irq_handler_exit", WOKEN),
    ("timer_begins", "hrtimer_expire_entry", WOKEN),
    ("timer_ends", "hrtimer_expire_exit", WOKEN),
    ("softirq_begins", "softirq_entry", WOKEN),
    ("softirq_ends", "softirq_exit", WOKEN),
    // Which of these tracepoints a kernel has depends on the architecture.
    ("local_timer_begins", "local_timer_entry", &[]),
    ("local_timer_ends", "local_timer_exit", &[]),
    ("irq_work_begins", "irq_work_entry", &[]),
    ("irq_work_ends", "irq_work_exit", &[]),
    ("call_function_begins", "call_function_entry", &[]),
    ("call_function_ends", "call_function_exit", &[]),
    (
        "call_function_single_begins",
        "call_function_single_entry",
        &[],
    ),
    (
        "call_function_single_ends",
        "call_function_single_exit",
        &[],
    ),
    ("ipi_begins", "ipi_entry", &[]),
    ("ipi_ends", "ipi_exit", &[]),
    ("exiting", "sched_process_exit", &[]),
    ("executing", "sched_process_exec", &[]),
    (
        "waking",
        "sched_waking",
        &[
            ActKind::WokenByThread,
            ActKind::WokenBySoftirq,
            ActKind::Queue,
        ],
    ),
    ("inheriting", "sched_pi_setprio", &[ActKind::Inherit]),
    ("faulting", "page_fault_user", &[ActKind::Fault]),
    ("faulting_in_call", "page_fault_kernel", &[ActKind::Fault]),
    ("signalled", "signal_deliver", &[ActKind::Signal]),
    ("contending", "contention_begin", &[ActKind::KernelLock]),
    ("contended", "contention_end", &[]),
    ("migrating", "sched_migrate_task", &[ActKind::Migrate]),
    (SWITCHING, "sched_switch", &[ActKind::Sleep, ActKind::Queue]),
];

/// The running programs. Dropping this value stops them.
pub(super) struct BpfLint {
    programs: Programs,
    unseen: BTreeMap<ActKind, String>,
}

impl std::fmt::Debug for BpfLint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpfLint")
            .field("unseen", &self.unseen)
            .finish_non_exhaustive()
    }
}

impl BpfLint {
    /// Loads and starts the programs.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub(super) fn start(ask: &LintAsk) -> Result<Self, WatchError> {
        let programs = Programs::load(OBJECT, Reads::Registers, |loader| {
            loader
                .override_global("first_sleeps", &ask.first_sleeps, true)
                .override_global("first_ns", &ask.first.0, true);
        })?;
        let mut lint = Self {
            programs,
            unseen: BTreeMap::new(),
        };
        lint.fill_calls()?;
        lint.watch(&ask.targets, &[])?;
        for (name, tracepoint, acts) in PROGRAMS {
            if let Err(error) = lint.programs.attach(name, tracepoint) {
                if *name == SWITCHING {
                    return Err(error);
                }
                for act in *acts {
                    let why = format!("the event {tracepoint} cannot be watched: {error}");
                    lint.unseen.entry(*act).or_insert(why);
                }
            }
        }
        Ok(lint)
    }

    fn fill_calls(&mut self) -> Result<(), WatchError> {
        let mut map: Array<&mut MapData, u32> = self.programs.map_mut("calls")?.try_into()?;
        let limit = map.len();
        for (number, flags) in calls() {
            if let Some(number) = u32::try_from(number).ok().filter(|number| *number < limit) {
                map.set(number, flags, 0)?;
            }
        }
        Ok(())
    }

    /// Starts tracing system calls.
    pub(super) fn trace_calls(&mut self) {
        for (name, tracepoint) in CALLS {
            if let Err(error) = self.programs.attach(name, tracepoint) {
                let why = format!("the event {tracepoint} cannot be watched: {error}");
                self.unseen.insert(ActKind::Memory, why.clone());
                self.unseen.insert(ActKind::File, why);
            }
        }
    }

    /// Stops tracing system calls.
    pub(super) fn stop_calls(&mut self) {
        for (name, _) in CALLS {
            self.programs.detach(name);
        }
    }

    /// Starts watching these targets, and stops watching those in `no_longer`.
    pub(super) fn watch(
        &mut self,
        targets: &[LintTarget],
        no_longer: &[LintTarget],
    ) -> Result<(), WatchError> {
        let mut map: HashMap<&mut MapData, u64, u32> =
            self.programs.map_mut("targets")?.try_into()?;
        for target in targets {
            map.insert(target.key(), 1, 0)?;
        }
        for target in no_longer {
            // The removal fails if the target was never watched.
            let _ = map.remove(&target.key());
        }
        Ok(())
    }

    pub(super) fn unseen(&self) -> Vec<(ActKind, String)> {
        let all = self.unseen.iter();
        all.map(|(act, why)| (*act, why.clone())).collect()
    }

    /// Returns the counts so far.
    pub(super) fn read(&self) -> Result<Acts, WatchError> {
        let mut acts = Acts::default();
        let cpus: PerCpuArray<&MapData, Cpu> = self.programs.map("cpus")?.try_into()?;
        for cpu in cpus.get(&0, 0)?.iter() {
            acts.lost += cpu.lost;
            acts.switches += cpu.switches;
            acts.execs += cpu.execs;
        }
        let sites: HashMap<&MapData, Site, Tally> = self.programs.map("sites")?.try_into()?;
        for entry in sites.iter() {
            let (site, tally) = entry?;
            acts.acts.extend(site.act(&tally));
        }
        Ok(acts)
    }
}
