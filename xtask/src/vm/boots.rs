//! An experiment on boots in the emulated machine: two kernel command lines, with one block for
//! each boot.
//!
//! State that survives a boot (the store, /boot, the units) is in a folder of this machine, which
//! the emulated one mounts (9p). The task acts as GRUB: it boots the entry that the environment
//! block selects for one boot, and clears this selection. The init script acts as systemd: it runs
//! the command of the unit.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use super::arch;
use super::archive::{Archive, START};
use super::boot::{Machinery, emulator, lines_of, usual};
use super::machines::TWO;
use super::{Parts, STARTS, build, kernel, needed};
use crate::paths;

/// Options of `cargo xtask vm-boots`.
#[derive(Args)]
pub(crate) struct Options {
    /// Show all output of the machine's console.
    #[arg(long)]
    verbose: bool,
}

/// The command lines that are compared.
const COMPARED: [&str; 2] = ["nohz=off", "nohz=on"];

const PAIRS: usize = 6;

/// Number of measured boots in `cargo xtask vm`.
const FEW: usize = 2;

/// Modules for mounting the folder, in load order.
const MODULES: [&str; 4] = ["netfs", "9pnet", "9pnet_virtio", "9p"];

/// Longest silence on the console.
const SILENCE: Duration = Duration::from_secs(240);

/// The line that a boot prints after finishing its work.
const FINISHED: &str = "@@ finished";

/// Runs six pairs of boots and returns whether the result is correct.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let parts = needed(arch::usual())?;
    measure(&parts, &build::punctual()?, 2 * PAIRS, options.verbose)
}

/// Runs only a few boots of an experiment with six pairs, and then deletes the experiment.
pub(super) fn few(parts: &Parts, binary: &Path, verbose: bool) -> Result<bool> {
    measure(parts, binary, FEW, verbose)
}

fn measure(parts: &Parts, binary: &Path, boots: usize, verbose: bool) -> Result<bool> {
    println!("machine boots: {boots} boots of {} are measured", 2 * PAIRS);
    let state = State::new()?;
    let machine = Booted {
        parts,
        archive: archive(parts, binary)?,
        state: &state,
        verbose,
    };
    // The first boot creates the plan. Each later boot is a block.
    for boot in 0..=boots {
        if boot == boots {
            std::fs::write(state.path("end"), "")?;
        }
        let words = state.next_words()?;
        println!("boots: boot {boot} of {boots} with {words}");
        machine.come_up(&words)?;
    }
    state.judge(boots)
}

/// State that survives a boot.
struct State {
    folder: PathBuf,
    /// The initial files of /boot and /etc/systemd.
    before: Vec<(PathBuf, Vec<u8>)>,
}

impl State {
    fn new() -> Result<Self> {
        let folder = paths::folder().join("boots-state");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut state = Self {
            folder,
            before: Vec::new(),
        };
        state.write(
            "boot/grub/grub.cfg",
            &format!(
                "if [ \"${{next_entry}}\" ]; then\n  set default=\"${{next_entry}}\"\nfi\n\
                 menuentry 'Emulated' {{\n\tlinux /vmlinuz {}\n\tinitrd /initrd\n}}\n\
                 source custom.cfg\n",
                usual(arch::usual())
            ),
        )?;
        state.write("boot/grub/grubenv", &environment())?;
        state.write("systemd/system/other.service", "[Service]\n")?;
        state.before = state.files()?;
        Ok(state)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Acts as GRUB: returns the arguments of the entry selected for this boot, and clears the
    /// selection before the kernel starts.
    fn next_words(&self) -> Result<String> {
        let block = std::fs::read_to_string(self.path("boot/grub/grubenv"))?;
        let chosen = block
            .lines()
            .find_map(|line| line.strip_prefix("next_entry="));
        let id = chosen.unwrap_or_default().trim_end_matches('#');
        self.write("boot/grub/grubenv", &environment())?;
        let file = match id {
            "" => "boot/grub/grub.cfg",
            _ => "boot/grub/custom.cfg",
        };
        let entries = std::fs::read_to_string(self.path(file))?;
        let entry = match id {
            "" => entries.as_str(),
            id => {
                let found = entries.split_once(&format!("--id {id} "));
                found.with_context(|| format!("no entry {id}"))?.1
            }
        };
        let line = entry
            .lines()
            .find_map(|line| line.trim().strip_prefix("linux "));
        Ok(format!(
            "BOOT_IMAGE={}",
            line.context("an entry has a kernel")?
        ))
    }

    /// Returns the files that an experiment may change, except the environment block.
    fn files(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut found = Vec::new();
        for folder in ["boot", "systemd"] {
            collect(&self.path(folder), &mut found)?;
        }
        found.retain(|(path, _)| !path.ends_with("grubenv"));
        found.sort();
        Ok(found)
    }

    /// Returns whether the experiment matches the request and whether it has restored all files.
    fn judge(&self, boots: usize) -> Result<bool> {
        let path = self.path("result.json");
        let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let experiment: Value = serde_json::from_slice(&text)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let blocks = list(&experiment["blocks"]);
        let attempts = list(&experiment["boots"]["attempts"]);
        ensure!(
            blocks.len() == boots,
            "{} blocks instead of {boots}",
            blocks.len()
        );
        let mut ids = Vec::new();
        for (block, attempt) in blocks.iter().zip(&attempts) {
            let arm = block["arm"].as_u64().context("a block has a condition")?;
            let words = COMPARED[usize::try_from(arm)?.min(1)];
            let line = attempt["command_line"].as_str().unwrap_or_default();
            ensure!(
                line.split(' ').any(|word| word == words) && attempt["outcome"] == "measured",
                "a boot with {words} had: {line}"
            );
            ids.push(attempt["boot"].to_string());
        }
        ids.sort();
        ids.dedup();
        ensure!(ids.len() == boots, "{} boots instead of {boots}", ids.len());
        if boots == 2 * PAIRS {
            let pairs = &experiment["results"][0]["pairs"];
            ensure!(
                experiment["state"] == "finished" && *pairs == PAIRS,
                "{experiment}"
            );
        }
        let left = self.files()?;
        ensure!(left == self.before, "left behind: {left:?}");
        println!(
            "machine boots: {boots} boots measured, each with its own command line; files as before"
        );
        Ok(true)
    }
}

fn environment() -> String {
    format!("{:#<1024}", "# GRUB Environment Block\n")
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            collect(&path, found)?;
        } else {
            found.push((path.clone(), std::fs::read(&path)?))
        }
    }
    Ok(())
}

