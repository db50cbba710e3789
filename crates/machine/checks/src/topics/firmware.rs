//! Checks of firmware and virtualisation, which can take CPU time without the kernel's knowledge.

use punctual_model::{Severity, counted, path_of};

use super::counting::rate;
use super::{Topic, cache_partition, stolen};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::remedy::to;
use crate::{BASE, Check, Remedy, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "firmware",
    title: "Firmware and virtualisation",
    checks: CHECKS,
};

const HARDWARE: &str = "Documentation/core-api/real-time/hardware.rst";
const PERIODIC_SYNC: &str = "/sys/module/kvm/parameters/kvmclock_periodic_sync";
const NX_PAGES: &str = "/sys/module/kvm/parameters/nx_huge_pages";
const PLE_GAP: &str = "/sys/module/kvm_intel/parameters/ple_gap";
const HALT_POLL: &str = "/sys/module/kvm/parameters/halt_poll_ns";
const IOMMU: &str = "/sys/class/iommu/*/uevent";
const BIOS_VENDOR: &str = "/sys/class/dmi/id/bios_vendor";
const BIOS_VERSION: &str = "/sys/class/dmi/id/bios_version";
const BIOS_DATE: &str = "/sys/class/dmi/id/bios_date";
const DRM: &str = "/sys/class/drm/card#/device/uevent";
/// Drivers for frame buffers that have no graphics engine or belong to virtual machines.
const PLAIN: [&str; 9] = [
    "simple-framebuffer",
    "efi-framebuffer",
    "ast",
    "mgag200",
    "bochs-drm",
    "cirrus",
    "hibmc-drm",
    "qxl",
    "virtio_gpu",
];
const TLP_AT_BOOT: &str = "/etc/systemd/system/*.wants/tlp.service";
const CPUPOWER_AT_BOOT: &str = "/etc/systemd/system/*.wants/cpupower.service";
const FWUPD_TIMER: &str = "/etc/systemd/system/*.wants/fwupd-refresh.timer";
/// Units that apply their settings at boot and then exit, each with the name that is shown to
/// users.
const MANAGERS_AT_BOOT: [(&str, &str); 2] = [
    ("tlp (at boot)", TLP_AT_BOOT),
    ("cpupower (at boot)", CPUPOWER_AT_BOOT),
];
const SCRUB: &str = "/sys/devices/system/edac/mc/mc#/sdram_scrub_rate";
const BUSY_READ: &str = path_of("busy-read-us");
/// The disadvantage of polling, which the user of a network service must weigh.
const POLLING: &str = "polling takes CPU time";
const BUSY_POLL: &str = path_of("busy-poll-us");

