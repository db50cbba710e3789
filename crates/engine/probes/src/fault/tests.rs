use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_model::Scheduling;
use punctual_rt::{Error, LockMode, MemoryFile, lock_process_memory};

use super::mechanisms::{After, Memory, WayError};
use super::*;
use crate::testing::{self, DEADLINE, OTHER, cell, count, permitted};

/// Holds a lock, because the treatment of new mappings is a setting of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(given: &[(&str, &str)]) -> Fault {
    Fault::new(&testing::arguments(PARAMETERS, given))
}

fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: testing::cpus(1),
        ..testing::plan(scheduling, duration)
    }
}

/// If a mechanism has no sample after its warm-up, which can happen on a busy machine, measures
/// again for a longer time.
fn measure(given: &[(&str, &str)], scheduling: Scheduling) -> (Vec<WorkerSpec>, Measured) {
    let measure = |millis| {
        let plan = plan(scheduling, Nanos::from_millis(millis));
        testing::measure(fault(given), &plan, &Arc::new(Control::new()))
    };
    let short = measure(300);
    if short
        .1
        .workers
        .iter()
        .all(|worker| worker.accounting.recorded > 0)
    {
        short
    } else {
        measure(5_000)
    }
}

/// Checks the invariants that hold for any run.
fn check(workers: &[WorkerSpec], measured: &Measured) {
    let table = &measured.tables[0];
    for (row, (worker, outcome)) in workers.iter().zip(&measured.workers).enumerate() {
        let label = worker.label.as_deref().unwrap();
        assert_eq!(cell(table, row, "way"), &Cell::from(label));
        let account = outcome.accounting;
        assert!(account.recorded > 0, "{label}: {account:?}");
        assert_eq!(account.missed, 0, "{label}: {:?}", measured.warnings);
        let touches = count(table, row, "touches");
        assert_eq!(touches, account.expected, "{label}");
        let faults = count(table, row, "faults_minor") + count(table, row, "faults_major");
        if label.contains('+') {
            assert_eq!(faults, 0, "{label}: a populated page must not fault");
        } else if label == "huge" {
            assert!(faults >= touches, "{label}: {faults} of {touches}");
        } else {
            assert_eq!(
                faults, touches,
                "{label}: each first access must cause one page fault"
            );
        }
        // The provoked faults are in the table. The probe itself causes only a few other faults, in
        // pages of the histogram for unusual latencies.
        let own = outcome.usage.page_faults_minor;
        assert!(own < account.recorded.max(64), "{label}: {own}");
    }
}

