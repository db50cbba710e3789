//! A table of boot loaders, with the files that contain their kernel parameters.

use std::path::Path;

use super::CmdlineError;
use super::form::Form;
use super::raspberry_pi;
use super::tree::{Found, Source, Tree};
use crate::boot_files::{ENTRIES, GRUB};

/// A boot loader.
pub(super) struct Loader {
    /// Name, for `--loader`.
    pub(super) name: &'static str,
    /// Finds its files on the system; `None` if the system does not use this boot loader.
    find: fn(&Tree) -> Option<Found>,
}

/// All boot loaders, most specific first.
const LOADERS: &[Loader] = &[
    Loader {
        name: "raspberry-pi",
        find: raspberry_pi::find,
    },
    Loader {
        name: "u-boot-menu",
        find: u_boot_menu,
    },
    Loader {
        name: "extlinux",
        find: extlinux,
    },
    Loader {
        name: "boot-entries",
        find: boot_entries,
    },
    Loader {
        name: "grub",
        find: grub,
    },
    Loader {
        name: "kernel-install",
        find: kernel_install,
    },
];

/// Returns the names, separated by commas.
fn names() -> String {
    let names: Vec<&str> = LOADERS.iter().map(|loader| loader.name).collect();
    names.join(", ")
}

/// Returns the loader with this name, or, if no name is given, the first loader that is found. Also
/// returns the names of other loaders that are present.
pub(super) fn find(
    root: &Path,
    wanted: Option<&str>,
) -> Result<(&'static Loader, Found, Vec<&'static str>), CmdlineError> {
    let tree = Tree::at(root);
    if wanted.is_some_and(|name| LOADERS.iter().all(|loader| loader.name != name)) {
        return Err(CmdlineError::NoSuchLoader {
            name: wanted.unwrap_or_default().chars().take(40).collect(),
            known: names(),
        });
    }
    let all = LOADERS
        .iter()
        .filter(|loader| wanted.is_none_or(|name| loader.name == name))
        .filter_map(|loader| Some((loader, (loader.find)(&tree)?)));
    let mut all = all;
    let Some((loader, found)) = all.next() else {
        return Err(CmdlineError::NoLoader { known: names() });
    };
    Ok((loader, found, all.map(|(other, _)| other.name).collect()))
}

/// Returns the command that changes the parameters of a system if they are part of an image or of a
/// declaration. The files of such a system are not edited.
pub(super) fn of_image(root: &Path, add: &[String], remove: &[String]) -> Option<String> {
    let tree = Tree::at(root);
    if tree.has("/etc/NIXOS") {
        let words: Vec<String> = add.iter().map(|word| format!("\"{word}\"")).collect();
        return Some(format!(
            "set `boot.kernelParams = [ {} ];` in configuration.nix, then run `nixos-rebuild boot`",
            words.join(" ")
        ));
    }
    if !tree.has("/run/ostree-booted") && !tree.has("/sysroot/ostree") && !tree.has("/ostree/repo")
    {
        return None;
    }
    if tree.has("/usr/bin/rpm-ostree") {
        let add = add
            .iter()
            .map(|word| format!(" --append-if-missing={word}"));
        let remove = remove
            .iter()
            .map(|word| format!(" --delete-if-present={word}"));
        let options: String = add.chain(remove).collect();
        return Some(format!("run `rpm-ostree kargs{options}` and reboot"));
    }
    if tree.has("/usr/bin/bootc") {
        let words: Vec<String> = add.iter().map(|word| format!("\"{word}\"")).collect();
        return Some(format!(
            "write `kargs = [{}]` to /usr/lib/bootc/kargs.d/10-punctual.toml of the image, build \
             it, then run `bootc upgrade`",
            words.join(", ")
        ));
    }
    Some("run `ostree admin kargs edit-in-place` with the parameters, and reboot".to_owned())
}

