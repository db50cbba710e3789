//! Files of GRUB, and entries of the Boot Loader Specification. GRUB's own files can contain parts
//! of the command lines of these entries.

use super::form::{Form, continued};
use super::tree::{Found, Line, Source, Tree, Variable};
use crate::boot_files::{ENTRIES, GRUB};

const DEFAULTS: &str = "/etc/default/grub";
const LINUX: &str = "GRUB_CMDLINE_LINUX";
const DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";
/// Configuration of s390x's boot loader.
pub(super) const ZIPL: &str = "/etc/zipl.conf";
/// Configuration of the program that writes the entries of Pop!_OS.
pub(super) const KERNELSTUB: &str = "/etc/kernelstub/configuration";
/// Where TuneD keeps its parameters if GRUB's environment block does not contain them.
const TUNED: &str = "/etc/tuned/bootcmdline";

/// Adds the sources of a shell variable of /etc/default/grub and /etc/default/grub.d, and returns
/// the position of the last one. grub-mkconfig reads the files of grub.d later (Debian and Ubuntu).
/// An assignment can continue the value of the one before.
fn variable(
    tree: &Tree,
    name: &'static str,
    others: &[Variable],
    found: &mut Found,
) -> Option<usize> {
    let mut files = vec![DEFAULTS.to_owned()];
    files.extend(tree.with_ending("/etc/default/grub.d", ".cfg"));
    let mut before: Option<usize> = None;
    for file in files {
        let continued = continued(&tree.text(&file), name);
        for (place, continues) in continued.iter().enumerate() {
            let mut source = Source::new(&file, Form::Variable(name, continued.len() - 1 - place));
            source.variables = others.to_vec();
            if let Some(before) = before.filter(|_| *continues) {
                source.variables.push(Variable {
                    name,
                    sources: vec![before],
                });
            }
            before = Some(found.add(source));
        }
    }
    before
}

/// Adds the sources of the variables in GRUB's environment block: the parameters of TuneD, and those
/// of all entries (RHEL 8).
fn environment(tree: &Tree, found: &mut Found) -> Vec<Variable> {
    let mut blocks: Vec<String> = GRUB.map(|grub| grub.folder.to_owned()).to_vec();
    // On EFI machines, RHEL 8 has the block on the EFI partition.
    blocks.extend(tree.with_ending("/boot/efi/EFI", ""));
    let blocks: Vec<String> = blocks
        .iter()
        .map(|folder| format!("{folder}/grubenv"))
        .collect();
    let has = |file: &str, name: &str| {
        let is = |line: &str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('='))
        };
        tree.text(file).lines().any(is)
    };
    let mut variables = Vec::new();
    for (name, owner) in [("tuned_params", Some("TuneD")), ("kernelopts", None)] {
        let block = blocks.iter().find(|file| has(file, name));
        let source = match block {
            Some(file) => Source::new(file, Form::Environment(name)),
            None if owner.is_some() && has(TUNED, "TUNED_BOOT_CMDLINE") => {
                Source::new(TUNED, Form::Variable("TUNED_BOOT_CMDLINE", 0))
            }
            None => continue,
        };
        let place = found.add(Source { owner, ..source });
        variables.push(Variable {
            name,
            sources: vec![place],
        });
    }
    variables
}

/// Adds the command line that grub-mkconfig generates: `GRUB_CMDLINE_LINUX` comes before
/// `GRUB_CMDLINE_LINUX_DEFAULT` (grub-mkconfig, 10_linux). New parameters are added to `target`.
fn generated(tree: &Tree, target: &str, variables: &[Variable], found: &mut Found) {
    let [first, last] = [LINUX, DEFAULT].map(|name| {
        let place = variable(tree, name, variables, found);
        let wanted = || found.add(Source::new(DEFAULTS, Form::Variable(name, 0)));
        place.or_else(|| (name == target).then(wanted))
    });
    let add_to = if target == LINUX { first } else { last };
    if let Some(add_to) = add_to {
        found.lines.push(Line {
            entry: DEFAULTS.to_owned(),
            parts: first.into_iter().chain(last).collect(),
            add_to,
        });
    }
}

/// GRUB, if its configuration is generated from /etc/default/grub. `..._DEFAULT` does not apply to
/// the recovery entries (GRUB manual, "Simple configuration").
pub(super) fn grub(tree: &Tree) -> Option<Found> {
    tree.first(&[DEFAULTS])?;
    let mut found = Found::default();
    let variables = environment(tree, &mut found);
    generated(tree, DEFAULT, &variables, &mut found);
    let update = tree.first(&["/usr/sbin/update-grub"]);
    let make = tree.first(&[
        "/usr/sbin/grub2-mkconfig",
        "/usr/bin/grub-mkconfig",
        "/usr/sbin/grub-mkconfig",
    ]);
    let config = tree.first(&GRUB.each_ref().map(|grub| grub.config));
    match (update, make, config) {
        (Some(update), ..) => found.command = vec![update.to_owned()],
        (None, Some(make), Some(config)) => {
            found.command = [make, "-o", config].map(str::to_owned).to_vec();
        }
        _ => {
            let note = "no update-grub or grub-mkconfig was found: regenerate grub.cfg yourself";
            found.notes.push(note.to_owned());
        }
    }
    Some(found)
}

/// Entries as defined in the Boot Loader Specification (systemd-boot, GRUB of Fedora and its
/// derivatives, and zipl), and the templates of new entries.
pub(super) fn boot_entries(tree: &Tree) -> Option<Found> {
    let all: Vec<String> = ENTRIES
        .iter()
        .flat_map(|folder| tree.with_ending(folder, ".conf"))
        .collect();
    let is_spare = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        ["rescue", "fallback", "recovery"]
            .iter()
            .any(|word| name.contains(word))
    };
    let (spare, entries): (Vec<_>, Vec<_>) = all.into_iter().partition(is_spare);
    if entries.is_empty() {
        return None;
    }
    let mut found = Found::default();
    let variables = environment(tree, &mut found);
    for entry in entries {
        let mut source = Source::new(entry, Form::Keyword("options"));
        source.variables.clone_from(&variables);
        found.add_line(source);
    }
    if let Some(file) = tree.first(&["/etc/kernel/cmdline"]) {
        let mut source = Source::new(file, Form::Line);
        source.variables.clone_from(&variables);
        found.add_line(source);
    }
    if tree.has(KERNELSTUB) {
        found.add_line(Source::new(KERNELSTUB, Form::Kernelstub));
    }
    if !continued(&tree.text(DEFAULTS), LINUX).is_empty() {
        generated(tree, LINUX, &variables, &mut found);
    }
    if !spare.is_empty() {
        let spare = spare.join(", ");
        found.notes.push(format!(
            "{spare} is not changed, so you can boot it if the edited entry fails"
        ));
    }
    if tree.has(ZIPL) {
        let (command, notes) = zipl_program(tree);
        found.command = command;
        found.notes.extend(notes);
    }
    Some(found)
}

/// Returns the program that writes the boot record of s390x, or a note if it is missing.
pub(super) fn zipl_program(tree: &Tree) -> (Vec<String>, Vec<String>) {
    match tree.first(&["/usr/sbin/zipl", "/sbin/zipl"]) {
        Some(program) => (vec![program.to_owned()], Vec::new()),
        None => {
            let note = "no zipl was found: run it yourself, because it writes the boot record";
            (Vec::new(), vec![note.to_owned()])
        }
    }
}
