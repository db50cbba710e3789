//! Finds out which settings help a running application. The application is watched first. The
//! settings against the causes that made most of its jobs late are then compared with the current
//! ones, and those that help are proven together on fresh data.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, Audit, Condition, Improvement, MeasuredOn, Nanos, NotTried, NumberEffect,
    NumberResult, NumbersExperiment, Proof, RemediedCause, Stage, TriedSetting, counted,
};
use punctual_session::{ApplicationRequest, Watcher};
use punctual_stats::shift::least_pairs;

use super::stages::{PROOF, SCREENING, unchanged};
use crate::check::causes;
use crate::error::TrialError;
use crate::numbers::{CHANCE, LATE_JOBS, Meter, NumbersBench, NumbersRequest, run_numbers};
use crate::plots::{SLOW, is_slow};

/// Maximum number of settings in the screening. More would leave few rounds for each.
const MOST: usize = 6;

/// Maximum number of rounds of the proof.
const MOST_PROOF: u32 = 20;

/// Number of rounds of the screening in addition to the minimum, so that a round with an unusual
/// result does not hide an effect.
const SPARE: u32 = 2;

const SECOND: u64 = Nanos::from_secs(1).0;

/// How the settings are tried.
#[derive(Clone, Debug)]
pub struct ApplicationSearch {
    /// The application. Its duration is the length of a block.
    pub request: ApplicationRequest,
    /// Time for the whole search.
    pub time: Nanos,
    /// Time to wait after a change before a block.
    pub wash_out: Nanos,
    /// Seed of the random order.
    pub seed: u64,
}

/// Result of the observation before the screening.
struct Looked {
    causes: Vec<RemediedCause>,
    condition: Condition,
    on: MeasuredOn,
}

/// Compares the conditions in this number of rounds.
type Compare<'a> = &'a mut dyn FnMut(Vec<Arm>, u32) -> Result<NumbersExperiment, TrialError>;

/// Tries the settings of `improvement` on a running application. All settings are restored
/// afterwards.
///
/// # Errors
/// See [`TrialError`].
pub fn improve_application(
    improvement: &mut Improvement,
    search: &ApplicationSearch,
    audit: &Audit,
    bench: NumbersBench<'_>,
) -> Result<(), TrialError> {
    let NumbersBench {
        host,
        store: _,
        journal,
        stop,
        view,
        say,
        alive,
    } = bench;
    leave_slow_out(improvement, search);
    say("watching the application to find the causes of its late jobs");
    let looked = look(&search.request, audit, host, view, stop)?;
    let mut compare = |arms: Vec<Arm>, rounds: u32| {
        let request = NumbersRequest {
            meter: Meter::Jobs(Box::new(search.request.clone())),
            higher_is_better: false,
            margin: 0.01,
            arms,
            wash_out: search.wash_out,
            deadline: None,
            rounds: Some(rounds),
            time: search.time,
            seed: search.seed,
            label: None,
            command_line: search.request.command_line.clone(),
        };
        let bench = NumbersBench {
            host,
            store: None,
            journal: journal.clone(),
            stop,
            view: &mut *view,
            say: &mut *say,
            alive,
        };
        run_numbers(&request, bench)
    };
    let done = after(improvement, search, looked, &mut compare);
    if stop.load(Ordering::Relaxed) {
        improvement.stopped = true;
        improvement.sentence = "stopped: nothing is proven to help".to_owned();
        improvement
            .tried
            .iter_mut()
            .for_each(|one| one.accepted = false);
    }
    done
}

/// Leaves out the settings that take effect more slowly than the search waits.
fn leave_slow_out(improvement: &mut Improvement, search: &ApplicationSearch) {
    if search.wash_out >= SLOW {
        return;
    }
    let is_late = |one: &TriedSetting| is_slow(&one.assignment);
    let (slow, quick) = improvement.tried.drain(..).partition(is_late);
    improvement.tried = quick;
    let slow: Vec<TriedSetting> = slow;
    improvement
        .left_out
        .extend(slow.into_iter().map(|one| NotTried {
            finding: one.finding,
            reason: format!(
                "it takes effect only after {SLOW}: pass --wash-out {}s",
                SLOW.0 / SECOND
            ),
            command: Some(format!("punctual tune apply --set {}", one.assignment)),
        }));
}

