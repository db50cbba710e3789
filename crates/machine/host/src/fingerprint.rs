//! A short identifier of a machine and its settings.

use std::fmt::{Display, Write};

use punctual_model::{CpuFacts, Fact, HostFacts, KernelFacts, ProcessorFacts};
use sha2::{Digest, Sha256};

use crate::root::Root;

/// Number of bytes of the hash that are used. They are written as sixteen hexadecimal digits.
const KEPT: usize = 8;

/// Words on the kernel's command line that name files of the boot loader. They can differ between
/// boots of the same machine and have no effect on its behaviour.
const BOOT_LOADER_WORDS: [&str; 3] = ["BOOT_IMAGE=", "initrd=", "kexec_jump_back_entry="];

/// Returns sixteen hexadecimal digits that are equal for equal machines with equal settings. The
/// digits are the start of the SHA-256 of the facts that describe hardware, kernel, command line,
/// firmware, clock source, frequency and idle settings, isolation, real-time limits, and whether
/// there is swap.
///
/// The hash leaves out:
///
/// - the host's name and distribution;
/// - facts that change by themselves or with each boot (the exact amount of memory, the list of
///   available clock sources);
/// - whether high-resolution timers are active: only root can see this, and it follows from the
///   kernel and the command line;
/// - the source of a fact, and the reason why it is unknown.
///
/// Whether a fact is known is part of the hash, so the fingerprint can differ if fewer files are
/// readable.
pub fn fingerprint(facts: &HostFacts) -> String {
    digits(&canonical_text(facts))
}

pub(crate) fn digits(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .take(KEPT)
        .fold(String::new(), |mut digits, byte| {
            // Writing to a string never fails.
            let _ = write!(digits, "{byte:02x}");
            digits
        })
}

/// Returns sixteen hexadecimal digits of a hash of machine-id(5). The hash is specific to this
/// program, so that other programs do not compute the same value. If that file is missing, returns
/// the machine's name, or `unknown` if the name is missing as well.
pub(crate) fn machine(root: &Root) -> String {
    match root.word("/etc/machine-id").value {
        Some(id) => digits(&format!("punctual recordings of {id}")),
        None => (root.word("/proc/sys/kernel/hostname").value).unwrap_or("unknown".to_owned()),
    }
}

/// Formats one line for each fact. The order and the words are part of the fingerprint: if they
/// change, every stored recording will appear to be from another machine.
fn canonical_text(facts: &HostFacts) -> String {
    let mut lines = Lines::default();
    kernel(&mut lines, &facts.kernel);
    processor(&mut lines, &facts.processor);
    for facts in &facts.cpus {
        cpu(&mut lines, facts);
    }
    lines.fact("clock.source", &facts.clock.source);
    lines.value(
        "memory.swap",
        facts.memory.swap_bytes.get().map(|swap| *swap > 0),
    );
    lines.fact("memory.thp", &facts.memory.transparent_huge_pages);
    let machine = &facts.virtualisation;
    lines.fact("machine.virtual", &machine.virtual_machine);
    lines.fact("machine.hypervisor", &machine.hypervisor);
    lines.fact("machine.model", &machine.machine);
    lines.fact("machine.firmware", &machine.firmware);
    lines.0
}

fn kernel(lines: &mut Lines, kernel: &KernelFacts) {
    lines.fact("kernel.release", &kernel.release);
    lines.fact("kernel.version", &kernel.version);
    lines.fact("kernel.architecture", &kernel.architecture);
    lines.fact("kernel.preempt_rt", &kernel.preempt_rt);
    lines.fact("kernel.preempt_model", &kernel.preempt_model);
    lines.value(
        "kernel.command_line",
        kernel.command_line.get().map(|line| settings_of(line)),
    );
    lines.fact("kernel.hz", &kernel.hz);
    lines.fact("kernel.lockdown", &kernel.lockdown);
    lines.fact("kernel.rt_runtime_us", &kernel.rt_runtime_us);
    lines.fact("kernel.rt_period_us", &kernel.rt_period_us);
    if let Some(name) = kernel.sched_ext.get().filter(|name| *name != "none") {
        lines.value("kernel.sched_ext", Some(name));
    }
}

