//! The check of a running application by its jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use punctual_model::{
    CHECKUP_SCHEMA, Checkup, Completion, Condition, IntervalRow, Jobs, Looks, LoopRequirement,
    MeasuredOn, Nanos, Outcome, Recording,
};
use punctual_session::{ApplicationRequest, Snapshot, Subject, Watcher};

use crate::check::{Around, Checked, Either, causes, findings, judgement};
use crate::request::CheckError;
use crate::wording::{command_line, sentence};

/// Watches a running application, and judges its jobs. The application is neither stopped nor
/// changed. With `until_proven`, the run ends as soon as the result is decided.
///
/// # Errors
/// Returns an error if there is no such application, or if the kernel refuses to trace it.
pub fn check_application(
    asked: &ApplicationRequest,
    until_proven: bool,
    around: Around<'_>,
) -> Result<Checked, CheckError> {
    let started = Timestamp::now();
    let decided = AtomicBool::new(false);
    let allowed = asked.requirement.max_late_seconds_per_day;
    let mut looking = Looking {
        asked: &asked.requirement,
        looks: until_proven.then(|| Looks::new(allowed.unwrap_or_default())),
        next: Nanos::ZERO,
        head: None,
        decided: &decided,
        inner: around.view,
    };
    let stop = Arc::new(AtomicBool::new(around.stop.load(Ordering::Relaxed)));
    let mut either = Either {
        inner: &mut looking,
        user: around.stop,
        decided: &decided,
        stop: Arc::clone(&stop),
    };
    let outcome = asked.observe("check", around.host, around.store, &mut either, &stop)?;
    let mut recording = outcome.recording;
    let condition = Condition::of_jobs_looked_at(&recording, &asked.requirement, looking.looks);
    let causes = causes(&recording, &around.audit, &|setting| {
        experiment(asked, setting)
    });
    let mut checkup = Checkup {
        schema: CHECKUP_SCHEMA,
        program: around.audit.program.clone(),
        outcome: condition.outcome,
        sentence: String::new(),
        claims: vec![condition.claim(&asked.requirement, true)],
        asked: asked.requirement.clone(),
        started,
        host: around.audit.host.clone(),
        measured_on: Some(MeasuredOn::from_recording(&recording)),
        findings: findings(&around.audit, &causes),
        conditions: vec![condition],
        causes,
        hardware: None,
        lacking: early_end(&recording, asked.duration)
            .into_iter()
            .chain(outcome.changes.into_iter().map(|change| change.text))
            .collect(),
        next: Vec::new(),
        recordings: (around.store.iter())
            .map(|_| recording.id.to_string())
            .collect(),
    };
    checkup.sentence = sentence(&checkup);
    checkup.next = next(&checkup, asked);
    recording.be_judged(judgement(&checkup, false));
    Ok(Checked {
        checkup,
        recordings: vec![recording],
        stopped: around.stop.load(Ordering::Relaxed),
        store_error: outcome.store_error,
    })
}

/// Decides when a run may end, and forwards all calls to the inner watcher.
struct Looking<'a> {
    asked: &'a LoopRequirement,
    looks: Option<Looks>,
    /// Earliest time of the next look.
    next: Nanos,
    /// The recording at its start.
    head: Option<Recording>,
    /// This is set when the result is decided.
    decided: &'a AtomicBool,
    inner: &'a mut dyn Watcher,
}

/// Part of the run after which a look is tried again that came too early, because the application
/// had no jobs in some seconds.
const AGAIN: u64 = 20;

