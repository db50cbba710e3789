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
