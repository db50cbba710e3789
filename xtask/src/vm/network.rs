//! Adds the requirements of the tests of launch times to an emulated machine: modules of its kernel,
//! and ip(8) and tc(8) of this machine.

use std::path::Path;

use anyhow::Result;

use super::Parts;
use super::archive::Archive;
use super::{build, kernel};
use crate::paths::program;

/// Name of the machine with these tests.
pub(super) const MACHINE: &str = "network";

/// Interfaces, queueing disciplines, and a reflector of frames.
const MODULES: [&str; 8] = [
    "veth",
    "sch_fq",
    "sch_etf",
    "sch_mqprio_lib",
    "sch_mqprio",
    "sch_ingress",
    "cls_u32",
    "act_mirred",
];

/// Folder of the modules on the machine.
const FOLDER: &str = "/modules";

/// Folder of the programs on the machine. It is not in `PATH`, so other tests use those of busybox.
const PROGRAMS: &str = "/usr/sbin";

/// Adds the modules and the programs to the archive of the machine. What is missing makes its tests
/// skip, with a visible line.
pub(super) fn add(archive: &mut Archive, parts: &Parts) -> Result<()> {
    for name in MODULES {
        match kernel::module(&parts.kernel, name, &parts.busybox) {
            Ok(module) => archive.copy(&module, &Path::new(FOLDER).join(format!("{name}.ko")))?,
            Err(lacking) => println!("SKIP the kernel's module {name}: {lacking:#}"),
        }
    }
    for name in ["ip", "tc"] {
        match program(name, "iproute2") {
            Ok(path) => {
                archive.copy(&path, &Path::new(PROGRAMS).join(name))?;
                for (library, place) in build::libraries_of(parts.arch, &path)? {
                    archive.copy(&library, &place)?;
                }
            }
            Err(lacking) => println!("SKIP the tests of launch times: {lacking:#}"),
        }
    }
    Ok(())
}

/// Returns the lines of the init script that load the modules.
pub(super) fn script() -> String {
    let load = |name: &str| format!("insmod {FOLDER}/{name}.ko\n");
    MODULES.into_iter().map(load).collect()
}