impl Watcher for Looking<'_> {
    fn begin(&mut self, recording: &Recording) {
        self.head = self.looks.map(|_| recording.clone());
        self.inner.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.inner.progress(snapshot);
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn wants_jobs(&self, elapsed: Nanos) -> bool {
        let due = self.looks.map(|looks| looks.next().max(self.next));
        due.is_some_and(|due| elapsed >= due)
    }

    fn jobs(&mut self, elapsed: Nanos, rows: Vec<IntervalRow>, jobs: Jobs) {
        self.next = Nanos(elapsed.0.saturating_add(elapsed.0 / AGAIN));
        let (Some(looks), Some(head)) = (&mut self.looks, &mut self.head) else {
            return;
        };
        head.series.rows = rows;
        head.duration_ns = elapsed;
        if let Some(explanation) = &mut head.explanation {
            explanation.jobs = Some(jobs);
        }
        if looks.look_at_jobs(head, self.asked) {
            self.decided.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns a sentence if the application ended before the time was over.
fn early_end(recording: &Recording, duration: Nanos) -> Option<String> {
    let ended = recording.completion == Completion::Finished && recording.duration_ns < duration;
    ended.then(|| format!("the application ended after {}", recording.duration_ns))
}

/// Returns the commands to run next.
fn next(checkup: &Checkup, asked: &ApplicationRequest) -> Vec<String> {
    let mut commands = Vec::new();
    if let (Outcome::NotProven, Some(condition)) = (checkup.outcome, checkup.conditions.first())
        && let Some(length) = condition.needs_likely_ns.or(condition.needs_ns)
    {
        let seconds = length.0.div_ceil(Nanos::from_secs(1).0);
        commands.push(command_line(&lasting(&asked.command_line, seconds)));
    }
    if let (false, Some(recording)) = (checkup.causes.is_empty(), checkup.recordings.first()) {
        commands.push(format!("punctual explain {recording}"));
    }
    let mut causes = checkup.causes.iter();
    commands.extend(causes.find_map(|cause| cause.experiment.clone()));
    if checkup
        .findings
        .iter()
        .any(punctual_model::Finding::is_problem)
    {
        commands.push("punctual doctor --fix-script".to_owned());
    }
    commands
}

/// Returns the command of the experiment that shows whether a setting helps the application.
fn experiment(asked: &ApplicationRequest, setting: &str) -> String {
    let budget = format!("{}ns", asked.requirement.budget_ns.0);
    let mut words = vec!["punctual".to_owned(), "experiment".to_owned()];
    if let Some((option, name)) = asked.subject.option() {
        words.extend([format!("--{option}"), name]);
    }
    words.extend(["--budget", &budget, "--set", setting].map(str::to_owned));
    if let Subject::Program(program) = &asked.subject {
        words.push("--".to_owned());
        words.extend(program.iter().cloned());
    }
    format!("sudo {}", command_line(&words))
}

/// Returns the words of a command line with another duration.
fn lasting(words: &[String], seconds: u64) -> Vec<String> {
    let end = words.iter().position(|word| word == "--");
    let (own, program) = words.split_at(end.unwrap_or(words.len()));
    let mut kept = Vec::new();
    let mut own = own.iter();
    while let Some(word) = own.next() {
        match word.as_str() {
            "-D" | "--duration" => drop(own.next()),
            word if word.starts_with("--until-proven") => {}
            word if word.starts_with("-D") || word.starts_with("--duration=") => {}
            word => kept.push(word.to_owned()),
        }
    }
    kept.extend(["-D".to_owned(), format!("{seconds}s")]);
    kept.extend_from_slice(program);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_command_has_one_duration() {
        for line in [
            "punctual check -D 5s --comm a",
            "punctual check -D5s --comm a",
            "punctual check --duration=5s --comm a",
            "punctual check --comm a --duration 5s",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(
                lasting(&words, 9).join(" "),
                "punctual check --comm a -D 9s"
            );
        }
        // The options of the program stay.
        let words = "punctual check -D 5s -- motion -D 3"
            .split(' ')
            .map(str::to_owned);
        let words: Vec<String> = words.collect();
        assert_eq!(
            lasting(&words, 9).join(" "),
            "punctual check -D 9s -- motion -D 3"
        );
    }
}
