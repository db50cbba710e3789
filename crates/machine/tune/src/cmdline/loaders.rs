//! A table of boot loaders, with the files that contain their kernel parameters.

use std::path::Path;

use super::form::Form;
use super::tree::{Found, Source, Tree};
use super::{CmdlineError, Unclear, grub, raspberry_pi};

/// A boot loader.
pub(super) struct Loader {
    /// Name, for `--loader`.
    pub(super) name: &'static str,
    /// Finds its files on the system; `None` if the system does not use this boot loader.
    find: fn(&Tree) -> Option<Found>,
}

const fn loader(name: &'static str, find: fn(&Tree) -> Option<Found>) -> Loader {
    Loader { name, find }
}

/// All boot loaders, most specific first.
const LOADERS: &[Loader] = &[
    loader("raspberry-pi", raspberry_pi::find),
    loader("u-boot-menu", u_boot_menu),
    loader("extlinux", extlinux),
    // U-Boot looks for extlinux.conf before it runs a script that reads one of these files.
    loader("armbian", armbian),
    loader("uenv", uenv),
    loader("limine", limine),
    loader("boot-entries", grub::boot_entries),
    loader("kernelstub", kernelstub),
    loader("zipl", zipl),
    loader("syslinux", syslinux),
    loader("grub", grub::grub),
    loader("flash-kernel", flash_kernel),
    loader("kernel-install", kernel_install),
];

/// Files of boot loaders that are not edited, and where the parameters belong.
const BY_HAND: &[(&str, &str)] = &[
    (
        "/boot/refind_linux.conf",
        "add the parameters to the quoted options of its first line",
    ),
    (
        "/boot/boot.ini",
        "add the parameters to bootargs in the line `setenv bootargs`",
    ),
    (
        "/media/boot/boot.ini",
        "add the parameters to bootargs in the line `setenv bootargs`",
    ),
    (
        "/boot/boot.cmd",
        "add the parameters to the line `setenv bootargs`, then run `mkimage -T script -C none -d \
         boot.cmd boot.scr` in /boot",
    ),
    (
        "/etc/lilo.conf",
        "add the parameters to `append=` of the default image, then run `lilo`",
    ),
    (
        "/etc/elilo.conf",
        "add the parameters to `append=` of the default image, then run `elilo`",
    ),
    (
        "/boot/grub/menu.lst",
        "add the parameters to the `kernel` line of the default entry (GRUB 0.97)",
    ),
    (
        "/boot/grub/grub.conf",
        "add the parameters to the `kernel` line of the default entry (GRUB 0.97)",
    ),
    ("/boot/grub/grub.cfg", GRUB_BY_HAND),
    ("/boot/grub2/grub.cfg", GRUB_BY_HAND),
    ("/boot/EFI/BOOT/grub.cfg", GRUB_BY_HAND),
    ("/boot/efi/EFI/BOOT/grub.cfg", GRUB_BY_HAND),
];

const GRUB_BY_HAND: &str =
    "there is no /etc/default/grub, so add the parameters to the `linux` line of the default entry";

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
        let by_hand = BY_HAND.iter().find(|(file, _)| tree.has(file));
        return Err(match by_hand.filter(|_| wanted.is_none()) {
            Some((file, how)) => CmdlineError::ByHand {
                file: (*file).to_owned(),
                how,
            },
            None => CmdlineError::NoLoader { known: names() },
        });
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
        command: vec![program.to_owned()],
        ..Found::single(Source::new(file, Form::Variable("U_BOOT_PARAMETERS", 0)))
    })
}

/// The menu of U-Boot, which NVIDIA Jetson also uses, and of extlinux.
fn extlinux(tree: &Tree) -> Option<Found> {
    labels(
        tree,
        &[
            "/boot/extlinux/extlinux.conf",
            "/boot/extlinux.conf",
            "/extlinux/extlinux.conf",
        ],
    )
}

fn syslinux(tree: &Tree) -> Option<Found> {
    labels(
        tree,
        &[
            "/boot/syslinux/syslinux.cfg",
            "/boot/efi/EFI/syslinux/syslinux.cfg",
            "/boot/EFI/syslinux/syslinux.cfg",
            "/efi/EFI/syslinux/syslinux.cfg",
            "/syslinux/syslinux.cfg",
            "/boot/syslinux.cfg",
            "/syslinux.cfg",
        ],
    )
}

