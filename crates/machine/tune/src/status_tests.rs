//! Tests of the status of applied settings, and of settings at every boot.

use std::fs;

use crate::plan_tests::{NEVER, applied, request, reverted, status};
use crate::testing::{Fault, Faulty, Machine};
use crate::{
    AtBoot, BootError, BootTune, Hold, Phase, Status, TuneError, UnitState, Verified,
    apply_at_boot, boot_reached, boot_status, disable, enable, verify_at_boot, verify_enabled,
};

#[test]
fn each_setting_is_compared_with_both_values() {
    let machine = Machine::controller(true);
    assert!(status(&machine).is_none());
    let sets = ["swappiness=5", "irq-affinity@24=0-2"];
    applied(&machine, &request("", &sets, "2-3")).unwrap();
    let now = status(&machine).unwrap();
    assert_eq!(now.label, "swappiness=5 irq-affinity@24=0-2");
    assert_eq!(
        (now.phase, now.cpus.as_deref()),
        (Phase::Applied, Some("2-3"))
    );
    assert!(now.applied.is_some() && now.journal == machine.places().applied);
    let names: Vec<_> = now
        .settings
        .iter()
        .map(|one| {
            (
                one.label.as_str(),
                one.setting.as_str(),
                one.instance.as_str(),
            )
        })
        .collect();
    assert!(
        names.contains(&("irq-affinity@24", "irq-affinity", "24")),
        "{names:?}"
    );
    let of = |name: &str| {
        let now = status(&machine).unwrap();
        let holds = now.holds();
        let one = now.settings.into_iter().find(|one| one.setting == name);
        (holds, one.unwrap())
    };
    let (holds, irq) = of("irq-affinity");
    assert!(holds);
    assert_eq!((irq.old.as_str(), irq.target.as_str()), ("0-3", "0-2"));
    assert_eq!(
        (irq.now.as_deref(), &irq.state),
        (Some("0-2"), &Hold::InForce)
    );
    assert!(irq.remark.unwrap().contains("still on CPU 3"));
    for (text, state) in [
        ("60\n", Hold::Old),
        ("7\n", Hold::Changed),
        ("5\n", Hold::InForce),
    ] {
        machine.write("proc/sys/vm/swappiness", text);
        let (holds, one) = of("swappiness");
        assert_eq!(holds, state == Hold::InForce, "{text}");
        assert_eq!((one.now.as_deref(), one.state), (Some(text.trim()), state));
        assert_eq!(one.remark, None);
    }
    machine.remove("proc/sys/vm/swappiness");
    let (holds, one) = of("swappiness");
    assert!(!holds && one.now.is_none());
    assert!(matches!(one.state, Hold::Unknown { reason } if reason.contains("swappiness")));
    machine.write("proc/sys/vm/swappiness", "5\n");
    machine.reboots();
    let now = status(&machine).unwrap();
    assert_eq!(now.phase, Phase::BeforeBoot);
    assert!(!now.holds());
}

#[test]
fn unfinished_changes_are_told_from_those_in_progress() {
    let machine = Machine::controller(true);
    let places = machine.places();
    let journal = crate::Journal::open(&places.applied, machine.host());
    let mut journal = journal.unwrap();
    let change = |journal: &mut crate::Journal| {
        journal
            .apply(crate::setting("clocksource").unwrap(), "hpet")
            .unwrap();
    };
    change(&mut journal);
    let now = status(&machine).unwrap();
    assert_eq!(
        (now.phase, now.label.as_str()),
        (Phase::InProgress, "unfinished")
    );
    assert!(!now.holds() && now.applied.is_none() && now.cpus.is_none());
    machine.process_dies();
    assert_eq!(status(&machine).unwrap().phase, Phase::Unfinished);
    machine.process_starts();
    assert_eq!(status(&machine).unwrap().phase, Phase::Unfinished);
    drop(journal);
    assert!(status(&machine).is_none());
}

