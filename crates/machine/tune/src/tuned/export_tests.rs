//! Tests of the sections and values of an exported profile.

use super::TunedExport;
use crate::{Profile, Request, Wish};

/// Exports settings of the command line.
fn export(sets: &[&str], cpus: &str) -> TunedExport {
    let request = Request {
        profile: None,
        sets: sets.iter().map(|text| Wish::parse(text).unwrap()).collect(),
        cpus: (!cpus.is_empty()).then(|| cpus.parse().unwrap()),
    };
    TunedExport::new(&request).unwrap()
}

/// Returns the sections of an export, without comments: `[name] option=value, option=value`.
fn sections(export: &TunedExport) -> String {
    let lines = export.text.lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let joined: Vec<&str> = lines.collect();
    joined.join(" ")
}

#[test]
fn settings_become_the_options_of_their_plugin() {
    let cpu = "/sys/devices/system/cpu";
    for (set, expected) in [
        ("swappiness=5", "[sysctl] vm.swappiness=5".to_owned()),
        ("dirty-limit=7%", "[sysctl] vm.dirty_ratio=7".to_owned()),
        (
            "dirty-limit=65536",
            "[sysctl] vm.dirty_bytes=65536".to_owned(),
        ),
        ("thp=never", "[vm] transparent_hugepages=never".to_owned()),
        ("turbo=off", "[cpu] no_turbo=1".to_owned()),
        ("dma-latency-us=3", "[cpu] force_latency=3".to_owned()),
        (
            "governor=performance",
            "[cpu] governor=performance".to_owned(),
        ),
        (
            "governor@*=performance",
            "[cpu] governor=performance".to_owned(),
        ),
        (
            "governor@policy2=performance",
            format!("[sysfs] {cpu}/cpufreq/policy2/scaling_governor=performance"),
        ),
        (
            "energy-bias@cpu1=0",
            format!("[sysfs] {cpu}/cpu1/power/energy_perf_bias=0"),
        ),
        (
            "energy-bias=0",
            "[cpu] energy_perf_bias=performance".to_owned(),
        ),
        ("smt=off", format!("[sysfs] {cpu}/smt/control=off")),
        (
            "watchdog@nmi=off",
            "[sysctl] kernel.nmi_watchdog=0".to_owned(),
        ),
    ] {
        let export = export(&[set], "");
        assert_eq!(sections(&export), expected, "{set}");
        assert!(export.left_out.is_empty(), "{set}: {:?}", export.left_out);
    }
}

#[test]
fn cpus_select_the_devices_of_a_section() {
    let head = "[variables] isolated_cores=2-3";
    let devices = "devices=${f:cpulist2devs:${isolated_cores}}";
    let bias = "/sys/devices/system/cpu";
    for (sets, expected) in [
        (
            &["governor=performance"][..],
            format!("{head} [cpu] governor=performance {devices}"),
        ),
        // All options of [cpu] apply to the same devices, so other instances are files.
        (
            &["governor=performance", "energy-bias@*=0"],
            format!(
                "{head} [cpu] governor=performance {devices} [sysfs] \
                 {bias}/cpu*/power/energy_perf_bias=0"
            ),
        ),
        (
            &["governor@*=performance", "energy-bias@*=0"],
            "[cpu] governor=performance energy_perf_bias=performance".to_owned(),
        ),
        // The options of the whole machine do not depend on the devices.
        (
            &["turbo=off", "governor=performance"],
            format!("{head} [cpu] no_turbo=1 governor=performance {devices}"),
        ),
        (&["swappiness=5"], "[sysctl] vm.swappiness=5".to_owned()),
        (
            &["irqbalance-banned=measured"],
            format!("{head} [irqbalance] banned_cpus=${{isolated_cores}}"),
        ),
        (
            &["workqueue-cpus=housekeeping"],
            format!(
                "{head} [sysfs] /sys/devices/virtual/workqueue/cpumask=\
                 ${{f:cpulist2hex_invert:${{isolated_cores}}}}"
            ),
        ),
        (
            &["workqueue-cpus=measured"],
            format!(
                "{head} [sysfs] /sys/devices/virtual/workqueue/cpumask=\
                 ${{f:cpulist2hex:${{isolated_cores}}}}"
            ),
        ),
    ] {
        let export = export(sets, "2-3");
        assert_eq!(sections(&export), expected, "{sets:?}");
        assert!(
            export.left_out.is_empty(),
            "{sets:?}: {:?}",
            export.left_out
        );
    }
}

