//! Example of a 1 kHz loop that is set up correctly: memory locked before the thread starts, a
//! prefaulted stack, SCHED_FIFO, absolute release times with complete accounting, and figures that
//! `punctual app list` and `punctual app record control-loop` read.
//!
//! Usage: `control_loop [SECONDS]`, 10 by default.
#![allow(clippy::print_stdout)] // an example may print

use std::error::Error;
use std::time::Duration;

use punctual_app::{ChannelSpec, Figures, Kind};
use punctual_rt::{
    Clock, LockMode, OverrunPolicy, Periodic, Policy, ThreadBuilder, lock_process_memory,
    max_permitted_priority,
};

const PERIOD: Duration = Duration::from_millis(1);
/// Wake-up latency budget.
const BUDGET_NS: u64 = 100_000;

type Failure = Box<dyn Error + Send + Sync>;

pub(crate) fn main() -> Result<(), Failure> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    // Lock memory before starting threads, so that their stacks are locked as well.
    let _locked = lock_process_memory(LockMode::OnFault)
        .inspect_err(|error| println!("memory not locked: {error}"))
        .ok();
    let policy = match max_permitted_priority() {
        0 => Policy::Other { nice: 0 },
        // Not 99, because kernel threads of that priority (migration) must be able to preempt this
        // one.
        highest => Policy::Fifo {
            priority: highest.min(80),
        },
    };
    let thread = ThreadBuilder::new("control")
        .policy(policy)
        .prefault_stack(256 << 10)
        .spawn(move || control(Duration::from_secs(seconds)))?;
    thread.join()?
}

pub(crate) fn control(length: Duration) -> Result<(), Failure> {
    let figures = Figures::create("control-loop", 2)?;
    let period_ns = PERIOD.as_nanos() as u64;
    let mut latency = figures.channel(&ChannelSpec {
        name: "control",
        kind: Kind::Latency,
        period_ns,
        budget_ns: BUDGET_NS,
    })?;
    let mut response = figures.channel(&ChannelSpec {
        name: "control",
        kind: Kind::Response,
        period_ns,
        budget_ns: period_ns,
    })?;
    let mut state = 0.0_f64;
    let mut periodic = Periodic::new(PERIOD, OverrunPolicy::Skip)?;
    let end = periodic.next_release() + length;
    while periodic.next_release() < end {
        // `None` means that a signal handler ran. A real program would check its stop flag here.
        let Some(job) = periodic.wait()? else {
            continue;
        };
        let release = job.release.as_nanos();
        latency.record(release, job.latency_ns() as i64);
        // The work of the job, which does not allocate, lock or block.
        state = std::hint::black_box(state * 0.99 + 0.01);
        let done = Clock::Monotonic.now().as_nanos();
        response.record(release, done.saturating_sub(release) as i64);
        let account = periodic.account();
        latency.account(account.due, account.missed, account.late);
    }
    let account = periodic.account();
    println!(
        "{} due, {} run, {} missed, {} late",
        account.due, account.run, account.missed, account.late
    );
    Ok(())
}
