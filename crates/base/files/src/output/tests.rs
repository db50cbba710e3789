use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};

use rustix::fs::{CWD, mknodat};
use tempfile::TempDir;

use super::*;

/// Another user: `nobody` has this uid on all distributions.
const OTHER: u32 = 65_534;

fn folder(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    folder
}

fn put(path: &Path, content: &str) -> Result<(), FileError> {
    Output::file(path)?.put(content.as_bytes())
}

fn pipe_at(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Returns whether the test can give files to another user.
fn can_give_away(test: &str) -> bool {
    let root = rule::user() == 0;
    if !root {
        punctual_testing::skip!(User, "{test}: only root can make files of another user");
    }
    root
}

#[test]
fn file_appears_whole_through_own_link() {
    let folder = folder(0o1777);
    let place = |name: &str| folder.path().join(name);
    fs::write(place("old"), "old").unwrap();
    symlink(place("old"), place("link")).unwrap();
    symlink("link", place("second")).unwrap();
    let mut output = Output::open(&place("second")).unwrap();
    output.write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(place("old")).unwrap(), "old");
    output.finish().unwrap();
    assert_eq!(fs::read_to_string(place("old")).unwrap(), "new");
    assert!(place("link").is_symlink() && place("second").is_symlink());
    drop(Output::open(&place("never")).unwrap());
    assert_eq!(names(&folder).len(), 3, "{:?}", names(&folder));
    // Writing through a dangling link creates its target.
    symlink("fresh", place("ahead")).unwrap();
    put(&place("ahead"), "text").unwrap();
    assert_eq!(fs::read_to_string(place("fresh")).unwrap(), "text");
    symlink("round", place("round")).unwrap();
    assert!(put(&place("round"), "text").is_err());
}

#[test]
fn failure_names_target_not_temporary_file() {
    let folder = folder(0o700);
    let nowhere = folder.path().join("nowhere/file");
    let folder_as_file = folder.path().to_owned();
    symlink("/dev/full", folder.path().join("full")).unwrap();
    for (path, why) in [
        (nowhere, "No such file"),
        (folder_as_file, "is a directory"),
        (folder.path().join("new/"), "is a directory"),
        (folder.path().join("full"), "No space left"),
        (PathBuf::from(""), "not found"),
    ] {
        let error = put(&path, "text").unwrap_err().to_string();
        let start = format!("cannot write {}: ", path.display());
        assert!(error.starts_with(&start) && error.contains(why), "{error}");
        assert!(!error.contains(".punctual-"), "{error}");
    }
    assert_eq!(names(&folder), ["full"]);
}

#[test]
fn device_is_written_and_stays_device() {
    let folder = folder(0o700);
    let link = folder.path().join("link");
    // The test writes through this link instead of to /dev/null itself, so that a defect does not
    // remove the device.
    symlink("/dev/null", &link).unwrap();
    put(&link, "text").unwrap();
    assert!(link.is_symlink());
    assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
}

#[test]
fn a_descriptor_of_ours_is_written() {
    let (mut reader, writer) = io::pipe().unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    put(Path::new(&name), "through the pipe").unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through the pipe");
    assert!(Output::file(Path::new("/dev/stderr")).is_ok());
}

#[test]
fn replaced_file_keeps_mode_and_owner() {
    let folder = folder(0o755);
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    for mode in [0o600, 0o640, 0o604] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        put(&path, "new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
    }
    if can_give_away("owner of a replaced file") {
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        put(&path, "newer").unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!((now.uid(), now.gid()), (OTHER, OTHER));
        assert_eq!(now.mode() & 0o7777, 0o604);
    }
}

#[test]
fn evidence_replacing_public_file_is_private() {
    let folder = folder(0o755);
    let path = folder.path().join("file");
    for _ in 0..2 {
        let output = Output::private(&path).unwrap();
        output.put(b"secret").unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!((now.mode() & 0o7777, now.uid()), (0o600, rule::user()));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn pipe_is_written_only_with_reader() {
    let folder = folder(0o700);
    let path = folder.path().join("pipe");
    pipe_at(&path);
    let error = put(&path, "text").unwrap_err().to_string();
    assert!(
        error.contains("no process reads this named pipe"),
        "{error}"
    );
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read(path).unwrap()
    });
    // More than a pipe can hold, so the writer has to wait for the reader.
    let long = "x".repeat(1 << 20);
    put(&path, &long).unwrap();
    assert_eq!(reader.join().unwrap().len(), long.len());
    assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
}

#[test]
fn other_users_files_are_never_touched() {
    if !can_give_away("links and pipes of another user") {
        return;
    }
    // Modes of the shared folder: sticky like /tmp, group-writable and sticky, writable by all
    // without the sticky bit.
    for mode in [0o1777, 0o1775, 0o777] {
        let private = folder(0o700);
        let victim = private.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let shared = folder(mode);
        let place = |name: &str| shared.path().join(name);
        symlink(&victim, place("link")).unwrap();
        symlink(private.path(), place("folder")).unwrap();
        fs::write(place("file"), "theirs").unwrap();
        pipe_at(&place("pipe"));
        for name in ["link", "folder", "file", "pipe"] {
            lchown(place(name), Some(OTHER), Some(OTHER)).unwrap();
        }
        for name in ["link", "folder/victim", "folder/new", "file", "pipe"] {
            let error = put(&place(name), "text").unwrap_err().to_string();
            assert!(error.contains("of another user (uid 65534)"), "{error}");
            assert!(error.starts_with(&place(name).display().to_string()));
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_to_string(place("file")).unwrap(), "theirs");
        assert_eq!(names(&private), ["victim"]);
        assert_eq!(names(&shared).len(), 4);
    }
    // A pipe of another user is refused even in the user's own folder.
    let own = folder(0o755);
    let pipe = own.path().join("pipe");
    pipe_at(&pipe);
    lchown(&pipe, Some(OTHER), Some(OTHER)).unwrap();
    assert!(matches!(put(&pipe, "x"), Err(FileError::Refused { .. })));
}

#[test]
fn unwritable_file_is_not_replaced() {
    if rule::user() == 0 {
        punctual_testing::skip!(User, "a file without write permission: root may write it");
        return;
    }
    let folder = folder(0o700);
    let path = folder.path().join("file");
    fs::write(&path, "kept").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    assert!(put(&path, "new").is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
}

#[test]
fn new_file_replaces_no_other() {
    let folder = folder(0o700);
    let path = folder.path().join("key");
    // Both programs find no file, and the first one to finish creates it.
    let [first, second] = [(); 2].map(|()| Output::private(&path).unwrap());
    first.put_new(b"first").unwrap();
    let refused = second.put_new(b"second").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Only files of killed programs are removed: not those that are being written, and not young ones.
#[test]
fn files_of_killed_programs_are_swept() {
    use rustix::fs::{FlockOperation, flock};
    let folder = tempfile::tempdir().unwrap();
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    let made = |name: &str, is_old: bool| {
        let file = File::create(folder.path().join(name)).unwrap();
        if is_old {
            file.set_modified(hour_ago).unwrap();
        }
        file
    };
    drop(made(".punctual-0123456789abcdef", true));
    drop(made(".punctual-0123456789abcde0", false));
    drop(made(".punctual-notes", true));
    let written = made(".punctual-0123456789abcde1", true);
    flock(&written, FlockOperation::LockShared).unwrap();
    Output::file(&folder.path().join("report"))
        .unwrap()
        .put(b"x")
        .unwrap();
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(
        left,
        [
            ".punctual-0123456789abcde0",
            ".punctual-0123456789abcde1",
            ".punctual-notes",
            "report"
        ]
    );
}
