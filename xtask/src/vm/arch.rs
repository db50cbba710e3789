//! The processors of the emulated machines, one row each.

use super::machines::{ARM64, MACHINES, Machine};

/// A processor and its emulator.
pub(crate) struct Arch {
    /// Name for `--arch`. For processors other than this machine's, this is Debian's name.
    pub(crate) name: &'static str,
    pub(super) qemu: &'static str,
    /// The Debian package of the emulator.
    pub(super) qemu_package: &'static str,
    /// Arguments of the emulator for this kind of machine.
    pub(super) machine: &'static [&'static str],
    /// The kernel's name of the serial console.
    pub(super) console: &'static str,
    /// The package that depends on the newest kernel of its series. Kernels 6.1 of the same
    /// distribution sometimes hang in the emulator.
    pub(super) kernel: &'static str,
    /// Rust target of the programs. `None` for this machine's own processor.
    pub(super) foreign: Option<Foreign>,
    pub(super) machines: &'static [Machine],
}

impl Arch {
    /// Returns a prefix for the names of the processor's files, so that several processors can
    /// share a folder.
    pub(super) fn prefix(&self) -> String {
        match self.foreign {
            Some(_) => format!("{}-", self.name),
            None => String::new(),
        }
    }
}

/// A processor other than this machine's.
pub(super) struct Foreign {
    pub(super) target: &'static str,
    /// The Debian package of the compiler, and the prefix of its programs.
    pub(super) compiler: &'static str,
    pub(super) tools: &'static str,
    /// The folder of its C library, and the libraries in `/lib` that programs load from it.
    pub(super) libraries: &'static str,
    pub(super) loaded: &'static [&'static str],
}

/// All processors. The gate uses the first.
pub(super) const ARCHES: &[Arch] = &[
    Arch {
        name: "x86_64",
        qemu: "qemu-system-x86_64",
        qemu_package: "qemu-system-x86",
        // One thread emulates both CPUs. If each CPU had a thread of its own, the emulator might
        // run a stale copy of code that the other CPU has just rewritten. The kernel rewrites code,
        // for example, when it enables an event.
        machine: &["-accel", "tcg,thread=single", "-cpu", "max"],
        console: "ttyS0",
        kernel: "linux-image-6.12-rt-amd64",
        foreign: None,
        machines: MACHINES,
    },
    Arch {
        name: "arm64",
        qemu: "qemu-system-aarch64",
        qemu_package: "qemu-system-arm",
        // pauth-impdef replaces the architecture's own cipher for signing pointers, because that
        // cipher halves the speed.
        machine: &[
            "-M",
            "virt",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max,pauth-impdef=on",
        ],
        console: "ttyAMA0",
        kernel: "linux-image-6.12-rt-arm64",
        foreign: Some(Foreign {
            target: "aarch64-unknown-linux-gnu",
            compiler: "gcc-aarch64-linux-gnu",
            tools: "aarch64-linux-gnu-",
            libraries: "/usr/aarch64-linux-gnu/lib",
            loaded: &[
                "ld-linux-aarch64.so.1",
                "libc.so.6",
                "libm.so.6",
                "libgcc_s.so.1",
            ],
        }),
        machines: ARM64,
    },
];

/// Returns the processor of the gate's machines.
pub(super) fn usual() -> &'static Arch {
    &ARCHES[0]
}
