//! Generates the Markdown page that describes all checks, `docs/checks.md`.

use std::fmt::Write;

use crate::fact_reader::shown;
use crate::kernel::{OPTIONS, Wanted};
use crate::remedy::described;
use crate::{ROLES, Stance, TOPICS};

/// Returns every check with its files, its expected state, its reason, and the source of the
/// reason.
pub fn page() -> String {
    let checks: usize = TOPICS.iter().map(|topic| topic.checks.len()).sum();
    let mut text = format!(
        "# Checks of punctual doctor\n\n\
         `punctual doctor` makes {checks} checks of the machine and {} of the kernel's options.\n\
         If a fact is missing, the result is *not applicable* or *unknown*, never *ok*. *fail*\n\
         means that the state costs latency. *warn* means that it may cost latency, under a\n\
         condition that the facts do not contain. The exit code is 3 if a check of high or\n\
         fatal severity fails.\n\n\
         Sources are files of the kernel's source tree (as of 2026), manual pages and guides.\n\
         Earlier kernels lack `core-api/real-time/hardware.rst`, `core-api/irq/managed_irq.rst`\n\
         and `core-api/real-time/kernel-configuration.rst`.\n\n## Roles\n\n| | |\n|---|---|\n",
        OPTIONS.len()
    );
    for (role, _, meaning) in ROLES {
        let _ = writeln!(text, "| `{role}` | {meaning} |");
    }
    for topic in TOPICS {
        let _ = writeln!(text, "\n## {}", topic.title);
        for check in topic.checks {
            let _ = writeln!(
                text,
                "\n### {}\n\n`{}-{}`, {}. Expected: {}.\n\n{}\n",
                capital(check.subject),
                topic.name,
                check.name,
                check.severity,
                check.expected,
                check.why
            );
            for file in check.files() {
                let _ = writeln!(text, "- reads `{}`", shown(file));
            }
            stances(&mut text, check.stances);
            for remedy in described(&check.all_remedies()) {
                let _ = writeln!(text, "- now: {remedy}");
            }
            let permanent = check.permanent(None);
            if !permanent.is_empty() {
                let _ = writeln!(text, "- permanently: {permanent}");
            }
            let _ = writeln!(text, "- source: {}", check.documented());
        }
    }
    options(&mut text);
    text
}

/// Capitalizes the first letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), chars.as_str())
}

fn stances(text: &mut String, stances: &[Stance]) {
    for stance in stances {
        let roles: Vec<&str> = stance.roles.iter().map(|role| role.name()).collect();
        let _ = writeln!(
            text,
            "- severity {1} for {0}: {2}",
            roles.join(", "),
            stance.severity,
            stance.note
        );
    }
}

fn options(text: &mut String) {
    text.push_str(
        "\n## The kernel's options\n\n`punctual machine kernel check` also judges these options.\n",
    );
    for option in OPTIONS {
        let wanted = match option.wanted {
            Wanted::On => "y",
            Wanted::Off => "n",
            Wanted::OnToSpin => "y if threads spin, n otherwise",
        };
        let _ = writeln!(
            text,
            "\n### {}\n\n{}. Expected: {wanted}.\n\n{}\n",
            option.option, option.severity, option.why
        );
        stances(text, option.stances);
        for remedy in described(option.switch) {
            let _ = writeln!(text, "- now: {remedy}");
        }
        let _ = writeln!(text, "- source: {}", option.source);
    }
}