/// Debian's u-boot-menu generates extlinux.conf from /etc/default/u-boot.
fn u_boot_menu(tree: &Tree) -> Option<Found> {
    let program = tree.first(&["/usr/sbin/u-boot-update"])?;
    let file = tree.first(&["/etc/default/u-boot"])?;
    Some(Found {
        sources: vec![Source::new(file, Form::Variable("U_BOOT_PARAMETERS"))],
        command: vec![program.to_owned()],
        ..Found::default()
    })
}

/// The menu of U-Boot and syslinux, which NVIDIA Jetson also uses.
fn extlinux(tree: &Tree) -> Option<Found> {
    let file = tree.first(&[
        "/boot/extlinux/extlinux.conf",
        "/boot/extlinux.conf",
        "/extlinux/extlinux.conf",
    ])?;
    Some(Found {
        sources: vec![Source::new(file, Form::Append)],
        notes: vec![
            "only the default label is changed: other labels boot without the parameters".into(),
        ],
        ..Found::default()
    })
}

/// Entries as defined in the Boot Loader Specification (systemd-boot, and GRUB of Fedora and its
/// derivatives), and the templates of new entries.
fn boot_entries(tree: &Tree) -> Option<Found> {
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
    let entry = |path: String| Source::new(path, Form::Keyword("options"));
    let mut found = Found {
        sources: entries.into_iter().map(entry).collect(),
        ..Found::default()
    };
    if let Some(file) = tree.first(&["/etc/kernel/cmdline"]) {
        found.sources.push(Source::new(file, Form::Line));
    }
    let variable = "GRUB_CMDLINE_LINUX";
    if tree.assigns("/etc/default/grub", variable) {
        found
            .sources
            .push(Source::new("/etc/default/grub", Form::Variable(variable)));
    }
    if !spare.is_empty() {
        let spare = spare.join(", ");
        found.notes.push(format!(
            "{spare} is not changed, so you can boot it if the edited entry fails"
        ));
    }
    Some(found)
}

/// GRUB, if its configuration is generated from /etc/default/grub. `..._DEFAULT` does not apply to
/// the recovery entries (GRUB manual, "Simple configuration").
fn grub(tree: &Tree) -> Option<Found> {
    let variable = "GRUB_CMDLINE_LINUX_DEFAULT";
    let main = tree.first(&["/etc/default/grub"])?;
    // grub-mkconfig of Debian and Ubuntu reads these files after /etc/default/grub, so the last
    // assignment is effective.
    let parts = tree.with_ending("/etc/default/grub.d", ".cfg");
    let file = parts
        .into_iter()
        .rev()
        .find(|part| tree.assigns(part, variable))
        .unwrap_or_else(|| main.to_owned());
    let update = tree.first(&["/usr/sbin/update-grub"]);
    let make = tree.first(&[
        "/usr/sbin/grub2-mkconfig",
        "/usr/bin/grub-mkconfig",
        "/usr/sbin/grub-mkconfig",
    ]);
    let config = tree.first(&GRUB.each_ref().map(|grub| grub.config));
    let (command, notes) = match (update, make, config) {
        (Some(update), ..) => (vec![update.to_owned()], Vec::new()),
        (None, Some(make), Some(config)) => {
            let words = [make, "-o", config];
            (words.map(str::to_owned).to_vec(), Vec::new())
        }
        _ => {
            let note = "no update-grub or grub-mkconfig was found: regenerate grub.cfg yourself";
            (Vec::new(), vec![note.to_owned()])
        }
    };
    Some(Found {
        sources: vec![Source::new(file, Form::Variable(variable))],
        command,
        notes,
        ..Found::default()
    })
}

/// Unified kernel images, which contain the parameters of /etc/kernel/cmdline.
fn kernel_install(tree: &Tree) -> Option<Found> {
    let file = tree.first(&["/etc/kernel/cmdline"])?;
    let note = "this command does not rebuild unified kernel images: run `kernel-install add-all`, \
                or `mkinitcpio -P` on Arch Linux, before the reboot";
    Some(Found {
        sources: vec![Source::new(file, Form::Line)],
        notes: vec![note.to_owned()],
        ..Found::default()
    })
}
