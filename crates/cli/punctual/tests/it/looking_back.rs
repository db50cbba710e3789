//! Tests with years of simulated runs: trend, change points, notes, plots, and the monthly report.

use std::fs;

use crate::common::{Sandbox, signal, text};
use jiff::{SignedDuration, Timestamp};
use punctual_model::{
    Completion, Fact, Histogram, Recording, RecordingId, SeriesEpoch, SignedNanos, Slot, SlotCause,
    SlotState, testing,
};
use punctual_store::{Lease, Store};
use serde_json::Value;

/// The number of runs, which are at 07:10 and 19:10 on 112 days.
const RUNS: usize = 224;
const CMDLINE: &str = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=";
const PARAMETER: &str = "processor.max_cstate=1";
/// The two periods in which the runs have that parameter.
const PERIODS: [std::ops::Range<usize>; 2] = [60..100, 150..190];

/// Random numbers that are the same in each run of the tests.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn when(run: usize) -> Timestamp {
    let first: Timestamp = "2026-03-01T07:10:00Z".parse().unwrap();
    first + SignedDuration::from_hours(12 * run as i64)
}

/// Returns a run with this command line in which all latencies are below `max_us`.
fn run(number: usize, max_us: u64, command_line: &str) -> Recording {
    let mut dice = Dice(number as u64 + 7);
    let mut recording = testing::recording(1, 1);
    recording.id = RecordingId::new();
    recording.label = None;
    recording.load.clear();
    recording.started = when(number);
    recording.host.hostname = Fact::known("lab".to_owned(), "test");
    recording.host.kernel.command_line = Fact::known(command_line.to_owned(), "/proc/cmdline");
    let mut histogram = Histogram::new();
    for _ in 0..20_000 {
        histogram.record(SignedNanos(4_000 + dice.below(3_000) as i64));
    }
    // Add a tail of about 40 periods with at least half the maximum latency.
    for _ in 0..30 + dice.below(20) {
        let share = 50 + dice.below(50);
        histogram.record(SignedNanos((max_us * 10 * share) as i64));
    }
    recording.series.rows.clear();
    recording.top_samples.clear();
    let thread = &mut recording.threads[0];
    thread.accounting.recorded = histogram.recorded();
    thread.accounting.missed = 0;
    thread.accounting.expected = histogram.recorded() + thread.accounting.warm_up;
    thread.histogram = histogram;
    thread.missed_histogram = None;
    thread.open = None;
    recording.verdict = recording.judge();
    recording
}

fn insert(store: &Store, epoch: Option<&SeriesEpoch>, recording: &Recording) {
    let mut running = recording.clone();
    running.completion = Completion::Running;
    for thread in &mut running.threads {
        thread.histogram = Histogram::new();
        thread.accounting = punctual_model::Accounting::default();
    }
    let writer = store.begin(&running, &Lease::default()).unwrap();
    writer.finish(recording).unwrap();
    if let Some(epoch) = epoch {
        store.join_series(recording.id, epoch).unwrap();
    }
}

fn planned(store: &Store) -> SeriesEpoch {
    let definition = r#"{"probe":"timer","load":["cpu","disk"]}"#;
    store
        .put_series("machine", Some("lab"), "osadl", definition, when(0))
        .unwrap()
}

/// The example from the guide.
fn guide(place: &Sandbox) -> Vec<Recording> {
    let store = Store::open(&place.path("store.db")).unwrap();
    let epoch = planned(&store);
    let made: Vec<Recording> = (0..RUNS)
        .map(|number| {
            if PERIODS.iter().any(|period| period.contains(&number)) {
                run(number, 200, &format!("{CMDLINE} {PARAMETER}"))
            } else {
                run(number, 300, CMDLINE)
            }
        })
        .collect();
    for recording in &made {
        insert(&store, Some(&epoch), recording);
    }
    let missed = Slot {
        machine: "machine".to_owned(),
        series: "osadl".to_owned(),
        epoch: 1,
        due: when(20) + SignedDuration::from_hours(3),
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: Some("the machine was off".to_owned()),
        recording: None,
    };
    store.add_slot(&epoch, &missed).unwrap();
    made
}

