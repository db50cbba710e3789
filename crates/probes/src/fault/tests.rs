use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_model::CpuSet;
use punctual_rt::{Error, LockMode, MemoryFile, lock_process_memory};

use super::ways::{After, Memory};
use super::*;
use crate::LaneReader;

/// How new mappings are treated is a setting of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(given: &[(&'static str, &'static str)]) -> Fault {
    Fault::new(&Arguments::check(PARAMETERS, given.iter().copied()).unwrap())
}

fn plan(policy: Policy, duration: Nanos) -> Plan {
    let cpu = punctual_rt::affinity::current().unwrap()[0];
    Plan {
        cpus: CpuSet::from_iter([cpu]),
        scheduling: Scheduling {
            policy,
            priority: u8::from(policy == Policy::Fifo) * 10,
        },
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
    }
}

fn lanes(prepared: &Prepared, control: &Arc<Control>) -> (Vec<Recorder>, Vec<LaneReader>) {
    prepared.open_lanes(None, control).into_iter().unzip()
}

fn measure(mut fault: Fault, policy: Policy) -> (Prepared, Result<Measured, ProbeError>) {
    let prepared = fault
        .prepare(&plan(policy, Nanos::from_millis(300)))
        .unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let measured = fault.run(recorders, &control);
    (prepared, measured)
}

fn cell<'a>(table: &'a Table, row: usize, key: &str) -> &'a Cell {
    let column = table.columns.iter().position(|c| c.key == key).unwrap();
    &table.rows[row][column]
}

fn count(table: &Table, row: usize, key: &str) -> u64 {
    match cell(table, row, key) {
        Cell::Count(count) => *count,
        other => panic!("{key}: {other:?}"),
    }
}

/// What must hold of any run.
fn check(prepared: &Prepared, measured: &Measured) {
    let table = &measured.tables[0];
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for (row, (lane, outcome)) in prepared.lanes.iter().zip(&measured.lanes).enumerate() {
        let label = lane.label.as_deref().unwrap();
        assert_eq!(cell(table, row, "way"), &Cell::from(label));
        let account = outcome.accounting;
        assert!(account.balances(), "{label}: {account:?}");
        assert!(account.recorded > 0, "{label}: {account:?}");
        assert_eq!(account.missed, 0, "{label}: {:?}", measured.warnings);
        assert_eq!(outcome.histogram.recorded(), account.recorded, "{label}");
        let touches = count(table, row, "touches");
        assert_eq!(touches, account.expected, "{label}");
        let faults = count(table, row, "faults_minor") + count(table, row, "faults_major");
        if label.contains('+') {
            assert_eq!(
                faults, 0,
                "{label}: what was made to be there must not fault"
            );
        } else if label == "huge" {
            assert!(faults >= touches, "{label}: {faults} of {touches}");
        } else {
            assert_eq!(faults, touches, "{label}: each first touch is one fault");
        }
        // Provoked ones are in the table; of its own making are a few, of the
        // histogram's pages, that other latencies touch first.
        let own = outcome.usage.page_faults_minor;
        assert!(own < account.recorded.max(64), "{label}: {own}");
    }
}

#[test]
fn each_way_faults_as_often_as_it_says() {
    let _alone = alone();
    let (prepared, measured) = measure(fault(&[("interval", "1ms")]), Policy::Other);
    let measured = measured.unwrap();
    check(&prepared, &measured);
    // Each way is a row, measured or not.
    assert_eq!(measured.tables[0].rows.len(), 15);
    for left_out in prepared.lanes.len()..15 {
        let table = &measured.tables[0];
        assert_eq!(cell(table, left_out, "touches"), &Cell::Unknown);
        let Cell::Text(label) = cell(table, left_out, "way") else {
            panic!("a way without a name");
        };
        assert!(
            measured
                .warnings
                .iter()
                .any(|w| w.starts_with("not measured") && w.contains(label.as_str()))
        );
    }
}

