//! Tests of the options that an import leaves out, and of profiles that are joined.

use std::path::Path;

use super::TunedImport;
use super::conf::{Kind, parse};
use super::tests::{lines, tree};
use crate::TuneError;

fn import(text: &str) -> TunedImport {
    let root = tree(&[("etc/tuned/one/tuned.conf", text)]);
    TunedImport::read(root.path(), "one").unwrap()
}

/// Returns `[section] option: reason` of each option that was left out.
fn left_out(import: &TunedImport) -> Vec<String> {
    let all = import.left_out.iter();
    all.map(|one| format!("{}: {}", one.option(), one.reason))
        .collect()
}

/// Returns the lines of settings and boot parameters.
fn taken(text: &str) -> Vec<String> {
    lines(&import(text))[1..].to_vec()
}

fn of_line(import: &TunedImport, line: usize) -> String {
    format!("{}:{line}", import.files[0].display())
}

#[test]
fn later_line_replaces_an_earlier_one_and_is_named() {
    let text = "[vm]\ntransparent_hugepages=never\n[sysfs]\n\
                /sys/kernel/mm/transparent_hugepage/enabled=always\n";
    let both = import(text);
    assert_eq!(lines(&both)[1..], ["thp = always"]);
    let expected = format!(
        "[vm] transparent_hugepages: replaced by {}",
        of_line(&both, 4)
    );
    assert_eq!(left_out(&both), [expected]);
    assert_eq!(both.left_out[0].value, "never");
    assert_eq!(both.left_out[0].at, of_line(&both, 2));
    // A line with the same value replaces nothing that a user would miss.
    let same = import(&text.replace("always", "never"));
    assert_eq!(left_out(&same), [""; 0]);
    assert_eq!(lines(&same)[1..], ["thp = never"]);
}

#[test]
fn line_for_all_instances_replaces_those_for_single_ones() {
    let one = "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor=powersave\n";
    let all = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor=performance\n";
    let first_one = import(&format!("[sysfs]\n{one}{all}"));
    assert_eq!(lines(&first_one)[1..], ["governor@* = performance"]);
    assert_eq!(first_one.left_out.len(), 1);
    let first_all = import(&format!("[sysfs]\n{all}{one}"));
    assert_eq!(
        lines(&first_all)[1..],
        ["governor@* = performance", "governor@policy1 = powersave"]
    );
    assert_eq!(left_out(&first_all), [""; 0]);
}

#[test]
fn alternatives_are_chosen_as_tuned_tries_them() {
    let used =
        |chosen: &str| format!("of several values that TuneD tries in order, {chosen} is used");
    for (option, line, chosen) in [
        (
            "governor=schedutil|performance",
            "governor@* = schedutil",
            "schedutil",
        ),
        (
            "governor= performance |powersave",
            "governor@* = performance",
            "performance",
        ),
        ("force_latency=cstate.id:1|7|3", "dma-latency-us = 7", "7"),
    ] {
        let found = import(&format!("[cpu]\n{option}\n"));
        assert_eq!(lines(&found)[1..], [line], "{option}");
        assert!(left_out(&found)[0].ends_with(&used(chosen)), "{option}");
    }
    // Without a number among the alternatives, nothing is known.
    let found = import("[cpu]\nforce_latency=cstate.id:1|_latency\n");
    assert_eq!(lines(&found).len(), 1);
    assert!(left_out(&found)[1].ends_with("the value is known only on the machine"));
    assert_eq!(left_out(&import("[cpu]\ngovernor=performance\n")), [""; 0]);
}

