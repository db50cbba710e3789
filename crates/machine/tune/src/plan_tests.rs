//! Tests plans on the trees of other machines. The plans are made, applied, interrupted and
//! reverted.

use proptest::prelude::*;
use punctual_model::CpuSet;

use crate::apply::{apply_on, revert_on};
use crate::recover::recover_on;
use crate::testing::{Fault, Faulty, Machine};
use crate::{
    Hold, How, Options, Phase, Plan, Profile, Refusals, Request, Status, TuneError, Wish, recover,
};

pub(crate) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Creates a request from the name of a profile, settings, and a list of CPUs.
pub(crate) fn request(profile: &str, sets: &[&str], on: &str) -> Request {
    Request {
        profile: (!profile.is_empty()).then(|| Profile::find(profile).unwrap()),
        sets: sets.iter().map(|text| Wish::parse(text).unwrap()).collect(),
        cpus: (!on.is_empty()).then(|| cpus(on)),
    }
}

pub(crate) fn plan(machine: &Machine, request: &Request) -> Result<Plan, TuneError> {
    let files = Faulty::on(machine, Fault::EndsBefore, NEVER);
    let plan = Plan::make_on(&files, request, machine.host(), &machine.places().applied);
    assert!(
        !files.steps().iter().any(|step| *step != "read"),
        "a plan reads"
    );
    plan
}

pub(crate) const NEVER: usize = usize::MAX;
const KILLS: [Fault; 3] = [Fault::EndsBefore, Fault::EndsWithin, Fault::EndsAfter];

/// Returns the line of a plan that describes a setting: `now -> then`.
pub(crate) fn line(plan: &Plan, setting: &str) -> String {
    let step = plan.steps.iter().find(|step| step.label == setting);
    step.map_or_else(
        || format!("no {setting}"),
        |step| format!("{} -> {}", step.current, step.target),
    )
}

pub(crate) fn why_left_out(plan: &Plan, setting: &str) -> String {
    let found = plan.left_out.iter().find(|one| one.setting == setting);
    found.map_or_else(String::new, |one| one.reason.clone())
}

/// Creates a plan that uses every kind of setting on this machine.
pub(crate) fn everything() -> Request {
    request(
        "low-latency",
        &[
            "thread-priority@ksoftirqd/*=fifo:2",
            "cpuset-partition=measured",
            "freq-max=2000000",
            "freq-min=min",
            "idle-limit-us=1",
            "turbo=off",
            "dirty-limit=67108864",
            "irq-affinity@eth0*=1",
            "rps-cpus=housekeeping",
            "eee=off",
            "rx-coalescing-us=0",
            "tx-coalescing-us=0",
            "pci-link-power=off",
            "cache-partition=measured:4",
            "smt=off",
        ],
        "2-3",
    )
}

pub(crate) fn applied(machine: &Machine, request: &Request) -> Result<crate::Applied, TuneError> {
    let plan = plan(machine, request)?;
    let files = Faulty::on(machine, Fault::EndsBefore, NEVER);
    apply_on(
        Box::new(files),
        &plan,
        machine.host(),
        &machine.places(),
        Options::default(),
    )
}

pub(crate) fn reverted(machine: &Machine) -> Result<Vec<crate::Restored>, TuneError> {
    let files = Faulty::on(machine, Fault::EndsBefore, NEVER);
    revert_on(Box::new(files), machine.host(), &machine.places(), false)
}

pub(crate) fn status(machine: &Machine) -> Option<Status> {
    let files = Faulty::on(machine, Fault::EndsBefore, NEVER);
    Status::read_on(Box::new(files), &machine.places().applied, machine.host()).unwrap()
}

