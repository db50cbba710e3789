//! Code that the scenes share: the recorder, the victim, and the comparison.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{
    Blame, Comm, Delay, Nanos, Policy as ModelPolicy, Scheduling, Share, ShareKind, Victim, Window,
};
use punctual_rt::{
    Clock, Instant, JoinHandle, Nanosleep, PeriodicWait, Policy, ThreadBuilder, Tid, current_tid,
};
use punctual_trace::{Flight, Level, Owner, Plan, Tracefs};

/// Scenes run one at a time, because they need CPUs that no other scene is using.
static STAGE: Mutex<()> = Mutex::new(());

/// Number of attempts after which a scene has failed.
pub(crate) const TIMES: usize = 10;

/// A machine on which scenes can be played.
pub(crate) struct Stage {
    pub(crate) flight: Flight,
    /// The CPUs that this process may use.
    pub(crate) cpus: Vec<u32>,
    _alone: MutexGuard<'static, ()>,
}

/// A span of time on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl Span {
    /// Returns the length of that part of the span which lies between two times.
    pub(crate) fn within(self, from: Nanos, to: Nanos) -> Nanos {
        self.to.min(to) - self.from.max(from)
    }
}

/// The cause that an explanation must name, and how long it took.
#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) kind: ShareKind,
    /// The beginning of the cause's name.
    pub(crate) who: String,
    pub(crate) took: Nanos,
}

/// The result of one attempt.
pub(crate) struct Played {
    pub(crate) window: Window,
    pub(crate) blame: Blame,
}

impl Stage {
    /// Returns `None` and prints the reason if scenes cannot be played on this machine.
    pub(crate) fn set(cpus: usize) -> Option<Self> {
        let alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        if punctual_rt::max_permitted_priority() < 70 {
            punctual_testing::skip!(Right, "ground truth of culprits: no real-time priorities");
            return None;
        }
        let allowed = punctual_rt::affinity::current().unwrap();
        if allowed.len() < cpus {
            punctual_testing::skip!(Hardware, "{cpus} CPUs are needed, there are {allowed:?}");
            return None;
        }
        let pid = std::process::id();
        let owner = Owner {
            pid,
            start: Host::live().process_start(pid).unwrap(),
        };
        let plan = Plan {
            level: Level::Full,
            bytes_per_cpu: 4 << 20,
        };
        let root = std::path::Path::new("/");
        let armed = Tracefs::find(root).and_then(|tracefs| tracefs.arm(plan, owner, None));
        let mut flight = match armed {
            Ok(flight) => flight,
            Err(error) => {
                punctual_testing::skip_refused("ground truth of culprits", &error);
                return None;
            }
        };
        flight.switch(true).unwrap();
        Some(Self {
            flight,
            cpus: allowed,
            _alone: alone,
        })
    }

    /// Uses the recorder to explain why a thread was late.
    pub(crate) fn explain(&mut self, victim: &Came, cpu: u32) -> Played {
        self.flight.take_out().unwrap();
        let before = victim.due.saturating_sub(Nanos::from_millis(3));
        let cut = self
            .flight
            .slice_for(victim.tid, Some(cpu), before, victim.came);
        let window = Window {
            victim: Victim {
                tid: victim.tid,
                comm: Comm::new(b"victim"),
                scheduling: Some(victim.scheduling),
                cpu,
            },
            delay: Delay::Timer,
            expected: victim.due,
            actual: victim.came,
            events: cut.events,
            lost: cut.lost,
            left_out: 0,
            missing_events: self.flight.missing(),
            light_stage: None,
            clock_error: self.flight.clock().error,
            symbols: Default::default(),
            calls: Default::default(),
            evidence: Default::default(),
            host: Vec::new(),
            segments: Vec::new(),
            activity: Vec::new(),
        };
        let blame = punctual_culprit::find(&window).blame;
        let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, window.latency().0, "shares do not add up: {blame:#?}");
        Played { window, blame }
    }

    /// Repeats a scene until its result is correct.
    pub(crate) fn play(
        &mut self,
        name: &str,
        mut scene: impl FnMut(&mut Self) -> (Played, Vec<Truth>),
    ) -> Option<Played> {
        let mut seen = String::new();
        for time in 1..=TIMES {
            let (played, truths) = scene(self);
            let mut wrong: Vec<String> = truths
                .iter()
                .filter_map(|truth| disagreement(&played.blame, truth))
                .collect();
            wrong.extend(not_the_culprit(&played, &truths));
            if wrong.is_empty() {
                let sentence = played.blame.sentence();
                eprintln!("{name}, time {time}: {sentence} (truth: {truths:?})");
                return Some(played);
            }
            seen += &format!("{}\n  {}\n", wrong.join("; "), played.blame.sentence());
        }
        // If other programs compete for the CPUs, they take up more of each scene than the
        // tolerance allows.
        if let Some(crowd) = punctual_testing::crowded() {
            punctual_testing::skip!(Quiet, "{crowd}: {name}:\n{seen}");
            return None;
        }
        panic!("{name} was not blamed in {TIMES} times:\n{seen}");
    }
}

