//! Tests of the files of each boot loader, and of the notes and commands for the user.

use std::fs;

use punctual_host::Host;

use super::{Changes, CmdlineEdit, CmdlineError, FileEdit, cmdline_state, revert};

fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = folder.path().join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::new(folder.path());
    (folder, host)
}

fn plan(files: &[(&str, &str)], loader: Option<&str>) -> Result<CmdlineEdit, CmdlineError> {
    let (_folder, host) = system(files);
    let changes = Changes::new(&["x=1".to_owned()], &[]).unwrap();
    CmdlineEdit::plan(&host, &changes, loader)
}

/// Returns the loader, the files, the command and the notes of an edit.
fn found(files: &[(&str, &str)]) -> (String, String, String, String) {
    let edit = plan(files, None).unwrap();
    let paths: Vec<&str> = edit.files.iter().map(|file| file.path.as_str()).collect();
    (
        edit.loader.to_owned(),
        paths.join(" "),
        edit.command.join(" "),
        edit.notes.join("; "),
    )
}

const LABEL: &str = "label a\n append y\n";
const LIMINE: &str = "/Linux\n cmdline: y\n";
const ZIPL: &str = "[defaultboot]\ndefault=a\n[a]\nparameters=y\n";
const GRUB: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"y\"\n";

#[test]
fn each_loader_has_its_file() {
    for (loader, file, text) in [
        ("extlinux", "/boot/extlinux/extlinux.conf", LABEL),
        ("extlinux", "/boot/extlinux.conf", LABEL),
        ("extlinux", "/extlinux/extlinux.conf", LABEL),
        ("syslinux", "/boot/syslinux/syslinux.cfg", LABEL),
        ("syslinux", "/syslinux.cfg", LABEL),
        ("armbian", "/boot/armbianEnv.txt", ""),
        ("armbian", "/boot/orangepiEnv.txt", ""),
        ("armbian", "/boot/dietpiEnv.txt", ""),
        ("uenv", "/boot/uEnv.txt", "optargs=quiet\n"),
        ("uenv", "/boot/firmware/uEnv.txt", "bootargs=quiet\n"),
        ("uenv", "/uEnv.txt", "extraargs=quiet\ncmdline=a\n"),
        ("limine", "/boot/limine.conf", LIMINE),
        ("limine", "/efi/EFI/limine/limine.conf", LIMINE),
        ("zipl", "/etc/zipl.conf", ZIPL),
        ("grub", "/etc/default/grub", GRUB),
        ("kernel-install", "/etc/kernel/cmdline", "y\n"),
        ("boot-entries", "/efi/loader/entries/a.conf", "options y\n"),
        (
            "boot-entries",
            "/boot/efi/loader/entries/a.conf",
            "options y\n",
        ),
    ] {
        let (name, files, ..) = found(&[(file, text)]);
        assert_eq!((name.as_str(), files.as_str()), (loader, file));
    }
}