#[test]
fn options_without_counterpart_are_listed_with_reason() {
    for (text, reason) in [
        (
            "[main]\nprofile_dir=x\n",
            "[main] profile_dir: this option concerns only TuneD",
        ),
        (
            "[disk]\nreadahead=4096\n",
            "[disk] readahead: punctual has no counterpart in the plug-in disk",
        ),
        ("[own]\na=1\n", "[own] a: TuneD has no plug-in 'own'"),
        ("[own]\n", "[own]: TuneD has no plug-in 'own'"),
        ("[disk]\n", "[disk]: punctual has no counterpart"),
        (
            "[vm]\nenabled=0\ntransparent_hugepages=never\n",
            "[vm] transparent_hugepages: the section is disabled",
        ),
        (
            "[vm]\ncpuinfo_regex=Intel\ntransparent_hugepages=never\n",
            "[vm] transparent_hugepages: the section applies only to some machines: cpuinfo_regex = Intel",
        ),
        (
            "[sysctl]\nscript_pre=x\n",
            "[sysctl] script_pre: scripts are never run",
        ),
        (
            "[bootloader]\ngrub2_cfg_file=x\n",
            "[bootloader] grub2_cfg_file: only the kernel's command line is imported",
        ),
        (
            "[bootloader]\ncmdline=\"a\n",
            "[bootloader] cmdline: \"a: this is not a parameter of the kernel's command line",
        ),
        (
            "[bootloader]\ncmdline==a\n",
            "[bootloader] cmdline: : this is not a parameter of the kernel's command line",
        ),
        (
            "[bootloader]\ncmdline=a=recommended\n",
            "[bootloader] cmdline: a: this is not a parameter of the kernel's command line",
        ),
        (
            "[bootloader]\ncmdline={a}=1\n",
            "[bootloader] cmdline: {a}: this is not a parameter of the kernel's command line",
        ),
        (
            "[bootloader]\ncmdline=a=${x}\n",
            "[bootloader] cmdline: a: the variable x is not defined",
        ),
        (
            "[scheduler]\nsched_min_granularity_ns=1\n",
            "[scheduler] sched_min_granularity_ns: punctual has no counterpart in the plug-in scheduler",
        ),
        (
            "[scheduler]\ngroup.a=0:f:2:*:x\n",
            "[scheduler] group.a: groups of processes are not changed: use punctual exec, or the setting thread-priority",
        ),
        (
            "[vm]\ngroup.a=1\n",
            "[vm] group.a: punctual has no counterpart in the plug-in vm",
        ),
        (
            "[scheduler]\nisolated_cores=x\n",
            "[scheduler] isolated_cores: the value is not a list of CPUs, or not that of the variable isolated_cores",
        ),
    ] {
        let found = import(text);
        assert_eq!(left_out(&found), [reason], "{text}");
        assert_eq!(lines(&found).len(), 1, "nothing is imported: {text}");
    }
    // Options that concern only the order of TuneD's plug-ins are not worth a line.
    let text = "[vm]\npriority=5\ndevices_udev_regex=x\nenabled=1\ntransparent_hugepages=never\n";
    assert_eq!(left_out(&import(text)), [""; 0]);
    assert_eq!(taken(text), ["thp = never"]);
    let main = import("[main]\nsummary= A ${x}\ndescription=b\n");
    assert_eq!(lines(&main), ["summary = A ${x}"]);
    assert_eq!(left_out(&main), [""; 0]);
}

#[test]
fn parameters_of_all_lines_become_one_command_line() {
    let text = "[variables]\nisolated_cores=2-3\n[bootloader]\n\
                cmdline_a=+skew_tick=1 nosmt audit=0 audit=0\n\
                cmdline_b=\\isolcpus=${isolated_cores} irqaffinity=${f:cpulist_invert:${isolated_cores}}\n\
                cmdline_c=-nosmt skew_tick=2\n\
                cmdline_d=audit=1 mask=${f:cpulist2hex:${isolated_cores}}\n";
    let found = import(text);
    assert_eq!(
        lines(&found)[1..],
        [
            "skew_tick = 1",
            "audit = 1",
            "isolcpus = {measured}",
            "irqaffinity = {housekeeping}",
        ]
    );
    let replaced = format!(
        "[bootloader] cmdline_a: audit: replaced by {}",
        of_line(&found, 7)
    );
    let mask = "[bootloader] cmdline_d: mask: punctual writes CPUs only as a list";
    assert_eq!(left_out(&found), [replaced.as_str(), mask]);
    assert_eq!((found.settings(), found.boot_parameters()), (0, 4));
    assert!(found.needs_cpus());
    // A removed parameter is the same with its value.
    assert_eq!(
        taken("[bootloader]\ncmdline_a=a=1 b\ncmdline_b=-a=1 b\n"),
        [""; 0]
    );
}

