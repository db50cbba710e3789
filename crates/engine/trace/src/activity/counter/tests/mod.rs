use proptest::prelude::*;
use punctual_model::Vector;

use super::*;
use crate::activity::source::ActivityNames;

mod losses;

fn names() -> ActivityNames {
    ActivityNames {
        thread: Box::new(|tid| (tid < 100).then(|| format!("t{tid}"))),
        symbol: Box::new(|address| {
            (address < 100).then(|| format!("f{}+{address:#x}", address / 10))
        }),
    }
}

fn counter(kind: ActivityKind) -> Counter {
    Counter::new(kind, 1_000, Nanos::ZERO, names())
}

fn flagged(time: u64, cpu: u32, pid: u32, flags: u8, kind: EventKind) -> Streamed {
    Streamed::Event(TraceEvent {
        time: Nanos(time),
        cpu,
        pid,
        flags,
        preempt_count: 0,
        kind,
    })
}

fn event(time: u64, cpu: u32, kind: EventKind) -> Streamed {
    flagged(time, cpu, 7, 0, kind)
}

fn gap(cpu: u32, from: u64, to: u64) -> Streamed {
    Streamed::Gap {
        from: Nanos(from),
        to: Nanos(to),
        cpu,
        lost: 1,
    }
}

fn seen(kind: ActivityKind, events: &[Streamed]) -> Activities {
    let mut counter = counter(kind);
    events.iter().for_each(|event| counter.take(event));
    counter.seen(Nanos::from_secs(1), vec![])
}

/// Returns the name, CPU, count, run times and delays of each row.
fn figures(seen: &Activities) -> Vec<(String, u32, u64, u64, u64)> {
    let name = |row: &ActivityRow| row.source.name.clone().unwrap_or_default();
    let row = |row: &ActivityRow| {
        (
            name(row),
            row.cpu,
            row.count,
            row.run.sum_ns,
            row.delay.sum_ns,
        )
    };
    seen.rows.iter().map(row).collect()
}

fn irq(irq: u32) -> EventKind {
    EventKind::IrqEntry {
        irq,
        name: "eth".into(),
    }
}

const fn irq_end(irq: u32) -> EventKind {
    EventKind::IrqExit { irq, ret: 1 }
}

const fn raise(vec: u32) -> EventKind {
    EventKind::SoftirqRaise { vec }
}

const fn softirq(vec: u32) -> EventKind {
    EventKind::SoftirqEntry { vec }
}

const fn softirq_end(vec: u32) -> EventKind {
    EventKind::SoftirqExit { vec }
}

const fn queue(work: u64) -> EventKind {
    EventKind::WorkqueueQueue { work, function: 12 }
}

const fn work(work: u64) -> EventKind {
    EventKind::WorkqueueStart { work, function: 12 }
}

const fn work_end(work: u64) -> EventKind {
    EventKind::WorkqueueEnd { work, function: 12 }
}

fn own(name: &str, figures: (u32, u64, u64, u64)) -> (String, u32, u64, u64, u64) {
    (name.to_owned(), figures.0, figures.1, figures.2, figures.3)
}

#[test]
fn nested_interrupts_have_own_run_times() {
    let vector = || Vector::LocalTimer;
    let seen = seen(
        ActivityKind::Irq,
        &[
            event(100, 0, irq(5)),
            event(110, 1, irq(5)),
            event(120, 0, EventKind::VectorEntry { vector: vector() }),
            event(130, 0, EventKind::VectorExit { vector: vector() }),
            event(150, 0, irq_end(5)),
            event(160, 1, irq_end(5)),
        ],
    );
    assert_eq!(
        figures(&seen),
        [
            own("eth", (0, 1, 50, 0)),
            own("eth", (1, 1, 50, 0)),
            own("local_timer", (0, 1, 10, 0))
        ]
    );
    assert_eq!(seen.rows[0].source.irq, Some(5));
    assert_eq!(seen.longest.len(), 3);
    assert_eq!(seen.longest[0].thread, "t7-7");
    assert!(seen.most_delayed.is_empty());
}

#[test]
fn missing_starts_and_ends_are_unknown() {
    let seen = seen(
        ActivityKind::Irq,
        &[
            event(50, 0, irq_end(5)),
            event(100, 0, irq(5)),
            // The end of 5 is missing, and so is that of 6, which interrupted it.
            event(110, 0, irq(6)),
            event(200, 0, irq(5)),
            event(230, 0, irq_end(5)),
            event(240, 0, irq_end(6)),
            event(250, 0, irq_end(u32::MAX)),
        ],
    );
    assert_eq!(
        figures(&seen),
        [own("eth", (0, 2, 30, 0)), own("eth", (0, 1, 0, 0))]
    );
    assert_eq!(seen.rows[0].run.count, 1);
}

