//! The result of a condition of a check-up as a claim.

use crate::verdict::{length, like_these, number};
use crate::{
    Claim, ClaimUnit, Condition, ERROR, LoopRequirement, Outcome, Question, counted, grouped,
};

impl Condition {
    /// Returns the result of this condition of a check-up as a claim about the machine. `decides`
    /// is set if the verdict depends on it.
    pub fn claim(&self, asked: &LoopRequirement, decides: bool) -> Claim {
        let (events, unit) = self.counted();
        let allowed = asked.max_late_seconds_per_day.unwrap_or_default();
        let over = match asked.misses {
            None => format!("{} over {}", self.units().1, asked.budget_ns),
            Some(misses) => format!("over {}, more than {misses}", asked.budget_ns),
        };
        let under = match (&self.jobs, self.loads.is_empty()) {
            (Some(_), _) => String::new(),
            (None, true) => " without load".to_owned(),
            (None, false) => format!(" under this load ({})", self.loads.join(", ")),
        };
        let measured = self.measured_ns;
        let at_least = self.per_day_at_least.filter(|least| *least > allowed);
        let bound = match self.outcome {
            Outcome::Broken => at_least.map(|bound| format!("at least {}", number(bound))),
            _ => (self.per_day_at_most).map(|bound| format!("at most {}", number(bound))),
        };
        let mut lacking = Vec::new();
        if self.outcome == Outcome::NotProven {
            lacking.extend(self.advice(allowed));
            lacking.extend(self.lacking.iter().cloned());
        }
        Claim {
            name: self.name.clone(),
            question: Question::Machine,
            outcome: self.outcome,
            decides,
            quantity: format!("{unit} a day ({over}){under}"),
            required: format!("at most {}", number(allowed)),
            bound,
            measured: Some(match self.outcome {
                Outcome::Broken => "more than allowed for a whole day".to_owned(),
                _ => "without a bound".to_owned(),
            }),
            value: match self.outcome {
                Outcome::Broken => at_least,
                _ => self.per_day_at_most,
            },
            limit: allowed,
            unit: ClaimUnit::SecondsPerDay,
            confidence: Some(1.0 - ERROR),
            condition: Some(match &self.jobs {
                None => like_these(measured),
                Some(_) => {
                    format!("if each second of the day has jobs like those of these {measured}")
                }
            }),
            evidence: self.evidence(events, unit, asked),
            lacking,
        }
    }

    /// Returns the verdict on this condition in one sentence. `claim` is the one of
    /// [`Condition::claim`].
    pub fn sentence(&self, claim: &Claim) -> String {
        if self.measured_ns > crate::Nanos::ZERO || self.lacking.is_empty() {
            claim.sentence()
        } else {
            format!("not proven: {}", self.lacking.join("; "))
        }
    }

    /// Returns the names of one and of several counted reactions.
    pub const fn units(&self) -> (&'static str, &'static str) {
        match self.jobs {
            None => ("period", "periods"),
            Some(_) => ("job", "jobs"),
        }
    }

    /// Returns what was counted, always with the late periods, their share and their longest
    /// series.
    fn evidence(&self, events: u64, unit: &str, asked: &LoopRequirement) -> String {
        let one = match events {
            1 => unit.strip_suffix('s').unwrap_or(unit),
            _ => unit,
        };
        let mut text = format!(
            "{} {one} in {}{}, {} of {} late",
            grouped(events),
            self.measured_ns,
            if self.jobs.is_some() {
                " with jobs"
            } else {
                ""
            },
            grouped(self.late),
            counted(self.periods, self.units().0, self.units().1),
        );
        if self.late > 0 && self.periods > 0 {
            let share = 100.0 * self.late as f64 / self.periods as f64;
            let digits = if share < 0.1 { 4 } else { 1 };
            text.push_str(&format!(" ({share:.digits$}%)"));
        }
        if let Some(series) = self.longest_series.filter(|series| *series > 0) {
            text.push_str(&format!(", longest series {}", grouped(series)));
        }
        if let Some(jobs) = &self.jobs {
            if jobs.unknown > 0 {
                let unknown = counted(jobs.unknown, "job", "jobs");
                text.push_str(&format!(", response time unknown for {unknown}"));
            }
            if jobs.possible_late_seconds > events {
                let possible = grouped(jobs.possible_late_seconds);
                text.push_str(&format!(", at most {possible} {unit}"));
            }
        }
        if let (Some(windows), Some(misses)) = (self.windows, asked.misses) {
            text.push_str(&format!(
                ", at most {} late in {} consecutive {}",
                grouped(windows.worst),
                grouped(misses.periods().into()),
                self.units().1
            ));
        }
        text
    }

    /// Returns how long to measure for a proof.
    fn advice(&self, allowed: f64) -> Option<String> {
        let needs = self.needs_ns?;
        let to_prove = format!("to prove at most {} a day", number(allowed));
        let shortest = format!(
            "the shortest run that can prove it takes {} (without a late {})",
            length(needs.as_secs_f64()),
            self.units().0
        );
        let (events, unit) = self.counted();
        Some(match self.needs_likely_ns {
            Some(_) if events == 0 => format!("{to_prove}, {shortest}"),
            Some(likely) => format!(
                "{to_prove}, measure for {} (long enough in 80% of the runs of a machine like this \
                 one); {shortest}",
                length(likely.as_secs_f64())
            ),
            None => format!(
                "a machine that goes on like this has too many {unit} to prove at most {} a day; \
                 {shortest}",
                number(allowed)
            ),
        })
    }
}
