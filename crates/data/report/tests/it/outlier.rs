//! An explained outlier in each output format.

use crate::common;
use punctual_model::cause::{self, Detail, Source};
use punctual_model::{
    Blame, CauseSummary, Comm, CounterComparison, EventKind, Explanation, Fact, Frame,
    HardwareCounters, JobCounts, KernelPriority, Nanos, Outlier, Period, Recording, Segment, Share,
    Task, TaskState, ThreadStack, TraceEvent, Vector, Victim, WaitStacks, Window, testing,
};
use punctual_report::html::{self, HtmlOptions};
use punctual_report::plot::{self, PlotOptions};
use punctual_report::text::{self, TextStyle};
use punctual_report::{OutlierTimeline, document};

const DUE: u64 = 1_000_000;

fn task(name: &str, pid: u32, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn event(us: i64, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos(DUE.checked_add_signed(us * 1_000).unwrap()),
        cpu: 1,
        pid: if us < 137 { 12 } else { 100 },
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn segment(from: u64, to: u64, source: Source, detail: Option<Detail>) -> Segment {
    Segment {
        from: Nanos(DUE + from * 1_000),
        to: Nanos(DUE + to * 1_000),
        cpu: 1,
        cause: cause::Cause::new(source).with(detail),
        words: None,
    }
}

/// Returns an outlier with a softirq of 121 µs, and a comm that looks like markup.
fn told() -> (Recording, OutlierTimeline) {
    let (make, victim) = (task("<b>&make", 12, 120), task("victim", 100, 4));
    let switch = |prev: Task, next: Task, state: u32| EventKind::Switch {
        prev,
        prev_state: TaskState(state),
        next,
    };
    let vector = Vector::LocalTimer;
    let events = vec![
        event(-300, switch(victim, make, 1)),
        event(
            2,
            EventKind::VectorEntry {
                vector: vector.clone(),
            },
        ),
        event(
            3,
            EventKind::Waking {
                task: victim,
                target_cpu: 1,
            },
        ),
        event(5, EventKind::VectorExit { vector }),
        event(6, EventKind::SoftirqEntry { vec: 3 }),
        event(127, EventKind::SoftirqExit { vec: 3 }),
        event(137, switch(make, victim, 0)),
    ];
    let segments = vec![
        segment(0, 2, Source::TimerLate, None),
        segment(2, 5, Source::Vector(Vector::LocalTimer), None),
        segment(5, 6, Source::Scheduling, None),
        segment(6, 127, Source::Softirq(3), Some(Detail::On(Some(make)))),
        segment(127, 137, Source::Scheduling, None),
        segment(137, 143, Source::ReturnToUser, None),
    ];
    let shares = segments
        .iter()
        .map(|one| Share::new(one.cause.clone(), one.length(), 1));
    let mut recording = testing::recording(2, 5);
    let outlier = Outlier {
        light_stage: false,
        number: 3,
        time: recording.started,
        monotonic_ns: Nanos(DUE),
        cpu: Some(1),
        thread: 1,
        latency_ns: Nanos(143_000),
        blame: Blame {
            culprit_end_ns: Some(Nanos(DUE + 127_000)),
            ..testing::blame(shares.collect())
        },
    };
    let window = Window {
        victim: Victim {
            tid: 100,
            comm: victim.comm,
            scheduling: Some(recording.threads[1].scheduling),
            cpu: 1,
        },
        delay: Default::default(),
        expected: Nanos(DUE),
        actual: Nanos(DUE + 143_000),
        events,
        lost: 0,
        left_out: 0,
        missing_events: Vec::new(),
        light_stage: None,
        clock_error: Nanos(50),
        symbols: Default::default(),
        calls: Default::default(),
        evidence: Default::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    };
    recording.explanation = Some(Explanation {
        threshold_ns: Nanos(100_000),
        seen: 4,
        explained: 4,
        rise_ns: Some(Nanos(1_200)),
        rise_took_ns: Some(Nanos::from_millis(1_004)),
        outliers: vec![outlier.clone()],
        causes: vec![CauseSummary {
            source: Source::Softirq(3),
            count: 4,
            culprit_in: 3,
            late_only_by: Some(1),
            total_ns: Nanos(400_000),
            max_ns: Nanos(121_000),
            max_outlier: 3,
            words: None,
        }],
        periods: vec![Period {
            source: Source::Softirq(3),
            period_ns: Nanos(1_000_012_345),
            tolerance_ns: Nanos(2_000_000),
            count: 4,
            missing: 1,
            words: None,
        }],
        ..Explanation::default()
    });
    let timeline = OutlierTimeline {
        activity: Vec::new(),
        in_trace: false,
        recording: recording.id,
        outlier,
        window,
        segments,
    };
    (recording, timeline)
}

fn plain(width: usize) -> TextStyle {
    TextStyle {
        colour: false,
        width,
    }
}

#[test]
fn as_text() {
    let (_, timeline) = told();
    insta::assert_snapshot!(text::render(
        &document::outlier(&timeline, false),
        &plain(100)
    ));
}

/// A job whose thread waited for another one, with the counters of the processor.
fn waited() -> OutlierTimeline {
    let (_, mut timeline) = told();
    let frame = |symbol: &str| Frame {
        address: 16,
        object: Some("/opt/<i>control".to_owned()),
        offset: Some(16),
        symbol: Some(symbol.to_owned()),
        build_id: None,
    };
    let stack = |tid: u32, name: &str, symbol: &str| ThreadStack {
        tid,
        comm: Comm::new(name.as_bytes()),
        kernel: vec![32],
        user: vec![frame(symbol), frame("main+0x1")],
        user_unknown: None,
    };
    let counts = |cycles: u64, misses: u64| JobCounts {
        instructions: Some(1_000_000),
        cycles: Some(cycles),
        llc_misses: Some(misses),
        on_cpu_ns: Some(Nanos(cycles / 2)),
    };
    timeline
        .window
        .symbols
        .insert(32, "futex_wait+0x1".to_owned());
    let evidence = &mut timeline.window.evidence;
    evidence.counters = Some(HardwareCounters::Compared(CounterComparison {
        slow: counts(3_100_000, 4_000),
        median: counts(1_000_000, 100),
        jobs: 500,
    }));
    evidence.waits = vec![WaitStacks {
        from: Nanos(DUE),
        to: Nanos(DUE + 90_000),
        waiting: stack(100, "victim", "take_order+0x5"),
        waker: Some(stack(12, "<b>&make", "give_order+0x7")),
    }];
    timeline
}

#[test]
fn waits_show_stacks_of_both_threads() {
    let shown = text::render(&document::outlier(&waited(), false), &plain(100));
    let words: Vec<&str> = shown.split_whitespace().collect();
    let words = words.join(" ");
    for expected in [
        "hardware counters: same instructions (1,000,000), 3.1 times the cycles, 40 times the LLC \
         misses, at 2000 MHz (compared with the median of 500 earlier jobs)",
        "90.0 µs waiting: victim-100 user take_order+0x5 (<i>control) < main+0x1 (<i>control)",
        "kernel futex_wait+0x1",
        "woken by <b>&make-12 user give_order+0x7 (<i>control)",
    ] {
        assert!(words.contains(expected), "{expected}: {shown}");
    }
    let mut timeline = waited();
    let evidence = &mut timeline.window.evidence;
    evidence.counters = Some(HardwareCounters::Unknown("no hardware counters".to_owned()));
    evidence.waits[0].waker = None;
    let shown = text::render(&document::outlier(&timeline, false), &plain(100));
    assert!(
        shown.contains("hardware counters: unknown: no hardware counters"),
        "{shown}"
    );
    assert!(!shown.contains("woken by"), "{shown}");
}

#[test]
fn it_fits_narrow_terminals() {
    let (recording, timeline) = told();
    let explanation = recording.explanation.as_ref().unwrap();
    for width in 60..100 {
        for shown in [
            document::outlier(&timeline, true),
            document::outlier(&waited(), true),
            document::outliers(&recording, explanation),
        ] {
            let text = text::render(&shown, &plain(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width} columns:\n{text}");
        }
    }
}

#[test]
fn a_list_of_outliers() {
    let (recording, _) = told();
    let explanation = recording.explanation.as_ref().unwrap();
    insta::assert_snapshot!(text::render(
        &document::outliers(&recording, explanation),
        &plain(100)
    ));
}

#[test]
fn as_a_picture() {
    let (_, timeline) = told();
    let svg = plot::outlier(&timeline, &PlotOptions::default())
        .unwrap()
        .svg();
    let (_, text) = common::parse_xml(&svg);
    for words in [
        "expected",
        "actual",
        "ready to run",
        "softirq: NET_RX",
        "CPU 1 threads",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!svg.contains("<b>"));
    let narrow = PlotOptions {
        width: 100,
        ..PlotOptions::default()
    };
    assert!(plot::outlier(&timeline, &narrow).is_err());
}

#[test]
fn in_the_page_and_in_markdown() {
    let (recording, timeline) = told();
    let options = HtmlOptions {
        outliers: vec![timeline],
        ..HtmlOptions::default()
    };
    let page = html::render(std::slice::from_ref(&recording), &options).unwrap();
    assert!(page.contains("Causes of outliers above 100 µs"));
    assert!(page.contains("Outlier 3: CPU 1 was 143 µs late"));
    assert!(!page.contains("<b>&make"));
    let text = common::markdown_of(&recording);
    assert!(text.contains("Periodic causes"), "{text}");
    assert!(text.contains("1.000 s"), "{text}");
}

/// A window with inconsistent times is still drawn.
#[test]
fn nonsense_does_no_harm() {
    let (_, mut timeline) = told();
    for (expected, actual) in [(0, u64::MAX), (DUE, DUE), (u64::MAX, 0), (DUE, DUE + 1)] {
        timeline.window.expected = Nanos(expected);
        timeline.window.actual = Nanos(actual);
        let _ = plot::outlier(&timeline, &PlotOptions::default())
            .unwrap()
            .svg();
        let _ = text::render(&document::outlier(&timeline, true), &plain(40));
        let _ = text::render(&document::outlier(&timeline, false), &plain(0));
    }
}

/// Returns the same outlier with stacks, and with one event requested by the user among many
/// others.
fn with_more() -> (Recording, OutlierTimeline) {
    let (recording, mut timeline) = told();
    let window = &mut timeline.window;
    window.symbols = [
        (1, "hrtimer_interrupt"),
        (2, "asm_sysvec_apic_timer_interrupt"),
        (3, "<b>_raw_spin_unlock"),
        (4, "do_syscall_64"),
        (5, "__schedule"),
        (6, "preempt_schedule_irq"),
        (7, "copy_page_range"),
    ]
    .map(|(address, name)| (address, name.to_owned()))
    .into();
    let late = EventKind::TimerLate {
        late: Nanos(2_000),
        function: 1,
        frames: vec![1, 2, 3, 4],
    };
    let requested = EventKind::Requested {
        name: "my:event".into(),
        fields: "value=<b>7".to_owned(),
    };
    let switched = EventKind::SwitchedOut {
        task: task("<b>&make", 12, 120),
        waited: Nanos(134_000),
        frames: vec![5, 6, 7],
    };
    window.events.push(event(2, late));
    window.events.push(event(137, switched));
    let exits = (7..120).map(|us| event(us, EventKind::SoftirqRaise { vec: 3 }));
    window.events.extend(exits);
    window.events.push(event(60, requested));
    window.events.sort_by_key(|event| event.time);
    (recording, timeline)
}

#[test]
fn all_forms_show_stacks_and_requested_events() {
    let (recording, timeline) = with_more();
    let shown = text::render(&document::outlier(&timeline, false), &plain(100));
    insta::assert_snapshot!(shown);
    let svg = plot::outlier(&timeline, &PlotOptions::default())
        .unwrap()
        .svg();
    let (_, text) = common::parse_xml(&svg);
    assert!(
        text.contains("--event") && text.contains("my:event"),
        "{text}"
    );
    let options = HtmlOptions {
        outliers: vec![timeline],
        ..HtmlOptions::default()
    };
    let page = html::render(std::slice::from_ref(&recording), &options).unwrap();
    assert!(page.contains("copy_page_range"), "no stack");
    assert!(page.contains("_raw_spin_unlock") && !page.contains("<b>_raw"));
}

#[test]
fn stacks_fit_narrow_terminals() {
    let (_, timeline) = with_more();
    for width in 60..100 {
        let text = text::render(&document::outlier(&timeline, false), &plain(width));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width} columns:\n{text}");
    }
}

/// Returns the summary of the outliers as text.
fn summary(recording: &Recording) -> String {
    let explanation = recording.explanation.as_ref().unwrap();
    let document = document::outliers(recording, explanation);
    text::render(&document, &plain(400))
}

#[test]
fn blocking_by_design_names_the_remedy() {
    let mut recording = told().0;
    let blocking = cause::Source::Thread {
        role: cause::Role::Blocking,
        thread: (&task("make", 12, 120)).into(),
    };
    recording.explanation.as_mut().unwrap().causes[0].source = blocking;
    for (model, by_design) in [
        ("none", true),
        ("voluntary", true),
        ("full", false),
        ("rt", false),
    ] {
        recording.host.kernel.preempt_model = Fact::known(model.to_owned(), "test");
        let text = summary(&recording);
        assert_eq!(text.contains("boot with preempt=full"), by_design, "{text}");
    }
    recording.host.kernel.preempt_model = Fact::unknown("test", "unknown");
    assert!(!summary(&recording).contains("preempt="));
}

#[test]
fn real_time_threads_are_listed_first() {
    let mut recording = told().0;
    let explanation = recording.explanation.as_mut().unwrap();
    let mut ordinary = explanation.outliers[0].clone();
    ordinary.number = 2;
    ordinary.latency_ns = Nanos(ordinary.latency_ns.0 * 2);
    ordinary.blame.victim.scheduling = Some(punctual_model::Scheduling {
        policy: punctual_model::Policy::Other,
        priority: 0,
    });
    explanation.outliers[0].blame.victim.scheduling = Some(punctual_model::Scheduling {
        policy: punctual_model::Policy::Fifo,
        priority: 80,
    });
    explanation.outliers.insert(0, ordinary);
    let mut order: Vec<&Outlier> = explanation.outliers.iter().collect();
    order.sort_by_key(|outlier| outlier.order());
    let numbers: Vec<u64> = order.iter().map(|outlier| outlier.number).collect();
    assert_eq!(numbers, [3, 2]);
}
