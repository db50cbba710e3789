//! Machines and their states.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{Completion, Outcome};
use punctual_report::document::{MachineRow, MachineState};
use punctual_store::Machine;

use crate::worse::SeriesVerdicts;

/// The data that determines the states.
pub(crate) struct Judge {
    now: Timestamp,
    silent_after: Duration,
    /// Machines with an open regression.
    worse: BTreeSet<String>,
    /// The worst outcome of each machine over the runs of its sampled series.
    proven: BTreeMap<String, Outcome>,
}

impl Judge {
    pub(crate) fn now(silent_after: Duration, worse: &SeriesVerdicts) -> Self {
        Self {
            now: Timestamp::now(),
            silent_after,
            worse: worse.machines(),
            proven: worse.proven(),
        }
    }

    /// Returns the state of a machine. A machine is never shown as meeting its requirement if that
    /// is unknown.
    pub(crate) fn state_of(&self, machine: &Machine) -> MachineState {
        if machine.retired.is_some() {
            return MachineState::Retired;
        }
        let (Some(latest), Some(seen)) = (&machine.latest, machine.last_seen) else {
            return MachineState::NeverMeasured;
        };
        // An old verdict does not describe the present state of a machine.
        if is_longer(self.now, seen, self.silent_after) {
            return MachineState::Silent;
        }
        let proven = self.proven.get(&machine.name).copied();
        match latest.outcome {
            _ if proven.is_some_and(Outcome::is_bad) => return MachineState::Broken,
            Outcome::Broken => return MachineState::Broken,
            Outcome::Exceeded => return MachineState::Exceeded,
            _ => {}
        }
        if self.worse.contains(&machine.name) {
            return MachineState::Worse;
        }
        match (latest.outcome, latest.completion) {
            // One run of a sampled series proves nothing, but all its runs together do.
            (Outcome::NoRequirement, _) => match proven {
                Some(Outcome::Held) => MachineState::Held,
                Some(_) => MachineState::NotProven,
                None => MachineState::NotJudged,
            },
            (Outcome::Met, Completion::Finished) => MachineState::Met,
            (Outcome::Held, Completion::Finished) => MachineState::Held,
            _ => MachineState::NotProven,
        }
    }

    /// Returns the line of the overview.
    pub(crate) fn row(&self, machine: &Machine) -> MachineRow {
        let latest = machine.latest.as_ref().map(|latest| {
            let path = crate::paths::recording_path(latest.id);
            (latest.headline.clone(), path, latest.p99_ns, latest.max_ns)
        });
        MachineRow {
            name: machine.name.clone(),
            path: crate::paths::machine_path(&machine.name),
            state: self.state_of(machine),
            last_seen: machine.last_seen,
            recordings: machine.recordings,
            latest,
        }
    }
}

/// Returns whether more than `most` has passed since `then`. A time in the future does not count,
/// so that a clock that is ahead never makes a machine silent.
fn is_longer(now: Timestamp, then: Timestamp, most: Duration) -> bool {
    let passed = now.as_nanosecond() - then.as_nanosecond();
    u128::try_from(passed).is_ok_and(|passed| passed > most.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::RecordingId;
    use punctual_store::Latest;

    fn machine(outcome: Outcome, completion: Completion, ago_s: i64) -> Machine {
        let seen = Timestamp::from_second(1_000_000 - ago_s).unwrap();
        Machine {
            name: "a".to_owned(),
            recordings: 1,
            last_seen: Some(seen),
            latest: Some(Latest {
                id: RecordingId(uuid::Uuid::nil()),
                started: seen,
                headline: String::new(),
                outcome,
                completion,
                max_ns: None,
                p99_ns: None,
                fingerprint: String::new(),
            }),
            retired: None,
        }
    }

    fn judge(worse: &[&str]) -> Judge {
        Judge {
            now: Timestamp::from_second(1_000_000).unwrap(),
            silent_after: Duration::from_secs(100),
            worse: worse.iter().map(|name| (*name).to_owned()).collect(),
            proven: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_not_known_is_not_held() {
        use Completion::{Finished, Interrupted, Running};
        use Outcome::{Broken, Exceeded, Held, Met, NoRequirement, NotDecidable, NotProven};
        for (outcome, completion, ago, state) in [
            (Held, Finished, 50, MachineState::Held),
            (Met, Finished, 50, MachineState::Met),
            (Exceeded, Finished, 50, MachineState::Exceeded),
            (NotDecidable, Finished, 50, MachineState::NotProven),
            (Held, Finished, -50, MachineState::Held),
            (Held, Finished, 101, MachineState::Silent),
            (Broken, Finished, 101, MachineState::Silent),
            (Broken, Finished, 99, MachineState::Broken),
            (Held, Interrupted, 50, MachineState::NotProven),
            (Held, Running, 50, MachineState::NotProven),
            (NotProven, Finished, 0, MachineState::NotProven),
            (NoRequirement, Finished, 0, MachineState::NotJudged),
        ] {
            let machine = machine(outcome, completion, ago);
            assert_eq!(judge(&[]).state_of(&machine), state, "{machine:?}");
        }
        let held = machine(Held, Finished, 0);
        assert_eq!(judge(&["a"]).state_of(&held), MachineState::Worse);
        // Worse eight months ago is silent today.
        let gone = machine(Held, Finished, 101);
        assert_eq!(judge(&["a"]).state_of(&gone), MachineState::Silent);
        // The runs of a week are judged together, and a broken week is never shown as good.
        let proven = |outcome, latest| {
            let mut judge = judge(&[]);
            judge.proven.insert("a".to_owned(), outcome);
            judge.state_of(&machine(latest, Finished, 0))
        };
        assert_eq!(proven(Held, NoRequirement), MachineState::Held);
        assert_eq!(proven(NotProven, NoRequirement), MachineState::NotProven);
        assert_eq!(proven(Broken, NoRequirement), MachineState::Broken);
        assert_eq!(proven(Broken, Met), MachineState::Broken);
        // Whatever it measured, and however long it is silent.
        for (outcome, ago) in [(Broken, 0), (Held, 101)] {
            let retired = Machine {
                retired: Some(Timestamp::UNIX_EPOCH),
                ..machine(outcome, Finished, ago)
            };
            assert_eq!(judge(&["a"]).state_of(&retired), MachineState::Retired);
        }
        let never = Machine {
            latest: None,
            last_seen: None,
            ..held
        };
        assert_eq!(judge(&[]).state_of(&never), MachineState::NeverMeasured);
    }
}
