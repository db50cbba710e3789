//! Source of the events of the watched threads.

use punctual_host::Host;
use punctual_model::{Comm, Delay, Task, listed};
use punctual_trace::{
    CounterEvents, Descent, Followed, JobAsk, JobRecorder, Level, Scout, ScoutEvent, TraceError,
    Tracefs,
};

use super::{JobDetail, ObserveRequest};
use crate::explain::Explainer;
use crate::{SessionError, Targets};

/// Maximum number of threads whose jobs are timed in the kernel.
const TIMED: u32 = 16_384;

/// Maximum number of threads whose jobs are counted in the kernel, which takes 92 kB each.
pub(super) const COUNTED: u32 = 64;

/// Source of the events of the watched threads.
pub(super) enum EventSource {
    /// A separate trace instance.
    Scout(Box<Scout>),
    /// The BPF programs of the explainer.
    Programs,
}

impl EventSource {
    /// Arms the recorder and the stream of the watched threads. If BPF programs could record the
    /// events but do not, also returns the reason.
    pub(super) fn arm(
        request: &ObserveRequest,
        host: &Host,
    ) -> Result<(Self, Explainer, Option<String>), SessionError> {
        let threshold = request.threshold();
        let mut why = None;
        if request.jobs.is_some() && request.explain.level <= Level::Jobs {
            if request.no_bpf {
                why = Some("not wanted (--no-bpf)".to_owned())
            } else {
                let pid_max = host.pid_max();
                let counters = (!request.no_counters).then_some(CounterEvents::HARDWARE);
                let ask = JobAsk {
                    pid_max,
                    budget: threshold,
                    joining: match &request.targets {
                        Targets::Comm(name) => Some(Comm::new(name.as_bytes())),
                        Targets::Pids(_) | Targets::Group(_) => None,
                    },
                    timed: TIMED,
                    counted: COUNTED,
                    counters,
                };
                match JobRecorder::start(ask) {
                    Ok(programs) => {
                        let explainer =
                            Explainer::with_programs(host, programs, threshold, Delay::Wakeup)?;
                        return Ok((Self::Programs, explainer, None));
                    }
                    Err(error) => why = Some(error.to_string()),
                }
            }
        }
        if let Some(JobDetail::Windows(Some(_))) = request.jobs.as_ref().map(|jobs| jobs.detail) {
            let why = why.unwrap_or_else(|| {
                "the events of --events full need the kernel's tracer".to_owned()
            });
            return Err(SessionError::CostNotLimited(why));
        }
        let explainer = Explainer::arm(host, request.events(), threshold, Delay::Wakeup)?;
        let tracefs = Tracefs::find(host.root())?;
        let (owner, clock) = (host.own_process(), explainer.clock());
        let scout = match request.jobs {
            Some(_) => tracefs.scout_of_jobs(owner, clock)?,
            None => tracefs.scout(owner, clock)?,
        };
        Ok((Self::Scout(Box::new(scout)), explainer, why))
    }

    pub(super) fn read(
        &mut self,
        explainer: &mut Explainer,
    ) -> Result<Vec<ScoutEvent>, TraceError> {
        match self {
            Self::Scout(scout) => scout.read(),
            Self::Programs => {
                let programs = explainer.programs();
                Ok(programs.map(JobRecorder::read).unwrap_or_default())
            }
        }
    }

    pub(super) fn follow(
        &self,
        explainer: &mut Explainer,
        followed: &Followed,
    ) -> Result<(), SessionError> {
        match self {
            Self::Scout(scout) => Ok(scout.follow(followed)?),
            Self::Programs => Ok(explainer.follow(followed)?),
        }
    }

    pub(super) fn has_calls(&self) -> bool {
        match self {
            Self::Scout(scout) => scout.has_calls(),
            Self::Programs => true,
        }
    }