#[test]
fn softirqs_wait_from_their_first_request() {
    let mut events = vec![
        // The first two runs may belong to earlier requests.
        event(10, 0, softirq(3)),
        event(12, 0, softirq_end(3)),
        event(20, 0, softirq(3)),
        event(22, 0, softirq_end(3)),
    ];
    events.extend([
        event(100, 0, raise(3)),
        event(130, 0, raise(3)),
        event(140, 1, raise(3)),
        event(150, 0, softirq(3)),
        event(190, 0, softirq_end(3)),
    ]);
    let seen = seen(ActivityKind::Softirq, &events);
    assert_eq!(figures(&seen), [own("NET_RX", (0, 3, 44, 50))]);
    assert_eq!(seen.rows[0].delay.count, 1);
    let late = &seen.most_delayed[0];
    assert_eq!(
        (late.start_ns, late.delay_ns, late.run_ns),
        (Nanos(150), Some(Nanos(50)), Some(Nanos(40)))
    );
}

#[test]
fn softirqs_raised_while_serving_are_doubtful() {
    let known = |count, events: &[Streamed]| {
        let mut all = vec![
            event(10, 0, softirq(1)),
            event(11, 0, softirq_end(1)),
            event(20, 0, softirq(1)),
            event(21, 0, softirq_end(1)),
        ];
        all.extend_from_slice(events);
        let seen = seen(ActivityKind::Softirq, &all);
        let row = seen
            .rows
            .iter()
            .find(|row| row.source.name.as_deref() == Some("TIMER"));
        let delays = &row.unwrap().delay;
        assert_eq!(delays.count, count);
        delays.sum_ns
    };
    let serving = TraceEvent::SOFTIRQ;
    // Softirq 1 was raised before the set of pending softirqs was copied, and again while softirq
    // 0 ran, so it runs a second time. Later requests may be merged with that one.
    let again = [
        event(100, 0, raise(1)),
        event(110, 0, softirq(0)),
        flagged(115, 0, 7, serving, raise(1)),
        event(120, 0, softirq_end(0)),
        event(130, 0, softirq(1)),
        event(140, 0, softirq_end(1)),
        event(150, 0, raise(1)),
        event(160, 0, softirq(1)),
        event(165, 0, softirq_end(1)),
        event(170, 0, raise(1)),
        event(172, 0, softirq(1)),
    ];
    assert_eq!(known(2, &again), 30 + 2);
    // Both requests were made during one run, so one run serves both.
    let merged = [
        event(110, 0, softirq(0)),
        flagged(112, 0, 7, serving, raise(1)),
        flagged(115, 0, 7, serving, raise(1)),
        event(120, 0, softirq_end(0)),
        event(130, 0, softirq(1)),
        event(140, 0, softirq_end(1)),
        event(150, 0, raise(1)),
        event(160, 0, softirq(1)),
    ];
    assert_eq!(known(2, &merged), 18 + 10);
}

#[test]
fn works_wait_from_queueing_to_start() {
    let of = |pid, time, cpu, kind| flagged(time, cpu, pid, 0, kind);
    let seen = seen(
        ActivityKind::Work,
        &[
            of(3, 100, 0, queue(1)),
            of(20, 140, 1, work(1)),
            // It moves to another CPU while it sleeps.
            of(20, 200, 0, work_end(1)),
            // Queued twice without a run: either cancelled, or the events of the run are late.
            of(3, 300, 0, queue(2)),
            of(3, 310, 0, queue(2)),
            of(21, 320, 1, work(2)),
            // The end of another work.
            of(21, 330, 1, work_end(9)),
            of(21, 340, 1, work_end(2)),
        ],
    );
    assert_eq!(figures(&seen), [own("f1", (1, 2, 60, 40))]);
    assert_eq!(seen.rows[0].run.count, 1);
    assert_eq!(seen.longest[0].thread, "t20-20");
}

#[test]
fn timers_are_late_after_latest_expiry() {
    let start = |softexpires_ns, expires_ns| EventKind::HrtimerStart {
        hrtimer: 9,
        function: 50,
        expires_ns,
        softexpires_ns,
    };
    let expire = |now_ns| EventKind::HrtimerExpireEntry {
        hrtimer: 9,
        function: 50,
        now_ns,
    };
    let delay = |soft, hard, now| {
        let events = [
            event(100, 0, start(soft, hard)),
            event(1_000, 1, expire(now)),
        ];
        let seen = seen(ActivityKind::Timer, &events);
        let delay = &seen.rows[0].delay;
        assert_eq!(seen.rows[0].count, 1);
        (delay.count > 0).then_some(delay.sum_ns)
    };
    assert_eq!(delay(500, 600, 650), Some(50));
    assert_eq!(delay(500, 600, 550), Some(0));
    // It was due before it was started.
    assert_eq!(delay(-500, -500, 5_000), Some(900));
    // The clock was set back.
    assert_eq!(delay(500, 600, 400), None);
    for absurd in [i64::MIN, i64::MAX] {
        assert!(delay(absurd, absurd, 0).is_none_or(|delay| delay <= 900));
        assert!(delay(0, 0, absurd).is_none_or(|delay| delay <= 900));
    }
    let wheel = |time, kind| event(time, 0, kind);
    let seen = seen(
        ActivityKind::Timer,
        &[
            wheel(
                10,
                EventKind::TimerExpireEntry {
                    timer: 1,
                    function: 1_000,
                },
            ),
            wheel(15, EventKind::TimerExpireExit { timer: 1 }),
        ],
    );
    assert_eq!(figures(&seen), [own("0x3e8", (0, 1, 5, 0))]);
    assert_eq!(seen.rows[0].delay.count, 0);
}

