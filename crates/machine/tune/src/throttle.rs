//! The mechanism that stops a real-time thread that never sleeps. Before Linux 6.12, this is
//! real-time throttling. Since then, it is the fair server, regardless of `sched_rt_runtime_us`
//! (`kernel/sched/deadline.c`). If a profile names both, only the one that is effective on this
//! kernel matters.

use crate::planned::LeftOut;
use crate::target::Target;
use crate::{Plan, Step};

const THROTTLE: &str = "rt-runtime-us";
const FAIR: &str = "fair-server-runtime-ns";
/// The first version with a fair server.
const SINCE: (u32, u32) = (6, 12);
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
    if (major, minor) < SINCE {
        let absent = plan.left_out.iter_mut().find(|one| one.setting == FAIR);
        if let Some(absent) = absent {
            absent.reason = format!(
                "Linux {major}.{minor} has no fair server, which needs 6.12 or later; {THROTTLE} \
                 applies instead"
            );
        }
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
    let none = |step: &Step| step.setting.name == FAIR && step.target == "0";
    if !plan.steps.iter().any(none) {
        plan.remarks.push(format!(
            "from Linux 6.12 on, the fair server reserves a share of the CPU for normal threads \
             (50 ms of each second by default), regardless of {THROTTLE}: {FAIR}=0 disables it, if \
             debugfs is mounted"
        ));
    }
}
