//! Tests of edits of boot loaders' files below a root folder.

use std::fs;

use punctual_host::Host;

use super::record::revert_with;
use super::test_systems::{GRUB, SYSTEMS};
use super::{Changes, CmdlineEdit, CmdlineError, cmdline_state, revert};

/// A system, its files, and the parameters to edit.
struct System {
    folder: tempfile::TempDir,
    host: Host,
}

impl System {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(folder.path().join("root"));
        let system = Self { folder, host };
        fs::create_dir(system.host.root()).unwrap();
        for (file, text) in files {
            system.write_file(file, text);
        }
        system
    }

    fn write_file(&self, file: &str, text: &str) {
        let path = self.host.root().join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, file: &str) -> String {
        fs::read_to_string(self.host.root().join(file.trim_start_matches('/'))).unwrap()
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state/cmdline")
    }

    fn plan(&self) -> Result<CmdlineEdit, CmdlineError> {
        CmdlineEdit::plan(&self.host, &changes(), None)
    }

    fn write(&self) -> CmdlineEdit {
        let edit = self.plan().unwrap();
        edit.write(&self.host, &self.state()).unwrap();
        edit
    }
}

fn changes() -> Changes {
    Changes::new(&["isolcpus=2-3".to_owned()], &["splash".to_owned()]).unwrap()
}

#[test]
fn boot_loaders_are_edited_and_restored_exactly() {
    for (files, loader, after) in SYSTEMS {
        let system = System::new(files);
        let edit = system.write();
        assert_eq!(edit.loader, *loader);
        let changed: Vec<&str> = edit.files.iter().map(|file| file.path.as_str()).collect();
        let expected: Vec<&str> = after.iter().map(|(path, _)| *path).collect();
        assert_eq!(changed, expected, "{loader}");
        for (path, text) in *after {
            assert_eq!(system.get(path), *text);
        }
        let done = revert(&system.host, &system.state(), false)
            .unwrap()
            .unwrap();
        assert_eq!(done.restored.len(), after.len());
        assert!(done.still_there.is_empty(), "{done:?}");
        for (path, text) in *files {
            assert_eq!(system.get(path), *text, "{loader}");
        }
        assert!(
            revert(&system.host, &system.state(), false)
                .unwrap()
                .is_none()
        );
    }
}

/// TuneD writes its parameters again, so they are never edited.
#[test]
fn parameters_of_tuned_are_refused() {
    let files = [
        (
            "/boot/grub2/grubenv",
            "tuned_params=skew_tick=1 isolcpus=managed_irq,domain,1\n",
        ),
        (
            "/boot/loader/entries/a-5.14.conf",
            "options root=/dev/vda ro $tuned_params\n",
        ),
    ];
    let system = System::new(&files);
    let error = system.plan().unwrap_err().to_string();
    let expected = "/boot/grub2/grubenv is not edited: tuned_params contains \
                    isolcpus=managed_irq,domain,1, and TuneD writes this variable";
    assert!(error.starts_with(expected), "{error}");
    let plan = |add: &str, remove: &str| {
        let changes = Changes::new(&[add.to_owned()], &[remove.to_owned()]).unwrap();
        CmdlineEdit::plan(&system.host, &changes, None)
    };
    assert!(plan("audit=0", "skew_tick").is_err());
    let other = plan("audit=0", "quiet").unwrap();
    assert_eq!(other.files[0].path, "/boot/loader/entries/a-5.14.conf");
    // What TuneD has already set needs no edit.
    assert!(plan("skew_tick=1", "quiet").unwrap().files.is_empty());
    let state = cmdline_state(&system.host, &system.state()).unwrap();
    assert_eq!(state.files.len(), 2);
    assert_eq!(state.files[0].part, Some("tuned_params"));
    let line = "root=/dev/vda ro skew_tick=1 isolcpus=managed_irq,domain,1";
    assert_eq!(state.next[0].parameters.join(" "), line);
    // On Debian, TuneD keeps them in a file that GRUB's configuration includes.
    let debian = System::new(&[
        (
            "/etc/tuned/bootcmdline",
            "TUNED_BOOT_CMDLINE=\"isolcpus=1\"\n",
        ),
        (
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"\n",
        ),
    ]);
    let error = debian.plan().unwrap_err().to_string();
    assert!(
        error.starts_with("/etc/tuned/bootcmdline is not edited"),
        "{error}"
    );
    let state = cmdline_state(&debian.host, &debian.state()).unwrap();
    assert_eq!(state.next[0].parameters, ["quiet", "isolcpus=1"]);
}

