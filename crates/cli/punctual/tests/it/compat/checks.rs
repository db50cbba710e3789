//! pi_stress, rt-migrate-test and hackbench, and the tools that are not replaced.

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved, text};

/// Returns stdout and the JSON at its end; `None` if real-time threads are refused here.
fn run(place: &Sandbox, line: &str, status: i32) -> Option<(String, Value)> {
    let output = place.run(line);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    if said.contains("Unable to change scheduling policy") {
        punctual_testing::skip!(Right, "{line}: SCHED_FIFO is refused");
        return None;
    }
    assert_eq!(output.status.code(), Some(status), "{line}: {out}{said}");
    let (lines, json) = out.split_once("{\n").unwrap();
    let json = serde_json::from_str(&format!("{{{json}")).unwrap();
    Some((lines.to_owned(), json))
}

#[test]
fn pi_stress_counts_inversions() {
    let place = Sandbox::new();
    let line = "compat pi_stress -g 1 -i 200 -v --json=-";
    let Some((out, json)) = run(&place, line, 0) else {
        return;
    };
    assert!(
        out.starts_with("Starting PI Stress Test\nNumber of thread groups: 1\n"),
        "{out}"
    );
    assert!(
        out.contains("\nStopping test\n") || out.contains("Stopping test\n"),
        "{out}"
    );
    let recording = place.last();
    let account = recording.threads[0].accounting;
    assert_conserved(&recording);
    assert_eq!(account.expected, 200);
    assert_eq!(json["inversion"], account.recorded);
    let total = format!("Total inversion performed: {}\n", account.recorded);
    assert!(out.contains(&total), "{out}");
    assert!(out.contains("wait for the lock: median "), "{out}");
}

#[test]
fn rt_migrate_test_checks_rounds() {
    let place = Sandbox::new();
    // Nothing can run for longer than the round, so the check passes on any machine, unless a round
    // could not be judged.
    let line = "compat rt-migrate-test -c -q -l 10 -r 5 -s 10 -m 50000 --json=- 2";
    let output = place.run(line);
    let status = output.status.code().unwrap();
    let Some((out, json)) = run(&place, line, status) else {
        return;
    };
    let recording = place.last();
    assert_conserved(&recording);
    assert_eq!(recording.threads[0].accounting.expected, 10);
    assert_eq!(json["num_threads"], 1);
    assert_eq!(json["thread"]["0"]["prio"], 3);
    assert!(out.starts_with("Parent pid: "), "{out}");
    assert!(out.contains("\n Task 0 (prio 3) (pid "), "{out}");
    let word = if status == 0 {
        " Passed!\n"
    } else {
        " Failed!\n"
    };
    assert!(out.ends_with(word), "{out}");
    assert_eq!(json["return_code"], u64::from(status != 0));
}

#[test]
fn hackbench_passes_all_messages() {
    let place = Sandbox::new();
    for how in ["-T", "-T -p", "-T -i", "-P"] {
        let output = place.run(&format!("compat hackbench {how} -g 2 -f 3 -l 20"));
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{said}");
        let head = "Running in threaded mode with 2 groups using 6 file descriptors each (== 12 \
                    tasks)\nEach sender will pass 20 messages of 100 bytes\nTime: ";
        assert!(out.starts_with(head), "{out}");
        assert_eq!(
            said.contains("threads, not processes"),
            how == "-P",
            "{said}"
        );
    }
    let output = place.run("compat hackbench -p -i");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot be used together"));
}

#[test]
fn tools_without_replacement_are_named() {
    let place = Sandbox::new();
    for name in ["queuelat", "ssdd", "pip_stress", "deadline_test"] {
        let output = place.run(&format!("compat {name} -h"));
        let said = text(&output.stderr);
        assert!(
            said.contains(&format!("does not replace {name}: ")),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}
