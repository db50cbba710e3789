//! `doctor`: finds settings and conditions of this machine that cost latency.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use punctual_checks::Request;
use punctual_model::{CpuSet, FactSet, MeasuredMaximum, Recording, ThreadRecord};
use punctual_store::Filter;

use crate::audit::{self, AuditOutput, Counting, ForRole};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Doctor>("doctor");

/// The probe whose maximum latency is estimated by the rule of thumb.
const COMPARABLE: &str = "timer";

const LONG: &str = "Audit this machine: find settings and properties that cost latency, and how to \
    change them.\n\nThe audit changes nothing. Each finding states the value that was read, why it \
    matters, the source, and how to change the value. Run the audit as the user that runs the \
    application, or as root to see more.";

/// Find the causes of latency on this machine, and remedies
#[derive(Parser)]
#[command(long_about = LONG, after_help = crate::exit::OF_AUDIT)]
struct Doctor {
    /// CPUs of the application: 2-3 [default: the isolated ones, else all]
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    #[command(flatten)]
    role: ForRole,
    #[command(flatten)]
    counting: Counting,
    /// Audit captured facts instead of this machine: a file from punctual machine facts capture, or a
    /// folder with /proc and /sys
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "sample")]
    facts: Option<PathBuf>,
    /// Also show checks that are ok or do not apply
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: AuditOutput,
    /// Print the changes as a shell script; other advice as comments
    #[arg(long, conflicts_with = "json")]
    fix_script: bool,
    /// Print all checks as Markdown
    #[arg(long)]
    list: bool,
}

impl Run for Doctor {
    fn run(self, context: &Context) -> Result<Exit> {
        if self.list {
            output::print(&punctual_checks::page())?;
            return Ok(Exit::Done);
        }
        let request = Request {
            role: self.role.get(),
            cpus: self.cpus,
        };
        let facts = match &self.facts {
            Some(path) => audit::load(path)?,
            None => audit::facts_for(&request, self.counting.length())?,
        };
        let mut audit = audit::of_facts(&facts, &request)?;
        match measured(context, &facts) {
            Ok(measured) => audit.expectation.measured = Some(measured),
            Err(why) => audit.expectation.not_measured = why,
        }
        if self.fix_script {
            output::print(&punctual_checks::fix_script(&audit))?;
            return Ok(self.output.exit(&audit));
        }
        self.output.show(&audit, context, self.all)
    }
}

/// Returns the last timer measurement that can be compared with the expected latency, or the reason
/// why there is none. It must have run on this machine with its current settings, with a real-time
/// policy, and without a CPU quota. A missing or unreadable store does not prevent the audit.
fn measured(
    context: &Context,
    facts: &FactSet,
) -> std::result::Result<MeasuredMaximum, Option<String>> {
    /// Maximum number of recordings to load in order to check how they were measured. A store can
    /// contain very many.
    const LOOKED_AT: usize = 20;
    let store = context.store_to_read().map_err(|_| None)?;
    let filter = Filter {
        probe: Some(COMPARABLE.to_owned()),
        host: facts.host.hostname.get().cloned(),
        ..Filter::default()
    };
    let summaries = store.list_by(&filter).map_err(|_| None)?;
    let mut unfit = Unfit::default();
    for summary in summaries {
        let Some(max_ns) = summary.max_ns else {
            continue;
        };
        if summary.fingerprint.is_empty() || summary.fingerprint != facts.host.fingerprint {
            unfit.add("with other settings of the machine");
            continue;
        }
        if unfit.loaded == LOOKED_AT {
            break;
        }
        unfit.loaded += 1;
        let Ok(recording) = store.load(summary.id) else {
            continue;
        };
        match why_not(&recording) {
            Some(why) => unfit.add(why),
            None => {
                return Ok(MeasuredMaximum {
                    recording: summary.id.short(),
                    headline: summary.headline,
                    started: summary.started,
                    max_ns,
                    samples: summary.recorded,
                    same_settings: true,
                });
            }
        }
    }
    Err(unfit.said())
}

/// Returns the reason why the figures of a recording do not apply to a real-time thread.
fn why_not(recording: &Recording) -> Option<&'static str> {
    let real_time = |thread: &ThreadRecord| thread.scheduling.policy.is_real_time();
    if !recording.threads.iter().all(real_time) {
        return Some("not at a real-time policy");
    }
    // Even a quota that was never used up counts, because the conditions differ from those of this
    // machine.
    (!recording.interference.groups.is_empty()).then_some("under a CPU quota")
}

/// Counts of the recordings that are not comparable, by reason.
#[derive(Default)]
struct Unfit {
    reasons: Vec<(&'static str, usize)>,
    loaded: usize,
}

impl Unfit {
    fn add(&mut self, why: &'static str) {
        match self.reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((why, 1)),
        }
    }

    /// Returns a text such as `3 recordings: 2 not at a real-time policy, 1 with other settings`;
    /// `None` if there are no recordings.
    fn said(&self) -> Option<String> {
        let all: usize = self.reasons.iter().map(|(_, count)| count).sum();
        let each: Vec<String> = (self.reasons.iter())
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        let recordings = if all == 1 { "recording" } else { "recordings" };
        (all > 0).then(|| format!("{all} {recordings}: {}", each.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{GroupThrottle, Nanos, Policy, testing};

    use super::*;

    #[test]
    fn only_real_time_recordings_are_comparable() {
        let recording = testing::recording(2, 2);
        assert_eq!(why_not(&recording), None);
        let mut other = recording.clone();
        other.threads[1].scheduling.policy = Policy::Other;
        assert_eq!(why_not(&other), Some("not at a real-time policy"));
        let mut under_quota = recording.clone();
        under_quota.interference.groups.push(GroupThrottle {
            group: "/build".to_owned(),
            periods: 40,
            throttled: 0,
            throttled_ns: Nanos::ZERO,
        });
        assert_eq!(why_not(&under_quota), Some("under a CPU quota"));
    }

    #[test]
    fn reasons_are_counted() {
        let mut unfit = Unfit::default();
        assert_eq!(unfit.said(), None);
        unfit.add("a");
        assert_eq!(unfit.said().unwrap(), "1 recording: 1 a");
        unfit.add("b");
        unfit.add("a");
        assert_eq!(unfit.said().unwrap(), "3 recordings: 2 a, 1 b");
    }
}