#[test]
fn all_sources_and_losing_parameters_are_shown() {
    let system = System::new(&[(
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"isolcpus=2-3 audit=1\"\nGRUB_CMDLINE_LINUX=\"old\"\n\
         GRUB_CMDLINE_LINUX=\"isolcpus=1 audit=0\"\n",
    )]);
    let state = cmdline_state(&system.host, &system.state()).unwrap();
    let parts: Vec<_> = state.files.iter().filter_map(|file| file.part).collect();
    assert_eq!(parts, ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"]);
    let next = &state.next[0];
    assert_eq!(
        next.parameters.join(" "),
        "isolcpus=1 audit=0 isolcpus=2-3 audit=1"
    );
    assert_eq!(next.ineffective.len(), 2, "{:?}", next.ineffective);
}

#[test]
fn repeated_parameters_stay() {
    let system = System::new(&[(
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty0 quiet\"\n",
    )]);
    let changes = Changes::new(&["console=ttyS0".to_owned()], &[]).unwrap();
    let edit = CmdlineEdit::plan(&system.host, &changes, None).unwrap();
    assert!(
        edit.files[0]
            .after
            .contains("\"console=tty0 quiet console=ttyS0\"")
    );
}

/// After a boot, an earlier or later occurrence of the same parameter can still win.
#[test]
fn a_boot_is_compared_with_the_edit() {
    let system = System::new(SYSTEMS[0].0);
    let now = |line: &str| {
        system.write_file("/proc/cmdline", line);
        let state = cmdline_state(&system.host, &system.state()).unwrap();
        let written = state.written.unwrap();
        (written.missing_now.join(" "), written.instead_now.join(" "))
    };
    system.write();
    let nothing = || (String::new(), String::new());
    assert_eq!(now("quiet isolcpus=2-3\n"), nothing());
    let lost = ("isolcpus=2-3".to_owned(), "isolcpus=1".to_owned());
    assert_eq!(now("isolcpus=1 isolcpus=2-3\n"), lost);
    assert_eq!(now("isolcpus=2-3 splash\n").1, "splash");
    assert_eq!(now("quiet\n").0, "isolcpus=2-3");
}

#[test]
fn zipl_is_named_where_entries_need_it() {
    let entry = ("/boot/loader/entries/a.conf", "options root=/dev/dasda1\n");
    let zipl = ("/etc/zipl.conf", "[defaultboot]\ndefaultauto\n");
    let system = System::new(&[entry, zipl, ("/usr/sbin/zipl", "")]);
    assert_eq!(system.plan().unwrap().command, ["/usr/sbin/zipl"]);
    let without = System::new(&[entry, zipl]).plan().unwrap();
    assert!(
        without
            .notes
            .iter()
            .any(|note| note.contains("run it yourself"))
    );
}

/// Nothing is edited unless it is certain which file the firmware reads.
#[test]
fn raspberry_pi_edits_the_firmwares_file() {
    let boot = |config: &str, others: &[&str]| {
        let system = System::new(&[("/boot/config.txt", config)]);
        for file in others {
            system.write_file(&format!("/boot/{file}"), "quiet\n");
        }
        system.plan()
    };
    let edited = |config: &str, others: &[&str]| {
        let edit = boot(config, others).unwrap();
        let paths: Vec<&str> = edit.files.iter().map(|file| file.path.as_str()).collect();
        paths.join(" ")
    };
    for (config, others, file) in [
        // The last value is effective. Comments, filters for other boards and trial boots have no
        // effect.
        ("cmdline=a\ncmdline=b\n", &["a", "b"][..], "/boot/b"),
        ("#cmdline=a\n", &["a", "cmdline.txt"], "/boot/cmdline.txt"),
        (
            "[none]\ncmdline=a\n",
            &["a", "cmdline.txt"],
            "/boot/cmdline.txt",
        ),
        (
            "[pi4]\ncmdline=cmdline.txt\n",
            &["cmdline.txt"],
            "/boot/cmdline.txt",
        ),
        ("[pi4]\nkernel=x.img\n[all]\ncmdline=a\n", &["a"], "/boot/a"),
        (
            "include more.txt\n",
            &["a", "more.txt", "cmdline.txt"],
            "/boot/cmdline.txt",
        ),
        (
            "os_prefix=rt-\n",
            &["rt-kernel8.img", "rt-x.dtb", "rt-cmdline.txt"],
            "/boot/rt-cmdline.txt",
        ),
    ] {
        assert_eq!(edited(config, others), file, "{config}");
    }
    for (config, others, why) in [
        (
            "[pi5]\ncmdline=a\n",
            &["a", "cmdline.txt"][..],
            "below a filter",
        ),
        (
            "os_prefix=rt/\n",
            &["rt/cmdline.txt", "cmdline.txt"],
            "os_prefix=rt/",
        ),
        (
            "cmdline=gone\n",
            &["cmdline.txt"],
            "names gone, which does not exist",
        ),
        (
            "cmdline=../../etc/passwd\n",
            &["cmdline.txt"],
            "does not exist",
        ),
    ] {
        let error = boot(config, others).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("/boot/config.txt"),
            "{error}"
        );
    }
    let system = System::new(&[
        ("/boot/config.txt", "include more.txt\n"),
        ("/boot/more.txt", "cmdline=b\ninclude more.txt\n"),
        ("/boot/b", "quiet\n"),
    ]);
    assert_eq!(system.plan().unwrap().files[0].path, "/boot/b");
}

