//! The rules of fs/namei.c for links, pipes and files that others may have put in a
//! place on purpose (proc_sys_fs(5): protected_symlinks, protected_fifos,
//! protected_regular), as they are when switched on. They are kept here because a
//! machine may have them off, and the kernel does not apply them to each part of a
//! path.

use rustix::fs::Stat;
use rustix::process::geteuid;

use crate::Refusal;
use crate::walk::Met;

/// Others may write to it.
const BY_OTHERS: u32 = 0o002;
/// Its group may write to it.
const BY_GROUP: u32 = 0o020;
/// Only the owner of a file may remove it.
const STICKY: u32 = 0o1000;

/// The effective user.
pub(crate) fn user() -> u32 {
    geteuid().as_raw()
}

/// Whether anybody may put a file into this folder: all, or a group where each
/// member's files are protected from the others.
pub(crate) fn is_shared(folder: &Stat) -> bool {
    let mode = folder.st_mode;
    mode & BY_OTHERS != 0 || (mode & STICKY != 0 && mode & BY_GROUP != 0)
}

/// Whether a file in a folder was put there by somebody whom neither the user nor
/// the owner of the folder stands for.
fn is_strange(folder: &Stat, file: &Stat) -> bool {
    is_shared(folder) && file.st_uid != user() && file.st_uid != folder.st_uid
}

/// Judges what an output's path leads through.
pub(crate) fn follow(met: Met<'_>) -> Result<(), Refusal> {
    match met {
        Met::Link { folder, link } if is_strange(folder, link) => {
            Err(Refusal::StrangeLink { uid: link.st_uid })
        }
        _ => Ok(()),
    }
}

/// Judges a file that an output would replace.
pub(crate) fn replace(folder: &Stat, file: &Stat) -> Result<(), Refusal> {
    match is_strange(folder, file) {
        true => Err(Refusal::StrangeFile { uid: file.st_uid }),
        false => Ok(()),
    }
}

/// Judges a named pipe that an output would be written to: whoever owns it reads it,
/// or keeps the writer waiting.
pub(crate) fn pipe(pipe: &Stat) -> Result<(), Refusal> {
    match pipe.st_uid == user() || pipe.st_uid == 0 {
        true => Ok(()),
        false => Err(Refusal::StrangePipe { uid: pipe.st_uid }),
    }
}

/// Judges what the path of a file that is obeyed leads through: nobody but the user
/// and root may be able to exchange a part of it.
pub(crate) fn trust_way(met: Met<'_>) -> Result<(), Refusal> {
    let own = |stat: &Stat| stat.st_uid == user() || stat.st_uid == 0;
    match met {
        Met::Link { link, .. } if !own(link) => Err(Refusal::LinkOnItsPath { uid: link.st_uid }),
        Met::Folder(folder) if !own(folder) => Err(Refusal::FolderOnItsPath { uid: folder.st_uid }),
        Met::Folder(folder) if folder.st_mode & STICKY == 0 => {
            // A private group as the effective one is usual where the umask is 002.
            let strange_group = folder.st_gid != rustix::process::getegid().as_raw();
            match folder.st_mode & BY_OTHERS != 0
                || (folder.st_mode & BY_GROUP != 0 && strange_group)
            {
                true => Err(Refusal::OpenFolderOnItsPath {
                    mode: folder.st_mode & 0o7777,
                }),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Judges a file that is obeyed.
pub(crate) fn trust(file: &Stat) -> Result<(), Refusal> {
    let mode = file.st_mode & 0o7777;
    if file.st_uid != user() && file.st_uid != 0 {
        return Err(Refusal::OtherOwner {
            uid: file.st_uid,
            own: user(),
        });
    }
    match mode & (BY_OTHERS | BY_GROUP) != 0 {
        true => Err(Refusal::WritableByOthers { mode }),
        false => Ok(()),
    }
}
