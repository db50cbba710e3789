//! Tests of the steps that a plan has for its wishes, and of its remarks.

use crate::plan_tests::{applied, cpus, line, plan, request, reverted, why_left_out};
use crate::testing::Machine;
use crate::{Plan, Profile, Request, Wish};

const CPU: &str = "sys/devices/system/cpu";

fn from_profile(text: &str, on: &str) -> Request {
    Request {
        profile: Some(Profile::parse("mine.toml", text).unwrap()),
        sets: Vec::new(),
        cpus: (!on.is_empty()).then(|| cpus(on)),
    }
}

fn settings(text: &str) -> Request {
    from_profile(&format!("[settings]\n{text}\n"), "")
}

fn failed(machine: &Machine, request: &Request) -> String {
    plan(machine, request).unwrap_err().to_string()
}

fn labels(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.label.as_str()).collect()
}

#[test]
fn explicit_wish_that_is_impossible_stops_the_plan() {
    let machine = Machine::controller(true);
    machine.remove("proc/sys/vm/swappiness");
    for (wish, why) in [
        ("swappiness=5", "this machine has no swappiness: "),
        (
            "governor@policy9=powersave",
            "there are policy0, policy1, policy2, policy3",
        ),
        ("irq-affinity=measured", "pass --cpus"),
        ("thp=sometimes", "choose one of"),
        ("stat-interval-s=0", "is not valid"),
    ] {
        let error = failed(&machine, &request("", &[wish], ""));
        assert!(error.contains(why), "{wish}: {error}");
    }
}

#[test]
fn profile_leaves_out_what_the_machine_lacks() {
    let machine = Machine::controller(true);
    machine.remove("proc/sys/vm/swappiness");
    machine.remove(&format!(
        "{CPU}/cpufreq/policy2/scaling_available_governors"
    ));
    let all = plan(
        &machine,
        &settings(
            "swappiness = 5\n\"governor@policy9\" = \"powersave\"\ngovernor = \"performance\"\n\
             irq-affinity = \"measured\"\ndefault-irq-affinity = \"housekeeping\"\nthp = \"never\"",
        ),
    )
    .unwrap();
    for (name, why) in [
        ("swappiness", "/proc/sys/vm/swappiness does not exist"),
        (
            "governor@policy9",
            "there are policy0, policy1, policy2, policy3",
        ),
        ("governor@policy2", "it cannot be read: No such file"),
        (
            "irq-affinity",
            "'measured' needs --cpus with the CPUs to measure",
        ),
        ("default-irq-affinity", "'housekeeping' needs --cpus"),
    ] {
        let reason = why_left_out(&all, name);
        assert!(reason.starts_with(why), "{name}: {reason}");
    }
    // A setting is left out once, although it has several instances.
    let of_irqs = all
        .left_out
        .iter()
        .filter(|one| one.setting == "irq-affinity");
    assert_eq!(of_irqs.count(), 1);
    let labels = labels(&all);
    assert!(labels.contains(&"governor@policy1") && labels.contains(&"thp"));
    assert!(!labels.contains(&"governor@policy2"));
    // Another kernel may offer the word.
    let all = plan(&machine, &settings("thp = \"sometimes\"")).unwrap();
    assert!(why_left_out(&all, "thp").contains("choose one of always, madvise, never"));
    // A value that no kernel accepts is the user's mistake, so it is not left out.
    for (text, place) in [
        ("thp = \"a\\nb\"", "mine.toml:2:7: thp: the value"),
        (
            "ksm = 0\nswappiness = 5\nstat-interval-s = 0",
            "mine.toml:4:19: stat-interval-s",
        ),
    ] {
        let error = failed(&machine, &settings(text));
        assert!(error.starts_with(place), "{error}");
    }
}

