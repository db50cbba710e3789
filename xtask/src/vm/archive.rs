//! The first file system of the machine: an archive that the kernel unpacks into memory (kernel:
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc::Builder;

use super::Parts;
use super::build::{self, Payload};
use super::console;
use super::machines::{Machine, NETWORK};
use super::network;
use crate::paths::{self, crate_folder};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Time limit of one test program on the machine.
const SUITE_SECONDS: u32 = 720;

/// Writes the archive of a machine and returns its path.
pub(crate) fn write(
    machine: &Machine,
    payload: &Payload,
    parts: &Parts,
    modules: &[PathBuf],
) -> Result<PathBuf> {
    let name = format!("{}{}", parts.arch.prefix(), machine.name);
    let (mut archive, path) = Archive::begin(&name, &parts.busybox)?;
    for module in modules {
        let name = module.file_name().context("a module has a name")?;
        archive.copy(module, &Path::new(MODULES).join(name))?;
    }
    let binary = build::stripped(parts.arch, payload.binary())?;
    archive.copy(&binary, payload.binary())?;
    for (library, place) in &payload.libraries {
        archive.copy(library, place)?;
    }
    for suite in machine.suites {
        let program = payload.folder_for(suite)?;
        archive.copy(&build::stripped(parts.arch, program)?, program)?;
        // The tests of the crate expect their working directory to exist.
        archive.folder(&crate_folder(suite.folder())?)?;
        if suite.package == "punctual-capi" {
            for (program, place) in &payload.kit {
                archive.copy(program, place)?;
            }
        }
    }
    if machine.name == NETWORK {
        for (file, place) in network::files(parts)? {
            archive.copy(&file, &place)?;
        }
    }
    archive.end(&script(machine, payload)?)?;
    Ok(path)
}

/// Folder of the tests' kernel modules on the machine. It is missing if they could not be built.
const MODULES: &str = "/modules";

/// The first lines of the init script of every machine.
pub(super) const START: &str = "#!/bin/sh\n\
    /bin/busybox --install -s /bin\n\
    export PATH=/bin HOME=/tmp TMPDIR=/tmp RUST_BACKTRACE=0 PUNCTUAL_VM=1\n\
    mount -t proc proc /proc\n\
    mount -t sysfs sysfs /sys\n\
    mount -t devtmpfs dev /dev\n";

/// Returns the init script of the machine. `PUNCTUAL_VM` tells tests that the task can stall the
/// machine on request. A few random cases are enough on the machine, because hundreds are tried
/// elsewhere.
fn script(machine: &Machine, payload: &Payload) -> Result<String> {
    let mut script = String::from(START);
    script.push_str("export PROPTEST_CASES=16\n");
    writeln!(script, "export PUNCTUAL_KIT_EXAMPLES={}", build::KIT)?;
    script.push_str(
        "mkdir -p /dev/shm /dev/mqueue /sys/fs/cgroup\n\
         mount -t tmpfs shm /dev/shm\n\
         mount -t mqueue mqueue /dev/mqueue\n\
         mount -t tracefs tracefs /sys/kernel/tracing\n\
         mount -t cgroup2 cgroup /sys/fs/cgroup\n\
         ip link set lo up\n",
    );
    writeln!(
        script,
        "for module in {MODULES}/*.ko; do [ ! -e $module ] || insmod $module; done"
    )?;
    if machine.name == NETWORK {
        script.push_str(&network::script());
    }
    script.push_str(machine.prepare);
    for suite in machine.suites {
        let name = console::suite_name(suite);
        writeln!(
            script,
            "echo '{begin} {name}'\ncd {folder}\ntimeout {SUITE_SECONDS} {program} --test-threads=1 --show-output {arguments} 2>&1\necho \"{end} {name} $?\"",
            begin = console::BEGIN,
            end = console::END,
            folder = crate_folder(suite.folder())?.display(),
            program = payload.folder_for(suite)?.display(),
            arguments = suite.arguments.join(" "),
        )?;
    }
    writeln!(script, "echo '{}'\npoweroff -f", console::FINISHED)?;
    Ok(script)
}

/// An archive that is being written.
pub(super) struct Archive {
    out: BufWriter<File>,
    /// Folders that are already in the archive, because each folder is written only once.
    folders: BTreeSet<PathBuf>,
    entries: u32,
}

impl Archive {
    /// Starts an archive with this name, and adds busybox. Returns it with its path.
    pub(super) fn begin(name: &str, busybox: &Path) -> Result<(Self, PathBuf)> {
        let folder = paths::folder();
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(format!("{name}.cpio"));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut archive = Self {
            out: BufWriter::new(file),
            folders: BTreeSet::new(),
            entries: 0,
        };
        for folder in ["proc", "sys", "dev", "tmp", "run", "etc"] {
            archive.folder(Path::new(folder))?;
        }
        archive.copy(busybox, Path::new("/bin/busybox"))?;
        archive.entry("bin/sh", LINK, b"busybox")?;
        Ok((archive, path))
    }

    /// Adds the init script, and finishes the archive.
    pub(super) fn end(mut self, script: &str) -> Result<()> {
        self.entry("init", PROGRAM, script.as_bytes())?;
        let mut out = cpio::newc::trailer(self.out).context("archive")?;
        Ok(out.flush()?)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too big"))?;
        let mut writer = Builder::new(name)
            .mode(mode)
            .ino(self.entries)
            .nlink(1)
            .write(&mut self.out, size);
        writer.write_all(content)?;
        writer.finish()?;
        Ok(())
    }

    /// Adds a folder and its parents.
    pub(super) fn folder(&mut self, path: &Path) -> Result<()> {
        let mut above: Vec<_> = path.ancestors().collect();
        above.reverse();
        for folder in above {
            let name = folder.strip_prefix("/").unwrap_or(folder);
            if name.as_os_str().is_empty() || !self.folders.insert(name.to_owned()) {
                continue;
            }
            self.entry(&name.to_string_lossy(), DIRECTORY, &[])?;
        }
        Ok(())
    }

    /// Adds a file at a path on the machine.
    pub(super) fn copy(&mut self, from: &Path, to: &Path) -> Result<()> {
        if let Some(folder) = to.parent() {
            self.folder(folder)?;
        }
        let name = to.strip_prefix("/").unwrap_or(to);
        if !self.folders.insert(name.to_owned()) {
            return Ok(());
        }
        let content = std::fs::read(from).with_context(|| from.display().to_string())?;
        self.entry(&name.to_string_lossy(), PROGRAM, &content)
    }
}