/// Causes that interrupt any thread, or that occur between the clock readings of two threads. A
/// thread that measures a span with the clock also counts the time of these causes. The explanation
/// correctly does not.
const NOT_SEEN_BY_THE_CLOCK: [ShareKind; 7] = [
    ShareKind::Interrupt,
    ShareKind::Softirq,
    ShareKind::Nmi,
    ShareKind::Silence,
    ShareKind::IdleExit,
    ShareKind::Scheduling,
    ShareKind::ReturnToUser,
];

/// Returns the difference between an explanation and the truth if it exceeds both 10% and 20 µs.
/// The time in the explanation may be lower by the time of interrupting causes.
pub(crate) fn disagreement(blame: &Blame, truth: &Truth) -> Option<String> {
    let fits = |share: &&Share| share.kind() == truth.kind && share.who().starts_with(&truth.who);
    let shares: Vec<&Share> = blame.shares.iter().filter(fits).collect();
    let found = Nanos(shares.iter().map(|share| share.ns.0).sum());
    let on_top = blame.shares.iter().filter(|share| !fits(share));
    let on_top = on_top.filter(|share| NOT_SEEN_BY_THE_CLOCK.contains(&share.kind()));
    let on_top = Nanos(on_top.map(|share| share.ns.0).sum());
    let allowed = Nanos((truth.took.0 / 10).max(20_000));
    match () {
        () if shares.is_empty() => Some(format!("no share of {truth:?}")),
        () if found > truth.took + allowed || found + on_top + allowed < truth.took => {
            Some(format!(
                "{found} instead of {} of {truth:?}, with {on_top} on top",
                truth.took
            ))
        }
        () => None,
    }
}

/// If most of the latency was caused by the scene, the main cause must be one of the scene's
/// causes.
fn not_the_culprit(played: &Played, truths: &[Truth]) -> Option<String> {
    let caused: u64 = truths.iter().map(|truth| truth.took.0).sum();
    let largest = played.blame.shares.iter().max_by_key(|share| share.ns)?;
    let fits =
        |truth: &Truth| largest.kind() == truth.kind && largest.who().starts_with(&truth.who);
    let mostly = caused * 2 > played.window.latency().0;
    (mostly && !truths.iter().any(fits)).then(|| format!("another is the culprit: {largest:?}"))
}

/// When a thread was due and when it woke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) tid: u32,
    pub(crate) scheduling: Scheduling,
    pub(crate) due: Nanos,
    pub(crate) came: Nanos,
}

pub(crate) fn now() -> Nanos {
    Nanos(Clock::Monotonic.now().as_nanos())
}

/// Returns a time in the near future, so that all threads can prepare.
pub(crate) fn soon() -> Nanos {
    now() + Nanos::from_millis(60)
}

pub(crate) fn sleep_until(time: Nanos) {
    let mut wait = Nanosleep::new(Clock::Monotonic).unwrap();
    while now() < time {
        let _ = wait.wait_until(Instant::from_nanos(time.0)).unwrap();
    }
}

/// Spins until the given time. Returns the span between its first and last clock readings.
pub(crate) fn spin_until(time: Nanos) -> Span {
    let from = now();
    punctual_rt::spin_until(Instant::from_nanos(time.0));
    Span { from, to: now() }
}

/// Spins until the given time. Returns the spans in which this thread had the CPU, according to its
/// clock readings.
pub(crate) fn spin_noting(until: Nanos) -> Vec<Span> {
    // A shorter gap is caused by an interrupt, not by another thread.
    const TAKEN: Nanos = Nanos::from_micros(30);
    let mut spans = Vec::with_capacity(1_000);
    let mut span = Span {
        from: now(),
        to: now(),
    };
    while span.to < until {
        let time = now();
        if time - span.to > TAKEN {
            spans.push(span);
            span.from = time;
        }
        span.to = time;
    }
    spans.push(span);
    spans
}

pub(crate) fn thread<T: Send + 'static>(
    name: &str,
    policy: Policy,
    cpus: &[u32],
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let builder = ThreadBuilder::new(name).policy(policy).cpus(cpus);
    builder.spawn(work).unwrap()
}

pub(crate) const fn fifo(priority: u8) -> Policy {
    Policy::Fifo { priority }
}

/// Starts a thread that sleeps until it is due, does some work, and reads the clock.
pub(crate) fn victim(
    policy: Policy,
    cpus: &[u32],
    due: Nanos,
    then: impl FnOnce() + Send + 'static,
) -> JoinHandle<Came> {
    thread("victim", policy, cpus, move || {
        sleep_until(due);
        then();
        Came {
            tid: tid(current_tid()),
            scheduling: scheduling(policy),
            due,
            came: now(),
        }
    })
}

pub(crate) fn tid(tid: Tid) -> u32 {
    u32::try_from(tid.as_raw()).unwrap()
}

fn scheduling(policy: Policy) -> Scheduling {
    match policy {
        Policy::Fifo { priority } => Scheduling {
            policy: ModelPolicy::Fifo,
            priority,
        },
        _ => Scheduling {
            policy: ModelPolicy::Other,
            priority: 0,
        },
    }
}

/// Waits until the recorder has received the last events of threads that have ended.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(2));
}
