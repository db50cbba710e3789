//! Generates `docs/lint.md`, the Markdown page about all rules.

use std::fmt::Write;

use super::rules::RULES;

/// Returns the page: every rule with its data source, reason, documentation and remedy.
pub fn page() -> String {
    let mut text = format!(
        "# Rules of punctual app lint\n\n\
         These {} rules apply to threads of SCHED_FIFO, SCHED_RR and SCHED_DEADLINE. A rule that\n\
         could not be checked is never reported as clean: it is *unknown*, with the reason. The\n\
         exit code is 3 if a rule of high severity is violated. It is 4 if no such rule is\n\
         violated, but at least one is unknown. The first 5 waits of each thread, or its first\n\
         500 ms, are not judged. Processes that the target forks are not watched.\n",
        RULES.len()
    );
    for rule in RULES {
        let _ = write!(
            text,
            "\n## {}\n\n`{}`, {}.\n\n{}\n\n- remedy: {}\n- seen by: {}\n- source: {}\n",
            capital(rule.title),
            rule.id,
            rule.severity,
            rule.why,
            rule.remedy,
            rule.hook,
            rule.source
        );
    }
    text
}

/// Returns the text with a capital first letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), chars.as_str())
}
