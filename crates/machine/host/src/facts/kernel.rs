//! Facts about the kernel, its configuration and its boot options.

use punctual_model::{Fact, KernelFacts};

use super::COMMAND_LINE;
use super::config::{KernelConfig, Setting};
use super::{names, preempt};
use crate::root::{LOCKDOWN, Root, number};
use crate::unread::{Unparsed, Unread};

const TIMER_LIST: &str = "/proc/timer_list";
const SCHED_EXT: &str = "/sys/kernel/sched_ext/state";
const SCHED_EXT_NAME: &str = "/sys/kernel/sched_ext/root/ops";
const ARCHITECTURE: &str = "/proc/sys/kernel/arch";

pub(super) fn facts(root: &Root, release: Fact<String>, config: &KernelConfig) -> KernelFacts {
    let version = names::version(root);
    // An empty command line is valid: many boards boot without one.
    let command_line = root.fact(COMMAND_LINE, |text| Ok(text.to_owned()));
    let preempt_rt = preempt::preempt_rt(root, &version);
    KernelFacts {
        preempt_model: preempt::model(root, &preempt_rt, &version, &command_line, config),
        preempt_rt,
        hz: hz(config),
        high_resolution_timers: high_resolution_timers(root, &command_line, config),
        lockdown: root.choice(LOCKDOWN),
        rt_runtime_us: root.number("/proc/sys/kernel/sched_rt_runtime_us"),
        rt_period_us: root.number("/proc/sys/kernel/sched_rt_period_us"),
        sched_ext: sched_ext(root),
        architecture: architecture(root),
        configuration: config.digest(),
        options: config.options(),
        release,
        version,
        command_line,
    }
}

/// Returns the name of the sched_ext scheduler, or `none`. A kernel without sched_ext has no file,
/// but a recorded tree may lack files that the kernel had.
pub(crate) fn sched_ext(root: &Root) -> Fact<String> {
    let known = |name: &str| Fact::known(name.to_owned(), SCHED_EXT);
    match root.text(SCHED_EXT) {
        Ok(state) if state == "enabled" => match root.text(SCHED_EXT_NAME) {
            Ok(name) => Fact::known(name, SCHED_EXT_NAME),
            Err(_) => known("of unknown name"),
        },
        Ok(_) => known("none"),
        Err(Unread::NotThere) if root.is_live() => known("none"),
        Err(why) => Fact::unknown(SCHED_EXT, why.to_string()),
    }
}

/// Returns the output of `uname -m`, from a file on Linux 6.1 and later, and from the system call
/// on earlier kernels.
fn architecture(root: &Root) -> Fact<String> {
    let file = root.word(ARCHITECTURE);
    if file.value.is_none() && root.is_live() {
        let machine = rustix::system::uname()
            .machine()
            .to_string_lossy()
            .into_owned();
        return Fact::known(machine, "uname(2)");
    }
    file
}

fn hz(config: &KernelConfig) -> Fact<u32> {
    let unknown = |reason: String| Fact::unknown(config.source(), reason);
    match config.get("CONFIG_HZ") {
        Ok(Setting::Set(hz)) => match number(hz) {
            Ok(hz) => Fact::known(hz, config.source()),
            Err(reason) => unknown(reason.to_string()),
        },
        Ok(Setting::NotSet) => {
            unknown("the kernel configuration does not contain CONFIG_HZ".to_owned())
        }
        Err(reason) => unknown(reason.to_string()),
    }
}

/// Returns whether high-resolution timers are active. The clock resolution of this machine shows
/// this. The kernel prints /proc/timer_list in a time that grows with the square of the number of
/// timers, and with interrupts disabled again and again: 15 s for 15,000 timers. So only the file
/// of a recorded machine is read. Without it, only the absence of such timers can be certain.
fn high_resolution_timers(
    root: &Root,
    command_line: &Fact<String>,
    config: &KernelConfig,
) -> Fact<bool> {
    if root.is_live() {
        return Fact::known(is_fine(), RESOLUTION);
    }
    let seen = root.fact(TIMER_LIST, |text| {
        hres_active(text).ok_or_else(|| Unparsed::NoLine("hres_active".to_owned()))
    });
    if seen.value.is_some() {
        return seen;
    }
    // `highres=off` (Documentation/admin-guide/kernel-parameters.txt).
    if command_line
        .get()
        .is_some_and(|line| line.split_whitespace().any(|word| word == "highres=off"))
    {
        return Fact::known(false, COMMAND_LINE);
    }
    match config.is_on("CONFIG_HIGH_RES_TIMERS") {
        Ok(false) => Fact::known(false, config.source()),
        _ => seen,
    }
}

/// Source of the fact that [`is_fine`] provides.
const RESOLUTION: &str = "clock_getres(CLOCK_MONOTONIC)";

/// Returns whether the clock resolution is a nanosecond. High-resolution timers have this
/// resolution; without them, it is a tick (`hrtimer_resolution` in kernel/time/hrtimer.c).
fn is_fine() -> bool {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    resolution.tv_sec == 0 && resolution.tv_nsec == 1
}

/// Returns whether all CPUs have high-resolution timers. Even a single CPU without them would
/// falsify the measurements on that CPU.
fn hres_active(timer_list: &str) -> Option<bool> {
    let mut states = timer_list
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".hres_active")?.split_once(':'))
        .map(|(_, state)| state.trim() == "1")
        .peekable();
    states.peek()?;
    Some(states.all(|active| active))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sched_ext_scheduler_has_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        assert!(sched_ext(&root).value.is_none());
        let write = |file: &str, text: &str| {
            let path = folder.path().join(&file[1..]);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(SCHED_EXT, "disabled\n");
        assert_eq!(sched_ext(&root).value.as_deref(), Some("none"));
        write(SCHED_EXT, "enabled\n");
        write(SCHED_EXT_NAME, "lavd_1.0.6\n");
        assert_eq!(sched_ext(&root).value.as_deref(), Some("lavd_1.0.6"));
    }

    #[test]
    fn every_cpu_must_have_them() {
        let line = |state| format!("cpu: 0\n  .hres_active    : {state}\n");
        assert_eq!(hres_active(&(line(1) + &line(1))), Some(true));
        assert_eq!(hres_active(&(line(1) + &line(0))), Some(false));
        assert_eq!(hres_active("Timer List Version: v0.10"), None);
    }

    /// Returns whether the timers are active, and the source or reason, for a tree with these
    /// files.
    fn high_resolution(files: &[(&str, &str)]) -> (Option<bool>, String) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(&name[1..]);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        let config = KernelConfig::find(&root, Some("6.1"));
        let kernel = facts(&root, root.word("/release"), &config);
        let fact = kernel.high_resolution_timers;
        (fact.value, fact.unknown.unwrap_or(fact.source))
    }

    #[test]
    fn only_timer_absence_is_certain_without_list() {
        let off = ("/proc/cmdline", "quiet highres=off\n");
        let line = ("/proc/cmdline", "quiet highres=offline\n");
        let without = ("/boot/config-6.1", "# CONFIG_HIGH_RES_TIMERS is not set\n");
        let with = ("/boot/config-6.1", "CONFIG_HIGH_RES_TIMERS=y\n");
        assert_eq!(
            high_resolution(&[off, with]),
            (Some(false), off.0.to_owned())
        );
        assert_eq!(
            high_resolution(&[line, without]),
            (Some(false), without.0.to_owned())
        );
        assert_eq!(
            high_resolution(&[line, with]),
            (None, "not there".to_owned())
        );
    }
}
