//! The preemption model of the kernel.

use punctual_model::Fact;

use super::config::KernelConfig;
use super::names::{self, VERSION};
use crate::root::Root;
use crate::unread::Unparsed;

const REALTIME: &str = "/sys/kernel/realtime";
/// File with the effective preemption model of a kernel that has PREEMPT_DYNAMIC, since Linux 5.12.
const DYNAMIC: &str = "/sys/kernel/debug/sched/preempt";

/// Values of `preempt=` and of the file above (`kernel/sched/core.c`,
/// `sched_dynamic_mode`).
const MODELS: [&str; 4] = ["none", "voluntary", "full", "lazy"];

/// Options that select the model, or the default of a dynamic kernel (`kernel/Kconfig.preempt`).
const OPTIONS: [(&str, &str); 4] = [
    ("CONFIG_PREEMPT_NONE", "none"),
    ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
    ("CONFIG_PREEMPT", "full"),
    ("CONFIG_PREEMPT_LAZY", "lazy"),
];

/// Returns whether this is a PREEMPT_RT kernel, according to its file or its version.
pub(super) fn preempt_rt(root: &Root, version: &Fact<String>) -> Fact<bool> {
    let file = root.fact(REALTIME, |text| match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(Unparsed::other("0 or 1", text)),
    });
    if file.value.is_some() {
        return file;
    }
    version.clone().map(|version| says_rt(&version))
}

/// Finds `PREEMPT_RT`, or `PREEMPT RT`, which kernels before 5.4 use.
fn says_rt(version: &str) -> bool {
    let words: Vec<&str> = version.split_whitespace().collect();
    words.contains(&"PREEMPT_RT") || words.windows(2).any(|pair| pair == ["PREEMPT", "RT"])
}

/// Returns the effective model, from the first of these sources that contains it: the running
/// kernel's file, the command line, the configuration, the version.
pub(super) fn model(
    root: &Root,
    rt: &Fact<bool>,
    version: &Fact<String>,
    command_line: &Fact<String>,
    config: &KernelConfig,
) -> Fact<String> {
    if rt.value == Some(true) {
        return Fact::known("rt".to_owned(), rt.source.clone());
    }
    let running = root.choice(DYNAMIC);
    if running.value.is_some() {
        return running;
    }
    let Some(text) = version.get() else {
        return version.clone();
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let dynamic = words.contains(&"PREEMPT_DYNAMIC");
    let says = ["PREEMPT", "PREEMPT_LAZY"].map(|word| words.contains(&word));
    // Kernels without PREEMPT_DYNAMIC ignore the parameter.
    if let Some(chosen) = command_line.get().and_then(|line| boot_choice(line))
        && dynamic
    {
        return Fact::known(chosen.to_owned(), command_line.source.clone());
    }
    if let Some((_, name)) = OPTIONS
        .iter()
        .find(|(option, _)| config.is_on(option) == Ok(true))
    {
        return Fact::known((*name).to_owned(), config.source());
    }
    let unknown = |says: &str| {
        let config = config.get("CONFIG_PREEMPT").err();
        let config = match config {
            Some(why) => why.to_string(),
            None => "not in the kernel configuration".to_owned(),
        };
        let why = running.unknown.as_deref().unwrap_or_default();
        Fact::unknown(VERSION, format!("{says}; {DYNAMIC}: {why}; {config}"))
    };
    match (dynamic, says) {
        (true, _) => unknown("PREEMPT_DYNAMIC: the active model is unknown"),
        (_, [_, true]) => Fact::known("lazy".to_owned(), VERSION),
        // A kernel with lazy preemption has the same version text as a fully preemptible one.
        (_, [true, _]) if may_be_lazy(root) => unknown("PREEMPT can be full or lazy"),
        (_, [true, _]) => Fact::known("full".to_owned(), VERSION),
        _ => unknown("without PREEMPT, the model is none or voluntary"),
    }
}

/// Returns the last valid `preempt=` on a command line, because the kernel reads the values in
/// order and ignores unknown values.
fn boot_choice(line: &str) -> Option<&str> {
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("preempt="))
        .rfind(|choice| MODELS.contains(choice))
}