#[test]
fn interrupts_of_tuned_are_those_of_isolated_cpus() {
    let with = |options: &str| {
        let text = format!("[variables]\nisolated_cores=2-3\n[scheduler]\n{options}\n");
        let found = import(&text);
        (lines(&found)[1..].join(", "), left_out(&found).join(", "))
    };
    let moved = "irq-affinity = housekeeping";
    let both = format!("{moved}, default-irq-affinity = housekeeping");
    let processes = "[scheduler] isolated_cores: interrupts are moved to other CPUs, but processes \
                     are not: use the setting cpuset-partition";
    for value in ["2-3", "2,3", "${isolated_cores}"] {
        let (settings, out) = with(&format!("isolated_cores={value}"));
        assert_eq!(
            (settings.as_str(), out.as_str()),
            (both.as_str(), processes)
        );
    }
    for on in ["1", "y", "Yes", "t", "TRUE"] {
        let (settings, _) = with(&format!("irq_process={on}\nisolated_cores=2-3"));
        assert_eq!(settings, both, "{on}");
    }
    // What is not known leaves TuneD's default, and is listed.
    let (settings, out) = with("irq_process=${x}\nisolated_cores=2-3");
    assert_eq!(settings, both);
    assert!(
        out.contains("irq_process: the variable x is not defined"),
        "{out}"
    );
    let ignored = "isolated_cores=2-3\ndefault_irq_smp_affinity=ignore";
    assert_eq!(with(ignored).0, moved);
    let own = "isolated_cores=2-3\ndefault_irq_smp_affinity=1";
    assert_eq!(with(own).0, format!("{moved}, default-irq-affinity = 1"));
    let (settings, out) = with("isolated_cores=1");
    assert_eq!(settings, "");
    assert!(
        out.contains("not that of the variable isolated_cores"),
        "{out}"
    );
}

#[test]
fn isolated_cpus_of_the_scheduler_stand_for_the_measured_ones() {
    let found = import("[scheduler]\nisolated_cores=2-3\n");
    assert_eq!(found.cpus, "2-3".parse().ok());
    let found = import("[scheduler]\nisolated_cores=\n");
    assert_eq!(found.cpus, None);
    // The variable has priority.
    let text = "[variables]\nisolated_cores=1\n[scheduler]\nisolated_cores=2-3\n";
    assert_eq!(import(text).cpus, "1".parse().ok());
}

#[test]
fn quotes_around_a_value_of_sysctl_are_removed() {
    for value in ["1", "\"1\"", "'1'", " \"1\" "] {
        let text = format!("[sysctl]\nvm.swappiness={value}\n");
        assert_eq!(taken(&text), ["swappiness = 1"], "{value}");
    }
    for value in ["\"1", "\"1'", "\""] {
        let found = import(&format!("[sysctl]\nvm.swappiness={value}\n"));
        assert_eq!(lines(&found).len(), 1, "{value}");
    }
}

