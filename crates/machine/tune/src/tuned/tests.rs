//! Tests of the import of profiles.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::TunedImport;
use crate::{Profile, TuneError};

const BASE: &str = "\
[main]
summary=Base
[cpu]
force_latency=cstate.id_no_zero:1|3
governor=performance
min_perf_pct=100
[sysctl]
vm.swappiness=10
vm.dirty_ratio = 10   # a comment
net.ipv4.tcp_fastopen=3
[bootloader]
cmdline_base=skew_tick=1
";

const CHILD: &str = "\
[main]
summary=Child
include=base
[variables]
include=/etc/tuned/child-variables.conf
isolated_cores = ${isolated_cores}
others = ${f:cpulist2hex_invert:${isolated_cores}}
temporary = ${f:strip:${f:exec:mktemp:-d}}
managed=${f:regex_search_ternary:${managed_flag}:\\b[y,Y,1]\\b:managed_irq,domain,:}
[sysctl]
vm.swappiness = 1
kernel.nmi_watchdog=0
[sysfs]
/sys/bus/workqueue/devices/writeback/cpumask = ${others}
/sys/devices/virtual/workqueue/cpumask = ${others}
/sys/devices/system/machinecheck/machinecheck*/ignore_ce = 1
[bootloader]
cmdline_child=+isolcpus=${managed}${isolated_cores} nosoftlockup
 tsc=reliable non_isolated=${others}
[script]
script = ${i:PROFILE_DIR}/script.sh
[scheduler]
isolated_cores=${isolated_cores}
group.ksoftirqd=0:f:2:*:^\\[ksoftirqd
[rtentsk]
";

const VARIABLES: &str = "# CPUs\nisolated_cores=2-3\nmanaged_flag=Y\n";

/// Creates a tree with these profiles.
pub(super) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn family(child: &str) -> tempfile::TempDir {
    tree(&[
        ("usr/lib/tuned/base/tuned.conf", BASE),
        ("usr/lib/tuned/child/tuned.conf", child),
        ("etc/tuned/child-variables.conf", VARIABLES),
    ])
}

/// Imports a profile that consists of one file.
fn import(text: &str) -> Result<TunedImport, TuneError> {
    let root = tree(&[("etc/tuned/one/tuned.conf", text)]);
    TunedImport::read(root.path(), "one")
}

/// A message about a file shows its lines, and any user can own the folder of a profile.
#[test]
fn profile_includes_no_file_elsewhere() {
    let system = tree(&[("etc/secret", "secret\n")]);
    let secret = system.path().join("etc/secret");
    let (any, text) = (tree(&[]), |file: &Path| {
        format!("[variables]\ninclude={}\n", file.display())
    });
    let link = any.path().join("link");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let profile = any.path().join("one/tuned.conf");
    fs::create_dir(any.path().join("one")).unwrap();
    for file in [&secret, &link] {
        fs::write(&profile, text(file)).unwrap();
        let name = profile.to_str().unwrap();
        let error = TunedImport::read(Path::new("/"), name).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("only files in "), "{message}");
    }
}

/// Returns the settings and parameters of an import.
pub(super) fn lines(import: &TunedImport) -> Vec<String> {
    let text = import.toml();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(" = "));
    lines.map(|line| line.replace('"', "")).collect()
}

