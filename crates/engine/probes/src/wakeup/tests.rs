use super::run::below;
use super::*;
use crate::testing::{self, DEADLINE, OTHER, fifo, permitted};
use punctual_model::{Accounting, Scheduling};
use std::time::Duration;

const WAYS: [&str; 12] = [
    "futex", "mutex", "mutex-pi", "condvar", "barrier", "sem", "sem-sysv", "pipe", "eventfd", "mq",
    "socket", "signal",
];

fn probe(given: &[(&str, &str)]) -> Wakeup {
    Wakeup::new(&testing::arguments(PARAMETERS, given))
}

fn plan(cpus: impl IntoIterator<Item = u32>, scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: cpus.into_iter().collect(),
        ..testing::plan(scheduling, duration)
    }
}

fn measure(via: &str, scheduling: Scheduling) -> Vec<Accounting> {
    measure_with(&[("via", via)], scheduling)
}

fn measure_with(given: &[(&str, &str)], scheduling: Scheduling) -> Vec<Accounting> {
    let plan = testing::plan(scheduling, Nanos::from_millis(200));
    let control = Arc::new(Control::new());
    let (_, measured) = testing::measure(probe(given), &plan, &control);
    measured
        .workers
        .iter()
        .map(|worker| worker.accounting)
        .collect()
}

#[test]
fn each_way_accounts_for_every_exchange() {
    for via in WAYS {
        let workers = measure(via, OTHER);
        // There are 200 exchanges in total. They are shared evenly, in whole turns except for the
        // last one.
        let expected: u64 = workers.iter().map(|worker| worker.expected).sum();
        assert_eq!(expected, 200, "{via}");
        for worker in &workers {
            assert!(worker.recorded > 0, "{via} {worker:?}");
        }
    }
}

#[test]
fn real_time_threads_measure_too() {
    let Some(fifo) = permitted(2, 80) else {
        return;
    };
    for via in WAYS {
        let expected: u64 = measure(via, fifo)
            .iter()
            .map(|worker| worker.expected)
            .sum();
        assert_eq!(expected, 200, "{via}");
    }
}

#[test]
fn unmeasured_exchanges_are_not_in_the_account() {
    let Some(fifo) = permitted(2, 2) else {
        return;
    };
    for via in WAYS {
        let workers = measure_with(&[("via", via), ("pairs", "same"), ("warm", "")], fifo);
        let expected: u64 = workers.iter().map(|worker| worker.expected).sum();
        assert_eq!(expected, 200, "{via}");
        assert!(workers.iter().all(|worker| worker.recorded > 0), "{via}");
    }
    let plan = testing::plan(fifo, Nanos::from_millis(200));
    let refused = testing::refusal(probe(&[("warm", "")]), &plan);
    assert!(refused.contains("--pairs same"), "{refused}");
}

#[test]
fn timed_message_wait_measures_latency() {
    let given = [("via", "mq"), ("threads", "2"), ("timeout", "10s")];
    let workers = measure_with(&given, OTHER);
    let expected: Vec<u64> = workers.iter().map(|worker| worker.expected).collect();
    assert_eq!(expected, [200, 200]);
    assert!(
        workers.iter().all(|worker| worker.recorded > 0),
        "{workers:?}"
    );
    let plan = testing::plan(OTHER, Nanos::from_millis(200));
    for given in [&given[1..], &[given[0], given[2]]] {
        let refused = testing::refusal(probe(given), &plan);
        assert!(refused.contains("--via mq and --threads"), "{refused}");
    }
}

#[test]
fn stop_interrupts_each_ways_wait() {
    for via in WAYS {
        // The interval is long enough to show that a stop ended the run.
        let probe = probe(&[("via", via), ("interval", "10s")]);
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(20));
        let plan = testing::plan(OTHER, Nanos::from_secs(3_600));
        let (_, measured) = testing::measure(probe, &plan, &control);
        let expected: Vec<u64> = measured
            .workers
            .iter()
            .map(|worker| worker.accounting.expected)
            .collect();
        assert!(expected.iter().sum::<u64>() <= 1, "{via} {expected:?}");
    }
}

#[test]
fn pairs_are_chosen_from_the_cpus() {
    let chosen =
        |pairs, cpus: &[u32]| locations::choose(pairs, &cpus.iter().copied().collect()).unwrap();
    assert_eq!(chosen("all", &[1, 3]), [(1, 1), (1, 3), (3, 1), (3, 3)]);
    assert_eq!(chosen("same", &[1, 3]), [(1, 1), (3, 3)]);
    assert_eq!(chosen("neighbours", &[1, 3, 4]), [(1, 3), (3, 4), (4, 1)]);
    // The only CPU is its own neighbour.
    assert_eq!(chosen("neighbours", &[2]), [(2, 2)]);
}