#[test]
fn wish_of_an_audit_never_stops_the_plan() {
    let machine = Machine::controller(true);
    machine.remove("proc/sys/vm/swappiness");
    let texts = [
        "swappiness=5",
        "stat-interval-s=0",
        "governor@policy9=x",
        "cpuset-partition=all",
        "ksm=0",
    ];
    let wishes = texts.map(|text| Wish::parse(text).unwrap().lenient());
    let request = Request {
        profile: Some(Profile::of_wishes("doctor", wishes.to_vec())),
        ..Request::default()
    };
    let all = plan(&machine, &request).unwrap();
    assert_eq!(labels(&all), ["ksm"]);
    let left: Vec<&str> = all
        .left_out
        .iter()
        .map(|one| one.setting.as_str())
        .collect();
    assert_eq!(
        left,
        [
            "swappiness",
            "stat-interval-s",
            "cpuset-partition",
            "governor@policy9"
        ]
    );
}

#[test]
fn one_instance_that_refuses_does_not_stop_the_others() {
    let machine = Machine::controller(true);
    let policy = |number: u32| format!("{CPU}/cpufreq/policy{number}/scaling_available_governors");
    machine.write(&policy(1), "powersave\n");
    let wish = request("", &["governor=performance"], "");
    let all = plan(&machine, &wish).unwrap();
    let reason = why_left_out(&all, "governor@policy1");
    assert!(reason.contains("choose one of powersave"), "{reason}");
    assert_eq!(line(&all, "governor@policy0"), "powersave -> performance");
    // If it is the only one that was named, or all refuse, that is an error.
    let one = request("", &["governor@policy1=performance"], "");
    assert!(failed(&machine, &one).contains("choose one of powersave"));
    for number in 0..4 {
        machine.write(&policy(number), "powersave\n");
    }
    assert!(failed(&machine, &wish).starts_with("governor@policy0: "));
    let all = plan(&machine, &settings("governor = \"performance\"")).unwrap();
    assert_eq!((all.steps.len(), all.left_out.len()), (0, 4));
}

#[test]
fn names_select_instances_and_a_wrong_name_is_answered_with_the_right_ones() {
    let machine = Machine::controller(true);
    for (wish, expected) in [
        ("irq-affinity@25=0", &["irq-affinity@25"][..]),
        ("irq-affinity@ahci=0", &["irq-affinity@25"]),
        ("irq-affinity@eth0*=0", &["irq-affinity@24"]),
        ("irq-affinity@2*=0", &["irq-affinity@24", "irq-affinity@25"]),
        (
            "thread-priority@22=rr:1",
            &["thread-priority@ksoftirqd/2 (22)"],
        ),
        ("idle-limit-us@cpu1/*=50", &["idle-limit-us@cpu1/state3"]),
        ("watchdog@soft=off", &["watchdog@soft"]),
    ] {
        let all = plan(&machine, &request("", &[wish], "")).unwrap();
        assert_eq!(labels(&all), expected, "{wish}");
    }
    let error = failed(&machine, &request("", &["thread-priority@x=rr:1"], ""));
    assert!(
        error.contains("there are ksoftirqd/0 (20), ksoftirqd/1 (21), "),
        "{error}"
    );
    // Of many names, the first ones are shown.
    let names = |count: u32| {
        let machine = Machine::controller(true);
        for number in 100..100 + count {
            machine.write(&format!("proc/irq/{number}/smp_affinity_list"), "0-3\n");
        }
        failed(&machine, &request("", &["irq-affinity@x=0"], ""))
    };
    let nine = "there are 24, 25, 30, 100, 101, 102, 103, 104, 105, 106, 107, 108";
    assert!(names(9).ends_with(nine), "{}", names(9));
    assert!(names(10).ends_with(&format!("{nine}, …")), "{}", names(10));
    // A setting whose instances differ must be named.
    let error = failed(&machine, &request("", &["thread-priority=rr:1"], ""));
    assert!(
        error.contains("name an instance: thread-priority@"),
        "{error}"
    );
}

