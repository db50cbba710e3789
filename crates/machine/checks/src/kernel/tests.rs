//! Tests of the judgement of configurations.

use super::*;
use proptest::prelude::*;

fn config(text: &str) -> Fact<String> {
    Fact::known(text.to_owned(), "/boot/config-1")
}

/// Returns a complete configuration for this kernel version that contains these lines.
fn whole(version: &str, lines: &str) -> String {
    let others: String = (0..400).map(|n| format!("CONFIG_X{n}=y\n")).collect();
    format!("#\n# Linux/x86 {version} Kernel Configuration\n#\n{lines}{others}")
}

fn found(text: &str, option: &str, role: Role) -> Finding {
    let id = id(option);
    findings(&config(text), role, None)
        .into_iter()
        .find(|finding| finding.id == id)
        .unwrap()
}

#[test]
fn each_option_appears_once_with_reason() {
    let mut seen = std::collections::HashSet::new();
    for option in OPTIONS {
        assert!(option.option.starts_with("CONFIG_"), "{}", option.option);
        assert!(seen.insert(option.option), "{} twice", option.option);
        assert!(!option.why.is_empty() && !option.source.is_empty());
    }
}

#[test]
fn every_option_reaches_every_state() {
    for option in OPTIONS {
        let name = option.option;
        let needs = match option.needs {
            "" => String::new(),
            needs => format!("{needs}=y\n"),
        };
        for (text, state) in [
            (format!("{needs}{name}=y\n"), true),
            (format!("{needs}# {name} is not set\n"), false),
        ] {
            let expected = if state == wants_on(option.wanted, Role::Control) {
                FindingState::Ok
            } else {
                FindingState::Fail
            };
            let finding = found(&text, name, Role::Control);
            assert_eq!(finding.state, expected, "{name} in {text}");
            assert_eq!(finding.reboot.is_some(), expected == FindingState::Fail);
        }
        let none = Fact::unknown("/proc/config.gz", "permission denied");
        let id = id(name);
        let unknown = findings(&none, Role::Control, None);
        let unknown = unknown.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(unknown.state, FindingState::Unknown);
        assert_eq!(unknown.found, "permission denied");
    }
}

#[test]
fn unknown_option_is_never_ok() {
    for option in OPTIONS {
        let finding = found("CONFIG_X=y\n", option.option, Role::Control);
        assert_ne!(finding.state, FindingState::Ok, "{}", option.option);
    }
}

#[test]
fn what_an_option_needs_is_asked_first() {
    let name = "CONFIG_EFI_DISABLE_RUNTIME";
    let with = format!("CONFIG_EFI=y\n# {name} is not set\n");
    assert_eq!(found(&with, name, Role::Control).state, FindingState::Fail);
    for without in [
        format!("# CONFIG_EFI is not set\n# {name} is not set\n"),
        whole("6.1.0", &format!("# {name} is not set\n")),
    ] {
        let without = found(&without, name, Role::Control);
        assert_eq!(without.state, FindingState::NotApplicable);
    }
    // A line for the option in a defconfig shows that the kernel has it.
    let part = found(&format!("# {name} is not set\n"), name, Role::Control);
    assert_eq!(part.state, FindingState::Fail);
}

#[test]
fn selected_option_cannot_be_turned_off() {
    let name = "CONFIG_CPU_FREQ_GOV_SCHEDUTIL";
    let selected = format!("{name}=y\nCONFIG_X86_INTEL_PSTATE=y\n");
    let finding = found(&selected, name, Role::Control);
    assert_eq!(finding.state, FindingState::NotApplicable);
    assert_eq!(finding.found, "CONFIG_X86_INTEL_PSTATE selects it");
    let free = found(&format!("{name}=y\n"), name, Role::Control);
    assert_eq!(free.state, FindingState::Fail);
}

