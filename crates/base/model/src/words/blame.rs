//! Describes a blame in one sentence.

use crate::cause::{Detail, Source};
use crate::{
    Blame, BlameWords, Delay, KernelPriority, Move, Nanos, Share, ShareKind, Task, counted, grouped,
};

/// A share is not mentioned if it is smaller than the latency divided by this number.
const WORTH_A_WORD: u64 = 20;

/// Maximum number of shares that are mentioned besides the largest.
const NAMED: usize = 3;

/// Added to the sentence of an outlier that neither the application nor the machine caused.
const BY_OBSERVER: &str = " The recording of events by punctual caused this delay.";

impl Blame {
    /// Adds the words, for output that contains them.
    pub fn put_into_words(&mut self) {
        self.words = Some(BlameWords {
            culprit: self.culprit(),
            sentence: self.sentence(),
        });
        for share in &mut self.shares {
            share.words = Some(Box::new(share.cause.words()));
        }
    }

    /// Explains the latency in one sentence: `CPU 1 was 143 µs late: softirq NET_RX ran for 121 µs
    /// in ksoftirqd/1-16, nice 0; besides 12.0 µs interrupt eth0 (24).`
    pub fn sentence(&self) -> String {
        let latency = self.latency();
        let Some(largest) = self.largest() else {
            return format!("{} was not late.", subject(self));
        };
        let mut sentence = format!(
            "{} {}: {}",
            subject(self),
            predicate(self),
            match self.delay {
                Delay::Job => clause_of_job(largest),
                _ => clause(largest),
            }
        );
        if let Some(function) = &largest.cause.function {
            sentence.push_str(&format!(", {function}"));
        }
        if let Some(usual) = largest.cause.anomaly {
            sentence.push_str(&format!(", {}", usual.contradicted()));
        }
        let others = besides(&self.shares, largest, latency);
        if !others.is_empty() {
            sentence.push_str(&format!("; besides {}", others.join(", ")));
        }
        sentence.push('.');
        if let Some(Move { from, to }) = self.moved {
            sentence.push_str(&format!(
                " The thread was moved from CPU {from} to CPU {to}."
            ));
        }
        if self.events_lost > 0 {
            sentence.push_str(&format!(
                " Trace events were lost ({}), so the shares may be wrong.",
                grouped(self.events_lost)
            ));
        }
        let error = self.clock_error_ns;
        if error.0 > latency.0 / 10 && error > Nanos(1_000) {
            sentence.push_str(&format!(
                " The event times are accurate only to within {error}."
            ));
        }
        if self.by_observer {
            sentence.push_str(BY_OBSERVER);
        }
        sentence
    }

    /// Returns the name of the largest share: `interrupt: eth0 (24)`.
    pub fn culprit(&self) -> String {
        let share = self.largest();
        share.map_or_else(|| "nothing".to_owned(), |share| share.cause.source.label())
    }
}

impl Share {
    /// Returns the name of the cause: the name of an interrupt, or the comm and pid of a thread.
    pub fn who(&self) -> String {
        self.cause.who()
    }

    /// Describes the largest part: a system call, the thread that ran a softirq, a priority.
    pub fn detail(&self) -> Option<String> {
        self.cause.detail()
    }
}

fn predicate(blame: &Blame) -> String {
    let latency = blame.latency();
    match blame.delay {
        Delay::Step => format!("took {latency}"),
        Delay::Job => format!("took {latency} for a job"),
        Delay::Work => format!("took {latency} for its work"),
        Delay::Section => format!("was blocked for {latency}"),
        Delay::Timer | Delay::Call | Delay::Wakeup | Delay::Taken => format!("was {latency} late"),
    }
}

fn subject(blame: &Blame) -> String {
    let victim = &blame.victim;
    match blame.delay {
        Delay::Timer | Delay::Section => format!("CPU {}", victim.cpu),
        Delay::Call | Delay::Step | Delay::Wakeup | Delay::Taken | Delay::Job | Delay::Work => {
            let thread = Task {
                pid: victim.tid,
                comm: victim.comm,
                prio: KernelPriority::UNKNOWN,
            };
            format!("{thread} on CPU {}", victim.cpu)
        }
    }
}

