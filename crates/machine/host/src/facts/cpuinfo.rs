//! Parser of /proc/cpuinfo. The file consists of blocks of `key : value` lines. The keys differ by
//! architecture (`arch/*/kernel/cpu/proc.c` and similar files).

use crate::Unread;
use crate::root::Root;

pub(super) const CPUINFO: &str = "/proc/cpuinfo";

/// The text of /proc/cpuinfo, or the reason why there is none.
pub(super) struct CpuInfo(Result<String, Unread>);

impl CpuInfo {
    pub(super) fn read(root: &Root) -> Self {
        Self(root.text(CPUINFO))
    }

    /// Returns the reason why the file could not be read.
    pub(super) fn unreadable(&self) -> Option<&Unread> {
        self.0.as_ref().err()
    }

    /// Returns the values of `key`, one for each block that contains the key. A line with nothing
    /// after its colon has no value.
    pub(super) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .as_deref()
            .unwrap_or_default()
            .lines()
            .filter_map(move |line| {
                let (name, value) = line.split_once(':')?;
                let value = value.trim();
                (name.trim() == key && !value.is_empty()).then_some(value)
            })
    }

    /// Returns the first value of `key`.
    pub(super) fn first<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.values(key).next()
    }

    /// Returns whether the processor has `flag`. Returns `None` if /proc/cpuinfo lists no flags, as
    /// on architectures other than x86.
    pub(super) fn flag(&self, flag: &str) -> Option<bool> {
        Some(self.first("flags")?.split_whitespace().any(|f| f == flag))
    }

    /// Returns the implementer and part number of the Arm cores, with one entry for each kind of
    /// core.
    pub(super) fn arm_cores(&self) -> Vec<(u32, u32)> {
        let mut cores = Vec::new();
        let parts = self.values("CPU part").filter_map(hexadecimal);
        for core in self
            .values("CPU implementer")
            .filter_map(hexadecimal)
            .zip(parts)
        {
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
        cores
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Names of the makers of Arm cores, by their value of `CPU implementer`
/// (`arch/arm64/include/asm/cputype.h`).
const ARM_IMPLEMENTERS: &[(u32, &str)] = &[
    (0x41, "Arm"),
    (0x42, "Broadcom"),
    (0x43, "Cavium"),
    (0x46, "Fujitsu"),
    (0x48, "HiSilicon"),
    (0x4e, "NVIDIA"),
    (0x50, "APM"),
    (0x51, "Qualcomm"),
    (0x53, "Samsung"),
    (0x56, "Marvell"),
    (0x61, "Apple"),
    (0x69, "Intel"),
    (0x6d, "Microsoft"),
    (0xc0, "Ampere"),
];

/// Names of the cores that Arm designed, by their value of `CPU part`
/// (`arch/arm64/include/asm/cputype.h`, `arch/arm/include/asm/cputype.h`).
const ARM_PARTS: &[(u32, &str)] = &[
    (0xc05, "Cortex-A5"),
    (0xc07, "Cortex-A7"),
    (0xc08, "Cortex-A8"),
    (0xc09, "Cortex-A9"),
    (0xc0d, "Cortex-A12"),
    (0xc0e, "Cortex-A17"),
    (0xc0f, "Cortex-A15"),
    (0xd01, "Cortex-A32"),
    (0xd03, "Cortex-A53"),
    (0xd04, "Cortex-A35"),
    (0xd05, "Cortex-A55"),
    (0xd07, "Cortex-A57"),
    (0xd08, "Cortex-A72"),
    (0xd09, "Cortex-A73"),
    (0xd0a, "Cortex-A75"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse-N1"),
    (0xd0d, "Cortex-A77"),
    (0xd40, "Neoverse-V1"),
    (0xd41, "Cortex-A78"),
    (0xd42, "Cortex-A78AE"),
    (0xd44, "Cortex-X1"),
    (0xd46, "Cortex-A510"),
    (0xd47, "Cortex-A710"),
    (0xd48, "Cortex-X2"),
    (0xd49, "Neoverse-N2"),
    (0xd4b, "Cortex-A78C"),
    (0xd4d, "Cortex-A715"),
    (0xd4e, "Cortex-X3"),
    (0xd4f, "Neoverse-V2"),
    (0xd80, "Cortex-A520"),
    (0xd81, "Cortex-A720"),
    (0xd82, "Cortex-X4"),
];

/// Returns the maker of an Arm core.
pub(super) fn arm_implementer(implementer: u32) -> Option<&'static str> {
    lookup(ARM_IMPLEMENTERS, implementer)
}

/// Returns the name of an Arm core, such as `Cortex-A72`, or the core's numbers if it is not in the
/// table.
pub(super) fn arm_core(implementer: u32, part: u32) -> String {
    match (implementer, lookup(ARM_PARTS, part)) {
        (0x41, Some(name)) => name.to_owned(),
        _ => match arm_implementer(implementer) {
            Some(maker) => format!("{maker} part {part:#05x}"),
            None => format!("implementer {implementer:#04x} part {part:#05x}"),
        },
    }
}

fn lookup(table: &[(u32, &'static str)], key: u32) -> Option<&'static str> {
    table
        .iter()
        .find(|(number, _)| *number == key)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn info(text: &str) -> CpuInfo {
        CpuInfo(Ok(text.to_owned()))
    }

    #[test]
    fn keys_are_whole_and_flags_are_words() {
        let info =
            info("model\t\t: 106\nmodel name\t: Xeon: a\nflags\t: fpu hypervisor_x vmx\nempty :\n");
        assert_eq!(info.first("model"), Some("106"));
        assert_eq!(info.first("model name"), Some("Xeon: a"));
        assert_eq!(info.first("empty"), None);
        assert_eq!(info.flag("hypervisor"), Some(false));
        assert_eq!(info.flag("vmx"), Some(true));
        assert_eq!(super::CpuInfo(Ok(String::new())).flag("vmx"), None);
    }

    #[test]
    fn arm_cores_are_named_each_once() {
        let block = |part| format!("CPU implementer : 0x41\nCPU part : {part}\n\n");
        let text = block("0xd03") + &block("0xd03") + &block("0xd08");
        assert_eq!(info(&text).arm_cores(), [(0x41, 0xd03), (0x41, 0xd08)]);
        assert_eq!(arm_core(0x41, 0xd08), "Cortex-A72");
        assert_eq!(arm_core(0x41, 0xfff), "Arm part 0xfff");
        assert_eq!(arm_core(0x51, 0x001), "Qualcomm part 0x001");
        assert_eq!(arm_core(0x99, 0xd08), "implementer 0x99 part 0xd08");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(CPU part|CPU implementer|flags|processor|[ :0-9a-fx\\n\\PC]){0,60}") {
            let info = info(&text);
            let _ = (info.arm_cores(), info.flag("x"), info.first("processor"));
        }
    }
}
