//! Checks of the threads that handle interrupts: their priorities and CPUs.

use punctual_model::{CpuSet, Reading, Severity, TaskFact};

use super::card_interrupts::{CARD_FILES, CardInterrupts};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::{BASE, Check, Remedy, Role, Stance};

const EFFECTIVE: &str = "/proc/irq/#/effective_affinity_list";

pub(super) const PRIORITIES: Check = Check {
    name: "thread-priorities",
    subject: "priority of interrupt threads",
    severity: Severity::Info,
    expected: "below 90",
    judge: priorities,
    why: "Interrupt threads have priority 50 by default. An application with a lower priority \
          waits for every device. An application with a higher priority delays every device, \
          including its own.",
    source: "kernel/irq/manage.c, sched_set_fifo; sched(7)",
    ..BASE
};

pub(super) const AFFINITY: Check = Check {
    name: "thread-affinity",
    subject: "interrupt threads on the measured CPUs",
    expected: "only those of the application",
    reads: &[
        EFFECTIVE,
        CARD_FILES[0],
        CARD_FILES[1],
        CARD_FILES[2],
        CARD_FILES[3],
    ],
    judge: affinity,
    why: "The handler of a threaded interrupt is a thread of priority 50, with a separate \
          affinity. After taskset or tuna has moved the thread, it no longer follows the \
          interrupt.",
    source: "kernel/irq/manage.c, irq_thread_check_affinity; Documentation/core-api/irq/irq-affinity.rst",
    stances: &[Stance {
        roles: &[Role::Audio, Role::Network],
        severity: Severity::Info,
        note: "the thread of the sound or network card belongs on the CPUs of the thread that it \
               wakes. With the role network, the threads of network cards are left out",
    }],
    remedies: &[Remedy::Decide(
        "taskset -pc {others} PID for each of these threads. A new affinity of the interrupt also \
         moves its thread",
    )],
    ..BASE
};

/// Returns the threads, which are recognized by the name that the kernel gives them:
/// `irq/NUMBER-NAME`.
fn threads<'a>(reader: &FactReader<'a>) -> Result<Vec<&'a TaskFact>, Missing> {
    let tasks = reader.tasks()?;
    let handles = |task: &&TaskFact| task.kernel && task.name.starts_with("irq/");
    let all: Vec<&TaskFact> = tasks.iter().filter(handles).collect();
    if !tasks.iter().any(|task| task.kernel) {
        Err(Missing::unknown(
            "no kernel thread is visible: this may be a container, or the facts of a container",
        ))
    } else if all.is_empty() {
        Err(Missing::not_applicable("no interrupt has a thread"))
    } else {
        Ok(all)
    }
}

fn priorities(reader: &FactReader) -> Judged {
    let threads = threads(reader)?;
    let highest = threads.iter().max_by_key(|task| task.priority);
    let highest = highest.ok_or_else(|| Missing::not_applicable("no interrupt has a thread"))?;
    reader.saw(
        format!("/proc/{}/stat", highest.pid),
        &format!("{}: priority {}", highest.name, highest.priority),
    );
    Ok(Verdict::mild(
        highest.priority < 90,
        format!("is {} at most", highest.priority),
    ))
}

fn affinity(reader: &FactReader) -> Judged {
    reader.elsewhere()?;
    let threads = threads(reader)?;
    let mut there: Vec<(&TaskFact, CpuSet)> = Vec::new();
    let cards = CardInterrupts::expected(reader);
    for task in &threads {
        if cards.has(number_of(task)) {
            continue;
        }
        let allowed = task.allowed.as_ref().ok_or_else(|| {
            Missing::unknown(format!("the affinity of {} could not be read", task.name))
        })?;
        let common = allowed.intersection(reader.cpus);
        if !common.is_empty() {
            there.push((task, common));
        }
    }
    // Threads that cannot run on any other CPU come first.
    there.sort_by_key(|(task, common)| task.allowed.as_ref() != Some(common));
    let said: Vec<String> = there.iter().map(|(task, _)| told(reader, task)).collect();
    for ((task, _), said) in there.iter().zip(&said).take(4) {
        reader.saw(format!("/proc/{}/status", task.pid), said);
    }
    let Some(first) = said.first() else {
        let none = format!("none of {} may run there", threads.len());
        reader.saw(&reader.facts.tasks.source, &none);
        return Ok(Verdict::Ok(format!("none of {}", threads.len())));
    };
    let more = match said.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let found = format!("{} of {}: {first}{more}", said.len(), threads.len());
    let ran = |(task, common): &(&TaskFact, CpuSet)| {
        task.allowed.as_ref() == Some(common) || reader.cpus.contains(task.last_cpu)
    };
    Ok(if there.iter().any(ran) {
        Verdict::Fail(found)
    } else {
        Verdict::Warn(found)
    })
}

/// Returns the number of the interrupt that a thread handles.
fn number_of(task: &TaskFact) -> &str {
    let name = task.name.trim_start_matches("irq/");
    name.split('-').next().unwrap_or_default()
}

/// Describes a thread: `irq/167-pps (fifo 50) on CPU 3, although interrupt 167 is routed to CPU 0`.
fn told(reader: &FactReader, task: &TaskFact) -> String {
    let allowed = task.allowed.clone().unwrap_or_default();
    let policy = match task.policy {
        1 => format!("fifo {}", task.priority),
        2 => format!("rr {}", task.priority),
        _ => "not real-time".to_owned(),
    };
    let number = number_of(task);
    let routed = match reader.facts.files.get(&EFFECTIVE.replacen('#', number, 1)) {
        Some(Reading::Text(list)) => list.parse::<CpuSet>().ok(),
        _ => None,
    };
    let elsewhere = match routed {
        Some(cpus) if cpus.intersection(&allowed).is_empty() => {
            format!(", although interrupt {number} is routed to CPU {cpus}")
        }
        _ => String::new(),
    };
    format!("{} ({policy}) on CPU {allowed}{elsewhere}", task.name)
}
