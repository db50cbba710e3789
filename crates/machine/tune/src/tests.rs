//! Tests the whole journal on a simulated machine that consists of files. The program ends at every
//! step, a step fails, changes are made in an unexpected order, and two programs run at the same
//! time.

use std::fs;

use crate::recover::recover_on;
use crate::testing::{Fault, Faulty, Machine};
use punctual_model::Setting;

use crate::{How, Journal, Restored, TuneError, recover, setting};

fn clock() -> &'static Setting {
    setting("clocksource").unwrap()
}

fn restored(value: &str, found: &str) -> Restored {
    Restored {
        setting: "clocksource".to_owned(),
        value: value.to_owned(),
        how: How::Written {
            found: found.to_owned(),
            ours: true,
        },
    }
}

/// A program that changes a setting twice and undoes both changes.
fn program(files: &Faulty, machine: &Machine) -> Result<(), TuneError> {
    let mut journal = Journal::open_on(files.boxed(), &machine.journal(), machine.host())?;
    journal.apply(clock(), "hpet")?;
    assert_eq!(machine.source(), "hpet");
    journal.apply(clock(), "acpi_pm")?;
    assert_eq!(machine.source(), "acpi_pm");
    journal.revert_all().map(drop)
}

const NEVER: usize = usize::MAX;
const ENDS: [Fault; 3] = [Fault::EndsBefore, Fault::EndsWithin, Fault::EndsAfter];

#[test]
fn changes_are_undone_in_reverse_order() {
    let machine = Machine::new();
    let mut journal = Journal::open(&machine.journal(), machine.host()).unwrap();
    let change = journal.apply(clock(), "hpet").unwrap();
    assert_eq!((&*change.old, &*change.new), ("tsc", "hpet"));
    journal.apply(clock(), "acpi_pm").unwrap();
    assert_eq!(
        journal.revert_all().unwrap(),
        [restored("hpet", "acpi_pm"), restored("tsc", "hpet")]
    );
    assert_eq!(machine.source(), "tsc");
    assert_eq!(journal.revert_all().unwrap(), []);
    // A change that was undone can be made again.
    journal.apply(clock(), "hpet").unwrap();
    drop(journal);
    assert_eq!(machine.source(), "tsc", "dropping it undoes");
}

#[test]
fn old_value_is_stored_before_change() {
    let machine = Machine::new();
    let files = Faulty::new(Fault::EndsBefore, NEVER);
    program(&files, &machine).unwrap();
    let steps = files.steps();
    let sets: Vec<usize> = (0..steps.len()).filter(|at| steps[*at] == "set").collect();
    assert_eq!(sets.len(), 4);
    for (place, at) in sets.iter().enumerate() {
        // The two writes that undo the changes need no new records before they are made.
        if place < 2 {
            assert_eq!(steps[at - 2..*at], ["append", "sync"], "{steps:?}");
        }
        assert_eq!(steps[at + 1], "read", "read back: {steps:?}");
    }
}

#[test]
fn next_program_undoes_an_interrupted_change() {
    let whole = Faulty::new(Fault::EndsBefore, NEVER);
    program(&whole, &Machine::new()).unwrap();
    let steps = whole.steps().len();
    assert!(steps > 20, "{:?}", whole.steps());
    let mut changed = 0;
    for fault in ENDS {
        for at in 0..steps {
            let machine = Machine::new();
            let _ = program(&Faulty::new(fault, at), &machine);
            changed += usize::from(machine.source() != "tsc");
            machine.process_dies();
            recover(&machine.journal(), machine.host()).unwrap();
            assert_eq!(machine.source(), "tsc", "{fault:?} at step {at}");
            assert_eq!(recover(&machine.journal(), machine.host()).unwrap(), []);
        }
    }
    assert!(changed > 10, "no faults were injected during changes");
}

