//! Checks of idle states: which ones a CPU may enter, and what limits them.

use punctual_model::{CpuSet, Nanos, SPINNING, Severity, path_of};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::remedy::set;
use crate::{BASE, Check, Remedy, Stance};

pub(super) const DMA_LATENCY: &str = path_of("dma-latency-us");
const CPUIDLE: &str = "Documentation/admin-guide/pm/cpuidle.rst";
const RESUME: &str = path_of("resume-latency-us");
/// Pattern for the processes that have the device open, each with its PID and name, as fuser(1)
/// shows them.
const HOLDERS: &str = "fuser /dev/cpu_dma_latency";

/// The limit in µs if no process requests one: `PM_QOS_CPU_LATENCY_DEFAULT_VALUE`.
pub(super) const NO_REQUEST: i64 = 2_000_000_000;

/// Exit latency above which an idle state is harmful. Leaving C1 takes 1 to 2 µs on x86. Leaving
/// the first state of an Arm core takes a few µs.
const SHALLOW: Nanos = Nanos::from_micros(10);

pub(super) const CHECK: Check = Check {
    name: "idle-states",
    subject: "idle states",
    severity: Severity::High,
    expected: "no state that takes more than 10 µs to leave",
    reads: &[DMA_LATENCY, HOLDERS, RESUME],
    judge,
    why: "Leaving a deep idle state takes tens to hundreds of microseconds, and the caches are cold afterwards.",
    source: CPUIDLE,
    stances: &[Stance {
        roles: SPINNING,
        severity: Severity::Medium,
        note: "a spinning CPU never idles, but package idle states of neighbouring CPUs still \
               affect it",
    }],
    remedies: &[
        set("idle-limit-us"),
        Remedy::Decide("or keep /dev/cpu_dma_latency open, as punctual measure does"),
    ],
    boot: &["processor.max_cstate", "intel_idle.max_cstate"],
    ..BASE
};

fn judge(reader: &FactReader) -> Judged {
    const PLACE: &str = "/sys/devices/system/cpu/cpuN/cpuidle";
    if let Some(parameter) = polls(reader)? {
        return Ok(Verdict::Ok(format!("are unused ({parameter})")));
    }
    let driver = &reader.host().processor.idle_driver;
    if driver.get().is_some_and(|driver| driver == "none") {
        reader.fact(driver)?;
        return Err(match reader.is_virtual() {
            Ok(true) => Missing::unknown(
                "the guest has no idle driver, and the idle states of the host are not visible",
            ),
            _ => Missing::unknown("the kernel has no idle driver on this machine"),
        });
    }
    let asked = reader.value::<i64>(DMA_LATENCY).ok();
    let asked = asked.filter(|us| *us < NO_REQUEST);
    if let Some(found) = deepest(reader, asked)? {
        reader.saw(PLACE, &found);
        return Ok(Verdict::Fail(found));
    }
    if let Some(us) = asked
        && let Some(found) = deepest(reader, None)?
    {
        reader.saw(PLACE, &found);
        return held_off(reader, us, &found);
    }
    reader.saw(
        PLACE,
        "all states have an exit latency of at most 10 µs, or are limited",
    );
    if reader.is_virtual()? {
        return Err(Missing::unknown(
            "the guest's own states are shallow; the idle states of the host are not visible",
        ));
    }
    Ok(Verdict::Ok("are all shallow".to_owned()))
}

/// Returns the parameter that makes idle CPUs spin instead of sleep: `idle=poll` on x86
/// (arch/x86/kernel/process.c), `nohlt` on other architectures (kernel/sched/idle.c).
pub(super) fn polls(reader: &FactReader) -> Result<Option<&'static str>, Missing> {
    let architecture = reader.architecture();
    let x86 = architecture.is_none_or(|name| name.contains("86"));
    if x86 && reader.boot("idle")? == Some("poll") {
        return Ok(Some("idle=poll"));
    }
    let other = architecture.is_some_and(|name| !name.contains("86"));
    let spins = other && reader.boot("nohlt")?.is_some();
    Ok(spins.then_some("nohlt"))
}

/// Judges deep states that are disabled only while a process keeps /dev/cpu_dma_latency open. The
/// states become available again when the last such process closes the device.
fn held_off(reader: &FactReader, us: i64, found: &str) -> Judged {
    /// Programs that hold the device open until a user ends them or requests another limit.
    const LASTING: [&str; 2] = ["tuned", "punctual hold-latency"];
    let limited = format!("are limited to {us} µs");
    let holders = reader.text(HOLDERS).map_err(|missing| {
        let why = match missing {
            Missing::NotApplicable(why) | Missing::Unknown(why) => why,
        };
        Missing::unknown(format!(
            "{limited} by an unknown process that keeps {DMA_LATENCY} open ({why}); without that \
             process: {found}"
        ))
    })?;
    let names: Vec<&str> = holders.lines().collect();
    let name = |line: &&str| line.split_once(' ').map_or("", |(_, name)| name).to_owned();
    let lasting = names
        .iter()
        .any(|line| LASTING.contains(&name(line).as_str()));
    let named: Vec<String> = names.iter().map(name).collect();
    let by = line(&named.join(", "));
    Ok(if lasting {
        Verdict::Ok(format!("{limited} by {by}"))
    } else {
        Verdict::Warn(format!(
            "{limited} only while {by} runs; without {by}: {found}"
        ))
    })
}

/// Describes the deepest state that the measured CPUs may use with this limit in µs. Returns `None`
/// if all of these states are shallow.
fn deepest(reader: &FactReader, asked: Option<i64>) -> Result<Option<String>, Missing> {
    let cpus: Vec<_> = reader
        .host()
        .cpus
        .iter()
        .filter(|cpu| reader.cpus.contains(cpu.cpu))
        .collect();
    if cpus.is_empty() {
        return Err(Missing::unknown("the facts contain no measured CPU"));
    }
    let mut deep = CpuSet::new();
    let mut deepest = (Nanos(0), String::new());
    for cpu in cpus {
        let Some(states) = cpu.idle_states.get() else {
            let why = cpu.idle_states.unknown.as_deref().unwrap_or("not known");
            let source = &cpu.idle_states.source;
            reader.saw(source, why);
            return Err(Missing::unknown(format!("{source}: {why}")));
        };
        let limits = [asked, resume_limit(reader, cpu.cpu)];
        let limit = limits.into_iter().flatten().min();
        for state in states {
            let us = state.exit_latency_ns.0 / 1_000;
            let limited = limit.is_some_and(|limit| us > limit.unsigned_abs());
            if state.disabled || state.exit_latency_ns <= SHALLOW || limited {
                continue;
            }
            deep.insert(cpu.cpu);
            if state.exit_latency_ns > deepest.0 {
                deepest = (state.exit_latency_ns, state.name.clone());
            }
        }
    }
    let (latency, name) = deepest;
    let found = format!("{name} with {latency} exit latency on CPU {deep}");
    Ok((!deep.is_empty()).then_some(found))
}

/// Returns the limit of one CPU in µs. "n/a" means that no latency at all is accepted, and 0 means
/// no limit (Documentation/ABI/testing/sysfs-devices-power).
fn resume_limit(reader: &FactReader, cpu: u32) -> Option<i64> {
    let file = RESUME.replacen('#', &cpu.to_string(), 1);
    match reader.facts.files.get(&file) {
        Some(punctual_model::Reading::Text(text)) if text == "n/a" => Some(0),
        Some(punctual_model::Reading::Text(text)) => text.parse().ok().filter(|us| *us > 0),
        _ => None,
    }
}
