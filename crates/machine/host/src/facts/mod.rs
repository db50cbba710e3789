//! All facts about a machine, one file per topic.

mod config;
mod cpu;
mod cpuinfo;
mod kernel;
mod names;
mod no_config;
mod packed;
mod preempt;
mod processor;
mod system;
mod virtualisation;

use punctual_model::{Fact, HostFacts};

use crate::fingerprint::fingerprint;
use crate::root::Root;
use config::KernelConfig;
use cpuinfo::CpuInfo;
pub(crate) use kernel::sched_ext;
pub use no_config::{NoConfig, NotAConfig};
pub(crate) use system::distribution_like;

/// List of online CPUs.
pub(crate) const ONLINE: &str = "/sys/devices/system/cpu/online";
/// List of present CPUs.
pub(crate) const PRESENT: &str = "/sys/devices/system/cpu/present";
/// The kernel's command line.
const COMMAND_LINE: &str = "/proc/cmdline";

/// Reads every fact.
pub(crate) fn facts(root: &Root) -> HostFacts {
    let info = CpuInfo::read(root);
    let release = names::release(root);
    let config = KernelConfig::find(root, release.get().map(String::as_str));
    let processor = processor::facts(root, &info, &config);
    let mut facts = HostFacts {
        fingerprint: String::new(),
        hostname: names::hostname(root),
        distribution: system::distribution(root),
        kernel: kernel::facts(root, release, &config),
        cpus: cpu::facts(root, &processor, &info),
        processor,
        clock: system::clock(root),
        memory: system::memory(root),
        virtualisation: virtualisation::facts(root, &info),
    };
    facts.fingerprint = fingerprint(&facts);
    facts
}

/// Returns the vendor of the processor, such as `GenuineIntel`.
pub(crate) fn vendor(root: &Root) -> Option<String> {
    processor::vendor(root, &CpuInfo::read(root)).value
}

/// Returns the text of the kernel's configuration, and the file that contains it.
pub(crate) fn kernel_config(root: &Root) -> Fact<String> {
    match find_config(root) {
        (file, Ok(text)) => Fact::known(text, file),
        (file, Err(reason)) => Fact::unknown(file, reason.to_string()),
    }
}

/// Returns the path of the file with the kernel's configuration, or its usual path. Also returns
/// the text of the file, or the reason why there is none.
pub(crate) fn find_config(root: &Root) -> (String, Result<String, NoConfig>) {
    let release = names::release(root);
    let config = KernelConfig::find(root, release.get().map(String::as_str));
    (config.source().to_owned(), config.into_text())
}

/// Returns whether facts include an option of the kernel's configuration, such as `PREEMPT_RT`.
pub fn keeps_option(name: &str) -> bool {
    config::matters(name)
}

/// Reads a configuration from the given file.
pub(crate) fn read_config(root: &Root, file: &str) -> Result<String, NotAConfig> {
    config::read(root, file)
}