#[test]
fn fragment_sets_option_dependencies() {
    let text = fragment(Role::Control);
    let at = |line: &str| text.lines().position(|own| own == line);
    assert!(at("CONFIG_RCU_EXPERT=y") < at("CONFIG_RCU_NOCB_CPU=y"));
    assert!(at("CONFIG_IKCONFIG=y").is_some());
}

#[test]
fn partial_configuration_is_no_proof() {
    let name = "CONFIG_CPU_FREQ";
    // A long defconfig counts as partial because it lacks the heading. A few lines count as
    // partial even with the heading.
    let defconfig: String = (0..1_500).map(|n| format!("CONFIG_X{n}=y\n")).collect();
    let heading = "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_X=y\n".to_owned();
    for part in ["CONFIG_X=y\n".to_owned(), defconfig, heading] {
        for name in [name, "CONFIG_PROVE_LOCKING"] {
            let part = found(&part, name, Role::Control);
            assert_eq!(part.state, FindingState::Unknown);
            assert!(part.found.contains("make olddefconfig"), "{}", part.found);
        }
    }
    let whole = found(&whole("6.1.0", ""), name, Role::Control);
    assert_eq!(
        (whole.state, whole.found.as_str()),
        (FindingState::Fail, "is not offered")
    );
}

#[test]
fn option_name_and_age_follow_kernel() {
    let old = whole("4.14.93-rt53", "CONFIG_PREEMPT_RT_FULL=y\n");
    let rt = found(&old, "CONFIG_PREEMPT_RT", Role::Control);
    assert_eq!((rt.state, rt.found.as_str()), (FindingState::Ok, "is y"));
    let isolation = found(&old, "CONFIG_CPU_ISOLATION", Role::Control);
    assert_eq!(isolation.state, FindingState::NotApplicable);
    assert_eq!(isolation.found, "does not exist before Linux 4.15");
    let new = found(&whole("4.15.0", ""), "CONFIG_CPU_ISOLATION", Role::Control);
    assert_eq!(new.state, FindingState::Fail);
}

#[test]
fn a_switch_of_the_running_kernel_counts() {
    let text = config("CONFIG_LOCKUP_DETECTOR=y\n");
    let of = |nmi: &str, soft: &str| {
        let file = |name: &str, value: &str| {
            let path = format!("/proc/sys/kernel/{name}_watchdog");
            (path, Reading::Text(value.to_owned()))
        };
        let files = [file("nmi", nmi), file("soft", soft)];
        let all = findings(&text, Role::Control, Some(&files.into()));
        let id = id("CONFIG_LOCKUP_DETECTOR");
        all.into_iter().find(|finding| finding.id == id).unwrap()
    };
    assert_eq!(of("0", "0").state, FindingState::Ok);
    assert_eq!(of("0", "1").state, FindingState::Fail);
    let on = of("1", "1");
    assert_eq!(on.state, FindingState::Fail);
    assert_eq!(on.now, ["punctual tune apply --set watchdog=off"]);
    assert_eq!(on.remedies[0].assignment(), "watchdog=off");
}

#[test]
fn a_fragment_passes_its_own_check() {
    for (role, _, _) in crate::ROLES {
        let text = fragment(role);
        for finding in findings(&config(&text), role, None) {
            let left_out = finding.severity == Severity::Info && finding.expected == "n";
            assert!(
                finding.state == FindingState::Ok || left_out,
                "{role}: {} {}",
                finding.id,
                finding.found
            );
        }
    }
}

#[test]
fn version_is_that_of_the_heading() {
    let of = |text: &str| version(&format!("# {text} Kernel Configuration\n"));
    assert_eq!(of("Linux/x86 6.12.3"), Some((6, 12)));
    assert_eq!(of("Linux/arm64 4.9"), Some((4, 9)));
    for none in [
        "Linux/x86",
        "Linux/x86 six.1",
        "Linux/x86 6",
        "Linux/x86 6.x",
    ] {
        assert_eq!(of(none), None, "{none}");
    }
    assert_eq!(version("CONFIG_A=y\n"), None);
}

