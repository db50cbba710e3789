//! Checks whether the processor was slowed down because it was hot.

use punctual_model::{CpuSet, Severity};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::{BASE, Check};

/// File that exists only for Intel processors (arch/x86/kernel/cpu/mce/therm_throt.c).
const COUNT: &str = "/sys/devices/system/cpu/cpu#/thermal_throttle/core_throttle_count";
/// State that the Raspberry Pi's firmware reports, in the Raspberry Pi's own kernels. Bits 1 and 2
/// (frequency capped, throttled) and 3 (soft temperature limit) are the current state. The same
/// bits, shifted left by 16, are the state since boot.
const RASPBERRY_PI: &str = "/sys/devices/platform/soc/soc:firmware/get_throttled";
const KIND: &str = "/sys/class/thermal/cooling_device#/type";
/// Current state of a cooling device. It is 0 if the device does not slow anything down.
const STATE: &str = "/sys/class/thermal/cooling_device#/cur_state";

pub(super) const CHECK: Check = Check {
    name: "throttled",
    subject: "thermal throttling",
    severity: Severity::High,
    expected: "0 since boot",
    reads: &[COUNT, RASPBERRY_PI, KIND, STATE],
    judge,
    why: "Hardware, firmware or the kernel slows down or stops a hot processor, even while it runs \
          a real-time thread.",
    source: "Documentation/core-api/real-time/hardware.rst, Firmware; arch/x86/kernel/cpu/mce/therm_throt.c; Documentation/driver-api/thermal/sysfs-api.rst",
    ..BASE
};

fn judge(reader: &FactReader) -> Judged {
    match reader.each_cpu(COUNT) {
        Err(Missing::NotApplicable(_)) => {}
        counted => return since_boot(&counted?),
    }
    if let Ok(text) = reader.text(RASPBERRY_PI) {
        return raspberry_pi(text);
    }
    let slowed = slowed_now(reader);
    if let Some(names) = slowed {
        return Ok(Verdict::Fail(format!("is active now: {names}")));
    }
    Err(Missing::unknown(
        "the kernel has no throttling count for this processor, and no cooling device slows it \
         down now",
    ))
}

fn since_boot(counts: &[(u32, &str)]) -> Judged {
    let hot = counts.iter().filter(|(_, count)| *count != "0");
    let hot: CpuSet = hot.map(|(cpu, _)| *cpu).collect();
    Ok(if hot.is_empty() {
        Verdict::Ok("none since boot".to_owned())
    } else {
        Verdict::Warn(format!(
            "occurred on CPU {hot} since boot: check whether the count rises"
        ))
    })
}

fn raspberry_pi(text: &str) -> Judged {
    const HOT: u32 = 0b1110;
    let bits = text.trim_start_matches("0x");
    let bits = u32::from_str_radix(bits, 16)
        .map_err(|_| Missing::unknown(format!("{RASPBERRY_PI} is not a hexadecimal number")))?;
    Ok(match (bits & HOT, bits >> 16 & HOT) {
        (0, 0) => Verdict::Ok("none since boot".to_owned()),
        (0, _) => Verdict::Warn(
            "CPUs were slowed down since boot because of heat or low voltage".to_owned(),
        ),
        _ => Verdict::Fail("CPUs are slowed down now because of heat or low voltage".to_owned()),
    })
}

/// Returns the cooling devices that currently slow down processors: `cpufreq-cpu0` and
/// `thermal-cpufreq-0` on Arm, `Processor` from ACPI, and `idle_inject`.
fn slowed_now(reader: &FactReader) -> Option<String> {
    let kinds = reader.files(KIND).ok()?;
    let slows = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        ["cpufreq", "processor", "cpuidle", "idle_inject"]
            .iter()
            .any(|word| kind.contains(word))
    };
    let mut names = Vec::new();
    for (file, kind) in kinds.into_iter().filter(|(_, kind)| slows(kind)) {
        let state = file.replace("/type", "/cur_state");
        if let Ok(level) = reader.text(&state)
            && level != "0"
        {
            names.push(kind);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}
