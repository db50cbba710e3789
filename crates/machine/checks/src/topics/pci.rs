//! Checks of PCI devices that sleep, and of PCI Express links that sleep.

use std::collections::BTreeMap;

use punctual_model::{Severity, counted};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::{BASE, Check};

/// State of a device now: `active`, `suspended` or `unsupported`.
const STATUS: &str = "/sys/bus/pci/devices/*/power/runtime_status";

pub(super) const LINKS: Check = Check {
    name: "pci-link-states",
    subject: "sleep states of PCI Express links",
    severity: Severity::Info,
    expected: "off for each device",
    setting: "pci-link-power",
    judge: links,
    why: "A link that sleeps takes microseconds to wake at the next access to the device. The \
          policy for all links can be overridden for a device.",
    ..BASE
};

pub(super) const RUNTIME: Check = Check {
    name: "pci-devices",
    subject: "PCI devices that sleep",
    expected: "none (power/control on)",
    setting: "pci-runtime-power",
    reads: &[STATUS],
    judge: runtime,
    why: "A device that sleeps while it is idle takes milliseconds to wake. Some drivers delay other \
          threads meanwhile: graphics on Tiger Lake caused wake-ups that were 1 ms late.",
    ..BASE
};

/// Returns the device of a path below /sys/bus/pci/devices.
fn device_of(file: &str) -> &str {
    file.split('/').nth(5).unwrap_or_default()
}

/// Returns the last part of a path.
fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or_default()
}

fn links(reader: &FactReader) -> Judged {
    let found = reader.find(reader.own).map_err(|missing| match missing {
        Missing::NotApplicable(_) => without_links(reader),
        other => other,
    })?;
    let mut on: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut devices = 0_u64;
    let mut last = "";
    for (file, text) in &found.texts {
        let device = device_of(file);
        devices += u64::from(device != last);
        last = device;
        match *text {
            "0" => {}
            "1" => on.entry(device).or_default().push(name_of(file)),
            other => {
                reader.saw(*file, other);
                let why = format!("{file} reads '{}'", line(other));
                return Err(Missing::unknown(why));
            }
        }
    }
    for (device, states) in on.iter().take(4) {
        reader.saw(
            format!("/sys/bus/pci/devices/{device}/link"),
            &states.join(", "),
        );
    }
    if !on.is_empty() {
        let states = on
            .iter()
            .map(|(device, states)| format!("{device} {}", states.join(" ")));
        return Ok(Verdict::Warn(line(&format!(
            "{} of {}: {}",
            on.len(),
            counted(devices, "device", "devices"),
            states.collect::<Vec<_>>().join("; ")
        ))));
    }
    if let Some(why) = found.refused {
        reader.could_not(reader.own, &why);
        return Err(Missing::Unknown(why));
    }
    reader.saw(reader.own, "0");
    Ok(Verdict::Ok(format!(
        "off for {}",
        counted(devices, "device", "devices")
    )))
}

/// Returns the reason why no device shows its link states. With `pcie_aspm=off`, the kernel leaves
/// the states as the firmware set them and does not show them.
fn without_links(reader: &FactReader) -> Missing {
    match reader.boot("pcie_aspm") {
        Ok(Some("off")) => Missing::unknown(
            "the kernel was booted with pcie_aspm=off, so it does not show what the firmware set",
        ),
        Ok(_) => Missing::not_applicable(
            "no PCI Express device shows its link states: none has them, or the firmware controls \
             them",
        ),
        Err(missing) => missing,
    }
}

fn runtime(reader: &FactReader) -> Judged {
    let found = reader.find(reader.own).map_err(|missing| match missing {
        Missing::NotApplicable(_) => {
            Missing::not_applicable("no PCI device can sleep while the machine runs")
        }
        other => other,
    })?;
    let mut sleepers = Vec::new();
    for (file, text) in &found.texts {
        match *text {
            "on" => {}
            "auto" => {
                if sleepers.len() < 4 {
                    reader.saw(*file, text);
                }
                sleepers.push(device_of(file));
            }
            other => {
                reader.saw(*file, other);
                let why = format!("{file} reads '{}'", line(other));
                return Err(Missing::unknown(why));
            }
        }
    }
    let devices = counted(found.texts.len() as u64, "device", "devices");
    if !sleepers.is_empty() {
        // Without the states, it is only unknown how many devices sleep now.
        let states = reader.files(STATUS).unwrap_or_default();
        let asleep = states
            .iter()
            .filter(|(file, text)| *text == "suspended" && sleepers.contains(&device_of(file)));
        return Ok(Verdict::Warn(line(&format!(
            "{} of {devices} may sleep, {} asleep now: {}",
            sleepers.len(),
            if states.is_empty() {
                "unknown".to_owned()
            } else {
                asleep.count().to_string()
            },
            sleepers.join(", ")
        ))));
    }
    if let Some(why) = found.refused {
        reader.could_not(reader.own, &why);
        return Err(Missing::Unknown(why));
    }
    reader.saw(reader.own, "on");
    Ok(Verdict::Ok(format!("none of {devices}")))
}