#[test]
fn settings_that_tuned_cannot_express_are_listed() {
    for (set, cpus, why) in [
        (
            "thread-priority@x=fifo:1",
            "",
            "selects threads by a regular expression",
        ),
        ("cpuset-partition=2", "", "TuneD has no option for it"),
        (
            "irq-affinity@5=1",
            "",
            "TuneD moves interrupts only together with processes",
        ),
        ("freq-min=max", "", "known only on the machine"),
        (
            "freq-max=800000",
            "2",
            "the frequency policies of the CPUs are known only on the",
        ),
        ("workqueue-cpus=measured", "", "'measured' needs --cpus"),
        (
            "workqueue-cpus=housekeeping",
            "",
            "'housekeeping' needs --cpus",
        ),
        ("irqbalance-banned=measured", "", "'measured' needs --cpus"),
        ("workqueue-cpus=all", "", "TuneD has no word for all CPUs"),
        ("swappiness=999", "", "swappiness takes "),
        (
            "pci-runtime-power@a b=on",
            "",
            "TuneD cannot express a path with this character",
        ),
    ] {
        let export = export(&[set], cpus);
        assert_eq!(sections(&export), "", "{set}");
        let [left_out] = export.left_out.as_slice() else {
            panic!("{set}: {:?}", export.left_out);
        };
        assert!(left_out.reason.contains(why), "{set}: {}", left_out.reason);
        let line = format!(
            "# not exported: {}: {}\n",
            left_out.setting, left_out.reason
        );
        assert!(export.text.contains(&line), "{}", export.text);
    }
}

#[test]
fn wishes_override_each_other_as_in_a_plan() {
    for (sets, expected) in [
        (
            &["thp=never", "thp=always"][..],
            "[vm] transparent_hugepages=always",
        ),
        (
            &["governor@policy1=powersave", "governor=performance"],
            "[cpu] governor=performance [sysfs] \
             /sys/devices/system/cpu/cpufreq/policy1/scaling_governor=powersave",
        ),
        (
            &["governor=powersave", "governor@*=performance"],
            "[cpu] governor=performance",
        ),
        // A wish that is left out overrides nothing.
        (
            &["workqueue-cpus=1", "workqueue-cpus=measured"],
            "[sysfs] /sys/devices/virtual/workqueue/cpumask=2",
        ),
    ] {
        assert_eq!(sections(&export(sets, "")), expected, "{sets:?}");
    }
}

#[test]
fn text_of_a_profile_stays_on_its_lines() {
    let of = |text: &str, cpus: &str| {
        let request = Request {
            profile: Some(Profile::parse("mi\nne", text).unwrap()),
            sets: Vec::new(),
            cpus: (!cpus.is_empty()).then(|| cpus.parse().unwrap()),
        };
        TunedExport::new(&request)
    };
    let export = of("summary = \"a # b\\\\c\\nd\"\n", "").unwrap();
    assert_eq!(sections(&export), "[main] summary=a  bc d");
    assert!(
        export
            .text
            .starts_with("# Exported by punctual tune export mi ne\n")
    );
    assert_eq!(sections(&of("summary = \" \"\n", "").unwrap()), "");
    let boot = "[boot]\na = \"{measured}:{housekeeping}\"\nquiet = true\nb = 1\n";
    let export = of(boot, "3").unwrap();
    assert_eq!(
        sections(&export),
        "[variables] isolated_cores=3 [bootloader] cmdline_punctual=+a=${isolated_cores}:\
         ${f:cpulist_invert:${isolated_cores}} quiet b=1"
    );
    for (key, value) in [("a", "$x"), ("a", "x\\\\"), ("#a", "x")] {
        let export = of(&format!("[boot]\n\"{key}\" = \"{value}\"\n"), "").unwrap();
        assert_eq!(export.left_out[0].setting, format!("boot argument {key}"));
        assert!(
            export.left_out[0]
                .reason
                .contains("would change the characters")
        );
        assert_eq!(sections(&export), "");
    }
    let error = of("[settings]\nthp = \"a\\nb\"\n", "")
        .unwrap_err()
        .to_string();
    assert!(error.contains(":2:7: thp: the value"), "{error}");
}
