//! Simulated machines, described by the words of a case.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_checks::Request;
use punctual_model::{
    CounterDelta, CpuInterference, CpuSet, FACT_SET_SCHEMA, Fact, FactSet, IdleState, Interference,
    Interruptions, KeptTicks, Nanos, POLICY_CPUS, Reading, TaskFact, testing,
};

/// Four CPUs, two of them isolated, with only the facts that every recording has.
pub(crate) fn machine() -> FactSet {
    let mut host = testing::recording(4, 1).host;
    host.processor.isolated.value = Some("2-3".parse().unwrap());
    host.kernel.command_line.value = Some("quiet".to_owned());
    FactSet {
        schema: FACT_SET_SCHEMA,
        program: "punctual test".to_owned(),
        captured: Timestamp::UNIX_EPOCH,
        host,
        kernel_config: Fact::known(whole_config(""), "/boot/config"),
        files: BTreeMap::from(["2", "3"].map(|n| {
            let file = POLICY_CPUS.replace('#', n);
            (file, Reading::Text(n.to_owned()))
        })),
        tasks: Fact::known(vec![task("1 init user 0 0 0 0-1")], "/proc/PID/stat"),
        sample: None,
        interruptions: None,
    }
}

/// Returns the recorded events of CPUs 2 and 3 over two seconds, initially empty.
pub(crate) fn interruptions(facts: &mut FactSet) -> &mut Interruptions {
    let none = Interruptions {
        duration: Nanos::from_secs(2),
        ..Interruptions::default()
    };
    let fact = facts
        .interruptions
        .get_or_insert_with(|| Fact::known(none, "tracefs"));
    fact.value.as_mut().unwrap()
}

/// Returns a complete configuration with these lines. An option that the configuration does not
/// mention does not exist in the kernel.
pub(crate) fn whole_config(lines: &str) -> String {
    let others: String = (0..300).map(|n| format!("CONFIG_X{n}=y\n")).collect();
    format!("# Linux/x86 6.12.0 Kernel Configuration\n{others}{lines}\n")
}

/// Parses `pid name user|kernel|bound policy priority last-cpu allowed`.
pub(crate) fn task(text: &str) -> TaskFact {
    let words: Vec<&str> = text.split_whitespace().collect();
    TaskFact {
        pid: words[0].parse().unwrap(),
        name: words[1].to_owned(),
        kernel: words[2] != "user",
        policy: words[3].parse().unwrap(),
        priority: words[4].parse().unwrap(),
        last_cpu: words[5].parse().unwrap(),
        allowed: Some(words[6].parse().unwrap()),
        bound: words[2] == "bound",
    }
}

/// Returns the counts of CPU 2 over one second, initially empty.
pub(crate) fn sample(facts: &mut FactSet) -> &mut CpuInterference {
    let sample = facts.sample.get_or_insert_with(|| Interference {
        duration_ns: Nanos::from_secs(1),
        cpus: vec![CpuInterference {
            cpu: 2,
            measured: true,
            ..CpuInterference::default()
        }],
        ..Interference::default()
    });
    &mut sample.cpus[0]
}

/// Parses `id:count`, or `id:count:name`.
pub(crate) fn counter(text: &str) -> CounterDelta {
    let mut parts = text.splitn(3, ':');
    let (id, count) = (parts.next().unwrap(), parts.next().unwrap());
    CounterDelta {
        id: id.to_owned(),
        name: parts.next().unwrap_or(id).to_owned(),
        count: count.parse().unwrap(),
    }
}