#[test]
fn applied_settings_persist_and_revert_exactly() {
    for v2 in [false, true] {
        let machine = Machine::controller(v2);
        let before = machine.snapshot();
        let done = applied(&machine, &everything()).unwrap();
        assert!(done.changes.len() > 25, "{done:?}");
        assert_ne!(machine.snapshot(), before);
        // From here on, the calls represent later commands in other processes.
        machine.process_dies();
        assert_eq!(
            recover(&machine.places().applied, machine.host()).unwrap(),
            []
        );
        machine.process_starts();
        let now = status(&machine).unwrap();
        assert_eq!(now.phase, Phase::Applied);
        let wrong: Vec<_> = now
            .settings
            .iter()
            .filter(|one| one.state != Hold::InForce)
            .collect();
        assert!(now.holds(), "{wrong:#?}");
        let again = applied(&machine, &request("", &["swappiness=5"], "")).unwrap_err();
        assert!(matches!(again, TuneError::InForce { .. }), "{again}");

        let restored = reverted(&machine).unwrap();
        assert_eq!(restored.len(), done.changes.len());
        let ours = |how: &How| matches!(how, How::Written { ours: true, .. });
        assert!(restored.iter().all(|one| ours(&one.how)), "{restored:#?}");
        assert_eq!(machine.snapshot(), before);
        assert!(status(&machine).is_none());
        assert_eq!(reverted(&machine).unwrap(), []);
    }
}

/// Checks that, after an apply that was killed at step `at`, the next command and a revert restore
/// the original state.
pub(crate) fn kill_apply(machine: &Machine, request: &Request, fault: Fault, at: usize) {
    let before = machine.snapshot();
    let plan = match plan(machine, request) {
        // The request has a minimum frequency above the maximum.
        Err(TuneError::Invalid { setting, .. }) if setting.starts_with("freq-min") => return,
        other => other.unwrap(),
    };
    let files = Faulty::on(machine, fault, at);
    let options = Options::default();
    let result = apply_on(
        Box::new(files),
        &plan,
        machine.host(),
        &machine.places(),
        options,
    );
    machine.process_dies();
    let healthy = || Box::new(Faulty::on(machine, Fault::EndsBefore, NEVER));
    recover_on(healthy(), &machine.places().applied, machine.host()).unwrap();
    machine.process_starts();
    if result.is_err() && status(machine).is_none() {
        assert_eq!(machine.snapshot(), before, "{fault:?} at {at}");
    }
    revert_on(healthy(), machine.host(), &machine.places(), false).unwrap();
    assert_eq!(machine.snapshot(), before, "{fault:?} at {at}");
}

