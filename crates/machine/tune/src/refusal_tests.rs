//! Tests with settings that the kernel refuses, journals that cannot be written, and journals that
//! another user wrote.

use crate::apply::{apply_on, revert_on};
use crate::plan_tests::{NEVER, applied, everything, plan, request, reverted, status};
use crate::testing::{Fault, Faulty, Machine};
use crate::{Applied, How, Options, Refusals, Request, TuneError};

fn apply_with(
    machine: &Machine,
    request: &Request,
    refusals: Refusals,
) -> Result<Applied, TuneError> {
    let all = plan(machine, request)?;
    let files = Box::new(Faulty::on(machine, Fault::EndsBefore, NEVER));
    let options = Options { refusals };
    apply_on(files, &all, machine.host(), &machine.places(), options)
}

#[test]
fn only_refused_named_setting_undoes_all() {
    let machine = Machine::controller(true);
    let before = machine.snapshot();
    machine.write("proc/sys/vm/swappiness.refuses", "");
    let with_marker = machine.snapshot();
    let one = request("low-latency", &["swappiness=5"], "2-3");
    for (request, refusals) in [
        (&everything(), Refusals::UndoAll),
        (&one, Refusals::default()),
    ] {
        let error = apply_with(&machine, request, refusals).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, TuneError::RolledBack { undone: 10.., .. }),
            "{text}"
        );
        assert!(
            text.contains("swappiness") && text.contains("are undone"),
            "{text}"
        );
        assert_eq!(machine.snapshot(), with_marker);
        assert!(status(&machine).is_none());
    }
    // A setting that comes from a profile may be left out. With --keep-going, every setting may be
    // left out.
    for (request, refusals) in [
        (&everything(), Refusals::default()),
        (&one, Refusals::LeaveOutAll),
    ] {
        let done = apply_with(&machine, request, refusals).unwrap();
        assert_eq!(done.refused.len(), 1, "{:?}", done.refused);
        assert_eq!(done.refused[0].setting, "swappiness");
        let reason = &done.refused[0].reason;
        assert!(reason.contains("Input/output error"), "{reason}");
        assert_eq!(machine.get("sys/kernel/rcu_normal"), "1");
        assert!(status(&machine).unwrap().holds());
        reverted(&machine).unwrap();
        assert_eq!(machine.snapshot(), with_marker);
    }
    machine.remove("proc/sys/vm/swappiness.refuses");
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn governor_and_its_preference_are_omitted_together() {
    let machine = Machine::controller(false);
    machine.write(
        "sys/devices/system/cpu/cpufreq/policy2/energy_performance_preference.refuses",
        "",
    );
    let before = machine.snapshot();
    let done = apply_with(
        &machine,
        &request("low-latency", &[], "2-3"),
        Refusals::default(),
    );
    let done = done.unwrap();
    let names: Vec<&str> = done.refused.iter().map(|one| &*one.setting).collect();
    assert_eq!(names, ["energy-preference@policy2", "governor@policy2"]);
    reverted(&machine).unwrap();
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn lacking_permission_is_reported_before_anything_changes() {
    for v2 in [false, true] {
        let machine = Machine::controller(v2);
        let before = machine.snapshot();
        for wish in [
            "governor=performance",
            "turbo=off",
            "smt=off",
            "cpuset-partition=2-3",
            "cache-partition=2-3:4",
            "idle-limit-us=1",
            "irq-affinity@25=0",
            "irqbalance-banned=1",
            "dirty-limit=67108864",
            "dma-latency-us=5",
            "thread-priority@ksoftirqd/2=fifo:3",
            "rx-coalescing-us=5",
            "tx-coalescing-us=5",
            "eee=off",
            "pci-runtime-power=on",
            "pci-link-power=off",
            "swappiness=5",
        ] {
            let all = plan(&machine, &request("", &[wish], "2-3")).unwrap();
            let files = Faulty::on(&machine, Fault::NotAllowed, 0);
            let (host, places) = (machine.host(), machine.places());
            let done = apply_on(files.boxed(), &all, host, &places, Options::default());
            let error = done.unwrap_err();
            let TuneError::Lacking { lacking, of } = &error else {
                panic!("{wish}: {error}");
            };
            let changes: Vec<_> = all.changes().collect();
            assert_eq!(
                (lacking.len(), *of),
                (changes.len(), changes.len()),
                "{wish}"
            );
            for (message, step) in lacking.iter().zip(changes) {
                assert!(message.starts_with(&step.label), "{wish}: {message}");
            }
            assert_eq!(machine.snapshot(), before, "{wish}");
            assert!(status(&machine).is_none(), "{wish}");
        }
    }
}

#[test]
fn unwritable_journal_does_not_prevent_restoring() {
    let done = |at: usize| {
        let machine = Machine::controller(false);
        let before = machine.snapshot();
        applied(&machine, &everything()).unwrap();
        let files = Faulty::on(&machine, Fault::ReadOnlyJournal, at);
        let result = revert_on(files.boxed(), machine.host(), &machine.places(), false);
        assert_eq!(machine.snapshot(), before, "{at}");
        (machine, result)
    };
    // The journal becomes read-only at the first record or at a later one.
    for at in [0, 60] {
        let (machine, result) = done(at);
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, TuneError::NotRecorded { ref restored, emptied: false, .. } if restored.len() > 20),
            "{text}"
        );
        assert!(text.contains("Read-only file system"), "{text}");
        assert!(text.contains("run `punctual tune revert` again"), "{text}");
        // Once the journal can be written again, there is nothing left to undo.
        let again = reverted(&machine).unwrap();
        assert!(
            again.iter().all(|one| one.how == How::WasThere),
            "{again:?}"
        );
        assert!(status(&machine).is_none());
    }
}