#[test]
fn concurrent_pairs_have_own_intervals() {
    let given = [("threads", "3"), ("interval", "2ms"), ("distance", "1ms")];
    for bound in [true, false] {
        let unbound = [("unbound", "yes")];
        let extra = if bound { &[][..] } else { &unbound[..] };
        let given = [&given[..], extra].concat();
        let workers = measure_with(&given, OTHER);
        // The run lasts 200 ms. The second and third pair begin later, and so have fewer exchanges.
        let expected: Vec<u64> = workers.iter().map(|worker| worker.expected).collect();
        assert_eq!(expected, [100, 67, 50], "{given:?}");
        assert!(
            workers.iter().all(|worker| worker.recorded > 0),
            "{workers:?}"
        );
    }
}

#[test]
fn first_completed_pair_ends_all() {
    let given = [("threads", "2"), ("wakeups", "20"), ("distance", "10ms")];
    let workers = measure_with(&given, OTHER);
    assert_eq!(workers[0].recorded, 20);
    assert!(workers[1].recorded < 20, "{workers:?}");
}

#[test]
fn priorities_descend_to_one_with_labels() {
    let given = [("threads", "4"), ("priority-spread", "yes")];
    let mut plan = testing::plan(fifo(3), Nanos::from_secs(1));
    plan.cpus = [2, 5].into_iter().collect();
    let ready = testing::prepare(probe(&given), &plan).unwrap();
    let told: Vec<_> = (ready.workers.iter())
        .map(|worker| (worker.scheduling.priority, worker.label.clone().unwrap()))
        .collect();
    let expected = [(3, 0, 2), (2, 1, 5), (1, 2, 2), (1, 3, 5)];
    let expected =
        expected.map(|(priority, pair, cpu)| (priority, format!("pair {pair}, CPU {cpu}")));
    assert_eq!(told, expected);
    let refused = testing::refusal(probe(&[("threads", "1"), ("interval", "2s")]), &plan);
    assert!(refused.contains("exceeds the run"), "{refused}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], cpus, scheduling, duration| {
        testing::refusal(probe(given), &plan(cpus, scheduling, duration))
    };
    let second = Nanos::from_secs(1);
    let error = refused(&[], 0..17, OTHER, second);
    assert!(error.contains("17 CPUs has 289 pairs"), "{error}");
    assert!(error.contains("--cpus"), "{error}");
    let error = refused(&[("interval", "400ms")], 0..2, OTHER, second);
    assert!(error.contains("4 pairs"), "{error}");
    let error = refused(&[], 0..1, DEADLINE, second);
    assert!(error.contains("SCHED_DEADLINE"), "{error}");
    // More CPUs are allowed if the number of pairs is not the square of the number of CPUs.
    for pairs in ["same", "neighbours"] {
        let probe = probe(&[("pairs", pairs)]);
        let ready = testing::prepare(probe, &plan(0..64, OTHER, second));
        assert_eq!(ready.unwrap().workers.len(), 64);
    }
}

#[test]
fn workers_name_both_ends() {
    let duration = Nanos::from_secs(10);
    let ready = testing::prepare(probe(&[]), &plan([2, 5], OTHER, duration)).unwrap();
    let ends: Vec<_> = ready
        .workers
        .iter()
        .map(|worker| (worker.from_cpu, worker.cpu))
        .collect();
    assert_eq!(
        ends,
        [(2, 2), (2, 5), (5, 2), (5, 5)].map(|(from, to)| (Some(from), Some(to)))
    );
    // The warm-up is a tenth of each pair's share.
    assert_eq!(ready.warm_up, Nanos::from_millis(250));
}

#[test]
fn the_poster_is_just_below() {
    assert_eq!(below(fifo(80)), fifo(79));
    assert_eq!(below(fifo(1)), fifo(1));
    assert_eq!(below(OTHER), OTHER);
}

/// Not a test itself: the process of a posting thread, which is this program with the task as its
/// last argument.
#[test]
fn the_posting_process() {
    // The program, three arguments of the test harness, and the task.
    let words: Vec<String> = std::env::args().collect();
    if let [_, _, name, _, task] = &words[..]
        && name == "wakeup::tests::the_posting_process"
    {
        let input = std::io::BufReader::new(std::io::stdin());
        serve_partner(task, input, &mut std::io::stdout()).unwrap();
    }
}

fn partner() -> Vec<OsString> {
    let mut command = vec![std::env::current_exe().unwrap().into_os_string()];
    let words = [
        "--exact",
        "wakeup::tests::the_posting_process",
        "--nocapture",
    ];
    command.extend(words.map(OsString::from));
    command
}

fn apart(given: &[(&str, &str)], command: Vec<OsString>, plan: &Plan) -> Result<Ready, ProbeError> {
    let offer = testing::Offer {
        partner: Some(command),
        ..testing::Offer::default()
    };
    probe(&[given, &[("processes", "")]].concat()).prepare(plan, &offer)
}

fn measure_apart(given: &[(&str, &str)], scheduling: Scheduling) -> Measured {
    let plan = testing::plan(scheduling, Nanos::from_millis(200));
    let control = Arc::new(Control::new());
    testing::run_all(apart(given, partner(), &plan), &control).1
}