#[test]
fn imported_profile_explains_itself() {
    let text = |profile: &str| import(profile).toml();
    let plain = text("[sysctl]\nvm.swappiness=1\nx.y=2\n[own]\n");
    assert!(plain.starts_with("# Imported from a profile of TuneD:\n#   /"));
    assert!(plain.contains("/etc/tuned/one/tuned.conf\n"), "{plain}");
    assert!(
        plain.contains("/tuned.conf:2\n\"swappiness\" = \"1\"\n"),
        "{plain}"
    );
    assert!(
        plain.contains("\n# Not imported:\n# [sysctl] x.y = 2\n#   /"),
        "{plain}"
    );
    assert!(
        plain.contains("/tuned.conf:3: punctual has no setting for /proc/sys/x/y\n"),
        "{plain}"
    );
    assert!(plain.contains("# [own]\n"), "{plain}");
    assert!(
        !plain.contains("--cpus") && !plain.contains("[boot]"),
        "{plain}"
    );
    assert!(!text("[sysctl]\nvm.swappiness=1\n").contains("Not imported"));
    let known = text("[scheduler]\nisolated_cores=2-3\n");
    assert!(
        known.contains("# The profile isolates these CPUs: pass --cpus 2-3\n"),
        "{known}"
    );
    let unknown =
        text("[variables]\nisolated_cores=${f:x:1}\n[irqbalance]\nbanned_cpus=${isolated_cores}\n");
    assert!(
        unknown.contains("known only on the machine: pass --cpus\n"),
        "{unknown}"
    );
    assert!(!import("[scheduler]\nx=1\n").needs_cpus());
}

#[test]
fn sections_and_values_are_parsed_as_tuned_does() {
    let parsed = |text: &str, kind| -> Result<Vec<String>, TuneError> {
        let sections = parse(Path::new("f"), text, kind)?;
        let all = sections.iter().flat_map(|section| {
            let entries = section.entries.iter();
            entries.map(|one| format!("[{}] {}={} {}", section.name, one.name, one.value, one.line))
        });
        Ok(all.collect())
    };
    let profile = |text: &str| parsed(text, Kind::Profile).unwrap();
    assert_eq!(profile(""), [""; 0]);
    assert_eq!(
        profile("# c\n; c\n\n[a]\nb = 1 = 2\n ; c\nc=\n[d e]\nf=x#y # z\r\n"),
        ["[a] b=1 = 2 5", "[a] c= 7", "[d e] f=x#y 9"]
    );
    // A line that is indented more than its option continues the value, also after an empty line.
    assert_eq!(
        profile("[a]\n b=1\n  2\n\n\t\t3 # c\n c=4\nd=5\n"),
        ["[a] b=1 2 3 2", "[a] c=4 6", "[a] d=5 7"]
    );
    // A header does not continue anything, and ends the option before.
    assert_eq!(profile("[a]\nb=1\n[c]\n d=2\n"), ["[a] b=1 2", "[c] d=2 4"]);
    assert_eq!(
        parsed("b=1\n[a]\nc=2\n", Kind::Variables).unwrap(),
        ["[] b=1 1", "[a] c=2 3"]
    );
    for (text, why) in [
        ("[a]\nb\n", "f:2:1: this is neither"),
        ("[]\n", "f:1:1: write a section"),
        ("[ ]\n", "f:1:1: write a section"),
        ("[a] b\n", "f:1:1: write a section"),
        ("b=1\n", "f:1:1: this line is above the first section"),
        ("[a]\nb=1\n\nc=2\nb=3\n", "f:5:1: 'b' is already in line 2"),
        (
            "[a]\n\n[a]\n",
            "f:3:1: the section [a] is already at f:1: join the two",
        ),
        ("[a]\n = 1\n", "f:2:1: the name before '=' is missing"),
    ] {
        let error = parsed(text, Kind::Profile).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
    let lines = |count: usize| format!("[a]{}", "\n".repeat(count - 1));
    assert!(parsed(&lines(10_000), Kind::Profile).is_ok());
    assert!(parsed(&lines(10_001), Kind::Profile).is_err());
}

#[test]
fn names_of_profiles_are_checked() {
    let root = tree(&[(
        "etc/tuned/a_b.c-1/tuned.conf",
        "[sysctl]\nvm.swappiness=1\n",
    )]);
    let found = TunedImport::read(root.path(), "a_b.c-1").unwrap();
    assert_eq!(lines(&found)[1..], ["swappiness = 1"]);
    for name in ["", ".a", "..", "a b", "é", "a\u{1}", "a*"] {
        let error = TunedImport::read(root.path(), name)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("this is not the name of a profile"),
            "{name}: {error}"
        );
    }
    let error = TunedImport::read(root.path(), "other")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no folder NAME/tuned.conf is in "),
        "{error}"
    );
    for (include, end) in [
        (".a", "this is not the name of a profile"),
        ("b", "system that has TuneD"),
    ] {
        let child = format!("[main]\ninclude={include}\n");
        let root = tree(&[("etc/tuned/one/tuned.conf", &child)]);
        let error = TunedImport::read(root.path(), "one")
            .unwrap_err()
            .to_string();
        let by = format!(
            "(included in {}/etc/tuned/one/tuned.conf:2)",
            root.path().display()
        );
        assert!(error.contains(&by), "{error}");
        assert!(error.contains(end), "{error}");
    }
}