#[test]
fn next_program_finishes_an_interrupted_undo() {
    let left_behind = || {
        let machine = killed();
        machine.process_dies();
        machine
    };
    let undo = |machine: &Machine, files: &Faulty| {
        recover_on(files.boxed(), &machine.journal(), machine.host())
    };
    let whole = Faulty::new(Fault::EndsBefore, NEVER);
    undo(&left_behind(), &whole).unwrap();
    for fault in ENDS {
        for at in 0..whole.steps().len() {
            let machine = left_behind();
            let _ = undo(&machine, &Faulty::new(fault, at));
            recover(&machine.journal(), machine.host()).unwrap();
            assert_eq!(machine.source(), "tsc", "{fault:?} at step {at}");
        }
    }
}

#[test]
fn failed_step_leaves_old_value_or_record() {
    let whole = Faulty::new(Fault::EndsBefore, NEVER);
    program(&whole, &Machine::new()).unwrap();
    for at in 0..whole.steps().len() {
        let machine = Machine::new();
        // When the journal is dropped at the end, undoing is tried again. A step that fails during
        // undoing does not matter if an earlier value could be restored.
        let files = Faulty::new(Fault::Fails, at);
        let result = program(&files, &machine);
        let sets = files.steps()[..at].iter().filter(|s| **s == "set").count();
        assert!(result.is_err() || sets >= 2, "step {at} failed unnoticed");
        assert_eq!(machine.source(), "tsc", "step {at}");
        machine.process_dies();
        recover(&machine.journal(), machine.host()).unwrap();
        assert_eq!(machine.source(), "tsc", "step {at}");
    }
}

#[test]
fn ignored_value_is_detected() {
    let machine = Machine::new();
    let files = Faulty::new(Fault::Ignored, NEVER);
    let mut journal = Journal::open_on(files.boxed(), &machine.journal(), machine.host()).unwrap();
    let error = journal.apply(clock(), "hpet").unwrap_err();
    assert!(
        matches!(&error, TuneError::NotVerified { value, found, .. } if value == "hpet" && found == "tsc"),
        "{error}"
    );
    assert!(error.to_string().starts_with("not verified: "), "{error}");
    assert_eq!(
        journal.revert_all().unwrap(),
        [],
        "there is nothing to undo"
    );
}

#[test]
fn failed_undo_is_reported_and_retried() {
    let machine = Machine::new();
    let mut journal = Journal::open(&machine.journal(), machine.host()).unwrap();
    journal.apply(clock(), "hpet").unwrap();
    let files = machine.host().root().join("sys");
    let aside = machine.host().root().join("gone");
    fs::rename(&files, &aside).unwrap();
    let error = journal.revert_all().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("clocksource to 'tsc': cannot read "),
        "{text}"
    );
    let TuneError::NotRestored {
        restored: none,
        failures,
    } = error
    else {
        panic!("{text}");
    };
    assert_eq!((none.len(), failures.len()), (0, 1));
    fs::rename(&aside, &files).unwrap();
    assert_eq!(journal.revert_all().unwrap(), [restored("tsc", "hpet")]);
}

#[test]
fn foreign_change_is_undone_and_reported() {
    let machine = Machine::new();
    let mut journal = Journal::open(&machine.journal(), machine.host()).unwrap();
    journal.apply(clock(), "hpet").unwrap();
    machine.set_source("acpi_pm\n");
    let restored = journal.revert_all().unwrap();
    assert_eq!(
        restored[0].how,
        How::Written {
            found: "acpi_pm".to_owned(),
            ours: false
        }
    );
    assert_eq!(machine.source(), "tsc");
    // A setting that someone else has already restored is left unchanged.
    journal.apply(clock(), "hpet").unwrap();
    machine.set_source("tsc\n");
    assert_eq!(journal.revert_all().unwrap()[0].how, How::WasThere);
}

#[test]
fn value_already_in_force_is_not_written() {
    let machine = Machine::new();
    let files = Faulty::new(Fault::EndsBefore, NEVER);
    let mut journal = Journal::open_on(files.boxed(), &machine.journal(), machine.host()).unwrap();
    let change = journal.apply(clock(), "tsc").unwrap();
    assert_eq!(change.old, change.new);
    assert!(!files.steps().contains(&"set"));
    assert_eq!(journal.revert_all().unwrap(), []);
}