fn besides(shares: &[Share], largest: &Share, latency: Nanos) -> Vec<String> {
    let mut others: Vec<&Share> = shares
        .iter()
        .filter(|share| !std::ptr::eq(*share, largest))
        .filter(|share| share.ns.0 > latency.0 / WORTH_A_WORD)
        .collect();
    others.sort_by_key(|share| std::cmp::Reverse(share.ns));
    others.truncate(NAMED);
    others.into_iter().map(brief).collect()
}

/// `12.0 µs interrupt eth0 (24)`.
fn brief(share: &Share) -> String {
    let (ns, who) = (share.ns, share.who());
    match share.kind() {
        ShareKind::Scheduling => format!("{ns} scheduling"),
        ShareKind::ReturnToUser => format!("{ns} return to user space"),
        ShareKind::TimerLate => format!("{ns} until the timer's interrupt"),
        ShareKind::Unexplained => format!("{ns} unexplained: {who}"),
        ShareKind::TimerSlack => format!("{ns} of timer slack"),
        ShareKind::Silence => format!("{ns} untraced gap"),
        ShareKind::PageFault => format!("{ns} {who}"),
        ShareKind::OwnWork if share.cause.source == Source::FaultOrUserSpace => {
            format!("{ns} {who}")
        }
        ShareKind::OwnWork => format!("{ns} its own work"),
        ShareKind::Nmi => format!("{ns} {who}"),
        ShareKind::LockHolder => format!("{ns} waiting for a lock held by {who}"),
        ShareKind::Waiting => format!("{ns} asleep until woken by {who}"),
        ShareKind::Stopped => format!("{ns} stopped by {who}"),
        ShareKind::IdleExit => format!("{ns} waking {who} from idle"),
        ShareKind::Migration => format!("{ns} moving {who}"),
        ShareKind::Throttled => format!("{ns} throttled"),
        ShareKind::NotRun => format!("{ns} {who}"),
        ShareKind::SystemCall => format!("{ns} in {who}"),
        ShareKind::Device => format!("{ns} waiting for {who}"),
        ShareKind::OwnSleep => format!("{ns} asleep until {who} expired"),
        ShareKind::Stolen => format!("{ns} stolen by {who}"),
        ShareKind::Undecided => format!("{ns} {who}"),
        kind => format!("{ns} {} {who}", kind.name()),
    }
}

