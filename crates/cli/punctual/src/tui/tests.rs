//! Tests of the frames at several widths, and of the keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_model::cause::{Cause, Name, Segment, Source};
use punctual_model::{
    Accounting, Comm, Delay, Evidence, Histogram, Limit, Metric, Nanos, Outlier, Recording, Share,
    SignedNanos, TopSample, Window, testing,
};
use punctual_report::OutlierTimeline;
use punctual_session::{Snapshot, WorkerView};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::Trial;
use super::draw::{self, Look};
use super::key::Key;
use super::ranges::ranges;
use super::state::{Figures, Order, Page, State};
use super::timeline::Timelines;

const LOOK: Look = Look { has_colours: true };

fn micros(us: u64) -> Nanos {
    Nanos(us * 1_000)
}

fn recording() -> Recording {
    let mut recording = testing::recording(2, 3);
    recording.requirement.limits = vec![Limit {
        metric: Metric::Max,
        at_most: 100_000,
    }];
    recording.explanation = Some(punctual_model::Explanation::default());
    recording
}

fn outlier(number: u64, us: u64, source: Source) -> Outlier {
    let shares = vec![
        Share::new(Cause::new(source), micros(us - 10), 2),
        Share::new(Cause::new(Source::Softirq(3)), micros(10), 1),
    ];
    Outlier {
        light_stage: false,
        number,
        time: jiff::Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(number),
        monotonic_ns: Nanos::from_millis(number),
        cpu: Some(1),
        thread: 1,
        latency_ns: micros(us),
        blame: testing::blame(shares),
    }
}

fn preempt_off(comm: &str) -> Source {
    Source::PreemptOff(Name {
        pid: Some(20),
        comm: Comm::new(comm.as_bytes()),
    })
}

fn worker(cpu: u32, max: u64) -> WorkerView {
    WorkerView {
        title: format!("CPU {cpu}"),
        accounting: Accounting {
            recorded: 59_000,
            missed: 3,
            ..Accounting::default()
        },
        tid: None,
        partner: None,
        timeouts: 0,
        dropped: 0,
        last: Some(SignedNanos(12_300)),
        min: Some(micros(4)),
        mean: Some(micros(9)),
        p99: Some(micros(31)),
        max: Some(micros(max)),
    }
}

fn figures(workers: u32) -> Figures {
    let mut figures = Figures::new(&recording());
    let mut latencies = Histogram::new();
    for (us, count) in [
        (4, 90_000),
        (9, 27_000),
        (15, 900),
        (40, 90),
        (143, 7),
        (1_300, 1),
    ] {
        for _ in 0..count {
            latencies.record(SignedNanos(us * 1_000));
        }
    }
    figures.latencies = latencies;
    figures.snapshot = Some(Snapshot {
        elapsed: Nanos::from_secs(59),
        duration: Some(Nanos::from_secs(120)),
        workers: (0..workers)
            .map(|cpu| worker(cpu, 90 + u64::from(cpu)))
            .collect(),
        max_sample: Some(TopSample {
            time: jiff::Timestamp::UNIX_EPOCH,
            monotonic_ns: Nanos(7),
            cpu: Some(1),
            thread: 1,
            latency_ns: micros(1_300),
            blame: None,
        }),
    });
    figures.add(&[
        outlier(1, 143, preempt_off("kworker/1:0")),
        outlier(2, 1_300, Source::Softirq(3)),
        outlier(3, 160, preempt_off("kworker/1:0")),
        outlier(4, 120, preempt_off("evil\u{1b}[2J\u{202e}")),
    ]);
    figures
}

fn state(workers: u32) -> State {
    let mut state = State::default();
    state.take(figures(workers));
    state
}

fn drawn(state: &mut State, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::draw(frame, state, LOOK))
        .unwrap();
    terminal.backend().clone()
}

#[test]
fn run_is_shown_at_three_widths() {
    for width in [60, 80, 120] {
        let shown = drawn(&mut state(2), width, 30);
        insta::assert_snapshot!(format!("run_{width}"), shown);
    }
}

#[test]
fn outlier_is_shown_with_shares_and_remedy() {
    for width in [60, 80, 120] {
        let mut state = state(2);
        state.press(Key::Sort);
        state.press(Key::Open);
        assert_eq!(state.page, Page::Outlier(2), "the longest");
        let shown = drawn(&mut state, width, 24);
        insta::assert_snapshot!(format!("outlier_{width}"), shown);
    }
}