#[test]
fn polls_run_since_previous_poll() {
    let poll = |device: &str, work| EventKind::NapiPoll {
        dev_name: device.into(),
        work,
        budget: 64,
    };
    let seen = seen(
        ActivityKind::Napi,
        &[
            event(90, 0, poll("eth0", 1)),
            event(100, 0, softirq(3)),
            event(130, 0, poll("eth0", 64)),
            event(135, 0, poll("lo", -5)),
            event(140, 0, softirq_end(3)),
            event(200, 0, poll("eth0", 2)),
        ],
    );
    assert_eq!(
        figures(&seen),
        [own("eth0", (0, 3, 30, 0)), own("lo", (0, 1, 5, 0))]
    );
    assert_eq!(seen.rows[0].packets, Some(67));
    assert_eq!(seen.rows[1].packets, Some(0));
    assert_eq!(seen.rows[0].run.count, 1);
}

#[test]
fn sent_interrupts_name_their_sender() {
    let send = |cpus: &[u32], callsite| EventKind::IpiSend {
        cpus: cpus.to_vec(),
        callsite,
        callback: 0,
    };
    let seen = seen(
        ActivityKind::Ipi,
        &[
            flagged(1, 0, 7, 0, send(&[0, 1, 2], 31)),
            flagged(2, 0, 7, 0, send(&[1], 38)),
            flagged(3, 0, 500, 0, send(&[1], 31)),
            flagged(4, 0, 7, TraceEvent::HARDIRQ, send(&[1], 31)),
            flagged(5, 0, 0, 0, send(&[], 31)),
        ],
    );
    let rows: Vec<_> = (seen.rows.iter())
        .map(|row| (row.cpu, row.source.thread.as_deref(), row.count))
        .collect();
    assert_eq!(
        rows,
        [
            (1, None, 1),
            (1, Some("t7-7"), 2),
            (2, Some("t7-7"), 1),
            (1, Some("thread 500, which has ended"), 1)
        ]
    );
    let source = &seen.rows[0].source;
    assert_eq!(
        (source.name.as_deref(), source.from_cpu),
        (Some("f3"), Some(0))
    );
}

#[test]
fn offline_cpus_forget_what_ran() {
    let mut counter = counter(ActivityKind::Softirq);
    let settled = [
        (10, softirq(4)),
        (11, softirq_end(4)),
        (12, softirq(4)),
        (13, softirq_end(4)),
    ];
    for (time, kind) in settled {
        counter.take(&event(time, 1, kind));
    }
    counter.take(&event(20, 1, raise(4)));
    counter.take(&event(21, 1, softirq(9)));
    counter.keep_cpus(|cpu| cpu == 0);
    counter.take(&event(9_000, 1, softirq_end(9)));
    counter.take(&event(9_010, 1, softirq(4)));
    counter.take(&event(9_020, 1, softirq_end(4)));
    let seen = counter.seen(Nanos(1), vec![]);
    assert_eq!(
        figures(&seen),
        [own("BLOCK", (1, 3, 12, 0)), own("RCU", (1, 1, 0, 0))]
    );
    assert!(seen.most_delayed.is_empty());
}

#[test]
fn sources_beyond_the_limit_share_rows() {
    let mut counter = counter(ActivityKind::Irq);
    for number in 0..MOST_ROWS as u32 + 5 {
        counter.take(&event(u64::from(number), 0, irq(number)));
    }
    let seen = counter.seen(Nanos(1), vec![]);
    assert_eq!(seen.rows.len(), MOST_ROWS + 1);
    assert_eq!(seen.rows[0].source, ActivitySource::default());
    assert_eq!(seen.rows[0].count, 5);
}

#[test]
fn requests_take_bounded_memory() {
    let mut counter = counter(ActivityKind::Work);
    for number in 0..2 * MOST_REQUESTS as u64 {
        counter.take(&event(number, 0, queue(number)));
        counter.take(&flagged(number, 0, number as u32, 0, work(number + 1)));
    }
    assert!(counter.requests.len() <= MOST_REQUESTS);
    assert!(counter.works.len() <= MOST_REQUESTS);
}
