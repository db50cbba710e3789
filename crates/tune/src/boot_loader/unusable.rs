//! Why a boot loader cannot boot an entry once.

use super::BootError;
use super::grub::NEXT;
use crate::boot_files::GRUB;

/// Why GRUB cannot.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoGrub {
    #[error("no {}", GRUB.each_ref().map(|grub| grub.config).join(" and no "))]
    NoConfiguration,
    #[error("no {0}")]
    NoFile(String),
    #[error(transparent)]
    Unreadable(#[from] BootError),
    #[error("{folder}/grub.cfg does not read custom.cfg")]
    NoCustomEntries { folder: &'static str },
    #[error("{folder}/grub.cfg does not choose an entry for one boot")]
    NoChoice { folder: &'static str },
    #[error("{folder}/grubenv is no environment block")]
    NoBlock { folder: &'static str },
    #[error("{folder}/grub.cfg has no entry of the running kernel")]
    NoEntry { folder: &'static str },
}

/// What is wrong with GRUB's environment block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadBlock {
    /// It is another file.
    #[error("is no environment block")]
    NotABlock,
    /// Its variables fill it.
    #[error("has no room for {NEXT}")]
    Full,
    /// It was there before.
    #[error("is not there any more")]
    Gone,
}

/// Why systemd-boot cannot.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSystemdBoot {
    #[error("it did not boot this machine")]
    NotBooted,
    #[error("{0} booted this machine")]
    OtherLoader(String),
    #[error("the entry is not known")]
    NoSelection,
    #[error("'{0}' is no name of an entry")]
    NotAName(String),
    #[error("no file of the entry {0}")]
    NoFile(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grub_lacks_is_named() {
        let folder = "/boot/grub";
        for (why, text) in [
            (
                NoGrub::NoConfiguration,
                "no /boot/grub2/grub.cfg and no /boot/grub/grub.cfg",
            ),
            (NoGrub::NoFile("/x".to_owned()), "no /x"),
            (
                NoGrub::Unreadable(BootError::Changed { path: "/x".into() }),
                "/x was changed by another program: remove the part of punctual by hand",
            ),
            (
                NoGrub::NoCustomEntries { folder },
                "/boot/grub/grub.cfg does not read custom.cfg",
            ),
            (
                NoGrub::NoChoice { folder },
                "/boot/grub/grub.cfg does not choose an entry for one boot",
            ),
            (
                NoGrub::NoBlock { folder },
                "/boot/grub/grubenv is no environment block",
            ),
            (
                NoGrub::NoEntry { folder },
                "/boot/grub/grub.cfg has no entry of the running kernel",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_with_a_block_is_named() {
        for (why, text) in [
            (BadBlock::NotABlock, "/x: is no environment block"),
            (BadBlock::Full, "/x: has no room for next_entry"),
            (BadBlock::Gone, "/x: is not there any more"),
        ] {
            let path = "/x".into();
            assert_eq!(BootError::Unexpected { path, why }.to_string(), text);
        }
    }

    #[test]
    fn what_systemd_boot_lacks_is_named() {
        use NoSystemdBoot::*;
        for (why, text) in [
            (NotBooted, "it did not boot this machine"),
            (
                OtherLoader("rEFInd 0.14".to_owned()),
                "rEFInd 0.14 booted this machine",
            ),
            (NoSelection, "the entry is not known"),
            (NotAName("a/b".to_owned()), "'a/b' is no name of an entry"),
            (
                NoFile("arch.conf".to_owned()),
                "no file of the entry arch.conf",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
