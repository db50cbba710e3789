//! The service, with simulated clocks.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use punctual_model::{Completion, Nanos, SeriesEpoch, Slot, SlotCause, SlotState};
use punctual_monitor::{Clock, Machine, Plan, Runner, SeriesPlan, Service, SlotEnd, read_plan};
use punctual_store::{Batch, Lease, SlotFilter, Store};

/// Clocks that the test sets. Waiting takes no time.
struct TestClock {
    wall: Cell<Timestamp>,
    boot: Cell<u64>,
    awake: Cell<u64>,
    zone: TimeZone,
}

impl TestClock {
    fn at(local: &str, zone: &str) -> Self {
        let zone = TimeZone::get(zone).unwrap();
        let local: DateTime = local.parse().unwrap();
        Self {
            wall: Cell::new(local.to_zoned(zone.clone()).unwrap().timestamp()),
            boot: Cell::new(0),
            awake: Cell::new(0),
            zone,
        }
    }

    fn pass(&self, time: Duration) {
        self.wall.set(self.wall.get() + time);
        self.boot.set(self.boot.get() + time.as_nanos() as u64);
        self.awake.set(self.awake.get() + time.as_nanos() as u64);
    }

    fn suspend(&self, time: Duration) {
        self.wall.set(self.wall.get() + time);
        self.boot.set(self.boot.get() + time.as_nanos() as u64);
    }

    fn local(&self, time: Timestamp) -> String {
        time.to_zoned(self.zone.clone())
            .strftime("%m-%d %H:%M %Z")
            .to_string()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.wall.get()
    }

    fn since_boot(&self) -> Nanos {
        Nanos(self.boot.get())
    }

    fn awake(&self) -> Nanos {
        Nanos(self.awake.get())
    }

    fn is_synchronized(&self) -> bool {
        false
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone()
    }

    fn wait(&self, at_most: Duration, _: &AtomicBool) {
        self.pass(at_most);
    }
}

/// A runner that lets the simulated clock advance by the duration of the series.
struct TestRunner<'a> {
    clock: &'a TestClock,
    ran: Vec<(String, Timestamp, SlotCause)>,
}

impl Runner for TestRunner<'_> {
    fn run(&mut self, series: &SeriesPlan, _: &SeriesEpoch, slot: &Slot) -> SlotEnd {
        self.clock.pass(series.length().into());
        self.ran.push((series.name.clone(), slot.due, slot.cause));
        SlotEnd {
            state: SlotState::Recorded,
            reason: None,
            recording: None,
        }
    }

    fn say(&mut self, _: &str) {}
}

fn machine(boot: &str, kernel: &str) -> Machine {
    Machine {
        id: "machine".to_owned(),
        host: None,
        boot_id: boot.to_owned(),
        kernel: kernel.to_owned(),
    }
}

struct Bench {
    _folder: tempfile::TempDir,
    store: Store,
    clock: TestClock,
    plan: Plan,
}