#[test]
fn included_profiles_become_one_profile() {
    let root = family(CHILD);
    let import = TunedImport::read(root.path(), "child").unwrap();
    assert_eq!(
        lines(&import),
        [
            "summary = Child",
            "dma-latency-us = 3",
            "governor@* = performance",
            "min-perf-percent = 100",
            "swappiness = 1",
            "dirty-limit = 10%",
            "watchdog@nmi = off",
            "workqueue-cpus-of@writeback = housekeeping",
            "workqueue-cpus = housekeeping",
            "mce-ignore-corrected@* = on",
            "irq-affinity = housekeeping",
            "default-irq-affinity = housekeeping",
            "skew_tick = 1",
            "isolcpus = managed_irq,domain,{measured}",
            "nosoftlockup = true",
            "tsc = reliable",
        ]
    );
    assert_eq!(import.cpus, Some("2-3".parse().unwrap()));
    let left_out: Vec<String> = (import.left_out.iter())
        .map(|one| format!("{} {}: {}", one.section, one.option, one.reason))
        .collect();
    for expected in [
        "variables temporary: the function exec is not run",
        "cpu force_latency: of several values that TuneD tries in order, 3 is used",
        "sysctl net.ipv4.tcp_fastopen: punctual has no setting for /proc/sys/net/ipv4/tcp_fastopen",
        "bootloader cmdline_child: non_isolated: punctual writes CPUs only as a list",
        "script script: scripts are never run",
        "scheduler group.ksoftirqd: groups of processes are not changed: use punctual exec, or \
         the setting thread-priority",
        "rtentsk : punctual has no counterpart",
    ] {
        assert!(
            left_out.iter().any(|line| line == expected),
            "{expected}\n{left_out:#?}"
        );
    }
    let at = |option: &str| {
        import
            .left_out
            .iter()
            .find(|one| one.option == option)
            .unwrap()
    };
    assert!(
        at("script")
            .at
            .ends_with("usr/lib/tuned/child/tuned.conf:21"),
        "{:?}",
        at("script")
    );
}

#[test]
fn later_profile_replaces_and_drops_options() {
    let with = |head: &str| {
        let child = format!("[main]\ninclude=base\n[sysctl]\n{head}\nkernel.nmi_watchdog=0\n");
        let root = family(&child);
        lines(&TunedImport::read(root.path(), "child").unwrap()).join("\n")
    };
    assert!(with("").contains("swappiness"));
    assert!(!with("replace=1").contains("swappiness"));
    let dropped = with("drop=vm.swappiness");
    assert!(!dropped.contains("swappiness") && dropped.contains("dirty-limit"));
    let off = import("[sysctl]\nenabled=false\nvm.swappiness=1\n").unwrap();
    assert_eq!(off.left_out[0].reason, "the section is disabled");
    let typed = import("[mine]\ntype=sysctl\nvm.swappiness=1\n").unwrap();
    assert!(lines(&typed).contains(&"swappiness = 1".to_owned()));
    let conditional = import("[vm]\nuname_regex=aarch64\ntransparent_hugepages=never\n").unwrap();
    assert!(
        conditional.left_out[0]
            .reason
            .contains("uname_regex = aarch64")
    );
}

#[test]
fn interrupts_stay_without_irq_process() {
    let with = |option: &str| {
        let text = format!("[scheduler]\nisolated_cores=2-3\n{option}\n");
        import(&text).unwrap()
    };
    let moved = [
        "irq-affinity = housekeeping",
        "default-irq-affinity = housekeeping",
    ];
    assert_eq!(lines(&with("irq_process=true"))[1..], moved);
    assert_eq!(lines(&with("default_irq_smp_affinity=calc"))[1..], moved);
    for option in [
        "irq_process=false",
        "irq_process=0\ndefault_irq_smp_affinity=ignore",
        "irq_process=no\ndefault_irq_smp_affinity=1",
    ] {
        let import = with(option);
        assert_eq!(lines(&import), ["summary = "], "{option}");
        let [left_out] = import.left_out.as_slice() else {
            panic!("{:?}", import.left_out);
        };
        assert!(
            left_out.reason.contains("leaves the interrupts"),
            "{left_out:?}"
        );
    }
}

#[test]
fn undecided_include_is_listed_and_the_rest_imported() {
    let child = "[main]\ninclude=${f:virt_check:a:b},base\n[vm]\ntransparent_hugepages=never\n";
    let root = family(child);
    let import = TunedImport::read(root.path(), "child").unwrap();
    assert!(lines(&import).contains(&"thp = never".to_owned()));
    assert!(lines(&import).contains(&"swappiness = 10".to_owned()));
    let left_out = &import.left_out[0];
    assert_eq!(left_out.option(), "[main] include");
    let reason = "the function virt_check is not run: the settings of the included profile";
    assert!(left_out.reason.starts_with(reason), "{left_out:?}");
}