#[test]
fn journal_with_foreign_values_is_not_obeyed() {
    for (setting, old) in [
        ("irqbalance-banned=2", "0\nevil() { id; }"),
        ("irqbalance-banned=2", "$(id)"),
        ("irqbalance-banned=2", "\";id;\""),
        ("swappiness=5", "60; id"),
        ("swappiness=5", "-1"),
        ("thp=never", "sometimes"),
        ("default-irq-affinity=1", "f\nf"),
        ("irq-affinity@24=0", "all"),
        ("dirty-limit=5%", "1 2"),
        ("turbo=off", "on but ../../../x"),
        ("cpuset-partition=2-3", "none; ../x"),
        ("cache-partition=2-3:4", "none; ../x"),
        ("cache-partition=2-3:4", "unfinished; L3:0=fff"),
        ("pci-link-power=off", "l1_aspm;id"),
        ("pci-runtime-power=on", "sleep"),
        ("eee=off", "eee on; id"),
        ("tx-coalescing-us=0", "rx-usecs 3"),
        ("dma-latency-us=5", "0 --journal /etc/passwd"),
    ] {
        let machine = Machine::controller(false);
        applied(&machine, &request("", &[setting], "")).unwrap();
        let journal = machine.places().applied;
        let text = std::fs::read_to_string(&journal).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let (_, json) = lines[1].split_once(' ').unwrap();
        let mut record: serde_json::Value = serde_json::from_str(json).unwrap();
        record["old"] = old.into();
        let json = record.to_string();
        lines[1] = format!("{:08x} {json}", crc32fast::hash(json.as_bytes()));
        std::fs::write(&journal, lines.join("\n") + "\n").unwrap();
        let before = machine.snapshot();
        let error = reverted(&machine).unwrap_err().to_string();
        assert!(error.contains("is not valid for this setting"), "{error}");
        assert!(!error.contains('\n') && !error.contains('\r'), "{error}");
        assert_eq!(machine.snapshot(), before, "{setting} {old}");
    }
}
