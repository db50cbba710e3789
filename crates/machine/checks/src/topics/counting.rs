//! Rates of the events that were counted on the measured CPUs.

use punctual_model::{CounterDelta, CpuInterference, Nanos};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict};

/// The source of the interrupts in a row of /proc/interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A device.
    Device,
    /// The CPU's timer, even if another CPU forwards its interrupt.
    Timer,
    /// Another CPU.
    OtherCpu,
    /// Performance counters, used by perf and the lockup detector; these interrupts often cannot be
    /// masked.
    Counters,
    /// Any other part of the kernel.
    Other,
}

/// Names of timers, without a trailing number: those of Arm (arch_timer, twd, gt, and TI's
/// dmtimer), RISC-V, LoongArch, MIPS and Xen (timer), as requested by their drivers in
/// drivers/clocksource and arch/*/kernel.
const TIMERS: [&str; 8] = [
    "arch_timer",
    "riscv-timer",
    "timer",
    "twd",
    "gt",
    "clockevent",
    "percpu-dmtimer",
    "gp_timer",
];
/// Names of the performance counters' interrupts on architectures other than x86.
const COUNTERS: [&str; 4] = ["arm-pmu", "armv8-pmu", "armv8_pmuv3", "riscv-pmu"];
/// Prefixes of interrupts between CPUs in arch/{arm,arm64,riscv,loongarch}/kernel/smp.c. Their
/// numbers (IPI0, …) differ by architecture and version.
const BETWEEN_CPUS: [&str; 4] = ["IPI", "RES", "CAL", "TLB"];

/// Returns the source of a row. Numbers are arbitrary, so a row with a number is classified by its
/// name.
pub(super) fn source(row: &CounterDelta) -> Source {
    let words = || row.name.split([' ', ',']);
    if !row.id.is_empty() && row.id.bytes().all(|byte| byte.is_ascii_digit()) {
        let is = |names: &[&str]| {
            let plain = |word: &str| names.contains(&word.trim_end_matches(char::is_numeric));
            words().any(|word| plain(word) || names.contains(&word))
        };
        return match () {
            () if is(&TIMERS) || words().any(|word| word.starts_with("mct_tick")) => Source::Timer,
            () if is(&COUNTERS) => Source::Counters,
            // MIPS, PowerPC and Xen also assign numbers to interrupts between CPUs: `IPI resched`,
            // `xen-percpu -ipi`.
            () if words().any(|word| word.starts_with("IPI") || word == "-ipi") => Source::OtherCpu,
            () => Source::Device,
        };
    }
    match row.id.as_str() {
        "NMI" | "PMI" => Source::Counters,
        // x86; Hyper-V; PowerPC; s390.
        "LOC" | "HVS" | "BCT" | "CLK" | "TMR" => Source::Timer,
        _ if row.name.contains("imer broadcast") => Source::Timer,
        // x86: work that the CPU requested from itself. PowerPC: doorbells. s390: external calls
        // and emergency signals.
        "IWI" | "DBL" | "EXC" | "EMS" => Source::OtherCpu,
        id if BETWEEN_CPUS.iter().any(|start| id.starts_with(start)) => Source::OtherCpu,
        // s390: totals of the device interrupts.
        "I/O" | "AIO" => Source::Device,
        _ => Source::Other,
    }
}

/// Returns the number of interrupts from one source.
pub(super) fn from(cpu: &CpuInterference, wanted: Source) -> u64 {
    let rows = cpu.interrupts.iter();
    rows.filter(|row| source(row) == wanted)
        .map(|row| row.count)
        .sum()
}

/// Checks that the rate per second on each measured CPU does not exceed the limit.
pub(super) fn counted(
    reader: &FactReader,
    what: &str,
    count: impl Fn(&CpuInterference) -> u64,
    limit: impl Fn(&FactReader) -> f64,
) -> Judged {
    let (cpus, duration) = reader.counted()?;
    // If a table could not be read, or a CPU came online or went offline during the count, the
    // counts are missing rather than zero.
    let unreadable = format!("{what}: /proc/");
    let moved = format!("{what} of CPU ");
    let sample = reader.facts.sample.iter().flat_map(|s| &s.unknown);
    let reason = sample
        .into_iter()
        .find(|line| line.starts_with(&unreadable) || line.starts_with(&moved));
    if let Some(reason) = reason {
        return Err(Missing::unknown(reason));
    }
    let counts = cpus.iter().map(|cpu| (count(cpu), cpu.cpu));
    let (most, cpu) = counts.max().unwrap_or_default();
    let found = rate(most, duration);
    let source = format!("/proc/{what} over {duration}");
    if most == 0 {
        reader.saw(source, "none");
        return Ok(Verdict::Ok("none".to_owned()));
    }
    reader.saw(source, &format!("at most {found}, on CPU {cpu}"));
    Ok(if most as f64 / seconds(duration) <= limit(reader) {
        Verdict::Ok(format!("at most {found}"))
    } else {
        Verdict::Fail(format!("{found} on CPU {cpu}"))
    })
}

