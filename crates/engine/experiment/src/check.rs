//! The check-up of a machine, from start to finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use punctual_culprit::{not_examined, without};
use punctual_host::Host;
use punctual_model::cause::Source;
use punctual_model::{
    Audit, CHECKUP_SCHEMA, Checkup, Claim, Condition, Finding, FindingState, HardwareGaps,
    IntervalRow, Jobs, JudgedBy, Judgement, LeftLate, Looks, MeasuredOn, Nanos, Outcome, Recording,
    RemediedCause, Remedy,
};
use punctual_session::{
    RecordingSink, Request, Session, SessionError, Snapshot, TargetError, Watcher,
};
use punctual_store::StoreError;

use crate::conditions::{hardware, timer};
use crate::events::{Events, UntilProven};
use crate::judge::Grounds;
use crate::request::{CheckError, CheckRequest};
use crate::wording::{command_line, next, sentence};

/// A check-up and its recordings.
#[derive(Debug)]
pub struct Checked {
    /// The check-up.
    pub checkup: Checkup,
    /// The recordings of the check-up. That of the timer probe comes first.
    pub recordings: Vec<Recording>,
    /// Whether the user stopped the check-up.
    pub stopped: bool,
    /// The reason why the check-up could not be stored completely.
    pub store_error: Option<StoreError>,
}

/// The environment of a check-up: the machine, the store and the output of progress.
pub struct Around<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The audit of the machine.
    pub audit: Audit,
    /// Where the recordings are stored; `None` to discard them.
    pub store: Option<&'a dyn RecordingSink>,
    /// Shows the progress.
    pub view: &'a mut dyn Watcher,
    /// Set when the user stops the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Receives one line per minute.
    pub say: &'a dyn Fn(&str),
}

/// Checks a machine with a short run of the hardware probe, followed by the timer probe in each
/// condition. If tracing is available, late periods are explained.
///
/// # Errors
/// Returns an error if a measurement cannot be started (see [`SessionError`]). Missing privileges
/// are not an error, but are listed in [`Checkup::lacking`].
pub fn check(asked: &CheckRequest, mut around: Around<'_>) -> Result<Checked, CheckError> {
    if asked.idle == Nanos::ZERO && asked.loads.is_empty() {
        return Err(CheckError::Nothing);
    }
    let started = Timestamp::now();
    let mut lacking = Vec::new();
    // Prepare the main measurement first, so that a failure is reported before anything is
    // measured.
    let session = prepare(asked, around.host, &mut lacking)?;
    let looked = look_at_hardware(asked, &mut around);
    let looked = looked.unwrap_or_else(|error| {
        lacking.push(format!("the hardware probe did not run: {error}"));
        None
    });
    let (outcome, conditions) = measure(session, asked, &mut around)?;
    let recording = outcome.recording;
    let is_said = lacking
        .iter()
        .any(|why: &String| why.starts_with(NOT_EXPLAINED));
    if recording.explanation.is_none() && !is_said {
        lacking.push(
            "the causes of late periods are unknown, because the periods were not traced"
                .to_owned(),
        );
    }
    let causes = causes(&recording, &around.audit, &|setting| {
        experiment(asked, setting)
    });
    let hardware = looked.as_ref().map(|(recording, _)| gaps(recording));
    let (beside, error) = looked.unzip();
    let mut recordings: Vec<Recording> = std::iter::once(recording).chain(beside).collect();
    let kept = around.store.is_some();
    let mut checkup = Checkup {
        schema: CHECKUP_SCHEMA,
        program: around.audit.program.clone(),
        outcome: overall(&conditions),
        sentence: String::new(),
        claims: Vec::new(),
        asked: asked.requirement.clone(),
        started,
        host: around.audit.host.clone(),
        measured_on: recordings.first().map(MeasuredOn::from_recording),
        findings: findings(&around.audit, &causes),
        conditions,
        causes,
        hardware,
        lacking,
        next: Vec::new(),
        recordings: (recordings.iter().filter(|_| kept))
            .map(|recording| recording.id.to_string())
            .collect(),
    };
    checkup.claims = claims(&checkup);
    checkup.sentence = sentence(&checkup);
    checkup.next = next(&checkup, asked);
    for (place, recording) in recordings.iter_mut().enumerate() {
        recording.be_judged(judgement(&checkup, place > 0));
    }
    Ok(Checked {
        checkup,
        recordings,
        stopped: around.stop.load(Ordering::Relaxed),
        store_error: error.flatten().or(outcome.store_error),
    })
}