#[test]
fn profile_extends_its_namesake_in_usr() {
    let root = tree(&[
        ("usr/lib/tuned/base/tuned.conf", BASE),
        (
            "etc/tuned/base/tuned.conf",
            "[main]\ninclude=base\n[sysctl]\nvm.swappiness=5\n",
        ),
    ]);
    let import = TunedImport::read(root.path(), "base").unwrap();
    assert!(lines(&import).contains(&"swappiness = 5".to_owned()));
    assert!(lines(&import).contains(&"governor@* = performance".to_owned()));
    // A path selects the file directly.
    let path = root.path().join("usr/lib/tuned/base");
    let direct = TunedImport::read(root.path(), path.to_str().unwrap()).unwrap();
    assert!(lines(&direct).contains(&"swappiness = 10".to_owned()));
}

#[test]
fn devices_of_cpus_become_selection() {
    let with = |devices: &str, option: &str| {
        let text = format!(
            "[variables]\nisolated_cores=2-3\n[cpu]\ndevices={devices}\n{option}\nmin_perf_pct=50\n"
        );
        import(&text).unwrap()
    };
    let of_cpus = with(
        "${f:cpulist2devs:${isolated_cores}}",
        "governor=performance",
    );
    assert!(lines(&of_cpus).contains(&"governor = performance".to_owned()));
    assert_eq!(
        lines(&with("cpu2,cpu3", "energy_perf_bias=normal")),
        ["summary = ", "energy-bias = 6", "min-perf-percent = 50"]
    );
    let other = with("cpu1", "governor=performance");
    assert_eq!(lines(&other), ["summary = ", "min-perf-percent = 50"]);
    assert!(other.left_out[0].reason.contains("SETTING@INSTANCE"));
}

#[test]
fn bad_profiles_are_refused_with_line() {
    for (text, expected) in [
        (
            "x=1\n",
            "one/tuned.conf:1:1: this line is above the first section",
        ),
        (
            "[main]\nwrong\n",
            "one/tuned.conf:2:1: this is neither a section [NAME] nor an option",
        ),
        (
            "[main\n",
            "one/tuned.conf:1:1: write a section as a name in brackets",
        ),
        (
            "[a]\n=1\n",
            "one/tuned.conf:2:1: the name before '=' is missing",
        ),
        (
            "[a]\nb=1\nb=2\n",
            "one/tuned.conf:3:1: 'b' is already in line 2 of this section",
        ),
        (
            "[a]\n[b]\n[a]\n",
            "one/tuned.conf:3:1: the section [a] is already at",
        ),
        (
            "[a]\nb=\u{1}\n",
            "one/tuned.conf:2:1: the line contains a control character",
        ),
        ("[main]\ninclude=none\n", "one/tuned.conf:2)"),
        ("[main]\ninclude=../x\n", "'../x'"),
        (
            "[main]\ninclude=one\n",
            "one: the profile includes itself (included in",
        ),
        (
            "[variables]\ninclude=/etc/tuned/none\n",
            "one/tuned.conf:2)",
        ),
        (
            "[variables]\ninclude=/etc/secret\n",
            "only files in /etc/tuned/profiles, /etc/tuned, ",
        ),
        (
            "[variables]\ninclude=/etc/tuned/../secret\n",
            "only files in /etc/tuned/profiles, /etc/tuned, ",
        ),
    ] {
        let error = import(text).unwrap_err();
        assert!(error.is_usage());
        let message = error.to_string().replace("../x:", "'../x'");
        assert!(message.contains(expected), "{expected}\n{message}");
    }
    let endless = format!("[a]\n{}", "\n".repeat(20_000));
    let message = import(&endless).unwrap_err().to_string();
    assert!(message.contains("more than 10000 lines"), "{message}");
    let root = tree(&[]);
    let path = root.path().join("tuned.conf");
    fs::write(&path, b"[a]\nb=1\nc=\xff\n").unwrap();
    let message = |name: &str| {
        TunedImport::read(root.path(), name)
            .unwrap_err()
            .to_string()
    };
    let name = path.to_str().unwrap();
    assert!(
        message(name).contains("tuned.conf:3: the line is not UTF-8"),
        "{}",
        message(name)
    );
    fs::write(&path, "#".repeat(300_000)).unwrap();
    assert!(
        message(name).contains("more than 262144 bytes"),
        "{}",
        message(name)
    );
    assert!(message("/dev/zero").contains("not a regular file"));
    assert!(message("nowhere").contains("/usr/lib/tuned"));
}

