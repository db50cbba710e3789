//! Settings that exist only on the kernel's command line. This module generates a fragment of the
//! command line, and instructions for adding it. It edits no files.

use punctual_model::obeyed_words;
use serde::Serialize;

use crate::TuneError;
use crate::context::Context;
use crate::profile::BootWish;
use crate::target::Target;

/// A parameter of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BootArgument {
    /// The parameter as written on the command line.
    pub argument: String,
    /// Whether the current boot has this parameter.
    pub present: bool,
    /// The parameter of the same name that the current boot has instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

/// Returns the parameters with the placeholders for CPUs replaced. Parameters whose CPUs are not
/// known are left out, with the reason.
pub(crate) fn arguments(
    target: &Target<'_>,
    wishes: &[BootWish],
    context: &Context,
) -> (Vec<BootArgument>, Vec<(String, String)>) {
    let now = target.text("/proc/cmdline").unwrap_or_default();
    let mut known = Vec::new();
    let mut left_out = Vec::new();
    for wish in wishes {
        match with_cpus(wish, context) {
            Ok(argument) => {
                let obeyed = obeyed_words(now.split_whitespace(), &argument);
                let present = obeyed.contains(&argument.as_str());
                let instead = obeyed.first().filter(|_| !present);
                known.push(BootArgument {
                    present,
                    instead: instead.map(|word| (*word).to_owned()),
                    argument,
                });
            }
            Err(error) => left_out.push((wish.key.clone(), error.to_string())),
        }
    }
    (known, left_out)
}

fn with_cpus(wish: &BootWish, context: &Context) -> Result<String, TuneError> {
    let Some(value) = &wish.value else {
        return Ok(wish.key.clone());
    };
    let mut value = value.clone();
    for word in ["measured", "housekeeping"] {
        let place = format!("{{{word}}}");
        if value.contains(&place) {
            value = value.replace(&place, &context.cpus(&wish.key, word)?.to_string());
        }
    }
    Ok(format!("{}={value}", wish.key))
}

/// Returns instructions for adding parameters to the kernel's command line on this distribution
/// (`ID` and `ID_LIKE` of os-release(5)).
pub(crate) fn instructions(target: &Target<'_>) -> Vec<String> {
    let release = target
        .text("/etc/os-release")
        .or_else(|| target.text("/usr/lib/os-release"))
        .unwrap_or_default();
    let ids: String = release
        .lines()
        .filter(|line| line.starts_with("ID=") || line.starts_with("ID_LIKE="))
        .collect::<Vec<_>>()
        .join(" ");
    let is = |names: &[&str]| names.iter().any(|name| ids.contains(name));
    let mut steps: Vec<&str> = if is(&["debian", "ubuntu"]) {
        vec![
            "add the parameters to GRUB_CMDLINE_LINUX in /etc/default/grub, then run `update-grub`",
        ]
    } else if is(&["fedora", "rhel", "centos"]) {
        vec!["run `grubby --update-kernel=ALL --args=\"…\"`"]
    } else if is(&["suse"]) {
        vec![
            "add the parameters to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then run \
             `grub2-mkconfig -o /boot/grub2/grub.cfg`",
        ]
    } else if is(&["arch"]) {
        vec![
            "with GRUB: add the parameters to GRUB_CMDLINE_LINUX in /etc/default/grub, then run \
             `grub-mkconfig -o /boot/grub/grub.cfg`",
            "with systemd-boot: add the parameters to the line `options` of the entry in \
             /boot/loader/entries",
        ]
    } else {
        vec![
            "with GRUB: add the parameters to GRUB_CMDLINE_LINUX in /etc/default/grub and \
             regenerate grub.cfg",
            "with U-Boot: add the parameters to the variable bootargs, or to `append` in \
             extlinux.conf",
        ]
    };
    steps.insert(
        0,
        "run `punctual tune cmdline write`, which edits the boot loader's files; or",
    );
    steps.push("reboot, and check /proc/cmdline");
    steps.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use crate::plan_tests::{plan, request};
    use crate::testing::Machine;
    use crate::{Profile, Request};

    fn with_boot() -> Request {
        Request {
            profile: Some(Profile::parse("x", "[boot]\nquiet = true\n").unwrap()),
            ..Request::default()
        }
    }

    #[test]
    fn instructions_fit_the_distribution() {
        let steps = |release: &str| {
            let machine = Machine::controller(true);
            machine.write("etc/os-release", release);
            let wish = with_boot();
            plan(&machine, &wish).unwrap().boot_instructions
        };
        for (release, count, word) in [
            ("ID=ubuntu\n", 3, "update-grub"),
            (
                "ID=x\nID_LIKE=\"rhel fedora\"\n",
                3,
                "grubby --update-kernel=ALL",
            ),
            ("ID=\"opensuse-leap\"\n", 3, "grub2-mkconfig"),
            ("ID=arch\n", 4, "/boot/loader/entries"),
            ("NAME=arch\nID=x\n", 4, "extlinux.conf"),
        ] {
            let steps = steps(release);
            assert_eq!(steps.len(), count, "{release}");
            assert!(steps[0].contains("punctual tune cmdline write"));
            assert!(steps.iter().any(|step| step.contains(word)), "{steps:?}");
            assert!(steps[count - 1].starts_with("reboot"));
        }
        // A plan without boot parameters needs no instructions.
        let machine = Machine::controller(true);
        let none = plan(&machine, &request("", &["swappiness=5"], "")).unwrap();
        assert!(none.boot.is_empty() && none.boot_instructions.is_empty());
    }
}