const CHECKS: &[Check] = &[
    Check {
        name: "hypervisor",
        subject: "hypervisor",
        severity: Severity::High,
        expected: "bare metal",
        judge: |reader| {
            let guest = reader.is_virtual()?;
            let name = reader.host().virtualisation.hypervisor.get();
            if let Some(name) = name {
                reader.saw(&reader.host().virtualisation.hypervisor.source, name);
            }
            Ok(if guest {
                Verdict::Warn(format!("is {}", name.map_or("unknown", String::as_str)))
            } else {
                Verdict::Ok("none".to_owned())
            })
        },
        why: "The host can stop a guest's CPU at any time and for any duration, and the guest's \
              kernel cannot see this.",
        source: "Documentation/core-api/real-time/hardware.rst, Virtualization",
        stances: &[Stance {
            roles: &[Role::Lab, Role::Telco, Role::Network],
            severity: Severity::Medium,
            note: "a host with pinned, isolated real-time CPUs can guarantee a bound; measure on \
                   that host",
        }],
        ..BASE
    },
    stolen::CHECK,
    Check {
        name: "smi",
        subject: "system management interrupts",
        severity: Severity::High,
        expected: "0",
        judge: smi,
        why: "During such an interrupt, the firmware occupies all CPUs at once for microseconds to \
              milliseconds, and the kernel cannot see this.",
        source: "Documentation/core-api/real-time/hardware.rst, Firmware; Documentation/trace/hwlat_detector.rst; Intel SDM volume 4, MSR_SMI_COUNT",
        reboot: "disable USB legacy support, power capping and error reporting in the firmware \
                 setup, or ask the manufacturer",
        ..BASE
    },
    Check {
        name: "throttling",
        subject: "thermal throttling during the sample",
        severity: Severity::High,
        expected: "0",
        judge: |reader| {
            let (cpus, duration) = reader.counted()?;
            let counts: Vec<u64> = cpus.iter().filter_map(|cpu| cpu.throttled).collect();
            if counts.is_empty() {
                return Err(reader.not_counted("thermal throttling"));
            }
            let sum: u64 = counts.iter().sum();
            reader.saw(
                format!("thermal_throttle over {duration}"),
                &sum.to_string(),
            );
            Ok(Verdict::new(sum == 0, counted(sum, "time", "times")))
        },
        why: "A throttled core runs slowly for milliseconds or longer.",
        source: HARDWARE,
        ..BASE
    },
    Check {
        name: "firmware-updates",
        subject: "fwupd",
        severity: Severity::Info,
        expected: "fwupd is not running, and no timer starts it",
        reads: &[FWUPD_TIMER],
        judge: |reader| {
            if !reader.running(&["fwupd"])?.is_empty() {
                return Ok(Verdict::Warn("is running".to_owned()));
            }
            Ok(if reader.starts_at_boot(FWUPD_TIMER) {
                Verdict::Warn("is not running, but a timer starts it".to_owned())
            } else {
                Verdict::Ok("is not running".to_owned())
            })
        },
        why: "fwupd queries the versions of devices and firmware, which raises system management \
              interrupts.",
        source: "fwupd's documentation; OpenShift's node tuning stops fwupd-refresh.timer",
        remedies: &[Remedy::Run("systemctl stop fwupd fwupd-refresh.timer")],
        reboot: "systemctl disable fwupd-refresh.timer",
        ..BASE
    },
    Check {
        name: "bios",
        subject: "firmware",
        severity: Severity::Info,
        expected: "less than five years old (no file shows its settings for power, C1E, scrubbing \
                   and USB legacy)",
        reads: &[BIOS_VENDOR, BIOS_VERSION, BIOS_DATE],
        judge: bios,
        why: "Only a newer firmware version can shorten the system management interrupts.",
        source: "Documentation/core-api/real-time/hardware.rst, Firmware; drivers/firmware/dmi-id.c",
        reboot: "look for a later version on the manufacturer's website. In the firmware setup, \
                 select power settings for performance, and disable legacy USB and patrol \
                 scrubbing",
        ..BASE
    },
    Check {
        name: "graphics",
        subject: "graphics unit",
        severity: Severity::Info,
        expected: "none, or a plain frame buffer",
        reads: &[DRM],
        judge: graphics,
        why: "A graphics unit shares the last-level cache and the memory bandwidth with the CPUs, \
              and its driver runs for long periods.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, CONFIG_DRM",
        stances: &[Stance {
            roles: &[Role::Audio],
            severity: Severity::Info,
            note: "a desktop needs graphics: measure under a graphics load",
        }],
        remedies: &[Remedy::Decide(
            "systemctl isolate multi-user.target, if no screen is needed",
        )],
        ..BASE
    },
    Check {
        name: "memory-scrubbing",
        subject: "memory scrubbing",
        severity: Severity::Info,
        expected: "0 or slow",
        reads: &[SCRUB],
        judge: |reader| {
            let all = reader.files(SCRUB)?;
            for (file, rate) in all.iter().take(4) {
                reader.saw(*file, rate);
            }
            let fast = all
                .iter()
                .any(|(_, rate)| rate.parse::<u64>().is_ok_and(|rate| rate > 100_000_000));
            Ok(Verdict::mild(
                !fast,
                if fast {
                    "is faster than 100 MB a second"
                } else {
                    "is slow or off"
                },
            ))
        },
        why: "Reading all memory takes memory bandwidth. Firmware that does this also occupies the \
              CPU.",
        source: "Documentation/core-api/real-time/hardware.rst, Firmware; Documentation/ABI/testing/sysfs-devices-edac, sdram_scrub_rate",
        ..BASE
    },
    cache_partition::CHECK,
    Check {
        name: "iommu",
        subject: "IOMMU",
        severity: Severity::Info,
        expected: "iommu=pt, or none",
        reads: &[IOMMU],
        judge: |reader| {
            let all = reader.files(IOMMU)?;
            reader.saw(IOMMU, &format!("{} units", all.len()));
            // iommu= exists only on x86.
            let x86 = reader.architecture().is_none_or(|name| name.contains("86"));
            let pass = x86 && reader.boot("iommu")? == Some("pt")
                || reader.boot("iommu.passthrough")? == Some("1");
            let off =
                reader.boot("intel_iommu")? == Some("off") || reader.boot("iommu")? == Some("off");
            Ok(Verdict::mild(
                pass || off,
                match (pass, off) {
                    (true, _) => "is in pass-through mode",
                    (_, true) => "is off",
                    _ => "is translating each transfer",
                },
            ))
        },
        why: "Without iommu=pt, each DMA transfer is mapped and unmapped, and the caches of the \
              IOMMU are flushed.",
        source: "Documentation/admin-guide/kernel-parameters.txt, iommu=pt",
        stances: &[Stance {
            roles: &[Role::Network, Role::Trading, Role::Telco],
            severity: Severity::Medium,
            note: "each packet has this cost. OpenShift's tuning sets iommu=pt, and NVIDIA's guide \
                   disables the IOMMU, but strict translation protects memory against devices",
        }],
        boot: &["iommu", "iommu.passthrough"],
        ..BASE
    },
    Check {
        name: "kvm-clock-sync",
        subject: "kvmclock_periodic_sync",
        severity: Severity::Info,
        expected: "N",
        reads: &[PERIODIC_SYNC],
        judge: |reader| hosting(reader, PERIODIC_SYNC, "N"),
        why: "KVM interrupts all virtual CPUs every five minutes.",
        source: "arch/x86/kvm/x86.c, kvmclock_periodic_sync; tuned, profiles/realtime-virtual-host",
        reboot: "options kvm kvmclock_periodic_sync=0 in /etc/modprobe.d",
        ..BASE
    },
    Check {
        name: "kvm-nx-pages",
        subject: "nx_huge_pages",
        severity: Severity::Info,
        expected: "N or never",
        reads: &[NX_PAGES],
        judge: |reader| {
            let text = reader.text(NX_PAGES)?;
            Ok(Verdict::mild(
                ["N", "never"].contains(&text),
                format!("is {text}"),
            ))
        },
        why: "A kernel thread reclaims huge pages every minute while a guest runs. This mitigates \
              iTLB multihit: check whether the processor is affected.",
        source: "Documentation/admin-guide/hw-vuln/multihit.rst",
        reboot: "options kvm nx_huge_pages=never in /etc/modprobe.d, if the processor is not affected",
        ..BASE
    },
    Check {
        name: "kvm-pause-loops",
        subject: "ple_gap",
        severity: Severity::Info,
        expected: "0",
        reads: &[PLE_GAP],
        judge: |reader| hosting(reader, PLE_GAP, "0"),
        why: "A guest that pauses in a loop exits to the host each time, which is unnecessary if the guest owns its CPU.",
        source: "arch/x86/kvm/vmx/vmx.c, ple_gap; tuned, profiles/realtime-virtual-host",
        reboot: "options kvm_intel ple_gap=0 in /etc/modprobe.d",
        ..BASE
    },
    Check {
        name: "kvm-halt-polling",
        subject: "halt_poll_ns",
        severity: Severity::Info,
        expected: "any value: a longer time wakes guests faster, but takes more CPU time",
        reads: &[HALT_POLL],
        judge: |reader| {
            Ok(Verdict::Ok(format!(
                "{} ns",
                reader.value::<u64>(HALT_POLL)?
            )))
        },
        why: "The host polls this long for the guest's next event before it lets the CPU sleep.",
        source: "Documentation/virt/kvm/halt-polling.rst",
        ..BASE
    },
    Check {
        name: "network-polling",
        subject: "socket polling",
        severity: Severity::Info,
        expected: "50 for packet processing on an ordinary kernel, 0 with PREEMPT_RT",
        reads: &[BUSY_READ, BUSY_POLL],
        judge: |reader| {
            if reader.role != Role::Network {
                return Err(Missing::not_applicable(format!(
                    "not relevant for the role {}",
                    reader.role
                )));
            }
            let read: u32 = reader.value(BUSY_READ)?;
            let poll: u32 = reader.value(BUSY_POLL)?;
            let rt = reader.is_rt()?;
            Ok(Verdict::mild(
                (read > 0 && poll > 0) != rt,
                format!("busy_read {read} µs, busy_poll {poll} µs"),
            ))
        },
        why: "Polling saves the interrupt and the wake-up. With PREEMPT_RT, it keeps other threads \
              off the CPU. tuned sets 50; OpenShift's real-time tuning does not enable polling.",
        source: "Documentation/admin-guide/sysctl/net.rst, busy_read",
        remedies: &[
            to("busy-read-us", "50", false, POLLING),
            to("busy-poll-us", "50", false, POLLING),
            to("busy-read-us", "0", true, ""),
            to("busy-poll-us", "0", true, ""),
        ],
        ..BASE
    },
    Check {
        name: "managers",
        subject: "programs that change these settings",
        severity: Severity::Info,
        expected: "known",
        reads: &[TLP_AT_BOOT, CPUPOWER_AT_BOOT],
        judge: |reader| {
            let all = reader.running(&[
                "tuned",
                "tlp",
                "power-profiles-",
                "thermald",
                "cpupower",
                "rtkit-daemon",
                "auto-cpufreq",
            ])?;
            let mut names: Vec<&str> = all.iter().map(|task| task.name.as_str()).collect();
            // A unit that applies everything once at boot and exits is not in the list of
            // processes.
            let at_boot = MANAGERS_AT_BOOT
                .into_iter()
                .filter(|(_, unit)| reader.starts_at_boot(unit))
                .map(|(name, _)| name);
            names.extend(at_boot);
            Ok(if names.is_empty() {
                Verdict::Ok("none known".to_owned())
            } else {
                Verdict::Warn(names.join(", "))
            })
        },
        why: "A program that manages settings can overwrite a setting.",
        source: "tuned-adm(8); powerprofilesctl(1); tlp(8); systemd.unit(5), WantedBy=",
        ..BASE
    },
];

