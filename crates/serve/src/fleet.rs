//! Machines and their states.

use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{Completion, Outcome};
use punctual_report::document::{MachineRow, MachineState};
use punctual_store::Machine;

/// The state of a machine at `now`. What is not known is never shown as held.
pub(crate) fn state_of(machine: &Machine, now: Timestamp, silent_after: Duration) -> MachineState {
    let (Some(latest), Some(seen)) = (&machine.latest, machine.last_seen) else {
        return MachineState::NeverMeasured;
    };
    if latest.outcome == Outcome::Broken {
        return MachineState::Broken;
    }
    if is_longer(now, seen, silent_after) {
        return MachineState::Silent;
    }
    match (latest.outcome, latest.completion) {
        (Outcome::NoRequirement, _) => MachineState::NotJudged,
        (Outcome::Held, Completion::Finished) => MachineState::Held,
        _ => MachineState::NotProven,
    }
}

/// Whether more than `most` has passed since `then`. A clock that is ahead makes nobody
/// silent.
fn is_longer(now: Timestamp, then: Timestamp, most: Duration) -> bool {
    let passed = now.as_nanosecond() - then.as_nanosecond();
    u128::try_from(passed).is_ok_and(|passed| passed > most.as_nanos())
}

/// The line of the overview.
pub(crate) fn row(machine: &Machine, now: Timestamp, silent_after: Duration) -> MachineRow {
    let latest = machine.latest.as_ref().map(|latest| {
        let path = crate::pages::recording_path(latest.id);
        (latest.headline.clone(), path, latest.p99_ns, latest.max_ns)
    });
    MachineRow {
        name: machine.name.clone(),
        path: crate::pages::machine_path(&machine.name),
        state: state_of(machine, now, silent_after),
        last_seen: machine.last_seen,
        recordings: machine.recordings,
        latest,
    }
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
        }
    }

    #[test]
    fn what_is_not_known_is_not_held() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let of = |outcome, completion, ago| {
            state_of(
                &machine(outcome, completion, ago),
                now,
                Duration::from_secs(100),
            )
        };
        use Completion::{Finished, Interrupted, Running};
        assert_eq!(of(Outcome::Held, Finished, 50), MachineState::Held);
        assert_eq!(of(Outcome::Held, Finished, -50), MachineState::Held);
        assert_eq!(of(Outcome::Held, Finished, 101), MachineState::Silent);
        assert_eq!(of(Outcome::Broken, Finished, 101), MachineState::Broken);
        assert_eq!(of(Outcome::Held, Interrupted, 50), MachineState::NotProven);
        assert_eq!(of(Outcome::Held, Running, 50), MachineState::NotProven);
        assert_eq!(of(Outcome::NotProven, Finished, 0), MachineState::NotProven);
        assert_eq!(
            of(Outcome::NoRequirement, Finished, 0),
            MachineState::NotJudged
        );
        let never = Machine {
            latest: None,
            last_seen: None,
            ..machine(Outcome::Held, Finished, 0)
        };
        assert_eq!(
            state_of(&never, now, Duration::MAX),
            MachineState::NeverMeasured
        );
    }
}
