//! Jobs of an application's threads: from the release to the completion.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Histogram, Nanos, Task};

/// The jobs of the watched threads of a run. A job begins with the wake-up that ends a
/// thread's release wait, and ends when the thread returns to that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The response time above which a job is an outlier.
    pub budget_ns: Nanos,
    /// Explained jobs whose largest share this program itself took: no fault of the
    /// application or the machine.
    pub caused_by_observer: u64,
    /// The windows of time in which jobs were watched; null: the whole run.
    #[serde(default)]
    pub windows: Option<JobWindows>,
    /// What each thread did, by its place in `threads`.
    pub threads: Vec<ThreadJobs>,
}

/// The windows of time in which jobs were watched, where the cost of this was limited. All
/// jobs that began within a window count, and no others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobWindows {
    /// The limit of the CPU time that watching takes, as a part of the run's time: 0.02 is 2%
    /// of one CPU.
    pub limit: f64,
    /// What it took: to record system calls, on all CPUs, and the CPU time of this program.
    /// What the scheduler's events took is not part of it.
    pub taken: f64,
    /// How many.
    pub count: u64,
    /// Their time, all together.
    pub watched_ns: Nanos,
    /// What it took to record a system call of a watched thread, measured at the start.
    pub call_ns: Nanos,
    /// What it took of any other thread.
    pub other_call_ns: Nanos,
}

/// The jobs of one thread. Their response times are its `histogram` in the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadJobs {
    /// Its place in `threads`.
    pub thread: u32,
    /// The wait that ends each job; null: none was found, and no job is known.
    pub release: Option<ReleaseWait>,
    /// Jobs from release to completion.
    pub jobs: u64,
    /// Those above the budget.
    pub over_budget: u64,
    /// Those whose release did not have to be waited for: the thread came back to its
    /// wait too late. When they were really released is not known.
    pub released_at_once: u64,
    /// Jobs that were left out because trace events were lost, or because the thread or
    /// the run ended before them.
    pub incomplete: u64,
    /// Waits of the thread that were seen, of any kind.
    pub waits: u64,
    /// Where it waited, by falling time, as far as the system call is known; at most
    /// eight.
    pub places: Vec<WaitPlace>,
    /// The time on a CPU of each job, in nanoseconds; interrupts on top of the thread
    /// are part of it.
    pub execution: Histogram,
}

/// A place where a thread waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitPlace {
    /// The system call.
    pub call: String,
    /// What it waits for, as in [`ReleaseWait`].
    pub object: Option<String>,
    /// How often.
    pub count: u64,
    /// How long, all together.
    pub total_ns: Nanos,
    /// The median interval between wake-ups, where they are regular.
    pub period_ns: Option<Nanos>,
}

/// The wait at which a thread is idle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseWait {
    /// The system call.
    pub call: String,
    /// What it waits for: a file descriptor with its target, a futex address, a clock;
    /// null where the call has no such argument.
    pub object: Option<String>,
    /// Who chose it.
    pub choice: ReleaseChoice,
    /// Waits of this kind that were seen when it was chosen.
    pub seen: u64,
    /// The median interval between wake-ups, where they came at nearly equal intervals
    /// (median deviation at most a quarter of it); null: irregular.
    pub period_ns: Option<Nanos>,
}

/// How a release wait was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseChoice {
    /// The most regular wait of the thread.
    #[default]
    Found,
    /// The user named its kind.
    Requested,
}

/// What one thread did while a job lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLane {
    /// The thread.
    pub task: Task,
    /// What it did, without gaps.
    pub spans: Vec<LaneSpan>,
}

/// A span of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// Where it begins, on CLOCK_MONOTONIC.
    pub from: Nanos,
    /// Where it ends.
    pub to: Nanos,
    /// Where it ran.
    pub cpu: Option<u32>,
    /// What it did.
    pub state: LaneState,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// It has a CPU.
    Running,
    /// It is runnable, and another has its CPU.
    Ready,
    /// It waits for something.
    Asleep,
    /// A signal or a debugger stopped it.
    Stopped,
    /// No event shows it.
    Unknown,
}