#[test]
fn neighbours_of_a_file_can_be_included() {
    let root = tree(&[
        (
            "mine/one/tuned.conf",
            "[main]\ninclude=two, three\n[variables]\ninclude=/etc/tuned/v.conf\n[sysctl]\nvm.swappiness=${s}\n",
        ),
        ("mine/two/tuned.conf", "[vm]\ntransparent_hugepages=never\n"),
        (
            "usr/lib/tuned/two/tuned.conf",
            "[vm]\ntransparent_hugepages=always\n",
        ),
        (
            "usr/lib/tuned/three/tuned.conf",
            "[sysctl]\nvm.stat_interval=9\n",
        ),
        ("etc/tuned/v.conf", "s=7\nbad-name=1\n"),
    ]);
    let path = root.path().join("mine/one");
    for name in [path.clone(), path.join("tuned.conf")] {
        let found = TunedImport::read(root.path(), name.to_str().unwrap()).unwrap();
        assert_eq!(
            lines(&found)[1..],
            ["thp = never", "stat-interval-s = 9", "swappiness = 7"]
        );
        assert_eq!(found.files.len(), 4);
        assert_eq!(
            left_out(&found),
            ["[variables] bad-name: a name of a variable has only letters, digits and '_'"]
        );
    }
}

#[test]
fn sections_of_included_profiles_are_joined() {
    let joined = |child: &str| {
        let base = "[sysctl]\nvm.swappiness=1\nvm.stat_interval=2\n\
                    [vm]\nenabled=false\ntransparent_hugepages=never\n";
        let child = format!("[main]\ninclude=base\n{child}");
        let root = tree(&[
            ("etc/tuned/base/tuned.conf", base),
            ("etc/tuned/one/tuned.conf", &child),
        ]);
        let found = TunedImport::read(root.path(), "one").unwrap();
        lines(&found)[1..].join(", ")
    };
    let (swappiness, interval) = ("swappiness = 1", "stat-interval-s = 2");
    assert_eq!(joined(""), format!("{swappiness}, {interval}"));
    // The options keep their place.
    assert_eq!(
        joined("[sysctl]\nvm.dirty_bytes=65536\nvm.swappiness=3\n"),
        format!("swappiness = 3, {interval}, dirty-limit = 65536")
    );
    for yes in ["1", "true", "True"] {
        assert_eq!(joined(&format!("[sysctl]\nreplace={yes}\n")), "", "{yes}");
    }
    for no in ["0", "yes", "TRUE"] {
        let both = format!("{swappiness}, {interval}");
        assert_eq!(joined(&format!("[sysctl]\nreplace={no}\n")), both, "{no}");
    }
    assert_eq!(joined("[sysctl]\ndrop= vm.swappiness ;x\n"), interval);
    assert_eq!(
        joined("[sysctl]\ndrop=vm.swappiness,vm.stat_interval\n"),
        ""
    );
    // Whether a section is enabled is decided by the last profile that has it.
    let with_vm = joined("[vm]\n");
    assert_eq!(with_vm, format!("{swappiness}, {interval}, thp = never"));
}