    pub(super) fn lost(&self, explainer: &mut Explainer) -> u64 {
        match self {
            Self::Scout(scout) => scout.lost(),
            Self::Programs => explainer.programs().map_or(0, |programs| programs.lost()),
        }
    }

    pub(super) fn reset_by_others(&self) -> Option<String> {
        match self {
            Self::Scout(scout) => scout.reset_by_others(),
            Self::Programs => None,
        }
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        match self {
            Self::Scout(scout) => scout.stop(),
            Self::Programs => Ok(()),
        }
    }
}

/// Maximum number of names in a message.
const NAMED: usize = 4;

/// Processes of one kind: with the same parent and the same initial name.
struct Forked {
    parent: u32,
    first: Task,
    count: usize,
}

impl Forked {
    fn text(&self, at_least: &str) -> String {
        let Self {
            parent,
            first,
            count,
        } = self;
        match count {
            1 => format!("{first} (by {parent})"),
            count => {
                let comm = first.comm;
                format!(
                    "{first} and {at_least}{} more {comm} (by {parent})",
                    count - 1
                )
            }
        }
    }
}

/// Describes the processes that the watched threads forked and executed. A server may fork a process
/// for each request, so processes of one kind are counted.
pub(super) fn descents(all: &[Descent], watched: impl Fn(u32) -> bool) -> Vec<String> {
    let mut forked: Vec<Forked> = Vec::new();
    let mut changed = Vec::new();
    for one in all {
        match one {
            Descent::Fork { child, .. } if watched(child.pid) => {}
            Descent::Fork { child, parent } => {
                let same =
                    |one: &&mut Forked| one.parent == *parent && one.first.comm == child.comm;
                match forked.iter_mut().find(same) {
                    Some(kind) => kind.count += 1,
                    None => forked.push(Forked {
                        parent: *parent,
                        first: *child,
                        count: 1,
                    }),
                }
            }
            Descent::Exec(task) => changed.push(task.to_string()),
        }
    }
    let at_least = if all.len() < JobRecorder::MAX_DESCENTS {
        ""
    } else {
        "at least "
    };
    let forked: Vec<String> = forked.iter().map(|kind| kind.text(at_least)).collect();
    let list = |names: &[String]| listed(names, NAMED);
    let mut notes = Vec::new();
    if !forked.is_empty() {
        notes.push(format!(
            "watched threads forked processes that are not watched: {}",
            list(&forked)
        ));
    }
    if !changed.is_empty() {
        notes.push(format!(
            "watched threads executed another program (exec): {}; jobs before and after exec are \
             counted together",
            list(&changed)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use punctual_model::KernelPriority;

    use super::*;

    fn fork(parent: u32, pid: u32, comm: &[u8]) -> Descent {
        Descent::Fork {
            parent,
            child: Task {
                pid,
                comm: Comm::new(comm),
                prio: KernelPriority(120),
            },
        }
    }

    #[test]
    fn forked_processes_are_counted_by_kind() {
        let mut all: Vec<Descent> = (0..7).map(|n| fork(10, 100 + n, b"postgres")).collect();
        all.insert(3, fork(11, 200, b"postgres"));
        all.push(fork(10, 300, b"sh"));
        let notes = descents(&all, |tid| [101, 102].contains(&tid));
        let expected = "watched threads forked processes that are not watched: postgres-100 and 4 more \
                        postgres (by 10), postgres-200 (by 11), sh-300 (by 10)";
        assert_eq!(notes, [expected]);
    }

    #[test]
    fn incomplete_count_of_forks_says_so() {
        let most = u32::try_from(JobRecorder::MAX_DESCENTS).unwrap();
        let all: Vec<Descent> = (1..=most).map(|pid| fork(1, pid, b"sh")).collect();
        let notes = descents(&all, |_| false).concat();
        assert!(
            notes.ends_with("sh-1 and at least 4095 more sh (by 1)"),
            "{notes}"
        );
    }
}
