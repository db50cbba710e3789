//! For each check, cases in which it is ok, not ok, and unknown.

use std::collections::BTreeSet;

use punctual_checks::{Request, TOPICS, audit, patterns};
use punctual_model::{
    Fact, FactSet, FindingState, KeptTicks, Nanos, Reading, SentInterrupts, path_matches,
};

use crate::case_list::{cases, found};
use crate::described::{change, interruptions, machine};

fn ids() -> BTreeSet<String> {
    let all = TOPICS.iter().flat_map(|topic| {
        let name = topic.name;
        topic
            .checks
            .iter()
            .map(move |check| format!("{name}-{}", check.name))
    });
    all.collect()
}

/// Checks that only report a state and never find a problem.
const REPORTS: [&str; 5] = [
    "memory-crash-kernel",
    "power-mitigations",
    "clock-steps",
    "firmware-kvm-halt-polling",
    "topology-offline",
];

#[test]
fn each_case_comes_out_as_written() {
    let mut good = BTreeSet::new();
    let mut bad = BTreeSet::new();
    let mut wrong = Vec::new();
    for (case, finding) in cases() {
        if (finding.state.to_string().as_str(), finding.found.as_str()) != (case.state, case.found)
        {
            wrong.push(format!(
                "{}\n  came out {} | {}",
                case.line, finding.state, finding.found
            ));
        }
        match finding.state {
            FindingState::Ok => good.insert(case.id.to_owned()),
            FindingState::Fail | FindingState::Warn => bad.insert(case.id.to_owned()),
            _ => false,
        };
        // Every judgement has evidence.
        let judged = matches!(
            finding.state,
            FindingState::Ok | FindingState::Fail | FindingState::Warn
        );
        if judged && finding.evidence.is_empty() {
            wrong.push(format!("{}\n  has no evidence", case.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        ids().difference(&good).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    let reports: BTreeSet<String> = REPORTS.map(str::to_owned).into();
    let never_bad: BTreeSet<String> = ids().difference(&bad).cloned().collect();
    assert!(never_bad.is_subset(&reports), "{never_bad:?}");
}

/// Removes every fact from the machine.
fn without(reason: &str, reading: &Reading) -> FactSet {
    let mut facts = machine();
    facts.files = patterns()
        .into_iter()
        .map(|pattern| (pattern.to_owned(), reading.clone()))
        .collect();
    facts.kernel_config = Fact::unknown("/proc/config.gz", reason);
    facts.tasks = Fact::unknown("/proc/PID/stat", reason);
    let json = serde_json::to_value(&facts.host).unwrap();
    facts.host = serde_json::from_value(unknown(json, reason)).unwrap();
    facts.host.processor.online = Fact::known("0-3".parse().unwrap(), "online");
    facts
}

/// Removes the value of every fact.
fn unknown(json: serde_json::Value, reason: &str) -> serde_json::Value {
    match json {
        serde_json::Value::Object(mut map) if map.get("source").is_some_and(|s| s.is_string()) => {
            map.remove("value");
            map.insert("unknown".to_owned(), reason.into());
            serde_json::Value::Object(map)
        }
        serde_json::Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, unknown(value, reason)))
            .collect(),
        serde_json::Value::Array(list) => list
            .into_iter()
            .map(|value| unknown(value, reason))
            .collect(),
        other => other,
    }
}

#[test]
fn unreadable_file_is_unknown_with_reason() {
    const REASON: &str = "lockdown (integrity)";
    let facts = without(REASON, &Reading::Unreadable(REASON.to_owned()));
    for role in punctual_checks::ROLES.map(|(role, _, _)| role) {
        let request = Request {
            role,
            cpus: Some("2-3".parse().unwrap()),
        };
        for finding in audit(&facts, &request).unwrap().findings {
            // The measured and the online CPUs are still known, and these checks need nothing else.
            if ["topology-boot-cpu", "isolation-skewed-ticks"].contains(&finding.id.as_str()) {
                continue;
            }
            let named = finding.found.contains(REASON) || finding.found.contains("no counts");
            let known = match finding.state {
                FindingState::Unknown => named,
                FindingState::NotApplicable => finding.found.contains("not relevant"),
                _ => false,
            };
            assert!(
                known,
                "{role} {}: {} {}",
                finding.id, finding.state, finding.found
            );
        }
    }
}

#[test]
fn what_is_absent_is_never_ok() {
    let facts = without("not there", &Reading::Absent);
    for role in punctual_checks::ROLES.map(|(role, _, _)| role) {
        let request = Request {
            role,
            cpus: Some("2-3".parse().unwrap()),
        };
        for finding in audit(&facts, &request).unwrap().findings {
            let chosen = finding.id == "topology-boot-cpu";
            assert!(
                chosen || finding.state != FindingState::Ok,
                "{role} {}: {}",
                finding.id,
                finding.found
            );
        }
    }
}

#[test]
fn each_check_is_described_in_full() {
    let mut seen = BTreeSet::new();
    for topic in TOPICS {
        for check in topic.checks {
            let id = format!("{}-{}", topic.name, check.name);
            for text in [check.subject, check.expected, check.why, check.documented()] {
                assert!(!text.is_empty(), "{id}");
            }
            // The subject is a noun, not the desired state.
            for wish in ["No ", "no ", "The ", " is ", " are ", " not "] {
                assert!(!check.subject.contains(wish), "{id}: {}", check.subject);
            }
            for file in check.files() {
                let asked = ["ethtool -", "fuser "]
                    .iter()
                    .any(|it| file.starts_with(it));
                assert!(file.starts_with('/') || asked, "{id} reads {file}");
            }
            assert!(seen.insert(id.clone()), "{id} twice");
        }
    }
    assert!(seen.len() >= 90, "{} checks", seen.len());
}

/// A file that a check reads but does not declare would not be captured on real machines.
#[test]
fn what_is_read_is_declared() {
    let declared = patterns();
    for (case, _) in cases() {
        for file in case.changes.iter().filter(|text| text.starts_with('/')) {
            let path = file.split(['=', '!', '~']).next().unwrap();
            let known = declared.iter().any(|pattern| {
                *pattern == path || path_matches(pattern, &path.replace(['#', '%'], "2"))
            });
            assert!(known, "{path} is declared by no check");
        }
    }
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let request = |list: &str| Request {
        cpus: Some(list.parse().unwrap()),
        ..Request::default()
    };
    let error = audit(&machine(), &request("2-9")).unwrap_err().to_string();
    assert!(
        error.contains("CPU 4-9") && error.contains("0-3"),
        "{error}"
    );
    assert!(audit(&machine(), &request("")).is_err());
}

#[test]
fn senders_and_reasons_are_named() {
    let request = Request {
        role: "trading".parse().unwrap(),
        cpus: None,
    };
    let mut facts = machine();
    change(
        &mut facts,
        &mut Request { ..request.clone() },
        "count",
        "CAL:500",
    );
    let plain = found(&facts, &request, "interrupts-counted-calls").found;
    assert_eq!(plain, "500 a second on CPU 2");
    let sent = |to, thread: Option<&str>, count| SentInterrupts {
        to,
        from: 0,
        thread: thread.map(str::to_owned),
        function: Some("membarrier_ipi".to_owned()),
        count,
    };
    interruptions(&mut facts).sent = vec![
        sent(1, Some("other-9"), 9_000),
        sent(2, Some("shim-7"), 900),
        sent(2, None, 100),
    ];
    let named = found(&facts, &request, "interrupts-counted-calls").found;
    assert_eq!(
        named,
        "500 a second on CPU 2; senders: shim-7 on CPU 0 to CPU 2, 450 a second, in \
         membarrier_ipi; an interrupt handler on CPU 0 to CPU 2, 50 a second, in membarrier_ipi"
    );

    facts.host.processor.nohz_full = Fact::known("3".parse().unwrap(), "nohz_full");
    for (cpu, dependency, count) in [(2, 4, 5_000), (3, 2, 10), (3, 4, 2_000)] {
        interruptions(&mut facts).ticks.push(KeptTicks {
            cpu,
            dependency,
            threads: vec!["a-7".to_owned(), "b-8".to_owned()],
            count,
        });
    }
    interruptions(&mut facts).lost = 1;
    let ticks = found(&facts, &request, "isolation-tick-dependencies");
    assert_eq!(ticks.state, FindingState::Fail);
    assert_eq!(
        ticks.found,
        "at least 1000 a second on CPU 3: SCHED (more than one thread is runnable); threads that \
         ran: a-7, b-8"
    );
}

#[test]
fn roles_resolve_what_guides_say_differently() {
    let mut facts = machine();
    facts.host.processor.nohz_full = Fact::known("2-3".parse().unwrap(), "nohz_full");
    let of = |role: &str| {
        let request = Request {
            role: role.parse().unwrap(),
            cpus: None,
        };
        found(&facts, &request, "isolation-nohz-full")
    };
    let (periodic, spinning) = (of("control"), of("trading"));
    assert_eq!(
        (periodic.state, spinning.state),
        (FindingState::Warn, FindingState::Ok)
    );
    assert!(periodic.role_note.unwrap().starts_with("for control: "));
    assert!(spinning.severity > periodic.severity);
}

#[test]
fn expected_worst_latency_is_100000_cycles() {
    let mut facts = machine();
    let at = |facts: &FactSet| audit(facts, &Request::default()).unwrap().expectation;
    assert_eq!(at(&facts).max_ns, None);
    let cpuinfo = "cpu MHz : 2000.000\n\ncpu MHz : 1000.000\n";
    facts.files.insert(
        "/proc/cpuinfo".to_owned(),
        Reading::Text(cpuinfo.to_owned()),
    );
    assert_eq!(at(&facts).max_ns, Some(Nanos::from_micros(100)));
    for cpu in [2, 3] {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
        facts
            .files
            .insert(file, Reading::Text("2000000".to_owned()));
    }
    assert_eq!(at(&facts).max_ns, Some(Nanos::from_micros(50)));
    facts.files.insert(
        "/sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq".to_owned(),
        Reading::Text("0".to_owned()),
    );
    assert_eq!(at(&facts).max_ns, None);
}

/// Facts from another user can contain anything.
mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_facts_panic(text in "[0-9a-z,=:\\[\\] \\n-]{0,40}|\\PC{0,40}", cmdline in "\\PC{0,60}") {
            let mut facts = machine();
            facts.host.kernel.command_line.value = Some(cmdline);
            for pattern in patterns() {
                let file = pattern.replacen('#', "2", 1).replace('*', "x").replace('#', "0");
                facts.files.insert(file, Reading::Text(text.clone()));
            }
            for (role, _, _) in punctual_checks::ROLES {
                let audit = audit(&facts, &Request { role, cpus: None }).unwrap();
                let script = punctual_checks::fix_script(&audit);
                // Texts from the machine stay in comments.
                for line in script.lines().filter(|line| line.contains(&text) && text.len() > 12) {
                    prop_assert!(line.starts_with('#'), "{}", line);
                }
            }
        }
    }
}

