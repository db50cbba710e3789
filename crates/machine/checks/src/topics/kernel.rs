//! Checks of the running kernel and its command line. The checks of its build options are in
//! `kernel/options.rs`.

use punctual_model::Severity;

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, ParameterEffect, Verdict};
use crate::kernel::WITHOUT_RT;
use crate::remedy::{instance, set};
use crate::{BASE, Check, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "kernel",
    title: "Kernel",
    checks: CHECKS,
};

const REAL_TIME: &str = "Documentation/core-api/real-time/kernel-configuration.rst";
const PARAMETERS: &str = "Documentation/admin-guide/kernel-parameters.txt";
const EFI: &str = "/sys/firmware/efi/runtime";
const EFI_WORK: &str = "/sys/devices/virtual/workqueue/efi_runtime/cpumask";
const TAINTED: &str = "/proc/sys/kernel/tainted";

/// Parameters that make the kernel check or record something at run time, and the values that
/// switch them off.
const DEBUG_PARAMETERS: [(&str, &[&str]); 9] = [
    ("slub_debug", &["-"]),
    ("slab_debug", &["-"]),
    ("debug_pagealloc", &["off", "0"]),
    ("page_owner", &["off", "0"]),
    ("page_poison", &["off", "0"]),
    ("kmemleak", &["off"]),
    ("debug_objects", &["off"]),
    ("ftrace", &[]),
    ("trace_event", &[]),
];

const CHECKS: &[Check] = &[
    Check {
        name: "preempt-rt",
        subject: "kernel",
        severity: Severity::Fatal,
        expected: "PREEMPT_RT",
        judge: |reader| {
            let rt = reader.is_rt()?;
            Ok(Verdict::new(
                rt,
                if rt {
                    "is PREEMPT_RT"
                } else {
                    "is not PREEMPT_RT"
                },
            ))
        },
        why: "Without PREEMPT_RT, the length of the kernel's non-preemptible sections has no upper \
              limit.",
        source: REAL_TIME,
        stances: WITHOUT_RT,
        reboot: "install a PREEMPT_RT kernel: punctual machine kernel install-steps prints the steps",
        ..BASE
    },
    Check {
        name: "preemption",
        subject: "preemption model",
        severity: Severity::High,
        expected: "full or lazy (or PREEMPT_RT)",
        judge: |reader| {
            let model = reader.fact(&reader.host().kernel.preempt_model)?;
            Ok(match model.as_str() {
                "full" | "rt" => Verdict::Ok(format!("is {model}")),
                // Lazy preemption delays only ordinary threads: the fair class calls
                // resched_curr_lazy in kernel/sched/core.c.
                "lazy" => Verdict::Ok(
                    "is lazy: real-time threads preempt at once, ordinary threads at the tick"
                        .to_owned(),
                ),
                _ => Verdict::Fail(format!("is {model}")),
            })
        },
        why: "With voluntary or no preemption, a thread must wait until the system call of another \
              thread reaches its next preemption point.",
        source: "kernel/Kconfig.preempt; Documentation/admin-guide/kernel-parameters.txt, preempt=",
        remedies: &[set("preempt")],
        ..BASE
    },
    Check {
        name: "threaded-interrupts",
        subject: "threaded interrupts",
        expected: "threadirqs, or PREEMPT_RT",
        judge: |reader| {
            if reader.is_rt()? {
                return Ok(Verdict::Ok("are on (PREEMPT_RT)".to_owned()));
            }
            Ok(
                match reader.obeys("threadirqs", "CONFIG_IRQ_FORCED_THREADING")? {
                    ParameterEffect::Yes => Verdict::Ok("are on".to_owned()),
                    ParameterEffect::NotGiven => Verdict::Fail("are off".to_owned()),
                    ParameterEffect::No => Verdict::Fail(
                        "are off: threadirqs has no effect without CONFIG_IRQ_FORCED_THREADING"
                            .to_owned(),
                    ),
                },
            )
        },
        why: "An interrupt handler that does not run in a thread preempts every thread, even at \
              priority 99.",
        source: "Documentation/admin-guide/kernel-parameters.txt, threadirqs",
        stances: &[Stance {
            roles: &[Role::Trading, Role::Telco, Role::Network],
            severity: Severity::Info,
            note: "interrupts are moved away from the measured CPUs instead, and a handler thread \
                   would delay packets. Audio guides call for threadirqs",
        }],
        boot: &["threadirqs"],
        ..BASE
    },
    Check {
        name: "high-resolution-timers",
        subject: "high-resolution timers",
        severity: Severity::Fatal,
        expected: "on",
        judge: |reader| {
            let on = *reader.fact(&reader.host().kernel.high_resolution_timers)?;
            Ok(Verdict::new(
                on,
                if on {
                    "are on"
                } else {
                    "are off: timers wait for the tick"
                },
            ))
        },
        why: "Without high-resolution timers, a timer expires at the next tick, 1 to 10 ms late.",
        source: "Documentation/timers/highres.rst",
        reboot: "remove highres=off and nohz=off from the kernel's command line, use a kernel with \
                 CONFIG_HIGH_RES_TIMERS=y, and select a clock source that supports high-resolution \
                 timers",
        ..BASE
    },
    Check {
        name: "tick",
        subject: "tick rate",
        severity: Severity::Info,
        expected: "250 per second or more",
        judge: |reader| {
            let hz = *reader.fact(&reader.host().kernel.hz)?;
            Ok(Verdict::mild(hz >= 250, format!("is {hz} per second")))
        },
        why: "High-resolution sleeps do not depend on the tick rate, but round-robin scheduling, \
              network timeouts and drivers count in ticks.",
        source: "kernel/Kconfig.hz; Documentation/timers/timers-howto.rst (delay_sleep_functions.rst from 6.13)",
        reboot: "a kernel with CONFIG_HZ_1000=y or CONFIG_HZ_250=y",
        ..BASE
    },
    Check {
        name: "debug-parameters",
        subject: "debugging boot parameters",
        severity: Severity::High,
        expected: "none",
        judge: debug_parameters,
        why: "With these parameters, the kernel checks memory or records events, even in its \
              fastest paths.",
        source: PARAMETERS,
        reboot: "remove these parameters from the kernel's command line",
        ..BASE
    },
    Check {
        name: "efi-runtime",
        subject: "EFI runtime services",
        expected: "off, or on other CPUs only",
        reads: &[EFI, EFI_WORK],
        judge: efi_runtime,
        why: "A call into the firmware can keep interrupts disabled for any length of time. \
              Writing a boot variable takes milliseconds.",
        source: "Documentation/core-api/real-time/hardware.rst, EFI",
        remedies: &[instance("workqueue-cpus-of", "efi_runtime")],
        boot: &["efi"],
        reboot: " (the running system then cannot change boot entries)",
        ..BASE
    },
    Check {
        name: "tainted",
        subject: "kernel taint",
        severity: Severity::Info,
        expected: "no proprietary or out-of-tree module",
        reads: &[TAINTED],
        judge: |reader| {
            let bits: u64 = reader.value(TAINTED)?;
            let named: Vec<&str> = [
                (0, "a proprietary module"),
                (12, "a module from outside the kernel"),
                (9, "a kernel warning"),
            ]
            .into_iter()
            .filter(|(bit, _)| bits & (1 << bit) != 0)
            .map(|(_, what)| what)
            .collect();
            Ok(if named.is_empty() {
                Verdict::Ok("none".to_owned())
            } else {
                Verdict::Warn(named.join(", "))
            })
        },
        why: "It is unknown for how long such a module disables interrupts.",
        source: "Documentation/admin-guide/tainted-kernels.rst",
        ..BASE
    },
];

