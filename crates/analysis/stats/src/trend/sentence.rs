//! A trend as a sentence.

use punctual_model::grouped;

use super::{ChangePoint, Drifting, Followed, Group, TrendVerdict, short};
use crate::changes::LEAST_RUNS;

fn counted(number: usize, one: &str, many: &str) -> String {
    let what = if number == 1 { one } else { many };
    format!("{} {what}", grouped(number as u64))
}

/// Returns the result of all groups.
pub(super) fn sentence(verdict: TrendVerdict, groups: &[Group]) -> String {
    let runs = groups.iter().map(|group| group.runs.len()).max();
    let of = counted(runs.unwrap_or(0), "run", "runs");
    match verdict {
        TrendVerdict::NotJudged => format!(
            "not judged: {of}, but change points need {} runs with the same load",
            2 * LEAST_RUNS
        ),
        TrendVerdict::NoWorsening => no_worsening(groups, &of),
        TrendVerdict::Drifting => drifting(groups),
        TrendVerdict::Worse => worse(groups),
    }
}

fn no_worsening(groups: &[Group], of: &str) -> String {
    let changes: usize = groups.iter().map(|group| group.changes.len()).sum();
    let spikes: usize = groups.iter().map(|group| group.spikes.len()).sum();
    let short = groups.iter().filter(|group| !group.judged).count();
    let mut text = format!(
        "no open regressions: {}, {} in {of}",
        counted(changes, "change point", "change points"),
        counted(spikes, "spike", "spikes"),
    );
    if short > 0 {
        let groups = counted(short, "group", "groups");
        text += &format!("; {groups} with too few runs");
    }
    text
}

fn drifting(groups: &[Group]) -> String {
    let all = groups
        .iter()
        .flat_map(|group| group.drifts.iter().map(move |one| (group, one)));
    let worse: Vec<(&Group, &Drifting)> = all.filter(|(_, drift)| drift.worse).collect();
    let Some((group, drift)) = worse.iter().min_by(|(_, a), (_, b)| a.p.total_cmp(&b.p)) else {
        return String::new();
    };
    let more = match worse.len() {
        1 => String::new(),
        several => format!(" ({several} drifts in all)"),
    };
    format!(
        "no open step regressions, but a {} since {}: {}, load {}{more}",
        if drift.may_be_step { "change" } else { "drift" },
        day(drift.from),
        drift.sentence(group),
        group.name()
    )
}

/// Returns `2026-11-03`.
fn day(at: jiff::Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

impl Drifting {
    /// Returns `p99 rises slowly, by 40% (25% to 58%)`, or `p99 has risen, slowly or in a step, by
    /// 40% (25% to 58%)`.
    pub fn sentence(&self, group: &Group) -> String {
        let [moves, moved] = if self.worse {
            ["rises", "has risen"]
        } else {
            ["falls", "has fallen"]
        };
        let percent = |ratio: f64| format!("{:.0}%", 100.0 * (ratio - 1.0).abs());
        let (from, to) = (self.low, self.high);
        let (small, large) = if self.worse {
            (Some(from), to)
        } else {
            (to, Some(from))
        };
        let text = |ratio: Option<f64>| ratio.map_or_else(|| "any".to_owned(), percent);
        let moves = if self.may_be_step {
            format!("{moved}, slowly or in a step")
        } else {
            format!("{moves} slowly")
        };
        match self.followed {
            Followed::Tail => format!(
                "the number of periods above {} per run {moves}, from {} to {}",
                self.threshold_ns.unwrap_or_default(),
                short(group.a_run(self.before)),
                short(group.a_run(self.after)),
            ),
            figure => format!(
                "{} {moves}, by {} ({} to {})",
                figure.name(),
                text(self.ratio),
                text(small),
                text(large),
            ),
        }
    }
}

fn worse(groups: &[Group]) -> String {
    let open =
        (groups.iter()).flat_map(|group| group.changes.iter().map(move |change| (group, change)));
    let open: Vec<(&Group, &ChangePoint)> = open
        .filter(|(_, change)| change.is_open_worsening())
        .collect();
    let Some((group, newest)) = open.iter().max_by_key(|(_, change)| change.at) else {
        return String::new();
    };
    let what = match newest.followed {
        Followed::Tail => format!(
            "{} periods above {} a run, before {}",
            short(group.a_run(newest.after)),
            newest.threshold_ns.unwrap_or_default(),
            short(group.a_run(newest.before)),
        ),
        figure => format!(
            "{} is {:.0}% higher",
            figure.name(),
            100.0 * (newest.ratio - 1.0)
        ),
    };
    let more = match open.len() {
        1 => String::new(),
        several => format!(" ({} in all)", counted(several, "worsening", "worsenings")),
    };
    format!(
        "worse since {}: {what}, load {}{more}",
        day(newest.at),
        group.name()
    )
}
