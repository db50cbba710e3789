//! What an audit asks to be changed, as a shell script.

use punctual_model::{Audit, Finding};

/// Runs a command of the script. A loop ends as its last turn does, whatever
/// became of the others: what it says on stderr tells.
const TRY: &str = "\
failed=0
try() {
  said=$(sh -c \"$1\" 2>&1 >/dev/null) && [ -z \"$said\" ] && return
  echo \"not done, or not all of it: $1\" >&2
  printf '%s\\n' \"$said\" | head -n 3 >&2
  failed=1
}
";

/// A script for sh(1) that makes the changes of all problems that can be made
/// now. What needs a reboot, and what a person must decide, stands in it as
/// comments. Texts of the machine are in comments only, freed of line ends.
pub fn fix_script(audit: &Audit) -> String {
    let mut text = format!(
        "#!/bin/sh\n\
         # What punctual doctor would change for the role {} on CPU {}.\n\
         # Read it before you run it, as root. The changes last until the next boot.\n\
         # punctual tune makes such changes with a journal, and undoes them exactly.\n\n\
         {TRY}",
        audit.role, audit.cpus
    );
    // What two findings ask for is done once.
    let mut done = std::collections::HashSet::new();
    let problems = || audit.findings.iter().filter(|finding| finding.is_problem());
    for finding in problems().filter(|finding| !finding.now.is_empty()) {
        text.push_str(&heading(finding));
        for command in &finding.now {
            if !done.insert(command) {
                text.push_str("# as above\n");
                continue;
            }
            match command.starts_with('#') {
                true => text.push_str(&format!("{}\n", one_line(command))),
                false => text.push_str(&format!(
                    "try '{}'\n",
                    one_line(command).replace('\'', "'\\''")
                )),
            }
        }
    }
    let boot: Vec<&Finding> = problems()
        .filter(|finding| finding.reboot.is_some())
        .collect();
    if !boot.is_empty() {
        text.push_str("\n# What needs a reboot, a new login or another kernel:\n");
    }
    for finding in boot {
        let what = finding.reboot.as_deref().unwrap_or_default();
        text.push_str(&format!("# - {}: {}\n", finding.id, one_line(what)));
    }
    text.push_str("\nexit $failed\n");
    text
}

fn heading(finding: &Finding) -> String {
    format!(
        "\n# {} ({}). {}: {}\n",
        finding.id,
        finding.severity,
        one_line(&finding.title),
        one_line(&finding.found)
    )
}

/// Without line ends and other characters that could begin a command.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