#[test]
fn living_session_excludes_others_and_stays_untouched() {
    let machine = Machine::new();
    let (path, host) = (machine.journal(), machine.host());
    let mut journal = Journal::open(&path, host).unwrap();
    journal.apply(clock(), "hpet").unwrap();
    assert!(matches!(
        Journal::open(&path, host),
        Err(TuneError::Locked { .. })
    ));
    assert_eq!(recover(&path, host).unwrap(), []);
    assert_eq!(machine.source(), "hpet");
    drop(journal);
    assert!(Journal::open(&path, host).is_ok());
}

/// A machine whose program ended while `acpi_pm` was set.
fn killed() -> Machine {
    let whole = Faulty::new(Fault::EndsBefore, NEVER);
    program(&whole, &Machine::new()).unwrap();
    let steps = whole.steps();
    let second = (0..steps.len()).filter(|at| steps[*at] == "set").nth(1);
    let machine = Machine::new();
    let _ = program(&Faulty::new(Fault::EndsAfter, second.unwrap()), &machine);
    assert_eq!(machine.source(), "acpi_pm");
    machine
}

#[test]
fn pending_changes_must_be_undone_first() {
    let machine = killed();
    let error = Journal::open(&machine.journal(), machine.host()).unwrap_err();
    assert!(matches!(error, TuneError::Pending { .. }), "{error}");
    machine.process_dies();
    assert_eq!(
        recover(&machine.journal(), machine.host()).unwrap(),
        [restored("hpet", "acpi_pm"), restored("tsc", "hpet")]
    );
}

#[test]
fn reboot_has_undone_earlier_changes() {
    let machine = killed();
    machine.reboots();
    machine.set_source("hpet");
    let undone = recover(&machine.journal(), machine.host()).unwrap();
    assert_eq!(undone.len(), 2);
    assert!(undone.iter().all(|restored| restored.how == How::Reboot));
    assert_eq!(
        machine.source(),
        "hpet",
        "the value that this boot set stays"
    );
    assert_eq!(recover(&machine.journal(), machine.host()).unwrap(), []);
}

#[test]
fn damage_stops_recovery_unless_from_earlier_boot() {
    let machine = killed();
    let path = machine.journal();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("tsc", "tsq", 1)).unwrap();
    let error = Journal::open(&path, machine.host()).unwrap_err();
    assert!(
        error.to_string().starts_with("line 2 of the journal"),
        "{error}"
    );
    machine.process_dies();
    let error = recover(&path, machine.host()).unwrap_err();
    assert!(
        matches!(error, TuneError::Damaged { line: 2, .. }),
        "{error}"
    );
    assert_eq!(machine.source(), "acpi_pm");
    fs::create_dir_all(
        machine
            .host()
            .root()
            .join(format!("proc/{}", std::process::id())),
    )
    .unwrap();
    machine.reboots();
    recover(&path, machine.host()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn nothing_to_undo_makes_no_file() {
    let machine = Machine::new();
    assert_eq!(recover(&machine.journal(), machine.host()).unwrap(), []);
    assert!(!machine.journal().parent().unwrap().exists());
}

#[test]
fn without_knowing_the_boot_nothing_is_changed() {
    let machine = Machine::new();
    fs::remove_file(machine.host().root().join("proc/sys/kernel/random/boot_id")).unwrap();
    let error = Journal::open(&machine.journal(), machine.host()).unwrap_err();
    assert!(matches!(error, TuneError::Unidentified { .. }), "{error}");
}

#[test]
fn link_replacing_journal_is_not_followed() {
    let machine = Machine::new();
    let victim = machine.host().root().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir_all(machine.journal().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&victim, machine.journal()).unwrap();
    assert!(Journal::open(&machine.journal(), machine.host()).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
