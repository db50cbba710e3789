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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Role};
    use punctual_model::Severity;

    /// Returns the part of the page below a heading.
    fn section<'a>(page: &'a str, heading: &str) -> &'a str {
        let start = page.find(&format!("\n### {heading}\n"));
        let rest = &page[start.unwrap_or_else(|| panic!("no {heading}")) + 1..];
        let end = rest.find("\n#").unwrap_or(rest.len());
        &rest[..end]
    }

    fn each_check() -> impl Iterator<Item = (&'static str, &'static Check)> {
        let of =
            |topic: &'static crate::Topic| topic.checks.iter().map(|check| (topic.name, check));
        TOPICS.iter().flat_map(of)
    }

    #[test]
    fn page_describes_each_check() {
        let page = page();
        let mut ids = 0;
        for (topic, check) in each_check() {
            let id = format!(
                "`{topic}-{}`, {}. Expected: {}.\n",
                check.name, check.severity, check.expected
            );
            let start = page.find(&id).unwrap_or_else(|| panic!("no {id}"));
            ids += 1;
            let rest = &page[start..];
            let own = &rest[..rest.find("\n#").unwrap_or(rest.len())];
            assert!(own.contains(&format!("\n\n{}\n", check.why)), "{own}");
            assert!(
                own.contains(&format!("\n- source: {}\n", check.documented())),
                "{own}"
            );
            assert_eq!(
                own.matches("\n- reads `").count(),
                check.files().len(),
                "{own}"
            );
            assert_eq!(
                own.matches("\n- severity ").count(),
                check.stances.len(),
                "{own}"
            );
            assert_eq!(
                own.matches("\n- now: ").count(),
                check.all_remedies().len(),
                "{own}"
            );
            let permanent = usize::from(!check.permanent(None).is_empty());
            assert_eq!(own.matches("\n- permanently: ").count(), permanent, "{own}");
        }
        let sizes = format!(
            "makes {ids} checks of the machine and {} of the kernel",
            OPTIONS.len()
        );
        assert!(page.contains(&sizes), "{sizes}");
    }

    #[test]
    fn page_describes_topics_roles_and_options() {
        let page = page();
        for (role, _, meaning) in ROLES {
            assert!(
                page.contains(&format!("\n| `{role}` | {meaning} |\n")),
                "{role}"
            );
        }
        for topic in TOPICS {
            assert!(
                page.contains(&format!("\n## {}\n", topic.title)),
                "{}",
                topic.title
            );
        }
        for option in OPTIONS {
            let own = section(&page, option.option);
            assert!(
                own.contains(option.why)
                    && own.contains(&format!("\n- source: {}\n", option.source))
            );
            assert!(
                own.contains(&format!("\n{}. Expected: ", option.severity)),
                "{own}"
            );
            assert_eq!(
                own.matches("\n- severity ").count(),
                option.stances.len(),
                "{own}"
            );
            assert_eq!(
                own.matches("\n- now: ").count(),
                option.switch.len(),
                "{own}"
            );
        }
        assert!(section(&page, "CONFIG_PREEMPT_RT").contains("fatal. Expected: y."));
        assert!(section(&page, "CONFIG_KASAN").contains("high. Expected: n."));
        assert!(
            section(&page, "CONFIG_NO_HZ_FULL")
                .contains("Expected: y if threads spin, n otherwise.")
        );
    }

    #[test]
    fn lines_of_the_page_are_complete() {
        let page = page();
        // Headings begin with a capital, `#` of a path becomes N.
        let masks = section(&page, "Interrupt affinity");
        assert!(
            masks.contains("\n- reads `/proc/irq/N/smp_affinity_list`\n"),
            "{masks}"
        );
        let masks = section(&page, "Timer migration");
        assert!(
            masks.contains("\n- now: `timer-migration` = off if threads sleep, on if they spin\n"),
            "{masks}"
        );
        let nmi = section(&page, "NMI watchdog");
        for line in [
            "- severity info for audio, lab: a few microseconds every ten seconds",
            "- now: `watchdog@nmi` = off",
            "- permanently: nmi_watchdog=0 on the kernel's command line",
            "- source: Documentation/admin-guide/lockup-watchdogs.rst",
        ] {
            assert!(nmi.lines().any(|own| own == line), "{line}: {nmi}");
        }
        let turbo = section(&page, "Turbo");
        assert!(turbo.contains("- now: `turbo` = off: the mean speed falls, but varies less\n"));
        let server = section(&page, "Fair server");
        assert!(
            server.contains("- now: `fair-server-runtime-ns` = 0\n"),
            "{server}"
        );
        let polling = section(&page, "Socket polling");
        for line in [
            "- now: `busy-read-us` = 50 without PREEMPT_RT: polling takes CPU time",
            "- now: `busy-read-us` = 0 with PREEMPT_RT",
        ] {
            assert!(polling.lines().any(|own| own == line), "{line}: {polling}");
        }
        let threads = section(&page, "Programs at priority 99");
        assert!(
            threads.contains("- now: if appropriate: chrt --fifo --pid 90 PID\n"),
            "{threads}"
        );
        let tracer = section(&page, "Current tracer");
        assert!(
            tracer.contains("- now: `echo nop > /sys/kernel/tracing/current_tracer`\n"),
            "{tracer}"
        );
    }

    #[test]
    fn empty_text_has_no_capital() {
        assert_eq!(capital(""), "");
        assert_eq!(capital("über x"), "Über x");
    }

    #[test]
    fn a_check_falls_back_on_its_setting() {
        let check = Check {
            setting: "swappiness",
            ..crate::BASE
        };
        assert_eq!(check.files(), ["/proc/sys/vm/swappiness"]);
        assert_eq!(
            check.documented(),
            punctual_model::setting("swappiness").unwrap().source
        );
        assert_eq!(check.all_remedies().len(), 1);
        let other = Check {
            source: "own",
            reads: &["/a", "/b"],
            ..check
        };
        assert_eq!(other.documented(), "own");
        assert_eq!(other.files(), ["/proc/sys/vm/swappiness", "/a", "/b"]);
        let none = Check {
            severity: Severity::High,
            ..crate::BASE
        };
        assert_eq!(
            (
                none.documented(),
                none.files().len(),
                none.all_remedies().len()
            ),
            ("", 0, 0)
        );
    }

    #[test]
    fn permanent_text_has_the_parameters_of_the_architecture() {
        let check = Check {
            boot: &["iommu", "iommu.passthrough"],
            reboot: " (a remark)",
            ..crate::BASE
        };
        let x86 = "iommu=pt on the kernel's command line (a remark)";
        let arm = "iommu.passthrough=1 on the kernel's command line (a remark)";
        assert_eq!(check.permanent(Some("x86_64")), x86);
        assert_eq!(check.permanent(Some("aarch64")), arm);
        assert_eq!(
            check.permanent(None),
            "iommu=pt iommu.passthrough=1 on the kernel's command line (a remark)"
        );
        // Without a parameter of this architecture, the remark about the parameter is left out.
        let only_x86 = Check {
            boot: &["iommu"],
            reboot: " (a remark)",
            ..crate::BASE
        };
        assert_eq!(only_x86.permanent(Some("aarch64")), "");
        let text = Check {
            reboot: "ask",
            ..crate::BASE
        };
        assert_eq!(text.permanent(None), "ask");
        assert_eq!(crate::BASE.permanent(None), "");
    }

    #[test]
    fn roles_of_a_stance_are_listed() {
        let mut text = String::new();
        stances(
            &mut text,
            &[Stance {
                roles: &[Role::Lab, Role::Audio],
                severity: Severity::Fatal,
                note: "why",
            }],
        );
        assert_eq!(text, "- severity fatal for lab, audio: why\n");
    }
}