#[test]
fn killed_apply_is_reverted() {
    const FAULTS: [Fault; 4] = [KILLS[0], KILLS[1], KILLS[2], Fault::Fails];
    let machines = [Machine::controller(false), Machine::controller(true)];
    let all = plan(&machines[0], &everything()).unwrap();
    let files = Faulty::on(&machines[0], Fault::EndsBefore, NEVER);
    let whole = Box::new(files.clone());
    let (host, places) = (machines[0].host(), machines[0].places());
    apply_on(whole, &all, host, &places, Options::default()).unwrap();
    reverted(&machines[0]).unwrap();
    let steps = files.steps().len();
    assert!(steps > 200, "{steps}");
    // Each step fails on one of the machines, and the kinds of fault alternate. A change consists
    // of at least six steps, so each kind of fault affects each kind of step.
    for at in 0..steps {
        let machine = &machines[at / 4 % 2];
        kill_apply(machine, &everything(), FAULTS[at % 4], at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_plan_killed_anywhere_is_put_back(
        chosen in prop::collection::vec((0_usize..28, 0_usize..2), 1..9),
        on in prop::sample::select(vec!["", "2-3", "0", "1-3"]),
        fault in prop::sample::select(vec![KILLS[0], KILLS[1], KILLS[2], Fault::Fails]),
        at in 0_usize..150,
        v2 in any::<bool>(),
    ) {
        const SETS: [[&str; 2]; 28] = [
            ["swappiness=0", "swappiness=200"],
            ["thp=never", "thp=always"],
            ["governor=performance", "governor@policy1=performance"],
            ["freq-max=min", "freq-max=1200000"],
            ["freq-min=min", "freq-min=max"],
            ["idle-limit-us=0", "idle-limit-us@cpu1/*=40"],
            ["dma-latency-us=0", "dma-latency-us=50"],
            ["turbo=off", "turbo=on"],
            ["irq-affinity=0", "irq-affinity@25=1,3"],
            ["irqbalance-banned=1", "irqbalance-banned=none"],
            ["thread-priority@*=fifo:9", "thread-priority@ksoftirqd/1=other:-3"],
            ["workqueue-cpus=0", "workqueue-cpus=0-1"],
            ["cpuset-partition=3", "cpuset-partition=1-2"],
            ["dirty-limit=1%", "dirty-limit=99999"],
            ["dirty-background-limit=5%", "dirty-background-limit=1"],
            ["watchdog=off", "watchdog@soft=off"],
            ["watchdog-cpus=0", "watchdog-cpus=1-3"],
            ["rt-runtime-us=-1", "rt-runtime-us=0"],
            ["rcu-normal=on", "rcu-expedited=off"],
            ["smt=off", "smt=on"],
            ["clocksource=hpet", "clocksource=acpi_pm"],
            ["rps-cpus=0-3", "default-irq-affinity=1"],
            ["energy-preference=performance", "energy-bias=0"],
            ["timer-migration=off", "rx-coalescing-us@eth0=7"],
            ["eee=off", "eee=on"],
            ["tx-coalescing-us=0", "tx-coalescing-us@eth0=9"],
            ["pci-runtime-power=on", "pci-link-power=l0s_aspm,l1_aspm"],
            ["cache-partition=2-3:4", "pci-link-power=off"],
        ];
        let sets: Vec<&str> = chosen.iter().map(|(which, value)| SETS[*which][*value]).collect();
        let machine = Machine::controller(v2);
        kill_apply(&machine, &request("", &sets, on), fault, at);
    }
}

#[test]
fn killed_revert_is_finished() {
    let machine = Machine::controller(true);
    let before = machine.snapshot();
    applied(&machine, &everything()).unwrap();
    let files = Faulty::on(&machine, Fault::EndsBefore, NEVER);
    let whole = Box::new(files.clone());
    revert_on(whole, machine.host(), &machine.places(), false).unwrap();
    let steps = files.steps().len();
    let mut unfinished = 0;
    for at in 0..steps {
        applied(&machine, &everything()).unwrap();
        let killed = Box::new(Faulty::on(&machine, KILLS[at % 3], at));
        let _ = revert_on(killed, machine.host(), &machine.places(), false);
        machine.process_dies();
        let healthy = Box::new(Faulty::on(&machine, Fault::EndsBefore, NEVER));
        // If the revert had begun, the next command finishes it. Otherwise, a second revert is
        // needed.
        let more = recover_on(healthy, &machine.places().applied, machine.host()).unwrap();
        unfinished += usize::from(!more.is_empty());
        machine.process_starts();
        reverted(&machine).unwrap();
        assert_eq!(machine.snapshot(), before, "at {at}");
    }
    assert!(unfinished > steps / 2);
}

#[test]
fn ignored_write_is_detected_and_undone() {
    let machine = Machine::controller(false);
    let before = machine.snapshot();
    let all = plan(&machine, &request("", &["swappiness=5", "thp=never"], "")).unwrap();
    let files = Box::new(Faulty::on(&machine, Fault::Ignored, NEVER));
    let options = Options::default();
    let error = apply_on(files, &all, machine.host(), &machine.places(), options).unwrap_err();
    assert!(error.to_string().starts_with("not verified"), "{error}");
    assert_eq!(machine.snapshot(), before);
    assert!(status(&machine).is_none());
}

#[test]
fn ignored_write_of_any_kind_is_detected() {
    for v2 in [false, true] {
        let machine = Machine::controller(v2);
        let before = machine.snapshot();
        for wish in [
            "governor=performance",
            "freq-max=1200000",
            "freq-min=min",
            "turbo=off",
            "smt=off",
            "cpuset-partition=2-3",
            "idle-limit-us=1",
            "irq-affinity@25=0",
            "dirty-limit=67108864",
            "watchdog=off",
            "default-irq-affinity=1",
            "rx-coalescing-us=5",
            "tx-coalescing-us=5",
            "eee=off",
            "pci-runtime-power=on",
            "pci-link-power=off",
            "cache-partition=2-3:4",
        ] {
            let all = plan(&machine, &request("", &[wish], "")).unwrap();
            // If the request needs several changes, the first one is enough for the test.
            let files = Box::new(Faulty::on(&machine, Fault::Ignored, NEVER));
            let options = Options::default();
            let error = apply_on(files, &all, machine.host(), &machine.places(), options);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("not verified"), "{wish}: {error}");
            assert_eq!(machine.snapshot(), before, "{wish}");
            assert!(status(&machine).is_none(), "{wish}");
        }
    }
}

#[test]
fn value_vanishing_after_plan_leaves_nothing_partial() {
    let machine = Machine::controller(false);
    let all = plan(&machine, &everything()).unwrap();
    machine.remove("proc/sys/vm/stat_interval");
    let before = machine.snapshot();
    let apply = |refusals| {
        let files = Box::new(Faulty::on(&machine, Fault::EndsBefore, NEVER));
        let options = Options { refusals };
        apply_on(files, &all, machine.host(), &machine.places(), options)
    };
    let error = apply(Refusals::UndoAll).unwrap_err();
    assert!(matches!(error, TuneError::Lacking { .. }), "{error}");
    assert!(error.to_string().contains("stat_interval"), "{error}");
    assert_eq!(machine.snapshot(), before);
    let done = apply(Refusals::default()).unwrap();
    assert_eq!(done.refused[0].setting, "stat-interval-s");
    reverted(&machine).unwrap();
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn value_vanishing_before_write_affects_nothing() {
    let sets = [
        "governor=performance",
        "swappiness=5",
        "thp=never",
        "watchdog=off",
    ];
    let whole = Machine::controller(false);
    let all = plan(&whole, &request("", &sets, "2-3")).unwrap();
    let files = Faulty::on(&whole, Fault::EndsBefore, NEVER);
    let (host, places) = (whole.host(), whole.places());
    let boxed = Box::new(files.clone());
    apply_on(boxed, &all, host, &places, Options::default()).unwrap();
    let steps = files.steps();
    let writes: Vec<usize> = (0..steps.len()).filter(|at| steps[*at] == "set").collect();
    // For each of the two policies, the change of the governor also contains the change of the
    // preference.
    assert_eq!(writes.len(), 8, "{steps:?}");
    for at in writes {
        let machine = Machine::controller(false);
        let before = machine.snapshot();
        let files = Box::new(Faulty::on(&machine, Fault::Vanishes, at));
        let options = Options::default();
        let error = apply_on(files, &all, machine.host(), &machine.places(), options).unwrap_err();
        assert!(matches!(error, TuneError::RolledBack { .. }), "{error}");
        assert!(error.to_string().contains("has been removed"), "{error}");
        let after = machine.snapshot();
        let missing: Vec<_> = before.iter().filter(|file| !after.contains(file)).collect();
        assert_eq!((missing.len(), after.len() + 1), (1, before.len()));
        assert!(status(&machine).is_none(), "nothing waits to be undone");
    }
}

#[test]
fn read_only_system_plans_and_explains_apply() {
    let machine = Machine::controller(false);
    machine.write("sys/is-read-only", "");
    let before = machine.snapshot();
    let all = plan(&machine, &everything()).unwrap();
    let files = || Box::new(Faulty::on(&machine, Fault::EndsBefore, NEVER));
    let options = Options::default();
    let error = apply_on(files(), &all, machine.host(), &machine.places(), options).unwrap_err();
    assert!(matches!(error, TuneError::Lacking { .. }), "{error}");
    assert!(error.to_string().contains("mounted read-only"), "{error}");
    assert_eq!(machine.snapshot(), before);

    // Settings outside of the read-only file system can still be changed if all others are left
    // out.
    let options = Options {
        refusals: Refusals::LeaveOutAll,
    };
    let done = apply_on(files(), &all, machine.host(), &machine.places(), options);
    let done = done.unwrap();
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "1");
    assert!(
        done.changes
            .iter()
            .any(|change| change.setting == "swappiness")
    );
    reverted(&machine).unwrap();
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn managed_interrupts_are_refused_with_reason() {
    let machine = Machine::controller(false);
    // Some kernels show through the file's mode that they manage the interrupt.
    let one = plan(&machine, &request("", &["irq-affinity=0"], "")).unwrap();
    assert_eq!(line(&one, "irq-affinity@24"), "0-3 -> 0");
    assert!(why_left_out(&one, "irq-affinity@30").contains("managed_irq"));
    let error = plan(&machine, &request("", &["irq-affinity@30=0"], "")).unwrap_err();
    assert!(matches!(error, TuneError::Refused { .. }), "{error}");
    // Other kernels show this only through an error when the file is written.
    machine.write("proc/irq/25/smp_affinity_list.refuses", "");
    let done = applied(&machine, &request("", &["irq-affinity=0"], "")).unwrap();
    assert_eq!(done.refused[0].setting, "irq-affinity@25");
    assert!(
        done.refused[0].reason.contains("manages this interrupt"),
        "{done:?}"
    );
    // The effective affinity is reported in addition to the written one.
    assert!(
        done.remarks
            .iter()
            .any(|text| text.contains("interrupt 24 is still on CPU 3"))
    );
    reverted(&machine).unwrap();
    assert_eq!(machine.get("proc/irq/24/smp_affinity_list"), "0-3");
}

#[test]
fn reboot_undoes_all_except_disk_changes() {
    let machine = Machine::controller(false);
    let ban = machine.get("etc/default/irqbalance");
    applied(
        &machine,
        &request("", &["irqbalance-banned=2-3", "swappiness=5"], ""),
    )
    .unwrap();
    assert_ne!(machine.get("etc/default/irqbalance"), ban);
    machine.reboots();
    machine.write("proc/sys/vm/swappiness", "60\n");
    machine.process_starts();
    assert_eq!(
        recover(&machine.places().applied, machine.host()).unwrap(),
        []
    );
    assert_eq!(status(&machine).unwrap().phase, Phase::BeforeBoot);
    let again = applied(&machine, &request("", &["swappiness=7"], "")).unwrap_err();
    assert!(matches!(again, TuneError::InForce { .. }), "{again}");
    let restored = reverted(&machine).unwrap();
    assert_eq!(restored[0].how, How::Reboot);
    assert!(matches!(restored[1].how, How::Written { ours: true, .. }));
    assert_eq!(machine.get("etc/default/irqbalance"), ban);
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "60");
}

#[test]
fn ended_thread_is_distinguished_from_its_successor() {
    let machine = Machine::controller(false);
    let wish = ["thread-priority@ksoftirqd/2=fifo:3"];
    applied(&machine, &request("", &wish, "")).unwrap();
    let stat = machine.get("proc/22/stat");
    assert!(stat.contains(" 3 1 "), "{stat}");
    machine.write("proc/22/stat", &stat.replace(" 122 ", " 999 "));
    assert_eq!(status(&machine).unwrap().settings[0].state, Hold::Gone);
    assert_eq!(reverted(&machine).unwrap()[0].how, How::Gone);
    assert!(
        machine.get("proc/22/stat").contains(" 3 1 "),
        "it is another's"
    );
}

#[test]
fn unrestorable_change_stays_until_given_up() {
    let machine = Machine::controller(false);
    applied(
        &machine,
        &request("", &["rps-cpus@eth0/*=1", "swappiness=5"], ""),
    )
    .unwrap();
    machine.remove("sys/class/net/eth0");
    let error = reverted(&machine).unwrap_err().to_string();
    assert!(error.contains("rps-cpus@eth0/rx-0 to '0'"), "{error}");
    assert_eq!(machine.get("proc/sys/vm/swappiness"), "60", "the other is");
    assert_eq!(status(&machine).unwrap().phase, Phase::Unfinished);
    let files = Box::new(Faulty::on(&machine, Fault::EndsBefore, NEVER));
    let given_up = revert_on(files, machine.host(), &machine.places(), true).unwrap();
    assert_eq!(given_up[0].how, How::Forgotten);
    assert!(status(&machine).is_none());
}

#[test]
fn measurement_and_tune_exclude_each_other() {
    let machine = Machine::controller(false);
    let runs = machine.places().runs;
    let journal = crate::Journal::open(&runs, machine.host()).unwrap();
    let error = applied(&machine, &request("", &["swappiness=5"], "")).unwrap_err();
    assert!(matches!(error, TuneError::Locked { .. }), "{error}");
    drop(journal);
    applied(&machine, &request("", &["swappiness=5"], "")).unwrap();
    // A measurement may change the settings that it needs while other changes are applied.
    let mut journal = crate::Journal::open(&runs, machine.host()).unwrap();
    journal
        .apply(crate::setting("clocksource").unwrap(), "hpet")
        .unwrap();
    journal.revert_all().unwrap();
    drop(journal);
    reverted(&machine).unwrap();
}
