//! Tests of the values of TuneD's options.

use punctual_model::{Location, SETTINGS, Setting};

use super::table::{Form, ROWS, paths_of, setting_of, to_setting, to_tuned};
use super::words::{MEASURED, MEASURED_MASK, OTHERS, OTHERS_MASK};
use crate::setting;

fn row(name: &str) -> &'static Setting {
    setting(name).unwrap()
}

#[test]
fn values_of_tuned_become_those_of_settings() {
    let list = MEASURED.to_string();
    let others = OTHERS.to_string();
    let mask = MEASURED_MASK.to_string();
    let others_mask = OTHERS_MASK.to_string();
    for (name, form, value, expected) in [
        ("energy-bias", Form::Bias, "performance", "0"),
        ("energy-bias", Form::Bias, "normal", "6"),
        ("energy-bias", Form::Bias, "powersave", "15"),
        ("energy-bias", Form::Bias, "8", "8"),
        ("turbo", Form::Inverted, "1", "off"),
        ("turbo", Form::Inverted, "0", "on"),
        ("smt", Form::OnOff, "on", "on"),
        ("smt", Form::OnOff, "off", "off"),
        ("dma-latency-us", Form::Latency, "0", "0"),
        ("dma-latency-us", Form::Latency, "2000000000", "2000000000"),
        ("dma-latency-us", Form::Latency, "003", "3"),
        ("dirty-limit", Form::Percent, "0", "0%"),
        ("dirty-limit", Form::Percent, "100", "100%"),
        ("dirty-limit", Form::Same, "65536", "65536"),
        ("irqbalance-banned", Form::List, "1,2,3", "1-3"),
        ("irqbalance-banned", Form::List, &list, "measured"),
        ("irqbalance-banned", Form::List, &others, "housekeeping"),
        ("default-irq-affinity", Form::Same, "f", "0-3"),
        ("default-irq-affinity", Form::Same, "0x3", "0-1"),
        ("default-irq-affinity", Form::Same, &mask, "measured"),
        (
            "default-irq-affinity",
            Form::Same,
            &others_mask,
            "housekeeping",
        ),
        ("default-irq-affinity", Form::List, "4-5", "4-5"),
        ("freq-min", Form::Same, "800000", "800000"),
        ("swappiness", Form::Same, "10", "10"),
        ("thp", Form::Same, "never", "never"),
        ("mce-ignore-corrected", Form::Same, "1", "on"),
        ("rcu-normal", Form::Same, "Y", "on"),
        ("rcu-normal", Form::Same, "n", "off"),
    ] {
        let found = to_setting(row(name), form, value);
        assert_eq!(found.as_deref(), Ok(expected), "{name} {value:?}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused_with_reason() {
    let list = MEASURED.to_string();
    let mask = MEASURED_MASK.to_string();
    let no_limit = "the profile sets no limit";
    let on_machine = "the value is known only on the machine";
    let relative = "a limit for the value that the machine has";
    for (name, form, value, why) in [
        ("energy-bias", Form::Bias, "fast", "energy-bias takes "),
        ("energy-bias", Form::Bias, "16", "energy-bias takes "),
        ("turbo", Form::Inverted, "2", "the option takes 0 or 1"),
        ("smt", Form::OnOff, "1", "smt takes "),
        ("dma-latency-us", Form::Latency, "2000000001", "takes "),
        ("dma-latency-us", Form::Latency, "99999999999", "takes "),
        ("dma-latency-us", Form::Latency, "none", no_limit),
        ("dma-latency-us", Form::Latency, "None", no_limit),
        ("dma-latency-us", Form::Latency, "cstate.id:1", on_machine),
        ("dma-latency-us", Form::Latency, "", on_machine),
        ("dirty-limit", Form::Percent, "101", "dirty-limit takes "),
        ("dirty-limit", Form::Percent, "10%", "dirty-limit takes "),
        ("dirty-limit", Form::Same, "0", "dirty-limit takes "),
        ("dirty-limit", Form::Same, "x", "dirty-limit takes "),
        ("swappiness", Form::Same, ">10", relative),
        ("swappiness", Form::Same, "<10", relative),
        ("irqbalance-banned", Form::List, "", "not a list of CPUs"),
        ("irqbalance-banned", Form::List, &mask, "not a list of CPUs"),
        (
            "default-irq-affinity",
            Form::Same,
            "0",
            "not a mask of CPUs",
        ),
        ("default-irq-affinity", Form::Same, &list, "not a mask of"),
        ("freq-min", Form::Same, "max", "freq-min takes "),
        ("freq-min", Form::Same, "", "freq-min takes "),
        ("swappiness", Form::Same, "201", "swappiness takes "),
        ("thp", Form::Same, "recommended", "thp takes "),
        ("thp", Form::Same, "a b", "thp takes "),
        ("rcu-normal", Form::Same, "2", "rcu-normal takes "),
    ] {
        let error = to_setting(row(name), form, value).unwrap_err();
        assert!(error.contains(why), "{name} {value:?}: {error}");
    }
}

#[test]
fn values_of_settings_become_those_of_tuned() {
    for (name, form, value, expected) in [
        ("energy-bias", Form::Bias, "0", "performance"),
        ("energy-bias", Form::Bias, "15", "power"),
        ("energy-bias", Form::Bias, "3", "3"),
        ("turbo", Form::Inverted, "on", "0"),
        ("turbo", Form::Inverted, "no", "1"),
        ("smt", Form::OnOff, "off", "off"),
        ("smt", Form::OnOff, "yes", "on"),
        ("dma-latency-us", Form::Latency, "3", "3"),
        ("dirty-limit", Form::Percent, "7%", "7"),
        ("dirty-limit", Form::Same, "65536", "65536"),
        ("default-irq-affinity", Form::Same, "0-3", "f"),
        ("default-irq-affinity", Form::List, "0-3", "0-3"),
        ("thp", Form::Same, "never", "never"),
        ("freq-min", Form::Same, "800000", "800000"),
        ("swappiness", Form::Same, "10", "10"),
    ] {
        let found = to_tuned(row(name), form, value);
        assert_eq!(found.as_deref(), Ok(expected), "{name} {value}");
    }
    for (form, word, stands_for) in [
        (Form::List, "measured", MEASURED),
        (Form::List, "housekeeping", OTHERS),
        (Form::Same, "measured", MEASURED_MASK),
        (Form::Same, "housekeeping", OTHERS_MASK),
    ] {
        let found = to_tuned(row("default-irq-affinity"), form, word);
        assert_eq!(found, Ok(stands_for.to_string()), "{form:?} {word}");
    }
    for (name, form, value, why) in [
        ("energy-bias", Form::Bias, "16", "energy-bias takes "),
        ("turbo", Form::Inverted, "2", "turbo takes "),
        ("smt", Form::OnOff, "2", "smt takes "),
        ("dma-latency-us", Form::Latency, "x", "takes "),
        ("dma-latency-us", Form::Latency, "", "takes "),
        ("dirty-limit", Form::Same, "x", "dirty-limit takes "),
        ("dirty-limit", Form::Percent, "7", "dirty-limit takes "),
        ("default-irq-affinity", Form::Same, "all", "no word for all"),
        ("default-irq-affinity", Form::Same, "x", "takes "),
        ("freq-min", Form::Same, "max", "known only on the machine"),
        ("swappiness", Form::Same, "201", "swappiness takes "),
        // TuneD would take these characters for a limit, an alternative or a variable.
        ("thp", Form::Same, "<never", "thp takes "),
        ("thp", Form::Same, "a|b", "thp takes "),
        ("thp", Form::Same, "$a", "thp takes "),
        ("thp", Form::Same, "a\\b", "thp takes "),
        ("thp", Form::Same, "a b", "thp takes "),
    ] {
        let error = to_tuned(row(name), form, value).unwrap_err();
        assert!(error.contains(why), "{name} {value}: {error}");
    }
}

#[test]
fn file_selects_its_setting_and_instance() {
    let cpu = "/sys/devices/system/cpu";
    for (path, name, instance) in [
        ("/proc/sys/vm/swappiness".to_owned(), "swappiness", None),
        (
            format!("{cpu}/cpufreq/policy3/scaling_governor"),
            "governor",
            Some("policy3"),
        ),
        (
            format!("{cpu}/cpufreq/policy*/scaling_governor"),
            "governor",
            Some("*"),
        ),
        (
            format!("{cpu}/cpu*/cpufreq/scaling_governor"),
            "governor",
            Some("*"),
        ),
        (
            format!("{cpu}/cpu[0-9]*/cpufreq/scaling_governor"),
            "governor",
            Some("*"),
        ),
        (
            format!("{cpu}/cpufreq/policy1*/scaling_governor"),
            "governor",
            Some("policy1*"),
        ),
        (
            "/sys/class/net/eth0/queues/rx-*/rps_cpus".to_owned(),
            "rps-cpus",
            Some("eth0/rx-*"),
        ),
        (
            "/sys/class/net/*/queues/rx-*/rps_cpus".to_owned(),
            "rps-cpus",
            Some("*"),
        ),
        (
            "/proc/sys/kernel/nmi_watchdog".to_owned(),
            "watchdog",
            Some("nmi"),
        ),
        (
            "/sys/bus/workqueue/devices/writeback/cpumask".to_owned(),
            "workqueue-cpus-of",
            Some("writeback"),
        ),
    ] {
        let (found, selected) = setting_of(&path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!(
            (found.name, selected.as_deref()),
            (name, instance),
            "{path}"
        );
    }
    for path in [
        "/proc/sys/vm/swappines",
        "/proc/sys/vm/swappiness/x",
        "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/cpufreq/policy/scaling_governor",
        "/sys/devices/system/cpu/cpufreq/policyx/scaling_governor",
        "/sys/devices/system/cpu/cpufreq/policy[12]/scaling_governor",
        "/sys/devices/system/cpu/cpufreq/policy1/x/scaling_governor",
        "/sys/class/net/eth?/queues/rx-0/rps_cpus",
        "",
    ] {
        let found = setting_of(path).map(|(setting, _)| setting.name);
        assert_eq!(found, None, "{path}");
    }
}

#[test]
fn paths_lead_back_to_the_setting() {
    for setting in SETTINGS {
        let is_special = matches!(setting.location, Location::Special { .. });
        for selector in [None, Some("*")] {
            let paths = paths_of(setting, selector);
            assert_eq!(paths.is_none(), is_special, "{}", setting.name);
            for path in paths.unwrap_or_default() {
                let (found, _) = setting_of(&path).unwrap_or_else(|| panic!("{path}"));
                assert_eq!(found.name, setting.name);
            }
        }
    }
    let paths = |name: &str, selector| paths_of(row(name), selector);
    let governor = |policy: &str| {
        let path = format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor");
        Some(vec![path])
    };
    assert_eq!(paths("governor", Some("policy2")), governor("policy2"));
    assert_eq!(paths("governor", Some("policy1*")), governor("policy1*"));
    for other in ["cpu1*", "policy1*/x", ".*", "policyx", "x/y"] {
        assert_eq!(paths("governor", Some(other)), None, "{other}");
    }
    let queue = |path: &str| Some(vec![format!("/sys/class/net/{path}/rps_cpus")]);
    assert_eq!(
        paths("rps-cpus", Some("eth*/rx-0")),
        queue("eth*/queues/rx-0")
    );
    assert_eq!(paths("rps-cpus", Some("eth*")), None);
    let nmi = Some(vec!["/proc/sys/kernel/nmi_watchdog".to_owned()]);
    assert_eq!(paths("watchdog", Some("nmi")), nmi);
    assert_eq!(paths("watchdog", None).map(|all| all.len() > 1), Some(true));
    assert_eq!(paths("watchdog", Some("x")), None);
    assert_eq!(paths("swappiness", Some("x")), None);
}

#[test]
fn rows_name_settings_and_are_unique() {
    for (place, own) in ROWS.iter().enumerate() {
        assert!(setting(own.setting).is_ok(), "{}", own.setting);
        let same =
            |other: &super::table::Row| (other.plugin, other.option) == (own.plugin, own.option);
        assert_eq!(ROWS.iter().position(same), Some(place), "{}", own.option);
    }
}
