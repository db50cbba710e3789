//! Facts about the processor as a whole.

use punctual_model::{CpuSet, Fact, ProcessorFacts};

use super::config::KernelConfig;
use super::cpuinfo::{CPUINFO, CpuInfo, arm_core, arm_implementer};
use super::{ONLINE, PRESENT};
use crate::isolation::{self, NOHZ_FULL};
use crate::root::Root;
use crate::unread::Unparsed;

pub(super) fn facts(root: &Root, info: &CpuInfo, config: &KernelConfig) -> ProcessorFacts {
    ProcessorFacts {
        model: model(info),
        vendor: vendor(root, info),
        microcode: microcode(root, info),
        online: root.cpu_list(ONLINE),
        present: root.cpu_list(PRESENT),
        isolated: isolation::isolated(root),
        nohz_full: nohz_full(root, config),
        smt: root.word("/sys/devices/system/cpu/smt/control"),
        idle_driver: root.word("/sys/devices/system/cpu/cpuidle/current_driver"),
        numa_nodes: root.cpu_list("/sys/devices/system/node/online"),
    }
}

/// Returns the processor's own name for its model. On Arm, returns the names of its cores, because
/// `model name` is missing there or contains only the instruction set.
fn model(info: &CpuInfo) -> Fact<String> {
    let cores = info.arm_cores();
    if !cores.is_empty() {
        let names: Vec<String> = cores
            .iter()
            .map(|(implementer, part)| arm_core(*implementer, *part))
            .collect();
        return Fact::known(names.join(" + "), CPUINFO);
    }
    // Keys by architecture: x86 and LoongArch, MIPS, PowerPC, RISC-V, 32-bit Arm processors that
    // have no part numbers.
    first_of(
        info,
        &[
            "model name",
            "Model Name",
            "cpu model",
            "cpu",
            "uarch",
            "Hardware",
        ],
    )
}

/// Returns the vendor ID (`GenuineIntel`), or the maker's name on Arm.
pub(super) fn vendor(root: &Root, info: &CpuInfo) -> Fact<String> {
    let cores = info.arm_cores();
    if let Some(maker) = cores.first().and_then(|(id, _)| arm_implementer(*id)) {
        return Fact::known(maker.to_owned(), CPUINFO);
    }
    let vendor = first_of(info, &["vendor_id", "mvendorid"]);
    match vendor.value {
        None if root.is_live() => cpuid_vendor().unwrap_or(vendor),
        _ => vendor,
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn cpuid_vendor() -> Option<Fact<String>> {
    let vendor = raw_cpuid::CpuId::new().get_vendor_info()?;
    Some(Fact::known(vendor.as_str().to_owned(), "CPUID 0"))
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn cpuid_vendor() -> Option<Fact<String>> {
    None
}

/// Returns the microcode version, from /proc/cpuinfo on x86 and from a separate file otherwise.
fn microcode(root: &Root, info: &CpuInfo) -> Fact<String> {
    let named = first_of(info, &["microcode"]);
    match named.value {
        Some(_) => named,
        None => {
            let file = root.word("/sys/devices/system/cpu/cpu0/microcode/version");
            if file.value.is_some() { file } else { named }
        }
    }
}

/// In a kernel without `CONFIG_NO_HZ_FULL`, the file does not exist, and no CPU can be in the set.
fn nohz_full(root: &Root, config: &KernelConfig) -> Fact<CpuSet> {
    let file = root.cpu_list(NOHZ_FULL);
    match (&file.value, config.is_on("CONFIG_NO_HZ_FULL")) {
        (None, Ok(false)) => Fact::known(CpuSet::new(), config.source()),
        _ => file,
    }
}

/// Returns the value of the first of these keys that /proc/cpuinfo contains.
fn first_of(info: &CpuInfo, keys: &[&str]) -> Fact<String> {
    match keys.iter().find_map(|key| info.first(key)) {
        Some(value) => Fact::known(value.to_owned(), CPUINFO),
        None => Fact::unknown(
            CPUINFO,
            match info.unreadable() {
                Some(reason) => reason.to_string(),
                None => Unparsed::NoLine(keys[0].to_owned()).to_string(),
            },
        ),
    }
}