#[test]
fn other_processs_posts_are_all_counted() {
    for via in cross_process::WAYS {
        let measured = measure_apart(&[("via", via)], OTHER);
        let workers: Vec<_> = measured
            .workers
            .iter()
            .map(|worker| worker.accounting)
            .collect();
        let expected: u64 = workers.iter().map(|worker| worker.expected).sum();
        assert_eq!(expected, 200, "{via}");
        assert!(
            workers.iter().all(|worker| worker.recorded > 0),
            "{via} {workers:?}"
        );
        let table = &measured.tables[0];
        assert_eq!(
            (table.name.as_str(), table.rows.len()),
            ("partners", workers.len())
        );
        for row in 0..workers.len() {
            let punctual_model::Cell::Text(tid) = testing::cell(table, row, "thread") else {
                panic!("{table:?}");
            };
            assert_ne!(tid.parse::<u32>().unwrap(), std::process::id());
            assert!(
                testing::count(table, row, "switches_voluntary") > 0,
                "{via}"
            );
            assert!(testing::count(table, row, "cpu_time_ns") > 0, "{via}");
        }
    }
}

#[test]
fn processes_are_real_time_and_warm() {
    let Some(fifo) = permitted(2, 2) else {
        return;
    };
    for via in ["futex", "sem-sysv", "signal"] {
        let given = [("via", via), ("pairs", "same"), ("warm", "")];
        let workers = measure_apart(&given, fifo).workers;
        let expected: u64 = workers
            .iter()
            .map(|worker| worker.accounting.expected)
            .sum();
        assert_eq!(expected, 200, "{via}");
        assert!(
            workers.iter().all(|worker| worker.accounting.recorded > 0),
            "{via}"
        );
    }
}

#[test]
fn stop_reaches_sleeping_process() {
    for via in cross_process::WAYS {
        let plan = testing::plan(OTHER, Nanos::from_secs(3_600));
        let ready = apart(&[("via", via), ("interval", "10s")], partner(), &plan);
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(100));
        let (_, measured) = testing::run_all(ready, &control);
        let expected: u64 = (measured.workers.iter())
            .map(|worker| worker.accounting.expected)
            .sum();
        assert!(expected <= 1, "{via} {expected}");
    }
}

#[test]
fn first_completed_pair_ends_all_processes() {
    let given = [("threads", "2"), ("wakeups", "20"), ("distance", "10ms")];
    let workers = measure_apart(&given, OTHER).workers;
    assert_eq!(workers[0].accounting.recorded, 20);
}

#[test]
fn a_process_that_fails_ends_the_run() {
    let plan = testing::plan(OTHER, Nanos::from_secs(60));
    for (script, says) in [
        ("exit 7", "status 7"),
        ("kill -9 $$", "signal 9"),
        ("echo half; echo 'poster: failed on purpose'", "on purpose"),
        ("echo poster: ready; read go", "status 0"),
    ] {
        let command = ["sh", "-c", script].map(OsString::from).to_vec();
        let ready = apart(&[("pairs", "same")], command, &plan).unwrap();
        let control = Arc::new(Control::new());
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let error = testing::run(ready, &control).unwrap_err();
        assert!(!error.is_usage());
        assert!(error.to_string().contains(says), "{script}: {error}");
    }
}

#[test]
fn what_another_process_cannot_do_is_refused() {
    let plan = plan(0..9, OTHER, Nanos::from_secs(10));
    for via in ["mutex", "mutex-pi", "condvar", "barrier", "sem"] {
        let refused = testing::refusal_of(apart(&[("via", via)], partner(), &plan));
        assert!(refused.contains("in one process"), "{refused}");
    }
    let refused = testing::refusal_of(apart(&[], partner(), &plan));
    assert!(refused.contains("81, but at most 64"), "{refused}");
    let refused = testing::refusal(probe(&[("processes", ""), ("pairs", "same")]), &plan);
    assert!(refused.contains("cannot be found"), "{refused}");
}

#[test]
fn who_is_told_nonsense_says_so() {
    for task in ["", "{}", "\u{0}"] {
        let mut said = Vec::new();
        serve_partner(task, std::io::empty(), &mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("poster: failed "), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn forced_timeouts_count_and_message_arrives() {
    let given = [
        ("via", "mq"),
        ("threads", "1"),
        ("interval", "1ms"),
        ("timeout", "10ms"),
        ("force-timeout", "35ms"),
    ];
    let plan = testing::plan(OTHER, Nanos::from_millis(200));
    let control = Arc::new(Control::new());
    let (_, measured) = testing::measure(probe(&given), &plan, &control);
    // Due at 35, 71, 107, 143 and 179 ms.
    assert_eq!(measured.workers[0].accounting.expected, 5);
    let table = &measured.tables[0];
    assert_eq!(table.name, "timeouts");
    // There are three timeouts for each exchange, or more if the machine is busy.
    let timeouts = testing::count(table, 0, "timeouts");
    assert!(timeouts >= 12, "{timeouts}");
    let refused = testing::refusal(probe(&[("force-timeout", "1s")]), &plan);
    assert!(refused.contains("--timeout"), "{refused}");
}
