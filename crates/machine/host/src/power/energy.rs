//! Energy counters that the kernel provides as files.

use punctual_model::EnergyUse;

use crate::root::{Root, number};

/// Folder of the power capping framework (kernel: Documentation/power/powercap/powercap.rst).
const POWERCAP: &str = "/sys/class/powercap";

/// Folder of hardware monitors (kernel: Documentation/hwmon/sysfs-interface.rst).
const HWMON: &str = "/sys/class/hwmon";

/// The value of an energy counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Energy {
    domain: String,
    micro_joules: u64,
    /// Maximum value, after which the counter wraps.
    range: Option<u64>,
}

/// Reads all domains, those of powercap first.
pub(super) fn read(root: &Root) -> Vec<Energy> {
    let read = |path: String| -> Option<u64> { number(&root.text(&path).ok()?).ok() };
    let word = |path: String| root.text(&path).map(|text| text.trim().to_owned());
    let mut all = Vec::new();
    for zone in root.names(POWERCAP).unwrap_or_default() {
        let folder = format!("{POWERCAP}/{zone}");
        if let Some(micro_joules) = read(format!("{folder}/energy_uj")) {
            let name = word(format!("{folder}/name")).unwrap_or_default();
            all.push(Energy {
                domain: format!("{name} ({zone})"),
                micro_joules,
                range: read(format!("{folder}/max_energy_range_uj")),
            });
        }
    }
    for chip in root.numbered(HWMON, "hwmon").unwrap_or_default() {
        let folder = format!("{HWMON}/hwmon{chip}");
        let name = word(format!("{folder}/name")).unwrap_or_default();
        for file in root.names(&folder).unwrap_or_default() {
            let input = file
                .strip_suffix("_input")
                .filter(|name| name.starts_with("energy"));
            let Some(input) = input else { continue };
            if let Some(micro_joules) = read(format!("{folder}/{file}")) {
                let label = word(format!("{folder}/{input}_label"));
                all.push(Energy {
                    domain: format!("{name} {}", label.unwrap_or_else(|_| input.to_owned())),
                    micro_joules,
                    range: None,
                });
            }
        }
    }
    all.sort_by(|a, b| a.domain.cmp(&b.domain));
    all
}

/// Returns the energy that each domain used between two readings. A counter below its start value
/// is assumed to have wrapped once. If its range is unknown, the domain is left out.
pub(super) fn since(end: &[Energy], start: &[Energy]) -> Vec<EnergyUse> {
    let of = |end: &Energy| {
        let start = start.iter().find(|start| start.domain == end.domain)?;
        let used = match end.micro_joules.checked_sub(start.micro_joules) {
            Some(used) => used,
            None => (end.range?.checked_sub(start.micro_joules)?) + end.micro_joules,
        };
        Some(EnergyUse {
            domain: end.domain.clone(),
            micro_joules: used,
        })
    };
    end.iter().filter_map(of).collect()
}