#[test]
fn variable_of_uenv_is_one_that_its_script_reads() {
    let after = |text: &str| {
        let edit = plan(&[("/boot/uEnv.txt", text)], None)?;
        Ok::<String, CmdlineError>(edit.files[0].after.clone())
    };
    for (text, expected) in [
        ("optargs=a\ncmdline=b\n", "optargs=a\ncmdline=b x=1\n"),
        ("optargs=a\nbootargs=b\n", "optargs=a\nbootargs=b x=1\n"),
        ("optargs=a\nuname_r=5\n", "optargs=a x=1\nuname_r=5\n"),
        ("uname_r=5\n", "uname_r=5\ncmdline=x=1\n"),
    ] {
        assert_eq!(after(text).unwrap(), expected);
    }
    for unclear in ["", "other=1\n", "cmdlines=1\n", "uname_rt=5\n"] {
        let error = after(unclear).unwrap_err().to_string();
        let why = "none of the variables cmdline, bootargs, optargs, extraargs";
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn user_is_told_what_else_to_do() {
    for (files, command, note) in [
        (
            &[("/boot/extlinux.conf", LABEL)][..],
            "",
            "only the default label is changed",
        ),
        (&[("/boot/armbianEnv.txt", "")], "", "boot.cmd adds other"),
        (
            &[("/boot/limine.conf", LIMINE)],
            "",
            "only the default entry is changed",
        ),
        (
            &[("/boot/limine.conf", LIMINE), ("/etc/default/limine", "")],
            "",
            "KERNEL_CMDLINE in /etc/default/limine",
        ),
        (
            &[("/etc/zipl.conf", ZIPL)],
            "",
            "no zipl was found: run it yourself",
        ),
        (
            &[("/etc/zipl.conf", ZIPL), ("/sbin/zipl", "")],
            "/sbin/zipl",
            "",
        ),
        (
            &[("/etc/default/u-boot", ""), ("/usr/sbin/u-boot-update", "")],
            "/usr/sbin/u-boot-update",
            "",
        ),
        (
            &[
                ("/etc/default/flash-kernel", ""),
                ("/usr/sbin/flash-kernel", ""),
            ],
            "/usr/sbin/flash-kernel",
            "",
        ),
        (
            &[("/etc/kernel/cmdline", "y")],
            "",
            "does not rebuild unified kernel images",
        ),
        (
            &[("/etc/default/grub", GRUB)],
            "",
            "no update-grub or grub-mkconfig was found",
        ),
        (
            &[
                ("/etc/default/grub", GRUB),
                ("/usr/bin/grub-mkconfig", ""),
                ("/boot/grub/grub.cfg", ""),
            ],
            "/usr/bin/grub-mkconfig -o /boot/grub/grub.cfg",
            "",
        ),
        (
            &[
                ("/etc/default/grub", GRUB),
                ("/usr/sbin/grub2-mkconfig", ""),
                ("/usr/bin/grub-mkconfig", ""),
                ("/boot/grub2/grub.cfg", ""),
                ("/boot/grub/grub.cfg", ""),
            ],
            "/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg",
            "",
        ),
        (
            &[
                ("/etc/default/grub", GRUB),
                ("/usr/sbin/update-grub", ""),
                ("/usr/bin/grub-mkconfig", ""),
                ("/boot/grub/grub.cfg", ""),
            ],
            "/usr/sbin/update-grub",
            "",
        ),
        (
            &[("/etc/default/grub", GRUB), ("/usr/bin/grub-mkconfig", "")],
            "",
            "regenerate grub.cfg yourself",
        ),
        (
            &[
                ("/boot/loader/entries/a.conf", "options y\n"),
                ("/boot/loader/entries/a-fallback.conf", "options y\n"),
                ("/boot/loader/entries/a-recovery.conf", "options y\n"),
            ],
            "",
            "/boot/loader/entries/a-fallback.conf, /boot/loader/entries/a-recovery.conf is not",
        ),
    ] {
        let (.., ran, notes) = found(files);
        assert_eq!(ran, command, "{files:?}");
        assert_eq!(notes.is_empty(), note.is_empty(), "{notes}");
        assert!(notes.contains(note), "{notes}");
    }
    let (.., notes) = found(&[("/boot/limine.conf", LIMINE)]);
    assert!(!notes.contains("KERNEL_CMDLINE"), "{notes}");
}

#[test]
fn kernelstub_runs_if_it_is_installed() {
    let file = (
        "/etc/kernelstub/configuration",
        "{\"user\": {\"kernel_options\": []}}",
    );
    let edit = plan(&[file], None).unwrap();
    assert!(edit.command.is_empty());
    assert!(edit.notes[0].contains("run it before the reboot"));
    let after = "{\"user\": {\"kernel_options\": [\"x=1\"]}}";
    assert_eq!(edit.files[0].after, after);
    let edit = plan(&[file, ("/usr/bin/kernelstub", "")], None).unwrap();
    assert_eq!(edit.command, ["/usr/bin/kernelstub"]);
    assert!(edit.notes.is_empty());
}

#[test]
fn loaders_need_their_program_or_their_entries() {
    // Without its program, the file of u-boot-menu or flash-kernel has no effect.
    for file in ["/etc/default/u-boot", "/etc/default/flash-kernel"] {
        let error = plan(&[(file, "")], None).unwrap_err();
        assert!(matches!(error, CmdlineError::NoLoader { .. }), "{error}");
    }
    // With `defaultauto`, the parameters are in the entries.
    let auto = [("/etc/zipl.conf", "[defaultboot]\n defaultauto \n")];
    let error = plan(&auto, None).unwrap_err();
    assert!(matches!(error, CmdlineError::NoLoader { .. }), "{error}");
    // Only spare entries are not enough.
    let spare = [("/boot/loader/entries/a-rescue.conf", "options y\n")];
    assert!(plan(&spare, None).is_err());
    assert!(plan(&[("/boot/loader/entries/a.txt", "options y\n")], None).is_err());
}

#[test]
fn another_loader_can_be_selected() {
    let files = [
        ("/boot/extlinux.conf", LABEL),
        ("/boot/limine.conf", LIMINE),
        ("/etc/default/grub", GRUB),
    ];
    let edit = plan(&files, None).unwrap();
    assert_eq!(edit.loader, "extlinux");
    let others = "files of other boot loaders were also found: limine, grub; select one with";
    assert!(edit.notes.iter().any(|note| note.starts_with(others)));
    let edit = plan(&files, Some("grub")).unwrap();
    assert_eq!((edit.loader, edit.files.len()), ("grub", 1));
    assert!(!edit.notes.iter().any(|note| note.starts_with("files of")));
    // A selected loader that is missing is not replaced by another one, or by a file that is edited
    // by hand.
    let by_hand = [("/boot/refind_linux.conf", "")];
    for files in [&files[..], &by_hand] {
        let error = plan(files, Some("zipl")).unwrap_err();
        assert!(matches!(error, CmdlineError::NoLoader { .. }), "{error}");
    }
}

#[test]
fn environment_block_is_also_found_on_the_efi_partition() {
    for folder in ["/boot/grub2", "/boot/grub", "/boot/efi/EFI/redhat"] {
        let block = format!("{folder}/grubenv");
        let files = [
            (block.as_str(), "kernelopts=ro\n"),
            ("/boot/loader/entries/a.conf", "options $kernelopts\n"),
        ];
        let edit = plan(&files, None).unwrap();
        // The entry uses the variable, but a new parameter belongs to the entry.
        assert_eq!(edit.files[0].path, "/boot/loader/entries/a.conf");
        let (_folder, host) = system(&files);
        let state = cmdline_state(&host, host.root()).unwrap();
        assert_eq!(state.files[0].path, block);
        assert_eq!(state.next[0].parameters, ["ro"]);
    }
}

#[test]
fn systems_from_images_get_the_command_of_their_tool() {
    let changes = |add: &[&str], remove: &[&str]| {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        Changes::new(&texts(add), &texts(remove)).unwrap()
    };
    let both = changes(&["a=1", "b"], &["c", "d"]);
    for (files, how) in [
        (
            &["/etc/NIXOS"][..],
            "set `boot.kernelParams = [ \"a=1\" \"b\" ];` in",
        ),
        (
            &[
                "/run/ostree-booted",
                "/usr/bin/rpm-ostree",
                "/usr/bin/bootc",
            ],
            "`rpm-ostree kargs --append-if-missing=a=1 --append-if-missing=b \
             --delete-if-present=c --delete-if-present=d`",
        ),
        (
            &["/sysroot/ostree", "/usr/bin/bootc"],
            "`kargs = [\"a=1\", \"b\"]`",
        ),
        (&["/ostree/repo"], "`ostree admin kargs edit-in-place`"),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|file| (*file, "")).collect();
        let (_folder, host) = system(&files);
        let error = CmdlineEdit::plan(&host, &both, None).unwrap_err();
        assert!(matches!(error, CmdlineError::Image { .. }), "{error}");
        assert!(error.to_string().contains(how), "{error}");
    }
    // The programs alone do not make a system one from an image.
    let files = [("/usr/bin/rpm-ostree", ""), ("/etc/default/grub", GRUB)];
    assert_eq!(plan(&files, None).unwrap().loader, "grub");
}

#[test]
fn changed_lines_are_shown_in_pairs() {
    let pairs = |before: &str, after: &str| {
        let edit = FileEdit {
            path: String::new(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let all = edit.changed_lines().into_iter();
        all.map(|(old, new)| format!("{}>{}", old.unwrap_or("-"), new.unwrap_or("-")))
            .collect::<Vec<_>>()
    };
    assert_eq!(pairs("a\nb\nc\n", "a\nx\nc\n"), ["b>x"]);
    assert_eq!(pairs("a\n", "a\nb\nc\n"), ["->b", "->c"]);
    assert_eq!(pairs("a\nb\n", "a\n"), ["b>-"]);
    assert_eq!(pairs("a\n", "a\n"), [""; 0]);
    assert_eq!(pairs("", ""), [""; 0]);
}

#[test]
fn edit_of_another_system_is_not_reverted_here() {
    let files = [("/etc/default/grub", GRUB)];
    let (_one, host) = system(&files);
    let state = host.root().join("state");
    assert!(revert(&host, &state, false).unwrap().is_none());
    let changes = Changes::new(&["x=1".to_owned()], &[]).unwrap();
    let edit = CmdlineEdit::plan(&host, &changes, None).unwrap();
    edit.write(&host, &state).unwrap();
    let (_two, other) = system(&files);
    let error = revert(&other, &state, false).unwrap_err();
    assert!(matches!(error, CmdlineError::OtherRoot { .. }), "{error}");
    // The record has the boot ID only if the system has one.
    let written = cmdline_state(&host, &state).unwrap().written.unwrap();
    assert_eq!(written.booted_since, None);
    assert!(written.missing_now.is_empty(), "the system does not run");
    fs::write(state.join("record.json"), "{").unwrap();
    let error = revert(&host, &state, false).unwrap_err();
    assert!(matches!(error, CmdlineError::Damaged { .. }), "{error}");
}

#[test]
fn a_boot_after_the_edit_is_known() {
    let id = "/proc/sys/kernel/random/boot_id";
    let (folder, host) = system(&[("/etc/default/grub", GRUB), (id, "one\n")]);
    let state = host.root().join("state");
    let changes = Changes::new(&["x=1".to_owned()], &[]).unwrap();
    let edit = CmdlineEdit::plan(&host, &changes, None).unwrap();
    edit.write(&host, &state).unwrap();
    let booted = || {
        let state = cmdline_state(&host, &state).unwrap();
        state.written.unwrap().booted_since
    };
    assert_eq!(booted(), Some(false));
    let id = folder.path().join(id.trim_start_matches('/'));
    fs::write(&id, "two\n").unwrap();
    assert_eq!(booted(), Some(true));
    fs::remove_file(&id).unwrap();
    assert_eq!(booted(), None);
    // All copies are removed with the record. No program is installed that must run.
    let done = revert(&host, &state, false).unwrap().unwrap();
    assert_eq!(done.restored, ["/etc/default/grub"]);
    assert_eq!(done.to_run, None);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    assert!(cmdline_state(&host, &state).unwrap().written.is_none());
}

/// The record contains each file twice.
#[test]
fn large_file_is_edited_and_restored() {
    let text = format!("{GRUB}{}", "# comment\n".repeat(90_000));
    let (_folder, host) = system(&[("/etc/default/grub", &text)]);
    let state = host.root().join("state");
    let changes = Changes::new(&["x=1".to_owned()], &[]).unwrap();
    let edit = CmdlineEdit::plan(&host, &changes, None).unwrap();
    edit.write(&host, &state).unwrap();
    assert!(cmdline_state(&host, &state).unwrap().written.is_some());
    revert(&host, &state, false).unwrap().unwrap();
    let file = host.root().join("etc/default/grub");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // A larger file is not read.
    fs::write(&file, text.repeat(2)).unwrap();
    let error = CmdlineEdit::plan(&host, &changes, None).unwrap_err();
    assert!(error.to_string().contains("1048576 bytes"), "{error}");
}