/// Watches the application for two blocks.
fn look(
    request: &ApplicationRequest,
    audit: &Audit,
    host: &Host,
    view: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Looked, TrialError> {
    let longer = ApplicationRequest {
        duration: Nanos(request.duration.0.saturating_mul(2)),
        ..request.clone()
    };
    let recording = longer.observe("improve", host, None, view, stop)?.recording;
    Ok(Looked {
        causes: causes(&recording, audit, &|_| String::new()),
        condition: Condition::of_jobs(&recording, &request.requirement),
        on: MeasuredOn::from_recording(&recording),
    })
}

/// Tries the settings after the first observation.
fn after(
    improvement: &mut Improvement,
    search: &ApplicationSearch,
    looked: Looked,
    compare: Compare<'_>,
) -> Result<(), TrialError> {
    let Looked {
        causes,
        condition,
        on,
    } = looked;
    improvement.measured_on = Some(on);
    if condition.late == 0 {
        improvement.sentence = match condition.periods {
            0 => format!("not measured: {}", condition.lacking.join("; ")),
            jobs => format!(
                "nothing to improve: none of {} was late in {}",
                counted(jobs, "job", "jobs"),
                condition.measured_ns
            ),
        };
        return Ok(());
    }
    order(&mut improvement.tried, &causes);
    let block = search.request.duration + search.wash_out;
    let spent = block.0.saturating_mul(2);
    let planned = planned(
        improvement.tried.len(),
        search.time.0.saturating_sub(spent) / block.0.max(1),
    );
    let Some(planned) = planned else {
        let needed = (blocks(1, least_pairs(CHANCE) + SPARE, least_pairs(CHANCE)) + 2) * block.0;
        return Err(TrialError::Plan(format!(
            "--duration {} is too short: pass {}s or more, or a shorter --block",
            search.time,
            Nanos(needed).as_secs_f64().ceil()
        )));
    };
    for left in improvement.tried.iter_mut().skip(planned.settings) {
        left.why =
            "not tried: the settings before it are against causes that made more jobs late, \
                    and the time suffices for these only"
                .to_owned();
    }
    let good = screen(improvement, &planned, compare)?;
    if good.is_empty() {
        improvement.sentence = "no setting is proven to help".to_owned();
        return Ok(());
    }
    prove(improvement, &planned, good, compare)
}

/// Moves the settings against the causes with the most benefit to the front. The order of the others
/// stays: the most severe findings come first.
fn order(tried: &mut [TriedSetting], causes: &[RemediedCause]) {
    let rank = |one: &TriedSetting| {
        let against = |cause: &RemediedCause| cause.settings.contains(&one.assignment);
        causes.iter().position(against).unwrap_or(usize::MAX)
    };
    tried.sort_by_key(rank);
}

/// The planned experiments.
#[derive(Debug, PartialEq, Eq)]
struct Planned {
    /// Number of settings in the screening.
    settings: usize,
    /// Rounds of the screening and of the proof.
    rounds: [u32; 2],
}

/// Number of blocks of both experiments, with their first blocks, which are discarded.
fn blocks(settings: usize, screening: u32, proof: u32) -> u64 {
    u64::from(screening) * (settings as u64 + 1) + u64::from(proof) * 2 + 2
}

/// Plans as many settings as fit, with 40% of the blocks for the proof. Returns `None` if the time is
/// too short for one setting.
fn planned(settings: usize, available: u64) -> Option<Planned> {
    let least = least_pairs(CHANCE);
    let proof = u32::try_from(available * 2 / 10).unwrap_or(MOST_PROOF);
    let proof = proof.clamp(least, MOST_PROOF);
    let fits = |settings: usize| {
        let needed = least_pairs(CHANCE / settings as f64) + SPARE;
        (blocks(settings, needed, proof) <= available).then(|| {
            let rest = available.saturating_sub(blocks(settings, 0, proof));
            let rounds = rest / (settings as u64 + 1);
            Planned {
                settings,
                rounds: [
                    u32::try_from(rounds).unwrap_or(needed).min(2 * needed),
                    proof,
                ],
            }
        })
    };
    (1..=settings.min(MOST)).rev().find_map(fits)
}

/// Compares each setting with the current ones. Returns the settings that help, as indices.
fn screen(
    improvement: &mut Improvement,
    planned: &Planned,
    compare: Compare<'_>,
) -> Result<Vec<usize>, TrialError> {
    let alone = improvement.tried.iter().take(planned.settings);
    let alone = alone.map(|one| together(one.assignment.clone(), std::iter::once(one)));
    let arms: Vec<Arm> = std::iter::once(unchanged("current")).chain(alone).collect();
    note(improvement, SCREENING, arms.len(), planned.rounds[0]);
    let found = compare(arms, planned.rounds[0])?;
    let mut good = Vec::new();
    for (place, tried) in improvement
        .tried
        .iter_mut()
        .take(planned.settings)
        .enumerate()
    {
        let Some(result) = of_arm(&found, place as u32 + 1) else {
            tried.why = "not measured".to_owned();
            continue;
        };
        [tried.ratio, tried.low, tried.high] = ratios(result);
        tried.why = match result.effect {
            NumberEffect::Better => {
                good.push(place);
                "fewer late jobs in the screening".to_owned()
            }
            NumberEffect::Worse => "proven to be worse".to_owned(),
            NumberEffect::Equivalent => "makes no difference".to_owned(),
            NumberEffect::NotProven => "not proven to help".to_owned(),
        };
    }
    Ok(good)
}

/// Compares the settings that help, all together, with the current ones on fresh data.
fn prove(
    improvement: &mut Improvement,
    planned: &Planned,
    good: Vec<usize>,
    compare: Compare<'_>,
) -> Result<(), TrialError> {
    let kept = good.iter().map(|place| &improvement.tried[*place]);
    let name = match good.len() {
        1 => improvement.tried[good[0]].assignment.clone(),
        number => format!("{number} settings"),
    };
    let arms = vec![unchanged("current"), together(name, kept)];
    note(improvement, PROOF, arms.len(), planned.rounds[1]);
    let found = compare(arms, planned.rounds[1])?;
    let Some(result) = of_arm(&found, 1) else {
        improvement.sentence = "not proven: the proof has no complete pair of blocks".to_owned();
        return Ok(());
    };
    let [ratio, low, high] = ratios(result);
    let settings = good
        .iter()
        .map(|place| improvement.tried[*place].assignment.clone());
    improvement.proof = Some(Proof {
        settings: settings.collect(),
        ratio,
        low,
        high,
        pairs: result.pairs,
        power: None,
    });
    let proven = result.effect == NumberEffect::Better;
    for place in &good {
        let tried = &mut improvement.tried[*place];
        tried.accepted = proven;
        if !proven {
            tried.why = "not confirmed on fresh data".to_owned();
        } else {
            tried.why = "proven to help".to_owned();
        }
    }
    improvement.sentence = match (proven, good.len()) {
        (false, _) => "not proven: the settings that seemed to help were not confirmed on fresh \
                       data"
            .to_owned(),
        (true, 1) => "1 setting is proven to help".to_owned(),
        (true, number) => format!("{number} settings are proven to help together"),
    };
    Ok(())
}

fn note(improvement: &mut Improvement, name: &str, arms: usize, rounds: u32) {
    improvement.stages.push(Stage {
        name: name.to_owned(),
        arms: arms as u32,
        rounds,
        detects: None,
        experiment: None,
    });
}

fn together<'a>(name: String, settings: impl Iterator<Item = &'a TriedSetting>) -> Arm {
    let assignments = settings.map(|one| one.assignment.clone()).collect();
    Arm {
        name,
        action: ArmAction::Settings { assignments },
    }
}

