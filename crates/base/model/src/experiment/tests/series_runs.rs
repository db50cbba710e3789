//! Tests of the runs of a series.

use std::sync::OnceLock;

use jiff::SignedDuration;

use super::*;
use crate::testing::{recording, week};
use crate::{Fact, LoadRecord, Policy, Recording};

/// A run of the week with this number, at its due time, without a late period.
fn run_of(proof: &SeriesProof, number: usize) -> Recording {
    static RUN: OnceLock<Recording> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let mut run = recording(1, 58);
        for row in &mut run.series.rows {
            (row.max_ns, row.missed) = (Some(Nanos(50_000)), 0);
        }
        let thread = &mut run.threads[0];
        thread.accounting.expected -= thread.accounting.missed;
        (thread.accounting.missed, thread.missed_histogram) = (0, None);
        run.duration_ns = Nanos::from_secs(60);
        run
    });
    let mut run = run.clone();
    run.started = proof.runs[number - 1].due;
    run.requirement.periodic = Some(proof.asked.clone());
    run
}

#[test]
fn due_times_follow_from_the_seed() {
    let proof = week(100.0, |_| Some(0));
    assert!(proof.has_times_of_seed());
    // The period may be a later one of the series.
    let sample = proof.asked.sample.unwrap();
    let mut third = proof.clone();
    let begun = third.from;
    third.from = sample.period(begun, 2).unwrap().0;
    for run in &mut third.runs {
        run.due = sample.due(7, begun, 2 * 60 + run.number - 1).unwrap();
    }
    assert!(third.has_times_of_seed());

    let changed = |change: fn(&mut SeriesProof)| {
        let mut changed = proof.clone();
        change(&mut changed);
        changed.has_times_of_seed()
    };
    assert!(!changed(|proof| proof.seed = "8".to_owned()));
    assert!(!changed(|proof| proof.seed = "no number".to_owned()));
    assert!(!changed(|proof| proof.asked.sample = None));
    assert!(!changed(
        |proof| proof.runs[7].due += SignedDuration::from_nanos(1)
    ));
    // All runs of the period must be there, in their order.
    assert!(!changed(|proof| drop(proof.runs.pop())));
    assert!(!changed(|proof| proof.runs.swap(3, 4)));
    assert!(!changed(|proof| proof.runs[0].number = 0));
}

#[test]
fn run_counts_only_in_its_part_of_the_period() {
    let mut proof = week(100.0, |_| Some(0));
    let filled = |runs: &mut SeriesRuns, proof: &mut SeriesProof, run: &Recording, number: u64| {
        let mut slot = SampledSlot::new(number, run.started);
        runs.fill(&mut slot, run, proof);
        (slot.late_seconds, slot.lacking.unwrap_or_default())
    };
    let mut runs = SeriesRuns::default();
    let first = run_of(&proof, 1);
    assert_eq!(
        filled(&mut runs, &mut proof, &first, 1),
        (Some(0), String::new())
    );
    assert_eq!(proof.measured_on, Some(MeasuredOn::from_recording(&first)));
    assert_eq!(proof.loads, ["command"]);

    // The third run took place in the part of the second.
    let mut other = run_of(&proof, 2);
    let (late, why) = filled(&mut runs, &mut proof, &other, 3);
    assert!(
        late.is_none() && why.contains("outside its part of the period"),
        "{why}"
    );
    for (number, moved) in [(1, -1), (60, 1)] {
        let [begin, end] = [proof.from, proof.until];
        other.started = if moved < 0 {
            begin - SignedDuration::from_nanos(1)
        } else {
            end
        };
        let (late, why) = filled(&mut runs, &mut proof, &other, number);
        assert!(
            late.is_none() && why.contains("outside its part"),
            "{number}: {why}"
        );
    }
}

#[test]
fn runs_that_overlap_do_not_count() {
    for (gap, counts) in [(0, true), (1, true), (-1, false)] {
        let mut proof = week(100.0, |_| Some(0));
        let mut runs = SeriesRuns::default();
        // The first run ends where the second part of the period begins.
        let mut first = run_of(&proof, 1);
        let part = SignedDuration::from_nanos(proof.asked.sample.unwrap().part().0 as i64);
        let length = SignedDuration::from_secs(60);
        first.started = proof.from + part - length + SignedDuration::from_millis(5);
        let mut second = run_of(&proof, 2);
        let end = first.started + length;
        second.started = end + SignedDuration::from_nanos(gap);
        let mut slot = SampledSlot::new(1, first.started);
        runs.fill(&mut slot, &first, &mut proof);
        assert_eq!(slot.lacking, None);
        let mut slot = SampledSlot::new(2, second.started);
        runs.fill(&mut slot, &second, &mut proof);
        let why = slot.lacking.unwrap_or_default();
        assert_eq!(why.is_empty(), counts, "{gap}: {why}");
        assert_eq!(why.contains("overlaps"), !counts, "{why}");
    }
}