/// Checks a module parameter on a machine that hosts guests.
fn hosting(reader: &FactReader, file: &str, good: &str) -> Judged {
    let text = reader.text(file)?;
    Ok(Verdict::mild(text == good, format!("is {text}")))
}

fn bios(reader: &FactReader) -> Judged {
    let date = reader.text(BIOS_DATE)?;
    let named: Vec<&str> = [BIOS_VENDOR, BIOS_VERSION]
        .into_iter()
        .filter_map(|file| reader.text(file).ok())
        .collect();
    // The format is MM/DD/YYYY (SMBIOS 3, BIOS Release Date). Two-digit years belong to the 20th
    // century.
    let year: i64 = date
        .rsplit('/')
        .next()
        .filter(|year| year.len() == 4)
        .and_then(|year| year.parse().ok())
        .ok_or_else(|| Missing::unknown(format!("{BIOS_DATE} is not a date: '{}'", line(date))))?;
    let captured: i64 = reader
        .facts
        .captured
        .strftime("%Y")
        .to_string()
        .parse()
        .map_err(|_| Missing::unknown("the facts have no date"))?;
    let found = line(&format!("{} of {date}", named.join(" ")));
    if reader.is_virtual().unwrap_or(false) {
        return Err(Missing::not_applicable(format!(
            "{found} is the firmware of a guest: check the host's firmware"
        )));
    }
    Ok(Verdict::mild(captured - year <= 5, found))
}