/// The timeline of an outlier of 100 us whose thread waited and then ran.
fn timeline(number: u64) -> OutlierTimeline {
    let outlier = outlier(number, 100, preempt_off("kworker/1:0"));
    let segment = |from, to, source| Segment {
        from: outlier.monotonic_ns + micros(from),
        to: outlier.monotonic_ns + micros(to),
        cpu: 1,
        cause: Cause::new(source),
        words: None,
    };
    let window = Window {
        expected: outlier.monotonic_ns,
        actual: outlier.monotonic_ns + micros(100),
        segments: vec![
            segment(0, 90, preempt_off("kworker/1:0")),
            segment(90, 100, Source::Softirq(3)),
        ],
        victim: outlier.blame.victim.clone(),
        delay: Delay::Timer,
        events: Vec::new(),
        lost: 0,
        left_out: 0,
        missing_events: Vec::new(),
        light_stage: None,
        clock_error: Nanos::ZERO,
        symbols: BTreeMap::new(),
        calls: BTreeMap::new(),
        evidence: Evidence::default(),
        host: Vec::new(),
        activity: Vec::new(),
    };
    OutlierTimeline::new(&recording(), outlier, window)
}

#[test]
fn timeline_of_an_outlier_scrolls() {
    let found: Timelines = Arc::new(|number| Ok((number == 2).then(|| timeline(2))));
    for width in [60, 80, 120] {
        let mut state = State::new(None, Some(Arc::clone(&found)));
        state.take(figures(2));
        [Key::Sort, Key::Open, Key::Open]
            .iter()
            .for_each(|key| state.press(*key));
        assert_eq!(state.page, Page::Timeline(2));
        let shown = drawn(&mut state, width, 20);
        insta::assert_snapshot!(format!("timeline_{width}"), shown);
        let (top, bottom) = (drawn(&mut state, width, 8), {
            [Key::Down, Key::PageDown]
                .iter()
                .for_each(|key| state.press(*key));
            drawn(&mut state, width, 8)
        });
        assert_ne!(top.to_string(), bottom.to_string());
        state.press(Key::Back);
        assert_eq!(state.page, Page::Outlier(2));
    }
}

