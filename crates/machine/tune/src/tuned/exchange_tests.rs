//! Tests of exported profiles, and of the profiles that TuneD contains.

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use punctual_host::Host;
use punctual_model::{CpuSet, Location, SETTINGS, Setting, Values, mask};
use punctual_testing::skip;

use super::tests::{lines, tree};
use super::{TunedExport, TunedImport};
use crate::testing::Machine;
use crate::{Plan, Profile, Request, Wish};

/// Returns values of a setting, as a user writes them.
fn values(setting: &Setting) -> Vec<String> {
    let own: &[&str] = match setting.values {
        Values::Offered(_) | Values::Marked => &["beta", "alpha"],
        Values::Number { min, max } => return vec![min.to_string(), max.to_string()],
        Values::NumberOr { word, min, .. } => return vec![word.to_owned(), min.to_string()],
        // The file has 5, which the other limit of the frequency must not cross.
        Values::Between { .. } if setting.name == "freq-max" => &["900", "max"],
        Values::Between { .. } => &["2", "min"],
        Values::Words(words) => words,
        Values::PowerOfTwo { .. } => &["0", "1024"],
        Values::Switch => &["on", "off"],
        Values::Mask | Values::List => &["measured", "housekeeping", "1-2"],
        Values::Own(_) if setting.name.starts_with("dirty") => &["4%", "65536"],
        Values::Own(_) => &["on", "5"],
    };
    own.iter().map(|value| (*value).to_owned()).collect()
}

/// Creates the files of all settings that are files.
fn machine_with_all_settings() -> Machine {
    let machine = Machine::new();
    machine.write("sys/devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let policy = format!("sys/devices/system/cpu/cpufreq/policy{cpu}/related_cpus");
        machine.write(&policy, &format!("{cpu}\n"));
    }
    let each = |pattern: &str, text: &str| {
        for number in 0..4 {
            let path = pattern
                .replace('#', &number.to_string())
                .replace('*', "dev");
            machine.write(path.trim_start_matches('/'), text);
        }
    };
    for setting in SETTINGS {
        let now = match setting.values {
            Values::Offered(list) => {
                each(list, "alpha beta gamma\n");
                "gamma".to_owned()
            }
            Values::Marked => "alpha beta [gamma]".to_owned(),
            Values::Between { least, most } => {
                each(least, "1\n");
                each(most, "1000\n");
                "5".to_owned()
            }
            Values::Mask => mask(&"0-3".parse::<CpuSet>().unwrap()),
            Values::List => "0-3".to_owned(),
            Values::Words(words) => words[0].to_owned(),
            _ => "3".to_owned(),
        };
        match setting.location {
            Location::File(path) | Location::Each(path) => each(path, &now),
            Location::Parts(parts) => parts.iter().for_each(|(_, path)| each(path, &now)),
            Location::Special { .. } => {}
        }
    }
    for (file, text) in [
        ("dirty_ratio", "20"),
        ("dirty_bytes", "0"),
        ("dirty_background_ratio", "10"),
        ("dirty_background_bytes", "0"),
    ] {
        machine.write(&format!("proc/sys/vm/{file}"), text);
    }
    machine
}

/// Returns the changes of a plan, and its kernel parameters.
fn planned(machine: &Machine, request: &Request) -> Vec<String> {
    let plan = Plan::make(request, machine.host(), &machine.journal()).unwrap();
    let steps = plan
        .steps
        .iter()
        .map(|step| format!("{} = {}", step.label, step.target));
    let boot = plan.boot.iter().map(|one| one.argument.clone());
    steps.chain(boot).collect()
}

