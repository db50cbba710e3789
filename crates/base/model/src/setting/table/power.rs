//! The clock, and power settings that make a CPU slow to react.

use super::super::{Risk, Scope, Setting, Values};
use super::{BIG, each, machine, special, up_to};

pub(super) const ROWS: &[Setting] = &[
    // The clock.
    //
    // The kernel accepts any word and ignores unknown ones (current_clocksource_store in
    // kernel/time/clocksource.c), so only reading the file back detects a refusal. Once a word has
    // been written, it overrides the kernel's later automatic choices until the machine reboots.
    machine(
        "clocksource",
        "the hardware clock that the kernel's clocks use",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        Values::Offered("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    )
    .risk(Risk::Medium, "If the clock is not stable on this machine, the system time jumps.")
    .from("Documentation/admin-guide/kernel-parameters.txt (clocksource), kernel/time/clocksource.c")
    .wanted("tsc")
    .boot("clocksource={}")
    .by_hand("the kernel rejects only clock sources that have a problem"),
    // Power settings that make a CPU slow to react.
    each(
        "governor",
        "how the frequency of a CPU depends on its load",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_governor",
        Values::Offered("/sys/devices/system/cpu/cpufreq/policy#/scaling_available_governors"),
        Scope::Policy,
    )
    .risk(Risk::Low, "A fixed high frequency increases power use and heat.")
    .from("Documentation/admin-guide/pm/cpufreq.rst")
    .wanted("performance")
    .boot("cpufreq.default_governor={}"),
    each(
        "energy-preference",
        "the energy preference of a processor that selects its frequency itself",
        "/sys/devices/system/cpu/cpufreq/policy#/energy_performance_preference",
        Values::Offered("/sys/devices/system/cpu/cpufreq/policy#/energy_performance_available_preferences"),
        Scope::Policy,
    )
    .risk(Risk::Low, "Preferring performance increases power use and heat.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst")
    .wanted("performance"),
    each(
        "energy-bias",
        "the processor's balance between performance (0) and energy saving (15)",
        "/sys/devices/system/cpu/cpu#/power/energy_perf_bias",
        up_to(15),
        Scope::Cpu,
    )
    .risk(Risk::Low, "Preferring performance increases power use and heat.")
    .from("Documentation/admin-guide/pm/intel_epb.rst")
    .wanted("0"),
    special(
        "turbo",
        "whether the processor may run above its nominal frequency",
        "/sys/devices/system/cpu/intel_pstate/no_turbo or /sys/devices/system/cpu/cpufreq/boost", "",
        Values::Own("`on` or `off`"),
    )
    .risk(Risk::Low, "Off: lower speed, less variation. On: higher speed while the processor stays cool.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst, cpufreq.rst")
    .wanted("off"),
    each(
        "freq-max",
        "the highest frequency of a CPU, in kHz",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_max_freq",
        Values::Between {
            least: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_min_freq",
            most: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_max_freq",
        },
        Scope::Policy,
    )
    .risk(Risk::Low, "A lower limit makes everything slower.")
    .from("Documentation/admin-guide/pm/cpufreq.rst"),
    each(
        "freq-min",
        "the lowest frequency of a CPU, in kHz",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_min_freq",
        Values::Between {
            least: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_min_freq",
            most: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_max_freq",
        },
        Scope::Policy,
    )
    .risk(Risk::Low, "A high minimum increases power use and heat.")
    .from("Documentation/admin-guide/pm/cpufreq.rst")
    .wanted("max"),
    machine(
        "min-perf-percent",
        "the lowest performance that intel_pstate requests, in per cent",
        "/sys/devices/system/cpu/intel_pstate/min_perf_pct",
        up_to(100),
    )
    .risk(Risk::Low, "A high minimum increases power use and heat.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst")
    .wanted("100"),
    each(
        "uncore-freq-min",
        "the minimum frequency of the caches and the memory controller, in kHz",
        "/sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz",
        Values::Between {
            least: "/sys/devices/system/cpu/intel_uncore_frequency/*/initial_min_freq_khz",
            most: "/sys/devices/system/cpu/intel_uncore_frequency/*/initial_max_freq_khz",
        },
        Scope::Machine,
    )
    .risk(Risk::Low, "Less power is left for turbo frequencies of the cores.")
    .from("Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst")
    .wanted("max"),
    special(
        "idle-limit-us",
        "the maximum exit latency of the idle states that a CPU may enter, in microseconds",
        "/sys/devices/system/cpu/cpu#/cpuidle/state#/disable", "cpu#/state#",
        Values::Own("a number of microseconds, 0 to 1000000"),
    )
    .risk(
        Risk::Medium,
        "A CPU that does not enter idle states gets hot, and other CPUs reach lower turbo \
         frequencies.",
    )
    .from("Documentation/admin-guide/pm/cpuidle.rst")
    .wanted("10"),
    each(
        "resume-latency-us",
        "the time that a CPU may take to leave its idle state, in microseconds (0: no limit, n/a: \
         no latency allowed)",
        "/sys/devices/system/cpu/cpu#/power/pm_qos_resume_latency_us",
        Values::NumberOr { word: "n/a", min: 0, max: BIG },
        Scope::Cpu,
    )
    .risk(
        Risk::Medium,
        "A CPU that does not enter idle states gets hot, and other CPUs reach lower turbo \
         frequencies.",
    )
    .from("Documentation/ABI/testing/sysfs-devices-power"),
    special(
        "dma-latency-us",
        "the time that any CPU may take to leave its idle state, in microseconds, as long as a \
         small background process runs",
        "/dev/cpu_dma_latency", "",
        Values::Own("a number of microseconds, 0 to 2000000000"),
    )
    .risk(Risk::Medium, "0: no CPU enters an idle state, which increases heat and reduces turbo \
                         frequencies.")
    .from("Documentation/power/pm_qos_interface.rst"),
    machine(
        "aspm",
        "whether PCI Express links sleep",
        "/sys/module/pcie_aspm/parameters/policy",
        Values::Marked,
    )
    .risk(Risk::Low, "Links that do not sleep use more power.")
    // A refusal is caused by pcie_no_aspm(), which is called because of the FADT or _OSC, or by
    // pcie_aspm=off.
    .refused("the firmware controls ASPM, or the kernel was booted with pcie_aspm=off")
    .from("Documentation/core-api/real-time/hardware.rst, Hardware buses; drivers/pci/pcie/aspm.c (policy)")
    .wanted("performance")
    .boot("pcie_aspm.policy={}"),
    special(
        "pci-link-power",
        "the sleep states that the PCI Express link of a device may use",
        "/sys/bus/pci/devices/*/link/*", "PCI device",
        Values::Own("`off`, or the states to allow, such as `l0s_aspm,clkpm`"),
    )
    .risk(Risk::Low, "Links that do not sleep use more power. The kernel does not show which \
                      states its policy would allow: after a revert, a state that was off stays \
                      off until the next boot, even with another policy.")
    .from("Documentation/ABI/testing/sysfs-bus-pci (link/l0s_aspm); drivers/pci/pcie/aspm.c")
    .wanted("off"),
    each(
        "pci-runtime-power",
        "whether a PCI device sleeps while it is idle (`auto`) or never (`on`)",
        "/sys/bus/pci/devices/*/power/control",
        Values::Words(&["on", "auto"]),
        Scope::Machine,
    )
    .risk(Risk::Low, "Devices that do not sleep use more power.")
    .from("Documentation/power/runtime_pm.rst; Documentation/ABI/testing/sysfs-devices-power (power/control); TuneD, issue 719")
    .wanted("on"),
    machine(
        "platform-profile",
        "the firmware's balance between performance, heat and noise",
        "/sys/firmware/acpi/platform_profile",
        Values::Offered("/sys/firmware/acpi/platform_profile_choices"),
    )
    .risk(Risk::Low, "The performance profile increases power use and noise.")
    .from("Documentation/userspace-api/sysfs-platform_profile.rst")
    .wanted("performance"),
    machine(
        "haltpoll-ns",
        "how long an idle guest polls before it yields the CPU to its host, in nanoseconds",
        "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time from the host.")
    .from("Documentation/virt/guest-halt-polling.rst")
    .wanted("200000"),
];
