//! Tests an audit as a whole: its heading, the measured CPUs, the expected latency, and the script.

use punctual_checks::{Request, audit, fix_script, measured_cpus, patterns};
use punctual_model::{Fact, FactSet, Finding, FindingState, Nanos, Reading, Remedy, Severity};

use crate::described::{change, file, machine, sample};

const CPUINFO: &str = "/proc/cpuinfo";

fn put(facts: &mut FactSet, file: &str, text: &str) {
    let reading = Reading::Text(text.to_owned());
    facts.files.insert(file.to_owned(), reading);
}

#[test]
fn audit_names_the_machine_and_the_role() {
    let facts = machine();
    let role = "telco".parse().unwrap();
    let audit = audit(&facts, &Request { role, cpus: None }).unwrap();
    assert_eq!(audit.program, "punctual test");
    assert_eq!(
        (audit.role.as_str(), audit.role_meaning.as_str()),
        ("telco", role.meaning())
    );
    let host = &facts.host;
    assert_eq!(audit.host.hostname, host.hostname.value);
    assert_eq!(audit.host.kernel, host.kernel.release.value);
    assert_eq!(audit.host.distribution, host.distribution.name.value);
    assert_eq!(audit.host.processor, host.processor.model.value);
    assert_eq!(audit.host.fingerprint, host.fingerprint);
    assert_eq!(audit.sample, facts.sample);
    assert!(audit.findings.iter().map(Finding::order).is_sorted());
    // A check that judges an option better than its line in the configuration replaces it.
    let has = |id: &str| audit.findings.iter().any(|finding| finding.id == id);
    assert!(has("kernel-preempt-rt") && !has("kernel-config-preempt-rt"));
    assert!(has("kernel-config-no-hz-full"));
}

#[test]
fn measured_cpus_are_requested_or_isolated_or_all() {
    let mut facts = machine();
    let request = |list: &str| Request {
        cpus: Some(list.parse().unwrap()),
        ..Request::default()
    };
    let of = |facts: &FactSet, request: &Request| {
        let audit = audit(facts, request).unwrap();
        assert_eq!(measured_cpus(facts, request).unwrap(), audit.cpus);
        (audit.cpus.to_string(), audit.cpus_because)
    };
    assert_eq!(
        of(&facts, &request("1")),
        ("1".to_owned(), "as requested".to_owned())
    );
    let isolated = of(&facts, &Request::default());
    assert_eq!(isolated.0, "2-3");
    assert!(isolated.1.contains("isolated"), "{}", isolated.1);
    change(&mut facts, &mut Request::default(), "isolated", "");
    let all = of(&facts, &Request::default());
    assert_eq!(
        (all.0.as_str(), all.1.as_str()),
        ("0-3", "no CPU is isolated, so all CPUs count as measured")
    );
    // If the online CPUs are unknown, a request cannot be refused.
    facts.host.processor.online = Fact::unknown("online", "permission denied");
    assert_eq!(of(&facts, &request("7")).0, "7");
    assert!(measured_cpus(&facts, &request("")).is_err());
    assert_eq!(
        measured_cpus(&facts, &Request::default())
            .unwrap()
            .to_string(),
        ""
    );
}

#[test]
fn patterns_are_sorted_and_unique() {
    let all = patterns();
    assert!(all.is_sorted_by(|a, b| a < b));
    for needed in [
        CPUINFO,
        "/sys/devices/system/cpu/cpu#/cpufreq/cpuinfo_max_freq",
        // The list of possible values of a setting.
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_available_governors",
        // The switch of an option of the kernel.
        "/proc/sys/kernel/soft_watchdog",
        "ethtool -c *",
    ] {
        assert!(all.contains(&needed), "{needed}");
    }
}