#[test]
fn each_way_causes_the_stated_faults() {
    let _alone = alone();
    let (workers, measured) = measure(&[("interval", "1ms")], OTHER);
    check(&workers, &measured);
    // Each mechanism has a row, measured or not.
    assert_eq!(measured.tables[0].rows.len(), 15);
    for left_out in workers.len()..15 {
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
fn process_memory_lock_has_no_effect() {
    let _alone = alone();
    let held = match lock_process_memory(LockMode::OnFault) {
        Ok(held) => held,
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            punctual_testing::skip!(Right, "with locked memory: {error}");
            return;
        }
    };
    let small = [("interval", "1ms"), ("memory", "anonymous")];
    let (workers, measured) = measure(&small, OTHER);
    assert_eq!(workers.len(), 5);
    check(&workers, &measured);
    drop(held);
}

#[test]
fn it_runs_at_a_real_time_priority() {
    let _alone = alone();
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let given = [("interval", "5ms"), ("pages", "32"), ("memory", "file")];
    let (workers, measured) = measure(&given, fifo);
    check(&workers, &measured);
}

#[test]
fn a_stop_ends_a_long_pause() {
    let _alone = alone();
    let fault = fault(&[("interval", "10s"), ("memory", "anonymous")]);
    let plan = Plan {
        duration: None,
        ..plan(OTHER, Nanos::ZERO)
    };
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(50));
    let (_, measured) = testing::measure(fault, &plan, &control);
    // At most one batch of the first mechanism ran, because the pause after it was not over yet.
    assert!(measured.workers[0].accounting.expected <= 256);
    assert_eq!(measured.workers[1].accounting.expected, 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let _alone = alone();
    let refused = |given: &[_], scheduling| {
        testing::refusal(fault(given), &plan(scheduling, Nanos::from_secs(2)))
    };
    let error = refused(&[("interval", "1s")], OTHER);
    assert!(error.contains("shorter --interval"), "{error}");
    assert!(refused(&[], DEADLINE).contains("SCHED_DEADLINE"));
    for (name, text) in [("pages", "0"), ("pages", "16385"), ("interval", "1us")] {
        assert!(Arguments::check(PARAMETERS, [(name, text)]).is_err());
    }
}

#[test]
fn unavailable_batch_is_missed() {
    let _alone = alone();
    let mut fault = fault(&[("interval", "1ms")]);
    // No machine has a pool of huge pages this large.
    let way = Way {
        memory: Memory::HugePool,
        after: After::Nothing,
    };
    fault.sizes.huge_pages = 1 << 15;
    let run = Run {
        probe: fault,
        cpu: testing::cpus(1).first().unwrap(),
        terms: Terms {
            cpus: Vec::new(),
            scheduling: OTHER,
            duration: Some(Nanos::from_millis(100)),
            warm_up: Nanos::ZERO,
        },
        choice: Choice {
            ways: vec![way],
            left_out: Vec::new(),
            warnings: Vec::new(),
        },
    };
    let control = Arc::new(Control::new());
    let (recorder, _reader) = testing::worker(run.terms.warm_up, &control);
    let measured = run.measure(vec![recorder], &control).unwrap();
    let account = measured.workers[0].accounting;
    assert_eq!(account.recorded, 0, "{account:?}");
    assert!(account.missed > 0, "{account:?}");
    assert!(measured.warnings[0].contains("batches failed"));
    assert_eq!(
        cell(&measured.tables[0], 0, "faults_per_touch"),
        &Cell::Unknown
    );
}

#[test]
fn impossible_huge_pages_are_not_promised() {
    let _alone = alone();
    let sizes = Sizes {
        pages: 4,
        huge_pages: 1 << 15,
    };
    // No pool has this many pages, and no machine has this much memory.
    let choice = Choice::make("huge", "map-populate", sizes);
    assert!(choice.ways.is_empty());
    assert_eq!(choice.left_out[0].0.memory, Memory::HugeAdvised);
    assert!(matches!(choice.left_out[0].1, WayError::AdvisedTooLate));
    // The file must have the size of the batch.
    let file = MemoryFile::new(4).unwrap();
    let way = Way {
        memory: Memory::File,
        after: After::Nothing,
    };
    assert!(way.map(4, &file).is_ok());
    assert!(matches!(way.map(5, &file), Err(Error::Os { .. })));
}

#[test]
fn failing_way_is_explained_in_a_sentence() {
    let refused = || Error::NiceOutOfRange { nice: 20 };
    let refusal = refused().to_string();
    for (error, text) in [
        (
            WayError::AdvisedTooLate,
            "madvise cannot request huge pages here, because mmap has already populated the \
             mapping: reserve pages for the pool (vm.nr_hugepages)",
        ),
        (
            WayError::NotHuge,
            "the kernel could not allocate a huge page: check \
             /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        (WayError::System(refused()), &refusal),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn equally_excluded_ways_share_a_warning() {
    let way = |after| Way {
        memory: Memory::HugeAdvised,
        after,
    };
    let mut choice = Choice {
        left_out: vec![
            (way(After::MapPopulate), WayError::AdvisedTooLate),
            (way(After::MapLocked), WayError::AdvisedTooLate),
            (way(After::Nothing), WayError::NotHuge),
        ],
        ..Choice::default()
    };
    choice.warn_of_left_out();
    let [both, one] = &choice.warnings[..] else {
        panic!("{:?}", choice.warnings);
    };
    for after in [After::MapPopulate, After::MapLocked] {
        assert!(both.contains(&way(after).label()), "{both}");
    }
    assert!(one.ends_with(&WayError::NotHuge.to_string()), "{one}");
}
