//! Paths of boot loaders' files, for permanent parameters ([`crate::cmdline`]) and for entries that
//! are booted once ([`crate::boot_loader`]).

/// A folder of GRUB 2, and the generated configuration in that folder.
pub(crate) struct GrubFolder {
    pub(crate) folder: &'static str,
    pub(crate) config: &'static str,
}

/// GRUB's own name for the folder is `grub`. Debian and Arch Linux use it; Fedora and SUSE rename
/// the folder to `grub2`.
pub(crate) const GRUB: [GrubFolder; 2] = [
    GrubFolder {
        folder: "/boot/grub2",
        config: "/boot/grub2/grub.cfg",
    },
    GrubFolder {
        folder: "/boot/grub",
        config: "/boot/grub/grub.cfg",
    },
];

/// Folders of boot entries (Boot Loader Specification) for the usual mount points of the boot
/// partition.
pub(crate) const ENTRIES: [&str; 3] = [
    "/boot/loader/entries",
    "/efi/loader/entries",
    "/boot/efi/loader/entries",
];
