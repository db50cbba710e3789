//! Finds the requirements of the tests of launch times on an emulated machine: modules of its kernel,
//! and ip(8) and tc(8) of this machine.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Parts;
use super::{build, kernel};
use crate::paths::program;

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
const FOLDER: &str = "/network";

/// Folder of the programs on the machine. It is not in `PATH`, so other tests use those of busybox.
const PROGRAMS: &str = "/usr/sbin";

/// Returns the modules and the programs, with their paths on the machine. If one is missing, its
/// tests skip, with a visible line.
pub(super) fn files(parts: &Parts) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files = Vec::new();
    for name in MODULES {
        let place = Path::new(FOLDER).join(format!("{name}.ko"));
        match kernel::module(&parts.kernel, name, &parts.busybox) {
            Ok(module) => files.push((module, place)),
            Err(lacking) => println!("SKIP the kernel's module {name}: {lacking:#}"),
        }
    }
    for name in ["ip", "tc"] {
        match program(name, "iproute2") {
            Ok(path) => {
                files.extend(build::libraries_of(parts.arch, &path)?);
                files.push((path, Path::new(PROGRAMS).join(name)));
            }
            Err(lacking) => println!("SKIP the tests of launch times: {lacking:#}"),
        }
    }
    Ok(files)
}

/// Returns the lines of the init script that load the modules.
pub(super) fn script() -> String {
    let load = |name: &str| format!("insmod {FOLDER}/{name}.ko\n");
    MODULES.into_iter().map(load).collect()
}