/// The advice for users without root depends on this machine: it names an existing group, a package
/// of the distribution, or a file.
#[test]
fn real_time_advice_depends_on_the_machine() {
    let kit = "/usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";
    let audio = "/etc/security/limits.d/audio.conf";
    let found = |distribution: &str, files: &[(&str, &str)], role| {
        let mut facts = machine();
        facts.host.distribution.id.value = Some(distribution.to_owned());
        let limits = "Max realtime priority     0    0\nMax locked memory  8388608  8388608  bytes";
        let own = [
            ("/proc/self/status", "CapEff: 0"),
            ("/proc/self/limits", limits),
        ];
        for (file, text) in own.iter().chain(files) {
            let text = Reading::Text((*text).to_owned());
            facts.files.insert((*file).to_owned(), text);
        }
        let request = Request {
            role,
            ..Request::default()
        };
        let audit = audit(&facts, &request).unwrap();
        ["rights-priority", "rights-locked-memory"].map(|id| {
            let finding = audit.findings.iter().find(|one| one.id == id).unwrap();
            assert_eq!(finding.state, FindingState::Fail);
            finding.reboot.clone().unwrap()
        })
    };
    let role = punctual_model::Role::Audio;
    let lines = "# jackd2\n@audio   -  rtprio     95\n@audio   -  memlock    unlimited\n";
    let [priority, memory] = found("debian", &[(audio, lines), (kit, "[D-BUS Service]")], role);
    for part in [
        "audio.conf",
        "rtprio 95 for the group 'audio'",
        "usermod -aG audio",
        "RealtimeKit",
    ] {
        assert!(priority.contains(part), "{part}: {priority}");
    }
    assert!(
        memory.contains("memlock unlimited for the group 'audio'")
            && !memory.contains("RealtimeKit")
    );
    let [arch, _] = found("arch", &[], role);
    assert!(arch.contains("pacman -S realtime-privileges") && arch.contains("-aG realtime"));
    assert!(!arch.contains("RealtimeKit"), "{arch}");
    let [debian, _] = found("debian", &[], role);
    assert!(
        debian.contains("limits.d/audio.conf") && !debian.contains("groupadd"),
        "{debian}"
    );
    let [control, _] = found("debian", &[], punctual_model::Role::Control);
    assert!(control.contains("groupadd -f realtime"), "{control}");
}