#[test]
fn cpus_of_the_plan_select_what_belongs_to_them() {
    let machine = Machine::controller(true);
    machine.write(&format!("{CPU}/cpufreq/policy1/related_cpus"), "1 2\n");
    let all = plan(&machine, &request("", &["governor=performance"], "2")).unwrap();
    let governors: Vec<&str> = labels(&all)
        .into_iter()
        .filter(|label| label.starts_with("gov"))
        .collect();
    assert_eq!(governors, ["governor@policy1", "governor@policy2"]);
    let also = "policy1 also applies to CPU 1";
    assert_eq!(all.remarks.iter().filter(|text| *text == also).count(), 1);
    assert!(
        !all.remarks
            .iter()
            .any(|text| text.starts_with("policy2 also"))
    );
    // A name selects an instance regardless of the CPUs.
    let all = plan(
        &machine,
        &request("", &["governor@policy0=performance"], "2"),
    )
    .unwrap();
    assert_eq!(line(&all, "governor@policy0"), "powersave -> performance");
    assert!(
        all.remarks
            .contains(&"policy0 also applies to CPU 0".to_owned())
    );
    // A setting of the whole machine does not depend on the CPUs.
    let all = plan(&machine, &request("", &["swappiness=5"], "2")).unwrap();
    assert_eq!(labels(&all), ["swappiness"]);
    assert_eq!(all.remarks, [""; 0]);
}

#[test]
fn cpus_that_do_not_exist_are_refused() {
    let machine = Machine::controller(true);
    let on = |list: &str| {
        let mut request = request("", &["swappiness=5"], "");
        request.cpus = Some(cpus(list));
        plan(&machine, &request).map_err(|error| error.to_string())
    };
    assert!(on("0-3").is_ok());
    let error = on("3-5").unwrap_err();
    assert_eq!(error, "CPU 4-5 of --cpus is not online (online CPUs: 0-3)");
    assert_eq!(on("").unwrap_err(), "--cpus names no CPU");
    machine.remove(&format!("{CPU}/online"));
    assert!(
        on("1")
            .unwrap_err()
            .starts_with("the online CPUs are unknown: ")
    );
}

/// CPUs that go offline need no settings, and do no housekeeping.
#[test]
fn second_threads_that_go_offline_are_left_alone() {
    let machine = Machine::controller(true);
    for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
        let file = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
        machine.write(&file, &format!("{siblings}\n"));
    }
    for off in ["smt=off", "smt=false", "smt=no", "smt=0"] {
        let sets = [
            off,
            "governor=performance",
            "default-irq-affinity=housekeeping",
        ];
        let all = plan(&machine, &request("", &sets, "1")).unwrap();
        assert_eq!(
            line(&all, "governor@policy1"),
            "powersave -> performance",
            "{off}"
        );
        assert_eq!(
            line(&all, "governor@policy3"),
            "no governor@policy3",
            "{off}"
        );
        assert_eq!(line(&all, "default-irq-affinity"), "f -> 1", "{off}");
    }
    let sets = ["smt=off", "governor=performance"];
    let all = plan(&machine, &request("", &sets, "")).unwrap();
    assert_eq!(line(&all, "governor@policy2"), "no governor@policy2");
    assert_eq!(line(&all, "governor@policy0"), "powersave -> performance");
    let sets = [
        "smt=on",
        "governor=performance",
        "default-irq-affinity=housekeeping",
    ];
    let all = plan(&machine, &request("", &sets, "1")).unwrap();
    assert_eq!(line(&all, "default-irq-affinity"), "f -> d");
}

#[test]
fn reserved_cpus_stand_for_measured_ones_visibly() {
    let machine = Machine::controller(true);
    machine.write(&format!("{CPU}/isolated"), "3\n");
    let remark = |request: &Request| {
        let all = plan(&machine, request).unwrap();
        let found = all
            .remarks
            .iter()
            .find(|text| text.starts_with("the measured CPUs are"));
        (found.cloned().unwrap_or_default(), all)
    };
    let (text, all) = remark(&request("", &["irq-affinity@24=housekeeping"], ""));
    assert!(
        text.starts_with("the measured CPUs are CPU 3, because "),
        "{text}"
    );
    assert!(text.ends_with("; --cpus selects others"), "{text}");
    assert_eq!(line(&all, "irq-affinity@24"), "0-3 -> 0-2");
    let boot = from_profile("[boot]\nrcu_nocbs = \"{measured}\"\n", "");
    let (text, all) = remark(&boot);
    assert!(!text.is_empty());
    assert_eq!(all.boot[0].argument, "rcu_nocbs=3");
    // Without these words, or with --cpus, no remark is needed.
    assert_eq!(remark(&request("", &["irq-affinity@24=0"], "")).0, "");
    assert_eq!(
        remark(&request("", &["irq-affinity@24=measured"], "2")).0,
        ""
    );
}