#[test]
fn missing_timeline_gives_its_reason() {
    let none: Timelines = Arc::new(|_| Ok(None));
    let failed: Timelines = Arc::new(|_| anyhow::bail!("the store is locked\u{1b}[2J"));
    for (timelines, why) in [
        (None, "the run has no store"),
        (Some(none), "its events are not stored"),
        (Some(failed), "the store is locked"),
    ] {
        let mut state = State::new(None, timelines);
        state.take(figures(2));
        [Key::Open, Key::Open]
            .iter()
            .for_each(|key| state.press(*key));
        let shown = drawn(&mut state, 120, 20).to_string();
        assert!(shown.contains(why) && !shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn keys_sort_filter_select_and_pause() {
    let mut state = state(2);
    let numbers = |state: &State| {
        let listed = state.listed();
        listed.iter().map(|one| one.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&state), [4, 3, 2, 1]);
    state.press(Key::Sort);
    assert_eq!(
        (state.order, numbers(&state)),
        (Order::Longest, vec![2, 3, 1, 4])
    );
    state.press(Key::Sort);
    assert_eq!(state.order, Order::Cause);
    state.press(Key::Sort);
    let mut filtered = Vec::new();
    for _ in 0..3 {
        state.press(Key::Filter);
        filtered.push(numbers(&state));
    }
    filtered.sort();
    assert_eq!(filtered, [vec![2], vec![3, 1], vec![4]]);
    state.press(Key::Filter);
    assert_eq!((state.filter.clone(), numbers(&state).len()), (None, 4));

    for key in [Key::Down, Key::Down, Key::Up, Key::Open] {
        state.press(key);
    }
    assert_eq!(state.page, Page::Outlier(3));
    state.press(Key::PageDown);
    assert_eq!(state.page, Page::Outlier(1), "the last one");
    state.press(Key::Back);
    state.press(Key::Help);
    assert_eq!(state.page, Page::Help);
    state.press(Key::Help);
    assert_eq!(state.page, Page::Run);

    // The selected outlier stays selected when others arrive.
    let mut more = figures(2);
    more.add(&[outlier(5, 130, preempt_off("new"))]);
    state.take(more.clone());
    let listed = state.listed();
    assert_eq!(listed[state.place(&listed)].number, 1);
    state.press(Key::Pause);
    more.add(&[outlier(6, 130, preempt_off("new"))]);
    state.take(more.clone());
    assert_eq!(state.listed().len(), 5, "paused");
    state.press(Key::Pause);
    state.take(more);
    assert_eq!(state.listed().len(), 6);
    assert!(!state.wants_stop);
    state.press(Key::Stop);
    assert!(state.wants_stop);
}

#[test]
fn many_threads_and_tiny_windows_are_drawn() {
    let text = |shown: &TestBackend| shown.to_string();
    let shown = text(&drawn(&mut state(64), 80, 24));
    assert!(
        shown.contains("CPU 63") && shown.contains("59 more threads"),
        "{shown}"
    );
    let mut empty = State::default();
    for mut state in [state(64), std::mem::take(&mut empty)] {
        for keys in [&[][..], &[Key::Open], &[Key::Help]] {
            keys.iter().for_each(|key| state.press(*key));
            for (width, height) in [(1, 1), (3, 2), (20, 4), (300, 3), (5, 90)] {
                drawn(&mut state, width, height);
            }
        }
    }
}

#[test]
fn names_and_colours_cannot_mislead() {
    let mut state = state(2);
    let shown = drawn(&mut state, 80, 30);
    assert!(!shown.to_string().contains(['\u{1b}', '\u{202e}']));
    let reds = |backend: &TestBackend| {
        let cells = backend.buffer().content().iter();
        cells.filter(|cell| cell.fg == Color::Red).count()
    };
    assert!(reds(&shown) > 0);
    let mut terminal = Terminal::new(TestBackend::new(80, 30)).unwrap();
    let plain = Look { has_colours: false };
    terminal
        .draw(|frame| draw::draw(frame, &mut state, plain))
        .unwrap();
    let cells = terminal.backend().buffer().content();
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    assert_eq!(terminal.backend().to_string(), shown.to_string());
}

#[test]
fn ranges_count_each_sample_once() {
    let latencies = figures(1).latencies;
    for most in [1, 2, 3, 5, 9, 20] {
        let all = ranges(&latencies, most);
        assert!(
            !all.is_empty() && all.len() <= most.max(1),
            "{most}: {all:?}"
        );
        let last = all.last().unwrap();
        assert!(
            last.from <= micros(1_300) && micros(1_300) < last.to,
            "{all:?}"
        );
        let counted: u64 = all.iter().map(|range| range.count).sum();
        assert_eq!(counted == latencies.count(), most >= 4, "{most}: {all:?}");
    }
    assert_eq!(ranges(&Histogram::new(), 9), []);
}

#[test]
fn only_the_longest_outliers_are_kept() {
    let mut figures = figures(1);
    for number in 5..2_000 {
        figures.add(&[outlier(number, number + 10, Source::Softirq(3))]);
    }
    assert_eq!(figures.outliers.len(), 1_000);
    let numbers: Vec<u64> = figures.outliers.iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted() && numbers.contains(&2) && numbers.contains(&1_999));
}

#[test]
fn remedy_is_tried_only_after_a_question() {
    let options = ["--threshold", "100us"].map(str::to_owned).to_vec();
    let trial = Trial::new(options, |_| {
        vec!["thp=never".to_owned(), "swappiness=1".to_owned()]
    });
    let mut state = state(2);
    state.trial = Some(trial.clone());
    // These keys have no effect on the list, and before the question.
    for key in [Key::Try, Key::Yes, Key::Open, Key::Yes] {
        state.press(key);
    }
    assert!(!state.wants_stop && trial.chosen().is_none());
    state.press(Key::Try);
    let shown = drawn(&mut state, 60, 20).to_string();
    for part in [
        "setting to try: thp=never",
        "Start it? y: yes",
        "restores the old value",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    state.press(Key::Back);
    state.press(Key::Yes);
    assert!(!state.wants_stop && trial.chosen().is_none());
    for key in [Key::Open, Key::Try, Key::Yes] {
        state.press(key);
    }
    assert!(state.wants_stop);
    let words = trial.chosen().unwrap().join(" ");
    assert_eq!(words, "experiment --set thp=never --threshold 100us");

    // Without a setting, there is nothing to agree to.
    let mut state = self::state(2);
    state.trial = Some(Trial::new(Vec::new(), |_| Vec::new()));
    for key in [Key::Open, Key::Try, Key::Yes] {
        state.press(key);
    }
    let shown = drawn(&mut state, 80, 20).to_string();
    assert!(
        shown.contains("Nothing to try") && !state.wants_stop,
        "{shown}"
    );
    // An ordinary user gets no question.
    let mut state = self::state(2);
    state.press(Key::Open);
    state.press(Key::Try);
    assert!(matches!(state.page, Page::Outlier(_)));
}
