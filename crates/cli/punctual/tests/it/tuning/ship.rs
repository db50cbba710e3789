//! Tests of the kernel command line and of a tune at every boot, on a system below another root
//! folder.

use std::fs;
use std::path::PathBuf;

use crate::common::{Sandbox, text};

const GRUB: &str = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\n";

/// A system with GRUB and systemd.
fn system(place: &Sandbox) -> PathBuf {
    let root = place.path("root");
    for folder in ["etc/default", "usr/sbin", "usr/lib/systemd"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("usr/sbin/update-grub"), "").unwrap();
    fs::write(root.join("etc/default/grub"), GRUB).unwrap();
    root
}

#[test]
fn confirmed_command_line_is_written_and_restored() {
    let place = Sandbox::new();
    let grub = system(&place).join("etc/default/grub");
    let read = || fs::read_to_string(&grub).unwrap();
    let write = "tune cmdline write --root root --add isolcpus=1 --remove splash";
    let preview = place.done(&format!("{write} --dry-run"));
    assert!(preview.contains("\"quiet isolcpus=1\""), "{preview}");
    let error = place.refused(write, 2);
    assert!(error.contains("--yes"), "{error}");
    assert_eq!(read(), GRUB);
    place.done(&format!("{write} --yes"));
    assert_eq!(read(), GRUB.replace("quiet splash", "quiet isolcpus=1"));
    let shown = place.done("tune cmdline show --root root");
    assert!(shown.contains("isolcpus=1"), "{shown}");
    let same = place.done(&format!("{write} --yes"));
    assert!(same.contains("already"), "{same}");
    let again = place.refused("tune cmdline write --root root --add nohz=on --yes", 1);
    assert!(again.contains("punctual tune cmdline revert"), "{again}");
    place.done("tune cmdline revert --root root");
    assert_eq!(read(), GRUB);
}

#[test]
fn what_is_no_parameter_is_refused() {
    let place = Sandbox::new();
    system(&place);
    for (line, word) in [
        ("--add a;b", "interpret"),
        ("--add a=1 --remove a", "both"),
        ("--add a=1 --loader lilo", "choose one of"),
        ("", "--add"),
        ("nowhere.toml", "nowhere.toml"),
    ] {
        let error = place.refused(&format!("tune cmdline write --root root {line}"), 2);
        assert!(error.contains(word), "{line}: {error}");
    }
    let error = place.refused("tune cmdline show --root none", 2);
    assert!(error.contains("not a folder"), "{error}");
}

#[test]
fn boot_profile_is_enabled_shown_and_disabled() {
    let place = Sandbox::new();
    let root = system(&place);
    let none = place.done("tune boot status --root root");
    assert!(none.contains("Nothing is applied at boot"), "{none}");
    let enable = "tune enable control --cpus 1 --root root --program /usr/bin/punctual";
    let enabled = place.done(enable);
    assert!(enabled.contains("punctual-tune.service"), "{enabled}");
    let shown = place.done("tune boot status --root root");
    assert!(
        shown.contains("control") && !shown.contains("is missing"),
        "{shown}"
    );
    let wanted = root.join("etc/systemd/system/multi-user.target.wants");
    assert_eq!(fs::read_dir(&wanted).unwrap().count(), 2);
    place.done("tune disable --root root");
    assert_eq!(fs::read_dir(&wanted).unwrap().count(), 0);
    assert!(!root.join("etc/punctual").exists());
    for (line, word) in [
        ("tune enable --root root", "nothing to enable"),
        ("tune enable contrl --root root", "control"),
        (
            "tune enable control --root root --program /a$b",
            "quotation",
        ),
    ] {
        let error = place.refused(line, 2);
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn at_boot_nothing_is_applied_unless_enabled() {
    if fs::exists("/etc/punctual/boot.toml").unwrap() {
        punctual_testing::skip!(Hardware, "a tune is enabled on this machine");
        return;
    }
    let place = Sandbox::new();
    let output = place.run("tune boot apply");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("tune enable"), "{error}");
    let verified = place.done("tune boot verify");
    assert!(verified.contains("No settings were applied"), "{verified}");
}
