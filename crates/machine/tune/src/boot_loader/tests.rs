//! Tests with trees of files that imitate machines.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

const GRUB: &str = r#"if [ "${next_entry}" ] ; then
   set default="${next_entry}"
fi
menuentry 'Debian GNU/Linux' --class debian --unrestricted $menuentry_id_option 'gnulinux-simple' {
	load_video
	search --no-floppy --fs-uuid --set=root 1234
	linux	/boot/vmlinuz-6.1 root=UUID=1234 ro quiet
	initrd	/boot/initrd.img-6.1
}
submenu 'Advanced options' {
	menuentry 'Debian, recovery mode' {
		linux	/boot/vmlinuz-6.1 root=UUID=1234 ro single
		initrd	/boot/initrd.img-6.1
	}
	menuentry 'Debian, older' {
		linux	/boot/vmlinuz-5.10 root=UUID=1234 ro quiet
	}
}
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"#;

fn grubenv(lines: &str) -> String {
    let mut block = format!("# GRUB Environment Block\n{lines}");
    block.extend(std::iter::repeat_n('#', 1_024 - block.len()));
    block
}

fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let host = Host::new(folder.path());
    (folder, host)
}

/// Returns all files below a folder, with their contents.
fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(all(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn entry(id: &str, words: &str) -> BootEntry {
    BootEntry {
        id: id.to_owned(),
        title: words.to_owned(),
        words: words.to_owned(),
    }
}

fn no_program(program: &[&str]) -> io::Result<()> {
    panic!("{program:?} was run")
}

fn with_grub(custom: Option<&str>) -> (tempfile::TempDir, Host) {
    let block = grubenv("saved_entry=gnulinux-simple\n");
    let line = "BOOT_IMAGE=/boot/vmlinuz-6.1 root=UUID=1234 ro quiet\n";
    let mut files = vec![
        ("boot/grub/grub.cfg", GRUB.as_bytes()),
        ("boot/grub/grubenv", block.as_bytes()),
        ("proc/cmdline", line.as_bytes()),
        (
            "etc/systemd/system/other.service",
            b"[Service]\n".as_slice(),
        ),
    ];
    if let Some(custom) = custom {
        files.push(("boot/grub/custom.cfg", custom.as_bytes()));
    }
    tree(&files)
}

#[test]
fn grub_boots_once_and_files_are_restored() {
    for custom in [None, Some("# own\nmenuentry 'mine' {\n}"), Some("")] {
        let (folder, host) = with_grub(custom);
        let before = all(folder.path());
        let loader = Loader::detect(&host);
        assert_eq!(loader.kind(), BootLoader::Grub, "{loader:?}");
        let entries = [
            entry("punctual-1-0", "preempt=full"),
            entry("punctual-1-1", "quiet preempt=lazy"),
        ];
        let mut files = loader.entries(&host, &entries).unwrap();
        files.extend(
            unit(
                &host,
                &UnitRequest {
                    name: "punctual-experiment-1",
                    description: "Goes on",
                    command: &["/usr/bin/punctual".to_owned(), "50% of $HOME".to_owned()],
                    needs: Path::new("/var/lib/punctual"),
                },
            )
            .unwrap(),
        );
        assert_eq!(
            all(folder.path()),
            before,
            "a file was written before the call of write"
        );
        for file in &files {
            write(&host, file).unwrap();
        }
        let custom = std::fs::read_to_string(folder.path().join("boot/grub/custom.cfg")).unwrap();
        assert!(
            custom.contains("--id punctual-1-1 --unrestricted {\n\tload_video"),
            "{custom}"
        );
        assert!(
            custom.contains(
                "\tlinux /boot/vmlinuz-6.1 root=UUID=1234 ro quiet preempt=lazy\n\tinitrd"
            ),
            "{custom}"
        );
        assert!(custom.starts_with(files[0].before.as_deref().unwrap_or_default()));
        let unit = std::fs::read_to_string(
            folder
                .path()
                .join("etc/systemd/system/punctual-experiment-1.service"),
        )
        .unwrap();
        assert!(
            unit.contains("ExecStart=/usr/bin/punctual \"50%% of $$HOME\"\n"),
            "{unit}"
        );

        loader.choose(&host, "punctual-1-1", &no_program).unwrap();
        let block = std::fs::read_to_string(folder.path().join("boot/grub/grubenv")).unwrap();
        assert_eq!(block.len(), 1_024);
        assert!(
            block.contains("\nsaved_entry=gnulinux-simple\nnext_entry=punctual-1-1\n#"),
            "{block}"
        );
        assert!(loader.forget(&host, "punctual-1-", &no_program).unwrap());
        assert!(!loader.forget(&host, "punctual-1-", &no_program).unwrap());
        for file in files.iter().rev() {
            put_back(&host, file).unwrap();
            // Doing this twice must be harmless, because a program may be killed after the first
            // time.
            put_back(&host, file).unwrap();
        }
        let mut after = all(folder.path());
        let block = folder.path().join("boot/grub/grubenv");
        // GRUB itself also leaves an empty variable.
        assert!(
            after[&block].starts_with(b"# GRUB Environment Block\nsaved_entry=gnulinux-simple")
        );
        after.insert(block.clone(), before[&block].clone());
        assert_eq!(after, before);
    }
}

#[test]
fn what_others_changed_is_left_alone() {
    let (folder, host) = with_grub(None);
    let loader = Loader::detect(&host);
    let files = loader.entries(&host, &[entry("punctual-1-0", "")]).unwrap();
    write(&host, &files[0]).unwrap();
    let path = folder.path().join("boot/grub/custom.cfg");
    std::fs::write(&path, "of somebody else").unwrap();
    let error = put_back(&host, &files[0]).unwrap_err().to_string();
    assert!(
        error.contains("custom.cfg was changed by another program"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "of somebody else");
}

#[test]
fn grub_without_boot_once_is_not_used() {
    let line: (&str, &[u8]) = ("proc/cmdline", b"BOOT_IMAGE=(hd0,gpt2)/boot/vmlinuz-6.1 ro");
    let block = grubenv("");
    let fixed = GRUB.replace("next_entry", "x");
    let without = GRUB.replace("custom.cfg", "x");
    let cases: [(&str, &str, &str); 4] = [
        (
            fixed.as_str(),
            &block,
            "cannot select an entry for a single boot",
        ),
        (without.as_str(), &block, "does not read custom.cfg"),
        (GRUB, "short", "is not an environment block"),
        (
            "custom.cfg next_entry",
            &block,
            "has no entry for the running kernel",
        ),
    ];
    for (config, block, why) in cases {
        let (_folder, host) = tree(&[
            ("boot/grub/grub.cfg", config.as_bytes()),
            ("boot/grub/grubenv", block.as_bytes()),
            line,
        ]);
        let loader = Loader::detect(&host);
        assert!(loader.by_hand().unwrap().contains(why), "{loader:?}");
        assert!(
            loader
                .entries(&host, &[entry("a", "b=c")])
                .unwrap()
                .is_empty()
        );
        let steps = loader.steps(&entry("a", "b=c"));
        assert!(
            steps[0].contains("`b=c` on the kernel's command line"),
            "{steps:?}"
        );
    }
    let (_folder, host) = with_grub(None);
    let refused = Loader::detect(&host).entries(&host, &[entry("a", "x='y'")]);
    assert!(
        matches!(refused, Err(BootError::Words { .. })),
        "{refused:?}"
    );
    // A disk before the image is ignored.
    let (_folder, host) = tree(&[
        ("boot/grub2/grub.cfg", GRUB.as_bytes()),
        ("boot/grub2/grubenv", block.as_bytes()),
        line,
    ]);
    assert_eq!(Loader::detect(&host).kind(), BootLoader::Grub);
}

fn efi(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    [6u8, 0, 0, 0]
        .into_iter()
        .chain(units.flat_map(u16::to_le_bytes))
        .collect()
}

#[test]
fn systemd_boot_boots_an_entry_once() {
    let vendor = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let info = format!("sys/firmware/efi/efivars/LoaderInfo-{vendor}");
    let selected = format!("sys/firmware/efi/efivars/LoaderEntrySelected-{vendor}");
    let chosen = format!("sys/firmware/efi/efivars/LoaderEntryOneShot-{vendor}");
    let conf = "title Arch\nsort-key arch\nlinux /vmlinuz\ninitrd /i.img\noptions root=/dev/a rw preempt=full\n";
    let (folder, host) = tree(&[
        (&info, &efi("systemd-boot 255")),
        (&selected, &efi("arch.conf")),
        ("efi/loader/entries/arch.conf", conf.as_bytes()),
    ]);
    let before = all(folder.path());
    let loader = Loader::detect(&host);
    assert_eq!(loader.kind(), BootLoader::SystemdBoot, "{loader:?}");
    let files = loader
        .entries(&host, &[entry("punctual-1-0", "preempt=lazy")])
        .unwrap();
    assert_eq!(
        files[0].after,
        "title punctual: preempt=lazy\nlinux /vmlinuz\ninitrd /i.img\noptions root=/dev/a rw \
         preempt=lazy\n"
    );
    write(&host, &files[0]).unwrap();
    let ran = RefCell::new(Vec::new());
    let run = |program: &[&str]| {
        ran.borrow_mut().push(program.join(" "));
        Ok(())
    };
    loader.choose(&host, "punctual-1-0", &run).unwrap();
    assert!(!loader.forget(&host, "punctual-1-", &run).unwrap());
    std::fs::write(folder.path().join(&chosen), efi("punctual-1-0.conf")).unwrap();
    assert!(loader.forget(&host, "punctual-1-", &run).unwrap());
    std::fs::remove_file(folder.path().join(&chosen)).unwrap();
    assert_eq!(
        *ran.borrow(),
        [
            "bootctl set-oneshot punctual-1-0.conf",
            "bootctl set-oneshot "
        ]
    );
    let failing = |_: &[&str]| Err(io::Error::other("exit status 1"));
    let error = loader.choose(&host, "x", &failing).unwrap_err().to_string();
    assert!(
        error.contains("`bootctl set-oneshot 'x.conf'` failed: exit status 1"),
        "{error}"
    );
    put_back(&host, &files[0]).unwrap();
    assert_eq!(all(folder.path()), before);
}

#[test]
fn units_quote_what_systemd_would_interpret() {
    let (_folder, host) = tree(&[("etc/systemd/system/x", b"")]);
    let unit_of = |command: &[&str], needs: &str| {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let request = UnitRequest {
            name: "p",
            description: "D",
            command: &command,
            needs: Path::new(needs),
        };
        unit(&host, &request)
    };
    let files = unit_of(&["/p", "a b", "", "x\"y", "c\\d", "a-_./=:@"], "/a b%").unwrap();
    let line = "\nExecStart=/p \"a b\" \"\" \"x\\\"y\" \"c\\\\d\" a-_./=:@\n";
    assert!(files[0].after.contains(line), "{}", files[0].after);
    assert!(files[0].after.contains("\nRequiresMountsFor=\"/a b%%\"\n"));
    assert!(files[0].after.starts_with("[Unit]\nDescription=D\n"));
    assert_eq!(files[0].path, "/etc/systemd/system/p.service");
    assert_eq!(
        files[1].path,
        "/etc/systemd/system/multi-user.target.d/p.conf"
    );
    assert_eq!(files[1].after, "[Unit]\nWants=p.service\n");
    assert!(!files[0].made_folder && files[1].made_folder);
    for (command, needs) in [(&["a\nb"][..], "/x"), (&["a"], "/x\n")] {
        let error = unit_of(command, needs).unwrap_err();
        assert!(error.to_string().contains("control characters"), "{error}");
    }
}

#[test]
fn entry_of_systemd_boot_is_that_of_the_running_kernel() {
    let vendor = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let detected = |variables: &[(&str, &str)], entry: &str| {
        let mut files: Vec<(String, Vec<u8>)> = variables
            .iter()
            .map(|(name, text)| {
                (
                    format!("sys/firmware/efi/efivars/{name}-{vendor}"),
                    efi(text),
                )
            })
            .collect();
        files.push((
            entry.to_owned(),
            b"title A\n\nlinux /k\noptions a\noptions b=1\n".to_vec(),
        ));
        let files: Vec<_> = files
            .iter()
            .map(|(path, all)| (path.as_str(), all.as_slice()))
            .collect();
        let (_folder, host) = tree(&files);
        let loader = Loader::detect(&host);
        match loader.by_hand() {
            Some(why) => why.to_owned(),
            None => loader.entries(&host, &[entry_with_words()]).unwrap()[0]
                .after
                .clone(),
        }
    };
    fn entry_with_words() -> BootEntry {
        entry("p", "b=2")
    }
    let info = ("LoaderInfo", "systemd-boot 255");
    let selected = ("LoaderEntrySelected", "a.conf");
    let after = "title punctual: b=2\n\nlinux /k\noptions a b=2\n";
    for folder in ["boot", "efi", "boot/efi"] {
        let path = format!("{folder}/loader/entries/a.conf");
        assert_eq!(detected(&[info, selected], &path), after);
    }
    for (variables, why) in [
        (&[selected][..], "systemd-boot did not boot this machine"),
        (
            &[("LoaderInfo", "rEFInd 0.14"), selected],
            "rEFInd 0.14 booted this machine",
        ),
        (&[info], "the booted entry is unknown"),
        (
            &[info, ("LoaderEntrySelected", "../a.conf")],
            "is not the name of an entry",
        ),
        (
            &[info, ("LoaderEntrySelected", "b.conf")],
            "no file for the entry b.conf",
        ),
    ] {
        let found = detected(variables, "boot/loader/entries/a.conf");
        assert!(found.contains(why), "{found}");
        assert!(found.contains("; GRUB: no /boot/grub2/grub.cfg"), "{found}");
    }
}

#[test]
fn files_are_put_back_only_from_what_was_written() {
    let (folder, host) = tree(&[("etc/old", b"before")]);
    let path = folder.path().join("etc/old");
    let old = file(&host, "/etc/old", |before| format!("{}+", before.unwrap())).unwrap();
    assert_eq!(
        (old.before.as_deref(), old.after.as_str()),
        (Some("before"), "before+")
    );
    write(&host, &old).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before+");
    put_back(&host, &old).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    std::fs::remove_file(&path).unwrap();
    let error = put_back(&host, &old).unwrap_err();
    assert!(matches!(error, BootError::Changed { .. }), "{error}");
    // A folder that was made for the file is removed, unless it has other files by then.
    let new = file(&host, "/etc/new/a", |before| {
        before.unwrap_or("x").to_owned()
    })
    .unwrap();
    assert!(new.made_folder && new.before.is_none() && !old.made_folder);
    let made = folder.path().join("etc/new");
    for stays in [false, true] {
        write(&host, &new).unwrap();
        if stays {
            std::fs::write(made.join("other"), "").unwrap();
        }
        put_back(&host, &new).unwrap();
        assert!(!made.join("a").exists());
        assert_eq!(made.exists(), stays);
    }
    let loader = Loader::ByHand("why".to_owned());
    let steps = |words: &str| loader.steps(&entry("a", words));
    assert_eq!(
        steps("")[0],
        "boot the machine once without additional parameters"
    );
    assert!(steps("b=c")[0].contains("with `b=c`"));
    loader.choose(&host, "a", &no_program).unwrap();
    assert!(!loader.forget(&host, "a", &no_program).unwrap());
    assert_eq!(loader.kind(), BootLoader::ByHand);
}