/// Returns the verdict to be stored with the recordings. `beside` is set for the recording of the
/// hardware probe, which the verdict does not cover.
pub(crate) fn judgement(checkup: &Checkup, beside: bool) -> Judgement {
    let sentence = &checkup.sentence;
    Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: if beside {
            Outcome::NoRequirement
        } else {
            checkup.outcome
        },
        sentence: if beside {
            format!("measured during the check-up, whose verdict is: {sentence}")
        } else {
            sentence.clone()
        },
        asked: Some(checkup.asked.clone()),
        claims: if beside {
            Vec::new()
        } else {
            checkup.claims.clone()
        },
    }
}

/// Returns the answer for each condition. The verdict depends on the last one, and on each that is
/// broken. The others were measured for comparison, for a quarter of the time.
fn claims(checkup: &Checkup) -> Vec<Claim> {
    let last = checkup.conditions.len().saturating_sub(1);
    let claim = |(place, condition): (usize, &Condition)| {
        let decides = place == last || condition.outcome == Outcome::Broken;
        condition.claim(&checkup.asked, decides)
    };
    checkup.conditions.iter().enumerate().map(claim).collect()
}

/// Prefix of the message that says why the causes of late periods are unknown.
const NOT_EXPLAINED: &str = "late periods are not explained";

/// Runs the timer probe in each condition and returns the results for each.
fn measure(
    session: Session,
    asked: &CheckRequest,
    around: &mut Around<'_>,
) -> Result<(punctual_session::Outcome, Vec<Condition>), CheckError> {
    let phases = timer(asked, false)?.phases;
    let names = phases.into_iter().filter_map(|phase| phase.name).collect();
    let decided = AtomicBool::new(false);
    let allowed = asked.requirement.max_late_seconds_per_day;
    let until = asked.until_proven.map(|_| UntilProven {
        looks: Looks::new(allowed.unwrap_or_default()),
        stop: &decided,
    });
    let requirement = &asked.requirement;
    let mut events = Events::new(requirement, names, until, around.view, around.say);
    let stop = Arc::new(AtomicBool::new(around.stop.load(Ordering::Relaxed)));
    let mut either = Either {
        inner: &mut events,
        user: around.stop,
        decided: &decided,
        stop: Arc::clone(&stop),
    };
    let outcome = session.run(around.store, &mut either, &stop)?;
    let last = events.names.len().saturating_sub(1);
    let looks = events.until.as_ref().map(|until| until.looks);
    let conditions = (events.names.iter().zip(&events.noted).enumerate())
        .map(|(place, (name, noted))| {
            Grounds {
                name,
                recording: &outcome.recording,
                noted,
                asked: &asked.requirement,
                looks: looks.filter(|_| place == last),
            }
            .condition()
        })
        .collect();
    Ok((outcome, conditions))
}