fn debug_parameters(reader: &FactReader) -> Judged {
    let mut found = Vec::new();
    for (name, off) in DEBUG_PARAMETERS {
        if let Some(value) = reader.boot(name)?
            && !off.contains(&value)
        {
            found.push(name);
        }
    }
    Ok(if found.is_empty() {
        Verdict::Ok("none".to_owned())
    } else {
        Verdict::Fail(found.join(", "))
    })
}

fn efi_runtime(reader: &FactReader) -> Judged {
    if reader
        .boot("efi")?
        .is_some_and(|value| value.split(',').any(|word| word == "noruntime"))
    {
        return Ok(Verdict::Ok("are off (efi=noruntime)".to_owned()));
    }
    let asked = reader
        .boot("efi")?
        .is_some_and(|value| value.split(',').any(|word| word == "runtime"));
    if !asked && reader.built_with("CONFIG_EFI_DISABLE_RUNTIME") == Some(true) {
        return Ok(Verdict::Ok(
            "are off (CONFIG_EFI_DISABLE_RUNTIME=y)".to_owned(),
        ));
    }
    match reader.text(EFI) {
        Err(Missing::NotApplicable(_)) => {
            return Err(Missing::not_applicable(
                "the machine was not booted by EFI, or the EFI runtime services are off",
            ));
        }
        other => other?,
    };
    match reader.mask_elsewhere(EFI_WORK) {
        // Before Linux 5.19 or so, the affinity of this work queue cannot be set.
        Err(Missing::NotApplicable(_)) => Ok(Verdict::Warn("are allowed on any CPU".to_owned())),
        judged => judged,
    }
}
