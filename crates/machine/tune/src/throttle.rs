//! The mechanism that stops a real-time thread that never sleeps. Before Linux 6.12, this is
//! real-time throttling. Since then, it is the fair server, regardless of `sched_rt_runtime_us`
//! (`kernel/sched/deadline.c`), and since Linux 7.0 also the ext server. If a profile names several,
//! only those that are effective on this kernel matter.

use crate::planned::LeftOut;
use crate::target::Target;
use crate::{Plan, Step};

const THROTTLE: &str = "rt-runtime-us";
const FAIR: &str = "fair-server-runtime-ns";
/// The first version with a fair server.
const SINCE: (u32, u32) = (6, 12);

/// A deadline server that runs starving threads of a class.
struct Server {
    setting: &'static str,
    name: &'static str,
    /// The first version that has it.
    since: (u32, u32),
    /// The threads that it runs.
    threads: &'static str,
    /// The file that reads `enabled` if such threads can exist. `None`: they always can.
    enabled: Option<&'static str>,
}

const SERVERS: [Server; 2] = [
    Server {
        setting: FAIR,
        name: "fair server",
        since: SINCE,
        threads: "normal threads",
        enabled: None,
    },
    Server {
        setting: "ext-server-runtime-ns",
        name: "ext server",
        since: (7, 0),
        threads: "threads of a sched_ext scheduler",
        enabled: Some("/sys/kernel/sched_ext/state"),
    },
];
/// Files that exist with CONFIG_RT_GROUP_SCHED. Kernels with this option still throttle each
/// control group.
const GROUPS: [&str; 2] = [
    "/sys/fs/cgroup/cpu/cpu.rt_runtime_us",
    "/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us",
];

/// Returns the kernel's version, or `None` if it does not begin with two numbers.
fn version(target: &Target<'_>) -> Option<(u32, u32)> {
    let release = target.text("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Leaves out the wish that has no effect on this kernel, and adds a note about the mechanism that
/// still stops a spinning thread.
pub(crate) fn decide(target: &Target<'_>, plan: &mut Plan) {
    let Some((major, minor)) = version(target) else {
        return;
    };
    let applies = if (major, minor) < SINCE {
        format!("; {THROTTLE} applies instead")
    } else {
        String::new()
    };
    for server in SERVERS.iter().filter(|one| (major, minor) < one.since) {
        let mut absent = plan.left_out.iter_mut();
        if let Some(absent) = absent.find(|one| one.setting == server.setting) {
            let (needed, after) = server.since;
            absent.reason = format!(
                "Linux {major}.{minor} has no {}, which needs {needed}.{after} or later{applies}",
                server.name
            );
        }
    }
    if (major, minor) < SINCE {
        return;
    }
    let unlimited = |step: &Step| step.setting.name == THROTTLE && step.target == "-1";
    let Some(place) = plan.steps.iter().position(unlimited) else {
        return;
    };
    let grouped = GROUPS
        .iter()
        .any(|file| target.files.exists(&target.below(file)));
    if plan.steps[place].wish && !grouped {
        plan.steps.remove(place);
        plan.left_out.push(LeftOut {
            setting: THROTTLE.to_owned(),
            reason: format!(
                "no effect on Linux {major}.{minor}; the fair server applies instead ({FAIR})"
            ),
        });
    }
    let enabled = |file: &str| target.text(file).is_some_and(|state| state == "enabled");
    for server in &SERVERS {
        let (setting, (needed, after)) = (server.setting, server.since);
        let off = |step: &Step| step.setting.name == setting && step.target == "0";
        let exists = (major, minor) >= server.since && server.enabled.is_none_or(enabled);
        if exists && !plan.steps.iter().any(off) {
            plan.remarks.push(format!(
                "from Linux {needed}.{after} on, the {} reserves a share of the CPU for {} (50 ms \
                 of each second by default), regardless of {THROTTLE}: {setting}=0 disables it, if \
                 debugfs is mounted",
                server.name, server.threads
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan_tests::{line, plan, request, why_left_out};
    use crate::testing::Machine;

    const EXT: &str = "ext-server-runtime-ns";

    fn planned(release: &str, state: &str) -> crate::Plan {
        let machine = Machine::controller(true);
        machine.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
        machine.write("sys/kernel/sched_ext/state", &format!("{state}\n"));
        plan(&machine, &request("low-latency", &[], "2-3")).unwrap()
    }

    #[test]
    fn missing_server_is_explained_by_the_version() {
        let no_fair = |version: &str| {
            format!(
                "Linux {version} has no fair server, which needs 6.12 or later; rt-runtime-us \
                 applies instead"
            )
        };
        let no_ext = |version: &str, instead: &str| {
            format!("Linux {version} has no ext server, which needs 7.0 or later{instead}")
        };
        let instead = "; rt-runtime-us applies instead";
        for (release, version) in [("6.11.9", "6.11"), ("5.15.0-rt", "5.15"), ("6.1", "6.1")] {
            let all = planned(release, "enabled");
            assert_eq!(why_left_out(&all, super::FAIR), no_fair(version));
            assert_eq!(why_left_out(&all, EXT), no_ext(version, instead));
            assert_eq!(line(&all, "rt-runtime-us"), "950000 -> -1", "{release}");
        }
        for (release, version) in [("6.12.0", "6.12"), ("6.19-rc1", "6.19")] {
            let all = planned(release, "enabled");
            // The version has it, so the file must be missing for another reason.
            assert!(why_left_out(&all, super::FAIR).ends_with("does not exist"));
            assert_eq!(why_left_out(&all, EXT), no_ext(version, ""));
            let throttle = format!(
                "no effect on Linux {version}; the fair server applies instead \
                 (fair-server-runtime-ns)"
            );
            assert_eq!(why_left_out(&all, "rt-runtime-us"), throttle);
        }
        for release in ["7.0", "10.1"] {
            let all = planned(release, "enabled");
            assert!(why_left_out(&all, EXT).ends_with("does not exist"));
        }
    }

    #[test]
    fn unknown_version_changes_nothing_in_the_plan() {
        for release in ["", "x", "6", "a.b"] {
            let all = planned(release, "enabled");
            assert_eq!(line(&all, "rt-runtime-us"), "950000 -> -1", "{release}");
            assert!(why_left_out(&all, super::FAIR).ends_with("does not exist"));
            assert_eq!(all.remarks, [""; 0]);
        }
    }

    #[test]
    fn each_server_that_reserves_time_is_named() {
        let remarks = |release: &str, state: &str| {
            let all = planned(release, state);
            let servers = all.remarks.iter().filter_map(|text| {
                let (_, rest) = text.split_once("on, the ")?;
                Some(rest.split_once(" reserves")?.0.to_owned())
            });
            servers.collect::<Vec<_>>()
        };
        assert_eq!(remarks("6.11", "enabled"), [""; 0]);
        assert_eq!(remarks("6.12", "enabled"), ["fair server"]);
        assert_eq!(remarks("7.0", "enabled"), ["fair server", "ext server"]);
        assert_eq!(remarks("7.0", "disabled"), ["fair server"]);
        // The servers matter only if throttling ends.
        let machine = Machine::controller(true);
        machine.write("proc/sys/kernel/osrelease", "7.0\n");
        for sets in ["swappiness=5", "rt-runtime-us=900000"] {
            let all = plan(&machine, &request("", &[sets], "")).unwrap();
            assert_eq!(all.remarks, [""; 0], "{sets}");
        }
    }
}
