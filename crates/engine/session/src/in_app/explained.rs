//! Explains outliers of an application from its own data: the application reports when a job was
//! released and how long it took, so the release wait need not be found.

use std::time::Duration;

use punctual_app::{ChannelHead, Kind};
use punctual_host::Host;
use punctual_model::{Delay, Explanation, HostFacts, Nanos, ThreadRecord, TopSample, counted};
use punctual_store::{StoreError, Writer};
use punctual_trace::Level;

use crate::SessionError;
use crate::explain::{Explainer, RawOutlier};
use crate::lifecycle::{Start, monotonic};
use crate::observe::Background;
use crate::targets::{same_clock_as_events, same_pids_as_events};

/// A sample above the budget of its channel.
pub(super) struct OverBudget {
    /// Index of the channel.
    pub(super) channel: usize,
    /// Time of the release on CLOCK_MONOTONIC, and the length of the sample, which begins then.
    pub(super) at: Nanos,
    pub(super) took: Nanos,
}

/// A channel whose outliers are explained.
struct Explained {
    /// Index in `threads`.
    thread: u32,
    tid: u32,
    delay: Delay,
    record: ThreadRecord,
}

/// Explains the outliers of a recording in progress.
pub(super) struct Annotations {
    explainer: Explainer,
    channels: Vec<Option<Explained>>,
    start: Start,
    /// Number of samples with impossible times. They can occur because the memory belongs to
    /// another program.
    impossible: u64,
    warnings: Vec<String>,
    background: Background,
}

impl Annotations {
    /// Arms the trace for the threads of the channels. `own`: the threads of the process; `turn`: the
    /// interval of calls to [`explain`](Self::explain).
    ///
    /// # Errors
    /// Returns an error if no channel can be explained, or if the kernel refuses to trace.
    pub(super) fn begin(
        host: &Host,
        facts: &HostFacts,
        heads: &[ChannelHead],
        records: &[ThreadRecord],
        own: &[u32],
        (start, turn): (&Start, Duration),
    ) -> Result<Self, SessionError> {
        let mut warnings = Vec::new();
        let channels: Vec<Option<Explained>> = (0..)
            .zip(heads.iter().zip(records))
            .map(|(thread, (head, record))| match delay_of(head, own) {
                Ok(delay) => Some(Explained {
                    thread,
                    tid: head.tid,
                    delay,
                    record: record.clone(),
                }),
                Err(why) => {
                    let title = record.title();
                    warnings.push(format!("outliers of {title} are not explained: {why}"));
                    None
                }
            })
            .collect();
        let explained = || channels.iter().flatten();
        if explained().next().is_none() {
            return Err(SessionError::NoChannelExplained(warnings));
        }
        let budgets = heads
            .iter()
            .zip(&channels)
            .filter(|(_, channel)| channel.is_some());
        let least = budgets.filter_map(|(head, _)| head.budget_ns).min();
        let level = if explained().any(|channel| channel.delay == Delay::Job) {
            Level::Jobs
        } else {
            Level::Default
        };
        let tids: Vec<u32> = explained().map(|channel| channel.tid).collect();
        let least = Nanos(least.unwrap_or_default());
        same_pids_as_events(host)?;
        same_clock_as_events(host)?;
        let mut explainer = Explainer::arm(host, level, least, Delay::Timer)?;
        let cpus = host.online().unwrap_or_default();
        explainer.begin(host, facts, cpus.iter());
        explainer.switch(true)?;
        explainer.watch(tids.iter().copied());
        explainer.late_are(host, &tids);
        let background = Background::begin(turn, None);
        explainer.observed_by(&host.own_threads());
        Ok(Self {
            explainer,
            channels,
            start: *start,
            impossible: 0,
            warnings,
            background,
        })
    }

    pub(super) fn head(&self) -> Explanation {
        self.explainer.head()
    }

    /// Explains samples that the application marked.
    ///
    /// # Errors
    /// Returns an error of the store.
    pub(super) fn explain(
        &mut self,
        found: &[OverBudget],
        writer: Option<&mut Writer>,
    ) -> Result<(), StoreError> {
        let now = monotonic();
        let mut seen = Vec::new();
        for OverBudget { channel, at, took } in found {
            let Some(Some(channel)) = self.channels.get(*channel) else {
                continue;
            };
            if *at < self.start.monotonic || *at > now || *took > now.saturating_sub(*at) {
                self.impossible += 1;
                continue;
            }
            seen.push(RawOutlier {
                thread: channel.thread,
                tid: channel.tid,
                cpu: channel.record.cpu,
                scheduling: channel.record.scheduling,
                expected: *at,
                latency: *took,
                story_from: *at,
                delay: Some(channel.delay),
                period: None,
            });
        }
        let stored = self.explainer.explain(seen, &self.start, writer);
        self.background.turn();
        stored
    }

    /// Returns the causes, and adds them to the largest samples.
    pub(super) fn finish(
        mut self,
        largest: &mut [TopSample],
        warnings: &mut Vec<String>,
    ) -> Explanation {
        if self.impossible > 0 {
            self.warnings.push(format!(
                "{} at times outside the recording were not explained",
                counted(self.impossible, "outlier", "outliers")
            ));
        }
        warnings.append(&mut self.warnings);
        self.explainer.blame(largest);
        self.explainer.finish(warnings)
    }
}

/// Reason why the outliers of a channel cannot be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotExplained {
    #[error("the channel has no budget")]
    NoBudget,
    #[error(
        "thread {0} does not belong to the process (it has ended, or has a different ID in a \
         container)"
    )]
    NotOfProcess(u32),
    #[error("samples of the kind {} do not begin with the release", .0.name())]
    NotFromRelease(Kind),
}

/// Returns the time span of a channel's samples, which begins at the release.
fn delay_of(head: &ChannelHead, own: &[u32]) -> Result<Delay, NotExplained> {
    if head.budget_ns.is_none() {
        return Err(NotExplained::NoBudget);
    }
    if !own.contains(&head.tid) {
        return Err(NotExplained::NotOfProcess(head.tid));
    }
    match head.kind {
        Kind::Latency => Ok(Delay::Timer),
        Kind::Response => Ok(Delay::Job),
        kind => Err(NotExplained::NotFromRelease(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind) -> ChannelHead {
        ChannelHead {
            name: "control".to_owned(),
            kind,
            tid: 7,
            period_ns: None,
            budget_ns: Some(1_000),
        }
    }

    #[test]
    fn channel_is_explained_or_reason_given() {
        assert_eq!(delay_of(&head(Kind::Latency), &[7]), Ok(Delay::Timer));
        assert_eq!(delay_of(&head(Kind::Response), &[7]), Ok(Delay::Job));
        let without = ChannelHead {
            budget_ns: None,
            ..head(Kind::Latency)
        };
        for (head, own, text) in [
            (without, [7], "the channel has no budget"),
            (
                head(Kind::Latency),
                [8],
                "thread 7 does not belong to the process (it has ended, or has a different ID in \
                 a container)",
            ),
            (
                head(Kind::Execution),
                [7],
                "samples of the kind execution do not begin with the release",
            ),
        ] {
            assert_eq!(delay_of(&head, &own).unwrap_err().to_string(), text);
        }
    }
}
