//! The text of a check-up, consisting of its verdict and the commands to run next.

use punctual_model::{Checkup, Finding, Nanos, Outcome, grouped};

use crate::request::CheckRequest;

/// Formats a rate, such as `4,314` or `0.5`.
fn rate(per_day: f64) -> String {
    match per_day {
        rate if rate >= 10.0 => grouped(rate.ceil() as u64),
        rate => format!("{:.1}", (rate * 10.0).ceil() / 10.0),
    }
}

/// Returns the verdict in one sentence.
pub(crate) fn sentence(checkup: &Checkup) -> String {
    let judged = (checkup.conditions.iter().rev())
        .find(|one| one.outcome == Outcome::Broken)
        .or(checkup.conditions.last());
    let Some(condition) = judged else {
        return "not proven: nothing was measured".to_owned();
    };
    let asked = &checkup.asked;
    let allowed = asked.max_late_seconds_per_day.unwrap_or_default();
    let limit = rate(allowed);
    let under = if condition.loads.is_empty() {
        "without load".to_owned()
    } else {
        format!("under this load ({})", condition.loads.join(", "))
    };
    let measured = condition.measured_ns;
    let (events, unit) = condition.counted();
    let unit = match asked.misses {
        None => format!("{unit} (periods over {})", asked.budget_ns),
        Some(misses) => format!("{unit} (over {}, more than {misses})", asked.budget_ns),
    };
    let condition_of_bound =
        format!("95% confidence, if the rest of the day is like these {measured}");
    let seen = format!("{} {unit} in {measured} {under}", grouped(events));
    match checkup.outcome {
        Outcome::Broken => {
            let at_least = match condition.per_day_at_least {
                Some(at_least) if at_least > allowed => {
                    format!("at least {} a day ({condition_of_bound})", rate(at_least))
                }
                _ => "more than the allowed number in a day".to_owned(),
            };
            format!("broken: {seen}; {at_least}; allowed: {limit}")
        }
        Outcome::Held => {
            let at_most = condition
                .per_day_at_most
                .map_or_else(|| "-".to_owned(), rate);
            format!(
                "held: at most {at_most} {unit} a day {under} ({condition_of_bound}); allowed: \
                 {limit}"
            )
        }
        _ if condition.measured_ns == Nanos::ZERO => "not proven: nothing was measured".to_owned(),
        _ => {
            let at_most = match condition.per_day_at_most {
                Some(at_most) => format!(
                    "at most {} {unit} a day {under} ({condition_of_bound})",
                    rate(at_most)
                ),
                None => seen,
            };
            let needs = condition.needs_ns.map_or_else(String::new, |needs| {
                format!(
                    "; to prove at most {limit} a day, measure for at least {} (without a late \
                     period)",
                    length(needs)
                )
            });
            let open = condition
                .lacking
                .first()
                .map_or_else(String::new, |why| format!("; {why}"));
            format!("not proven: {at_most}{needs}{open}")
        }
    }
}

/// Formats a duration, such as `43 min`, `7.2 h` or `3.1 days`.
fn length(time: Nanos) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Returns the commands to run next.
pub(crate) fn next(checkup: &Checkup, asked: &CheckRequest) -> Vec<String> {
    let mut commands = Vec::new();
    let last = checkup.conditions.last();
    let again = command_line(&asked.command_line);
    let sudo = if last.is_some_and(|one| !one.real_time) {
        "sudo "
    } else {
        ""
    };
    let open = checkup.outcome == Outcome::NotProven
        && asked.until_proven.is_none()
        && last.is_some_and(|one| one.needs_ns.is_some());
    match (open, sudo) {
        (true, _) => commands.push(format!("{sudo}{again} --until-proven")),
        (false, "") => {}
        (false, _) => commands.push(format!("{sudo}{again}")),
    }
    if !checkup.causes.is_empty()
        && let Some(recording) = checkup.recordings.first()
    {
        commands.push(format!("punctual explain {recording}"));
    }
    if checkup.findings.iter().any(Finding::is_problem) {
        commands.push("punctual doctor --fix-script".to_owned());
    }
    commands
}

/// Quotes the command line for a shell.
fn command_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let rest = words.iter().skip(1).map(quoted);
    let all: Vec<String> = std::iter::once("punctual".to_owned()).chain(rest).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let words = ["/usr/bin/punctual", "check", "--load", "command:make 'it'"];
        let again = command_line(&words.map(str::to_owned));
        assert_eq!(again, r"punctual check --load 'command:make '\''it'\'''");
    }

    #[test]
    fn lengths_are_short() {
        let of = |seconds: u64| length(Nanos::from_secs(seconds));
        assert_eq!((of(43), of(258)), ("43 s".to_owned(), "4.3 min".to_owned()));
        assert_eq!(
            (of(25_884), of(258_840)),
            ("7.2 h".to_owned(), "3.0 days".to_owned())
        );
        assert_eq!(
            (rate(4_313.2), rate(0.41)),
            ("4,314".to_owned(), "0.5".to_owned())
        );
    }
}
