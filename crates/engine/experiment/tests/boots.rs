//! Tests experiments that compare boots, on a simulated machine with GRUB as its boot loader. The
//! blocks are really measured on this machine, but each takes only a moment.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_experiment::{
    Bench, BootRequest, BootStep, OwnExperiments, TrialError, draft, run_boots, undo_boots,
};
use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, BootOutcome, CpuSet, Experiment, ExperimentPlan, ExperimentState, Nanos,
    Recording,
};
use punctual_session::{Snapshot, Watcher};
use punctual_store::Store;

const CONFIG: &str = "if [ \"${next_entry}\" ]; then\n  set default=\"${next_entry}\"\nfi\n\
    menuentry 'Debian' {\n\tlinux /boot/vmlinuz root=/dev/vda ro\n\tinitrd /boot/initrd\n}\n\
    source custom.cfg\n";

/// A simulated machine: its files and the number of times that it was booted.
struct Machine {
    folder: tempfile::TempDir,
    boots: u32,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self {
            folder: tempfile::tempdir().unwrap(),
            boots: 0,
        };
        machine.write("boot/grub/grub.cfg", CONFIG);
        machine.write("boot/grub/grubenv", &block(""));
        machine.write("etc/systemd/system/other.service", "[Service]\n");
        machine.boot();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn own(&self) -> OwnExperiments {
        OwnExperiments::next_to(&self.path("var/tune.journal"))
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Simulates the firmware, GRUB and the kernel.
    fn boot(&mut self) {
        self.boots += 1;
        let environment = fs::read_to_string(self.path("boot/grub/grubenv")).unwrap();
        let chosen = environment
            .lines()
            .find_map(|line| line.strip_prefix("next_entry="))
            .unwrap_or_default()
            .trim_end_matches('#');
        let custom = fs::read_to_string(self.path("boot/grub/custom.cfg")).unwrap_or_default();
        let words = match chosen {
            "" => "root=/dev/vda ro",
            id => {
                let (_, entry) = custom.split_once(&format!("--id {id} {{")).unwrap();
                let line = entry.lines().find(|line| line.contains("linux ")).unwrap();
                line.trim().strip_prefix("linux /boot/vmlinuz ").unwrap()
            }
        };
        let line = format!("BOOT_IMAGE=/boot/vmlinuz {words}");
        self.come_up(&line);
        self.write("boot/grub/grubenv", &block(""));
    }

    fn come_up(&self, line: &str) {
        self.write("proc/cmdline", line);
        let id = format!("00000000-0000-4000-8000-{:012}\n", self.boots);
        self.write("proc/sys/kernel/random/boot_id", &id);
    }

    /// Returns the files that an experiment may change.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for folder in ["boot", "etc"] {
            collect(&self.path(folder), &mut found);
        }
        found.insert(PathBuf::from("grubenv"), String::new());
        found.remove(&self.path("boot/grub/grubenv"));
        found
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), String::new());
            collect(&path, found);
        } else {
            found.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
}

struct Silent;

impl Watcher for Silent {
    fn begin(&mut self, _: &Recording) {}
    fn progress(&mut self, _: &Snapshot) {}
    fn end(&mut self) {}
}

fn block(line: &str) -> String {
    format!("{:#<1024}", format!("# GRUB Environment Block\n{line}"))
}

fn boots(parameters: &[&str]) -> Experiment {
    let arm = |words: &&str| Arm {
        name: (*words).to_owned(),
        action: ArmAction::Boot {
            parameters: (*words).to_owned(),
        },
    };
    let plan = ExperimentPlan {
        arms: parameters.iter().map(arm).collect(),
        probe: "timer".to_owned(),
        parameters: BTreeMap::from([("interval".to_owned(), "500us".to_owned())]),
        cpus: Some("0".parse::<CpuSet>().unwrap()),
        policy: None,
        priority: None,
        loads: Vec::new(),
        threshold_ns: Some(Nanos(1)),
        time_ns: Nanos::from_secs(60),
        rounds: Some(6),
        block_ns: Some(Nanos::from_millis(100)),
        wash_out_ns: Nanos::from_millis(10),
        deadline_ns: None,
        seed: 5,
        ends_early: false,
        ranks_only: false,
    };
    draft(plan, None, Vec::new())
}