/// The machine that is booted repeatedly.
struct Booted<'a> {
    parts: &'a Parts,
    archive: PathBuf,
    state: &'a State,
    verbose: bool,
}

impl Booted<'_> {
    /// Boots repeatedly until the program is reached. A boot that fails before that does not change
    /// the state.
    fn come_up(&self, words: &str) -> Result<()> {
        for start in 1..=STARTS {
            if self.boot(words)? {
                return Ok(());
            }
            println!("boots: the machine did not come up (start {start} of {STARTS})");
        }
        bail!("the machine did not come up")
    }

    /// Boots once until the emulator ends. Returns whether the program was reached.
    fn boot(&self, words: &str) -> Result<bool> {
        let share = format!(
            "local,path={},mount_tag=state,security_model=none",
            self.state.folder.display()
        );
        let mut command = emulator(self.parts, &self.archive, words, TWO);
        command.args(["-virtfs", &share]);
        let mut child = Machinery(command.spawn().context("qemu")?);
        let lines = lines_of(&mut child.0)?;
        let (mut reached, mut said) = (false, Vec::new());
        loop {
            match lines.recv_timeout(SILENCE) {
                Ok(line) => {
                    if self.verbose {
                        println!("boots | {line}");
                    }
                    reached |= line.contains("@@ begin");
                    if let Some((_, failed)) = line.split_once("@@ failed") {
                        bail!("{failed}:\n{}", said.join("\n"));
                    }
                    if line.contains(FINISHED) {
                        return Ok(true);
                    }
                    said.push(line);
                }
                Err(RecvTimeoutError::Timeout) if reached => {
                    bail!("the machine hangs:\n{}", said.join("\n"))
                }
                Err(_) => return Ok(reached),
            }
        }
    }
}

fn archive(parts: &Parts, binary: &Path) -> Result<PathBuf> {
    let (mut archive, path) = Archive::begin("boots", &parts.busybox)?;
    archive.copy(
        &build::stripped(parts.arch, binary)?,
        Path::new("/bin/punctual"),
    )?;
    for (library, place) in build::libraries_of(parts.arch, binary)? {
        archive.copy(&library, &place)?;
    }
    for name in MODULES {
        let module = kernel::module(&parts.kernel, name, &parts.busybox)?;
        archive.copy(&module, Path::new(&format!("/modules/{name}.ko")))?;
    }
    archive.folder(Path::new("/boot"))?;
    archive.folder(Path::new("/state"))?;
    archive.folder(Path::new("/etc/systemd"))?;
    archive.end(&script())?;
    Ok(path)
}

/// Returns the init script. Exit status 4 means that nothing has been proven. `experiment` calls
/// `reboot` if systemd does not run. In the last boot, `reboot` does nothing, so that the results
/// can be read.
fn script() -> String {
    let modules: String = MODULES
        .iter()
        .map(|name| format!("insmod /modules/{name}.ko || echo '@@ failed {name}'\n"))
        .collect();
    let [a, b] = COMPARED;
    format!(
        "{START}{modules}\
         mount -t 9p -o trans=virtio,version=9p2000.L,cache=mmap state /state || \
         echo '@@ failed mount'\n\
         mount -o bind /state/boot /boot\n\
         mount -o bind /state/systemd /etc/systemd\n\
         rm /bin/reboot\n\
         printf '#!/bin/sh\\nsync\\n[ -e /state/end ] || busybox reboot -f\\n' > /bin/reboot\n\
         chmod +x /bin/reboot\n\
         export NO_COLOR=1 PUNCTUAL_STORE=/state/store.db XDG_STATE_HOME=/state\n\
         ended() {{\n\
         code=$?\n\
         [ $code = 0 ] || [ $code = 4 ] || echo \"@@ failed $1: exit status $code\"\n\
         }}\n\
         echo '@@ begin'\n\
         if [ -e /state/begun ]; then\n\
         for unit in /etc/systemd/system/punctual-experiment-*.service; do\n\
         sh -c \"$(sed -n 's/^ExecStart=//p' \"$unit\")\" ; ended 'the unit'\n\
         done\n\
         else\n\
         touch /state/begun\n\
         punctual experiment --boot '{a}' --boot '{b}' --pairs {PAIRS} --block 2s \
         --wash-out 200ms --no-early-end --write --reboot; ended 'the plan'\n\
         fi\n\
         punctual experiment show --json > /state/result.json\n\
         punctual experiment show\n\
         [ -e /state/end ] && punctual experiment delete last\n\
         sync\n\
         echo '{FINISHED}'\n\
         poweroff -f\n"
    )
}