#[test]
fn exported_profile_is_imported_unchanged() {
    let machine = machine_with_all_settings();
    let choice = prop::collection::vec((0..SETTINGS.len(), 0_usize..6, 0..3), 1..12);
    proptest!(|(choice in choice, cpus in any::<bool>())| {
        let mut text = String::from("summary = \"Mine\"\n[settings]\n");
        let mut rows = Vec::new();
        for (row, value, kind) in choice {
            let setting = &SETTINGS[row];
            let values = values(setting);
            let value = &values[value % values.len()];
            let instance = match setting.instance_form() {
                Some(_) if kind == 0 => "*".to_owned(),
                Some(form) if kind == 1 => form.replace('#', "1").replace('*', "dev"),
                _ => String::new(),
            };
            let instance = match setting.location {
                Location::Each(_) => instance,
                _ => String::new(),
            };
            let is_special = matches!(setting.location, Location::Special { .. });
            let is_known = !is_special || setting.name.starts_with("dirty");
            if is_known && !rows.contains(&row) {
                text.push_str(&format!("\"{}\" = \"{value}\"\n", setting.named(&instance)));
                rows.push(row);
            }
        }
        text.push_str("[boot]\nnohz_full = \"{measured}\"\nirqaffinity = \"{housekeeping}\"\nskew_tick = 1\n");
        let cpus: Option<CpuSet> = cpus.then(|| "2-3".parse().unwrap());
        let request = |profile: Profile| Request {
            profile: Some(profile),
            sets: Vec::new(),
            cpus: cpus.clone(),
        };
        let original = request(Profile::parse("mine", &text).unwrap());
        let export = TunedExport::new(&original).unwrap();
        let root = tree(&[("etc/tuned/mine/tuned.conf", &export.text)]);
        let import = TunedImport::read(root.path(), "mine").unwrap();
        prop_assert!(import.left_out.is_empty(), "{:?}\n{}", import.left_out, export.text);
        let again = request(Profile::parse("again", &import.toml()).unwrap());
        // The plan also lacks what TuneD cannot express.
        let mut kept = original.clone();
        if let Some(profile) = &mut kept.profile {
            let is_out = |wish: &Wish| {
                let name = wish.setting.named(wish.selector.as_deref().unwrap_or(""));
                export.left_out.iter().any(|one| one.setting == name)
            };
            profile.settings.retain(|wish| !is_out(wish));
        }
        prop_assert_eq!(planned(&machine, &kept), planned(&machine, &again), "{}", export.text);
    });
}

#[test]
fn export_lists_reasons_of_missing_settings() {
    let export = |text: &str, cpus: Option<&str>| {
        TunedExport::new(&Request {
            profile: Some(Profile::parse("mine", text).unwrap()),
            sets: Vec::new(),
            cpus: cpus.map(|cpus| cpus.parse().unwrap()),
        })
        .unwrap()
    };
    let text = "[settings]\nfreq-min = \"max\"\nirq-affinity = \"housekeeping\"\n\
                default-irq-affinity = \"housekeeping\"\nworkqueue-cpus = \"housekeeping\"\n\
                idle-limit-us = 5\n[boot]\nisolcpus = \"{measured}\"\n";
    let reasons = |export: &TunedExport| -> Vec<String> {
        let lines = export.left_out.iter();
        lines
            .map(|one| format!("{}: {}", one.setting, one.reason))
            .collect()
    };
    let with = export(text, Some("2-3"));
    assert_eq!(
        reasons(&with),
        [
            "default-irq-affinity: TuneD writes only files in /proc/sys and /sys",
            "freq-min: the limits of the hardware are known only on the machine",
            "idle-limit-us: TuneD has no option for it",
            "irq-affinity: TuneD moves interrupts only together with processes: add \
             isolated_cores to [scheduler] if you want both",
        ]
    );
    assert!(with.text.contains("isolated_cores=2-3"));
    assert!(with.text.contains("+isolcpus=${isolated_cores}\n"));
    assert!(
        with.text
            .contains("# not exported: idle-limit-us: TuneD has no option for it\n")
    );
    let without = export(text, None);
    let out = reasons(&without).join("\n");
    assert!(
        out.contains("workqueue-cpus: 'housekeeping' needs --cpus"),
        "{out}"
    );
    assert!(
        out.contains("boot argument isolcpus: 'measured' needs --cpus"),
        "{out}"
    );
    assert!(!without.text.contains("${"));
}

