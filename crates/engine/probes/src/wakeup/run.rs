//! One run, with the threads of all pairs and the separate processes, if any.

use std::ffi::OsString;
use std::sync::Arc;

use punctual_model::{Cell, Nanos, Policy, Scheduling, Table};
use punctual_rt::{SharedNumbers, ThreadBuilder};

use super::ReadyPairs;
use super::child_process::ChildPlan;
use super::cross_process::{self, PostingTask};
use super::locations::Location;
use super::mechanisms::Way;
use super::pair::{Pair, PairSettings, poster, waiter};
use super::schedule::Schedule;
use super::shared_state::Numbers;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{Control, Measured, PartnerError, ProbeError, Recorder, WorkerOutcome};

/// One run, with any mechanism.
pub(super) struct Run<'a> {
    pub(super) plan: &'a ReadyPairs,
    pub(super) control: &'a Arc<Control>,
}

impl Run<'_> {
    pub(super) fn measure<W: Way>(
        &self,
        recorders: Vec<Recorder>,
        make: impl Fn() -> Result<W, punctual_rt::Error>,
    ) -> Result<Measured, ProbeError> {
        self.measure_with(recorders, |_| make())
    }

    /// Measures with a mechanism that is made from the numbers that both ends share.
    pub(super) fn measure_with<W: Way>(
        &self,
        recorders: Vec<Recorder>,
        make: impl Fn(&Numbers) -> Result<W, punctual_rt::Error>,
    ) -> Result<Measured, ProbeError> {
        let mut group = ThreadGroup::new(self.control);
        let mut pairs = Vec::with_capacity(recorders.len());
        for (number, recorder) in recorders.into_iter().enumerate() {
            let numbers = match self.plan.partner {
                Some(_) => Numbers::Shared(Arc::new(SharedNumbers::new()?)),
                None => Numbers::own(),
            };
            let pair = Arc::new(Pair::new(make(&numbers)?, numbers));
            self.start(&mut group, number, &pair, recorder)?;
            pairs.push(pair);
        }
        group.go();
        let workers = group.join()?;
        let tables = [self.partners(&pairs), self.given_up(&pairs)];
        Ok(Measured {
            workers,
            tables: tables.into_iter().flatten().collect(),
            warnings: Vec::new(),
        })
    }

    /// Returns the usage of the posting threads' processes.
    fn partners<W: Way>(&self, pairs: &[Arc<Pair<W>>]) -> Option<Table> {
        self.plan.partner.as_ref()?;
        let mut table = Table::new(
            "partners",
            "Processes of the posting threads, while they posted",
            &[
                ("pair", "pair"),
                ("thread", "thread"),
                ("page_faults_minor", "minor faults"),
                ("page_faults_major", "major faults"),
                ("switches_voluntary", "switches, voluntary"),
                ("switches_involuntary", "involuntary"),
                ("cpu_time_ns", "CPU time"),
            ],
        );
        for (place, pair) in self.plan.locations.iter().zip(pairs) {
            let (state, title) = (pair.state(), place.worker().title());
            let used = state.usage();
            let tid = state.partner().map(|tid| tid.to_string());
            table.push([
                Cell::from(title),
                tid.map_or(Cell::Unknown, Cell::from),
                used.page_faults_minor.into(),
                used.page_faults_major.into(),
                used.switches_voluntary.into(),
                used.switches_involuntary.into(),
                used.cpu_time_ns.into(),
            ]);
        }
        Some(table)
    }

    /// Returns a table that shows how often the waiting threads gave up.
    fn given_up<W: Way>(&self, pairs: &[Arc<Pair<W>>]) -> Option<Table> {
        let given_up: Option<Vec<u64>> = pairs.iter().map(|pair| pair.way().given_up()).collect();
        let columns = [("pair", "pair"), ("timeouts", "timeouts")];
        let mut table = Table::new("timeouts", "Waits that timed out and began again", &columns);
        for (place, timeouts) in self.plan.locations.iter().zip(given_up?) {
            table.push([Cell::from(place.worker().title()), timeouts.into()]);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    fn pair_settings(&self, place: &Location) -> PairSettings {
        PairSettings {
            turns: Schedule {
                start: Nanos::ZERO,
                interval: place.interval,
                pairs: place.turns,
                length: Schedule::length(self.plan.terms.duration, place.interval, place.turns),
                end: Nanos::ZERO,
            },
            warm: self.plan.probe.warm,
            wakeups: self.plan.probe.wakeups.unwrap_or(u64::MAX),
            duration: self.plan.terms.duration,
            offset: place.offset,
            pair: place.turn,
            pairs: self.plan.locations.len() as u64,
        }
    }

    /// Starts the two threads of a pair. The waiting thread is started first, because at the end,
    /// the posting thread waits for it.
    fn start<W: Way>(
        &self,
        group: &mut ThreadGroup<WorkerOutcome>,
        number: usize,
        pair: &Arc<Pair<W>>,
        recorder: Recorder,
    ) -> Result<(), ProbeError> {
        let place = &self.plan.locations[number];
        let builder = |name: &str, cpu: &Option<u32>, scheduling: Scheduling| {
            let cpus = match cpu {
                Some(cpu) => std::slice::from_ref(cpu),
                // The threads of these pairs are not bound to a CPU.
                None => &self.plan.terms.cpus,
            };
            measuring_thread(&format!("{name}/{}", place.name), cpus, scheduling)
        };
        let surroundings = self.pair_settings(place);
        group.spawn_member(builder("wait", &place.to, place.scheduling), {
            let pair = Arc::clone(pair);
            move |member| waiter(&pair, recorder, &surroundings, member)
        })?;
        if let Some(command) = &self.plan.partner {
            let child_plan = self.child_plan(command, place, pair)?;
            let supervisor = ThreadBuilder::new(&format!("keep/{}", place.name));
            return group.spawn_member(supervisor, |member| {
                child_plan.supervise(member).map(|()| None)
            });
        }
        group.spawn_member(builder("post", &place.from, below(place.scheduling)), {
            let pair = Arc::clone(pair);
            move |member| {
                poster(pair.state(), pair.way().post_end()?, &surroundings, member).map(|_| None)
            }
        })
    }

    /// Returns the plan for supervising a posting thread in a separate process.
    fn child_plan<W: Way>(
        &self,
        command: &[OsString],
        place: &Location,
        pair: &Pair<W>,
    ) -> Result<ChildPlan, ProbeError> {
        let cannot = || ProbeError::Unfit(cross_process::ways_there_are(self.plan.probe.via));
        let numbers = pair.shared().ok_or_else(cannot)?;
        let (end, descriptor) = pair.way().reach().ok_or_else(cannot)?;
        let own = descriptor.map(|end| end.try_clone_to_owned()).transpose();
        Ok(ChildPlan {
            command: command.to_vec(),
            numbers: Arc::clone(numbers),
            descriptor: own.map_err(PartnerError::Descriptor)?,
            task: PostingTask {
                name: format!("post/{}", place.name),
                numbers: 0,
                end,
                descriptor: None,
                cpus: place
                    .from
                    .map_or(self.plan.terms.cpus.clone(), |cpu| vec![cpu]),
                scheduling: below(place.scheduling),
                settings: PairSettings {
                    wakeups: u64::MAX,
                    ..self.pair_settings(place)
                },
            },
        })
    }
}

/// Returns the poster's policy: one priority lower, if possible, so that the woken thread on the
/// same CPU runs immediately.
pub(super) fn below(scheduling: Scheduling) -> Scheduling {
    match scheduling.policy {
        Policy::Fifo | Policy::RoundRobin => Scheduling {
            priority: scheduling.priority.saturating_sub(1).max(1),
            ..scheduling
        },
        _ => scheduling,
    }
}