fn labels(tree: &Tree, files: &[&'static str]) -> Option<Found> {
    let file = tree.first(files)?;
    Some(Found {
        notes: vec![
            "only the default label is changed: other labels boot without the parameters".into(),
        ],
        ..Found::single(Source::new(file, Form::Append))
    })
}

/// The boot scripts of Armbian and its relatives read this file at each boot.
fn armbian(tree: &Tree) -> Option<Found> {
    let file = tree.first(&[
        "/boot/armbianEnv.txt",
        "/boot/orangepiEnv.txt",
        "/boot/dietpiEnv.txt",
    ])?;
    Some(Found {
        notes: vec!["boot.cmd adds other parameters, which are not shown here".to_owned()],
        ..Found::single(Source::new(file, Form::Assignment("extraargs")))
    })
}

/// A file of variables that a script of U-Boot reads, for example on BeagleBone boards.
fn uenv(tree: &Tree) -> Option<Found> {
    const NAMES: [&str; 4] = ["cmdline", "bootargs", "optargs", "extraargs"];
    let file = tree.first(&["/boot/uEnv.txt", "/boot/firmware/uEnv.txt", "/uEnv.txt"])?;
    let text = tree.text(file);
    let assigns = |name: &&str| {
        let has = |line: &str| {
            line.strip_prefix(*name)
                .is_some_and(|rest| rest.starts_with('='))
        };
        text.lines().any(has)
    };
    // The scripts of BeagleBoard.org read `cmdline` if the file names a kernel by `uname_r`.
    let name = NAMES.into_iter().find(|name| assigns(name));
    let name = name.or_else(|| assigns(&"uname_r").then_some("cmdline"));
    Some(match name {
        Some(name) => Found::single(Source::new(file, Form::Assignment(name))),
        None => Found {
            unclear: Some((
                file.to_owned(),
                Unclear::NoVariable {
                    names: NAMES.join(", "),
                },
            )),
            ..Found::default()
        },
    })
}

fn limine(tree: &Tree) -> Option<Found> {
    let file = tree.first(&[
        "/boot/limine.conf",
        "/boot/limine/limine.conf",
        "/boot/EFI/limine/limine.conf",
        "/boot/EFI/BOOT/limine.conf",
        "/boot/efi/limine.conf",
        "/boot/efi/EFI/limine/limine.conf",
        "/boot/efi/EFI/BOOT/limine.conf",
        "/efi/limine.conf",
        "/efi/EFI/limine/limine.conf",
        "/efi/EFI/BOOT/limine.conf",
        "/limine.conf",
    ])?;
    let note = "only the default entry is changed: other entries boot without the parameters";
    let mut notes = vec![note.to_owned()];
    if tree.has("/etc/default/limine") {
        notes.push(
            "limine-entry-tool writes the entries again at a kernel update: also change \
             KERNEL_CMDLINE in /etc/default/limine"
                .to_owned(),
        );
    }
    Some(Found {
        notes,
        ..Found::single(Source::new(file, Form::Limine))
    })
}

/// The program that writes the entries of Pop!_OS, if the EFI partition is not mounted. It writes its
/// entries again when it runs.
fn kernelstub(tree: &Tree) -> Option<Found> {
    let file = tree.first(&[grub::KERNELSTUB])?;
    let program = tree.first(&["/usr/bin/kernelstub"]);
    let note =
        "the entry on the EFI partition changes when `kernelstub` runs: run it before the reboot";
    Some(Found {
        command: program.map(str::to_owned).into_iter().collect(),
        notes: program
            .is_none()
            .then(|| note.to_owned())
            .into_iter()
            .collect(),
        ..Found::single(Source::new(file, Form::Kernelstub))
    })
}

/// The scripts of flash-kernel (Debian and Ubuntu on Arm boards) read this variable.
fn flash_kernel(tree: &Tree) -> Option<Found> {
    let program = tree.first(&["/usr/sbin/flash-kernel"])?;
    let file = tree.first(&["/etc/default/flash-kernel"])?;
    Some(Found {
        command: vec![program.to_owned()],
        ..Found::single(Source::new(file, Form::Variable("LINUX_KERNEL_CMDLINE", 0)))
    })
}

/// The boot record of s390x. Entries that `defaultauto` collects belong to the loader
/// `boot-entries`.
fn zipl(tree: &Tree) -> Option<Found> {
    let file = tree.first(&[grub::ZIPL])?;
    let collects = |line: &str| line.trim() == "defaultauto";
    if tree.text(file).lines().any(collects) {
        return None;
    }
    let (command, notes) = grub::zipl_program(tree);
    Some(Found {
        command,
        notes,
        ..Found::single(Source::new(file, Form::Zipl))
    })
}

/// Unified kernel images, which contain the parameters of /etc/kernel/cmdline.
fn kernel_install(tree: &Tree) -> Option<Found> {
    let file = tree.first(&["/etc/kernel/cmdline"])?;
    let note = "this command does not rebuild unified kernel images: run `kernel-install add-all`, \
                or `mkinitcpio -P` on Arch Linux, before the reboot";
    Some(Found {
        notes: vec![note.to_owned()],
        ..Found::single(Source::new(file, Form::Line))
    })
}