/// Each fact that makes runs comparable, and how it is named if it changes.
#[test]
fn runs_on_a_changed_machine_prove_nothing() {
    type Change = fn(&mut Recording);
    let changes: [(Change, &str); 9] = [
        (
            |run| run.host.hostname = Fact::known("other".to_owned(), "test"),
            "the host name changed from bench-7 to other by run 2, so the runs are not about one \
             machine",
        ),
        (
            |run| run.host.kernel.release = Fact::unknown("test", "no"),
            "the kernel changed from 6.12.38-rt-amd64 to unknown by run 2",
        ),
        (
            |run| run.host.kernel.version = Fact::known("#2".to_owned(), "test"),
            "the version of the kernel changed from #1 SMP PREEMPT_RT Debian to #2",
        ),
        (
            |run| run.host.processor.model = Fact::known("P".to_owned(), "test"),
            "the processor changed from Intel(R) Core(TM) i7-8700T CPU @ 2.40GHz to P",
        ),
        (
            |run| run.requirement.periodic = None,
            "the budget changed from 100 µs of 1.00 ms to unknown",
        ),
        (
            |run| {
                run.load.push(LoadRecord {
                    name: "disk".to_owned(),
                    ..LoadRecord::default()
                });
            },
            "the load changed from command to command, disk",
        ),
        (
            |run| run.threads[0].cpu = Some(3),
            "the list of measured CPUs changed from 0 to 3",
        ),
        (
            |run| {
                let parameters = &mut run.probe.parameters;
                parameters.insert("interval_ns".to_owned(), 5.into());
            },
            "the interval changed from 1000000 ns to 5 ns",
        ),
        (
            |run| {
                let parameters = &mut run.probe.parameters;
                parameters.insert("priority".to_owned(), 5.into());
            },
            "the scheduling changed from unknown unknown to unknown 5",
        ),
    ];
    for (change, text) in changes {
        let mut proof = week(100.0, |_| Some(0));
        let mut runs = SeriesRuns::default();
        for number in 1..=3 {
            let mut run = run_of(&proof, number);
            if number > 1 {
                change(&mut run);
            }
            let mut slot = SampledSlot::new(number as u64, run.started);
            runs.fill(&mut slot, &run, &mut proof);
        }
        // It is said once, by the first run that differs.
        let [said] = proof.refused.as_slice() else {
            panic!("{text}: {:?}", proof.refused);
        };
        assert!(said.starts_with(text), "{said}");
    }
}

/// An application may change its own CPUs and scheduling.
#[test]
fn cpus_of_an_application_may_change() {
    let mut proof = week(100.0, |_| Some(0));
    proof.asked.jobs = true;
    let mut runs = SeriesRuns::default();
    for number in 1..=2 {
        let mut run = run_of(&proof, number);
        run.threads[0].cpu = Some(number as u32);
        run.threads[0].scheduling.policy = Policy::Other;
        run.probe
            .parameters
            .insert("priority".to_owned(), number.into());
        let mut slot = SampledSlot::new(number as u64, run.started);
        runs.fill(&mut slot, &run, &mut proof);
    }
    assert_eq!(proof.refused, [""; 0]);
}

#[test]
fn verdict_is_repeated_from_the_recordings() {
    let mut proof = week(100.0, |number| (number != 4).then_some(0));
    let ids: Vec<RecordingId> = (0..60).map(|_| RecordingId::new()).collect();
    for (run, id) in proof.runs.iter_mut().zip(&ids) {
        run.recording = run.late_seconds.map(|_| *id);
    }
    let place = |id: RecordingId| ids.iter().position(|other| *other == id).unwrap() + 1;
    let (mut all, absent) = proof.judge_again(&mut |id| Some(run_of(&proof, place(id))));
    assert_eq!(absent, 0);
    assert_eq!((all.outcome, all.refused.len()), (Outcome::NotProven, 0));
    assert_eq!(
        all.measured_on.as_ref().map(MeasuredOn::date).unwrap()[..8],
        *"2026-11-"
    );
    assert_eq!(all.loads, ["command"]);
    for (run, stated) in all.runs.iter().zip(&proof.runs) {
        assert_eq!(
            (run.number, run.due, run.recording),
            (stated.number, stated.due, stated.recording)
        );
        assert_eq!(run.late_seconds, stated.late_seconds, "{:?}", run.lacking);
    }
    // The run without a recording is still missing.
    assert!(all.sentence.contains("59 of 60 runs") && all.runs[4].lacking.is_some());

    // The recordings of two runs were deleted: their stated numbers and the comparison stay.
    proof.refused = vec!["the kernel changed".to_owned()];
    proof.loads = vec!["stated".to_owned()];
    let deleted = [2, 9];
    let (some, absent) = proof
        .judge_again(&mut |id| (!deleted.contains(&place(id))).then(|| run_of(&proof, place(id))));
    assert_eq!(absent, deleted.len());
    assert_eq!(some.runs[1], proof.runs[1]);
    assert_eq!(
        (&some.refused, &some.loads, &some.measured_on),
        (&proof.refused, &proof.loads, &None)
    );

    // A run that was later changed by a suspension of the machine has fewer late seconds.
    all.runs[0].late_seconds = Some(60);
    let (again, _) = all.judge_again(&mut |id| Some(run_of(&proof, place(id))));
    assert_eq!(again.runs[0].late_seconds, Some(0));
}
