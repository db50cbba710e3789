//! Tests plans that are made for the findings of an audit.

use punctual_model::Remedy;

use crate::plan_tests::{applied, cpus, plan, request, reverted, why_left_out};
use crate::testing::Machine;
use crate::{Profile, Request, Wish};

#[test]
fn feasible_audit_remedies_are_applied_and_reverted() {
    let machine = Machine::controller(false);
    machine.remove("proc/sys/vm/stat_interval");
    let before = machine.snapshot();
    let remedy = |setting: &str, instance: Option<&str>, value: &str| Remedy {
        setting: setting.to_owned(),
        instance: instance.map(str::to_owned),
        value: value.to_owned(),
        decide: None,
    };
    let wishes = [
        remedy("swappiness", None, "5"),
        remedy("watchdog", Some("nmi"), "off"),
        remedy("irq-affinity", None, "housekeeping"),
        remedy("stat-interval-s", None, "10"),
        remedy("governor", None, "no-such-governor"),
    ];
    let wishes = wishes.iter().map(|one| Wish::of_remedy(one).unwrap());
    let request = Request {
        profile: Some(Profile::of_wishes("doctor", wishes.collect())),
        sets: Vec::new(),
        cpus: Some(cpus("2-3")),
    };
    let all = plan(&machine, &request).unwrap();
    assert_eq!(all.label, "doctor");
    assert!(why_left_out(&all, "stat-interval-s").contains("does not exist"));
    let governors: Vec<_> = (all.left_out.iter())
        .filter(|one| one.setting.starts_with("governor"))
        .collect();
    assert!(!governors.is_empty(), "{:?}", all.left_out);
    let done = applied(&machine, &request).unwrap();
    for setting in ["swappiness", "watchdog", "irq-affinity"] {
        let changed = done.changes.iter().any(|change| change.setting == setting);
        assert!(changed, "{setting}: {done:?}");
    }
    assert_ne!(machine.snapshot(), before);
    reverted(&machine).unwrap();
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn absent_lenient_setting_is_omitted() {
    let machine = Machine::controller(false);
    machine.remove("proc/sys/vm/swappiness");
    let mut request = request("", &["swappiness=5", "thp=never"], "");
    assert!(plan(&machine, &request).is_err());
    request.sets = request.sets.into_iter().map(Wish::lenient).collect();
    let all = plan(&machine, &request).unwrap();
    assert!(why_left_out(&all, "swappiness").contains("does not exist"));
    assert_eq!(all.steps.len(), 1);
}