/// Stops a run when the user asks for it or when the result is decided.
pub(crate) struct Either<'a, W> {
    pub(crate) inner: &'a mut W,
    pub(crate) user: &'a AtomicBool,
    pub(crate) decided: &'a AtomicBool,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<W: Watcher> Watcher for Either<'_, W> {
    fn begin(&mut self, recording: &Recording) {
        self.inner.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.inner.progress(snapshot);
        if self.user.load(Ordering::Relaxed) || self.decided.load(Ordering::Relaxed) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn wants_samples(&self) -> bool {
        self.inner.wants_samples()
    }

    fn samples(&mut self, thread: u32, samples: &[punctual_model::Sample]) {
        self.inner.samples(thread, samples);
    }

    fn wants_jobs(&self, elapsed: Nanos) -> bool {
        self.inner.wants_jobs(elapsed)
    }

    fn jobs(&mut self, elapsed: Nanos, rows: Vec<IntervalRow>, jobs: Jobs) {
        self.inner.jobs(elapsed, rows, jobs);
    }
}

/// Prepares the main measurement. Trace events are omitted if they are not available.
fn prepare(
    asked: &CheckRequest,
    host: &Host,
    lacking: &mut Vec<String>,
) -> Result<Session, CheckError> {
    let begun = |request: Request| Session::prepare(request, host.clone());
    let session = match begun(timer(asked, true)?) {
        Ok(session) => session,
        Err(
            error @ (SessionError::Trace(_)
            | SessionError::Target(
                TargetError::PidNamespace(_) | TargetError::TimeNamespace(_),
            )),
        ) => {
            lacking.push(format!("{NOT_EXPLAINED}: {error}"));
            begun(timer(asked, false)?)?
        }
        Err(error) => return Err(error.into()),
    };
    lacking.extend(session.not_traced().map(|why| {
        format!("{NOT_EXPLAINED} completely, only by the switches of the measuring threads: {why}")
    }));
    lacking.extend(session.warnings().iter().cloned());
    Ok(session)
}

type StoredRecording = (Recording, Option<StoreError>);

/// Measures the time that the hardware takes from a spinning thread. Returns `None` if this was not
/// requested.
fn look_at_hardware(
    asked: &CheckRequest,
    around: &mut Around<'_>,
) -> Result<Option<StoredRecording>, CheckError> {
    if asked.hardware == Nanos::ZERO || around.stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let session = Session::prepare(hardware(asked)?, around.host.clone())?;
    let outcome = session.run(around.store, around.view, around.stop)?;
    Ok(Some((outcome.recording, outcome.store_error)))
}

fn gaps(recording: &Recording) -> HardwareGaps {
    let all = recording.all_latencies();
    HardwareGaps {
        measured_ns: recording.duration_ns,
        gaps: all.recorded(),
        max_ns: all.max(),
    }
}

/// Returns the causes in descending order of their benefit: the late periods that would be within
/// the budget without the cause, then the time. Each has the related checks that are not ok.
/// `experiment` returns the command that shows whether a setting helps.
pub(crate) fn causes(
    recording: &Recording,
    audit: &Audit,
    experiment: &dyn Fn(&str) -> String,
) -> Vec<RemediedCause> {
    let explained = recording.explanation.iter();
    let remedied = |cause: &punctual_model::CauseSummary| {
        let (kind, who) = (cause.source.kind(), cause.source.who());
        let advice = kind.advice(&who);
        let open = |id: &&&str| {
            let finding = audit.findings.iter().find(|finding| finding.id == **id);
            finding.is_some_and(is_open)
        };
        let checks: Vec<String> = (advice.checks.iter().filter(open))
            .map(|id| (*id).to_owned())
            .collect();
        let recommended = audit.findings.iter();
        let recommended = recommended.filter(|one| one.is_problem() && checks.contains(&one.id));
        let settings: Vec<String> = recommended
            .flat_map(|finding| finding.remedies.iter().map(Remedy::assignment))
            .collect();
        RemediedCause {
            source: cause.source.clone(),
            kind,
            who,
            count: cause.count,
            total_ns: cause.total_ns,
            max_ns: cause.max_ns,
            late_only_by: cause.late_only_by,
            left: left_without(recording, &cause.source),
            experiment: settings.first().map(|setting| experiment(setting)),
            settings,
            checks,
            advice: advice.text.to_owned(),
        }
    };
    let mut causes: Vec<RemediedCause> = explained
        .flat_map(|explanation| explanation.causes.iter().map(remedied))
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse((cause.late_only_by, cause.total_ns)));
    causes
}

