use super::*;
use crate::testing::{self, DEADLINE, OTHER, permitted, plan};
use punctual_model::CpuSet;

const WAYS: [&str; 3] = ["sigwait", "handler", "signalfd"];

fn probe(given: &[(&str, &str)]) -> Signal {
    Signal::new(&testing::arguments(PARAMETERS, given))
}

fn measure(given: &[(&str, &str)], scheduling: Scheduling) {
    let plan = plan(scheduling, Nanos::from_millis(150));
    let control = Arc::new(Control::new());
    let (workers, measured) = testing::measure(probe(given), &plan, &control);
    for worker in &measured.workers {
        let accounting = worker.accounting;
        assert_eq!(accounting.expected, 150, "{given:?} {accounting:?}");
        assert!(accounting.recorded > 0, "{given:?} {accounting:?}");
    }
    // Each whole round returned to the first thread, and took at least as long as its last hop.
    let row = &measured.tables[0].rows[0];
    assert_eq!(row[0], Cell::Count(workers.len() as u64));
    let first = &measured.workers[0];
    assert_eq!(row[1], Cell::Count(first.accounting.recorded));
    let Cell::Count(fastest_round) = row[2] else {
        panic!("{row:?}");
    };
    assert!(fastest_round >= first.histogram.min().unwrap().0);
}

#[test]
fn bursts_are_accounted_for_round_by_round() {
    // These are 15 bursts of 10 rounds, which is the same number of rounds as in the other tests.
    let given = [("via", "sigwait"), ("interval", "10ms"), ("burst", "10")];
    measure(&given, OTHER);
}

#[test]
fn whole_rounds_form_one_worker() {
    let given = [("rounds", "yes"), ("threads", "3"), ("wakeups", "40")];
    let plan = plan(OTHER, Nanos::from_secs(60));
    let plan = Plan {
        warm_up: Some(Nanos::ZERO),
        ..plan
    };
    let control = Arc::new(Control::new());
    let (workers, measured) = testing::measure(probe(&given), &plan, &control);
    assert_eq!(workers[0].label.as_deref(), Some("whole rounds"));
    let rounds = &measured.workers[0].histogram;
    assert_eq!(rounds.recorded(), 40);
    // The table has the same count.
    let table = &measured.tables[0];
    assert_eq!(testing::count(table, 0, "rounds"), 40);
    let longest = rounds.max().unwrap();
    assert_eq!(testing::cell(table, 0, "max_ns"), &Cell::from(longest));
    assert!(rounds.min() > measured.workers[1].histogram.min());
}

#[test]
fn each_way_accounts_for_all_rounds() {
    for via in WAYS {
        for placement in ["spread", "same"] {
            for threads in ["2", "5"] {
                let given = [("via", via), ("placement", placement), ("threads", threads)];
                measure(&given, OTHER);
            }
        }
    }
}

#[test]
fn real_time_threads_measure_too() {
    let Some(fifo) = permitted(1, 80) else {
        return;
    };
    for via in WAYS {
        measure(&[("via", via), ("threads", "3")], fifo);
        measure(&[("via", via), ("placement", "same")], fifo);
    }
}

#[test]
fn a_stop_ends_a_ring_that_waits() {
    for via in WAYS {
        let probe = probe(&[("via", via), ("interval", "10s"), ("threads", "4")]);
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(30));
        let plan = plan(OTHER, Nanos::from_secs(3_600));
        let (_, measured) = testing::measure(probe, &plan, &control);
        for worker in measured.workers {
            assert!(worker.accounting.expected <= 1, "{via}");
        }
    }
}

#[test]
fn hops_pass_cpus_in_a_ring() {
    let cpus = |given: &[_]| {
        let mut plan = plan(OTHER, Nanos::from_secs(1));
        plan.cpus = CpuSet::from_iter([2, 7]);
        let ready = testing::prepare(probe(given), &plan).unwrap();
        ready
            .workers
            .iter()
            .map(|worker| (worker.from_cpu.unwrap(), worker.cpu.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(cpus(&[("threads", "3")]), [(2, 2), (2, 7), (7, 2)]);
    assert_eq!(cpus(&[("placement", "same")]), [(2, 2), (2, 2)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], plan: &Plan| testing::refusal(probe(given), plan);
    let second = Nanos::from_secs(1);
    let error = refused(&[("interval", "2s")], &plan(OTHER, second));
    assert!(error.contains("interval of 2.00 s"), "{error}");
    assert!(refused(&[], &plan(DEADLINE, second)).contains("SCHED_DEADLINE"));
    let nowhere = Plan {
        cpus: CpuSet::new(),
        ..plan(OTHER, second)
    };
    assert!(refused(&[], &nowhere).contains("needs a CPU"));
    for threads in ["1", "65"] {
        assert!(Arguments::check(PARAMETERS, [("threads", threads)]).is_err());
    }
}