fn of_arm(found: &NumbersExperiment, arm: u32) -> Option<&NumberResult> {
    let mut results = found.results.iter();
    results.find(|result| result.arm == arm && result.name == LATE_JOBS)
}

/// Returns the share of late jobs with a setting, divided by the share without it, with the interval.
/// `None` if a block had no late job.
fn ratios(result: &NumberResult) -> [Option<f64>; 3] {
    let of = |difference: Option<f64>| difference.filter(|_| result.relative).map(|one| 1.0 + one);
    [of(Some(result.difference)), of(result.low), of(result.high)]
}

#[cfg(test)]
mod tests {
    use punctual_model::cause::Source;
    use punctual_model::{LoopRequirement, testing};
    use punctual_session::{JobDetail, Release, Subject};

    use super::super::intended;
    use super::super::tests::tried;
    use super::*;
    use crate::numbers::{of_jobs, results};

    fn search(seconds: u64) -> ApplicationSearch {
        ApplicationSearch {
            request: ApplicationRequest {
                requirement: LoopRequirement::of_jobs(Nanos::from_millis(1)),
                subject: Subject::Comm("motion".to_owned()),
                release: Release::default(),
                detail: JobDetail::Windows(None),
                duration: Nanos::from_secs(20),
                reader: None,
                label: None,
                command_line: Vec::new(),
            },
            time: Nanos::from_secs(seconds),
            wash_out: Nanos::from_secs(2),
            seed: 7,
        }
    }

    fn cause(setting: &str) -> RemediedCause {
        RemediedCause {
            source: Source::Gap,
            kind: Source::Gap.kind(),
            who: String::new(),
            count: 9,
            total_ns: Nanos(9),
            max_ns: Nanos(1),
            late_only_by: Some(9),
            checks: Vec::new(),
            left: None,
            settings: vec![setting.to_owned()],
            experiment: None,
            advice: String::new(),
        }
    }