impl Bench {
    fn new(plan: &str, local: &str, zone: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            store: Store::open(&folder.path().join("store.db")).unwrap(),
            _folder: folder,
            clock: TestClock::at(local, zone),
            plan: read_plan("plan", plan).unwrap(),
        }
    }

    fn service(&self) -> Service<'_> {
        self.service_on(machine("boot", "kernel"))
    }

    fn service_on(&self, machine: Machine) -> Service<'_> {
        Service::begin(&self.plan, &self.store, &self.clock, machine).unwrap()
    }

    /// Runs the service for this long on the simulated clock. Returns the slots that ran.
    fn serve(&self, service: &mut Service<'_>, time: Duration) -> Vec<String> {
        let mut runner = TestRunner {
            clock: &self.clock,
            ran: Vec::new(),
        };
        let end = self.clock.wall.get() + time;
        let never = AtomicBool::new(false);
        while self.clock.wall.get() < end {
            let wait = service.turn(&mut runner, &never).unwrap();
            let left = Duration::try_from(end - self.clock.wall.get()).unwrap_or_default();
            self.clock.wait(wait.min(left), &never);
        }
        let ran = runner.ran.iter();
        ran.map(|(name, due, cause)| format!("{name} {} {cause}", self.clock.local(*due)))
            .collect()
    }

    /// Returns all slots, oldest first, with due time, state and reason.
    fn slots(&self) -> Vec<String> {
        let mut slots = self.store.slots(&SlotFilter::default()).unwrap();
        slots.reverse();
        let shown = slots.iter().map(|slot| {
            let reason = slot.reason.as_ref().map(|reason| format!(" ({reason})"));
            format!(
                "{} {} {}{}",
                slot.series,
                self.clock.local(slot.due),
                slot.state,
                reason.unwrap_or_default()
            )
        });
        shown.collect()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

fn series(name: &str, rest: &str) -> String {
    format!("[[series]]\nname = \"{name}\"\nprobe = \"timer\"\n{rest}\n")
}

#[test]
fn summer_time_neither_skips_nor_doubles_slots() {
    let plan = series("a", "duration = \"1min\"\nat = [\"02:30\", \"12:00\"]");
    // The clock goes from 02:00 CET to 03:00 CEST.
    let spring = Bench::new(&plan, "2026-03-28T20:00", "Europe/Berlin");
    let ran = spring.serve(&mut spring.service(), 30 * HOUR);
    assert_eq!(
        ran,
        [
            "a 03-29 03:30 CEST at",
            "a 03-29 12:00 CEST at",
            "a 03-30 02:30 CEST at"
        ]
    );
    // 02:30 occurs twice, as CEST and as CET.
    let autumn = Bench::new(&plan, "2026-10-24T20:00", "Europe/Berlin");
    let ran = autumn.serve(&mut autumn.service(), 32 * HOUR);
    assert_eq!(
        ran,
        [
            "a 10-25 02:30 CEST at",
            "a 10-25 12:00 CET at",
            "a 10-26 02:30 CET at"
        ]
    );
    assert_eq!(autumn.slots().len(), 3);
}

#[test]
fn backward_clock_runs_no_slot_twice() {
    let plan = series("a", "duration = \"1min\"\nat = [\"09:30\", \"11:00\"]");
    let bench = Bench::new(&plan, "2026-05-01T09:00", "UTC");
    let mut service = bench.service();
    assert_eq!(bench.serve(&mut service, HOUR), ["a 05-01 09:30 UTC at"]);
    bench.clock.wall.set(bench.clock.wall.get() - HOUR);
    assert!(bench.serve(&mut service, HOUR + HOUR / 4).is_empty());
    assert_eq!(bench.serve(&mut service, HOUR), ["a 05-01 11:00 UTC at"]);
    // A leap second, during which POSIX time has 23:59:59 twice.
    let plan = series("b", "duration = \"1s\"\nat = [\"23:59:59\"]");
    let leap = Bench::new(&plan, "2026-12-31T23:59", "UTC");
    let mut service = leap.service();
    let mut ran = leap.serve(&mut service, Duration::from_millis(59_500));
    leap.clock
        .wall
        .set(leap.clock.wall.get() - Duration::from_secs(1));
    ran.extend(leap.serve(&mut service, Duration::from_secs(10)));
    assert_eq!(ran.len(), 1, "{ran:?}");
    assert_eq!(leap.slots(), ["b 12-31 23:59 UTC recorded"]);
}

#[test]
fn slots_that_passed_say_why() {
    let plan = series("a", "duration = \"1min\"\nevery = \"1h\"");
    let bench = Bench::new(&plan, "2026-05-01T00:30", "UTC");
    let mut service = bench.service();
    bench.serve(&mut service, HOUR);
    // The machine is suspended during two slots, and resumes before the wait of the third ends.
    bench.clock.suspend(3 * HOUR - Duration::from_secs(1_500));
    bench.serve(&mut service, Duration::from_secs(60));
    // The clock is set forward, past two slots.
    bench
        .clock
        .wall
        .set(bench.clock.wall.get() + 2 * HOUR + HOUR / 2);
    bench.serve(&mut service, Duration::from_secs(60));
    drop(service);
    // The service does not run during one slot.
    bench.clock.pass(HOUR + HOUR / 3);
    bench.serve(&mut bench.service(), Duration::from_secs(60));
    let slots = bench.slots();
    let reasons: Vec<&str> = slots.iter().map(|slot| &slot[12..]).collect();
    assert_eq!(reasons.len(), 7, "{slots:#?}");
    assert!(reasons[0].contains("recorded"));
    for (place, what) in [
        (1, "suspended for"),
        (2, "suspended for"),
        (4, "set forward by"),
        (5, "set forward by"),
        (6, "service was not running"),
    ] {
        assert!(reasons[place].contains(what), "{place}: {slots:#?}");
        assert!(reasons[place].contains("missed"), "{place}: {slots:#?}");
    }
    assert!(reasons[3].contains("recorded"), "{slots:#?}");
}

#[test]
fn overlapping_slots_wait_or_name_the_obstacle() {
    let plan = series("long", "duration = \"50min\"\nat = [\"01:00\"]")
        + &series(
            "patient",
            "duration = \"1min\"\nat = [\"01:00\"]\nwait = \"1h\"",
        )
        + &series("short", "duration = \"1min\"\nat = [\"01:10\"]")
        + &series(
            "often",
            "duration = \"1min\"\nevery = \"20min\"\nwait = \"30min\"",
        );
    let bench = Bench::new(&plan, "2026-05-01T00:50", "UTC");
    let ran = bench.serve(&mut bench.service(), HOUR + HOUR / 4);
    assert_eq!(
        ran,
        [
            "long 05-01 01:00 UTC at",
            "patient 05-01 01:00 UTC at",
            "often 05-01 01:40 UTC every",
            "often 05-01 02:00 UTC every"
        ]
    );
    let slots = bench.slots();
    let in_the_way = |slot: &&String| slot.contains("series 'long' was being measured");
    let missed: Vec<&String> = slots.iter().filter(in_the_way).collect();
    // "short" misses 01:10. "often" misses 01:00, and also 01:20, because its next slot was due
    // before this one could run.
    assert_eq!(missed.len(), 3, "{slots:#?}");
    assert_eq!(slots.len(), 7, "{slots:#?}");
}

#[test]
fn a_year_of_slots_takes_no_year() {
    let plan = series("a", "duration = \"5h\"\nat = [\"07:10\"]");
    let bench = Bench::new(&plan, "2026-01-01T00:00", "Europe/Berlin");
    let ran = bench.serve(&mut bench.service(), 24 * 365 * HOUR);
    assert_eq!(ran.len(), 365);
    assert_eq!(bench.slots().len(), 365);
    let recorded = SlotFilter {
        state: Some(SlotState::Recorded),
        ..SlotFilter::default()
    };
    assert_eq!(bench.store.slots(&recorded).unwrap().len(), 365);
}

#[test]
fn boot_and_kernel_change_are_due_once() {
    let plan = series(
        "a",
        "duration = \"1min\"\nafter = [\"boot\", \"kernel-change\"]",
    );
    let bench = Bench::new(&plan, "2026-05-01T00:00", "UTC");
    let start = |boot: &str, kernel: &str| {
        bench.clock.pass(HOUR);
        let mut service = bench.service_on(machine(boot, kernel));
        bench.serve(&mut service, HOUR)
    };
    // The service has no earlier state to compare with.
    assert!(start("1", "6.12").is_empty());
    assert!(start("1", "6.12").is_empty());
    let boot = start("2", "6.12");
    assert_eq!(boot, ["a 05-01 05:00 UTC boot"]);
    assert!(start("2", "6.12").is_empty());
    // A boot and a kernel change together cause only one run.
    let kernel = start("3", "6.13");
    assert_eq!(kernel, ["a 05-01 09:00 UTC kernel_change"]);
    assert!(start("3", "6.13").is_empty());
}

#[test]
fn changed_series_begins_epoch_without_old_slots() {
    let mut bench = Bench::new(
        &series("a", "duration = \"1min\"\nevery = \"1h\""),
        "2026-05-01T00:30",
        "UTC",
    );
    bench.serve(&mut bench.service(), 2 * HOUR);
    bench.plan = read_plan("plan", &series("a", "duration = \"2min\"\nevery = \"1h\"")).unwrap();
    bench.clock.pass(5 * HOUR);
    bench.serve(&mut bench.service(), HOUR);
    let epochs = bench.store.series().unwrap();
    assert_eq!(epochs.len(), 2);
    let slots = bench.store.slots(&SlotFilter::default()).unwrap();
    let epochs: Vec<u32> = slots.iter().map(|slot| slot.epoch).collect();
    assert_eq!(epochs, [2, 1, 1]);
}

#[test]
fn clock_wrong_by_decades_adds_few_rows() {
    let bench = Bench::new(
        &series("a", "duration = \"1s\"\nevery = \"1min\""),
        "1970-01-02T00:00",
        "UTC",
    );
    let mut service = bench.service();
    bench.serve(&mut service, Duration::from_secs(30));
    let right = "2026-05-01T00:00:30Z".parse().unwrap();
    bench.clock.wall.set(right);
    bench.serve(&mut service, Duration::from_secs(90));
    let slots = bench.store.slots(&SlotFilter::default()).unwrap();
    assert!((9_000..11_000).contains(&slots.len()), "{}", slots.len());
    assert_eq!(slots[0].state, SlotState::Recorded);
    let first = slots.last().unwrap();
    assert!(
        first.reason.as_ref().unwrap().contains("not listed"),
        "{first:?}"
    );
}

/// Renames the table of slots, so that no slot can be stored.
fn rename_slots(bench: &Bench, from: &str, to: &str) {
    let raw = rusqlite::Connection::open(bench.store.path()).unwrap();
    let sql = format!("ALTER TABLE {from} RENAME TO {to}");
    raw.execute_batch(&sql).unwrap();
}

#[test]
fn a_store_that_refuses_loses_no_slot() {
    let plan = series("a", "every = \"1h\"\nduration = \"1s\"\nwait = \"20min\"");
    let bench = Bench::new(&plan, "2026-03-02T00:30", "UTC");
    let mut service = bench.service();
    bench.serve(&mut service, HOUR);
    let mut runner = TestRunner {
        clock: &bench.clock,
        ran: Vec::new(),
    };
    let never = AtomicBool::new(false);
    rename_slots(&bench, "slot", "gone");
    let mut said = String::new();
    // The slots of 02:00 and 03:00 become due.
    for _ in 0..26 {
        bench.clock.pass(HOUR / 12);
        if let Err(error) = service.turn(&mut runner, &never) {
            said = error.to_string();
        }
    }
    assert!(said.contains("slot"), "{said}");
    assert!(runner.ran.is_empty());
    rename_slots(&bench, "gone", "slot");
    bench.serve(&mut service, HOUR / 2);
    assert_eq!(
        bench.slots(),
        [
            "a 03-02 01:00 UTC recorded".to_owned(),
            format!("a 03-02 02:00 UTC missed ({said})"),
            format!("a 03-02 03:00 UTC missed ({said})"),
            "a 03-02 04:00 UTC recorded".to_owned(),
        ]
    );
}

/// A runner that makes the store fail at the end of a run.
struct Refusing<'a>(&'a Bench);

