//! The processors of the emulated machines: one row each.

use super::machines::{ARM64, MACHINES, Machine};

/// A processor, and what emulates it.
pub(crate) struct Arch {
    /// Its name, for `--arch`; that of Debian where it is not this machine's.
    pub(crate) name: &'static str,
    pub(super) qemu: &'static str,
    /// Debian's package of the emulator.
    pub(super) qemu_package: &'static str,
    /// Words of the emulator for this kind of machine.
    pub(super) machine: &'static [&'static str],
    /// The kernel's name of the serial console.
    pub(super) console: &'static str,
    /// The package whose dependency is the newest kernel of its line. The kernels
    /// 6.1 of the same distribution hang in the emulator now and then.
    pub(super) kernel: &'static str,
    /// What its programs are built for; none: this machine's own processor.
    pub(super) foreign: Option<Foreign>,
    pub(super) machines: &'static [Machine],
}

impl Arch {
    /// What the names of its files begin with, so that two do not meet in one folder.
    pub(super) fn prefix(&self) -> String {
        match self.foreign {
            Some(_) => format!("{}-", self.name),
            None => String::new(),
        }
    }
}

/// A processor that is not this machine's.
pub(super) struct Foreign {
    pub(super) target: &'static str,
    /// Debian's package of the compiler, and the beginning of its programs' names.
    pub(super) compiler: &'static str,
    pub(super) tools: &'static str,
    /// The folder of its C library, and what programs load from it into `/lib`.
    pub(super) libraries: &'static str,
    pub(super) loaded: &'static [&'static str],
}

/// All of them; the first is the gate's.
pub(super) const ARCHES: &[Arch] = &[
    Arch {
        name: "x86_64",
        qemu: "qemu-system-x86_64",
        qemu_package: "qemu-system-x86",
        // One thread for both CPUs: with one each, the emulator may run code that
        // the other CPU has just rewritten, as the kernel does to its own when an
        // event is turned on.
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
        // pauth-impdef: signing pointers by the architecture's cipher halves the speed.
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

/// The processor whose machine the gate runs.
pub(super) fn usual() -> &'static Arch {
    &ARCHES[0]
}
