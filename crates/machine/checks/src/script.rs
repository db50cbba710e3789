//! Formats the changes that an audit recommends as a shell script.

use punctual_model::{Audit, Finding};

/// Runs a command of the script. A shell loop returns only the status of its last iteration, so
/// output on stderr also counts as a failure.
const TRY: &str = "\
failed=0
try() {
  said=$(sh -c \"$1\" 2>&1 >/dev/null) && [ -z \"$said\" ] && return
  echo \"failed, at least in part: $1\" >&2
  printf '%s\\n' \"$said\" | head -n 3 >&2
  failed=1
}
";

/// Returns a script for sh(1) that makes all changes that resolve a problem and take effect
/// immediately. A single `punctual tune apply` changes the settings, so that `punctual tune revert`
/// can undo them; other commands change the rest. Comments contain permanent changes and decisions
/// for the user. Texts from the machine appear only in comments, without line breaks.
pub fn fix_script(audit: &Audit) -> String {
    let mut text = format!(
        "#!/bin/sh\n\
         # Changes that punctual doctor recommends for the role {} on CPU {}.\n\
         # Read this script before you run it as root. It changes settings with\n\
         # punctual tune, and punctual tune revert restores them.\n\n\
         {TRY}set --\n",
        audit.role, audit.cpus
    );
    let mut by_command = String::new();
    // If two findings require the same change, it is made only once.
    let mut done = std::collections::HashSet::new();
    let problems = || audit.findings.iter().filter(|finding| finding.is_problem());
    for finding in problems().filter(|finding| !finding.now.is_empty()) {
        text.push_str(&heading(finding));
        let remedies = finding.remedies.iter();
        for remedy in remedies.filter(|remedy| remedy.decide.is_none()) {
            let assignment = one_line(&remedy.assignment());
            if done.insert(assignment.clone()) {
                text.push_str(&format!("set -- \"$@\" --set {}\n", quoted(&assignment)))
            } else {
                text.push_str(&format!("# {assignment}: as above\n"))
            }
        }
        for command in &finding.now {
            let command = one_line(command);
            if command.starts_with('#') {
                text.push_str(&format!("{command}\n"));
            } else if !command.starts_with(APPLY) && done.insert(command.clone()) {
                by_command.push_str(&format!("try {}\n", quoted(&command)));
                text.push_str(&format!("# see below: {command}\n"));
            }
        }
    }
    let of_cpus = format!("{APPLY} --cpus ");
    let mut commands = problems().flat_map(|finding| &finding.now);
    let cpus = if commands.any(|command| command.starts_with(&of_cpus)) {
        format!(" --cpus {}", audit.cpus)
    } else {
        String::new()
    };
    text.push_str(&format!(
        "\n# Change the settings; punctual tune revert restores them:\n\
         if [ $# -gt 0 ]; then\n  {APPLY} --keep-going{cpus} \"$@\" || failed=1\nfi\n"
    ));
    if !by_command.is_empty() {
        text.push_str(&format!(
            "\n# Changes that punctual tune cannot make, until the next boot:\n{by_command}"
        ));
    }
    text.push_str(&permanently(problems()));
    text.push_str("\nexit $failed\n");
    text
}

/// Start of the commands that `fix_script` combines into one.
const APPLY: &str = "punctual tune apply";

fn permanently<'a>(problems: impl Iterator<Item = &'a Finding>) -> String {
    let mut text = String::new();
    for finding in problems {
        if let Some(what) = &finding.reboot {
            if text.is_empty() {
                text.push_str(
                    "\n# Permanent changes, by a file, a reboot, a new login or another kernel:\n",
                );
            }
            text.push_str(&format!("# - {}: {}\n", finding.id, one_line(what)));
        }
    }
    text
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn heading(finding: &Finding) -> String {
    format!(
        "\n# {} ({}): {}\n",
        finding.id,
        finding.severity,
        one_line(&finding.title)
    )
}

/// Replaces line breaks and other characters that could begin a command.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