#[test]
fn option_is_newer_than_its_first_version() {
    let name = "CONFIG_OSNOISE_TRACER";
    let of = |version: &str| found(&whole(version, ""), name, Role::Control);
    assert_eq!(of("5.13.19").state, FindingState::NotApplicable);
    assert_eq!(of("5.14.0").state, FindingState::Fail);
    assert_eq!(of("4.99.0").found, "does not exist before Linux 5.14");
    assert_eq!(of("6.0.0").found, "is not offered");
}

#[test]
fn module_or_value_is_not_built_in() {
    for (text, name, state) in [
        (
            "CONFIG_HIGH_RES_TIMERS=m\n",
            "CONFIG_HIGH_RES_TIMERS",
            FindingState::Fail,
        ),
        ("CONFIG_DRM=m\n", "CONFIG_DRM", FindingState::Fail),
        ("CONFIG_DRM=n\n", "CONFIG_DRM", FindingState::Ok),
    ] {
        assert_eq!(found(text, name, Role::Control).state, state, "{text}");
    }
    // A complete configuration that does not mention an unwanted option has no such option.
    let none = found(&whole("6.1.0", ""), "CONFIG_DRM", Role::Control);
    assert_eq!(none.state, FindingState::NotApplicable);
}

#[test]
fn fragment_of_a_running_kernel_is_not_called_a_defconfig() {
    let text = config("CONFIG_X=y\n");
    let of = |running| {
        let all = findings(&text, Role::Control, running);
        all[0].found.clone()
    };
    let none = BTreeMap::new();
    assert_eq!(
        of(Some(&none)),
        "is not in this configuration, which is only a fragment"
    );
    assert!(of(None).ends_with("run make olddefconfig first"));
}

#[test]
fn switched_off_options_name_their_files() {
    let text = config("CONFIG_LATENCYTOP=y\nCONFIG_LOCKUP_DETECTOR=y\n");
    let path = |name: &str| format!("/proc/sys/kernel/{name}");
    let off = |name: &str| (path(name), Reading::Text("0".to_owned()));
    let files = BTreeMap::from(["latencytop", "nmi_watchdog", "soft_watchdog"].map(off));
    let all = findings(&text, Role::Control, Some(&files));
    let of = |name: &str| all.iter().find(|one| one.id == id(name)).unwrap();
    let top = of("CONFIG_LATENCYTOP");
    assert_eq!(
        top.found,
        "is built in, but switched off: /proc/sys/kernel/latencytop is 0"
    );
    assert_eq!(top.evidence.len(), 2);
    let detector = of("CONFIG_LOCKUP_DETECTOR");
    assert!(
        detector.found.ends_with("soft_watchdog are 0"),
        "{}",
        detector.found
    );
    assert!(detector.now.is_empty() && detector.reboot.is_none());
    // Without a reading of the switch, the kernel's default counts.
    let all = findings(&text, Role::Control, Some(&BTreeMap::new()));
    let top = all
        .iter()
        .find(|one| one.id == id("CONFIG_LATENCYTOP"))
        .unwrap();
    assert_eq!(
        (top.state, top.found.as_str()),
        (FindingState::Fail, "is y")
    );
    // A configuration that is not running has no switches.
    let alone = findings(&text, Role::Control, None);
    assert!(alone.iter().all(|finding| finding.now.is_empty()));
}

#[test]
fn every_file_that_switches_an_option_is_captured() {
    let files: Vec<&str> = switches().collect();
    assert!(files.contains(&"/proc/sys/kernel/latencytop"), "{files:?}");
    assert!(
        files
            .iter()
            .all(|file| file.starts_with("/proc/sys/kernel/")),
        "{files:?}"
    );
}

proptest! {
    #[test]
    fn no_configuration_panics(text in "(CONFIG_PREEMPT_RT|# |=y| is not set|\n|\\PC){0,40}") {
        let _ = findings(&config(&text), Role::Lab, None);
    }
}
