//! The text of a check-up, consisting of its verdict and the commands to run next.

use punctual_model::{Checkup, Finding, Nanos, Outcome};

use crate::request::CheckRequest;

/// Returns the verdict in one sentence: that of the broken condition, or else of the last one.
pub(crate) fn sentence(checkup: &Checkup) -> String {
    let judged = (checkup.conditions.iter().zip(&checkup.claims).rev())
        .find(|(one, _)| one.outcome == Outcome::Broken)
        .or(checkup.conditions.last().zip(checkup.claims.last()));
    match judged {
        Some((condition, claim))
            if condition.measured_ns > Nanos::ZERO || !condition.lacking.is_empty() =>
        {
            condition.sentence(claim)
        }
        _ => "not proven: nothing was measured".to_owned(),
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
pub(crate) fn command_line(words: &[String]) -> String {
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
}