fn step(
    machine: &Machine,
    store: &Store,
    experiment: &mut Experiment,
    write: bool,
) -> Result<BootStep, TrialError> {
    let host = Host::live();
    let stop = Arc::new(AtomicBool::new(false));
    let request = BootRequest {
        machine: Host::new(machine.folder.path()),
        write,
        program: vec!["/usr/bin/punctual".to_owned()],
        folder: PathBuf::from("/var/lib/punctual"),
        own: machine.own(),
    };
    let bench = Bench {
        host: &host,
        store: Some(store),
        journal: None,
        partner: None,
        isolate: &|load| load,
        view: &mut Silent,
        stop: &stop,
        shared: false,
        say: &mut |_| {},
    };
    if experiment.pilot.is_none() {
        request.own.enter(experiment).unwrap();
    }
    // Each boot finds the experiment in the store.
    if experiment.pilot.is_some() {
        *experiment = store.find_experiment(&experiment.id.short()).unwrap();
    }
    run_boots(experiment, bench, &request)
}

fn store(folder: &Path) -> Store {
    Store::open(&folder.join("store.db")).unwrap()
}

#[test]
fn each_boot_is_a_block_without_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["preempt=full", "preempt=lazy"]);
    let mut said = Vec::new();
    loop {
        match step(&machine, &store, &mut experiment, true).unwrap() {
            BootStep::Boot { what, chosen, .. } => {
                assert!(chosen);
                assert_eq!(experiment.state, ExperimentState::AwaitsBoot);
                assert_ne!(machine.files(), before);
                said.push(what);
            }
            other => {
                assert_eq!(other, BootStep::Ended);
                break;
            }
        }
        machine.boot();
    }
    assert_eq!(said.len(), 12);
    assert!(said[2].starts_with("boot 3 of 12 (preempt="), "{said:?}");
    assert_eq!(machine.files(), before);
    assert_eq!(machine.boots, 13);
    let found = store.find_experiment("last").unwrap();
    assert_eq!(found, experiment);
    assert_eq!(
        (found.state, found.blocks.len()),
        (ExperimentState::Finished, 12)
    );
    assert_eq!(found.results[0].pairs, 6);
    let attempts = &found.boots.unwrap().attempts;
    for (attempt, block) in attempts.iter().zip(&found.blocks) {
        assert_eq!(attempt.outcome, BootOutcome::Measured);
        assert_eq!((attempt.round, attempt.arm), (block.round, block.arm));
        let line = attempt.command_line.as_deref().unwrap();
        let words = ["preempt=full", "preempt=lazy"][block.arm as usize];
        assert!(
            line.ends_with(&format!("root=/dev/vda ro {words}")),
            "{line}"
        );
    }
    // There is one recording for each boot, plus the pilot.
    assert_eq!(store.list().unwrap().len(), 13);
}

#[test]
fn wrong_boot_is_recorded_but_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["", "preempt=lazy"]);
    step(&machine, &store, &mut experiment, true).unwrap();
    // If the machine has not been rebooted yet, the same boot is requested again.
    step(&machine, &store, &mut experiment, true).unwrap();
    assert_eq!(experiment.boots.as_ref().unwrap().attempts.len(), 1);
    machine.boots += 1;
    machine.come_up("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda ro preempt=none");
    machine.write("boot/grub/grubenv", &block(""));
    let asked = experiment.boots.as_ref().unwrap().attempts[0].arm;
    if asked == 0 {
        // A normal boot may have other, unrelated parameters, because only the compared parameters
        // count.
        machine.come_up("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda ro preempt=lazy");
    }
    let error = step(&machine, &store, &mut experiment, true).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("boot 1 of 12")
            && text.contains("preempt=lazy")
            && text.contains("not counted"),
        "{text}"
    );
    assert_eq!(machine.files(), before);
    let found = store.find_experiment("last").unwrap();
    assert_eq!(
        (found.state, found.blocks.len()),
        (ExperimentState::Failed, 0)
    );
    let attempt = &found.boots.unwrap().attempts[0];
    assert_eq!(attempt.outcome, BootOutcome::OtherParameters);
    assert!(attempt.command_line.is_some());

    // The boot is tried again, and this time the machine goes down during the measurement.
    step(&machine, &store, &mut experiment, true).unwrap();
    machine.boot();
    experiment = store.find_experiment("last").unwrap();
    let attempts = &mut experiment.boots.as_mut().unwrap().attempts;
    assert_eq!(attempts.len(), 2);
    attempts[1].outcome = BootOutcome::Measuring;
    attempts[1].boot = Some("another".to_owned());
    store.put_experiment(&experiment).unwrap();
    let error = step(&machine, &store, &mut experiment, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ended before its block was complete"),
        "{error}"
    );
    assert_eq!(machine.files(), before);
    assert_eq!(
        experiment.boots.unwrap().attempts[1].outcome,
        BootOutcome::Lost
    );
}

