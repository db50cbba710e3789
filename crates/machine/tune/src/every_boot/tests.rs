//! Tests of settings at every boot, on a system made of files.

use std::fs;

use super::{
    AtBoot, BootError, BootTune, UnitState, Verified, apply_at_boot, boot_reached, boot_status,
    disable, enable, verify_at_boot,
};
use crate::testing::Machine;

fn tune() -> BootTune {
    BootTune {
        program: "/usr/bin/punctual".to_owned(),
        profile: None,
        cpus: None,
        set: vec!["swappiness=1".to_owned()],
    }
}

fn system() -> Machine {
    let machine = Machine::controller(true);
    machine.write("usr/lib/systemd/systemd", "");
    machine
}

fn boots(machine: &Machine, id: &str) {
    machine.write("proc/sys/kernel/random/boot_id", &format!("{id}\n"));
    // A reboot discards the settings in memory.
    machine.write("proc/sys/vm/swappiness", "60\n");
}

fn apply(machine: &Machine) -> AtBoot {
    let places = machine.places();
    let plan = || BootTune::read(machine.host().root())?.plan(machine.host(), &places);
    apply_at_boot(machine.host(), &places, plan).unwrap()
}

fn verify(machine: &Machine) -> Verified {
    let places = machine.places();
    let plan = || tune().plan(machine.host(), &places);
    verify_at_boot(machine.host(), &places, plan).unwrap()
}

#[test]
fn disabling_removes_every_trace() {
    let machine = system();
    let before = machine.snapshot();
    let written = enable(machine.host(), &machine.places(), &tune()).unwrap();
    assert!(written.contains(&"/etc/punctual/boot.toml".to_owned()));
    let unit = machine.get("etc/systemd/system/punctual-tune.service");
    assert!(
        unit.contains("ExecStart=/usr/bin/punctual tune boot apply"),
        "{unit}"
    );
    let link = machine.host().root();
    let link = link.join("etc/systemd/system/multi-user.target.wants/punctual-tune.service");
    assert_eq!(
        fs::read_link(link).unwrap().to_str().unwrap(),
        "/etc/systemd/system/punctual-tune.service"
    );
    let status = boot_status(machine.host(), &machine.places()).unwrap();
    assert_eq!(status.enabled, Some(tune()));
    assert!(status.damaged.is_empty(), "{:?}", status.damaged);
    // The units are enabled again, with another program.
    let other = BootTune {
        program: "/opt/p".to_owned(),
        ..tune()
    };
    enable(machine.host(), &machine.places(), &other).unwrap();
    disable(machine.host(), &machine.places()).unwrap();
    let folders = |all: Vec<(std::path::PathBuf, String)>| {
        let files = all.into_iter().filter(|(_, text)| text != "a folder");
        files.collect::<Vec<_>>()
    };
    assert_eq!(folders(machine.snapshot()), folders(before));
    assert!(
        disable(machine.host(), &machine.places())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_unit_that_was_edited_is_kept() {
    let machine = system();
    enable(machine.host(), &machine.places(), &tune()).unwrap();
    machine.write("etc/systemd/system/punctual-tune.service", "[Unit]\n");
    let error = disable(machine.host(), &machine.places()).unwrap_err();
    assert!(matches!(error, BootError::Edited { .. }), "{error}");
    let status = boot_status(machine.host(), &machine.places()).unwrap();
    assert_eq!(status.damaged[0].1, UnitState::Edited);
    let bare = Machine::controller(true);
    let error = enable(bare.host(), &bare.places(), &tune()).unwrap_err();
    assert!(matches!(error, BootError::NoSystemd { .. }), "{error}");
}

#[test]
fn each_boot_applies_until_a_failure() {
    let machine = system();
    let places = machine.places();
    enable(machine.host(), &places, &tune()).unwrap();
    assert!(matches!(apply(&machine), AtBoot::Applied(..)));
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "1");
    assert!(boot_reached(machine.host(), &places).unwrap());

    boots(&machine, "second");
    assert!(!boot_reached(machine.host(), &places).unwrap());
    assert!(matches!(verify(&machine), Verified::NotApplied));
    assert!(matches!(apply(&machine), AtBoot::Applied(..)));
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "1");

    // The second boot does not reach its target.
    boots(&machine, "third");
    let status = boot_status(machine.host(), &places).unwrap();
    assert_eq!(status.left_off, Some(true));
    let AtBoot::LeftOff(attempt) = apply(&machine) else {
        panic!("settings were applied after a failed boot");
    };
    assert_eq!(attempt.boot_id, "second");
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "60");
    boots(&machine, "fourth");
    assert!(
        matches!(apply(&machine), AtBoot::LeftOff(_)),
        "not again by itself"
    );

    enable(machine.host(), &places, &tune()).unwrap();
    assert!(matches!(apply(&machine), AtBoot::Applied(..)));
}

#[test]
fn lost_setting_is_reapplied_unless_reverted() {
    let machine = system();
    let places = machine.places();
    enable(machine.host(), &places, &tune()).unwrap();
    apply(&machine);
    assert!(matches!(verify(&machine), Verified::Holds));
    machine.write("proc/sys/vm/swappiness", "60\n");
    let Verified::Again(lost, ..) = verify(&machine) else {
        panic!("the loss is not seen");
    };
    assert_eq!(lost, ["swappiness"]);
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "1");
    crate::revert(machine.host(), &places, false).unwrap();
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "60");
    assert!(matches!(verify(&machine), Verified::NotApplied));
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "60");
}

#[test]
fn profile_file_is_copied() {
    let machine = system();
    machine.write(
        "mine.toml",
        "summary = \"mine\"\n[settings]\nswappiness = 5\n",
    );
    let mine = machine.host().root().join("mine.toml");
    let tune = BootTune {
        profile: Some(mine.to_string_lossy().into_owned()),
        set: Vec::new(),
        ..tune()
    };
    enable(machine.host(), &machine.places(), &tune).unwrap();
    let read = BootTune::read(machine.host().root()).unwrap();
    assert_eq!(
        read.profile.as_deref(),
        Some("/etc/punctual/boot-profile.toml")
    );
    assert!(
        machine
            .get("etc/punctual/boot-profile.toml")
            .contains("swappiness = 5")
    );
}
