//! The files that make systemd(1) and udev(7) apply settings at every boot.

use std::path::Path;

/// The first line of each file.
const HEADER: &str = "# Written by `punctual tune enable`; `punctual tune disable` removes it.\n";

const FOLDER: &str = "/etc/systemd/system";

/// A unit, and the targets that start it.
struct Unit {
    name: &'static str,
    text: &'static str,
    wanted_by: &'static [&'static str],
}

const UNITS: &[Unit] = &[
    Unit {
        name: "punctual-tune.service",
        text: "\
[Unit]
Description=Apply settings for real-time latency
Documentation=man:punctual-tune(1)
After=systemd-modules-load.service systemd-sysctl.service systemd-udev-trigger.service
After=irqbalance.service tuned.service
# To boot without these settings, add punctual.tune=off to the kernel's command line.
ConditionKernelCommandLine=!punctual.tune=off

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} tune boot apply
ExecStop={program} tune revert
TimeoutStartSec=120

[Install]
WantedBy=multi-user.target
",
        wanted_by: &["multi-user.target"],
    },
    Unit {
        name: "punctual-tune-reached.service",
        text: "\
[Unit]
Description=Record that this boot reached its target with the settings of punctual tune
Documentation=man:punctual-tune(1)
After=multi-user.target punctual-tune.service
ConditionPathExists=/var/lib/punctual/boot-attempt.json

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} tune boot reached

[Install]
WantedBy=multi-user.target
",
        wanted_by: &["multi-user.target"],
    },
    Unit {
        name: "punctual-tune-verify.service",
        text: "\
[Unit]
Description=Verify the settings of punctual tune after resume or hotplug
Documentation=man:punctual-tune(1)
After=suspend.target hibernate.target hybrid-sleep.target suspend-then-hibernate.target
ConditionPathExists=/var/lib/punctual/boot-attempt.json

[Service]
Type=oneshot
ExecStart={program} tune boot verify

[Install]
WantedBy=suspend.target hibernate.target hybrid-sleep.target suspend-then-hibernate.target
",
        wanted_by: &[
            "suspend.target",
            "hibernate.target",
            "hybrid-sleep.target",
            "suspend-then-hibernate.target",
        ],
    },
];

const RULES: &str = "/etc/udev/rules.d/90-punctual-tune.rules";
const RULES_TEXT: &str = "\
# A CPU or a network card that is added later does not have the settings yet.
ACTION==\"online\", SUBSYSTEM==\"cpu\", RUN+=\"{systemctl} --no-block start punctual-tune-verify.service\"
ACTION==\"add\", SUBSYSTEM==\"net\", RUN+=\"{systemctl} --no-block start punctual-tune-verify.service\"
";

/// Returns the files with their texts.
pub(super) fn files(root: &Path, program: &str) -> Vec<(String, String)> {
    let systemctl = ["/usr/bin/systemctl", "/bin/systemctl"];
    let there = |path: &&&str| root.join(path.trim_start_matches('/')).exists();
    let systemctl = systemctl.iter().find(there).unwrap_or(&systemctl[0]);
    let units = UNITS.iter().map(|unit| {
        let text = unit.text.replace("{program}", program);
        (format!("{FOLDER}/{}", unit.name), format!("{HEADER}{text}"))
    });
    let rules = RULES_TEXT.replace("{systemctl}", systemctl);
    units
        .chain([(RULES.to_owned(), format!("{HEADER}{rules}"))])
        .collect()
}

/// Returns the links that make the targets start the units, as pairs of the link's path and its
/// destination.
pub(super) fn links() -> Vec<(String, String)> {
    let all = UNITS.iter().flat_map(|unit| {
        unit.wanted_by.iter().map(|target| {
            let link = format!("{FOLDER}/{target}.wants/{}", unit.name);
            (link, format!("{FOLDER}/{}", unit.name))
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_targets_want_each_unit() {
        for unit in UNITS {
            let line = unit.text.lines().find(|line| line.starts_with("WantedBy="));
            let named = line
                .and_then(|line| line.strip_prefix("WantedBy="))
                .unwrap();
            assert_eq!(named.split(' ').collect::<Vec<_>>(), unit.wanted_by);
        }
        for (_, text) in files(Path::new("/"), "/opt/p") {
            assert!(!text.contains('{'), "{text}");
            assert!(text.starts_with("# Written by"));
        }
    }
}
