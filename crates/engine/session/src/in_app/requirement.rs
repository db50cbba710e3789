//! The requirement on the channels of an application.

use punctual_app::{ChannelHead, Kind};
use punctual_model::{Limit, LoopRequirement, MissLimit, Nanos, Requirement};

use crate::SessionError;

/// Limits of the channels, in addition to the period and the budget that the
/// application gives them.
#[derive(Clone, Debug, Default)]
pub struct ChannelLimits {
    /// Limits that apply to each channel.
    pub requirement: Requirement,
    /// Maximum number of late jobs in consecutive periods.
    pub misses: Option<MissLimit>,
    /// Maximum number of seconds per day with a job above the budget.
    pub max_late_seconds_per_day: Option<f64>,
}

impl ChannelLimits {
    /// Returns the requirement on the recorded channels.
    ///
    /// # Errors
    /// Returns an error if a limit needs a budget or a period that the channels do not share.
    pub(super) fn build(
        &self,
        heads: &[(usize, ChannelHead)],
    ) -> Result<Requirement, SessionError> {
        let mut requirement = self.requirement.clone();
        let terms = |head: &ChannelHead| {
            let is_latency = head.kind == Kind::Latency;
            (head.period_ns.unwrap_or(0), head.budget_ns, is_latency)
        };
        let mut all = heads.iter().map(|(_, head)| terms(head));
        let shared = all.next().filter(|first| all.all(|one| one == *first));
        let needs = |what: &str| {
            let channels = heads.iter().map(|(_, head)| named(head));
            SessionError::ChannelTerms {
                what: what.to_owned(),
                channels: channels.collect(),
            }
        };
        let (period, budget, is_latency) = match shared {
            Some((period, Some(budget), is_latency)) => (Nanos(period), Nanos(budget), is_latency),
            _ if self.max_late_seconds_per_day.is_some() || self.misses.is_some() => {
                return Err(needs("the same kind, period and budget"));
            }
            _ => return Ok(requirement),
        };
        if let Some(misses) = self.misses {
            if period == Nanos::ZERO {
                return Err(needs("a period"));
            }
            requirement.limits.push(Limit::of_misses(misses, budget));
        }
        requirement.periodic = Some(LoopRequirement {
            period_ns: period,
            jobs: !is_latency,
            max_late_seconds_per_day: self.max_late_seconds_per_day,
            ..LoopRequirement::of_jobs(budget)
        });
        Ok(requirement)
    }
}

fn named(head: &ChannelHead) -> String {
    let period = head.period_ns.map_or_else(
        || "no period".to_owned(),
        |ns| format!("period {}", Nanos(ns)),
    );
    let budget = head.budget_ns.map_or_else(
        || "no budget".to_owned(),
        |ns| format!("budget {}", Nanos(ns)),
    );
    format!("{}, {} ({period}, {budget})", head.name, head.kind.name())
}

/// Returns the channels with this name, such as `control` or `control, latency`, with their numbers;
/// all of them without a name.
///
/// # Errors
/// Returns an error if no channel has the name.
pub(super) fn chosen(
    heads: Vec<ChannelHead>,
    name: Option<&str>,
) -> Result<Vec<(usize, ChannelHead)>, SessionError> {
    let is_chosen = |head: &ChannelHead| {
        let title = || format!("{}, {}", head.name, head.kind.name());
        name.is_none_or(|name| head.name == name || title() == name)
    };
    let all: Vec<String> = heads.iter().map(named).collect();
    let found: Vec<_> = (0..)
        .zip(heads)
        .filter(|(_, head)| is_chosen(head))
        .collect();
    match (found.is_empty(), name) {
        (true, Some(name)) => Err(SessionError::NoSuchChannel {
            name: name.to_owned(),
            channels: all,
        }),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, kind: Kind, budget_ns: Option<u64>) -> ChannelHead {
        ChannelHead {
            name: name.to_owned(),
            kind,
            tid: 7,
            period_ns: Some(1_000_000),
            budget_ns,
        }
    }

    fn asked() -> ChannelLimits {
        ChannelLimits {
            misses: Some("1/100".parse().unwrap()),
            max_late_seconds_per_day: Some(10.0),
            ..ChannelLimits::default()
        }
    }

    #[test]
    fn requirement_has_the_terms_of_the_channel() {
        let control = head("control", Kind::Latency, Some(100_000));
        let built = asked().build(&[(0, control.clone())]).unwrap();
        let periodic = built.periodic.unwrap();
        assert_eq!(periodic.period_ns, Nanos::from_millis(1));
        assert_eq!((periodic.budget_ns, periodic.jobs), (Nanos(100_000), false));
        assert_eq!(periodic.max_late_seconds_per_day, Some(10.0));
        let misses = "1/100".parse().unwrap();
        assert_eq!(built.limits, [Limit::of_misses(misses, Nanos(100_000))]);
        // Without limits, period and budget are still stored.
        let plain = ChannelLimits::default().build(&[(0, control)]).unwrap();
        assert_eq!(plain.periodic.unwrap().max_late_seconds_per_day, None);
    }

    #[test]
    fn channels_with_other_terms_are_refused() {
        let channels = vec![
            head("control", Kind::Latency, Some(100_000)),
            head("control", Kind::Response, Some(500_000)),
            head("log", Kind::Other, None),
        ];
        let all = chosen(channels.clone(), None).unwrap();
        let why = asked().build(&all).unwrap_err().to_string();
        assert!(
            why.contains("control, response (period 1.00 ms, budget 500 µs)"),
            "{why}"
        );
        assert!(why.contains("--channel"), "{why}");
        let plain = ChannelLimits::default().build(&all).unwrap();
        assert_eq!(plain, Requirement::default());
        let one = chosen(channels.clone(), Some("control, response")).unwrap();
        assert_eq!(one[0].0, 1);
        assert!(asked().build(&one).unwrap().periodic.unwrap().jobs);
        let log = chosen(channels.clone(), Some("log")).unwrap();
        assert!(asked().build(&log).is_err());
        let why = chosen(channels, Some("contol")).unwrap_err().to_string();
        assert!(why.contains("no channel is named 'contol'"), "{why}");
    }
}
