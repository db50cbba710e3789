//! Describes findings about the scheduler.

use super::hold::held_by;
use crate::cause::{SchedulerFinding, SchedulerRule};
use crate::{Nanos, Task, grouped};

impl SchedulerFinding {
    /// Returns the finding as a sentence without a full stop.
    pub fn sentence(&self) -> String {
        let (thread, cpu) = (ranked(&self.thread), self.cpu);
        let by = self.by.as_ref().map_or("no thread".to_owned(), ranked);
        let what = match self.rule {
            SchedulerRule::NoIdleWhileRunnable => {
                format!("{thread} was runnable while CPU {cpu} was idle")
            }
            SchedulerRule::HigherFirst => {
                format!("{thread} was runnable on CPU {cpu} while {by} ran there")
            }
            SchedulerRule::InOrder => {
                format!("{by} ran on CPU {cpu} before {thread}, which was woken earlier")
            }
            SchedulerRule::Inheritance => {
                format!("{thread} ran on CPU {cpu} without the priority that it had inherited")
            }
        };
        let times = match self.times {
            1 => "once".to_owned(),
            times => format!("{} times", grouped(times)),
        };
        let mut text = format!("{what}: {times}");
        if self.total_ns > Nanos::ZERO {
            text.push_str(&format!(", {} in total", self.total_ns));
        }
        if self.times > 1 && self.longest_ns > Nanos::ZERO {
            text.push_str(&format!(", {} at most", self.longest_ns));
        }
        match &self.limit {
            Some(limit) => format!("{text}; limit: {limit}"),
            None => format!(
                "{text}; {}",
                held_by(&self.possible, self.decided_by.as_ref())
            ),
        }
    }
}

fn ranked(task: &Task) -> String {
    format!("{} ({})", task.label(), task.prio)
}