/// Describes the largest share, to form the end of the sentence.
fn clause(share: &Share) -> String {
    let (ns, who) = (share.ns, share.who());
    let detail = share.cause.own_detail();
    let detail = detail.as_deref();
    let times = match share.count {
        0 | 1 => String::new(),
        n => format!(", {} times", grouped(n.into())),
    };
    let comma = detail.map_or(String::new(), |detail| format!(", {detail}"));
    match share.kind() {
        ShareKind::TimerLate => format!("{who} arrived {ns} late{times}"),
        ShareKind::TimerSlack => {
            let slack = detail.map_or(String::new(), |detail| format!(" {detail}"));
            format!("its timer slack{slack} delayed it by {ns}")
        }
        ShareKind::IdleExit => {
            let state = detail.map_or(String::new(), |detail| format!(" {detail}"));
            format!("{who} took {ns} to wake from idle{state}{times}")
        }
        ShareKind::IrqsOff => format!("{who} had interrupts disabled for {ns}{times}{comma}"),
        ShareKind::PreemptOff => format!("{who} had preemption disabled for {ns}{times}{comma}"),
        ShareKind::Silence => {
            let detail = detail.map_or(String::new(), |detail| format!(" {detail}"));
            format!("untraced gap: no event for {ns}{detail}")
        }
        ShareKind::Interrupt => format!("interrupt {who} ran for {ns}{times}{}", in_handler(share)),
        ShareKind::Softirq => {
            let inside = detail.map_or(String::new(), |detail| format!(" {detail}"));
            format!("softirq {who} ran for {ns}{inside}{times}")
        }
        ShareKind::Nmi => format!("a non-maskable interrupt ran for {ns}{times}"),
        ShareKind::Blocking => {
            let lower = match &share.cause.detail {
                Some(Detail::Rank(rank)) if rank.prio == KernelPriority::UNKNOWN => "",
                _ => "lower priority, ",
            };
            format!(
                "preemption delayed: {who} ({lower}{}) was not preempted for {ns}{times}",
                detail.unwrap_or("-")
            )
        }
        ShareKind::HigherPriority => {
            format!(
                "{who}, of higher priority ({}), ran for {ns}{times}",
                detail.unwrap_or("-")
            )
        }
        ShareKind::Competing => {
            format!(
                "{who}, of equal rank ({}), ran for {ns}{times}",
                detail.unwrap_or("-")
            )
        }
        ShareKind::Unranked => format!("{who} ran for {ns}{times}{comma}"),
        ShareKind::LockHolder => {
            format!(
                "it waited {ns} for a lock held by {who} ({}){times}",
                detail.unwrap_or("-")
            )
        }
        ShareKind::Waiting => format!("it slept {ns} until woken by {who}{times}"),
        ShareKind::Stopped => format!("it was stopped for {ns} by {who}"),
        ShareKind::Migration => format!("its migration {who} took {ns}{comma}"),
        ShareKind::Throttled => {
            format!("it was throttled for {ns} while it was runnable: {who}{comma}")
        }
        ShareKind::NotRun => {
            let reasons = detail.map_or(String::new(), |detail| format!("; {detail}"));
            format!("the scheduler did not run it for {ns}: it was {who}{times}{reasons}")
        }
        ShareKind::PageFault => format!("{who} took {ns}{times}{comma}"),
        ShareKind::OwnWork => format!("{who} ran for {ns}{comma}"),
        ShareKind::SystemCall => format!("it was in {who} for {ns}{times}"),
        ShareKind::Device => format!("it waited {ns} for {who}{times}{comma}"),
        ShareKind::OwnSleep => format!("it slept {ns} until {who} expired{times}{comma}"),
        ShareKind::Scheduling => format!("the scheduler took {ns}{comma}"),
        ShareKind::ReturnToUser => format!("the return to user space took {ns}"),
        ShareKind::Stolen => format!("{who} used the CPU for {ns}{times}{comma}"),
        ShareKind::Undecided => {
            let inside = detail.filter(|detail| !detail.is_empty());
            let inside = inside.map_or(String::new(), |detail| format!(" ({detail})"));
            format!("{who}, took {ns}{times}{inside}")
        }
        ShareKind::Unexplained => format!("{ns} are unexplained: {who}{comma}"),
    }
}

/// Describes the largest share of a job, to form the end of the sentence. Unlike the other late
/// threads, the thread of a job also does work.
fn clause_of_job(share: &Share) -> String {
    let (ns, who) = (share.ns, share.who());
    let inside = share
        .cause
        .own_detail()
        .map_or(String::new(), |detail| format!(" ({detail})"));
    match share.kind() {
        ShareKind::OwnWork if share.cause.source == Source::UserSpace => {
            format!("it computed for {ns} in user space{inside}")
        }
        ShareKind::OwnWork if share.cause.source == Source::FaultOrUserSpace => {
            format!("{who} took {ns}; no event shows when the page faults ended")
        }
        ShareKind::PageFault if share.cause.source == Source::PageFault && inside.is_empty() => {
            let faults = counted(share.count.into(), "page fault", "page faults");
            format!("{faults} took {ns}")
        }
        ShareKind::LockHolder => format!("it waited {ns} for a lock{inside} held by {who}"),
        ShareKind::Waiting => format!("it waited {ns}{inside} for {who}"),
        ShareKind::PageFault => format!("it waited {ns} in page faults{inside}: {who}"),
        ShareKind::Unexplained if share.cause.source.is_unknown_on_cpu() => format!(
            "it was on its CPU for {ns}{inside}; whether its own code, a system call, a page fault or an \
             interrupt took the time is not recorded"
        ),
        _ => clause(share),
    }
}

/// Describes what an interrupt did and who sent it. The details are those of its longest run.
fn in_handler(share: &Share) -> String {
    let Some(detail) = share.cause.own_detail() else {
        return String::new();
    };
    match share.cause.detail {
        Some(Detail::SentBy { .. }) if share.count > 1 => format!(", the longest one {detail}"),
        Some(Detail::SentBy { .. }) => format!(", {detail}"),
        Some(Detail::Stays(_)) => format!(", {detail}"),
        _ => format!(", mostly in {detail}"),
    }
}