impl Runner for Refusing<'_> {
    fn run(&mut self, _: &SeriesPlan, _: &SeriesEpoch, _: &Slot) -> SlotEnd {
        rename_slots(self.0, "slot", "gone");
        SlotEnd {
            state: SlotState::Failed,
            reason: Some("no space".to_owned()),
            recording: None,
        }
    }

    fn say(&mut self, _: &str) {}
}

#[test]
fn ended_slot_stops_running() {
    let bench = Bench::new(&series("a", "every = \"1h\""), "2026-03-02T00:59", "UTC");
    let mut service = bench.service();
    let never = AtomicBool::new(false);
    bench.clock.pass(HOUR / 30);
    let mut runner = Refusing(&bench);
    assert!(service.turn(&mut runner, &never).is_ok());
    assert!(service.turn(&mut runner, &never).is_err());
    rename_slots(&bench, "gone", "slot");
    assert!(service.turn(&mut runner, &never).is_ok());
    assert_eq!(bench.slots(), ["a 03-02 01:00 UTC failed (no space)"]);
}

#[test]
fn a_stop_ends_the_service() {
    let bench = Bench::new(&series("a", "every = \"1h\""), "2026-05-01T00:30", "UTC");
    let stop = AtomicBool::new(true);
    let mut runner = TestRunner {
        clock: &bench.clock,
        ran: Vec::new(),
    };
    bench.service().serve(&mut runner, &stop);
    assert!(stop.load(Ordering::Relaxed) && runner.ran.is_empty());
}