fn json(place: &Sandbox, line: &str, code: i32) -> Value {
    let output = place.run(line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn trend_names_changed_parameters() {
    let place = Sandbox::in_memory();
    let made = guide(&place);
    // The maximum has been higher again since the second period. No acknowledgement covers this
    // change.
    let trend = json(&place, "trend osadl --json", 3);
    let group = &trend["groups"][0];
    assert_eq!(group["load"], "cpu+disk");
    assert_eq!(group["runs"].as_array().unwrap().len(), RUNS);
    let changes = group["changes"].as_array().unwrap();
    let tail: Vec<&Value> = changes
        .iter()
        .filter(|change| change["followed"] == "tail")
        .collect();
    let ends: Vec<usize> = PERIODS
        .iter()
        .flat_map(|period| [period.start, period.end])
        .collect();
    assert_eq!(tail.len(), ends.len(), "{tail:#?}");
    for (number, (change, end)) in tail.iter().zip(ends).enumerate() {
        assert_eq!(change["recording"], made[end].id.to_string(), "{change:#}");
        let (what, other) = if number % 2 == 0 {
            ("added", "removed")
        } else {
            ("removed", "added")
        };
        let facts = change["facts"].as_array().unwrap();
        assert_eq!(facts.len(), 1, "{change:#}");
        assert_eq!(facts[0]["fact"], "kernel.command_line");
        assert_eq!(facts[0]["runs_away"], 0, "{change:#}");
        assert_eq!(facts[0][what][0], PARAMETER);
        assert!(facts[0][other].is_null());
        assert_eq!(change["worse"], number % 2 == 1);
        let [before, after] =
            ["max_before_ns", "max_after_ns"].map(|key| change[key].as_u64().unwrap());
        let lower = before.abs_diff(after);
        assert!((80_000..120_000).contains(&lower), "{change:#}");
    }
    assert_eq!(trend["holes"].as_array().unwrap().len(), 1);
    let shown = text(&place.run("trend osadl").stdout);
    assert!(
        shown.matches(&format!("{PARAMETER} added")).count() >= 2,
        "{shown}"
    );
    assert!(shown.contains("the machine was off"), "{shown}");
    assert!(shown.contains("added, at this run"), "{shown}");
    pictures(&place);
    monthly(&place);
    decisions(&place);
}

fn pictures(place: &Sandbox) {
    for kind in ["surface", "heatmap", "trend"] {
        place.done(&format!("plot osadl --kind {kind} -o {kind}.svg"));
        place.done(&format!(
            "plot osadl --kind {kind} -o {kind}.png --pixels 1"
        ));
        let svg = fs::read_to_string(place.path(&format!("{kind}.svg"))).unwrap();
        assert!(svg.contains("osadl, cpu+disk"), "{kind}");
        assert!(svg.len() < 900_000, "{kind}: {}", svg.len());
    }
}

/// Checks the monthly report in each format that can show a series.
fn monthly(place: &Sandbox) {
    place.done("report --series osadl -o month.html");
    let page = fs::read_to_string(place.path("month.html")).unwrap();
    for what in [
        "worse since 2026-06-04",
        PARAMETER,
        "the machine was off",
        "Causes",
    ] {
        assert!(page.contains(what), "{what}");
    }
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(
        place
            .done("report --series osadl -f markdown -o -")
            .contains("Change points")
    );
    place.refused("report --series osadl -f junit -o -", 2);
    place.refused("report last --since 30d -o -", 2);
    place.refused("plot last --kind latency --group idle -o -", 2);
    place.refused("plot osadl --kind surface --thread 0 -o -", 2);
    place.refused("plot osadl --kind surface --group fire -o -", 2);
}

/// Acknowledges the open regression with a reason, and reopens it.
fn decisions(place: &Sandbox) {
    let open = json(place, "trend changes osadl --open --json", 0);
    let id = open[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open:#}");
    place.refused(&format!("trend reopen {id} mistaken"), 2);
    place.refused("trend ack no-such known", 2);
    place.done(&format!("trend ack {id} wanted --who ada"));
    let trend = json(place, "trend --json", 0);
    assert_eq!(trend["verdict"], "no_worsening");
    assert!(
        place
            .done("trend changes")
            .contains("acknowledged by ada: wanted")
    );
    place.done(&format!("trend reopen {id} mistaken --series osadl"));
    json(place, "trend osadl --json", 3);
}

/// The runs of two machines and of a label with a quote get worse. The trend is limited in every
/// possible way. The printed command must work unchanged and close the regression.
#[test]
fn the_printed_command_works_as_printed() {
    let place = Sandbox::in_memory();
    let other = place.path("a store.db");
    let store = Store::open(&other).unwrap();
    let epoch = |machine: &str, host: &str| {
        let made = store.put_series(machine, Some(host), "osadl", "{}", when(0));
        made.unwrap()
    };
    let [lab, shop] = [epoch("1", "lab"), epoch("2", "the shop")];
    for number in 0..40 {
        let largest = if number < 20 { 300 } else { 900 };
        let mut labelled = run(number, largest, CMDLINE);
        labelled.label = Some("ada's board".to_owned());
        insert(&store, None, &labelled);
        for (epoch, host) in [(&lab, "lab"), (&shop, "the shop")] {
            let mut recording = run(number, largest, CMDLINE);
            recording.host.hostname = Fact::known(host.to_owned(), "test");
            insert(&store, Some(epoch), &recording);
        }
    }
    let punctual = |words: &[&str]| {
        let mut command = place.command("");
        command.env_remove("PUNCTUAL_STORE").args(words);
        command.output().unwrap()
    };
    let store = ["--store", other.to_str().unwrap()];
    let open = |words: &[&str]| {
        let shown = punctual(&[&["trend", "changes", "--open"], words, &store].concat());
        (text(&shown.stdout), shown.status.code())
    };
    let (all, _) = open(&[]);
    assert!(all.contains("osadl on lab"), "{all}");
    assert!(all.contains("osadl on the shop"), "{all}");
    let (of_one, _) = open(&["--host", "lab"]);
    assert!(
        !of_one.contains("the shop") && of_one.contains("tail"),
        "{of_one}"
    );
    assert_eq!(open(&["--json"]).1, Some(2));
    let ways: [&[&str]; 4] = [
        &["trend", "ada's board"],
        &["trend", "osadl", "--host", "lab"],
        &[
            "trend",
            "osadl",
            "--host",
            "the shop",
            "--threshold",
            "400us",
        ],
        &[
            "trend",
            "osadl",
            "--host",
            "the shop",
            "--since",
            "2026-03-03",
        ],
    ];
    for way in ways {
        let way = [way, &store].concat();
        let shown = punctual(&way);
        assert_eq!(shown.status.code(), Some(3), "{way:?}");
        // There is one command for each open regression (tail and p99).
        let mut next = next_of(&text(&shown.stdout));
        for _ in 0..4 {
            let Some(command) = next else { break };
            let bin = std::path::Path::new(env!("CARGO_BIN_EXE_punctual"));
            let path = std::env::var("PATH").unwrap();
            let path = format!("{}:{path}", bin.parent().unwrap().display());
            let done = std::process::Command::new("sh")
                .args(["-c", &command])
                .env("PATH", path)
                .env_remove("PUNCTUAL_STORE")
                .env("PUNCTUAL_LOCKS", place.path("locks"))
                .output();
            let done = done.unwrap();
            assert_eq!(
                done.status.code(),
                Some(0),
                "{command}: {}",
                text(&done.stderr)
            );
            next = next_of(&text(&punctual(&way).stdout));
        }
        assert_eq!(punctual(&way).status.code(), Some(0), "{way:?}");
        // Reopen the change points for the next kind of limit.
        let list = [&["trend", "changes", "--json"], &way[1..]].concat();
        let known: Value = serde_json::from_slice(&punctual(&list).stdout).unwrap();
        for change in known.as_array().unwrap() {
            if !change["acknowledged"].is_null() {
                let id = change["id"].as_str().unwrap();
                let series = ["trend", "reopen", id, "again", "--series"];
                let reopened = punctual(&[&series, &way[1..]].concat());
                assert_eq!(
                    reopened.status.code(),
                    Some(0),
                    "{}",
                    text(&reopened.stderr)
                );
            }
        }
    }
    let wrong = [
        &["trend", "ack", "none", "why", "--series", "osadl"][..],
        &ways[1][2..],
        &store,
    ];
    let refused = text(&punctual(&wrong.concat()).stderr);
    assert!(
        refused.contains("its change points: ") && refused.contains("-tail"),
        "{refused}"
    );
}

/// Returns the command that is printed as the next step.
fn next_of(shown: &str) -> Option<String> {
    let mut lines = shown.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix("next"))?;
    Some(line.trim().to_owned())
}

#[test]
fn a_label_makes_a_series() {
    let place = Sandbox::in_memory();
    let store = Store::open(&place.path("store.db")).unwrap();
    for number in 0..6 {
        let mut recording = run(number, 300, CMDLINE);
        recording.label = Some("nightly".to_owned());
        insert(&store, None, &recording);
    }
    // Six runs are too few for a verdict, and an unknown result does not count as good.
    let trend = json(&place, "trend nightly --json", 4);
    assert_eq!(trend["verdict"], "not_judged");
    assert_eq!(trend["groups"][0]["load"], "idle");
    let shown = text(&place.run("trend nightly").stdout);
    assert!(shown.contains("not judged: 6 runs"), "{shown}");
    place.refused("trend unheard-of", 2);
    place.refused("trend", 2);
}

#[test]
fn followed_trend_is_rejudged_each_run() {
    let place = Sandbox::in_memory();
    let store = Store::open(&place.path("store.db")).unwrap();
    let epoch = planned(&store);
    for number in 0..8 {
        insert(&store, Some(&epoch), &run(number, 300, CMDLINE));
    }
    let mut follower = place.spawn("trend osadl --follow --json");
    let printed = follower.stdout.take().unwrap();
    let mut judged = serde_json::Deserializer::from_reader(printed).into_iter::<Value>();
    let mut runs = || {
        let trend = judged.next().unwrap().unwrap();
        trend["groups"][0]["runs"].as_array().unwrap().len()
    };
    assert_eq!(runs(), 8);
    // The command polls once a second, so it sees a new run at the next poll or at the one after
    // that.
    insert(&store, Some(&epoch), &run(8, 300, CMDLINE));
    insert(&store, Some(&epoch), &run(9, 300, CMDLINE));
    let mut seen = runs();
    while seen < 10 {
        seen = runs();
    }
    signal(&follower, "INT");
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}

#[test]
fn notes_and_facts() {
    let place = Sandbox::in_memory();
    let store = Store::open(&place.path("store.db")).unwrap();
    insert(&store, None, &run(1, 300, CMDLINE));
    insert(
        &store,
        None,
        &run(2, 200, &format!("{CMDLINE} {PARAMETER}")),
    );
    let differ = json(&place, "machine facts diff last~1 last --json", 0);
    assert_eq!(differ["differences"][0]["added"][0], PARAMETER);
    assert_eq!(
        differ["differences"].as_array().unwrap().len(),
        1,
        "{differ:#}"
    );
    assert!(
        place
            .done("machine facts diff last~1 last")
            .contains(PARAMETER)
    );
    assert!(
        place
            .done("machine facts diff last last")
            .contains("no known difference")
    );
    place.done("trend note add --at 2026-11-03 replaced --who ada");
    place.done("trend note add last slower");
    place.refused("trend note add last slower --host board-7", 2);
    place.done("trend note add --at 2026-11-02 moved --series osadl --host board-7");
    let notes = json(&place, "trend note list --json", 0);
    let moved = notes.as_array().unwrap().iter();
    let moved = moved.clone().find(|note| note["text"] == "moved").unwrap();
    assert_eq!(moved["machine"], "board-7", "{notes:#}");
    place.done(&format!(
        "trend note delete {}",
        moved["id"].as_str().unwrap()
    ));
    // By default, reports and plots show the last recording.
    for verb in ["report --format text", "plot"] {
        let named = place.done(&format!("{verb} -o - last"));
        assert_eq!(place.done(&format!("{verb} -o -")), named);
        assert_ne!(place.done(&format!("{verb} -o - last~1")), named);
    }
    place.done("trend note add slowest");
    let notes = json(&place, "trend note list --json", 0);
    let added = notes.as_array().unwrap().iter();
    let added = added
        .clone()
        .find(|note| note["text"] == "slowest")
        .unwrap();
    assert_eq!(added["recording"], place.last().id.to_string());
    place.done(&format!(
        "trend note delete {}",
        added["id"].as_str().unwrap()
    ));
    place.refused("trend note add no-such-recording slower", 1);
    let notes = json(&place, "trend note list --json", 0);
    assert_eq!(notes[1]["text"], "replaced");
    assert_eq!(notes[1]["author"], "ada");
    let id = notes[1]["id"].as_str().unwrap();
    place.done(&format!("trend note delete {id}"));
    assert_eq!(
        json(&place, "trend note list --json", 0)
            .as_array()
            .unwrap()
            .len(),
        1
    );
    place.refused("trend note delete nothing", 2);
}