#[test]
fn the_memory_lock_of_the_process_changes_nothing() {
    let _alone = alone();
    let held = match lock_process_memory(LockMode::OnFault) {
        Ok(held) => held,
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            eprintln!("SKIP with locked memory: {error}");
            return;
        }
    };
    let small = [("interval", "1ms"), ("memory", "anonymous")];
    let (prepared, measured) = measure(fault(&small), Policy::Other);
    assert_eq!(prepared.lanes.len(), 5);
    check(&prepared, &measured.unwrap());
    drop(held);
}

#[test]
fn it_runs_at_a_real_time_priority() {
    let _alone = alone();
    let given = [("interval", "5ms"), ("pages", "32"), ("memory", "file")];
    let (prepared, measured) = measure(fault(&given), Policy::Fifo);
    match measured {
        Ok(measured) => check(&prepared, &measured),
        Err(ProbeError::System(error)) if error.is_privilege() => eprintln!("SKIP fifo: {error}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_stop_ends_a_long_pause() {
    let _alone = alone();
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    let mut fault = fault(&[("interval", "10s"), ("memory", "anonymous")]);
    let mut plan = plan(Policy::Other, Nanos::ZERO);
    plan.duration = None;
    let prepared = fault.prepare(&plan).unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let runner = std::thread::spawn({
        let control = Arc::clone(&control);
        move || fault.run(recorders, &control).unwrap()
    });
    std::thread::sleep(Duration::from_millis(50));
    while !runner.is_finished() {
        control.stop();
        std::thread::sleep(Duration::from_millis(10));
    }
    let measured = runner.join().unwrap();
    // One batch of the first way at most: the pause after it was not over.
    assert!(measured.lanes[0].accounting.expected <= 256);
    assert_eq!(measured.lanes[1].accounting.expected, 0);
    assert!(measured.lanes.iter().all(|lane| lane.accounting.balances()));
}

#[test]
fn what_cannot_be_is_refused() {
    let _alone = alone();
    let error = fault(&[("interval", "1s")])
        .prepare(&plan(Policy::Other, Nanos::from_secs(2)))
        .unwrap_err();
    assert!(error.to_string().contains("shorter --interval"), "{error}");
    let error = fault(&[])
        .prepare(&plan(Policy::Deadline, Nanos::from_secs(10)))
        .unwrap_err();
    assert!(error.is_usage());
    for (name, text) in [("pages", "0"), ("pages", "16385"), ("interval", "1us")] {
        assert!(Arguments::check(PARAMETERS, [(name, text)]).is_err());
    }
}

#[test]
fn a_batch_that_cannot_be_had_is_missed() {
    let _alone = alone();
    let mut fault = fault(&[
        ("interval", "1ms"),
        ("memory", "file"),
        ("after", "nothing"),
    ]);
    let prepared = fault
        .prepare(&plan(Policy::Other, Nanos::from_millis(100)))
        .unwrap();
    // A pool of huge pages as large as this is nowhere.
    let way = Way {
        memory: Memory::HugePool,
        after: After::Nothing,
    };
    fault.sizes.huge_pages = 1 << 15;
    fault.plan.as_mut().unwrap().choice.ways = vec![way];
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let measured = fault.run(recorders, &control).unwrap();
    let account = measured.lanes[0].accounting;
    assert!(account.balances() && account.recorded == 0, "{account:?}");
    assert!(account.missed > 0, "{account:?}");
    assert!(measured.warnings[0].contains("batches failed"));
    assert_eq!(
        cell(&measured.tables[0], 0, "faults_per_touch"),
        &Cell::Unknown
    );
}

#[test]
fn advised_huge_pages_are_not_promised_where_they_cannot_be() {
    let _alone = alone();
    let sizes = Sizes {
        pages: 4,
        huge_pages: 1 << 15,
    };
    // No pool has as many, and no memory either.
    let choice = Choice::make("huge", "map-populate", sizes);
    assert!(choice.ways.is_empty());
    assert_eq!(choice.left_out[0].0.memory, Memory::HugeAdvised);
    assert!(
        choice.left_out[0]
            .1
            .contains("before anything can be advised")
    );
    // The file is made as large as the batch.
    let file = MemoryFile::new(4).unwrap();
    let way = Way {
        memory: Memory::File,
        after: After::Nothing,
    };
    assert!(way.map(4, &file).is_ok());
    assert!(matches!(way.map(5, &file), Err(Error::Os { .. })));
}