/// Collects the log lines of a service. Nothing is measured.
struct Said(Vec<String>);

impl Runner for Said {
    fn run(&mut self, _: &SeriesPlan, _: &SeriesEpoch, _: &Slot) -> SlotEnd {
        unreachable!("nothing is due")
    }

    fn say(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

#[test]
fn clock_jump_removes_no_rows() {
    let plan = format!("{}\n[keep]\nrows = \"2y\"\n", series("a", "every = \"1h\""));
    let bench = Bench::new(&plan, "2026-11-26T08:00", "UTC");
    let mut recording = punctual_model::testing::recording(1, 2);
    recording.started = bench.clock.wall.get();
    let mut begun = recording.clone();
    begun.completion = Completion::Running;
    let rows = std::mem::take(&mut begun.series.rows);
    let lease = Lease {
        pid: 1,
        process_start: 1,
        boot_id: "boot".to_owned(),
        namespaces: None,
    };
    let mut writer = bench.store.begin(&begun, &lease).unwrap();
    let batch = Batch {
        elapsed: recording.duration_ns,
        rows,
        ..Batch::default()
    };
    writer.commit(&batch).unwrap();
    writer.finish(&recording).unwrap();
    let mut service = bench.service();
    let series = &bench.plan.series[0];
    let now = bench.clock.wall.get();
    let epoch =
        punctual_monitor::epoch_of(&bench.store, &machine("boot", "kernel"), series, now).unwrap();
    bench.store.join_series(recording.id, &epoch).unwrap();
    let mut said = Said(Vec::new());
    let mut hours = |service: &mut Service<'_>, hours: u32| {
        for _ in 0..hours {
            bench.clock.pass(HOUR);
            service.age(&mut said);
        }
        let loaded = bench.store.load(recording.id).unwrap();
        (!loaded.series.rows.is_empty(), std::mem::take(&mut said.0))
    };
    assert_eq!(hours(&mut service, 30), (true, vec![]));
    let years = Duration::from_secs(3 * 365 * 86_400);
    bench.clock.wall.set(bench.clock.wall.get() + years);
    let (kept, said) = hours(&mut service, 100);
    assert!(kept);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("old data is not removed: the clock jumped from"),
        "{said:?}"
    );
    // A second service reads the state from the store.
    let mut service = bench.service();
    assert_eq!(hours(&mut service, 30), (true, vec![]));
    bench.clock.wall.set(bench.clock.wall.get() - years);
    let (kept, said) = hours(&mut service, 30);
    assert!(
        kept && said[0].ends_with("the clock is correct again"),
        "{said:?}"
    );
    // If years pass on all clocks, this is not a clock jump.
    bench.clock.pass(years);
    assert_eq!(hours(&mut service, 20), (true, vec![]));
    assert_eq!(hours(&mut service, 30), (false, vec![]));
}

