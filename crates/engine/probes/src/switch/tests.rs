use super::*;
use crate::testing::{self, DEADLINE, OTHER, permitted, plan};

fn switch(given: &[(&str, &str)]) -> Switch {
    Switch::new(&testing::arguments(PARAMETERS, given))
}

fn run(switch: Switch, plan: &Plan, control: &Arc<Control>) -> Measured {
    testing::measure(switch, plan, control).1
}

#[test]
fn each_way_accounts_for_every_switch() {
    let switch = switch(&[("interval", "5ms"), ("batch", "20")]);
    let plan = plan(OTHER, Nanos::from_millis(1_000));
    let measured = run(switch, &plan, &Arc::new(Control::new()));
    for worker in &measured.workers {
        // There are 200 batches, a quarter of them for each mechanism.
        assert_eq!(worker.accounting.expected, 50 * 20);
    }
    let recorded = |way: usize| measured.workers[way].accounting.recorded;
    assert!(recorded(0) > 0 && recorded(2) > 0 && recorded(3) > 0);
}

#[test]
fn at_real_time_priority_a_yield_switches() {
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let switch = switch(&[("interval", "10ms"), ("batch", "20")]);
    let plan = plan(fifo, Nanos::from_millis(400));
    let measured = run(switch, &plan, &Arc::new(Control::new()));
    for worker in &measured.workers {
        assert_eq!(worker.accounting.expected, 10 * 20);
        assert!(worker.accounting.recorded > 0, "{:?}", worker.accounting);
    }
    assert!(measured.warnings.is_empty());
}

#[test]
fn stop_interrupts_a_batch() {
    for way in ["alone", "yield", "pipe", "process"] {
        let given = [("way", way), ("interval", "200ms"), ("batch", "100000")];
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(10));
        let plan = plan(OTHER, Nanos::from_secs(7_200));
        let measured = run(switch(&given), &plan, &control);
        assert!(measured.workers[0].accounting.expected <= 100_000, "{way}");
    }
}

#[test]
fn single_way_gets_every_worker() {
    let switch = switch(&[("way", "process")]);
    let ready = testing::prepare(switch, &plan(OTHER, Nanos::from_secs(1))).unwrap();
    for worker in &ready.workers {
        let label = worker.label.as_deref().unwrap();
        assert!(label.starts_with("pipe to process, CPU "), "{label}");
        assert_eq!(worker.rate_hz, 10_000);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |scheduling, duration| testing::refusal(switch(&[]), &plan(scheduling, duration));
    assert!(refused(DEADLINE, Nanos::from_secs(1)).contains("deadline"));
    let text = refused(OTHER, Nanos::from_millis(39));
    assert!(text.contains("40.0 ms"), "{text}");
}
