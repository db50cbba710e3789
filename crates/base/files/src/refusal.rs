//! Why a file is not used that another user may have put in its place.

/// What was found, and what to do. The caller adds the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    // Files that are written.
    /// A link that an output would follow.
    #[error(
        "a link of another user (uid {uid}) in a folder that others may write to; choose another \
         path"
    )]
    StrangeLink {
        /// Its owner.
        uid: u32,
    },
    /// A file that an output would replace.
    #[error(
        "a file of another user (uid {uid}) in a folder that others may write to; choose another \
         path"
    )]
    StrangeFile {
        /// Its owner.
        uid: u32,
    },
    /// A named pipe that an output would be written to.
    #[error("a named pipe of another user (uid {uid}); write to stdout (-) and redirect it")]
    StrangePipe {
        /// Its owner.
        uid: u32,
    },
    /// Neither a file nor a pipe nor a device of characters.
    #[error("a socket or a disk; choose another path")]
    SocketOrDisk,

    // Files that are obeyed.
    /// Whoever owns this link can exchange the file.
    #[error("its path leads through a link of another user (uid {uid})")]
    LinkOnItsPath {
        /// The owner of the link.
        uid: u32,
    },
    /// Whoever owns this folder can exchange the file.
    #[error("its path leads through a folder of another user (uid {uid})")]
    FolderOnItsPath {
        /// The owner of the folder.
        uid: u32,
    },
    /// Others can exchange the file.
    #[error("its path leads through a folder that others may write to (mode {mode:04o})")]
    OpenFolderOnItsPath {
        /// The mode of the folder.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("it belongs to another user (uid {uid}); it must be yours (uid {own}) or root's")]
    OtherOwner {
        /// Its owner.
        uid: u32,
        /// The effective user.
        own: u32,
    },
    /// Its mode allows others to write.
    #[error("others may write to it (mode {mode:04o}); check its content, then: chmod go-w")]
    WritableByOthers {
        /// Its mode.
        mode: u32,
    },
    /// It is a link.
    #[error("it is a link")]
    Link,
    /// It is a folder, a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotRegular,
}

#[cfg(test)]
mod tests {
    use super::Refusal::*;

    #[test]
    fn each_says_what_was_found_and_what_to_do() {
        for (refusal, text) in [
            (
                StrangeLink { uid: 7 },
                "a link of another user (uid 7) in a folder that others may write to; choose \
                 another path",
            ),
            (
                StrangeFile { uid: 7 },
                "a file of another user (uid 7) in a folder that others may write to; choose \
                 another path",
            ),
            (
                StrangePipe { uid: 7 },
                "a named pipe of another user (uid 7); write to stdout (-) and redirect it",
            ),
            (SocketOrDisk, "a socket or a disk; choose another path"),
            (
                LinkOnItsPath { uid: 7 },
                "its path leads through a link of another user (uid 7)",
            ),
            (
                FolderOnItsPath { uid: 7 },
                "its path leads through a folder of another user (uid 7)",
            ),
            (
                OpenFolderOnItsPath { mode: 0o77 },
                "its path leads through a folder that others may write to (mode 0077)",
            ),
            (
                OtherOwner { uid: 7, own: 8 },
                "it belongs to another user (uid 7); it must be yours (uid 8) or root's",
            ),
            (
                WritableByOthers { mode: 0o666 },
                "others may write to it (mode 0666); check its content, then: chmod go-w",
            ),
            (Link, "it is a link"),
            (NotRegular, "it is not a regular file"),
        ] {
            assert_eq!(refusal.to_string(), text);
        }
    }
}