fn processor(lines: &mut Lines, processor: &ProcessorFacts) {
    lines.fact("processor.model", &processor.model);
    lines.fact("processor.vendor", &processor.vendor);
    lines.fact("processor.microcode", &processor.microcode);
    lines.fact("processor.online", &processor.online);
    lines.fact("processor.present", &processor.present);
    lines.fact("processor.isolated", &processor.isolated);
    lines.fact("processor.nohz_full", &processor.nohz_full);
    lines.fact("processor.smt", &processor.smt);
    lines.fact("processor.idle_driver", &processor.idle_driver);
    lines.fact("processor.numa_nodes", &processor.numa_nodes);
}

fn cpu(lines: &mut Lines, cpu: &CpuFacts) {
    let key = |name: &str| format!("cpu{}.{name}", cpu.cpu);
    lines.fact(&key("package"), &cpu.package);
    lines.fact(&key("core"), &cpu.core);
    lines.fact(&key("siblings"), &cpu.siblings);
    lines.fact(&key("shares_cache_with"), &cpu.shares_cache_with);
    lines.fact(&key("governor"), &cpu.governor);
    lines.fact(&key("frequency_min_khz"), &cpu.frequency_min_khz);
    lines.fact(&key("frequency_max_khz"), &cpu.frequency_max_khz);
    let states = cpu.idle_states.get().map(|states| {
        let parts: Vec<String> = states
            .iter()
            .map(|state| {
                let (name, latency, off) = (&state.name, state.exit_latency_ns.0, state.disabled);
                format!("{name} {latency} {off}")
            })
            .collect();
        parts.join(",")
    });
    lines.value(&key("idle_states"), states);
}

/// Returns the kernel's command line without [`BOOT_LOADER_WORDS`].
fn settings_of(command_line: &str) -> String {
    let words: Vec<&str> = command_line
        .split_whitespace()
        .filter(|word| {
            !BOOT_LOADER_WORDS
                .iter()
                .any(|start| word.starts_with(start))
        })
        .collect();
    words.join(" ")
}

