//! Paths of boot loaders' files, for permanent parameters ([`crate::cmdline`]) and for entries of
//! one boot ([`crate::boot_loader`]).

/// A folder of GRUB 2 and the configuration that is generated in it.
pub(crate) struct GrubFolder {
    pub(crate) folder: &'static str,
    pub(crate) config: &'static str,
}

/// Fedora and SUSE rename the folder that Debian and Arch Linux leave as upstream has it.
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

/// Folders of entries (Boot Loader Specification), depending on where the partition is mounted.
pub(crate) const ENTRIES: [&str; 3] = [
    "/boot/loader/entries",
    "/efi/loader/entries",
    "/boot/efi/loader/entries",
];