#[test]
fn damage_matters_only_in_the_boot_of_the_changes() {
    let machine = Machine::controller(true);
    applied(&machine, &request("", &["swappiness=5"], "")).unwrap();
    let path = machine.places().applied;
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"5\"", "\"6\"")).unwrap();
    let read = || {
        let files = Faulty::on(&machine, Fault::EndsBefore, NEVER);
        Status::read_on(files.boxed(), &path, machine.host())
    };
    let error = read().unwrap_err();
    assert!(
        matches!(error, TuneError::Damaged { line: 2, .. }),
        "{error}"
    );
    let error = reverted(&machine).unwrap_err();
    assert!(matches!(error, TuneError::Damaged { .. }), "{error}");
    machine.reboots();
    machine.process_starts();
    assert_eq!(read().unwrap().unwrap().phase, Phase::BeforeBoot);
    reverted(&machine).unwrap();
    assert!(status(&machine).is_none());
}

fn tune() -> BootTune {
    BootTune {
        program: "/usr/bin/punctual".to_owned(),
        profile: None,
        cpus: Some("2-3".to_owned()),
        set: vec!["governor=performance".to_owned()],
    }
}

fn system() -> Machine {
    let machine = Machine::controller(true);
    for cpu in 0..4 {
        // Without this driver, the preference does not depend on the governor.
        machine.remove(&format!(
            "sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_driver"
        ));
    }
    machine.write("lib/systemd/systemd", "");
    machine
}

fn applied_at_boot(machine: &Machine) -> AtBoot {
    let places = machine.places();
    let plan = || tune().plan(machine.host(), &places);
    apply_at_boot(machine.host(), &places, plan).unwrap()
}

#[test]
fn missing_units_and_links_are_reported() {
    let machine = system();
    let places = machine.places();
    let none = boot_status(machine.host(), &places).unwrap();
    assert!(none.enabled.is_none() && none.damaged.is_empty() && none.last.is_none());
    assert_eq!(none.left_off, Some(false));
    let written = enable(machine.host(), &places, &tune()).unwrap();
    let rules = "/etc/udev/rules.d/90-punctual-tune.rules";
    let service = "/etc/systemd/system/punctual-tune.service";
    let link = "/etc/systemd/system/suspend.target.wants/punctual-tune-verify.service";
    for file in [rules, service, "/etc/punctual/boot.toml"] {
        assert!(written.contains(&file.to_owned()), "{written:?}");
        assert!(machine.host().root().join(&file[1..]).is_file());
    }
    let damaged = || boot_status(machine.host(), &places).unwrap().damaged;
    assert_eq!(damaged(), []);
    fs::remove_file(machine.host().root().join(&link[1..])).unwrap();
    machine.remove(&rules[1..]);
    let text = machine.get(&service[1..]);
    machine.write(&service[1..], &text);
    assert_eq!(
        damaged(),
        [
            (service.to_owned(), UnitState::Edited),
            (rules.to_owned(), UnitState::Missing),
            (link.to_owned(), UnitState::Missing),
        ]
    );
    machine.write(&service[1..], &format!("{text}\n"));
    let removed = disable(machine.host(), &places).unwrap();
    for file in [service, "/etc/punctual/boot.toml"] {
        assert!(removed.contains(&file.to_owned()), "{removed:?}");
    }
    for file in [rules, link] {
        assert!(!removed.contains(&file.to_owned()), "{removed:?}");
    }
    assert!(!machine.host().root().join("etc/punctual").exists());
}

#[test]
fn systemctl_of_the_system_is_used() {
    for (file, path) in [
        ("usr/bin/systemctl", "/usr/bin/systemctl"),
        ("bin/systemctl", "/bin/systemctl"),
        ("x", "/usr/bin/systemctl"),
    ] {
        let machine = system();
        machine.write(file, "");
        enable(machine.host(), &machine.places(), &tune()).unwrap();
        let rules = machine.get("etc/udev/rules.d/90-punctual-tune.rules");
        assert!(
            rules.contains(&format!("RUN+=\"{path} --no-block")),
            "{rules}"
        );
    }
}

