//! Reasons to refuse a file that another user may have planted.

/// The reason, and what to do. The caller adds the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    // Files that are written.
    /// An output would follow this link.
    #[error(
        "the path is a link of another user ({}) in a folder that others may write to; choose \
         another path",
        user(*uid)
    )]
    StrangeLink {
        /// Owner of the link.
        uid: u32,
    },
    /// An output would replace this file.
    #[error(
        "the path is a file of another user ({}) in a folder that others may write to; choose \
         another path",
        user(*uid)
    )]
    StrangeFile {
        /// Owner of the file.
        uid: u32,
    },
    /// An output would be written to this named pipe.
    #[error(
        "the path is a named pipe of another user ({}); write to stdout (-) and redirect it",
        user(*uid)
    )]
    StrangePipe {
        /// Owner of the pipe.
        uid: u32,
    },
    /// The path is a socket or a block device.
    #[error("the path is a socket or a disk; choose another path")]
    SocketOrDisk,

    // Files that the program trusts.
    /// The owner of this link can swap the file.
    #[error("its path leads through a link of another user ({})", user(*uid))]
    LinkOnItsPath {
        /// The owner of the link.
        uid: u32,
    },
    /// The owner of this folder can swap the file.
    #[error("its path leads through a folder of another user ({})", user(*uid))]
    FolderOnItsPath {
        /// The owner of the folder.
        uid: u32,
    },
    /// Other users can swap the file.
    #[error("its path leads through a folder that others may write to (mode {mode:04o})")]
    OpenFolderOnItsPath {
        /// The mode of the folder.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error(
        "it belongs to another user ({}); it must be yours ({}) or root's",
        user(*uid), user(*own)
    )]
    OtherOwner {
        /// Owner of the file.
        uid: u32,
        /// The effective user.
        own: u32,
    },
    /// The mode allows others to write.
    #[error("others may write to it (mode {mode:04o}); check its content, then run chmod go-w")]
    WritableByOthers {
        /// Mode of the file.
        mode: u32,
    },
    /// The file is a link.
    #[error("it is a link")]
    Link,
    /// The file is a folder, a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotRegular,
}

/// Returns `root`, or the ID of another user.
fn user(uid: u32) -> String {
    if uid == 0 {
        "root".to_owned()
    } else {
        format!("uid {uid}")
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal::*;

    #[test]
    fn refusal_names_finding_and_remedy() {
        for (refusal, text) in [
            (
                StrangeLink { uid: 7 },
                "the path is a link of another user (uid 7) in a folder that others may write to; \
                 choose another path",
            ),
            (
                StrangeFile { uid: 7 },
                "the path is a file of another user (uid 7) in a folder that others may write to; \
                 choose another path",
            ),
            (
                LinkOnItsPath { uid: 0 },
                "its path leads through a link of another user (root)",
            ),
            (
                StrangePipe { uid: 7 },
                "the path is a named pipe of another user (uid 7); write to stdout (-) and \
                 redirect it",
            ),
            (
                SocketOrDisk,
                "the path is a socket or a disk; choose another path",
            ),
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
                "others may write to it (mode 0666); check its content, then run chmod go-w",
            ),
            (Link, "it is a link"),
            (NotRegular, "it is not a regular file"),
        ] {
            assert_eq!(refusal.to_string(), text);
        }
    }
}