/// Lines of `key=value`, or `key?` if the value is unknown.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn fact<T: Display>(&mut self, key: &str, fact: &Fact<T>) {
        self.value(key, fact.get());
    }

    fn value<T: Display>(&mut self, key: &str, value: Option<T>) {
        match value {
            // A line break within a value would look like the next fact.
            Some(value) => {
                let value = value.to_string().replace('\\', "\\\\").replace('\n', "\\n");
                self.0.push_str(&format!("{key}={value}\n"));
            }
            None => self.0.push_str(&format!("{key}?\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{IdleState, Nanos};

    type Change = (&'static str, fn(&mut HostFacts));

    fn facts() -> HostFacts {
        punctual_model::testing::recording(2, 1).host
    }

    fn text(value: &str) -> Fact<String> {
        Fact::known(value.to_owned(), "x")
    }

    const COUNTED: &[Change] = &[
        ("release", |f| f.kernel.release = text("x")),
        ("version", |f| f.kernel.version = text("x")),
        ("architecture", |f| f.kernel.architecture = text("x")),
        ("preempt_rt", |f| f.kernel.preempt_rt.value = Some(false)),
        ("preempt_model", |f| f.kernel.preempt_model = text("x")),
        ("command_line", |f| f.kernel.command_line = text("quiet")),
        ("hz", |f| f.kernel.hz.value = Some(1)),
        ("lockdown", |f| f.kernel.lockdown = text("x")),
        ("rt_runtime_us", |f| f.kernel.rt_runtime_us.value = Some(-1)),
        ("rt_period_us", |f| f.kernel.rt_period_us.value = Some(1)),
        ("sched_ext", |f| f.kernel.sched_ext = text("lavd_1.0.6")),
        ("model", |f| f.processor.model = text("x")),
        ("vendor", |f| f.processor.vendor = text("x")),
        ("microcode", |f| f.processor.microcode = text("x")),
        ("online", |f| {
            f.processor.online.value = Some([0].into_iter().collect())
        }),
        ("present", |f| {
            f.processor.present.value = Some([0].into_iter().collect())
        }),
        ("isolated", |f| {
            f.processor.isolated.value = Some([1].into_iter().collect())
        }),
        ("nohz_full", |f| {
            f.processor.nohz_full = Fact::known([1].into_iter().collect(), "")
        }),
        ("smt", |f| f.processor.smt = text("off")),
        ("idle_driver", |f| f.processor.idle_driver = text("x")),
        ("numa_nodes", |f| {
            f.processor.numa_nodes.value = Some([0, 1].into_iter().collect())
        }),
        ("a CPU less", |f| drop(f.cpus.pop())),
        ("package", |f| f.cpus[1].package.value = Some(9)),
        ("core", |f| f.cpus[1].core.value = Some(9)),
        ("siblings", |f| {
            f.cpus[1].siblings.value = Some([0, 1].into_iter().collect())
        }),
        ("shares_cache_with", |f| {
            f.cpus[0].shares_cache_with.value = Some([0].into_iter().collect())
        }),
        ("governor", |f| f.cpus[1].governor = text("powersave")),
        ("frequency_min_khz", |f| {
            f.cpus[1].frequency_min_khz.value = Some(1)
        }),
        ("frequency_max_khz", |f| {
            f.cpus[1].frequency_max_khz.value = Some(1)
        }),
        ("idle state name", |f| idle(f).name = "C6".to_owned()),
        ("idle state latency", |f| idle(f).exit_latency_ns = Nanos(1)),
        ("idle state disabled", |f| idle(f).disabled = true),
        ("idle states unknown", |f| {
            f.cpus[0].idle_states = Fact::unknown("", "")
        }),
        ("clock source", |f| f.clock.source = text("hpet")),
        ("swap", |f| f.memory.swap_bytes.value = Some(1 << 30)),
        ("thp", |f| f.memory.transparent_huge_pages = text("always")),
        ("virtual_machine", |f| {
            f.virtualisation.virtual_machine.value = Some(true)
        }),
        ("hypervisor", |f| f.virtualisation.hypervisor = text("KVM")),
        ("machine", |f| f.virtualisation.machine = text("x")),
        ("firmware", |f| f.virtualisation.firmware = text("x")),
    ];

    const LEFT_OUT: &[Change] = &[
        ("nothing", |_| {}),
        ("hostname", |f| f.hostname = text("another")),
        ("distribution", |f| f.distribution.version = text("13")),
        ("memory", |f| f.memory.total_bytes.value = Some(1)),
        ("clock sources", |f| f.clock.available.value = None),
        ("high_resolution_timers", |f| {
            f.kernel.high_resolution_timers.value = None
        }),
        ("a source", |f| f.kernel.hz.source = "elsewhere".to_owned()),
        ("a reason", |f| {
            f.processor.nohz_full.unknown = Some("denied".to_owned())
        }),
        ("its own value", |f| f.fingerprint = "x".to_owned()),
        ("boot loader", |f| {
            let line = f.kernel.command_line.value.take().unwrap();
            f.kernel.command_line = text(&format!("BOOT_IMAGE=/x  {line}"));
        }),
    ];

    fn idle(facts: &mut HostFacts) -> &mut IdleState {
        &mut facts.cpus[0].idle_states.value.as_mut().unwrap()[0]
    }

    #[test]
    fn each_setting_counts_and_no_two_collide() {
        let mut seen = vec![fingerprint(&facts())];
        for (name, change) in COUNTED {
            let mut changed = facts();
            change(&mut changed);
            let print = fingerprint(&changed);
            assert!(!seen.contains(&print), "{name}");
            seen.push(print);
        }
    }

    #[test]
    fn what_changes_by_itself_does_not_count() {
        for (name, change) in LEFT_OUT {
            let mut changed = facts();
            change(&mut changed);
            assert_eq!(fingerprint(&changed), fingerprint(&facts()), "{name}");
        }
    }

    /// Recordings are stored for years, so any change of the canonical text must be deliberate.
    #[test]
    fn it_stays_what_it_is() {
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trees/controller");
        insta::assert_snapshot!(canonical_text(&crate::Host::new(tree).facts()));
    }

    #[test]
    fn a_line_break_is_no_new_fact() {
        let mut lines = Lines::default();
        lines.value("a", Some("1\nb=2\\n"));
        assert_eq!(lines.0, "a=1\\nb=2\\\\n\n");
    }
}
