//! Kernel command-line arguments that have no equivalent at run time. An argument with the same
//! effect as a [`Setting`](super::Setting) is in the row of that setting instead.

/// A kernel command-line argument with its recommended value.
#[derive(Debug)]
pub struct BootParameter {
    /// Its name: `isolcpus`.
    pub name: &'static str,
    /// The recommended value, with `{measured}` and `{housekeeping}` for CPUs. Empty for an
    /// argument without a value.
    pub value: &'static str,
    /// Architectures whose kernels support it, as uname(2) names them. Empty if the kernels of all
    /// architectures do.
    pub only: &'static [&'static str],
}

/// Names of 32-bit and 64-bit x86.
const X86: &[&str] = &["x86_64", "i686", "i586"];
const ARM64: &[&str] = &["aarch64"];

const fn to(name: &'static str, value: &'static str) -> BootParameter {
    only_on(&[], name, value)
}

const fn only_on(
    only: &'static [&'static str],
    name: &'static str,
    value: &'static str,
) -> BootParameter {
    BootParameter { name, value, only }
}

/// The arguments that doctor and profiles recommend
/// (Documentation/admin-guide/kernel-parameters.txt).
pub const BOOT_PARAMETERS: &[BootParameter] = &[
    to("isolcpus", "managed_irq,domain,{measured}"),
    to("irqaffinity", "{housekeeping}"),
    to("nohz", "on"),
    to("nohz_full", "{measured}"),
    to("rcu_nocbs", "{measured}"),
    to("rcu_nocb_poll", ""),
    to("rcutree.kthread_prio", "2"),
    to("rcutree.nohz_full_patience_delay", "1000"),
    to("workqueue.power_efficient", "1"),
    to("threadirqs", ""),
    to("skew_tick", "1"),
    to("nosoftlockup", ""),
    to("nmi_watchdog", "0"),
    only_on(X86, "tsc", "reliable"),
    only_on(X86, "processor.max_cstate", "1"),
    only_on(X86, "intel_idle.max_cstate", "1"),
    to("audit", "0"),
    to("efi", "noruntime"),
    only_on(X86, "iommu", "pt"),
    only_on(ARM64, "iommu.passthrough", "1"),
    only_on(X86, "intel_pstate", "passive"),
    to("loglevel", "4"),
];

impl BootParameter {
    /// Returns whether kernels of this architecture support it. True if the architecture is
    /// unknown.
    pub fn fits(&self, architecture: Option<&str>) -> bool {
        self.only.is_empty() || architecture.is_none_or(|name| self.only.contains(&name))
    }

    /// Returns the argument with these CPUs filled in.
    pub fn argument(&self, measured: &str, housekeeping: &str) -> String {
        let value = self.value.replace("{measured}", measured);
        match value.replace("{housekeeping}", housekeeping).as_str() {
            "" => self.name.to_owned(),
            value => format!("{}={value}", self.name),
        }
    }
}

/// Returns the parameter with this name.
pub fn boot_parameter(name: &str) -> Option<&'static BootParameter> {
    BOOT_PARAMETERS.iter().find(|row| row.name == name)
}

/// The occurrences of a parameter that the kernel obeys, if the command line contains it more than
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatRule {
    /// Only the first one.
    First,
    /// Only the last one.
    Last,
    /// All of them.
    All,
}

/// Parameters of which the first occurrence wins: the kernel ignores a later one with other CPUs
/// (kernel/sched/isolation.c, housekeeping_setup).
const FIRST: [&str; 2] = ["isolcpus", "nohz_full"];

/// Parameters of which each occurrence has an effect. A name that ends with a dot stands for all
/// names that begin with it: those of dracut.
const ALL: [&str; 14] = [
    "blacklist",
    "console",
    "crashkernel",
    "dyndbg",
    "earlycon",
    "efi",
    "hugepages",
    "hugepagesz",
    "initcall_blacklist",
    "memmap",
    "modprobe.blacklist",
    "pci",
    "rd.",
    "video",
];

impl RepeatRule {
    /// Returns the rule for the parameter with this name.
    pub fn of(name: &str) -> Self {
        let name = name.replace('-', "_");
        let all = |one: &&str| match one.strip_suffix('.') {
            Some(_) => name.starts_with(*one),
            None => name == **one,
        };
        if FIRST.contains(&name.as_str()) {
            Self::First
        } else if ALL.iter().any(all) {
            Self::All
        } else {
            Self::Last
        }
    }

    /// Selects the obeyed ones of all occurrences, which are in the order of the command line.
    pub fn select<T>(self, mut all: Vec<T>) -> Vec<T> {
        match self {
            Self::All => {}
            Self::First => all.truncate(1),
            Self::Last => drop(all.drain(..all.len().saturating_sub(1))),
        }
        all
    }
}

/// Returns whether a word of a command line is the parameter with this name. The kernel treats `-`
/// and `_` as equal (kernel/params.c, parameqn).
pub fn is_parameter(word: &str, name: &str) -> bool {
    let own = word.split_once('=').map_or(word, |(own, _)| own);
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
    own.bytes().map(plain).eq(name.bytes().map(plain))
}

/// Returns the words that the kernel obeys, of the words with the name of `parameter`.
pub fn obeyed_words<'a>(words: impl IntoIterator<Item = &'a str>, parameter: &str) -> Vec<&'a str> {
    let name = parameter
        .split_once('=')
        .map_or(parameter, |(name, _)| name);
    let all = words.into_iter().filter(|word| is_parameter(word, name));
    RepeatRule::of(name).select(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_argument_names_given_cpus() {
        let of = |name: &str| boot_parameter(name).unwrap().argument("2-3", "0-1");
        assert_eq!(of("isolcpus"), "isolcpus=managed_irq,domain,2-3");
        assert_eq!(of("irqaffinity"), "irqaffinity=0-1");
        assert_eq!(of("threadirqs"), "threadirqs");
    }

    #[test]
    fn each_parameter_has_its_rule() {
        let obeyed = |line: &'static str, name| obeyed_words(line.split(' '), name).join(" ");
        assert_eq!(
            obeyed("isolcpus=1 a isolcpus=2", "isolcpus=2"),
            "isolcpus=1"
        );
        assert_eq!(
            obeyed("rcu-nocbs=1 rcu_nocbs=2", "rcu_nocbs"),
            "rcu_nocbs=2"
        );
        assert_eq!(
            obeyed("console=a console=b", "console"),
            "console=a console=b"
        );
        assert_eq!(obeyed("rd.lvm.lv=a rd.lvm.lv=b", "rd.lvm.lv").len(), 23);
        assert_eq!(obeyed("quiet", "isolcpus"), "");
    }

    #[test]
    fn some_are_of_one_architecture() {
        let fits = |name: &str, machine| boot_parameter(name).unwrap().fits(machine);
        assert!(fits("intel_idle.max_cstate", Some("x86_64")));
        assert!(fits("intel_idle.max_cstate", None));
        assert!(!fits("intel_idle.max_cstate", Some("aarch64")));
        assert!(!fits("iommu.passthrough", Some("x86_64")));
        assert!(fits("isolcpus", Some("riscv64")));
    }
}