/// Returns the late seconds that would be left without a cause. `None` if it may not be removed, such
/// as time that no event explains.
fn left_without(recording: &Recording, source: &Source) -> Option<LeftLate> {
    let explanation = recording.explanation.as_ref()?;
    if matches!(source, Source::Unexplained(_)) || explanation.threshold_ns == Nanos::ZERO {
        return None;
    }
    let own = source.without_ids();
    let found = without(recording, explanation, |source| source.without_ids() == own);
    let others = not_examined(explanation).iter().sum();
    let per_day = found.per_day(recording.duration_ns, others);
    Some(LeftLate {
        examined: found.within + found.above,
        others,
        late_seconds: found.late.count(),
        late_seconds_left: found.late_then.count(),
        per_day_at_least: per_day.map(|[least, _]| least.floor() as u64),
        per_day_at_most: per_day.map(|[_, most]| most.ceil() as u64),
    })
}

/// Returns the command of the experiment that shows whether a setting helps the loop.
fn experiment(asked: &CheckRequest, setting: &str) -> String {
    let requirement = &asked.requirement;
    let mut words = vec!["punctual".to_owned(), "experiment".to_owned()];
    words.extend(["--set".to_owned(), setting.to_owned()]);
    words.extend([
        "--threshold".to_owned(),
        format!("{}ns", requirement.budget_ns.0),
    ]);
    let interval = format!("interval={}ns", requirement.period_ns.0);
    words.extend(["--parameter".to_owned(), interval]);
    for (option, value) in [
        ("--cpus", asked.cpus.as_ref().map(ToString::to_string)),
        (
            "--priority",
            asked.priority.map(|priority| priority.to_string()),
        ),
    ] {
        words.extend(
            value
                .into_iter()
                .flat_map(|value| [option.to_owned(), value]),
        );
    }
    let loads = asked.loads.iter().map(|load| load.text().to_owned());
    words.extend(loads.flat_map(|load| ["--load".to_owned(), load]));
    format!("sudo {}", command_line(&words))
}

fn is_open(finding: &Finding) -> bool {
    finding.is_problem() || finding.state == FindingState::Unknown
}

/// Returns the findings of the audit. Those that are related to a cause come first, ordered by the
/// time of the cause.
pub(crate) fn findings(audit: &Audit, causes: &[RemediedCause]) -> Vec<Finding> {
    let rank = |finding: &Finding| {
        let bears = |cause: &RemediedCause| cause.checks.contains(&finding.id);
        causes.iter().position(bears).unwrap_or(usize::MAX)
    };
    let mut all: Vec<Finding> = (audit.findings.iter())
        .filter(|finding| finding.is_problem() || rank(finding) < usize::MAX)
        .cloned()
        .collect();
    all.sort_by_key(|finding| (rank(finding), finding.order()));
    all
}

/// Returns `Broken` if any condition has this outcome, or otherwise the outcome of the last
/// condition, which is the one that the verdict is about.
fn overall(conditions: &[Condition]) -> Outcome {
    let broken = conditions.iter().any(|one| one.outcome == Outcome::Broken);
    match (broken, conditions.last()) {
        (true, _) => Outcome::Broken,
        (false, Some(last)) => last.outcome,
        (false, None) => Outcome::NotProven,
    }
}

#[cfg(test)]
mod tests {
    /// Each check that is named by a remedy is part of the audit.
    #[test]
    fn remedies_name_checks_that_exist() {
        let page = punctual_checks::page();
        for (kind, _) in punctual_model::ShareKind::NAMES {
            for who in ["", "local_timer"] {
                for check in kind.advice(who).checks {
                    assert!(page.contains(&format!("`{check}`")), "{kind:?}: {check}");
                }
            }
        }
    }
}