#[test]
fn profiles_of_installed_tuned_are_imported() {
    let Ok(folders) = fs::read_dir("/usr/lib/tuned") else {
        skip!(Program, "tuned is not installed");
        return;
    };
    let names = folders.map(|folder| folder.unwrap().path());
    let mut count = 0;
    for path in names.filter(|path| path.join("tuned.conf").is_file()) {
        count += 1;
        let import = TunedImport::read(Path::new("/"), path.to_str().unwrap()).unwrap();
        assert!(!import.files.is_empty());
    }
    if count == 0 {
        skip!(Program, "tuned is installed without profiles");
        return;
    }
    let import = TunedImport::read(Path::new("/"), "/usr/lib/tuned/realtime").unwrap();
    let lines = lines(&import);
    for expected in [
        "governor@* = performance",
        "rt-runtime-us = -1",
        "thp = never",
        "workqueue-cpus = housekeeping",
        "irqbalance-banned = measured",
        "tsc = reliable",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}\n{lines:#?}"
        );
    }
    let isolated = lines.iter().find(|line| line.starts_with("isolcpus = "));
    assert!(
        isolated.is_some_and(|line| line.ends_with("{measured}")),
        "{lines:#?}"
    );
}

/// Loads a profile with TuneD's own code, and prints its options with all variables replaced.
const LOAD: &str = "
import json, sys
from tuned.profiles.factory import Factory
from tuned.profiles.loader import Loader
from tuned.profiles.locator import Locator
from tuned.profiles.merger import Merger
from tuned.profiles.variables import Variables
variables = Variables()
loader = Loader(Locator([sys.argv[1]]), Factory(), Merger(), None, variables)
profile = loader.load([sys.argv[2]])
units = {name: {option: variables.expand(value) for option, value in unit.options.items()}
         for name, unit in profile.units.items()}
devices = {name: unit.devices for name, unit in profile.units.items()}
print(json.dumps({'units': units, 'devices': devices, 'summary': profile.options['summary']}))
";

#[test]
fn tuned_itself_loads_exported_profile() {
    let python = |arguments: &[&str]| Command::new("/usr/bin/python3").args(arguments).output();
    let has_tuned = python(&["-c", "import tuned.profiles"]).is_ok_and(|out| out.status.success());
    if !has_tuned {
        skip!(Program, "tuned is not installed");
        return;
    }
    let online = Host::live().online().unwrap();
    let measured: CpuSet = online.iter().next_back().into_iter().collect();
    let others = online.difference(&measured);
    let export = TunedExport::new(&Request {
        profile: Some(Profile::find("control").unwrap()),
        sets: vec![
            Wish::parse("energy-bias=0").unwrap(),
            Wish::parse("irqbalance-banned=measured").unwrap(),
        ],
        cpus: Some(measured.clone()),
    })
    .unwrap();
    let root = tree(&[("mine/tuned.conf", &export.text)]);
    let output = python(&["-c", LOAD, root.path().to_str().unwrap(), "mine"]).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = measured.first().unwrap();
    assert_eq!(loaded["devices"]["cpu"], format!("cpu{last}"));
    assert_eq!(loaded["units"]["cpu"]["energy_perf_bias"], "performance");
    assert_eq!(loaded["units"]["cpu"]["governor"], "performance");
    assert_eq!(
        loaded["units"]["irqbalance"]["banned_cpus"],
        last.to_string()
    );
    let workers = &loaded["units"]["sysfs"]["/sys/devices/virtual/workqueue/cpumask"];
    let workers = workers.as_str().unwrap().trim_start_matches(['0', ',']);
    assert_eq!(workers, mask(&others), "{loaded}");
    let boot = loaded["units"]["bootloader"]["cmdline_punctual"]
        .as_str()
        .unwrap();
    assert!(
        boot.starts_with('+') && boot.contains(&format!("rcu_nocbs={last}")),
        "{boot}"
    );
}