#[test]
fn profiles_that_include_each_other_are_refused() {
    let root = tree(&[
        ("etc/tuned/a/tuned.conf", "[main]\ninclude=b\n"),
        ("etc/tuned/b/tuned.conf", "[main]\ninclude=c, a\n"),
        (
            "etc/tuned/c/tuned.conf",
            "[main]\ninclude=-missing\n[sysctl]\nvm.swappiness=1\n",
        ),
        ("etc/tuned/d/tuned.conf", "[main]\ninclude=c;c\n"),
    ]);
    let message = TunedImport::read(root.path(), "a").unwrap_err().to_string();
    assert!(
        message.contains("a: the profile includes itself"),
        "{message}"
    );
    assert!(message.contains("b/tuned.conf:2"), "{message}");
    // A profile that is included twice is read once.
    let twice = TunedImport::read(root.path(), "d").unwrap();
    assert_eq!(twice.files.len(), 2);
}

#[test]
fn variables_cannot_grow_without_limit() {
    let mut text = String::from("[variables]\nv0=xxxxxxxxxxxxxxxx\n");
    for n in 1..200 {
        text.push_str(&format!("v{n}=${{v{}}}${{v{}}}\n", n - 1, n - 1));
    }
    text.push_str("[sysctl]\nvm.swappiness=${v199}\nvm.stat_interval=${v\n");
    let import = import(&text).unwrap();
    assert_eq!(lines(&import), ["summary = "]);
    let reasons: Vec<&str> = import
        .left_out
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert!(reasons[0].contains("more than 4096 bytes"), "{reasons:?}");
    assert!(
        reasons.last().unwrap().contains("has no '}'"),
        "{reasons:?}"
    );
}

proptest! {
    #[test]
    fn damaged_profiles_never_panic(
        edits in prop::collection::vec((0_usize..2_000, any::<u8>(), 0_usize..4), 1..6)
    ) {
        let mut bytes = CHILD.as_bytes().to_vec();
        for (place, byte, kind) in edits {
            let place = place % bytes.len().max(1);
            if bytes.is_empty() {
                break;
            }
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, b"[]=${}:|\n#"[usize::from(byte) % 10]),
                2 => { bytes.remove(place); }
                _ => bytes.truncate(place.max(1)),
            }
        }
        let root = family("");
        fs::write(root.path().join("usr/lib/tuned/child/tuned.conf"), &bytes).unwrap();
        match TunedImport::read(root.path(), "child") {
            Ok(import) => { Profile::parse("x", &import.toml()).unwrap(); }
            Err(error) => prop_assert!(error.to_string().contains("tuned"), "{error}"),
        }
    }

    #[test]
    fn texts_never_panic(text in "(\\[(cpu|sysctl|variables|bootloader)\\]\n|[a-z_=${}:f,*\\\\ \n-]{0,20}){0,12}") {
        let _ = import(&text);
    }
}

/// A line of another file must not reach the terminal, and a link must not lead out of the root.
#[test]
fn only_files_of_tuned_are_included() {
    let root = tree(&[(
        "etc/tuned/one/tuned.conf",
        "[variables]\ninclude=/etc/tuned/keys\n",
    )]);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("keys"), "root:secret\n").unwrap();
    let link = root.path().join("etc/tuned/keys");
    std::os::unix::fs::symlink(outside.path().join("keys"), &link).unwrap();
    let said = TunedImport::read(root.path(), "one")
        .unwrap_err()
        .to_string();
    assert!(said.contains("only files in"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