/// Each part of the period has one run, also after restarts, at the times that the stored epoch
/// gives. If the service does not run during a part, its slot is missed.
#[test]
fn sampled_series_runs_once_in_each_part() {
    let rest = "sample = \"6 x 1min in 6h\"\nbudget = \"100us\"\n\
                parameters = { interval = \"1ms\" }";
    let bench = Bench::new(&series("a", rest), "2026-05-01T09:20", "UTC");
    let mut ran = bench.serve(&mut bench.service(), 2 * HOUR);
    bench.clock.pass(2 * HOUR);
    ran.extend(bench.serve(&mut bench.service(), 8 * HOUR));
    assert_eq!(ran.len(), 10, "{ran:?}");
    let epoch = bench.store.series().unwrap().remove(0);
    let sample = epoch.periodic().and_then(|asked| asked.sample).unwrap();
    let mut slots = bench.store.slots(&SlotFilter::default()).unwrap();
    slots.reverse();
    let due: Vec<_> = slots.iter().map(|slot| Some(slot.due)).collect();
    let expected: Vec<_> = (0..12)
        .map(|number| sample.due(epoch.seed(), epoch.begun, number))
        .collect();
    assert_eq!(due, expected);
    let states: Vec<_> = slots.iter().map(|slot| slot.state).collect();
    for (place, state) in states.iter().enumerate() {
        let expected = match place {
            2 | 3 => SlotState::Missed,
            _ => SlotState::Recorded,
        };
        assert_eq!(*state, expected, "{place}: {states:?}");
    }
    assert!(slots.iter().all(|slot| slot.cause == SlotCause::Sample));
}