    fn looked(jobs: u64, late: u64, against: &str) -> Looked {
        let recording = testing::recording(1, 2);
        Looked {
            causes: vec![cause(against)],
            condition: Condition {
                periods: jobs,
                late,
                ..Condition::of_jobs(&recording, &LoopRequirement::of_jobs(Nanos(1)))
            },
            on: MeasuredOn::from_recording(&recording),
        }
    }

    /// Searches on a simulated application. `share` returns the share of late jobs, in ppm, in an
    /// experiment with this number, with these settings.
    fn searched(
        looked: Looked,
        seconds: u64,
        share: &dyn Fn(usize, &[String]) -> f64,
    ) -> (Improvement, Vec<usize>) {
        let names = ["a=1", "b=1", "good=1", "c=1", "d=1", "e=1", "f=1", "g=1"];
        let settings = names.map(|name| TriedSetting {
            accepted: false,
            ..tried(name)
        });
        let mut improvement = intended(settings.to_vec(), Vec::new());
        let mut compared = Vec::new();
        let mut compare = |arms: Vec<Arm>, _: u32| {
            let late = arms.iter().map(|arm| match &arm.action {
                ArmAction::Settings { assignments } => share(compared.len(), assignments),
                _ => share(compared.len(), &[]),
            });
            let mut found = of_jobs(&late.collect::<Vec<_>>(), 0.0);
            compared.push(arms.len());
            found.results = results(&found);
            Ok(found)
        };
        after(&mut improvement, &search(seconds), looked, &mut compare).unwrap();
        (improvement, compared)
    }

    fn helps(settings: &[String]) -> f64 {
        let helps = settings.iter().any(|one| one == "good=1");
        if helps { 400.0 } else { 2_000.0 }
    }

    /// The setting against the main cause is tried first, so a short search finds it.
    #[test]
    fn causes_choose_the_settings_to_try() {
        let (found, compared) = searched(looked(9_000, 20, "good=1"), 1_200, &|_, on| helps(on));
        assert_eq!(found.tried[0].assignment, "good=1");
        assert!(found.tried[0].accepted, "{:?}", found.tried[0]);
        assert_eq!(found.sentence, "1 setting is proven to help");
        assert_eq!(compared.len(), 2);
        assert!(compared[0] < 9 && compared[1] == 2, "{compared:?}");
        assert!(
            found.tried[7].why.starts_with("not tried"),
            "{:?}",
            found.tried[7]
        );
        let ratio = found.proof.unwrap().ratio.unwrap();
        assert!((0.15..0.25).contains(&ratio), "{ratio}");
    }

    #[test]
    fn effect_that_does_not_return_is_not_claimed() {
        let lucky = |number: usize, on: &[String]| if number == 0 { helps(on) } else { 2_000.0 };
        let (found, _) = searched(looked(9_000, 20, "good=1"), 1_200, &lucky);
        assert!(found.tried.iter().all(|one| !one.accepted));
        assert!(
            found.sentence.contains("not confirmed on fresh data"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn slow_settings_need_a_longer_wait() {
        let names = ["timer-migration=off", "swappiness=10"].map(tried);
        let mut improvement = intended(names.to_vec(), Vec::new());
        leave_slow_out(&mut improvement, &search(600));
        assert_eq!(improvement.tried.len(), 1);
        assert!(improvement.left_out[0].reason.ends_with("--wash-out 30s"));
        let patient = ApplicationSearch {
            wash_out: SLOW,
            ..search(6_000)
        };
        let mut improvement = intended(names.to_vec(), Vec::new());
        leave_slow_out(&mut improvement, &patient);
        assert_eq!(improvement.tried.len(), 2);
    }

    #[test]
    fn nothing_late_means_nothing_to_try() {
        let (found, compared) = searched(looked(9_000, 0, "good=1"), 1_200, &|_, on| helps(on));
        assert_eq!((found.stages.len(), compared.len()), (0, 0));
        assert!(
            found
                .sentence
                .starts_with("nothing to improve: none of 9,000 jobs")
        );
        let (found, _) = searched(looked(0, 0, "good=1"), 1_200, &|_, on| helps(on));
        assert!(
            found.sentence.starts_with("not measured"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn time_decides_the_number_of_settings() {
        assert_eq!(planned(6, 29), None);
        let mut before = 0;
        for available in (30..400).step_by(10) {
            let found = planned(8, available).unwrap();
            let used = blocks(found.settings, found.rounds[0], found.rounds[1]);
            assert!(used <= available, "{found:?} for {available}");
            assert!(found.settings >= before && found.settings <= MOST);
            before = found.settings;
        }
        assert_eq!(before, MOST);
    }
}