#[test]
fn lowest_frequency_of_the_measured_cpus_counts() {
    let mut facts = machine();
    let at = |facts: &FactSet| {
        let expectation = audit(facts, &Request::default()).unwrap().expectation;
        (expectation.max_ns, expectation.frequency_khz.unwrap())
    };
    let unknown = at(&facts);
    assert_eq!((unknown.0, unknown.1.value), (None, None));
    assert_eq!(
        unknown.1.source,
        "/sys/devices/system/cpu/cpuN/cpufreq/cpuinfo_max_freq"
    );
    assert!(unknown.1.unknown.unwrap().contains("neither cpufreq nor"));
    for (text, khz) in [
        ("cpu MHz\t\t: 2500.5\ncpu MHz : 2400.25\n", Some(2_400_250)),
        ("cpu MHz : 1.0\n", Some(1_000)),
        ("cpu MHz : 0.9\n", None),
        ("cpu MHz : 999999\n", Some(999_999_000)),
        ("cpu MHz : 1000000\n", None),
        ("cpu MHz : NaN\ncpu MHz : 2000\n", Some(2_000_000)),
        ("bogomips : 48.00\n", None),
    ] {
        put(&mut facts, CPUINFO, text);
        let (longest, frequency) = at(&facts);
        assert_eq!(frequency.value, khz, "{text}");
        assert_eq!(
            longest,
            khz.map(|khz| Nanos(100_000_000_000 / khz)),
            "{text}"
        );
    }
    // The frequencies of other CPUs do not count.
    let max = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
    for (cpu, khz) in [(1, "800000"), (2, "3000000"), (3, "2000000")] {
        put(&mut facts, &max(cpu), khz);
    }
    let (longest, frequency) = at(&facts);
    assert_eq!(
        (longest, frequency.value, frequency.source),
        (Some(Nanos::from_micros(50)), Some(2_000_000), max(3))
    );
}

/// The largest rate of the measured CPUs counts, and no rate of another CPU.
#[test]
fn counts_are_those_of_the_measured_cpus() {
    let mut facts = machine();
    let first = sample(&mut facts).clone();
    let cpus = &mut facts.sample.as_mut().unwrap().cpus;
    for (cpu, count) in [(0, 9_000), (3, 40), (2, 30)] {
        let mut other = first.clone();
        other.cpu = cpu;
        other
            .interrupts
            .push(crate::described::counter(&format!("24:{count}")));
        other.throttled = Some(count / 10);
        other.smis = Some(count / 10);
        other.steal_ns = Some(Nanos::from_millis(count));
        cpus.push(other);
    }
    cpus.remove(0);
    let request = Request::default();
    for (id, found) in [
        ("interrupts-counted-devices", "40 a second on CPU 3"),
        ("firmware-throttling", "7 times"),
        ("firmware-smi", "4 a second"),
        ("firmware-steal", "40.0 ms of 1.00 s on CPU 3"),
    ] {
        assert_eq!(
            crate::case_list::found(&facts, &request, id).found,
            found,
            "{id}"
        );
    }
    // Without a count of a measured CPU, or without a duration, nothing is known.
    let id = "interrupts-counted-devices";
    let other = Request {
        cpus: Some("1".parse().unwrap()),
        ..Request::default()
    };
    let none = crate::case_list::found(&facts, &other, id);
    assert_eq!(
        (none.state, none.found.as_str()),
        (FindingState::Unknown, "CPU 1 has no counts")
    );
    facts.sample.as_mut().unwrap().duration_ns = Nanos(0);
    assert_eq!(
        crate::case_list::found(&facts, &request, id).state,
        FindingState::Unknown
    );
}