/// Applies one `@name=value` of a case.
pub(crate) fn change(facts: &mut FactSet, request: &mut Request, name: &str, value: &str) {
    let set = || -> CpuSet { value.parse().unwrap() };
    let host = &mut facts.host;
    match name {
        "rt" => host.kernel.preempt_rt.value = Some(value.parse().unwrap()),
        "model" => host.kernel.preempt_model.value = Some(value.to_owned()),
        "release" => host.kernel.release.value = Some(value.to_owned()),
        "cmdline" => host.kernel.command_line.value = Some(value.to_owned()),
        "hz" if value == "unknown" => host.kernel.hz = Fact::unknown("/boot/config", "not there"),
        "hz" => host.kernel.hz.value = Some(value.parse().unwrap()),
        "hrtimers" => {
            host.kernel.high_resolution_timers.value = Some(value.parse().unwrap());
        }
        "rt_runtime" => host.kernel.rt_runtime_us.value = Some(value.parse().unwrap()),
        "isolated" => host.processor.isolated.value = Some(set()),
        "nohz_full" => {
            const FILE: &str = "/sys/devices/system/cpu/nohz_full";
            host.processor.nohz_full = Fact::known(set(), FILE);
        }
        "online" => {
            host.processor.online.value = Some(set());
            host.processor.present.value = Some(set());
        }
        "nodes" => host.processor.numa_nodes.value = Some(set()),
        "idle_driver" => host.processor.idle_driver.value = Some(value.to_owned()),
        "virtual" => {
            host.virtualisation.virtual_machine.value = Some(value.parse().unwrap());
        }
        "clock" => host.clock.source.value = Some(value.to_owned()),
        "siblings" => host.cpus[2].siblings.value = Some(set()),
        "cache" => host.cpus[2..]
            .iter_mut()
            .for_each(|cpu| cpu.shares_cache_with.value = Some(set())),
        "idle" | "disabled_idle" => {
            host.cpus[3]
                .idle_states
                .value
                .as_mut()
                .unwrap()
                .push(IdleState {
                    name: format!("C{value}"),
                    exit_latency_ns: Nanos::from_micros(value.parse().unwrap()),
                    disabled: name == "disabled_idle",
                })
        }
        "config" => {
            let lines = value.replace("\\n", "\n");
            facts.kernel_config.value = Some(whole_config(&lines));
        }
        // The configuration is either missing or partial.
        "configuration" if value == "unknown" => {
            facts.kernel_config = Fact::unknown("/boot/config", "not there");
        }
        // CPU:reasons:count.
        "ticks" => {
            let numbers: Vec<u32> = value.split(':').map(|n| n.parse().unwrap()).collect();
            interruptions(facts).ticks.push(KeptTicks {
                cpu: numbers[0],
                dependency: numbers[1],
                threads: vec!["a-7".to_owned(), "b-8".to_owned()],
                count: numbers[2].into(),
            });
        }
        "lost" => interruptions(facts).lost = value.parse().unwrap(),
        "without_event" => interruptions(facts).missing.push(value.to_owned()),
        "not_recorded" => facts.interruptions = Some(Fact::unknown("tracefs", value)),
        "configuration" => facts.kernel_config.value = Some(value.to_owned()),
        "arch" => host.kernel.architecture.value = Some(value.to_owned()),
        "hypervisor" => host.virtualisation.hypervisor = Fact::known(value.to_owned(), "CPUID"),
        "task" => facts.tasks.value.as_mut().unwrap().push(task(value)),
        "role" => request.role = value.parse().unwrap(),
        "cpus" => request.cpus = Some(set()),
        "count" => sample(facts).interrupts.push(counter(value)),
        "softirq" => sample(facts).softirqs.push(counter(value)),
        "steal" => {
            sample(facts).steal_ns = Some(Nanos::from_millis(value.parse().unwrap()));
        }
        "smi" => sample(facts).smis = Some(value.parse().unwrap()),
        "uncounted" => {
            sample(facts);
            facts
                .sample
                .as_mut()
                .unwrap()
                .unknown
                .push(value.to_owned());
        }
        // In seconds.
        "duration" => {
            sample(facts);
            let seconds = Nanos::from_secs(value.parse().unwrap());
            facts.sample.as_mut().unwrap().duration_ns = seconds;
        }
        "throttled" => sample(facts).throttled = Some(value.parse().unwrap()),
        other => panic!("no such fact: @{other}"),
    }
}

/// Applies one file of a case: `path=text`, `path!` for a missing file, `path~` for a file without
/// permission to read. A pattern that matched nothing is written with `%` instead of `#`.
pub(crate) fn file(facts: &mut FactSet, text: &str) {
    if let Some(path) = text.strip_suffix('!') {
        let path = path.replace('%', "#");
        facts.files.insert(path, Reading::Absent);
        return;
    }
    if let Some(path) = text.strip_suffix('~') {
        let why = "permission denied".to_owned();
        facts
            .files
            .insert(path.to_owned(), Reading::Unreadable(why));
        return;
    }
    let (path, value) = text.split_once('=').unwrap();
    let value = value.replace("\\n", "\n");
    for cpu in ["2", "3"] {
        let path = path.replace('#', cpu);
        facts.files.insert(path, Reading::Text(value.clone()));
    }
}