#[test]
fn boot_loader_keeping_choice_is_not_reused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["preempt=full", "preempt=lazy"]);
    step(&machine, &store, &mut experiment, true).unwrap();
    let kept = fs::read_to_string(machine.path("boot/grub/grubenv")).unwrap();
    machine.boot();
    machine.write("boot/grub/grubenv", &kept);
    let error = step(&machine, &store, &mut experiment, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("GRUB did not clear the selection"),
        "{error}"
    );
    let now = fs::read_to_string(machine.path("boot/grub/grubenv")).unwrap();
    assert!(
        now.contains("next_entry=\n") && machine.files() == before,
        "{now}"
    );
}

#[test]
fn without_permission_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["preempt=full", "preempt=lazy"]);
    let first = step(&machine, &store, &mut experiment, false).unwrap();
    let BootStep::Boot { chosen, steps, .. } = first else {
        panic!("{first:?}")
    };
    assert!(!chosen && steps.len() == 2, "{steps:?}");
    assert!(
        steps[0].contains("on the kernel's command line"),
        "{steps:?}"
    );
    assert!(steps[1].contains("experiment resume"), "{steps:?}");
    assert_eq!(machine.files(), before);
    // The user boots with these parameters by hand.
    let arm = experiment.boots.as_ref().unwrap().attempts[0].arm;
    machine.boots += 1;
    machine.come_up(["ro preempt=full", "ro preempt=lazy"][arm as usize]);
    step(&machine, &store, &mut experiment, false).unwrap();
    assert_eq!(experiment.blocks.len(), 1);
    assert_eq!(machine.files(), before);
}

#[test]
fn who_gives_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["preempt=full", "preempt=lazy"]);
    step(&machine, &store, &mut experiment, true).unwrap();
    let host = Host::new(machine.folder.path());
    undo_boots(&experiment, &machine.own(), &host).unwrap();
    assert_eq!(machine.files(), before);
    let environment = fs::read_to_string(machine.path("boot/grub/grubenv")).unwrap();
    assert!(environment.contains("next_entry=\n"), "{environment}");
}

/// A store from elsewhere may contain files and commands, but none of them are used.
#[test]
fn an_experiment_from_elsewhere_is_only_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let machine = Machine::new();
    let before = machine.files();
    let mut experiment = boots(&["preempt=full", "preempt=lazy"]);
    step(&machine, &store, &mut experiment, true).unwrap();
    let written = machine.files();
    let host = Host::new(machine.folder.path());
    // One experiment is from another machine or user, and the other has a different plan under a
    // known ID.
    let other = boots(&["preempt=full", "preempt=lazy"]);
    let mut changed = experiment.clone();
    changed.plan.arms[1].action = ArmAction::Command {
        command: "touch owned".to_owned(),
    };
    for foreign in [&other, &changed] {
        assert!(!machine.own().has(foreign));
        let refused = undo_boots(foreign, &machine.own(), &host).unwrap_err();
        assert!(matches!(refused, TrialError::Foreign { .. }), "{refused}");
        assert_eq!(machine.files(), written);
    }
    // An entry that other users may write is rejected as well.
    let entry = machine.path(&format!("var/experiments/{}.json", experiment.id));
    let mode = |mode| fs::set_permissions(&entry, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o666);
    undo_boots(&experiment, &machine.own(), &host).unwrap_err();
    assert_eq!(machine.files(), written);
    mode(0o600);
    undo_boots(&experiment, &machine.own(), &host).unwrap();
    assert_eq!(machine.files(), before);
}

#[test]
fn plans_that_can_show_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let machine = Machine::new();
    let refused = |experiment: &mut Experiment, why: &str| {
        let error = step(&machine, &store, experiment, true)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(&mut boots(&["a=1 b", "b  a=1"]), "is given twice");
    refused(
        &mut boots(&["a='1'", "b"]),
        "cannot be passed to a boot loader",
    );
    let mut few = boots(&["a", "b"]);
    few.plan.rounds = Some(5);
    refused(&mut few, "give --pairs 6 or more");
    assert!(store.experiments().unwrap().is_empty());
}