#[test]
fn other_programs_that_change_settings_are_named() {
    let machine = Machine::controller(true);
    let remarks = |sets: &[&str]| {
        let all = plan(&machine, &request("", sets, "")).unwrap();
        all.remarks.join("\n")
    };
    assert_eq!(remarks(&["irq-affinity=0"]), "");
    machine.write("proc/400/comm", "irqbalance\n");
    machine.write("proc/401/comm", "tuned\n");
    let both = remarks(&["irq-affinity=0"]);
    assert!(
        both.contains("irqbalance is running (process 400) and moves"),
        "{both}"
    );
    assert!(
        both.contains("tuned is running (process 401) and may change"),
        "{both}"
    );
    // irqbalance matters only if an interrupt moves.
    for sets in [&["swappiness=5"][..], &["irq-affinity@24=0-3"]] {
        let one = remarks(sets);
        assert!(
            !one.contains("irqbalance") && one.contains("tuned"),
            "{one}"
        );
    }
}

#[test]
fn label_names_the_profile_and_the_settings() {
    let machine = Machine::controller(true);
    let label = |request: &Request| plan(&machine, request).unwrap().label;
    assert_eq!(label(&request("audio", &[], "")), "audio");
    assert_eq!(
        label(&request(
            "audio",
            &["swappiness=5", "irq-affinity@24=0"],
            ""
        )),
        "audio swappiness=5 irq-affinity@24=0"
    );
    assert_eq!(label(&request("", &["swappiness=5"], "")), "swappiness=5");
}

#[test]
fn last_wish_for_a_setting_wins() {
    let machine = Machine::controller(true);
    let all = plan(
        &machine,
        &request("", &["swappiness=5", "thp=never", "swappiness=7"], ""),
    )
    .unwrap();
    assert_eq!(line(&all, "swappiness"), "60 -> 7");
    assert_eq!(all.steps.len(), 2);
    // A setting of the command line overrides that of the profile.
    let mut both = settings("swappiness = 5");
    both.sets = vec![Wish::parse(" swappiness = 9 ").unwrap()];
    assert_eq!(
        line(&plan(&machine, &both).unwrap(), "swappiness"),
        "60 -> 9"
    );
}

#[test]
fn wishes_that_cannot_be_parsed_are_explained() {
    for (text, why) in [
        ("swappiness", "use setting=value or setting@instance=value"),
        ("swapiness=5", "did you mean 'swappiness'?"),
        ("swappiness@x=5", "swappiness applies to the whole machine"),
    ] {
        let error = Wish::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let wish = Wish::parse("irq-affinity@a=b=c").unwrap();
    assert_eq!(
        (wish.setting().name, wish.value.as_str()),
        ("irq-affinity", "b=c")
    );
    assert_eq!(wish.selector.as_deref(), Some("a"));
    assert!(!wish.lenient && wish.clone().lenient().lenient);
    let profile = Profile::parse("x", "[settings]\nthp = \"never\"\n").unwrap();
    assert_eq!((profile.len(), profile.is_empty()), (1, false));
    let empty = Profile::parse("x", "[boot]\nquiet = true\n").unwrap();
    assert_eq!((empty.len(), empty.is_empty()), (0, true));
}

#[test]
fn applied_result_counts_what_was_unchanged() {
    let machine = Machine::controller(true);
    let done = applied(
        &machine,
        &request("", &["swappiness=60", "thp=never", "ksm=0"], ""),
    )
    .unwrap();
    assert_eq!((done.changes.len(), done.unchanged), (1, 2));
    assert_eq!(done.label, "swappiness=60 thp=never ksm=0");
    assert_eq!(done.journal, machine.places().applied);
    reverted(&machine).unwrap();
    // If nothing changes, no journal is needed.
    let machine = Machine::controller(true);
    let done = applied(&machine, &request("", &["swappiness=60"], "")).unwrap();
    assert_eq!((done.changes.len(), done.unchanged), (0, 1));
    assert!(!machine.places().applied.exists());
}