/// Returns whether the kernel may have lazy preemption, which Linux 6.13 added. A release that
/// cannot be parsed may be later than that.
fn may_be_lazy(root: &Root) -> bool {
    let release = names::release(root).value;
    let version = release.as_deref().and_then(|release| {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let major: u32 = numbers.next()?.parse().ok()?;
        let minor: u32 = numbers.next()?.parse().ok()?;
        Some((major, minor))
    });
    version.is_none_or(|version| version >= (6, 13))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Returns (model, source or reason) for a tree with these files.
    fn model_of(files: &[(&str, &str)]) -> (Option<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(&name[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        let version = root.word(VERSION);
        let line = root.word("/proc/cmdline");
        let release = root.word("/proc/sys/kernel/osrelease").value;
        let config = KernelConfig::find(&root, release.as_deref());
        let rt = preempt_rt(&root, &version);
        let fact = model(&root, &rt, &version, &line, &config);
        (fact.value, fact.unknown.unwrap_or(fact.source))
    }

    const RELEASE: (&str, &str) = ("/proc/sys/kernel/osrelease", "6.1.0\n");
    const BOOT: &str = "/boot/config-6.1.0";

    #[track_caller]
    fn assert_known(files: &[(&str, &str)], model: &str, source: &str) {
        assert_eq!(model_of(files), (Some(model.to_owned()), source.to_owned()));
    }

    #[test]
    fn rt_is_seen_in_file_and_version() {
        assert_known(&[(REALTIME, "1\n")], "rt", REALTIME);
        assert_known(&[(VERSION, "#1 SMP PREEMPT_RT Debian")], "rt", VERSION);
        assert_known(&[(VERSION, "#1 SMP PREEMPT RT Mon")], "rt", VERSION);
        assert!(!says_rt("#1 SMP PREEMPT_RTX RT"));
    }

    #[test]
    fn running_mode_precedes_requested_and_built() {
        let dynamic = (VERSION, "#1 SMP PREEMPT_DYNAMIC Debian");
        let line = ("/proc/cmdline", "quiet preempt=none preempt=full preempt=x");
        let config = (BOOT, "CONFIG_PREEMPT_VOLUNTARY=y\n");
        let running = (DYNAMIC, "none (voluntary) full lazy\n");
        assert_known(
            &[RELEASE, dynamic, line, config, running],
            "voluntary",
            DYNAMIC,
        );
        assert_known(&[RELEASE, dynamic, line, config], "full", "/proc/cmdline");
        assert_known(&[RELEASE, dynamic, config], "voluntary", BOOT);
        let (model, reason) = model_of(&[RELEASE, dynamic]);
        assert_eq!(model, None);
        assert!(
            reason.contains("active model is unknown") && reason.contains("not there"),
            "{reason}"
        );
    }

    #[test]
    fn a_static_kernel_ignores_the_boot_line() {
        let line = ("/proc/cmdline", "preempt=none");
        assert_known(
            &[RELEASE, line, (VERSION, "#1 SMP PREEMPT Mon")],
            "full",
            VERSION,
        );
        let config = (BOOT, "CONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set\n");
        assert_known(&[RELEASE, config, (VERSION, "#1 SMP Mon")], "none", BOOT);
        assert_eq!(model_of(&[RELEASE, (VERSION, "#1 SMP Mon")]).0, None);
    }

    #[test]
    fn lazy_is_not_taken_for_full() {
        let version = (VERSION, "#1 SMP PREEMPT Mon");
        let release = ("/proc/sys/kernel/osrelease", "6.14.2-x\n");
        let (model, reason) = model_of(&[release, version]);
        assert_eq!(model, None);
        assert!(reason.contains("full or lazy"), "{reason}");
        let config = ("/boot/config-6.14.2-x", "CONFIG_PREEMPT_LAZY=y\n");
        assert_known(&[release, version, config], "lazy", config.0);
    }
}