#[test]
fn what_somebody_edited_since_is_not_overwritten() {
    let system = System::new(SYSTEMS[0].0);
    system.write();
    let edited = format!("{}# mine\n", system.get("/etc/default/grub"));
    system.write_file("/etc/default/grub", &edited);
    let error = revert(&system.host, &system.state(), false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/etc/default/grub was edited") && text.contains("--forget"),
        "{text}"
    );
    assert_eq!(system.get("/etc/default/grub"), edited);
    let copy = fs::read_to_string(system.state().join("0-grub")).unwrap();
    assert_eq!(copy, GRUB);
    let done = revert(&system.host, &system.state(), true)
        .unwrap()
        .unwrap();
    assert_eq!(done.left, ["/etc/default/grub"]);
    assert_eq!(system.get("/etc/default/grub"), edited);
    // The unchanged file already has the parameter, so the plan writes nothing and needs no record.
    assert!(system.plan().unwrap().files.is_empty());
}

#[test]
fn second_edit_requires_revert_of_first() {
    let system = System::new(SYSTEMS[2].0);
    let edit = system.write();
    let again = edit.write(&system.host, &system.state()).unwrap_err();
    assert!(again.to_string().contains("cmdline revert"), "{again}");
    let state = cmdline_state(&system.host, &system.state()).unwrap();
    assert_eq!(state.written.unwrap().add, ["isolcpus=2-3"]);
    assert_eq!(state.loader, Some("raspberry-pi"));
}

#[test]
fn file_changed_since_plan_is_not_written() {
    let system = System::new(SYSTEMS[0].0);
    let edit = system.plan().unwrap();
    system.write_file("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=other\n");
    let error = edit.write(&system.host, &system.state()).unwrap_err();
    assert!(matches!(error, CmdlineError::Moved { .. }), "{error}");
    assert!(!system.state().exists());
}

