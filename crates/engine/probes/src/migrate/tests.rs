use super::*;
use crate::testing::{self, OTHER, fifo, permitted, plan};
use punctual_model::Cell;

fn migrate(given: &[(&str, &str)]) -> Migrate {
    Migrate::new(&testing::arguments(PARAMETERS, given))
}

fn judged(measured: &Measured) -> (u64, u64) {
    match measured.tables[0].rows[0][..2] {
        [Cell::Count(judged), Cell::Count(not_judged)] => (judged, not_judged),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn every_round_is_accounted_for_and_judged() {
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let migrate = migrate(&[("run", "1ms"), ("interval", "10ms")]);
    let plan = plan(fifo, Nanos::from_millis(400));
    let (workers, measured) = testing::measure(migrate, &plan, &Arc::new(Control::new()));
    assert_eq!(workers.len(), plan.cpus.len());
    for worker in &measured.workers {
        assert_eq!(worker.accounting.expected, 40);
        assert_eq!(worker.accounting.warm_up, 4);
    }
    let (judged, not_judged) = judged(&measured);
    assert_eq!(judged + not_judged, 36);
}

#[test]
fn normal_policy_threads_run_same_rounds() {
    let migrate = migrate(&[("run", "1ms"), ("interval", "10ms")]);
    let cpus = punctual_rt::affinity::current().unwrap();
    let run = Run {
        probe: migrate,
        terms: Terms {
            cpus: cpus[..1].to_vec(),
            scheduling: OTHER,
            duration: Some(Nanos::from_millis(200)),
            warm_up: Nanos::ZERO,
        },
        ranks: vec![OTHER; 2],
    };
    let control = Arc::new(Control::new());
    let (recorder, _reader) = testing::worker(run.terms.warm_up, &control);
    let measured = run.measure(vec![recorder], &control).unwrap();
    assert!(measured.workers[0].accounting.balances());
    assert_eq!(measured.workers[0].accounting.expected, 20);
    let (judged, not_judged) = judged(&measured);
    assert_eq!(judged + not_judged, 20);
}

#[test]
fn a_stop_ends_it() {
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let round_robin = Scheduling {
        policy: Policy::RoundRobin,
        ..fifo
    };
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(10));
    let plan = plan(round_robin, Nanos::from_secs(7_200));
    let (_, measured) = testing::measure(migrate(&[("interval", "60s")]), &plan, &control);
    assert!(measured.workers.iter().all(|l| l.accounting.expected <= 1));
}

#[test]
fn ranks_go_down_from_the_priority() {
    let priorities = |cpus, priority| -> Vec<u8> {
        let ranks = ranks(cpus, fifo(priority)).unwrap();
        ranks.iter().map(|rank| rank.priority).collect()
    };
    assert_eq!(priorities(2, 95), [93, 94, 95]);
    assert_eq!(priorities(98, 99).len(), 99);
    let error = ranks(3, fifo(3)).unwrap_err().to_string();
    assert!(error.contains("3 CPUs need 4 priorities"), "{error}");
    assert!(ranks(600, fifo(99)).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], scheduling| {
        let plan = plan(scheduling, Nanos::from_secs(1));
        testing::refusal(migrate(given), &plan)
    };
    assert!(refused(&[], OTHER).contains("fifo or rr"));
    assert!(refused(&[("run", "11ms")], fifo(50)).contains("half of the interval"));
}
