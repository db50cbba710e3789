//! The rules of fs/namei.c for links, pipes and files that another user may have planted
//! (proc_sys_fs(5): protected_symlinks, protected_fifos, protected_regular). This program always
//! enforces them, because they may be disabled on a machine, and because the kernel does not apply
//! them to every part of a path.

use rustix::fs::Stat;
use rustix::process::geteuid;

use crate::Refusal;
use crate::walk::Met;

/// Permission bit: others may write.
const BY_OTHERS: u32 = 0o002;
/// Permission bit: the group may write.
const BY_GROUP: u32 = 0o020;
/// Sticky bit: only the owner of a file, or of the folder, may remove the file.
const STICKY: u32 = 0o1000;

/// Returns the effective user.
pub(crate) fn user() -> u32 {
    geteuid().as_raw()
}

/// Returns whether other users can put files into this folder: all users, or the group if the
/// folder is sticky.
pub(crate) fn is_shared(folder: &Stat) -> bool {
    let mode = folder.st_mode;
    mode & BY_OTHERS != 0 || (mode & STICKY != 0 && mode & BY_GROUP != 0)
}

/// Returns whether a file in a shared folder belongs to neither the user nor the owner of the
/// folder.
fn is_strange(folder: &Stat, file: &Stat) -> bool {
    is_shared(folder) && file.st_uid != user() && file.st_uid != folder.st_uid
}

/// Checks each folder and link on the path of an output.
pub(crate) fn follow(met: Met<'_>) -> Result<(), Refusal> {
    match met {
        Met::Link { folder, link } if is_strange(folder, link) => {
            Err(Refusal::StrangeLink { uid: link.st_uid })
        }
        _ => Ok(()),
    }
}

/// Checks a file that an output would replace.
pub(crate) fn replace(folder: &Stat, file: &Stat) -> Result<(), Refusal> {
    if is_strange(folder, file) {
        Err(Refusal::StrangeFile { uid: file.st_uid })
    } else {
        Ok(())
    }
}

/// Checks the named pipe that is the target of an output. The owner of the pipe could read the
/// output, or block the writer.
pub(crate) fn pipe(pipe: &Stat) -> Result<(), Refusal> {
    if pipe.st_uid == user() || pipe.st_uid == 0 {
        Ok(())
    } else {
        Err(Refusal::StrangePipe { uid: pipe.st_uid })
    }
}

/// Checks each part of the path of a file that the program trusts. Only the user and root may be
/// able to swap the file.
pub(crate) fn trust_way(met: Met<'_>) -> Result<(), Refusal> {
    let own = |stat: &Stat| stat.st_uid == user() || stat.st_uid == 0;
    match met {
        Met::Link { link, .. } if !own(link) => Err(Refusal::LinkOnItsPath { uid: link.st_uid }),
        Met::Folder(folder) if !own(folder) => Err(Refusal::FolderOnItsPath { uid: folder.st_uid }),
        Met::Folder(folder) if folder.st_mode & STICKY == 0 => {
            // With umask 002, the effective group is usually the user's private group.
            let strange_group = folder.st_gid != rustix::process::getegid().as_raw();
            if folder.st_mode & BY_OTHERS != 0 || (folder.st_mode & BY_GROUP != 0 && strange_group)
            {
                Err(Refusal::OpenFolderOnItsPath {
                    mode: folder.st_mode & 0o7777,
                })
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// Checks a file that the program trusts.
pub(crate) fn trust(file: &Stat) -> Result<(), Refusal> {
    let mode = file.st_mode & 0o7777;
    if file.st_uid != user() && file.st_uid != 0 {
        return Err(Refusal::OtherOwner {
            uid: file.st_uid,
            own: user(),
        });
    }
    if mode & (BY_OTHERS | BY_GROUP) != 0 {
        Err(Refusal::WritableByOthers { mode })
    } else {
        Ok(())
    }
}