fn graphics(reader: &FactReader) -> Judged {
    let mut busy = Vec::new();
    let mut plain = Vec::new();
    for (file, text) in reader.files(DRM)? {
        let driver = text
            .lines()
            .find_map(|line| line.strip_prefix("DRIVER="))
            .unwrap_or("an unknown driver");
        reader.saw(file, driver);
        if PLAIN.contains(&driver) {
            plain.push(driver)
        } else {
            busy.push(driver)
        }
    }
    Ok(if busy.is_empty() {
        Verdict::Ok(format!(
            "is only a frame buffer: {}",
            line(&plain.join(", "))
        ))
    } else {
        Verdict::Warn(format!("uses the driver {}", line(&busy.join(", "))))
    })
}

fn smi(reader: &FactReader) -> Judged {
    let (cpus, duration) = reader.counted()?;
    let counts: Vec<u64> = cpus.iter().filter_map(|cpu| cpu.smis).collect();
    let Some(most) = counts.iter().max() else {
        return Err(reader.not_counted("SMI count"));
    };
    reader.saw(format!("MSR 0x34 over {duration}"), &most.to_string());
    Ok(match most {
        0 => Verdict::Ok(format!(
            "none in {duration}; use punctual measure hardware to sample longer"
        )),
        _ => Verdict::Fail(rate(*most, duration)),
    })
}