#[test]
fn impossible_configuration_is_not_enabled() {
    let machine = system();
    let places = machine.places();
    let before = machine.snapshot();
    let with = |change: fn(&mut BootTune)| {
        let mut tune = tune();
        change(&mut tune);
        enable(machine.host(), &places, &tune)
            .unwrap_err()
            .to_string()
    };
    let error = with(|tune| tune.cpus = Some("x".to_owned()));
    assert!(error.starts_with("cpus: "), "{error}");
    let error = with(|tune| tune.set = vec!["governer=x".to_owned()]);
    assert!(error.contains("did you mean 'governor'"), "{error}");
    let error = with(|tune| tune.profile = Some("nothing".to_owned()));
    assert!(error.contains("unknown profile 'nothing'"), "{error}");
    assert_eq!(machine.snapshot(), before);
    // A configuration that was damaged is reported, and not taken for a missing one.
    enable(machine.host(), &places, &tune()).unwrap();
    machine.write("etc/punctual/boot.toml", "x = 1\n");
    for error in [
        BootTune::read(machine.host().root()).unwrap_err(),
        disable(machine.host(), &places).unwrap_err(),
        boot_status(machine.host(), &places).unwrap_err(),
        verify_enabled(machine.host(), &places).unwrap_err(),
    ] {
        assert!(matches!(error, BootError::Damaged { .. }), "{error}");
    }
}

#[test]
fn state_of_the_last_boot_is_known() {
    let machine = system();
    let places = machine.places();
    let state = || {
        let status = boot_status(machine.host(), &places).unwrap();
        (
            status.last.map(|last| (last.reached, last.changed)),
            status.left_off,
        )
    };
    assert!(!boot_reached(machine.host(), &places).unwrap());
    let AtBoot::Applied(plan, done) = applied_at_boot(&machine) else {
        panic!("not applied");
    };
    assert_eq!((plan.changes().count(), done.changes.len()), (2, 2));
    assert_eq!(state(), (Some((false, 2)), Some(false)));
    machine.write("proc/sys/kernel/random/boot_id", "second\n");
    assert_eq!(state(), (Some((false, 2)), Some(true)));
    machine.write("proc/sys/kernel/random/boot_id", "first\n");
    assert!(boot_reached(machine.host(), &places).unwrap());
    assert_eq!(state(), (Some((true, 2)), Some(false)));
    machine.write("proc/sys/kernel/random/boot_id", "second\n");
    assert_eq!(state(), (Some((true, 2)), Some(false)));
    machine.remove("proc/sys/kernel/random/boot_id");
    assert_eq!(state(), (Some((true, 2)), None));
    let error = boot_reached(machine.host(), &places).unwrap_err();
    assert!(
        error.to_string().contains("this boot is unknown"),
        "{error}"
    );
}

/// Settings of a device that appeared later are missing from the journal.
#[test]
fn device_that_appears_later_gets_the_settings() {
    let machine = system();
    let places = machine.places();
    assert!(matches!(
        verify_enabled(machine.host(), &places),
        Ok(Verified::NotApplied)
    ));
    let policy = "sys/devices/system/cpu/cpufreq/policy3/scaling_governor";
    machine.remove(policy);
    applied_at_boot(&machine);
    let verify = || {
        let plan = || tune().plan(machine.host(), &places);
        verify_at_boot(machine.host(), &places, plan).unwrap()
    };
    assert!(matches!(verify(), Verified::Holds));
    machine.write(policy, "powersave\n");
    let Verified::Again(lost, plan, done) = verify() else {
        panic!("the new device is not seen");
    };
    assert_eq!(lost, ["governor@policy3"]);
    assert_eq!((plan.changes().count(), done.changes.len()), (2, 2));
    assert_eq!(machine.get(policy), "performance");
    assert!(matches!(verify(), Verified::Holds));
    // Nothing had to be changed at the boot, so there is no journal.
    crate::revert(machine.host(), &places, false).unwrap();
    assert!(matches!(verify(), Verified::NotApplied));
}

#[test]
fn boot_without_changes_is_verified_too() {
    let machine = system();
    let places = machine.places();
    for policy in [2, 3] {
        let file = format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor");
        machine.write(&file, "performance\n");
    }
    enable(machine.host(), &places, &tune()).unwrap();
    applied_at_boot(&machine);
    let verify = || verify_enabled(machine.host(), &places).unwrap();
    assert!(matches!(verify(), Verified::Holds));
    let file = "sys/devices/system/cpu/cpufreq/policy2/scaling_governor";
    machine.write(file, "powersave\n");
    let Verified::Again(lost, ..) = verify() else {
        panic!("the loss is not seen");
    };
    assert_eq!(lost, ["governor@policy2"]);
    assert_eq!(machine.get(file), "performance");
}