#[test]
fn evidence_is_limited_to_a_few_entries() {
    let mut facts = machine();
    for n in 0..9 {
        file(
            &mut facts,
            &format!("/proc/irq/{n}/effective_affinity_list=2"),
        );
        file(&mut facts, &format!("/proc/irq/{n}/smp_affinity_list=2"));
        file(&mut facts, &format!("/sys/kernel/irq/{n}/actions=a,b"));
        file(
            &mut facts,
            &format!("/sys/bus/pci/devices/0000:0{n}:00.0/power/control=auto"),
        );
        file(
            &mut facts,
            &format!("/sys/bus/pci/devices/0000:0{n}:00.0/link/l1_aspm=1"),
        );
        file(
            &mut facts,
            &format!("/sys/kernel/slab/kmalloc-{n}/cpu_partial=1"),
        );
        change(
            &mut facts,
            &mut Request::default(),
            "task",
            &format!("{} irq/{n}-x kernel 1 50 2 2", n + 100),
        );
        change(
            &mut facts,
            &mut Request::default(),
            "task",
            &format!("{} motion user 1 99 2 2", n + 200),
        );
    }
    for (id, entries) in [
        ("interrupts-devices", 4),
        ("interrupts-masks", 3),
        ("interrupts-shared-lines", 4),
        ("interrupts-thread-affinity", 4),
        ("power-pci-devices", 4),
        ("power-pci-link-states", 4),
        ("memory-slab-partial", 2),
        ("scheduler-priority-99", 4),
    ] {
        let finding = crate::case_list::found(&facts, &Request::default(), id);
        assert!(finding.is_problem(), "{id}");
        assert_eq!(
            finding
                .evidence
                .iter()
                .filter(|fact| fact.value.is_some())
                .count(),
            entries,
            "{id}: {:?}",
            finding.evidence
        );
    }
}

/// An audit with these findings only.
fn with(findings: Vec<Finding>) -> punctual_model::Audit {
    let mut audit = audit(&machine(), &Request::default()).unwrap();
    audit.findings = findings;
    audit
}

fn finding(
    id: &str,
    state: FindingState,
    now: &[&str],
    remedies: &[(&str, &str, Option<&str>)],
) -> Finding {
    let base = audit(&machine(), &Request::default())
        .unwrap()
        .findings
        .remove(0);
    Finding {
        id: id.to_owned(),
        title: format!("title of {id}"),
        state,
        severity: Severity::High,
        now: now.iter().map(|line| (*line).to_owned()).collect(),
        remedies: remedies
            .iter()
            .map(|(setting, value, decide)| Remedy {
                setting: (*setting).to_owned(),
                instance: None,
                value: (*value).to_owned(),
                decide: decide.map(str::to_owned),
            })
            .collect(),
        reboot: None,
        ..base
    }
}

#[test]
fn script_makes_each_change_once() {
    let apply = "punctual tune apply --cpus 2-3 --set irq-affinity=housekeeping";
    let irq: &[_] = &[("irq-affinity", "housekeeping", None)];
    let mut permanent = finding("e", FindingState::Warn, &[], &[]);
    permanent.reboot = Some("two\nlines".to_owned());
    let audit = with(vec![
        finding("a", FindingState::Fail, &[apply, "echo it's > /x"], irq),
        finding(
            "b",
            FindingState::Warn,
            &[apply, "echo it's > /x", "# only if you like"],
            irq,
        ),
        finding(
            "c",
            FindingState::Fail,
            &["# punctual tune apply --set turbo=off: slower"],
            &[("turbo", "off", Some("slower"))],
        ),
        finding("d", FindingState::Ok, &["rm -r /"], &[("smt", "off", None)]),
        permanent,
    ]);
    insta::assert_snapshot!(fix_script(&audit));
}

#[test]
fn script_without_problems_changes_nothing() {
    let script = fix_script(&with(vec![finding(
        "d",
        FindingState::Ok,
        &["x"],
        &[("smt", "off", None)],
    )]));
    assert!(
        !script.contains("smt") && !script.contains("Permanent") && !script.contains("try '"),
        "{script}"
    );
    assert!(script.ends_with("\nexit $failed\n"));
    // The CPUs are only given to settings of CPUs.
    let machine_wide = finding(
        "a",
        FindingState::Fail,
        &["punctual tune apply --set swappiness=10"],
        &[("swappiness", "10", None)],
    );
    let script = fix_script(&with(vec![machine_wide]));
    assert!(
        script.contains("set -- \"$@\" --set 'swappiness=10'\n"),
        "{script}"
    );
    assert!(
        script.contains("punctual tune apply --keep-going \"$@\""),
        "{script}"
    );
}
