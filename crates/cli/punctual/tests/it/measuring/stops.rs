//! Tests of runs that are ended or delayed by the user, by a signal, or by a stop.

use super::*;

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let place = Sandbox::new();
    let child = place.spawn(&format!("{PLAIN} -D 10m"));
    place.wait_for_rows();
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Stopped);
    assert_conserved(&recording);
}

#[test]
fn killed_run_is_interrupted_with_data_kept() {
    let place = Sandbox::new();
    let mut child = place.spawn(&format!("{PLAIN} -D 10m"));
    place.wait_for_rows();
    signal(&child, "KILL");
    child.wait().unwrap();
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Interrupted);
    assert!(
        recording
            .threads
            .iter()
            .all(|thread| thread.accounting.balances())
    );
    assert!(recording.all_latencies().recorded() > 0);
    assert!(place.done("list").contains("interrupted"));
    place.done("store delete last");
}

#[test]
fn stopped_second_counts_thousand_missed_periods() {
    let place = Sandbox::new();
    let child = place.spawn(&format!("{PLAIN} -D 5s --warm-up 0 --cpus {}", first_cpu()));
    place.wait_for_rows();
    stop(&child);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    assert_conserved(&recording);
    let account = recording.accounting();
    assert_eq!(account.expected, 5_000);
    assert_eq!(account.warm_up, 0);
    // The sleep before SIGCONT takes at least one second, plus the time that other programs take.
    // It counts as one sample. Each of the other samples has its own period.
    assert!(account.missed >= 990, "{account:?}");
    let max = recording.all_latencies().max().unwrap();
    assert!(max >= Nanos::from_millis(990), "{max}");
}

/// If the user stops a run, it proves nothing about the machine. Its verdict is neither *broken*
/// nor *held*.
#[test]
fn a_run_that_was_stopped_proves_nothing() {
    let place = Sandbox::new();
    let child = place.spawn(&format!(
        "{PLAIN} -D 6s --max-latency 2s --cpus {}",
        first_cpu()
    ));
    place.wait_for_rows();
    stop(&child);
    // Longer than a busy machine delays the run by itself.
    std::thread::sleep(Duration::from_secs(3));
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{shown}");
    let recording = place.last();
    assert_conserved(&recording);
    let [stop] = recording.suspensions.as_slice() else {
        panic!("{:?}", recording.suspensions);
    };
    assert_eq!(stop.kind, SuspensionKind::StoppedBySignal);
    assert!(stop.length_ns >= Nanos::from_millis(2_990), "{stop:?}");
    assert!(recording.top_samples[0].is_suspended(&recording.suspensions));
    assert_eq!(recording.verdict.outcome, Outcome::NotDecidable);
    for told in [
        "stopped by a signal (Ctrl-Z) for about",
        "by SIGSTOP or Ctrl-Z; measure",
        ", suspended",
    ] {
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(told), "{told}: {shown}");
    }
}

/// A SIGCONT to a process that is running must not change anything.
#[test]
fn a_continuation_alone_is_no_stop() {
    let place = Sandbox::new();
    let child = place.spawn(&format!("{PLAIN} -D 2s --max-latency 100s"));
    place.wait_for_rows();
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    let recording = place.last();
    assert_conserved(&recording);
    // If this machine kept the program from running for a long time at that moment, a stop cannot
    // be distinguished from that.
    if recording.suspensions.is_empty() {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert_eq!(recording.verdict.outcome, Outcome::Met);
    }
}