#[test]
fn half_finished_write_is_reverted() {
    let system = System::new(SYSTEMS[7].0);
    system.write();
    // Imitates a program that was killed before it wrote the second and third file.
    for (path, text) in &SYSTEMS[7].0[2..] {
        system.write_file(path, text);
    }
    let done = revert(&system.host, &system.state(), false)
        .unwrap()
        .unwrap();
    assert_eq!(done.restored.len(), 3);
    for (path, text) in SYSTEMS[7].0 {
        assert_eq!(system.get(path), *text);
    }
}

#[test]
fn entries_of_a_new_kernel_are_named() {
    let system = System::new(SYSTEMS[7].0);
    system.write();
    system.write_file(
        "/boot/loader/entries/a-6.13.conf",
        "options root=/dev/vda isolcpus=2-3\n",
    );
    fs::remove_file(system.host.root().join("boot/loader/entries/a-6.12.conf")).unwrap();
    let done = revert(&system.host, &system.state(), false)
        .unwrap()
        .unwrap();
    assert_eq!(done.gone, ["/boot/loader/entries/a-6.12.conf"]);
    assert_eq!(done.still_there, ["/boot/loader/entries/a-6.13.conf"]);
}

#[test]
fn image_based_system_refusal_gives_command() {
    for (files, word) in [
        (
            &[
                ("/run/ostree-booted", ""),
                ("/usr/bin/rpm-ostree", ""),
                ("/etc/default/grub", GRUB),
            ][..],
            "rpm-ostree kargs --append-if-missing=isolcpus=2-3 --delete-if-present=splash",
        ),
        (
            &[("/run/ostree-booted", ""), ("/usr/bin/bootc", "")],
            "kargs = [\"isolcpus=2-3\"]",
        ),
        (&[("/etc/NIXOS", "")], "boot.kernelParams"),
    ] {
        let error = System::new(files).plan().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let error = System::new(&[]).plan().unwrap_err();
    assert!(matches!(error, CmdlineError::NoLoader { .. }), "{error}");
}

#[test]
fn unknown_loader_is_refused_with_the_known_ones() {
    let system = System::new(&[]);
    let asked = Some("lilo");
    let error = CmdlineEdit::plan(&system.host, &changes(), asked).unwrap_err();
    let message = error.to_string();
    for word in [
        "unknown boot loader 'lilo'",
        "raspberry-pi",
        "limine",
        "grub",
    ] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn files_that_are_not_edited_are_named() {
    for (file, word) in [
        ("/boot/refind_linux.conf", "quoted options"),
        ("/boot/boot.cmd", "mkimage"),
        ("/boot/grub/grub.cfg", "no /etc/default/grub"),
    ] {
        let error = System::new(&[(file, "")]).plan().unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(word), "{error}");
    }
}

#[test]
fn a_write_that_fails_is_undone() {
    let system = System::new(SYSTEMS[0].0);
    let mut edit = system.plan().unwrap();
    edit.files.push(super::FileEdit {
        path: "/gone/folder/file".to_owned(),
        before: String::new(),
        after: "x".to_owned(),
    });
    let error = edit.write(&system.host, &system.state()).unwrap_err();
    assert!(
        matches!(
            error,
            CmdlineError::Undone { .. } | CmdlineError::NotUndone { .. }
        ),
        "{error}"
    );
    assert_eq!(system.get("/etc/default/grub"), GRUB);
    let fails = |words: &[String]| super::run(&[&["/bin/false".to_owned()], words].concat());
    let text = fails(&[]).unwrap_err().to_string();
    assert!(text.contains("`/bin/false` failed"), "{text}");
    // If another root folder is given, no program runs.
    assert!(!system.state().join("record.json").exists());
    let other = System::new(SYSTEMS[0].0);
    other
        .plan()
        .unwrap()
        .write_with(&other.host, &other.state(), &fails)
        .unwrap();
    let done = revert_with(&other.host, &other.state(), false, &fails)
        .unwrap()
        .unwrap();
    assert_eq!(done.to_run.as_deref(), Some("/usr/sbin/update-grub"));
}