/// Formats a rate as `40 a second`, or as `3 in 60.0 s` if there is less than one event a second.
pub(super) fn rate(count: u64, duration: Nanos) -> String {
    let rate = count as f64 / seconds(duration);
    if rate < 1.0 {
        format!("{count} in {duration}")
    } else {
        format!("{rate:.0} a second")
    }
}

pub(super) fn seconds(duration: Nanos) -> f64 {
    (duration.0 as f64 / 1e9).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows from real machines.
    #[test]
    fn each_architecture_has_its_rows() {
        for (id, name, expected) in [
            ("11", "GICv3 30 Level arch_timer", Source::Timer),
            ("16", "GIC-0 29 Edge twd", Source::Timer),
            ("5", "RISC-V INTC 5 Edge riscv-timer", Source::Timer),
            ("55", "CPUINTC 11 timer", Source::Timer),
            ("0", "IO-APIC 2-edge timer", Source::Timer),
            ("48", "xen-percpu -virq timer0", Source::Timer),
            ("49", "xen-percpu -ipi resched0", Source::OtherCpu),
            ("8", "MIPS 3 IPI resched", Source::OtherCpu),
            ("23", "GICv3 23 Level arm-pmu", Source::Counters),
            ("24", "PCI-MSI 1572864-edge eth0-rx-0", Source::Device),
            ("167", "GICv3 66 Level pps", Source::Device),
            ("8", "IO-APIC 8-edge rtc0", Source::Device),
            ("31", "GICv2 98 Level vc4 crtc", Source::Device),
            ("7", "timerfd-test-card", Source::Device),
            ("LOC", "Local timer interrupts", Source::Timer),
            ("IPI1", "Timer broadcast interrupts", Source::Timer),
            ("IPI2", "Rescheduling interrupts", Source::OtherCpu),
            ("IPI5", "IRQ work interrupts", Source::OtherCpu),
            ("IPI6", "completion interrupts", Source::OtherCpu),
            ("RES", "Rescheduling interrupts", Source::OtherCpu),
            ("NMI", "Non-maskable interrupts", Source::Counters),
            ("MCP", "Machine check polls", Source::Other),
            ("", "", Source::Other),
            ("17", "GICv2 17 Level mct_tick0", Source::Timer),
            ("3", "GIC 3 gp_timer", Source::Timer),
            ("4", "GIC 4 percpu-dmtimer", Source::Timer),
            ("5", "GIC 5 gt, clockevent", Source::Timer),
            ("24", "GICv3 24 Level armv8_pmuv3", Source::Counters),
            ("6", "RISC-V INTC 13 Edge riscv-pmu", Source::Counters),
            ("9", "IPI-cascade", Source::OtherCpu),
            ("PMI", "Performance monitoring interrupts", Source::Counters),
            ("HVS", "Hyper-V stimer0 interrupts", Source::Timer),
            ("BCT", "broadcast timer", Source::Timer),
            ("CLK", "s390 clock comparator", Source::Timer),
            ("TMR", "s390 CPU timer", Source::Timer),
            ("IWI", "IRQ work interrupts", Source::OtherCpu),
            ("DBL", "Doorbell interrupts", Source::OtherCpu),
            ("EXC", "External calls", Source::OtherCpu),
            ("EMS", "Emergency signals", Source::OtherCpu),
            ("CAL", "Function call interrupts", Source::OtherCpu),
            ("TLB", "TLB shootdowns", Source::OtherCpu),
            ("I/O", "s390 I/O", Source::Device),
            ("AIO", "s390 adapter I/O", Source::Device),
            ("THR", "Threshold APIC interrupts", Source::Other),
        ] {
            let row = CounterDelta {
                id: id.to_owned(),
                name: name.to_owned(),
                count: 1,
            };
            assert_eq!(source(&row), expected, "{id}: {name}");
        }
    }

    #[test]
    fn rare_events_are_not_rounded_to_zero() {
        for (count, seconds, text) in [
            (40, 1, "40 a second"),
            (60, 60, "1 a second"),
            (59, 60, "59 in 60.0 s"),
            (1, 3_600, "1 in 3600 s"),
            (0, 1, "0 in 1.00 s"),
        ] {
            assert_eq!(rate(count, Nanos::from_secs(seconds)), text);
        }
    }

    #[test]
    fn counts_of_a_source_are_added() {
        let row = |id: &str, count| CounterDelta {
            id: id.to_owned(),
            name: id.to_owned(),
            count,
        };
        let cpu = CpuInterference {
            interrupts: vec![row("RES", 3), row("CAL", 4), row("24", 50), row("LOC", 600)],
            ..CpuInterference::default()
        };
        assert_eq!(from(&cpu, Source::OtherCpu), 7);
        assert_eq!(from(&cpu, Source::Timer), 600);
        assert_eq!(from(&cpu, Source::Device), 50);
        assert_eq!(from(&cpu, Source::Counters), 0);
        assert_eq!(seconds(Nanos::from_millis(250)), 0.25);
        assert!(seconds(Nanos(0)) > 0.0);
    }
}
