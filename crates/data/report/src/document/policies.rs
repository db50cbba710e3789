//! Threads that lost their policy, and calls that the kernel refused.

use punctual_model::cause::PolicyChange;
use punctual_model::{Outlier, Policy, Recording, counted};

/// Returns the changes and refusals as sentences. They come before all figures, because they explain
/// every later outlier of the thread.
pub(super) fn sentences(recording: &Recording) -> Vec<String> {
    let Some(explanation) = &recording.explanation else {
        return Vec::new();
    };
    let changes = explanation.policy_changes.iter().map(|change| {
        let outliers = explanation.outliers.iter();
        let own = outliers.filter(|one| one.blame.victim.tid == change.thread.pid);
        let (all, later) = own.fold((0, 0), |(all, later), one| {
            (all + 1, later + u64::from(is_later(change, one)))
        });
        match all {
            0 => change.sentence(),
            _ if later == all && all > 1 => {
                format!("{}: all its {all} outliers came later", change.sentence())
            }
            _ => format!(
                "{}: {later} of its {} came later",
                change.sentence(),
                counted(all, "outlier", "outliers")
            ),
        }
    });
    let refused = explanation.refused_calls.iter();
    changes.chain(refused.map(|call| call.sentence())).collect()
}

/// Returns what restores the policy that the thread of an outlier had lost before it.
pub(super) fn remedy(recording: &Recording, outlier: &Outlier) -> Option<String> {
    let changes = &recording.explanation.as_ref()?.policy_changes;
    let mut before = changes.iter().rev();
    let tid = outlier.blame.victim.tid;
    let change = before.find(|one| one.thread.pid == tid && is_later(one, outlier))?;
    let priority = change.from.scheduling().priority;
    let command = match change.policy {
        Some(Policy::Fifo) => format!(" (chrt -f -p {priority} {tid})"),
        Some(Policy::RoundRobin) => format!(" (chrt -r -p {priority} {tid})"),
        _ => String::new(),
    };
    Some(format!(
        "restore the policy that {} has lost{command}, and find what changed it, such as chrt, rtkit \
         or the program itself",
        change.thread.label()
    ))
}

fn is_later(change: &PolicyChange, outlier: &Outlier) -> bool {
    outlier.monotonic_ns + outlier.latency_ns > change.at_ns
}

#[cfg(test)]
mod tests {
    use punctual_model::cause::RefusedCall;
    use punctual_model::{Explanation, KernelPriority, Nanos, Task, testing};

    use super::*;

    #[test]
    fn outliers_after_a_lost_policy_are_counted() {
        let mut recording = testing::recording(1, 2);
        let mut blame = testing::blame(Vec::new());
        blame.victim.tid = 1300;
        let outlier = |number: u64, at: u64| Outlier {
            light_stage: false,
            number,
            time: recording.started,
            monotonic_ns: Nanos::from_millis(at),
            cpu: Some(1),
            thread: 0,
            latency_ns: Nanos::from_millis(1),
            blame: blame.clone(),
        };
        let outliers = vec![outlier(1, 10), outlier(2, 30), outlier(3, 40)];
        recording.explanation = Some(Explanation {
            policy_changes: vec![PolicyChange {
                thread: Task {
                    pid: 1300,
                    comm: punctual_model::Comm::new(b"motion"),
                    prio: KernelPriority(120),
                },
                from: KernelPriority::real_time(60),
                policy: Some(Policy::Fifo),
                to: KernelPriority(120),
                at_ns: Nanos::from_millis(20),
                at: None,
            }],
            refused_calls: vec![RefusedCall {
                thread: "motion-1300".to_owned(),
                call: "mlockall".to_owned(),
                error: 1,
                times: 1,
            }],
            outliers: outliers.clone(),
            ..Explanation::default()
        });
        let [lost, refused] = sentences(&recording).try_into().unwrap();
        assert_eq!(
            lost,
            "motion-1300 was fifo 60 until 0.020000, then nice 0: 2 of its 3 outliers came later"
        );
        assert!(refused.contains("refused mlockall (EPERM)"), "{refused}");
        assert_eq!(remedy(&recording, &outliers[0]), None);
        let restore = remedy(&recording, &outliers[1]).unwrap();
        assert!(restore.contains("chrt -f -p 60 1300"), "{restore}");
    }
}
